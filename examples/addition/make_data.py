#!/usr/bin/env python3
"""Makes the data of the addition example: add two numbers, writing the working digit by digit.

    make_data.py --out DIR [--digits D] [--seed S] [--sft N] [--rl N] [--val N]

writes three files of JSON lines into DIR:

    sft.jsonl  {"prompt": "47+85:", "response": "7+5+0=12 4+8+1=13 #132"}, with mistakes
    rl.jsonl   {"prompt": "47+85:", "answer": "132"}
    val.jsonl  the same, of pairs that the other two never have

README.md beside this file says what the numbers mean. The same arguments give the same bytes.
Needs nothing beyond Python 3.
"""
import argparse
import hashlib
import json
import os
import random
import sys

MISTAKES = 0.4  # of the demonstrations have one wrong digit
DEFAULT_VAL = 2000


def working(a, b):
    """One `x+y+carry=sum` a digit, the lowest first, then # and the result."""
    columns = []
    carry, x, y = 0, a, b
    while x or y or not columns:
        total = x % 10 + y % 10 + carry
        columns.append(f"{x % 10}+{y % 10}+{carry}={total}")
        carry, x, y = total // 10, x // 10, y // 10
    return " ".join(columns) + f" #{a + b}"


def with_mistake(rng, text):
    """One digit, anywhere in the text, becomes another one; nothing else follows it."""
    place = rng.choice([i for i, c in enumerate(text) if c.isdigit()])
    wrong = rng.choice([d for d in "0123456789" if d != text[place]])
    return text[:place] + wrong + text[place + 1:]


def draw_number(rng, digits):
    """Every length from 1 to `digits` is as likely, then every number of that length."""
    length = rng.randint(1, digits)
    return rng.randint(0 if length == 1 else 10 ** (length - 1), 10 ** length - 1)


def held_out(a, b):
    """One pair in ten belongs to validation, whatever the seed."""
    return hashlib.sha256(f"{a}+{b}".encode()).digest()[0] % 10 == 0


def draw_pair(rng, digits, validation):
    while True:
        a, b = draw_number(rng, digits), draw_number(rng, digits)
        if held_out(a, b) == validation:
            return a, b


def held_out_pairs(digits):
    numbers = range(10 ** digits)
    return sum(held_out(a, b) for a in numbers for b in numbers)


def distinct_held_out_pairs(rng, digits, count):
    if digits <= 2:
        available = held_out_pairs(digits)
        if count is not None and count > available:
            sys.exit(f"make_data.py: --val {count}: only {available} pairs of up to {digits} "
                     f"digit(s) are held out; ask for fewer")
        count = min(count or DEFAULT_VAL, available)
    pairs = {}  # Keeps the order of insertion.
    while len(pairs) < (count or DEFAULT_VAL):
        pairs[draw_pair(rng, digits, True)] = None
    return list(pairs)


def write_lines(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")


def demonstrations(rng, digits, count):
    for _ in range(count):
        a, b = draw_pair(rng, digits, False)
        response = working(a, b)
        if rng.random() < MISTAKES:
            response = with_mistake(rng, response)
        yield {"prompt": f"{a}+{b}:", "response": response}


def questions(pairs):
    return ({"prompt": f"{a}+{b}:", "answer": str(a + b)} for a, b in pairs)


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description="Makes the data of the addition example.")
    parser.add_argument("--out", required=True, help="folder to write to; made if missing")
    parser.add_argument("--digits", type=int, default=3, help="of the longest number, 1 to 18")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sft", type=int, default=25600, help="demonstrations")
    parser.add_argument("--rl", type=int, default=20000, help="prompts to learn from")
    parser.add_argument("--val", type=int,
                        help=f"held-out pairs, all different (default {DEFAULT_VAL}, or all there "
                             "are)")
    arguments = parser.parse_args(argv)
    if not 1 <= arguments.digits <= 18:
        parser.error(f"--digits {arguments.digits} is not in 1 to 18")
    for name in ("sft", "rl", "val"):
        if getattr(arguments, name) is not None and getattr(arguments, name) < 1:
            parser.error(f"--{name} {getattr(arguments, name)} is below 1")
    return arguments


def main(argv):
    arguments = parse_arguments(argv)
    digits = arguments.digits
    # Each file has its own generator: asking for more lines of one file does not change the others.
    sft, rl, val = (random.Random(f"{name}:{arguments.seed}") for name in ("sft", "rl", "val"))
    held = distinct_held_out_pairs(val, digits, arguments.val)
    os.makedirs(arguments.out, exist_ok=True)
    write_lines(os.path.join(arguments.out, "sft.jsonl"), demonstrations(sft, digits, arguments.sft))
    pairs = (draw_pair(rl, digits, False) for _ in range(arguments.rl))
    write_lines(os.path.join(arguments.out, "rl.jsonl"), questions(pairs))
    write_lines(os.path.join(arguments.out, "val.jsonl"), questions(held))


if __name__ == "__main__":
    main(sys.argv[1:])
