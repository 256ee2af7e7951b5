#!/usr/bin/env python3
"""What staleness costs in quality: `./dev bench async_quality [--json F]`.

Real processes on this machine, one trainer and two rollouts: the small Llama of examples/addition is
taught by demonstrations once, and learns on by grpo, --steps steps, in mode sync and in mode async
with several bounds of staleness. Naive: the loss takes the log-probs of the rollout. Corrected:
decoupled PPO with truncated importance sampling by token. Each seed draws other prompts in another
order, and samples otherwise; the accuracy is that of sampled answers to 2,000 held-out questions
after the last step.

Rows:
    accuracy/sync, accuracy/kK/{naive,corrected}       mean over the seeds, in percent
    difference/kK/{naive,corrected}                    mean of (async - sync) of the same seed, points
    difference_low/kK/..., difference_high/kK/...      its 95% interval (Student's t over the seeds)
    staleness_mean/kK/...                              of the trained responses
    staleness_share/kK/.../S                           of them, those with staleness S
K = 32 is the largest bound that a spec may have, and stands for none.
"""
import argparse
import math
import os
import tempfile

from job_cluster import BIN, JobCluster, report

CORRECTED = ["algorithm.recompute_log_prob=true", "algorithm.loss.rollout_is=token",
             "algorithm.loss.rollout_is_threshold=2.0"]
# Two-sided 95% quantiles of Student's t, by degrees of freedom.
T95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


def train(cluster, arguments, name, seed, sets):
    """Returns the accuracy in percent, and the share of responses by staleness."""
    data = os.path.join(cluster.work, "data")
    cluster.train(name, "rl.yaml", [
        "model.path=job:sft", f"data.train_files=[{data}/rl.jsonl]",
        f"data.val_files=[{data}/val.jsonl]", "trainer.test_freq=0", "trainer.val_before_train=false",
        "trainer.val_after_train=true", f"trainer.total_training_steps={arguments.steps}",
        f"data.seed={seed}", *sets])
    metrics = cluster.metrics(name, arguments.steps)
    accuracy = 100 * metrics[arguments.steps]["val/reward"]
    shares = {}
    for values in metrics.values():
        for key, share in values.items():
            if key.startswith("staleness/share_"):
                behind = int(key.rsplit("_", 1)[1])
                shares[behind] = shares.get(behind, 0) + share
    count = sum(shares.values())
    shares = {behind: share / count for behind, share in sorted(shares.items()) if share > 0}
    told = " ".join(f"{behind}:{share:.2f}" for behind, share in shares.items())
    print(f"{name:26} {accuracy:6.2f} %   {told}", flush=True)
    return accuracy, shares


def interval(differences):
    """Mean and 95% interval."""
    mean = sum(differences) / len(differences)
    if len(differences) < 2:
        return mean, -math.inf, math.inf
    variance = sum((d - mean) ** 2 for d in differences) / (len(differences) - 1)
    half = T95[len(differences) - 1] * math.sqrt(variance / len(differences))
    return mean, mean - half, mean + half


def rows_of(runs):
    rows = []
    for name, results in runs.items():
        accuracies = [accuracy for accuracy, _ in results]
        rows.append((f"accuracy/{name}", sum(accuracies) / len(accuracies), "%"))
        if name == "sync":
            continue
        mean, low, high = interval([a - s for a, (s, _) in zip(accuracies, runs["sync"])])
        histogram = {}
        for _, shares in results:
            for behind, share in shares.items():
                histogram[behind] = histogram.get(behind, 0) + share / len(results)
        rows += [(f"difference/{name}", mean, "points"), (f"difference_low/{name}", low, "points"),
                 (f"difference_high/{name}", high, "points"),
                 (f"staleness_mean/{name}", sum(k * s for k, s in histogram.items()), "updates")]
        rows += [(f"staleness_share/{name}/{k}", s, "share") for k, s in sorted(histogram.items())]
    return [{"name": name, "value": value, "unit": unit} for name, value, unit in rows]


def main():
    parser = argparse.ArgumentParser(description="Accuracy by staleness, real processes")
    parser.add_argument("--json", metavar="FILE", help="write the rows here")
    parser.add_argument("--seeds", type=int, default=5, choices=range(1, 11), metavar="1..10")
    parser.add_argument("--digits", type=int, default=3)
    parser.add_argument("--steps", type=int, default=150, help="of each job")
    parser.add_argument("--sft-steps", type=int, default=400, help="that teach the first model")
    parser.add_argument("--staleness", type=int, nargs="+", default=[0, 2, 4, 8, 32], metavar="K")
    parser.add_argument("--bin", default=BIN)
    arguments = parser.parse_args()
    runs = {"sync": []}
    with tempfile.TemporaryDirectory(prefix="baton-quality-bench-") as work:
        cluster = JobCluster(arguments.bin, work)
        cluster.make_data(1, arguments.digits)
        try:
            cluster.start(rollouts=2)
            print(f"teaching the first model, {arguments.sft_steps} steps", flush=True)
            cluster.teach("sft", arguments.sft_steps, 1)
            for seed in range(1, arguments.seeds + 1):
                runs["sync"].append(train(cluster, arguments, f"sync-seed{seed}", seed, []))
                for k in arguments.staleness:
                    for how, sets in (("naive", []), ("corrected", CORRECTED)):
                        runs.setdefault(f"k{k}/{how}", []).append(
                            train(cluster, arguments, f"k{k}-{how}-seed{seed}", seed,
                                  ["algorithm.mode=async", f"schedule.max_staleness={k}", *sets]))
        finally:
            cluster.run("down")
    report("async_quality", rows_of(runs), arguments.json)


if __name__ == "__main__":
    main()
