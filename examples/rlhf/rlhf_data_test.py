"""make_pairs.py judges the answers that `baton generate` wrote and makes pairs of them, the same
whatever the order; rlhf.py asks for the whole working."""
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import rlhf  # noqa: E402

RIGHT = "1+1+0=2 #2"


class RlhfDataTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = lambda *names: os.path.join(folder.name, *names)

    def write(self, name, rows):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)

    def read(self, *names):
        with open(self.path(*names), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def pairs(self, rows):
        """Of (prompt, responses): {name of a file: what it has}."""
        self.write("answers.jsonl", ({"prompt": prompt, "answer": RIGHT, "responses": responses}
                                     for prompt, responses in rows))
        subprocess.run([sys.executable, os.path.join(HERE, "make_pairs.py"),
                        self.path("answers.jsonl"), "--out", self.path("pairs")],
                       check=True, capture_output=True)
        return {name: self.read("pairs", name + ".jsonl") for name in ("pairs", "held_out_pairs")}

    def test_an_answer_is_right_when_all_of_it_is(self):
        made = self.pairs([("a:", [RIGHT, "1+2+0=2 #2", RIGHT + " ", ""])])["pairs"]
        self.assertEqual({row["chosen"] for row in made}, {RIGHT})
        self.assertEqual({row["rejected"] for row in made}, {"1+2+0=2 #2", RIGHT + " "})

    def test_pairs_are_a_right_and_a_wrong_answer_to_one_question(self):
        rows = [(f"{q}:", [RIGHT, "x", "y", "y", ""]) for q in range(20)]
        rows += [("never right:", ["x"]), ("always right:", [RIGHT, RIGHT]),
                 ("twice:", [RIGHT, "x"]), ("twice:", ["z", "x"])]
        first = self.pairs(rows)
        made = first["pairs"] + first["held_out_pairs"]
        expected = {(f"{q}:", r) for q in range(20) for r in "xy"} | {("twice:", "x"),
                                                                     ("twice:", "z")}
        self.assertEqual({(row["prompt"], row["rejected"]) for row in made}, expected)
        self.assertEqual(len(made), len(expected), "no pair twice")
        self.assertEqual({row["chosen"] for row in made}, {RIGHT})
        prompts = {name: {row["prompt"] for row in made} for name, made in first.items()}
        self.assertFalse(prompts["pairs"] & prompts["held_out_pairs"])
        self.assertTrue(prompts["held_out_pairs"])
        random.Random(1).shuffle(rows)
        self.assertEqual(self.pairs([(p, r[::-1]) for p, r in rows]), first)

    def test_questions_ask_for_the_working(self):
        self.write("rl.jsonl", ({"prompt": f"47+{b}:", "answer": str(47 + b)} for b in range(9)))
        rlhf.ask_for_the_working(self.path("rl.jsonl"))
        asked = self.read("rl.jsonl")
        self.assertEqual(asked[8], {"prompt": "47+8:", "answer": "7+8+0=15 4+0+1=5 #55"})
        rlhf.copy_lines(self.path("rl.jsonl"), self.path("questions.jsonl"), 3)
        self.assertEqual(self.read("questions.jsonl"), asked[:3])


if __name__ == "__main__":
    unittest.main()
