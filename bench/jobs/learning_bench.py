#!/usr/bin/env python3
"""That presets learn: `./dev bench learning [--json F]`.

Real processes on this machine, one trainer, two rollouts and one scorer: the small Llama of examples/addition is
taught by demonstrations once, and each preset goes on from it for --steps steps, rewarded for the
right number. One seed shows that a preset learns, and not which one is best.

Rows of preset P:
    P/accuracy_before, P/accuracy_after   share of right answers to the held-out questions, one
                                          sampled answer to each, before the first step and after
                                          the last one
    P/reward_first, P/reward_last         mean reward of the first and of the last ten steps
    P/seconds                             of the whole job, both evaluations included
"""
import argparse
import json
import os
import tempfile
import time

from job_cluster import BIN, JobCluster, report

PRESETS = ("grpo", "rloo", "remax", "dapo")
WINDOW = 10  # steps of a mean


def train(cluster, arguments, preset):
    """The rows of a job with this preset."""
    data = os.path.join(cluster.work, "data")
    begin = time.monotonic()
    cluster.train(preset, "rl.yaml", [
        "model.path=job:sft", f"data.train_files=[{data}/rl.jsonl]", f"data.val_files=[{data}/val.jsonl]",
        "trainer.val_before_train=true", "trainer.val_after_train=true", "trainer.test_freq=0",
        f"algorithm={{preset: {preset}}}", f"trainer.total_training_steps={arguments.steps}",
        f"data.seed={arguments.seed}"])
    seconds = time.monotonic() - begin
    steps = json.loads(cluster.run("metrics", preset, "-n", str(arguments.steps + 1), "-o", "json"))["steps"]
    return rows_of(preset, [step["metrics"] for step in steps], seconds)


def rows_of(preset, metrics, seconds):
    """`metrics`: of all steps in their order; the first are of the evaluation before them."""
    accuracies = [values["val/accuracy"] for values in metrics if "val/accuracy" in values]
    rewards = [values["critic/score/mean"] for values in metrics if "critic/score/mean" in values]
    figures = [("accuracy_before", accuracies[0], "share"), ("accuracy_after", accuracies[-1], "share"),
               ("reward_first", sum(rewards[:WINDOW]) / WINDOW, ""),
               ("reward_last", sum(rewards[-WINDOW:]) / WINDOW, ""), ("seconds", seconds, "s")]
    return [{"name": f"{preset}/{name}", "value": value, "unit": unit} for name, value, unit in figures]


def main():
    parser = argparse.ArgumentParser(description="What presets learn, real processes")
    parser.add_argument("--json", metavar="FILE", help="write the rows here")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--digits", type=int, default=3)
    parser.add_argument("--steps", type=int, default=80, help=f"of each job, at least {WINDOW}")
    parser.add_argument("--sft-steps", type=int, default=400, help="that teach the first model")
    parser.add_argument("--preset", action="append", help=f"by default {', '.join(PRESETS)}")
    parser.add_argument("--bin", default=BIN)
    arguments = parser.parse_args()
    if arguments.steps < WINDOW:
        parser.error(f"--steps is at least {WINDOW}")
    rows = []
    with tempfile.TemporaryDirectory(prefix="baton-learning-bench-") as work:
        cluster = JobCluster(arguments.bin, work)
        cluster.make_data(arguments.seed, arguments.digits)
        try:
            cluster.start(rollouts=2, scorers=1)
            print(f"teaching the first model, {arguments.sft_steps} steps", flush=True)
            cluster.teach("sft", arguments.sft_steps, arguments.seed)
            for preset in arguments.preset or PRESETS:
                print(f"{preset}, {arguments.steps} steps", flush=True)
                rows += train(cluster, arguments, preset)
        finally:
            cluster.run("down")
    report("learning", rows, arguments.json)


if __name__ == "__main__":
    main()
