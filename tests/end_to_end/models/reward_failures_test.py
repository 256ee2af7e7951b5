"""Reward commands that misbehave, as their authors meet them: a job with Baton's own workers, what
`watch`, `why` and the exit code say of it, and `baton reward test` before it."""
import json
import os
import re
import time
import unittest

from command_testing import CommandTest

SOURCE = os.environ["BATON_SOURCE_DIR"]

JOB = """
kind: rl
model: {init: {characters: "0123456789+= ", hidden_size: 16, intermediate_size: 32,
               num_hidden_layers: 1, num_attention_heads: 2, max_position_embeddings: 32}}
data: {train_files: [prompts.jsonl], train_batch_size: 4, max_prompt_length: 8,
       max_response_length: 4}
rollout: {n: 4}
reward: {command: "python3 reward.py"%s}
trainer: {total_training_steps: 3, save_freq: 0}
resources: {rollout_workers: 1}
"""
GOOD = """import json, sys
for line in sys.stdin:
    r = json.loads(line)
    print(json.dumps({"id": r["id"], "reward": len(r["response"])}), flush=True)
"""
# Sandboxes need what a container may not have; what is tested here is outside of them.
UNBOXED = ["--command-sandbox", "none"]


class RewardFailuresTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.write("prompts.jsonl", "".join(
            json.dumps({"prompt": f"{a}+1=", "answer": str(a + 1)}) + "\n" for a in range(8)))

    def submit(self, script, settings="", *options, name="job"):
        self.write("reward.py", script)
        spec = self.write("job.yaml", JOB % settings)
        return self.run_baton("submit", spec, "--name", name, *options)

    def test_a_script_that_cannot_be_imported_fails_the_job_with_its_stderr(self):
        self.up()
        done = self.submit("import no_such_module\n", "", "--watch")
        self.assertEqual(done.returncode, 1, done.stdout)
        error = "ModuleNotFoundError: No module named 'no_such_module'"
        warning = next(line for line in done.stdout.splitlines() if "warning" in line)
        # The warning is the worker's message, or the first response without a reward, whichever
        # comes first.
        self.assertIn("your command exited with code 1 before it answered: " + error, warning)
        self.assertIn("baton: the job failed: ", done.stderr)
        for text in (done.stderr, self.baton("why", "job"), self.baton("show", "job")):
            self.assertIn(error, text)
            self.assertIn('line 1, in <module>', text)  # its traceback

    def test_a_script_that_fails_on_some_responses_fails_the_job_above_the_rate(self):
        self.up()
        script = GOOD.replace("    print", "    if r['prompt'] == '3+1=': raise ValueError('odd!')\n"
                              "    print")
        # Every fourth group fails: 4 of 16 responses of a step, or none.
        done = self.submit(script, "", "--watch", "--set", "data.shuffle=false")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stderr, r"the rewards of 2 of 16 responses of step 1 failed; "
                         r"reward.max_error_rate 0.1 allows 1. The first: train-\d+ on worker \S+: "
                         r"command: your command exited with code 1")
        self.assertIn("ValueError: odd!", done.stderr)
        done = self.submit(script, ", max_error_rate: 1", "--watch", "--set", "data.shuffle=false",
                           name="tolerant")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("ValueError: odd!", done.stdout)  # told, all the same

    def test_reports_a_reply_timeout_soon_and_fails_the_job(self):
        self.up()
        self.assertEqual(self.submit("import time\ntime.sleep(1000)\n",
                                     ", timeout_seconds: 3").returncode, 0)

        def trouble():
            waits = json.loads(self.baton("why", "job", "-o", "json")).get("waits", [])
            return waits[0] if waits and waits[0]["kind"] == "trouble" else None

        def asked():
            nodes = json.loads(self.baton("why", "job", "-o", "json")).get("nodes", [])
            return any(n["role"] == "reward" and int(n.get("running", 0)) > 0 for n in nodes)

        self.wait_for(asked)
        begin = time.monotonic()
        cause = self.wait_for(trouble)["cause"]
        self.assertLess(time.monotonic() - begin, 5)
        self.assertIn("your command gave no reply within 3s (reward.timeout_seconds)", cause)
        done = self.run_baton("watch", "job")
        self.assertEqual(done.returncode, 1)
        self.assertIn("your command gave no reply within 3s", done.stderr)

    def test_the_documents_script_works(self):
        with open(os.path.join(SOURCE, "docs", "reward-command.md"), encoding="utf-8") as file:
            script = re.search(r"```python\n(.*?)```", file.read(), re.DOTALL).group(1)
        self.assertLessEqual(len([line for line in script.splitlines() if line]), 10)
        path = self.write("reward.py", script)
        done = self.run_baton("reward", "test", path, self.path("prompts.jsonl"), *UNBOXED)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("8 responses: 8 with a reward (mean 1, from 1 to 1), 0 failed", done.stdout)
        made_up = self.run_baton("reward", "test", path, *UNBOXED, "-o", "json")
        rewards = [json.loads(line)["reward"] for line in made_up.stdout.splitlines()]
        self.assertEqual(rewards, [1, 0, 0, 0])

    def test_reward_test_runs_a_spec_without_a_cluster(self):
        self.write("reward.py", GOOD.replace("flush=True)", "flush=True)\n    raise KeyError('x')"))
        spec = self.write("job.yaml", JOB % "")
        done = self.run_baton("reward", "test", spec, "-n", "2", *UNBOXED)
        self.assertIn("baton: your command exited with code 1", done.stderr)
        self.assertIn("stderr: KeyError: 'x'", done.stderr)
        self.write("reward.py", "import no_such_module\n")
        done = self.run_baton("reward", "test", spec, *UNBOXED)
        self.assertEqual(done.returncode, 1)
        self.assertIn("No module named 'no_such_module'", done.stdout)
        self.assertIn("A job would fail: 8 of 8 failed", done.stdout)
        done = self.run_baton("reward", "test", spec, "--set", "reward.comand=x", *UNBOXED)
        self.assertEqual(done.returncode, 2)
        self.assertIn("reward.comand", done.stderr)
        self.assertEqual(self.run_baton("reward", "test", self.path("nowhere.py")).returncode, 3)
        done = self.run_baton("reward", "test", spec, self.path("nowhere.jsonl"))
        self.assertEqual(done.returncode, 3)
        self.assertIn("nowhere.jsonl does not exist", done.stderr)


if __name__ == "__main__":
    unittest.main()
