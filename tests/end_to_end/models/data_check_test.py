"""What `baton submit` says of models and data before any worker is held, by the programs as they
are installed; and the recipe of docs/formats/data-set.md."""
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = os.environ["BATON_SOURCE_DIR"]
BIN = os.path.join(os.environ["BATON_BUILD_DIR"], "bin")

SPEC = """
kind: rl
model: {init: {characters: "0123456789+= ", hidden_size: 16, intermediate_size: 32,
               num_hidden_layers: 1, num_attention_heads: 2, max_position_embeddings: 64}}
data: {train_files: [train.jsonl], max_prompt_length: 6, max_response_length: 8}
reward: {rules: [{type: exact_match}]}
trainer: {total_training_steps: 1}
"""
CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 15,
          "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
          "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 64,
          "rms_norm_eps": 1e-6}
# Stand in where the libraries are not installed: a parquet file of this test is then a value of
# Python, and a data set a folder of JSON.
DATASETS = '''
import datetime, types
def load_dataset(kind, data_files=None, split=None):
    assert (kind, split) == ("parquet", "train")
    return eval(open(data_files, encoding="utf-8").read())
def load_dataset_builder(name, config):
    files = {"train": [name + "/train.jsonl"]}
    return types.SimpleNamespace(name="json", config=types.SimpleNamespace(data_files=files))
'''
FSSPEC = '''
import io
def open(path, mode, encoding, compression):
    return io.open(path, mode, encoding=encoding)
'''


def has_datasets():
    probe = "import datasets, pyarrow.parquet"
    return subprocess.run([sys.executable, "-c", probe], stderr=subprocess.DEVNULL).returncode == 0


class DataCheckTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        log = cls.path("controller.log")
        cls.controller = subprocess.Popen(
            [os.path.join(BIN, "baton-controller"), "--listen", "127.0.0.1:0", "--http",
             "127.0.0.1:0", "--data-root", cls.path("data"), "--log-file", log])
        deadline = time.monotonic() + 60
        port = None
        while port is None and time.monotonic() < deadline:
            if os.path.exists(log):
                with open(log, encoding="utf-8") as text:
                    port = re.search(r"grpc_port=(\d+)", text.read())
        cls.environment = dict(os.environ, BATON_CONTROLLER=f"127.0.0.1:{port.group(1)}")

    @classmethod
    def tearDownClass(cls):
        cls.controller.terminate()
        cls.controller.wait()
        cls.folder.cleanup()

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.folder.name, *names)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def lines(self, name, rows):
        return self.write(name, "".join(json.dumps(row) + "\n" for row in rows))

    def submit(self, spec, *options):
        """Exit code, standard output and standard error."""
        done = subprocess.run(
            [os.path.join(BIN, "baton"), "submit", self.write("job.yaml", spec), *options],
            env=self.environment, text=True, capture_output=True, timeout=120)
        return done.returncode, done.stdout, done.stderr

    def refuse(self, spec, *texts):
        """Both --dry-run and submit refuse it, and say each of `texts`."""
        for options in (["--dry-run"], []):
            code, _, said = self.submit(spec, *options)
            self.assertEqual(code, 2, said)
            for text in texts:
                self.assertIn(text, said)
        self.assertEqual(json.loads(subprocess.run(
            [os.path.join(BIN, "baton"), "jobs", "-o", "json"], env=self.environment, text=True,
            capture_output=True, timeout=60).stdout).get("jobs", []), [])

    def test_1_prompts_that_are_too_long_are_named(self):
        rows = [{"prompt": "1+1=", "answer": 2}, {"prompt": "1234567=", "answer": 2}]
        file = self.lines("train.jsonl", rows)
        self.refuse(SPEC, f"{file}:2: the prompt has 8 tokens, more than 6",
                    "1 of 2 prompts have more than data.max_prompt_length = 6 tokens, the longest 8")

    def test_2_refuses_at_submit_what_workers_would_refuse(self):
        self.lines("train.jsonl", [{"prompt": "1+1=", "answer": "2"}])
        self.refuse(SPEC.replace("exact_match", "numeric, extract: '(1'"),
                    "spec.reward.rules[0].extract".split(".", 1)[1], "parenthes")
        self.refuse(SPEC.replace("0123456789+= ", "0123456789"), "train.jsonl:1: ")
        self.refuse(SPEC.replace("model: {", "model: {chat_template: chatml, "), "<|im_start|>")
        self.write("model/config.json", json.dumps(CONFIG))
        with_path = re.sub(r"model: \{init.*?\}\}", "model: {path: model}", SPEC, flags=re.S)
        self.refuse(with_path, "tokenizer.json")
        self.refuse(with_path.replace("max_response_length: 8", "max_response_length: 60"),
                    "exceeds the 64 positions of the model")
        self.write("model/config.json", json.dumps(dict(CONFIG, model_type="mamba")))
        self.refuse(with_path, "mamba")

    # The reward would be 1 for a response of nothing, and the model would learn to say nothing.
    def test_2_a_rule_without_answers_is_refused(self):
        self.lines("train.jsonl", [{"prompt": "1+1=", "solution": "2"}])
        self.refuse(SPEC, "none of 1 line has `answer`, and spec.reward.rules[0] (exact_match) "
                    "compares responses with it; the first has `prompt`, `solution`",
                    "set spec.data.answer_key: solution")
        of_pattern = SPEC.replace("type: exact_match", "type: regex, pattern: '^{answer}'")
        self.refuse(of_pattern, "spec.reward.rules[0] (regex) compares")
        named = SPEC.replace("max_prompt_length", "answer_key: solution, max_prompt_length")
        self.assertEqual(self.submit(named, "--dry-run")[0], 0)
        # Nobody knows whether a command reads the answer.
        command = SPEC.replace("{rules: [{type: exact_match}]}", "{command: cat}")
        code, _, told = self.submit(command, "--dry-run")
        self.assertEqual(code, 0, told)
        self.assertIn("data.train_files: of 1 examples 1 line has no `answer`, which "
                      "spec.reward.command gets", told)
        self.assertIn("train.jsonl:1, with `prompt`, `solution`; if one of its keys", told)
        self.assertIn("data.train_files: the job does not use these keys of the lines: `solution`",
                      told)

    # A demonstration of 9 tokens and an end loses its end at 8.
    def test_2_demonstrations_that_are_cut_are_told(self):
        sft = SPEC.replace("kind: rl", "kind: sft").replace("reward: {", "#")
        self.lines("train.jsonl", [{"prompt": "1+1=", "response": "2"},
                                   {"prompt": "1+2=", "response": "333333333"}])
        code, _, told = self.submit(sft, "--dry-run")
        self.assertEqual(code, 0, told)
        self.assertIn("data.train_files: 1 example has a response of more than "
                      "data.max_response_length = 8 tokens", told)
        filtered = sft.replace("max_prompt_length", "filter_overlong_responses: true, max_prompt_length")
        code, _, told = self.submit(filtered, "--dry-run")
        self.assertEqual(code, 0, told)
        self.assertIn("data.train_files: 1 line is left out, whose responses are longer than "
                      "data.max_response_length; 1 example remains", told)

    def test_2_turns_of_weight_zero_are_left_out(self):
        def line(reply, weight):
            return {"prompt": "1+1=", "completion": [{"role": "assistant", "content": reply,
                                                      "weight": weight}]}
        sft = SPEC.replace("kind: rl", "kind: sft").replace("reward: {", "#")
        self.lines("train.jsonl", [line("3", 0), line("2", 1)])
        code, _, told = self.submit(sft, "--dry-run")
        self.assertEqual(code, 0, told)
        self.assertIn("data.train_files: 1 line is left out, where all that could be trained on has "
                      "weight 0; 1 example remains", told)
        file = self.lines("train.jsonl", [line("3", 0), line("2", 0.5)])
        self.refuse(sft, f"{file}:2: `completion[0].weight` is 0.5, neither 0")

    # The command's help and errors name what was typed, not the program that `baton` becomes.
    def test_2_generate_names_the_program_that_was_typed(self):
        def run(*arguments):
            return subprocess.run([os.path.join(BIN, arguments[0]), "generate", *arguments[1:]],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
                                  encoding="utf-8").stdout
        self.assertIn("Usage: baton generate [OPTIONS]", run("baton", "--help"))
        wrong = ("--model", "/nowhere", "--prompt", "x")
        self.assertTrue(run("baton", *wrong).startswith("baton: model directory /nowhere"))
        self.assertTrue(run("baton-worker", *wrong).startswith("baton-worker: model directory"))

    def test_3_filters_overlong_prompts(self):
        self.lines("train.jsonl", [{"prompt": prompt, "answer": ""}
                                   for prompt in ("1+1=", "1234567=", "2+2=")])
        spec = SPEC.replace("max_prompt_length: 6", "max_prompt_length: 6, "
                            "filter_overlong_prompts: true")
        code, said, told = self.submit(spec, "-o", "json", "--name", "filtered")
        self.assertEqual(code, 0, told)
        self.assertIn("data.train_files: 1 line is left out, whose prompts are longer than "
                      "data.max_prompt_length; 2 examples remain", told)
        job = json.loads(said)
        kept = job["effective_spec"]["data"]["train_files"][0]
        with open(self.path("data", kept), encoding="utf-8") as file:
            self.assertEqual([json.loads(line)["prompt"] for line in file], ["1+1=", "2+2="])
        self.lines("train.jsonl", [{"prompt": prompt, "answer": ""}
                                   for prompt in ("1+1=", "1234567=")])
        self.assertIn("data.max_prompt_length; 1 example remains\n",
                      self.submit(spec, "--dry-run")[2])

    def test_4_reads_what_the_documented_recipe_writes(self):
        with open(os.path.join(SOURCE, "docs", "formats", "data-set.md"), encoding="utf-8") as text:
            recipe = re.search(r"## Parquet and Hugging Face.*?```python\n(.*?)```", text.read(),
                               re.S).group(1)
        self.assertLessEqual(len(recipe.strip().splitlines()), 30)
        script = self.write("recipe/convert.py", recipe)
        rows = [{"prompt": [{"role": "user", "content": "1+1="}], "label": True, "tools": None,
                 "day": datetime.date(2024, 5, 1), "time": datetime.datetime(2024, 5, 1, 12, 30),
                 "reward_model": {"style": "rule", "ground_truth": "2"}},
                {"prompt": [{"role": "user", "content": "é"}], "label": False,
                 "tools": [{"name": "f", "parameters": {"a": {"type": "string"}, "b": None}},
                           {"name": "g", "parameters": {"a": None, "b": {"type": "string"}}}],
                 "reward_model": {"style": "rule", "ground_truth": "3"}}]
        table, out = self.path("rows.parquet"), self.path("rows.jsonl")
        environment = dict(os.environ, HF_HOME=self.path("hf"), HF_HUB_OFFLINE="1")
        if has_datasets():
            import pyarrow
            import pyarrow.parquet
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), table)
        else:
            self.write("recipe/datasets.py", DATASETS)
            self.write("recipe/fsspec.py", FSSPEC)
            self.write("rows.parquet", repr(rows))

        def convert(source, target):
            done = subprocess.run([sys.executable, script, source, target], env=environment,
                                  text=True, capture_output=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)

        convert(table, out)
        rows[0].update(day="2024-05-01", time="2024-05-01T12:30:00")
        with open(out, encoding="utf-8") as file:
            text = file.read()
            # A table gives each tool the parameters of all tools; the script takes them out again.
            del rows[0]["tools"], rows[1]["tools"][0]["parameters"]["b"]
            del rows[1]["tools"][1]["parameters"]["a"]
            self.assertEqual([json.loads(line) for line in text.splitlines()], rows)
            self.assertIn("é", text)
        # Texts that look like dates stay texts: an answer is compared with what is written there.
        written = [{"prompt": "When?", "answer": answer, "when": [{"day": answer}]} for answer in
                   ("2024-05-01", "2024-05-01 12:30", "2024-05-01T12:30:00+02:00")]
        for name, text in (("lines", "\n".join(map(json.dumps, written)) + "\n"),
                           ("array", json.dumps(written))):
            self.write(f"{name}/train.jsonl", text)
            convert(self.path(name), self.path("dates.jsonl"))
            with open(self.path("dates.jsonl"), encoding="utf-8") as file:
                self.assertEqual([json.loads(line) for line in file], written)
        # Baton reads both lines with verl's key of answers: all they lack is a model with a template.
        spec = SPEC.replace("train.jsonl", "rows.jsonl").replace(
            "max_prompt_length", "answer_key: reward_model.ground_truth, max_prompt_length")
        code, _, told = self.submit(spec, "--dry-run")
        self.assertEqual(code, 2)
        self.assertIn("2 problems", told)
        for line in (1, 2):
            self.assertIn(f"rows.jsonl:{line}: the prompt is a list of messages, and the model of "
                          "spec.model.init has no chat template", told)


if __name__ == "__main__":
    unittest.main()
