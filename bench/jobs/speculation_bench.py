#!/usr/bin/env python3
"""What speculative rollout gains: `./dev bench speculation [--json F]`.

Everything is of examples/addition on this machine: a small Llama that was taught to add numbers of
--digits digits. The same --prompts prompts come again in each step, --samples responses each, at
temperature 1 and top_p 1, so a step is an epoch. K are the responses that the rollout makes at once
(rollout.max_num_seqs). Four parts; --parts takes some of them.

engine: the engine alone. A job trains for --train-steps steps and saves checkpoints after 25% of
them (early), after half (middle) and at the end (late). speculation_engine_bench.cc measures each
with the job's prompts; its opening comment has the rows, which end with the checkpoint. With
--large-steps N it also teaches a larger model for N steps (8 layers, hidden size 512). Its weights
do not fit into the processor's caches, so each pass reads them from memory. It is measured with
--large-prompts prompts, at --large-running; its rows end with /large.

jobs: whole jobs, real processes, one trainer and one rollout, each with one compute thread. For each
K the job runs with rollout.speculation `off` and then `auto`, with the same seed, in mode sync. --pairs N
runs it N times with each, by turns, and sums up their seconds; the rows of one pair have noise of some
percent. Rows, by K and by part of the run (early, middle and late: a third of the steps each; the first step has no
history and is a part of its own):
    K/generation_speedup/PART    seconds of generation a token, off over auto
    K/generation_speedup_spread  highest less lowest of the pairs, without the first step
    K/step_speedup               seconds of all steps, off over auto
    K/acceptance/PART            of the draft tokens that were verified, the share that was drawn
    K/accepted_per_pass/PART     draft tokens that a pass with drafts had drawn
    K/drafted/PART               draft tokens verified, over all tokens
    K/identical                  1: all runs end with the same weights, byte for byte

ahead (not unless it is asked for): whole jobs in which each step asks --ahead-prompts prompts that were never
asked before, 4 samples each: speculation has the siblings alone, and with run_ahead what idle rollouts sampled
while the trainer worked. Rows by K, off over `auto` and off over `auto` with run_ahead; without the first step:
    ahead/K/generation_speedup   seconds of generation a token
    ahead/K/step_speedup         seconds of a step
    ahead/K/run_ahead/...        the same with run_ahead
    ahead/K/sampled_ahead        tokens that were sampled ahead, over all tokens
    ahead/K/identical            1: all three runs end with the same weights

presets (not unless it is asked for): the same of whole jobs under --preset, by default grpo, ppo and
dapo, with 1, 5 and 16 samples, 8 at once, and dapo without dynamic_sampling, so that a step
stays an epoch. Rows as above, PRESET/nN instead of K. There are none of
grpo and dapo with 1 sample: all advantages would be zero.
"""
import argparse
import glob
import hashlib
import json
import os
import subprocess
import tempfile

from job_cluster import BIN, JobCluster, report

MODES = ("off", "auto")
PARTS = ("engine", "jobs", "ahead", "presets")
AHEAD_SAMPLES = 4
PRESET_RUNNING = 8
PRESET_SAMPLES = (1, 5, 16)
LARGE_MODEL = ["model.init.hidden_size=512", "model.init.intermediate_size=1376",
               "model.init.num_hidden_layers=8", "model.init.num_attention_heads=8",
               "actor.lr=5e-4"]


def checkpoint_of(cluster, name, step):
    pattern = os.path.join(cluster.work, "state", "**", name, "checkpoints", f"step-{step}")
    found = glob.glob(pattern, recursive=True)
    if not found:
        raise SystemExit(f"no checkpoint like {pattern}")
    return found[0]


def weights_of(cluster, name, step):
    files = sorted(glob.glob(os.path.join(checkpoint_of(cluster, name, step), "**", "*.safetensors"), recursive=True))
    digest = hashlib.sha256()
    for path in files:
        with open(path, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def train(cluster, arguments, name, steps, sets):
    """A job of examples/addition on the few prompts, from the model that was taught first."""
    cluster.train(name, "rl.yaml", [
        "model.path=job:sft", f"data.train_files=[{cluster.work}/data/few.jsonl]", "data.val_files=[]",
        f"data.train_batch_size={arguments.prompts}", f"rollout.n={arguments.samples}",
        "rollout.temperature=1", "rollout.top_p=1", "rollout.deterministic=true",
        "resources.rollout_workers=1", "actor.lr_warmup_steps=2", "trainer.test_freq=0",
        "trainer.val_before_train=false", "trainer.val_after_train=false",
        f"trainer.total_training_steps={steps}", f"data.seed={arguments.seed}", *sets])


def off_and_auto(cluster, arguments, label, sets):
    """Runs the job in both modes: the rows, whose names begin with `label`."""
    pairs = []
    weights = set()
    for pair in range(arguments.pairs):
        pairs.append({})
        for mode in MODES:
            name = f"spec-{label.replace('/', '-')}-{mode}-{pair + 1}"
            print(f"{label}: speculation {mode}, {arguments.steps} steps", flush=True)
            train(cluster, arguments, name, arguments.steps, [f"rollout.speculation={mode}", *sets])
            pairs[-1][mode] = cluster.metrics(name, arguments.steps)
            weights.add(weights_of(cluster, name, arguments.steps))
    return rows_of(label, arguments.steps, pairs, len(weights) == 1)


def engine_rows(cluster, arguments, checkpoint, label, options):
    """The rows of speculation_engine_bench for a checkpoint."""
    print(f"engine alone, {label}", flush=True)
    out = os.path.join(cluster.work, f"engine-{label}.json")
    done = subprocess.run([os.path.join(arguments.bin, "speculation_engine_bench"), "--model", checkpoint,
                           "--prompts", f"{cluster.work}/data/few.jsonl", "--label", label, "--json", out,
                           "--samples", str(arguments.samples), "--seconds", str(arguments.seconds), *options,
                           *(["--cpu-clock"] if arguments.cpu_clock else [])],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise SystemExit(f"speculation_engine_bench ended with {done.returncode}:\n{done.stdout}")
    with open(out, encoding="utf-8") as file:
        return json.load(file)["rows"]


def engine_part(cluster, arguments):
    steps = arguments.train_steps
    checkpoints = {"early": steps // 4, "middle": steps // 2, "late": steps}
    print(f"training for {steps} steps", flush=True)
    train(cluster, arguments, "trained", steps, [
        f"trainer.save_freq={steps // 4}", "trainer.max_checkpoints=0", "rollout.max_num_seqs=64"])
    usual = ["--num-prompts", str(arguments.prompts)]
    rows = []
    for label, step in checkpoints.items():
        rows += engine_rows(cluster, arguments, checkpoint_of(cluster, "trained", step), label, usual +
                            ["--running", ",".join(map(str, arguments.running))])
    if arguments.large_steps > 0:
        print(f"teaching the large model, {arguments.large_steps} steps", flush=True)
        cluster.teach("large", arguments.large_steps, arguments.seed, LARGE_MODEL)
        rows += engine_rows(cluster, arguments, checkpoint_of(cluster, "large", arguments.large_steps), "large", [
            "--num-prompts", str(min(arguments.prompts, arguments.large_prompts)),
            "--running", ",".join(map(str, arguments.large_running))])
    return rows


def jobs_part(cluster, arguments):
    return [row for running in arguments.running
            for row in off_and_auto(cluster, arguments, str(running), [f"rollout.max_num_seqs={running}"])]


def ahead_part(cluster, arguments):
    rows = []
    with open(f"{cluster.work}/data/rl.jsonl", encoding="utf-8") as file:
        prompts = file.readlines()
    new = arguments.ahead_prompts * arguments.steps
    if new > len(prompts):
        raise SystemExit(f"{arguments.steps} steps of {arguments.ahead_prompts} prompts: the data have {len(prompts)}")
    with open(f"{cluster.work}/data/new.jsonl", "w", encoding="utf-8") as file:
        file.writelines(prompts[:new])
    ways = {"off": ["rollout.speculation=off"], "auto": ["rollout.speculation=auto"],
            "ahead": ["rollout.speculation.run_ahead=true"]}
    for running in arguments.running:
        runs = {}
        for way, sets in ways.items():
            print(f"ahead, {running} at once: {way}, {arguments.steps} steps", flush=True)
            name = f"ahead-{running}-{way}"
            train(cluster, arguments, name, arguments.steps, [
                f"data.train_files=[{cluster.work}/data/new.jsonl]",
                f"data.train_batch_size={arguments.ahead_prompts}", f"rollout.n={AHEAD_SAMPLES}",
                f"rollout.max_num_seqs={running}", *sets])
            runs[way] = (cluster.metrics(name, arguments.steps), weights_of(cluster, name, arguments.steps))
        those = range(2, arguments.steps + 1)

        def a_token(way):
            metrics = runs[way][0]
            return total(metrics, "timing_s/gen", those) / total(metrics, "perf/total_num_tokens", those)

        def speedups(way):
            steps = total(runs["off"][0], "timing_s/step", those) / total(runs[way][0], "timing_s/step", those)
            return {"generation_speedup": a_token("off") / a_token(way), "step_speedup": steps}
        figures = speedups("auto")
        figures.update({f"run_ahead/{name}": value for name, value in speedups("ahead").items()})
        figures["sampled_ahead"] = (total(runs["ahead"][0], "rollout/spec/ahead_tokens", those) /
                                    total(runs["ahead"][0], "perf/total_num_tokens", those))
        figures["identical"] = float(len({weights for _, weights in runs.values()}) == 1)
        rows += [{"name": f"ahead/{running}/{name}", "value": value,
                  "unit": "x" if "speedup" in name else ""} for name, value in figures.items()]
    return rows


def presets_part(cluster, arguments):
    rows = []
    for preset in arguments.preset:
        for samples in PRESET_SAMPLES:
            if samples == 1 and preset != "ppo":
                continue
            # No prompt is drawn twice in a step.
            once = ["algorithm.dynamic_sampling=false"] if preset == "dapo" else []
            rows += off_and_auto(cluster, arguments, f"{preset}/n{samples}", [
                f"algorithm.preset={preset}", f"rollout.n={samples}",
                f"rollout.max_num_seqs={PRESET_RUNNING}", *once])
    return rows


def parts_of(steps):
    """The steps of each part."""
    rest = list(range(2, steps + 1))
    third = max(1, len(rest) // 3)
    return {"first": [1], "early": rest[:third], "middle": rest[third:2 * third], "late": rest[2 * third:]}


def total(metrics, name, steps):
    return sum(metrics[step].get(name, 0) for step in steps)


def seconds_a_token(metrics, steps):
    return total(metrics, "timing_s/gen", steps) / total(metrics, "perf/total_num_tokens", steps)


def added_up(runs):
    """The metrics of equal runs, added up."""
    return {step: {name: sum(run[step].get(name, 0) for run in runs) for name in runs[0][step]}
            for step in runs[0]}


def rows_of(label, steps, pairs, identical):
    off, auto = (added_up([pair[mode] for pair in pairs]) for mode in MODES)
    figures = []
    for part, those in parts_of(steps).items():
        figures.append((f"generation_speedup/{part}", seconds_a_token(off, those) / seconds_a_token(auto, those), "x"))
        drafted = total(auto, "rollout/spec/draft_tokens", those)
        saved = total(auto, "rollout/spec/tokens_saved", those)
        passes = sum(pair["auto"][s]["rollout/spec/draft_tokens"] / pair["auto"][s]["rollout/spec/draft_length"]
                     for pair in pairs for s in those if pair["auto"][s].get("rollout/spec/draft_length"))
        figures += [(f"acceptance/{part}", saved / max(1, drafted), "share"),
                    (f"accepted_per_pass/{part}", saved / max(1, passes), "tokens"),
                    (f"drafted/{part}", drafted / total(auto, "perf/total_num_tokens", those), "x")]
    everything = range(1, steps + 1)
    if len(pairs) > 1:
        each = [seconds_a_token(pair["off"], everything[1:]) / seconds_a_token(pair["auto"], everything[1:])
                for pair in pairs]
        figures.append(("generation_speedup_spread", max(each) - min(each), "x"))
    figures += [("step_speedup", total(off, "timing_s/step", everything) /
                 total(auto, "timing_s/step", everything), "x"),
                ("identical", float(identical), "")]
    return [{"name": f"{label}/{name}", "value": value, "unit": unit} for name, value, unit in figures]


def numbers(text):
    return [int(number) for number in text.split(",")]


def parse_arguments():
    parser = argparse.ArgumentParser(description="What speculative rollout gains")
    parser.add_argument("--json", metavar="FILE", help="write the rows here")
    parser.add_argument("--parts", type=lambda text: text.split(","), default=["engine", "jobs"],
                        help="of " + ", ".join(PARTS) + "; default engine,jobs")
    parser.add_argument("--preset", action="append", help="of part presets; again for more; default grpo, ppo, dapo")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--digits", type=int, default=6)
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--ahead-prompts", type=int, default=16, help="of each step of part ahead")
    parser.add_argument("--steps", type=int, default=10, help="of each whole job; one is an epoch")
    parser.add_argument("--pairs", type=int, default=1, help="runs of each whole job in either mode, by turns")
    parser.add_argument("--train-steps", type=int, default=40, help="of the job whose checkpoints are measured")
    parser.add_argument("--sft-steps", type=int, default=400, help="that teach the first model")
    parser.add_argument("--large-steps", type=int, default=0, help="that teach a large model; 0: none is measured")
    parser.add_argument("--large-prompts", type=int, default=8)
    parser.add_argument("--large-running", type=numbers, default=[1, 2, 8], metavar="K,K")
    parser.add_argument("--running", type=numbers, default=[1, 2, 4, 8, 64], metavar="K,K",
                        help="responses at once; default 1,2,4,8,64")
    parser.add_argument("--seconds", type=float, default=60, help="of the engine's runs, for each K and checkpoint")
    parser.add_argument("--cpu-clock", action="store_true", help="for a busy machine: see speculation_engine_bench")
    parser.add_argument("--quick", action="store_true", help="seconds; the figures mean nothing")
    parser.add_argument("--bin", default=BIN)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.prompts, arguments.samples, arguments.digits = 4, 2, 2
        arguments.ahead_prompts = 4
        arguments.steps = arguments.train_steps = 4
        arguments.sft_steps, arguments.running, arguments.seconds = 40, [2], 2
    unknown = set(arguments.parts) - set(PARTS)
    if unknown:
        parser.error(f"--parts {','.join(sorted(unknown))}: there are {', '.join(PARTS)}")
    if arguments.train_steps < 4 or arguments.train_steps % 4 != 0:
        parser.error(f"--train-steps {arguments.train_steps} is not a multiple of 4")
    arguments.preset = arguments.preset or ["grpo", "ppo", "dapo"]
    return arguments


def main():
    arguments = parse_arguments()
    measure = {"engine": engine_part, "jobs": jobs_part, "ahead": ahead_part, "presets": presets_part}
    rows = []
    with tempfile.TemporaryDirectory(prefix="baton-speculation-bench-") as work:
        cluster = JobCluster(arguments.bin, work)
        cluster.make_data(arguments.seed, arguments.digits)
        with open(f"{work}/data/rl.jsonl", encoding="utf-8") as file:
            prompts = file.readlines()[:arguments.prompts]
        with open(f"{work}/data/few.jsonl", "w", encoding="utf-8") as file:
            file.writelines(prompts)
        try:
            # ppo has a critic and a reference.
            cluster.start(scorers=2 if "presets" in arguments.parts else 0)
            print(f"teaching the first model, {arguments.sft_steps} steps", flush=True)
            cluster.teach("sft", arguments.sft_steps, arguments.seed)
            for part in PARTS:
                if part in arguments.parts:
                    rows += measure[part](cluster, arguments)
        finally:
            cluster.run("down")
    report("speculation", rows, arguments.json)


if __name__ == "__main__":
    main()
