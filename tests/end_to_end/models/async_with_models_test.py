"""Async jobs with a real, tiny model. Rollouts run ahead of the trainer; and whatever dies, what was
trained on is recorded: a replay of it ends with the same bytes."""
import json
import os
import signal
import time
import unittest

from command_testing import CommandTest

RL = """
kind: rl
model: {init: {characters: "0123456789+= ", hidden_size: 16, intermediate_size: 32,
               num_hidden_layers: 1, num_attention_heads: 2, max_position_embeddings: 32}}
data: {train_files: [prompts.jsonl], val_files: [prompts.jsonl], train_batch_size: 4,
       max_prompt_length: 8, max_response_length: 8}
rollout: {n: 4, deterministic: true}
reward: {rules: [{type: regex, pattern: '[0-4]$'}]}
algorithm: {preset: grpo, mode: async, filter_groups: false%s}
schedule: {max_staleness: 3}
actor: {lr: 1e-3, lr_warmup_steps: 4}
resources: {rollout_workers: 2}
trainer: {total_training_steps: %d, save_freq: 50, test_freq: 50, max_checkpoints: 0,
          keep_experience: all}
"""
DECOUPLED = """, recompute_log_prob: true,
            loss: {rollout_is: token, rollout_is_threshold: 2.0}"""


class AsyncWithModelsTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.write("prompts.jsonl", "".join(
            json.dumps({"prompt": f"{a}+1=", "answer": str(a + 1)}) + "\n" for a in range(9)))

    def pid(self, process):
        line = next(l for l in self.baton("status").splitlines() if process in l)
        return int(line.split()[1])

    def steps_done(self):
        shown = self.run_baton("show", "rl", "-o", "json")
        return int(json.loads(shown.stdout).get("step", 0)) if shown.returncode == 0 else -1

    def metrics(self):
        steps = json.loads(self.baton("metrics", "rl", "-n", "400", "-o", "json"))["steps"]
        return {int(row["step"]): row["metrics"] for row in steps}

    def tokens_generated(self):
        why = json.loads(self.baton("why", "rl", "-o", "json"))
        return sum(int(node.get("done", 0)) for node in why["nodes"] if node["node"] == "generate")

    def test_replays_equal_after_each_process_was_killed(self):
        self.up("--scorers", "0", rollouts=2)
        self.baton("submit", self.write("rl.yaml", RL % ("", 200)), "--name", "rl")
        self.wait_for(lambda: self.steps_done() >= 40)
        os.kill(self.pid("actor-0"), signal.SIGKILL)
        self.wait_for(lambda: self.steps_done() >= 80)
        os.kill(self.pid("rollout-0"), signal.SIGKILL)
        self.wait_for(lambda: self.steps_done() >= 110)
        os.kill(self.pid("controller"), signal.SIGKILL)
        self.wait_for(lambda: self.steps_done() >= 0)  # the next controller answers
        self.baton("watch", "rl")
        metrics = self.metrics()
        behind = [values["staleness/max"] for values in metrics.values()
                  if "staleness/max" in values]
        self.assertGreater(max(behind), 0, "rollouts never ran ahead")
        self.assertLessEqual(max(behind), 3)
        evaluated = {step for step, values in metrics.items() if "val/reward" in values}
        self.assertTrue({50, 100, 150, 200} <= evaluated, evaluated)
        self.assertIn("\nEQUAL: ", self.baton("replay", "rl"))

    def test_decoupled_ppo(self):
        self.up("--scorers", "0", rollouts=2)
        self.baton("submit", self.write("rl.yaml", RL % (DECOUPLED, 60)), "--name", "rl")
        self.baton("watch", "rl")
        metrics = self.metrics()
        weighed = [values for values in metrics.values() if "rollout_corr/rollout_is_mean" in values]
        self.assertEqual(len(weighed), 60)
        # Stale responses were sampled by other weights: their ratio differs from 1.
        stale = [v for v in weighed if v["staleness/max"] > 0]
        self.assertTrue(stale)
        self.assertGreater(max(v["rollout_corr/log_prob_diff_max"] for v in stale), 0)
        fresh = [v for v in weighed if v["staleness/max"] == 0]
        for values in fresh:
            self.assertEqual(values["rollout_corr/log_prob_diff_max"], 0)
        self.assertIn("\nEQUAL: ", self.baton("replay", "rl"))

    def test_rollouts_go_on_while_the_trainer_is_away(self):
        self.up("--scorers", "0", rollouts=2)
        self.baton("submit", self.write("rl.yaml", RL % ("", 100000)), "--name", "rl")
        self.wait_for(lambda: self.steps_done() >= 10)
        trainer = self.pid("actor-0")
        os.kill(trainer, signal.SIGSTOP)
        stopped = time.monotonic()
        try:
            step = self.steps_done()

            def buffer_full():
                why = json.loads(self.baton("why", "rl", "-o", "json"))
                return any(w["kind"] == "staleness" for w in why.get("waits", []))

            self.wait_for(buffer_full)
            self.assertLessEqual(self.steps_done(), step + 1)
            # Four batches of four groups of four responses: what the bound allows.
            self.assertGreaterEqual(self.tokens_generated(), 3 * 16)
            # Longer than its lease: it is lost, and what is generated stays.
            time.sleep(max(0, stopped + 20 - time.monotonic()))
            self.assertLessEqual(self.steps_done(), step + 1)
            self.assertTrue(json.loads(self.baton("why", "rl", "-o", "json")).get("waits"))
        finally:
            os.kill(trainer, signal.SIGCONT)
        began = time.monotonic()
        self.wait_for(lambda: self.steps_done() >= step + 10)
        self.assertLess(time.monotonic() - began, 60)
        self.baton("cancel", "rl")


if __name__ == "__main__":
    unittest.main()
