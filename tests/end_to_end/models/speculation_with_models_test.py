"""Where guesses come from, with real processes and a tiny model: what a replaced rollout is told, what a
job begins with that names another one, and what idle rollouts sample ahead. No weight depends on any
of it."""
import glob
import json
import os
import signal
import unittest

from command_testing import CommandTest

RL = """
kind: rl
model: {init: {characters: "0123456789+= ", hidden_size: 16, intermediate_size: 32,
               num_hidden_layers: 1, num_attention_heads: 2, max_position_embeddings: 64}}
data: {train_files: [prompts.jsonl], train_batch_size: 8, max_prompt_length: 8, max_response_length: 40}
rollout: {n: 4, deterministic: true, max_num_seqs: 2, speculation: %s}
reward: {rules: [{type: regex, pattern: '[0-4]$'}]}
algorithm: {preset: grpo, filter_groups: false}
actor: {lr: 1e-3, lr_warmup_steps: 4}
resources: {rollout_workers: %d}
trainer: {total_training_steps: %d, save_freq: 1000}
"""


class SpeculationWithModelsTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.write("prompts.jsonl", "".join(
            json.dumps({"prompt": f"{a}+{b}=", "answer": str(a + b)}) + "\n" for a in range(8) for b in range(2)))

    def submit(self, name, speculation, steps, rollouts=1):
        self.baton("submit", self.write(f"{name}.yaml", RL % (speculation, rollouts, steps)), "--name", name)

    def pid(self, process):
        line = next(l for l in self.baton("status").splitlines() if process in l)
        return int(line.split()[1])

    def steps_done(self, job):
        shown = self.run_baton("show", job, "-o", "json")
        return int(json.loads(shown.stdout).get("step", 0)) if shown.returncode == 0 else -1

    def total(self, job, metric, first=1):
        steps = json.loads(self.baton("metrics", job, "-n", "1000", "-o", "json"))["steps"]
        return sum(row["metrics"].get(metric, 0) for row in steps if int(row["step"]) >= first)

    def weights(self, job, step):
        pattern = self.path("state", "**", job, "checkpoints", f"step-{step}", "**", "*.safetensors")
        files = sorted(glob.glob(pattern, recursive=True))
        self.assertTrue(files, pattern)
        contents = []
        for path in files:
            with open(path, "rb") as file:
                contents.append(file.read())
        return contents

    def test_a_replacement_rollout_fetches_the_history(self):
        self.up("--scorers", "0")
        self.submit("rl", "auto", 100000)
        self.wait_for(lambda: self.steps_done("rl") >= 20)
        # The first rollout was there from the beginning: siblings may have ended before it asked
        # for a prompt.
        self.assertLess(self.total("rl", "rollout/spec/history_tokens"), 16 * 20)
        os.kill(self.pid("rollout-0"), signal.SIGKILL)
        killed = self.steps_done("rl")
        self.wait_for(lambda: self.steps_done("rl") >= killed + 5)
        # Two epochs in two steps: each prompt is asked for, and some dozen responses of each are
        # kept.
        told = self.total("rl", "rollout/spec/history_tokens", first=killed)
        self.assertGreater(told, 16 * 20)
        # The controller keeps nothing of that in memory when it dies, and tells the next one as much.
        os.kill(self.pid("controller"), signal.SIGKILL)
        self.wait_for(lambda: self.steps_done("rl") >= killed + 10)
        os.kill(self.pid("rollout-0"), signal.SIGKILL)
        again = self.steps_done("rl")
        self.wait_for(lambda: self.steps_done("rl") >= again + 5)
        self.assertGreater(self.total("rl", "rollout/spec/history_tokens", first=again), 16 * 20)
        self.baton("cancel", "rl")

    def test_drafts_do_not_change_the_weights(self):
        self.up("--scorers", "0", rollouts=2)
        self.submit("plain", "off", 30, rollouts=2)
        self.baton("watch", "plain")
        refused = self.run_baton("submit", self.write("x.yaml", RL % ("{seed_from: 'job:nobody'}", 2, 30)))
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("rollout.speculation.seed_from", refused.stderr)
        self.assertIn("nobody", refused.stderr)
        self.submit("rl", "{seed_from: 'job:plain', run_ahead: true}", 30, rollouts=2)
        self.baton("watch", "rl")
        self.assertGreater(self.total("rl", "rollout/spec/history_tokens"), 0)
        self.assertGreater(self.total("rl", "rollout/spec/ahead_tokens"), 0)
        self.assertEqual(self.weights("rl", 30), self.weights("plain", 30))


if __name__ == "__main__":
    unittest.main()
