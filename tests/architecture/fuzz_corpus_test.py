#!/usr/bin/env python3
"""Each fuzz target has a folder of seeds in tests/fuzz/corpus, and each folder there a target. Seeds
are few and small. A seed that is not text is made by tests/fuzz/make_seeds.py.
Run: python3 tests/architecture/fuzz_corpus_test.py"""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/fuzz"))

import make_seeds  # noqa: E402

FEWEST, MOST, BYTES = 3, 20, 4096
TOPS = ("sdk", "relay", "controller", "workers", "examples", "tests")


def targets():
    return {path.stem for top in TOPS for path in (ROOT / top).rglob("*_fuzz.cc")}


def corpus():
    """{target: {name: bytes}}"""
    return {folder.name: {seed.name: seed.read_bytes() for seed in folder.iterdir()}
            for folder in make_seeds.CORPUS.iterdir() if folder.is_dir()}


def is_text(data):
    try:
        return b"\0" not in data and data.decode("utf-8") is not None
    except UnicodeDecodeError:
        return False


def problems(names, folders, made):
    """`names`: of the targets; `folders`: as corpus() gives them; `made`: paths of made seeds."""
    found = [f"{name}: it has no folder in tests/fuzz/corpus" for name in names - set(folders)]
    for folder, seeds in folders.items():
        if folder not in names:
            found.append(f"tests/fuzz/corpus/{folder}: there is no such fuzz target")
        if not FEWEST <= len(seeds) <= MOST:
            found.append(f"tests/fuzz/corpus/{folder}: it has {len(seeds)} seeds, and is to have "
                         f"{FEWEST} to {MOST}")
        for name, data in seeds.items():
            if len(data) > BYTES:
                found.append(f"{folder}/{name}: {len(data)} bytes are more than {BYTES}")
            if not is_text(data) and f"{folder}/{name}" not in made:
                found.append(f"{folder}/{name}: it is no text, and make_seeds.py does not make it")
    return sorted(found)


class SeedsOfFuzzTargets(unittest.TestCase):
    def test_every_target_has_some(self):
        self.assertGreater(len(targets()), 5, "found no fuzz targets")
        found = problems(targets(), corpus(), make_seeds.seeds())
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_made_ones_are_as_the_script_makes_them(self):
        self.assertEqual(make_seeds.differing(), [], "run tests/fuzz/make_seeds.py")


class TheTestItself(unittest.TestCase):
    GOOD = {"a": b"1", "b": b"2", "c": b"3"}

    def test_finds_what_is_wrong(self):
        self.assertEqual(problems({"x_fuzz"}, {"x_fuzz": self.GOOD}, {}), [])
        self.assertIn("has no folder", problems({"x_fuzz"}, {}, {})[0])
        self.assertIn("no such fuzz target", problems(set(), {"x_fuzz": self.GOOD}, {})[0])
        self.assertIn("it has 1 seeds", problems({"x_fuzz"}, {"x_fuzz": {"a": b"1"}}, {})[0])
        large = {**self.GOOD, "a": b"1" * (BYTES + 1)}
        self.assertIn("4097 bytes", problems({"x_fuzz"}, {"x_fuzz": large}, {})[0])
        binary = {**self.GOOD, "a": b"\0"}
        self.assertIn("no text", problems({"x_fuzz"}, {"x_fuzz": binary}, {})[0])
        self.assertEqual(problems({"x_fuzz"}, {"x_fuzz": binary}, {"x_fuzz/a": b"\0"}), [])

    def test_draws_are_read_from_both_ends(self):
        draws = make_seeds.Draws().number(2, 1, 3).text(b"a\\b", 9).number(258, 0, 1000).flag(True)
        self.assertEqual(draws.bytes(), b"a\\\\b\\ " + bytes([1, 2, 1, 1]))
        self.assertEqual(make_seeds.Draws().text(b"ab", 2).number(7, 7, 7).bytes(), b"ab")

    def test_messages(self):
        self.assertEqual(make_seeds.field(1, 300), b"\x08\xac\x02")
        self.assertEqual(make_seeds.field(2, b"hi"), b"\x12\x02hi")
        self.assertEqual(make_seeds.field(1, -1), b"\x08" + b"\xff" * 9 + b"\x01")


if __name__ == "__main__":
    unittest.main()
