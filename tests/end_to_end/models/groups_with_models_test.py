"""Roles on several ranks with real, tiny models: baton-worker processes that form groups over Gloo."""
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = os.environ["BATON_SOURCE_DIR"]
BATON = os.path.join(os.environ["BATON_BUILD_DIR"], "bin", "baton")
sys.path.insert(0, os.path.join(SOURCE, "examples", "addition"))
import make_data  # noqa: E402

MODEL = """
model: {init: {characters: "0123456789+=:# ", hidden_size: 32, intermediate_size: 64,
               num_hidden_layers: 2, num_attention_heads: 4, max_position_embeddings: 64}}
"""
SFT = """
kind: sft
data: {train_files: [%s], train_batch_size: 16, max_prompt_length: 8, max_response_length: 16}
actor: {lr: 3e-3, lr_warmup_steps: 0, parallel: {tp: %d, dp: %d}}
trainer: {save_freq: 10, total_training_steps: %d}
""" + MODEL
RL = """
kind: rl
data: {train_files: [%s], train_batch_size: 4, max_prompt_length: 8, max_response_length: 8}
rollout: {n: 2}
reward: {rules: [{type: numeric, extract: '#(\\d+)$'}]}
actor: {lr: 1e-3, lr_warmup_steps: 0, parallel: {tp: 2, dp: 1}}
critic: {train: {parallel: {dp: 2}}}
algorithm: {preset: ppo}
resources: {rollout_workers: 1}
trainer: {save_freq: 0, total_training_steps: 3}
""" + MODEL
TENSOR = """
kind: rl
data: {train_files: [%%s], train_batch_size: 8, max_prompt_length: 8, max_response_length: 8}
rollout: {n: 2, deterministic: true}
reward: {rules: [{type: numeric, extract: '#(\\d+)$'}]}
actor: {lr: 1e-3, lr_warmup_steps: 0, parallel: {tp: %(tp)d}}
critic: {train: {lr: 1e-2, parallel: {tp: %(tp)d}}}
reference: {parallel: {tp: %(tp)d}}
algorithm: {preset: ppo, recompute_log_prob: true}
resources: {rollout_workers: 1}
trainer: {save_freq: 10, total_training_steps: %(steps)d}
""" + MODEL
HYBRID = """
kind: rl
data: {train_files: [%s], train_batch_size: 8, max_prompt_length: 8, max_response_length: 8}
rollout: {n: 4, deterministic: true, tensor_model_parallel_size: %d}
reward: {rules: [{type: numeric, extract: '#(\\d+)$'}]}
actor: {lr: 1e-3, lr_warmup_steps: 0, parallel: {tp: 2, dp: 2}}
algorithm: {preset: grpo, filter_groups: false}
resources: {placement: colocate}
trainer: {save_freq: 10, total_training_steps: %d}
""" + MODEL


def tensors(path):
    """{name: float32 values} of a safetensors file."""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        data = file.read()
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert entry["dtype"] == "F32", entry
        found[name] = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
    return found


def difference(a, b):
    """Of all values, relative to the largest."""
    largest = max(abs(x) for values in a.values() for x in values)
    return max(abs(x - y) for name in a for x, y in zip(a[name], b[name])) / largest


class GroupsWithModelsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.environment = {k: v for k, v in os.environ.items() if k != "BATON_CONTROLLER"}
        cls.environment.update(BATON_STATE_DIR=cls.path("state"), OMP_NUM_THREADS="1")
        ports = [f for name in ("port", "http-port", "relay-port") for f in ("--" + name, "0")]
        cls.addClassCleanup(lambda: cls.baton("down"))
        cls.baton("up", "--detach", "--trainers", "1", "--rollouts", "1", "--rewards", "1",
                  "--scorers", "3", "--workers", "4", *ports)
        with open(cls.path("sft.jsonl"), "w", encoding="utf-8") as file:
            for i in range(400):
                a, b = i % 10, i // 10 % 10
                file.write(json.dumps({"prompt": f"{a}+{b}=", "response": f"#{a + b}",
                                       "answer": str(a + b)}) + "\n")

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.folder.name, *names)

    @classmethod
    def baton(cls, *arguments, check=True):
        run = subprocess.run([BATON, *arguments], env=cls.environment, text=True, check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=200)
        if check and run.returncode != 0:
            raise AssertionError(f"baton {' '.join(arguments)}:\n{run.stdout}")
        return run.stdout

    def submit(self, name, spec):
        with open(self.path(name + ".yaml"), "w", encoding="utf-8") as file:
            file.write(spec)
        self.baton("submit", self.path(name + ".yaml"), "--name", name)

    def job(self, name):
        return json.loads(self.baton("show", name, "-o", "json"))

    def wait(self, name, done, what, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            job = self.job(name)
            if done(job):
                return job
            time.sleep(0.05)
        raise AssertionError(f"{name}: no {what}\n" + self.baton("why", name) +
                             self.baton("logs", name))

    def succeed(self, name):
        self.wait(name, lambda job: job["state"] in ("STATE_SUCCEEDED", "STATE_FAILED"), "end")
        self.assertEqual(self.job(name)["state"], "STATE_SUCCEEDED", self.baton("logs", name))
        return self.job(name)

    def weights(self, name):
        self.baton("export", name, self.path("of-" + name))
        return self.path("of-" + name, "model.safetensors")

    def train(self, name, tp, dp, steps=20):
        self.submit(name, SFT % (self.path("sft.jsonl"), tp, dp, steps))
        self.succeed(name)
        return tensors(self.weights(name))

    def test_any_shape_trains_the_same_model(self):
        alone = self.train("alone", 1, 1)
        before = self.train("begun", 1, 1, steps=1)
        self.assertGreater(difference(alone, before), 0.05, "it learnt something")
        for tp, dp in ((1, 2), (2, 1), (2, 2)):
            other = self.train(f"tp{tp}-dp{dp}", tp, dp)
            self.assertEqual(set(other), set(alone))
            self.assertLess(difference(alone, other), 1e-3, f"tp {tp} x dp {dp}")

    def test_a_rank_killed_takes_its_group_down_alone(self):
        spec = SFT % (self.path("sft.jsonl"), 2, 2, 200)
        self.submit("whole", spec)
        self.succeed("whole")
        self.submit("killed", spec)
        self.wait("killed", lambda job: int(job.get("step", 0)) >= 25, "step 25")
        workers = json.loads(self.baton("workers", "-o", "json"))["workers"]
        ranks = [w for w in workers if w.get("job", "").endswith("/killed")]
        self.assertEqual(len(ranks), 4)
        os.kill(int(ranks[2]["pid"]), signal.SIGKILL)
        self.succeed("killed")
        self.assertIn("restarts from step", self.baton("logs", "killed"))
        with open(self.weights("whole"), "rb") as a, open(self.weights("killed"), "rb") as b:
            self.assertTrue(a.read() == b.read(), "the weights differ")
        # Nobody else noticed: the other ranks are the processes that they were.
        now = json.loads(self.baton("workers", "-o", "json"))["workers"]
        alive = {w["pid"] for w in now}
        for i in (0, 1, 3):
            self.assertIn(ranks[i]["pid"], alive)

    def test_ranks_that_train_and_generate(self):
        """The hybrid engine: one replica of each rank, and one of two; a rank dies meanwhile."""
        for generation_tp, replicas in ((1, 4), (2, 2)):
            names = [f"{what}-{generation_tp}" for what in ("undisturbed", "disturbed")]
            for name in names:
                self.submit(name, HYBRID % (self.path("sft.jsonl"), generation_tp, 60))
                if name == names[1]:
                    self.wait(name, lambda job: int(job.get("step", 0)) >= 15, "step 15")
                    ranks = self.ranks_of(name)
                    playing = sorted(w["role"] for w in ranks)
                    self.assertEqual(playing.count("actor+rollout"), replicas)
                    self.assertEqual(len(ranks), 4)
                    os.kill(int(ranks[1]["pid"]), signal.SIGKILL)
                self.succeed(name)
            self.assertIn("restarts from step", self.baton("logs", names[1]))
            with open(self.weights(names[0]), "rb") as a, open(self.weights(names[1]), "rb") as b:
                self.assertTrue(a.read() == b.read(), "the weights differ")

    def test_ranks_that_hold_a_model_together_score_as_one(self):
        """Of two ranks each: the actor says what the rollout said, on one; the reference says what
        the policy was before the first step."""
        self.submit("scores", TENSOR % {"tp": 2, "steps": 6} % self.path("sft.jsonl"))
        self.succeed("scores")
        told = json.loads(self.baton("metrics", "scores", "-n", "100", "-o", "json"))["steps"]
        steps = [step["metrics"] for step in told if "actor/pg_loss" in step["metrics"]]
        self.assertEqual(len(steps), 6)
        for step in steps:
            self.assertLess(step["rollout_corr/log_prob_abs_diff"], 1e-5)
        self.assertLess(abs(steps[0]["actor/reward_kl_penalty"]), 1e-5)
        self.assertGreater(steps[-1]["actor/reward_kl_penalty"], 1e-4, "it left the reference")
        self.assertIn("critic/vf_loss", steps[-1])

    def test_a_rank_that_only_scores_is_lost_alone(self):
        spec = TENSOR % {"tp": 2, "steps": 60} % self.path("sft.jsonl")
        self.submit("all-score", spec)
        self.succeed("all-score")
        with open(self.weights("all-score"), "rb") as file:
            undisturbed = file.read()
        for lost in (0, 1):
            name = f"lost-{lost}"
            self.submit(name, spec)
            self.wait(name, lambda job: int(job.get("step", 0)) >= 15, "step 15")
            ranks = self.ranks_of(name, "reference")
            self.assertEqual(len(ranks), 2)
            os.kill(int(ranks[lost]["pid"]), signal.SIGKILL)
            self.succeed(name)
            self.assertNotIn("restarts from step", self.baton("logs", name))
            with open(self.weights(name), "rb") as file:
                self.assertTrue(file.read() == undisturbed, "the weights differ")

    def ranks_of(self, name, role="actor"):
        workers = json.loads(self.baton("workers", "-o", "json"))["workers"]
        return [w for w in workers
                if w.get("job", "").endswith("/" + name) and role in w.get("role", "")]

    def test_actor_and_critic_on_ranks(self):
        self.submit("ppo", RL % self.path("sft.jsonl"))
        metrics = self.succeed("ppo")["metrics"]
        self.assertIn("critic/vf_loss", metrics)
        self.assertIn("actor/pg_loss", metrics)
        self.assertIn("perf/imbalance", metrics, "of the critic's data ranks")


if __name__ == "__main__":
    unittest.main()
