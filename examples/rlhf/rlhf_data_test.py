"""collect.py judges and writes down; make_pairs.py makes pairs of it, the same whatever the order."""
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


class RlhfDataTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = lambda *names: os.path.join(folder.name, *names)

    def python(self, script, *arguments, text=""):
        return subprocess.run([sys.executable, os.path.join(HERE, script), *arguments], input=text,
                              check=True, capture_output=True, text=True).stdout

    def collect(self, rows):
        asked = [json.dumps({"id": i, "prompt": p, "response": r, "answer": "1+1+0=2 #2"})
                 for i, (p, r) in enumerate(rows)]
        out = self.python("collect.py", self.path("samples.jsonl"), text="\n".join(asked) + "\n")
        return [json.loads(line) for line in out.splitlines()]

    def pairs(self):
        out = self.path("pairs")
        self.python("make_pairs.py", self.path("samples.jsonl"), "--out", out)
        read = {}
        for name in ("pairs", "held_out_pairs"):
            with open(os.path.join(out, name + ".jsonl"), encoding="utf-8") as file:
                read[name] = file.read()
        return read

    def test_an_answer_is_right_when_all_of_it_is(self):
        answers = self.collect([("a:", "1+1+0=2 #2"), ("a:", "1+2+0=2 #2"), ("a:", "")])
        self.assertEqual(answers, [{"id": 0, "reward": 1.0}, {"id": 1, "reward": 0.0},
                                   {"id": 2, "reward": 0.0}])

    def test_pairs_are_a_right_and_a_wrong_answer_to_one_question(self):
        rows = [(f"{q}:", r) for q in range(20) for r in ("1+1+0=2 #2", "x", "y", "y", "")]
        rows += [("never right:", "x"), ("always right:", "1+1+0=2 #2")]
        self.collect(rows)
        first = self.pairs()
        made = [json.loads(line) for text in first.values() for line in text.splitlines()]
        expected = {(f"{q}:", r) for q in range(20) for r in "xy"}
        self.assertEqual({(row["prompt"], row["rejected"]) for row in made}, expected)
        self.assertEqual(len(made), len(expected), "no pair twice")
        self.assertEqual({row["chosen"] for row in made}, {"1+1+0=2 #2"})
        prompts = {name: {json.loads(line)["prompt"] for line in text.splitlines()}
                   for name, text in first.items()}
        self.assertFalse(prompts["pairs"] & prompts["held_out_pairs"])
        os.remove(self.path("samples.jsonl"))
        random.Random(1).shuffle(rows)
        self.collect(rows)
        self.assertEqual(self.pairs(), first)


if __name__ == "__main__":
    unittest.main()
