#!/usr/bin/env python3
"""What a job learns in mode sync and in mode async, over steps and over wall time:
`./dev bench async_learning [--spec SPEC] [--json F]`.

Real processes on this machine, one trainer and one rollout, each with one compute thread: the job of
SPEC runs in mode sync and then in mode async with each bound of --staleness, with the same seeds, steps
and settings. The default is examples/first_job. LABEL is the name of SPEC's folder.

A reward is the mean over a tenth of the steps, up to the one that it is of. Seconds count from the
beginning of the job's work, its setup included. All figures are means over the seeds.

Rows, where RUN is sync or kK for max_staleness K:
    LABEL/seconds/RUN            of all steps
    LABEL/first_step/RUN         seconds of the first step
    LABEL/reward/RUN             after the last step
    LABEL/at_step/RUN/P          reward after P percent of the steps
    LABEL/at_time/RUN/P          reward after P percent of the seconds that sync took with that seed; after
                                 the last step, if the run ended before
    LABEL/seconds_to/RUN         until the reward is --target of the best one of sync; left out if some seed
                                 never got there
    LABEL/speedup_to/kK          sync's seconds_to over this one's
    LABEL/staleness/kK/S         mean staleness of step S, for the first steps
    LABEL/staleness_mean/kK      mean staleness of all steps; staleness_last: of the last one
    LABEL/trainer_idle/RUN       share of the time, as the metric; LABEL/rollout_idle/RUN
"""
import argparse
import os
import sys
import tempfile

from job_cluster import BIN, ROOT, JobCluster, report

FIRST_JOB = os.path.join(ROOT, "examples", "first_job", "job.yaml")
REWARD = "critic/score/mean"
PERCENTS = (10, 25, 50, 75, 100)
FIRST_STEPS = 5  # whose staleness is shown


def curve_of(metrics):
    """By step, in order: seconds since the work began, and the reward."""
    window = max(1, len(metrics) // 10)
    seconds, rewards, curve = 0, [], []
    for step in sorted(metrics):
        seconds += metrics[step]["timing_s/step"]
        rewards.append(metrics[step][REWARD])
        newest = rewards[-window:]
        curve.append((seconds, sum(newest) / len(newest)))
    return curve


def at_step(curve, percent):
    return curve[max(1, round(len(curve) * percent / 100)) - 1][1]


def at_time(curve, seconds):
    """Of the newest step that was done by then; 0 before the first one."""
    done = [reward for when, reward in curve if when <= seconds]
    return done[-1] if done else 0


def seconds_to(curve, target):
    """None: never."""
    return next((when for when, reward in curve if reward >= target), None)


def share(metrics, name):
    """A share of the time, over all steps."""
    total = sum(values["timing_s/step"] for values in metrics.values())
    return sum(values.get(name, 0) * values["timing_s/step"] for values in metrics.values()) / total


def figures_of(name, metrics, sync, target):
    """(row, value, unit) of one run; `sync`: the curve of mode sync with the same seed."""
    curve = curve_of(metrics)
    steps = sorted(metrics)
    figures = [(f"seconds/{name}", curve[-1][0], "s"), (f"first_step/{name}", curve[0][0], "s"),
               (f"reward/{name}", curve[-1][1], "")]
    figures += [(f"at_step/{name}/{p}", at_step(curve, p), "") for p in PERCENTS]
    figures += [(f"at_time/{name}/{p}", at_time(curve, sync[-1][0] * p / 100), "") for p in PERCENTS]
    figures.append((f"seconds_to/{name}", seconds_to(curve, target * max(r for _, r in sync)), "s"))
    if name != "sync":
        stale = [metrics[step]["staleness/mean"] for step in steps]
        figures += [(f"staleness/{name}/{s + 1}", stale[s], "updates")
                    for s in range(min(FIRST_STEPS, len(stale)))]
        figures += [(f"staleness_mean/{name}", sum(stale) / len(stale), "updates"),
                    (f"staleness_last/{name}", stale[-1], "updates")]
    figures += [(f"trainer_idle/{name}", share(metrics, "idle/trainer"), "share"),
                (f"rollout_idle/{name}", share(metrics, "idle/rollouts"), "share")]
    return figures


def rows_of(label, runs, target):
    """`runs`: by name, the metrics of each seed."""
    syncs = [curve_of(metrics) for metrics in runs["sync"]]
    means = {}  # row -> (value, unit)
    for name, seeds in runs.items():
        each = [figures_of(name, metrics, sync, target) for metrics, sync in zip(seeds, syncs)]
        for same in zip(*each):
            values = [value for _, value, _ in same]
            if None not in values:
                means[same[0][0]] = (sum(values) / len(values), same[0][2])
    for name in runs:
        if name != "sync" and f"seconds_to/{name}" in means:
            means[f"speedup_to/{name}"] = (
                means["seconds_to/sync"][0] / means[f"seconds_to/{name}"][0], "x")
    return [{"name": f"{label}/{row}", "value": value, "unit": unit} for row, (value, unit) in means.items()]


def settings_of(arguments):
    """What all jobs set; an evaluation would take time of its own."""
    sets = ["data.val_files=[]", "trainer.test_freq=0", "trainer.val_before_train=false",
            "trainer.val_after_train=false", "resources.rollout_workers=1", *arguments.set]
    if arguments.steps:
        sets.append(f"trainer.total_training_steps={arguments.steps}")
    if arguments.model:
        sets.append(f"model.path={os.path.abspath(arguments.model)}")
    return sets


def main():
    parser = argparse.ArgumentParser(description="Reward over steps and over time, sync beside async")
    parser.add_argument("--json", metavar="FILE", help="write the rows here")
    parser.add_argument("--spec", default=FIRST_JOB, help="of an rl job; by default examples/first_job")
    parser.add_argument("--model", metavar="FOLDER", help="takes the place of the spec's model.path")
    parser.add_argument("--set", action="append", default=[], metavar="A.B=C", help="a setting of all jobs")
    parser.add_argument("--steps", type=int, help="of each job; by default the spec's")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--staleness", type=int, nargs="+", default=[1, 4], metavar="K")
    parser.add_argument("--target", type=float, default=0.9, help="share of sync's best reward")
    parser.add_argument("--bin", default=BIN)
    arguments = parser.parse_args()
    spec = os.path.abspath(arguments.spec)
    if not os.path.isfile(spec):
        sys.exit(f"--spec {arguments.spec}: there is no such file")
    label = os.path.basename(os.path.dirname(spec))
    modes = {"sync": ["algorithm.mode=sync"]}
    for k in arguments.staleness:
        modes[f"k{k}"] = ["algorithm.mode=async", f"schedule.max_staleness={k}"]
    runs = {name: [] for name in modes}
    with tempfile.TemporaryDirectory(prefix="baton-async-learning-bench-") as work:
        cluster = JobCluster(arguments.bin, work)
        try:
            cluster.start()
            for seed in range(1, arguments.seeds + 1):
                for name, mode in modes.items():
                    job = f"{name}-seed{seed}"
                    cluster.train(job, spec, [*settings_of(arguments), f"data.seed={seed}", *mode])
                    runs[name].append(cluster.metrics(job, 100000))
                    curve = curve_of(runs[name][-1])
                    print(f"{label}, {job}: {len(curve)} steps, {curve[-1][0]:.1f} s, "
                          f"reward {curve[-1][1]:.3f}", flush=True)
        finally:
            cluster.run("down")
    report("async_learning", rows_of(label, runs, arguments.target), arguments.json)


if __name__ == "__main__":
    main()
