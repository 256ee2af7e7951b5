"""A worker whose disk never answers: the job that it was to serve ends all the same, no other job
gets the worker, and its process ends by itself and is started again."""
import json
import os
import unittest

from command_testing import CommandTest

SFT = """
kind: sft
model: %s
data: {train_files: [prompts.jsonl], train_batch_size: 3, max_prompt_length: 8,
       max_response_length: 4}
trainer: {total_training_steps: 2, save_freq: 2}
"""
NEW = """{init: {characters: "0123456789+= ", hidden_size: 16, intermediate_size: 32,
               num_hidden_layers: 1, num_attention_heads: 2, max_position_embeddings: 32}}"""


class StuckWorkerTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.write("prompts.jsonl", "".join(
            json.dumps({"prompt": f"{a}+1=", "response": str(a + 1)}) + "\n" for a in range(9)))
        self.environment.update(
            LD_PRELOAD=os.path.join(os.environ["BATON_BUILD_DIR"], "tests", "libhanging_open.so"),
            BATON_HANG_BELOW=self.folder.name)

    def log_of(self, worker):
        with open(self.path("state", "logs", worker + ".log"), encoding="utf-8") as file:
            return file.read()

    def state_of(self, job):
        return json.loads(self.baton("show", job, "-o", "json"))["state"]

    def test_a_stuck_worker_gets_no_job_until_it_restarts(self):
        self.up("--scorers", "0", rollouts=0)
        self.baton("submit", self.write("first.yaml", SFT % NEW), "--name", "first", "--watch")
        self.write("hang", "")
        self.baton("submit", self.write("second.yaml", SFT % "{path: 'job:first'}"), "--name",
                   "second")
        self.wait_for(lambda: self.state_of("second") == "STATE_STARTING")
        self.wait_for(lambda: os.path.exists(self.path("hangs")))
        self.baton("cancel", "second")
        self.baton("submit", self.path("first.yaml"), "--name", "third")
        self.assertIn("job second has it", self.baton("why", "third"))
        self.wait_for(lambda: "the process ends, to be started again" in self.log_of("actor-0"))
        os.remove(self.path("hang"))
        done = self.run_baton("watch", "third")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.state_of("second"), "STATE_CANCELLED")


if __name__ == "__main__":
    unittest.main()
