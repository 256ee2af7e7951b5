#!/usr/bin/env python3
"""The classical chain in one command, of three jobs: sft, then a reward model from pairs of the sft
model's answers, then PPO against that reward model.

    rlhf.py [--out DIR] [--seed S]

Needs `baton` on the PATH and a cluster on this machine: baton up --detach --scorers 3
Prints what each job reached: the pairwise accuracy of the reward model on held-out questions; of PPO
the learned reward, the held-out accuracy (which it never saw) and the KL to where it started.
"""
import argparse
import itertools
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ADDITION = os.path.join(HERE, "..", "addition")
sys.path.insert(0, ADDITION)
import make_data  # noqa: E402

QUESTIONS, ANSWERS = 8000, 8  # that the sft model is asked, and how many to each


def run(*command):
    if subprocess.run(command).returncode != 0:
        sys.exit(f"rlhf.py: `{' '.join(command)}` failed")


def submit(spec, name, *sets):
    options = [o for s in sets for o in ("--set", s)]
    run("baton", "submit", spec, "--name", name, *options, "--watch")


def ask_for_the_working(path):
    """Makes the whole working the answer: a response is right when all of it is."""
    with open(path, encoding="utf-8") as file:
        prompts = [json.loads(line)["prompt"] for line in file]
    numbers = (map(int, prompt.rstrip(":").split("+")) for prompt in prompts)
    make_data.write_lines(path, ({"prompt": p, "answer": make_data.working(*n)}
                                 for p, n in zip(prompts, numbers)))


def copy_lines(source, target, count):
    """The first `count` lines."""
    with open(source, encoding="utf-8") as lines, open(target, "w", encoding="utf-8") as file:
        file.writelines(itertools.islice(lines, count))


def told(*command):
    """What a command of `baton` answers."""
    out = subprocess.run(["baton", *command, "-o", "json"], check=True, capture_output=True,
                         text=True).stdout
    return json.loads(out)


def newest_checkpoint(name):
    """Its folder."""
    return told("checkpoints", name)["checkpoints"][0]["path"]


def metrics(name):
    """[{metric: value}], step by step."""
    steps = told("metrics", name, "-n", "100000").get("steps", [])
    return [step["metrics"] for step in steps]


def ends(steps, key, window):
    """Means of a metric's first and last `window` values."""
    values = [values[key] for values in steps if key in values]
    first, last = values[:window], values[-window:]
    return (sum(first) / len(first), sum(last) / len(last)) if values else (float("nan"),) * 2


def main(argv):
    parser = argparse.ArgumentParser(description="sft, reward model, PPO: the classical chain.")
    parser.add_argument("--out", default="data", help="folder for the data (default: data)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args(argv)
    data, seed = os.path.abspath(arguments.out), str(arguments.seed)
    files = {name: os.path.join(data, name + ".jsonl")
             for name in ("sft", "rl", "val", "questions", "answers", "pairs", "held_out_pairs")}
    seeded = f"data.seed={seed}"
    run(sys.executable, os.path.join(ADDITION, "make_data.py"), "--out", data, "--seed", seed,
        "--digits", "2")
    for name in ("rl", "val"):
        ask_for_the_working(files[name])
    copy_lines(files["rl"], files["questions"], QUESTIONS)

    submit(os.path.join(ADDITION, "sft.yaml"), "rlhf-sft", seeded,
           f"data.train_files=[{files['sft']}]")
    run("baton", "generate", "--model", newest_checkpoint("rlhf-sft"), "--prompts",
        files["questions"], "--samples", str(ANSWERS), "--temperature", "1", "--max-new-tokens",
        "240", "--seed", seed, "--out", files["answers"])
    run(sys.executable, os.path.join(HERE, "make_pairs.py"), files["answers"], "--out", data,
        "--seed", seed)
    submit(os.path.join(HERE, "reward_model.yaml"), "rlhf-reward-model", seeded,
           f"data.train_files=[{files['pairs']}]", f"data.val_files=[{files['held_out_pairs']}]")
    submit(os.path.join(HERE, "ppo.yaml"), "rlhf-ppo", seeded,
           f"data.train_files=[{files['rl']}]", f"data.val_files=[{files['val']}]")

    judge, policy = metrics("rlhf-reward-model"), metrics("rlhf-ppo")
    rows = [("reward model: held-out pairs told right", *ends(judge, "val/accuracy", 1)),
            ("PPO: learned reward, mean of 10 steps", *ends(policy, "critic/score/mean", 10)),
            ("PPO: held-out accuracy, which it never saw", *ends(policy, "val/accuracy", 1)),
            ("PPO: KL to its start, a token, of 10 steps",
             *ends(policy, "actor/reward_kl_penalty", 10))]
    print(f"\n{'':46}{'first':>10}{'last':>10}")
    for name, first, last in rows:
        print(f"{name:46}{first:10.3f}{last:10.3f}")


if __name__ == "__main__":
    main(sys.argv[1:])
