"""Every preset on real models, tiny ones: actor, rollout, critic, reference, reward model, cost
model and judge are Baton's own workers, on weights that sft and reward_model made just before."""
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ["BATON_SOURCE_DIR"]
BATON = os.path.join(os.environ["BATON_BUILD_DIR"], "bin", "baton")
sys.path.insert(0, os.path.join(SOURCE, "examples", "addition"))
import make_data  # noqa: E402
import final_weights  # noqa: E402

COMMON = """
data: {train_files: [%s], train_batch_size: 4, max_prompt_length: 8, max_response_length: 16}
actor: {lr: 1e-3, lr_warmup_steps: 0}
trainer: {save_freq: 0, total_training_steps: %d}
"""
SFT = COMMON + """
kind: sft
model: {init: {characters: "0123456789+=:# ", hidden_size: 16, intermediate_size: 32,
               num_hidden_layers: 1, num_attention_heads: 2, max_position_embeddings: 64}}
"""
PAIRS = COMMON + """
kind: reward_model
model: {path: "job:sft"}
"""
# A learned reward differs from response to response, so that no group is dropped for being alike.
RL = COMMON + """
kind: rl
model: {path: "job:sft"}
reward_model: {model: {path: "job:judge-of-pairs"}}
rollout: {n: 4}
resources: {rollout_workers: 1}
algorithm: {preset: %s, critic_warmup: %d}
"""
COST = """
cost_model: {model: {path: "job:judge-of-pairs"}}
"""
JUDGE = """
judge:
  model: {path: "job:sft"}
  template: "{prompt}{response}"
  verdict: "([0-9])"
  verdicts: {"0": 1, "1": 1, "2": 1, "3": 1, "4": 1, "5": 0, "6": 0, "7": 0, "8": 0, "9": 0}
"""
# Preset -> roles beside actor, rollout and reward_model; what else its spec says.
PRESETS = {
    "ppo": ({"critic", "reference"}, ""),
    "grpo": (set(), ""),
    "dr_grpo": (set(), ""),
    "dapo": (set(), ""),
    "rloo": ({"reference"}, ""),
    "reinforce_plus_plus": ({"reference"}, ""),
    "reinforce_plus_plus_baseline": (set(), ""),
    "remax": (set(), ""),
    "gspo": (set(), ""),
    "cispo": (set(), ""),
    "safe_rlhf": ({"critic", "reference", "cost"}, COST),
    "vapo": ({"critic"}, ""),
    "fapo": ({"judge"}, JUDGE),
}
STEPS = 3


class PresetsWithModelsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.environment = {k: v for k, v in os.environ.items() if k != "BATON_CONTROLLER"}
        self.environment.update(final_weights.PINNED, BATON_STATE_DIR=self.path("state"))
        ports = [f for name in ("port", "http-port", "relay-port") for f in ("--" + name, "0")]
        self.addCleanup(self.baton, "down")
        self.baton("up", "--detach", "--trainers", "2", "--rollouts", "1", "--rewards", "1",
                   "--scorers", "5", *ports)

    def path(self, *names):
        return os.path.join(self.folder.name, *names)

    def baton(self, *arguments):
        done = subprocess.run([BATON, *arguments], env=self.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        self.assertEqual(done.returncode, 0, f"baton {' '.join(arguments)}\n{done.stdout}")
        return done.stdout

    def answer(self, *arguments):
        return json.loads(self.baton(*arguments, "-o", "json"))

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def lines(self, name, rows):
        return self.write(name, "".join(json.dumps(row) + "\n" for row in rows))

    def run_job(self, name, spec, *options):
        self.baton("submit", self.write(name + ".yaml", spec), "--name", name, "--watch", *options)
        return self.answer("show", name)

    def newest_checkpoint(self, job):
        return self.answer("checkpoints", job)["checkpoints"][0]["path"]

    def weights(self, job, role):
        """Name -> digest of the model's files in the newest checkpoint."""
        newest = self.newest_checkpoint(job)
        digests = {}
        for root, _, files in os.walk(os.path.join(newest, role)):
            for file in files:
                if file.endswith(".safetensors") and "optim" not in file:
                    with open(os.path.join(root, file), "rb") as content:
                        digests[file] = hashlib.sha256(content.read()).hexdigest()
        self.assertTrue(digests, f"no weights of {role} in {newest}")
        return digests

    def make_models(self):
        sums = [(a, b, make_data.working(a, b)) for a in range(10) for b in range(10)]
        self.prompts = self.lines("rl.jsonl", ({"prompt": f"{a}+{b}:", "answer": str(a + b)}
                                               for a, b, _ in sums))
        self.answers = self.lines("sft.jsonl", ({"prompt": f"{a}+{b}:", "response": text}
                                           for a, b, text in sums))
        pairs = self.lines("pairs.jsonl", ({"prompt": f"{a}+{b}:", "chosen": text,
                                            "rejected": text[:5]} for a, b, text in sums))
        self.run_job("sft", SFT % (self.answers, 20))
        self.run_job("judge-of-pairs", PAIRS % (pairs, 5))

    def assert_changed(self, before, after):
        common = set(before) & set(after)
        self.assertTrue(common, f"{sorted(before)} and {sorted(after)} have no file in common")
        for name in common:
            self.assertNotEqual(before[name], after[name], name)

    def assert_ratios_are_one(self, steps):
        """A step makes one update, so its metrics are of ratios before anything was learned. In
        deterministic mode these are exactly 1."""
        measured = [step["metrics"] for step in steps if "actor/ppo_kl" in step["metrics"]]
        self.assertTrue(measured)
        for metrics in measured:
            self.assertEqual(metrics["actor/pg_clipfrac"], 0)
            self.assertEqual(metrics["actor/ppo_kl"], 0)

    def check(self, preset, roles, job):
        self.assertEqual(job["state"], "STATE_SUCCEEDED")
        self.assertEqual(int(job["step"]), STEPS)
        served = {node.get("role") for node in job["dataflow"]["score"]}
        self.assertEqual(served, roles | {"reward_model"})
        steps = self.answer("metrics", job["name"].split("/")[-1])["steps"]
        self.assertEqual(len(steps), STEPS)
        for step in steps:
            for name, value in step["metrics"].items():
                self.assertTrue(math.isfinite(float(value)), f"{name} is {value}")
            for critic in ("critic", "cost_critic"):
                self.assertEqual(critic + "/vf_loss" in step["metrics"], critic in roles)
        self.assertIn("actor/pg_loss", steps[-1]["metrics"])
        self.assertGreater(steps[-1]["metrics"]["actor/grad_norm"], 0)

    def test_every_preset_trains(self):
        self.make_models()
        for name in ("sft", "judge-of-pairs"):
            final_weights.assert_as_recorded(self, name, self.newest_checkpoint(name))
        before = self.weights("sft", "actor")
        listed = {p["name"] for p in self.answer("presets")["presets"]} - {"sft", "reward_model"}
        self.assertEqual(listed, set(PRESETS))
        for preset, (roles, more) in PRESETS.items():
            with self.subTest(preset):
                name = preset.replace("_", "-")
                spec = RL % (self.prompts, STEPS, preset, 1 if preset == "vapo" else 0) + more
                # Truncated sampling must not show in what the trainer compares with.
                options = ["--set", "rollout.top_p=0.8", "--set", "rollout.top_k=10", "--set",
                           "rollout.deterministic=true"]
                if preset == "safe_rlhf":  # with texts to imitate, which its critic must not see
                    options += ["--set", "algorithm.loss.ptx_coef=0.5", "--set",
                                f"data.pretrain_files=[{self.answers}]"]
                self.check(preset, roles, self.run_job(name, spec, *options))
                final_weights.assert_as_recorded(self, name, self.newest_checkpoint(name))
                self.assert_ratios_are_one(self.answer("metrics", name)["steps"])
                if preset == "safe_rlhf":
                    self.assertGreater(self.answer("show", name)["metrics"]["actor/ptx_loss"], 0)
                self.assert_changed(before, self.weights(name, "actor"))
                if "critic" in roles:  # it starts from the job's own model, with a head of its own
                    self.assert_changed(before, self.weights(name, "critic"))
                self.assertIn("\nEQUAL: ", self.baton("replay", name))

    def test_deterministic_actors_compute_what_the_rollout_said(self):
        """Of every preset, log-probs computed again are the rollout's to the last bit."""
        self.make_models()
        for i, (preset, (roles, more)) in enumerate(PRESETS.items()):
            with self.subTest(preset):
                name = "again-" + preset.replace("_", "-")
                temperature = (0.7, 1, 1.3)[i % 3]
                self.run_job(name, RL % (self.prompts, 2, preset, 0) + more, "--set",
                             "rollout.deterministic=true", "--set", "rollout.top_p=0.9", "--set",
                             f"rollout.temperature={temperature}", "--set",
                             "algorithm.recompute_log_prob=true")
                steps = self.answer("metrics", name)["steps"]
                self.assertEqual(len(steps), 2)
                for step in steps:
                    self.assertEqual(step["metrics"]["rollout_corr/log_prob_diff_max"], 0)
                    self.assertEqual(step["metrics"]["rollout_corr/k3_kl"], 0)
                self.assert_ratios_are_one(steps)

    def test_examples_end_with_the_recorded_weights(self):
        """Jobs of examples/, with fewer steps than there."""
        addition = os.path.join(SOURCE, "examples", "addition")
        data = self.path("data")
        subprocess.run([sys.executable, os.path.join(addition, "make_data.py"), "--out", data,
                        "--sft", "400", "--rl", "200", "--val", "20"], check=True,
                       stdout=subprocess.DEVNULL)
        few = ["--set", "trainer.total_training_steps=3", "--set", "actor.lr_warmup_steps=0"]
        rl = few + ["--set", "rollout.deterministic=true"]
        val = os.path.join(data, "val.jsonl")
        jobs = {
            "addition-sft": (os.path.join(addition, "sft.yaml"), few + [
                "--set", f"data.train_files=[{data}/sft.jsonl]"]),
            "addition-rl": (os.path.join(addition, "rl.yaml"), rl + [
                "--set", f"data.train_files=[{data}/rl.jsonl]", "--set", f"data.val_files=[{val}]",
                "--set", "data.max_response_length=32", "--set", "algorithm.filter_groups=false",
                "--set", "resources.rollout_workers=1"]),
            "first-job": (os.path.join(SOURCE, "examples", "first_job", "job.yaml"), rl),
        }
        for name, (spec, options) in jobs.items():
            with self.subTest(name):
                self.baton("submit", spec, "--name", name, "--watch", *options)
                final_weights.assert_as_recorded(self, name, self.newest_checkpoint(name))

    def test_two_critics_and_log_probs_computed_again(self):
        self.make_models()
        before = self.weights("sft", "actor")
        spec = RL % (self.prompts, STEPS, "safe_rlhf", 0) + COST
        options = ["--set", "algorithm.cost_critic=true", "--set",
                   "algorithm.recompute_log_prob=true", "--set",
                   "cost_critic={model: {path: 'job:judge-of-pairs'}, train: {lr: 1e-2}}"]
        job = self.run_job("two-critics", spec, *options)
        self.check("safe_rlhf", {"actor", "critic", "cost_critic", "reference", "cost"}, job)
        for role in ("actor", "critic", "cost_critic"):
            self.assert_changed(before, self.weights("two-critics", role))
        self.assertNotEqual(self.weights("two-critics", "critic"),
                            self.weights("two-critics", "cost_critic"))
        for name in ("critic/cost_values/mean", "critic/cost_returns/mean", "cost_critic/grad_norm",
                     "cost_critic/vf_explained_var"):
            self.assertIn(name, job["metrics"])
        self.assertNotEqual(job["metrics"]["critic/cost_values/mean"], 0)
        self.assertIn("\nEQUAL: ", self.baton("replay", "two-critics"))

    def mismatch(self, name, *options):
        spec = RL % (self.prompts, STEPS, "grpo", 0)
        self.run_job(name, spec, "--set", "algorithm.recompute_log_prob=true", *options)
        return [step["metrics"] for step in self.answer("metrics", name)["steps"]]

    def start_worker(self, name, roles):
        with open(self.path("state", "state.json"), encoding="utf-8") as file:
            cluster = json.load(file)
        worker = subprocess.Popen(
            [BATON + "-worker", "--controller", cluster["controller"], "--relay", cluster["relay"],
             "--roles", roles, "--id", name], env=self.environment, stderr=subprocess.DEVNULL)
        self.addCleanup(worker.wait, 30)
        self.addCleanup(worker.terminate)

    def test_log_probs_of_rollout_and_actor(self):
        """In float32 they agree, bitwise if deterministic, and the first pass has ratio 1; a rollout
        in bfloat16 differs."""
        self.make_models()
        exact = self.mismatch("exact", "--set", "rollout.deterministic=true")
        coarse = self.mismatch("coarse", "--set", "model.dtype=bfloat16")
        two = ["--set", "actor.parallel={dp: 2}"]  # each scores a part
        ranks = self.mismatch("ranks", *two)
        exact += self.mismatch("exact-ranks", "--set", "rollout.deterministic=true", *two)
        self.start_worker("both", "actor,rollout")  # one that samples with the weights it trains
        shared = ["--set", "resources.pools=[{roles: [actor, rollout]}]"]
        hybrid = self.mismatch("hybrid", *shared)
        exact += self.mismatch("exact-hybrid", "--set", "rollout.deterministic=true", *shared)
        self.assertEqual(len(exact), 3 * STEPS)
        for step in exact:
            self.assertEqual(step["rollout_corr/log_prob_diff_max"], 0)
            self.assertEqual(step["actor/ppo_kl"], 0)
        for step in exact + ranks + hybrid:
            self.assertLess(step["rollout_corr/log_prob_abs_diff"], 1e-5)
            self.assertLess(step["rollout_corr/k3_kl"], 1e-9)
        for step in coarse:
            self.assertGreater(step["rollout_corr/log_prob_abs_diff"], 1e-4)
            self.assertGreater(step["rollout_corr/k3_kl"], 1e-9)
            self.assertGreaterEqual(step["rollout_corr/log_prob_diff_max"],
                                    step["rollout_corr/log_prob_abs_diff"])
        for step in exact + ranks + hybrid + coarse:  # one optimizer step on each batch: nothing to clip
            self.assertLess(abs(step["actor/ppo_kl"]), 1e-5)
            self.assertEqual(step["actor/pg_clipfrac"], 0)

    def test_corrects_log_probs_of_a_bfloat16_rollout(self):
        """Weights, rejection and a veto, on one rank and on two."""
        self.make_models()
        loss = ("algorithm.loss={rollout_is: sequence, rollout_is_batch_normalize: true, "
                "rollout_rs: token, rollout_rs_threshold: 1.0002, "
                "rollout_token_veto_threshold: 1e-4}")
        before = self.weights("sft", "actor")
        for name, ranks in ("corrected", 1), ("corrected-ranks", 2):
            steps = self.mismatch(name, "--set", "model.dtype=bfloat16", "--set", loss, "--set",
                                  "actor.parallel={dp: %d}" % ranks)
            for step in steps:
                found = {key[len("rollout_corr/"):]: value for key, value in step.items()
                         if key.startswith("rollout_corr/")}
                self.assertTrue(all(math.isfinite(value) for value in found.values()), found)
                self.assertGreater(found["rollout_rs_masked_fraction"], 0)
                self.assertLess(found["rollout_rs_masked_fraction"], 1)
                self.assertGreaterEqual(found["rollout_rs_seq_masked_fraction"],
                                        found["rollout_rs_masked_fraction"])
                self.assertEqual(found["rollout_is_veto_fraction"], 0)
                self.assertGreater(found["rollout_is_std"], 0)
                self.assertGreater(found["rollout_is_eff_sample_size"], 0.9)
                self.assertLess(abs(found["rollout_is_batch_norm_factor"] - 1), 0.1)
                self.assertLess(abs(found["ppl_ratio"] - 1), 0.1)
                self.assertEqual(step["actor/optimizer_steps"], 1)
            self.assert_changed(before, self.weights(name, "actor"))
            self.assertIn("\nEQUAL: ", self.baton("replay", name))


if __name__ == "__main__":
    unittest.main()
