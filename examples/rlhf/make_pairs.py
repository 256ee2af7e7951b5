#!/usr/bin/env python3
"""Makes preference pairs of a model's own answers: of two to a question, the right one is preferred.

    make_pairs.py ANSWERS --out DIR [--seed S]

reads what `baton generate` wrote, a question with all of its answers in each line,

    {"prompt": "47+85:", "answer": "7+5+0=12 4+8+1=13 #132",
     "responses": ["7+5+0=12 4+8+1=12 #122", …], …}

and writes pairs.jsonl and held_out_pairs.jsonl into DIR:

    {"prompt": "47+85:", "chosen": "7+5+0=12 4+8+1=13 #132", "rejected": "7+5+0=12 4+8+1=12 #122"}

An answer is right when all of it is, working and result: this stands in for people who compare a
model's answers. Each wrong answer stands beside the right one to its question, where the model found
it. One question in ten is held out with all of its pairs. The same answers give the same bytes, in
whatever order they come. Needs nothing beyond Python 3.
"""
import argparse
import json
import os
import random


def read(path):
    """{prompt: (the right answer or None, the wrong ones)}."""
    right, wrong = {}, {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            others = wrong.setdefault(row["prompt"], set())
            for response in row["responses"]:
                if response == row["answer"]:
                    right[row["prompt"]] = response
                elif response:  # a pair has two sides
                    others.add(response)
    return {prompt: (right.get(prompt), sorted(others)) for prompt, others in wrong.items()}


def pairs(prompt, right, wrong):
    for rejected in wrong if right else []:
        yield {"prompt": prompt, "chosen": right, "rejected": rejected}


def main():
    parser = argparse.ArgumentParser(description="Makes preference pairs of a model's answers.")
    parser.add_argument("answers", help="what `baton generate` wrote")
    parser.add_argument("--out", required=True, help="folder to write to; made if missing")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = random.Random(f"pairs:{arguments.seed}")
    answers = read(arguments.answers)
    prompts = sorted(answers)
    rng.shuffle(prompts)
    held_out = len(prompts) // 10
    os.makedirs(arguments.out, exist_ok=True)
    for name, those in (("held_out_pairs", prompts[:held_out]), ("pairs", prompts[held_out:])):
        rows = [row for prompt in those for row in pairs(prompt, *answers[prompt])]
        rng.shuffle(rows)
        with open(os.path.join(arguments.out, name + ".jsonl"), "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        print(f"{name}.jsonl: {len(rows)} pairs of {len(those)} questions")


if __name__ == "__main__":
    main()
