#!/usr/bin/env python3
"""What a job gains when its rollouts run ahead of its trainer: `./dev bench async [--json F]`.

Real processes on this machine, one trainer and one rollout, each with one compute thread: a small
Llama that was taught to add numbers of --digits digits, so that its responses have a long tail. Each
variant runs in mode sync and then in mode async, with the same seed and the same settings:

    generation_bound   few responses at once, so that generation takes longer than training, or about as long
    training_bound     several epochs a step, so that training takes longer; a smaller learning rate, for
                       otherwise the lengths of responses soon differ, and so does the work of a step
    large/…            both with a larger model (--large-steps steps): of the first one, which takes some
                       milliseconds for a response, the controller and the reward worker need a sixth of
                       the two cores
    begin_order        what schedule.begin_order gains: few prompts that come again, and max_staleness 0,
                       so that each batch waits for its longest response; data_order beside longest_first

Rows of a variant V:
    V/steps_per_second/{sync,async}   steps over the seconds of all steps but the first two
    V/update_seconds/{sync,async}     of a step, at the trainer; and the tokens that a step trains on:
    V/tokens_per_step/{sync,async}    where these differ, the speeds compare different work
    V/speedup                         async over sync
    V/ceiling                         (generation + training) / max of both, of the sync run: what is
                                      possible where each process has a core of its own
    V/speedup_over_ceiling            aim: at least 0.9
    V/cores_ceiling                   the same on the cores of this machine, which all processes share: no more
                                      steps than these cores have CPU time for
    V/speedup_over_cores_ceiling
    V/trainer_idle, V/rollout_idle    of the async run: share of the time in which it had nothing to do
                                      (metrics idle/trainer, idle/rollouts); /sync of the sync run
    V/trainer_cores, V/rollout_cores  cores that the process used; /sync of the sync run
    V/staleness_p50, V/staleness_max  updates between the weights that made a response and those that
                                      learned from it
    V/token_speedup                   async over sync by trained tokens a second; the steps of both
                                      runs are of different length
    V/update_slowdown                 seconds of an update for each trained token, async over sync: above
                                      1 the processes share cores, and the ceiling is out of reach
    V/overlap                         token_speedup x update_slowdown over the ceiling: what would be
                                      reached if they did not
    V/refresh_accepted                of the tokens that newer weights were to make again, the share
                                      that they drew as well
    V/refreshed_responses             share of the trained responses that were stopped for that
    V/stale_dropped_tokens            share of the generated tokens that were too old; aim: <= 0.01
Rows of begin_order:
    begin_order/tokens_per_second/{data_order,longest_first}   trained tokens over the seconds of all steps
                                      after the first epoch, for lengths are not known before
    begin_order/speedup               longest_first over data_order
"""
import argparse
import os
import tempfile

from job_cluster import BIN, JobCluster, report

SMALL, LARGE = "sft", "sft-large"
LARGE_MODEL = ["model.init.hidden_size=256", "model.init.intermediate_size=704",
               "model.init.num_hidden_layers=6", "model.init.num_attention_heads=8"]
GENERATION_BOUND = ["actor.ppo_epochs=1", "rollout.max_num_seqs=4"]
TRAINING_BOUND = ["actor.ppo_epochs=4", "actor.lr=5e-5"]
# The model that a variant begins with, and what its jobs set.
VARIANTS = {"generation_bound": (SMALL, GENERATION_BOUND),
            "training_bound": (SMALL, TRAINING_BOUND),
            "large/generation_bound": (LARGE, [*GENERATION_BOUND, "rollout.max_num_seqs=2"]),
            "large/training_bound": (LARGE, TRAINING_BOUND)}
ORDERS = ("data_order", "longest_first")
GROUPS, SAMPLES = 16, 8  # of a batch
PROMPTS = 64  # of variant begin_order: an epoch has 4 steps
SKIPPED = 2  # first steps: roles are taken on, and the buffer fills


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Busy:
    """CPU time of the cluster's processes while a job runs."""
    NAMES = {"actor-0": "trainer", "rollout-0": "rollout"}

    def __init__(self, cluster):
        self.pids = {self.NAMES.get(name, name): pid for name, pid in cluster.pids().items()}
        self.before = self.now()

    def now(self):
        return {name: cpu_seconds(pid) for name, pid in self.pids.items()}

    def cores(self, seconds):
        now = self.now()
        return {name: (now[name] - self.before[name]) / seconds for name in now}


def total(metrics, name):
    return sum(values.get(name, 0) for step, values in metrics.items() if step > SKIPPED)


def train(cluster, arguments, name, prompts, sets, model=SMALL, steps=None):
    """The metrics of a job, by step."""
    name = name.replace("_", "-").replace("/", "-")
    steps = steps or arguments.steps
    cluster.train(name, "rl.yaml", [
        f"model.path=job:{model}", f"data.train_files=[{cluster.work}/data/{prompts}]", "data.val_files=[]",
        f"data.train_batch_size={GROUPS}", f"rollout.n={SAMPLES}", "trainer.test_freq=0",
        "trainer.val_before_train=false", "trainer.val_after_train=false",
        f"trainer.total_training_steps={steps}", f"data.seed={arguments.seed}",
        "resources.rollout_workers=1",
        # Without a filter each step trains on as much in both runs.
        "algorithm.filter_groups=false", *sets])
    return cluster.metrics(name, steps)


def run_job(cluster, arguments, variant, mode):
    model, sets = VARIANTS[variant]
    steps = arguments.large_steps if model == LARGE else arguments.steps
    print(f"{variant}, mode {mode}, {steps} steps", flush=True)
    busy = Busy(cluster)
    bound = [f"schedule.max_staleness={arguments.max_staleness}"] if mode == "async" else []
    metrics = train(cluster, arguments, f"{variant}-{mode}", "rl.jsonl",
                    [f"algorithm.mode={mode}", *sets, *bound], model, steps)
    seconds = sum(values["timing_s/step"] for values in metrics.values())
    return metrics, busy.cores(seconds)


def begin_order_rows(cluster, arguments):
    with open(f"{cluster.work}/data/rl.jsonl", encoding="utf-8") as file:
        prompts = file.readlines()[:PROMPTS]
    with open(f"{cluster.work}/data/few.jsonl", "w", encoding="utf-8") as file:
        file.writelines(prompts)
    speed = {}
    for order in ORDERS:
        print(f"begin_order, {order}, {arguments.steps} steps", flush=True)
        metrics = train(cluster, arguments, f"begin-order-{order}", "few.jsonl",
                        ["algorithm.mode=async", "schedule.max_staleness=0",
                         f"schedule.begin_order={order}", "rollout.max_num_seqs=16"])
        later = {s: v for s, v in metrics.items() if s > PROMPTS // GROUPS}
        speed[order] = total(later, "perf/total_num_tokens") / total(later, "timing_s/step")
    rows = [(f"tokens_per_second/{order}", speed[order], "tokens/s") for order in ORDERS]
    rows.append(("speedup", speed["longest_first"] / speed["data_order"], "x"))
    return [{"name": f"begin_order/{name}", "value": value, "unit": unit}
            for name, value, unit in rows]


def percentile_of_shares(metrics, fraction):
    """Of the shares of responses at each staleness, over all steps."""
    shares = {}
    for step, values in metrics.items():
        for name, share in values.items():
            if name.startswith("staleness/share_") and step > SKIPPED:
                behind = int(name.rsplit("_", 1)[1])
                shares[behind] = shares.get(behind, 0) + share
    left = fraction * sum(shares.values())
    for behind in sorted(shares):
        left -= shares[behind]
        if left <= 0:
            return behind
    return 0


def rows_of(variant, runs):
    sync, async_ = runs["sync"][0], runs["async"][0]
    speed = {mode: (len(runs[mode][0]) - SKIPPED) / total(runs[mode][0], "timing_s/step")
             for mode in runs}
    generation = total(sync, "timing_s/gen")
    training = total(sync, "timing_s/step") - generation
    ceiling = (generation + training) / max(generation, training)
    # A step of mode async needs the CPU time of all processes.
    seconds_of_cores = (sum(runs["async"][1].values()) / os.cpu_count() *
                        sum(v["timing_s/step"] for v in async_.values()) / len(async_))
    step = total(sync, "timing_s/step") / (len(sync) - SKIPPED)
    cores_ceiling = min(ceiling, step / seconds_of_cores)
    speedup = speed["async"] / speed["sync"]
    tokens = total(async_, "perf/total_num_tokens")
    dropped = total(async_, "buffer/stale_dropped_tokens")
    drafted = total(async_, "refresh/draft_tokens")
    responses = (len(async_) - SKIPPED) * GROUPS * SAMPLES

    def rate(metrics):
        return total(metrics, "perf/total_num_tokens") / total(metrics, "timing_s/step")

    def update(metrics):
        return total(metrics, "timing_s/update_actor") / total(metrics, "perf/total_num_tokens")

    slowdown = update(async_) / update(sync)
    figures = []
    for mode in ("sync", "async"):
        steps = len(runs[mode][0]) - SKIPPED
        figures += [(f"steps_per_second/{mode}", speed[mode], "1/s"),
                    (f"update_seconds/{mode}",
                     total(runs[mode][0], "timing_s/update_actor") / steps, "s"),
                    (f"tokens_per_step/{mode}",
                     total(runs[mode][0], "perf/total_num_tokens") / steps, "tokens")]
    figures += [("speedup", speedup, "x"), ("ceiling", ceiling, "x"),
                ("speedup_over_ceiling", speedup / ceiling, "x"),
                ("cores_ceiling", cores_ceiling, "x"),
                ("speedup_over_cores_ceiling", speedup / cores_ceiling, "x"),
                ("token_speedup", rate(async_) / rate(sync), "x"),
                ("update_slowdown", slowdown, "x"),
                ("overlap", rate(async_) / rate(sync) * slowdown / ceiling, "x")]
    for who, metric in (("trainer", "idle/trainer"), ("rollout", "idle/rollouts")):
        for mode, name in (("async", ""), ("sync", "/sync")):
            metrics, cores = runs[mode]
            idle = sum(v.get(metric, 0) * v["timing_s/step"] for s, v in metrics.items()
                       if s > SKIPPED)
            figures += [(f"{who}_idle{name}", idle / total(metrics, "timing_s/step"), "share"),
                        (f"{who}_cores{name}", cores[who], "cores")]
    figures += [("staleness_p50", percentile_of_shares(async_, 0.5), "updates"),
                ("staleness_max", max(v.get("staleness/max", 0) for v in async_.values()), "updates"),
                ("refresh_accepted", total(async_, "refresh/accepted_tokens") / max(1, drafted), "share"),
                ("refreshed_responses", total(async_, "refresh/responses") / responses, "share"),
                ("stale_dropped_tokens", dropped / max(1, tokens + dropped), "share")]
    return [{"name": f"{variant}/{name}", "value": value, "unit": unit}
            for name, value, unit in figures]


def main():
    parser = argparse.ArgumentParser(description="Mode async beside mode sync, real processes")
    parser.add_argument("--json", metavar="FILE", help="write the rows here")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--digits", type=int, default=6)
    parser.add_argument("--steps", type=int, default=40, help="of each job")
    parser.add_argument("--sft-steps", type=int, default=400, help="that teach the first model")
    parser.add_argument("--large-steps", type=int, default=15, help="of each job with the large model")
    parser.add_argument("--large-sft-steps", type=int, default=150, help="that teach the large model")
    parser.add_argument("--max-staleness", type=int, default=4)
    parser.add_argument("--variant", choices=[*VARIANTS, "begin_order"], action="append")
    parser.add_argument("--bin", default=BIN)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="baton-async-bench-") as work:
        cluster = JobCluster(arguments.bin, work)
        cluster.make_data(arguments.seed, arguments.digits)
        try:
            cluster.start()
            print(f"teaching the first model, {arguments.sft_steps} steps", flush=True)
            cluster.teach("sft", arguments.sft_steps, arguments.seed)
            chosen = arguments.variant or [*VARIANTS, "begin_order"]
            if any(variant in VARIANTS and VARIANTS[variant][0] == LARGE for variant in chosen):
                print(f"teaching the large model, {arguments.large_sft_steps} steps", flush=True)
                cluster.teach(LARGE, arguments.large_sft_steps, arguments.seed, LARGE_MODEL)
            for variant in chosen:
                if variant == "begin_order":
                    rows += begin_order_rows(cluster, arguments)
                    continue
                runs = {}
                for mode in ("sync", "async"):
                    runs[mode] = run_job(cluster, arguments, variant, mode)
                rows += rows_of(variant, runs)
        finally:
            cluster.run("down")
    report("async", rows, arguments.json)


if __name__ == "__main__":
    main()
