#!/usr/bin/env python3
"""What speculative rollout gains in whole jobs: `./dev bench speculation [--json F]`.

Real processes on this machine, one trainer and one rollout, each with one compute thread: a small
Llama that was taught to add numbers of --digits digits. The same --prompts prompts come again in each
step, --samples responses each, at temperature 1 and top_p 1, so a step is an epoch. For each K, the
responses that the rollout makes at once (rollout.max_num_seqs), the job runs with rollout.speculation
`off` and then `auto`, with the same seed, in mode sync.

Rows, by K and by part of the run (early, middle and late: a third of the steps each; the first step
has no history and is a part of its own):
    K/generation_speedup/PART    seconds of generation a token, off over auto
    K/step_speedup               seconds of all steps, off over auto
    K/acceptance/PART            of the draft tokens that were verified, the share that was drawn
    K/accepted_per_pass/PART     draft tokens that a pass with drafts had drawn
    K/drafted/PART               draft tokens verified, over all tokens
    K/identical                  1: both runs end with the same weights, byte for byte
"""
import argparse
import glob
import hashlib
import os
import tempfile

from job_cluster import BIN, JobCluster, report

MODES = ("off", "auto")


def weights_of(cluster, name, step):
    pattern = os.path.join(cluster.work, "state", "**", name, "checkpoints", f"step-{step}", "**", "*.safetensors")
    files = sorted(glob.glob(pattern, recursive=True))
    if not files:
        raise SystemExit(f"no checkpoint like {pattern}")
    digest = hashlib.sha256()
    for path in files:
        with open(path, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def run_job(cluster, arguments, running, mode):
    name = f"spec-{running}-{mode}"
    cluster.train(name, "rl.yaml", [
        "model.path=job:sft", f"data.train_files=[{cluster.work}/data/few.jsonl]", "data.val_files=[]",
        f"data.train_batch_size={arguments.prompts}", f"rollout.n={arguments.samples}",
        "rollout.temperature=1", "rollout.top_p=1", f"rollout.max_num_seqs={running}",
        "rollout.deterministic=true", f"rollout.speculation={mode}", "resources.rollout_workers=1",
        "actor.lr_warmup_steps=2", "trainer.test_freq=0", "trainer.val_before_train=false", "trainer.val_after_train=false",
        f"trainer.total_training_steps={arguments.steps}", f"data.seed={arguments.seed}"])
    return cluster.metrics(name, arguments.steps), weights_of(cluster, name, arguments.steps)


def parts_of(steps):
    """The steps of each part."""
    rest = list(range(2, steps + 1))
    third = max(1, len(rest) // 3)
    return {"first": [1], "early": rest[:third], "middle": rest[third:2 * third], "late": rest[2 * third:]}


def total(metrics, name, steps):
    return sum(metrics[step].get(name, 0) for step in steps)


def rows_of(running, steps, runs):
    off, auto = runs["off"][0], runs["auto"][0]
    figures = []
    for part, those in parts_of(steps).items():
        def a_token(metrics):
            return total(metrics, "timing_s/gen", those) / total(metrics, "perf/total_num_tokens", those)
        figures.append((f"generation_speedup/{part}", a_token(off) / a_token(auto), "x"))
        drafted = total(auto, "rollout/spec/draft_tokens", those)
        saved = total(auto, "rollout/spec/tokens_saved", those)
        passes = sum(auto[s]["rollout/spec/draft_tokens"] / auto[s]["rollout/spec/draft_length"]
                     for s in those if auto[s].get("rollout/spec/draft_length"))
        figures += [(f"acceptance/{part}", saved / max(1, drafted), "share"),
                    (f"accepted_per_pass/{part}", saved / max(1, passes), "tokens"),
                    (f"drafted/{part}", drafted / total(auto, "perf/total_num_tokens", those), "x")]
    everything = range(1, steps + 1)
    figures += [("step_speedup", total(off, "timing_s/step", everything) /
                 total(auto, "timing_s/step", everything), "x"),
                ("identical", float(runs["off"][1] == runs["auto"][1]), "")]
    return [{"name": f"{running}/{name}", "value": value, "unit": unit} for name, value, unit in figures]


def main():
    parser = argparse.ArgumentParser(description="Jobs with and without speculative rollout")
    parser.add_argument("--json", metavar="FILE", help="write the rows here")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--digits", type=int, default=6)
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--steps", type=int, default=10, help="of each job; one is an epoch")
    parser.add_argument("--sft-steps", type=int, default=400, help="that teach the first model")
    parser.add_argument("--running", type=int, action="append", metavar="K",
                        help="responses at once; again for more; default 1, 2, 4, 8 and 64")
    parser.add_argument("--bin", default=BIN)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="baton-speculation-bench-") as work:
        cluster = JobCluster(arguments.bin, work)
        cluster.make_data(arguments.seed, arguments.digits)
        with open(f"{work}/data/rl.jsonl", encoding="utf-8") as file:
            prompts = file.readlines()[:arguments.prompts]
        with open(f"{work}/data/few.jsonl", "w", encoding="utf-8") as file:
            file.writelines(prompts)
        try:
            cluster.start()
            print(f"teaching the first model, {arguments.sft_steps} steps", flush=True)
            cluster.teach("sft", arguments.sft_steps, arguments.seed)
            for running in arguments.running or [1, 2, 4, 8, 64]:
                runs = {}
                for mode in MODES:
                    print(f"{running} at once, speculation {mode}, {arguments.steps} steps", flush=True)
                    runs[mode] = run_job(cluster, arguments, running, mode)
                rows += rows_of(running, arguments.steps, runs)
        finally:
            cluster.run("down")
    report("speculation", rows, arguments.json)


if __name__ == "__main__":
    main()
