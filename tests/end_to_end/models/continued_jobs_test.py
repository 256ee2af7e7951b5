"""Jobs that go on: with more steps than they had, and after they failed or were cancelled; by the
commands that Baton itself advises."""
import json
import re
import shlex
import unittest

from command_testing import CommandTest

MODEL = """
model: {init: {characters: "0123456789+= ", hidden_size: 16, intermediate_size: 32,
               num_hidden_layers: 1, num_attention_heads: 2, max_position_embeddings: 32}}
"""
# Few prompts in a shuffled order: another cursor draws others.
SFT = "kind: sft" + MODEL + """
data: {train_files: [prompts.jsonl], train_batch_size: 3, max_prompt_length: 8,
       max_response_length: 4}
trainer: {total_training_steps: %d, save_freq: 2}
"""
RL = "kind: rl" + MODEL + """
data: {train_files: [prompts.jsonl], train_batch_size: 4, max_prompt_length: 8,
       max_response_length: 4}
rollout: {n: 4}
reward: {command: "python3 reward.py", timeout_seconds: 120}
trainer: {total_training_steps: 4, save_freq: 1}
"""
# The reward scores two steps of 16 responses. From then on it breaks, or waits if the file `waits`
# exists, until the test writes the file `mended`.
REWARD = """import json, os, sys, time
folder = "%s/"
for line in sys.stdin:
    r = json.loads(line)
    if not os.path.exists(folder + "mended"):
        with open(folder + "count", "a") as count:
            count.write("x")
        if os.path.getsize(folder + "count") > 32:
            if not os.path.exists(folder + "waits"):
                raise ValueError("not mended")
            while not os.path.exists(folder + "mended"):
                time.sleep(0.05)
    print(json.dumps({"id": r["id"], "reward": len(r["response"])}), flush=True)
"""


class ContinuedJobsTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.write("prompts.jsonl", "".join(
            json.dumps({"prompt": f"{a}+1=", "answer": str(a + 1), "response": str(a + 1)}) + "\n"
            for a in range(9)))
        self.write("reward.py", REWARD % self.folder.name)
        self.up("--scorers", "0")

    def job(self, name):
        return json.loads(self.baton("show", name, "-o", "json"))

    def run_advice(self, text, *more):
        """The one command that the text advises, as it stands there."""
        found = re.findall(r"`baton ([^`]*)`", text)
        self.assertEqual(len(found), 1, text)
        return found[0], self.baton(*shlex.split(found[0]), *more)

    def weights(self, name):
        self.baton("export", name, self.path("of-" + name))
        with open(self.path("of-" + name, "model.safetensors"), "rb") as file:
            return file.read()

    def test_more_steps_go_on_with_optimizer_and_cursor(self):
        spec = self.write("sft.yaml", SFT % 4)
        self.baton("submit", spec, "--name", "first", "--watch")
        self.baton("submit", self.write("whole.yaml", SFT % 8), "--name", "whole", "--watch")
        self.baton("submit", "--from", "first", "--set", "trainer.total_training_steps=8", "--name",
                   "longer", "--watch")
        longer = self.job("longer")
        self.assertEqual((longer["state"], longer["step"]), ("STATE_SUCCEEDED", "8"))
        self.assertEqual(longer["data_files"], self.job("first")["data_files"])
        weights = self.weights("whole")
        self.assertEqual(self.weights("longer"), weights)
        # The weights alone, with a new optimizer and the first prompts, lead elsewhere.
        anew = re.sub(r"model:.*?}}", "model: {path: 'job:first'}", SFT % 4, flags=re.S)
        self.baton("submit", self.write("anew.yaml", anew), "--name", "anew", "--watch")
        self.assertNotEqual(self.weights("anew"), weights)

        refused = self.run_baton("submit", "--from", "first", "--set", "data.seed=7")
        self.assertEqual(refused.returncode, 2, refused.stdout)
        self.assertIn("data.seed", refused.stderr)
        self.assertIn("the checkpoint's prompt cursor counts prompts in this order", refused.stderr)

        done = self.run_baton("resume", "first")
        self.assertNotEqual(done.returncode, 0)
        command, _ = self.run_advice(done.stderr, "--name", "advised", "--watch")
        self.assertEqual(command, "submit --from first --set trainer.total_training_steps=8")
        self.assertEqual(self.weights("advised"), weights)

    def test_a_job_that_failed_goes_on_when_its_reward_is_mended(self):
        failed = self.run_baton("submit", self.write("rl.yaml", RL), "--name", "job", "--watch")
        self.assertEqual(failed.returncode, 1, failed.stdout)
        self.assertIn("ValueError: not mended", failed.stderr)
        before = self.job("job")
        self.assertEqual((before["state"], before["step"]), ("STATE_FAILED", "2"))
        self.write("mended", "")
        command, _ = self.run_advice(self.baton("why", "job"), "--watch")
        self.assertEqual(command, "resume job")
        after = self.job("job")
        self.assertEqual((after["state"], after["step"]), ("STATE_SUCCEEDED", "4"))

    def test_a_job_that_was_cancelled_goes_on(self):
        self.write("waits", "")
        self.baton("submit", self.write("rl.yaml", RL), "--name", "job")
        self.wait_for(lambda: self.job("job").get("step") == "2")
        self.baton("cancel", "job")
        self.wait_for(lambda: self.job("job")["state"] == "STATE_CANCELLED")
        self.write("mended", "")
        command, _ = self.run_advice(self.baton("why", "job"), "--watch")
        self.assertEqual(command, "resume job")
        after = self.job("job")
        self.assertEqual((after["state"], after["step"]), ("STATE_SUCCEEDED", "4"))


if __name__ == "__main__":
    unittest.main()
