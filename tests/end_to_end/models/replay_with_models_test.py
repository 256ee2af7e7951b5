"""A job with real models whose trainer and whose controller are killed trains again on what it
recorded, and its weights have the same bytes. A byte of its experience that was changed is noticed."""
import glob
import json
import os
import signal
import unittest

from command_testing import CommandTest

RL = """
kind: rl
model: {init: {characters: "0123456789+= ", hidden_size: 16, intermediate_size: 32,
               num_hidden_layers: 1, num_attention_heads: 2, max_position_embeddings: 32}}
data: {train_files: [prompts.jsonl], train_batch_size: 4, max_prompt_length: 8,
       max_response_length: 8}
rollout: {n: 4, deterministic: true}
reward: {command: "python3 reward.py", timeout_seconds: 120}
algorithm: {preset: grpo}
actor: {lr: 1e-3, lr_warmup_steps: 4}
resources: {rollout_workers: 1}
trainer: {total_training_steps: 300, save_freq: 50, max_checkpoints: 0, keep_experience: all,
          keep_optimizer: all}
"""


# Different responses earn differently, so that each step learns.
REWARD = """import json, sys
for line in sys.stdin:
    r = json.loads(line)
    print(json.dumps({"id": r["id"], "reward": len(set(r["response"]))}), flush=True)
"""


class ReplayWithModelsTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.write("prompts.jsonl", "".join(
            json.dumps({"prompt": f"{a}+1=", "answer": str(a + 1)}) + "\n" for a in range(9)))
        self.write("reward.py", REWARD)
        self.up("--scorers", "0")

    def kill(self, process):
        line = next(l for l in self.baton("status").splitlines() if process in l)
        os.kill(int(line.split()[1]), signal.SIGKILL)

    def steps_done(self):
        shown = self.run_baton("show", "rl", "-o", "json")
        return int(json.loads(shown.stdout).get("step", 0)) if shown.returncode == 0 else -1

    def test_a_job_with_faults(self):
        self.baton("submit", self.write("rl.yaml", RL), "--name", "rl")
        self.wait_for(lambda: self.steps_done() >= 60)
        self.kill("actor-0")
        self.wait_for(lambda: self.steps_done() >= 120)
        self.kill("controller")
        self.wait_for(lambda: self.steps_done() >= 0)  # the next controller answers
        self.baton("watch", "rl")
        logs = self.baton("logs", "rl")
        self.assertIn("the trainer is lost", logs)
        self.assertIn("steps are redone", logs)
        said = self.baton("replay", "rl")
        self.assertIn("steps 1-300 of rl are trained again, from its first weights", said)
        self.assertIn("\nEQUAL: ", said)
        part = json.loads(self.baton("replay", "rl", "--from-step", "100", "--to-step", "150",
                                     "-o", "json"))
        self.assertEqual(part["verdict"], "VERDICT_EQUAL")

        for log in glob.glob(self.path("state", "**", "rl", "experience", "*.log"), recursive=True):
            with open(log, "r+b") as file:
                file.seek(100)
                byte = file.read(1)
                file.seek(100)
                file.write(bytes([byte[0] ^ 1]))
        done = self.run_baton("replay", "rl")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("FAILED: step ", done.stdout)
        self.assertIn("wrong checksum", done.stdout)


if __name__ == "__main__":
    unittest.main()
