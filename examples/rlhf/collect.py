#!/usr/bin/env python3
"""A reward command that judges an answer and writes it down: the samples that pairs are made of.

    collect.py FILE

Reads one response a line on stdin, answers reward 1 when all of it is right (working and result) and
0 otherwise, and appends {"prompt", "response", "right"} to FILE. Stands in for people who compare a
model's answers.
"""
import json
import sys


def main(path):
    with open(path, "a", encoding="utf-8") as samples:
        for line in sys.stdin:
            asked = json.loads(line)
            right = asked["response"] == asked["answer"]
            row = {"prompt": asked["prompt"], "response": asked["response"], "right": right}
            samples.write(json.dumps(row) + "\n")
            samples.flush()
            print(json.dumps({"id": asked["id"], "reward": float(right)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
