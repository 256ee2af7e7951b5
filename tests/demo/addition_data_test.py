"""examples/addition/make_data.py: what its README says of the data is so."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.environ["BATON_SOURCE_DIR"], "examples", "addition", "make_data.py")


def make(*arguments):
    """Runs the script; the parsed files by name."""
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([sys.executable, SCRIPT, "--out", out, *arguments], check=True)
        files = {}
        for name in ("sft", "rl", "val"):
            with open(os.path.join(out, name + ".jsonl"), encoding="utf-8") as file:
                files[name] = [json.loads(line) for line in file]
        return files


def refusal(*arguments):
    run = subprocess.run([sys.executable, SCRIPT, "--out", "/nonexistent", *arguments],
                         stderr=subprocess.PIPE, text=True, check=False)
    return run.returncode, run.stderr


def pair(row):
    match = re.fullmatch(r"(\d+)\+(\d+):", row["prompt"])
    return int(match.group(1)), int(match.group(2))


def mistakes(row):
    """How many characters differ from the working as people do it, on paper, from the right."""
    a, b = pair(row)
    width = max(len(str(a)), len(str(b)))
    top, bottom = str(a).zfill(width), str(b).zfill(width)
    carry, expected = 0, []
    for i in range(width - 1, -1, -1):
        expected.append(f"{top[i]}+{bottom[i]}+{carry}={int(top[i]) + int(bottom[i]) + carry}")
        carry = int(top[i]) + int(bottom[i]) + carry >= 10
        carry = 1 if carry else 0
    text = " ".join(expected) + f" #{a + b}"
    if len(text) != len(row["response"]):
        return len(text)
    return sum(x != y for x, y in zip(text, row["response"]))


class AdditionDataTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.files = make()

    def test_sizes(self):
        self.assertEqual({k: len(v) for k, v in self.files.items()},
                         {"sft": 25600, "rl": 20000, "val": 2000})

    def test_four_demonstrations_of_ten_have_exactly_one_wrong_digit(self):
        counts = [mistakes(row) for row in self.files["sft"]]
        self.assertEqual(set(counts), {0, 1})
        self.assertAlmostEqual(sum(counts) / len(counts), 0.4, delta=0.015)

    def test_answers_are_right(self):
        for row in self.files["rl"] + self.files["val"]:
            self.assertEqual(int(row["answer"]), sum(pair(row)))

    def test_held_out_pairs_differ_and_are_never_drawn_for_learning(self):
        held = {pair(row) for row in self.files["val"]}
        self.assertEqual(len(held), 2000)
        learnt = {pair(row) for name in ("sft", "rl") for row in self.files[name]}
        self.assertFalse(held & learnt)
        other_seed = {pair(row) for row in make("--seed", "2")["val"]}
        self.assertNotEqual(held, other_seed)
        self.assertFalse(other_seed & learnt, "the split does not depend on the seed")

    def test_every_length_is_as_likely(self):
        lengths = [len(str(n)) for row in self.files["rl"] for n in pair(row)]
        for length in (1, 2, 3):
            self.assertAlmostEqual(lengths.count(length) / len(lengths), 1 / 3, delta=0.02)

    def test_the_same_arguments_give_the_same_data(self):
        self.assertEqual(make("--sft", "50", "--rl", "50", "--val", "50"),
                         {k: v[:50] for k, v in self.files.items()})

    def test_digits(self):
        files = make("--digits", "6", "--sft", "500", "--rl", "500", "--val", "100")
        self.assertEqual(max(len(str(n)) for row in files["rl"] for n in pair(row)), 6)
        few = make("--digits", "1", "--sft", "5", "--rl", "5")["val"]
        self.assertTrue(0 < len(few) < 100, "all that are held out of the hundred there are")

    def test_refusals(self):
        for arguments, problem in ((["--digits", "0"], "--digits 0"),
                                   (["--val", "0"], "--val 0"),
                                   (["--digits", "1", "--val", "99"], "ask for fewer")):
            code, message = refusal(*arguments)
            self.assertNotEqual(code, 0)
            self.assertIn(problem, message)


if __name__ == "__main__":
    unittest.main()
