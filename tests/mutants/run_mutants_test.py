#!/usr/bin/env python3
"""run_mutants.py on the mutants of sdk/common/parallel, and on programs that only say what they are told.
Run: BATON_BUILD_DIR=build/release python3 tests/mutants/run_mutants_test.py"""

import contextlib
import io
import os
import pathlib
import tempfile
import unittest

import run_mutants
import table

BUILD = pathlib.Path(os.environ.get("BATON_BUILD_DIR", table.ROOT / "build/release"))
PLACES = {"noticed": {"sdk/a/x.cc"}, "missed": {"sdk/a/x.cc"}, "equal": {"sdk/b/y.cc"}}


def run(function, *arguments):
    """What the function answers, and what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out, \
            contextlib.redirect_stderr(io.StringIO()) as problems:
        answer = function(*arguments)
    return answer, out.getvalue() + problems.getvalue()


class OnOneFolder(unittest.TestCase):
    def test_every_mutant_is_noticed(self):
        answer, text = run(run_mutants.main,
                           ["--build", str(BUILD / "mutants_sample"), "--folder", "sdk/common/parallel"])
        self.assertEqual(answer, 0, text)
        self.assertIn("(100%)", text)
        self.assertRegex(text, r"balance-large-to-large +\d+\.\d s  noticed\n")
        self.assertRegex(text, r"sdk/common/parallel +(\d+) of +\1\n")

    def test_targets_are_those_of_the_chosen_mutants(self):
        answer, text = run(run_mutants.main, ["--targets", "imbalance-of-nothing"])
        self.assertEqual((answer, text), (0, "sdk_parallel_test\n"))

    def test_an_unknown_name_is_an_error(self):
        answer, text = run(run_mutants.main, ["--build", "b", "no-such-mutant"])
        self.assertEqual(answer, 2)
        self.assertIn("there is no mutant no-such-mutant", text)


class OnProgramsThatAreTold(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = pathlib.Path(folder.name)
        (self.build / "tests").mkdir()
        (self.build / "bin").mkdir()
        self.program("tests/a_test", '[ "$BATON_MUTANT" != noticed ]')
        self.program("tests/broken_test", "echo too bad; exit 1")
        self.program("tests/empty_test", 'echo "[==========] 0 tests from 0 test suites ran."')
        self.program("bin/simulate", '[ "$BATON_MUTANT" != noticed ] || [ "$2" != 10 ]')

    def program(self, path, script):
        (self.build / path).write_text(f"#!/bin/sh\n{script}\n")
        (self.build / path).chmod(0o755)

    def mutant(self, name, program="a_test", arguments="*", survives=""):
        return table.Mutant(name, program, arguments, survives, "")

    def test_a_survivor_without_a_reason_fails(self):
        good, text = run(run_mutants.run_mutants, [self.mutant("noticed"), self.mutant("missed")],
                         PLACES, self.build)
        self.assertFalse(good)
        self.assertIn("no test notices: missed", text)
        self.assertIn("  1 of   2", text)

    def test_a_survivor_with_a_reason_is_told(self):
        good, text = run(run_mutants.run_mutants,
                         [self.mutant("noticed"), self.mutant("equal", survives="it is the same")],
                         PLACES, self.build)
        self.assertTrue(good)
        self.assertIn("survives: it is the same", text)
        self.assertRegex(text, r"sdk/b +0 of +1\n")

    def test_the_simulator_gets_its_arguments(self):
        mutant = self.mutant("noticed", "simulate", "--seeds 10")
        self.assertTrue(run(run_mutants.run_mutants, [mutant], PLACES, self.build)[0])
        self.assertFalse(run(run_mutants.run_mutants, [mutant._replace(arguments="--seeds 9")],
                             PLACES, self.build)[0])

    def test_tests_must_pass_without_a_mutant(self):
        for program, why in (("broken_test", "too bad"), ("empty_test", "no test matches"),
                             ("none_such_test", "No such file")):
            good, text = run(run_mutants.check_without_mutant,
                             [self.mutant("noticed", program)], self.build)
            self.assertFalse(good, program)
            self.assertIn(why, text)
        self.assertTrue(run(run_mutants.check_without_mutant, [self.mutant("missed")],
                            self.build)[0])


class Choosing(unittest.TestCase):
    def test_by_name_and_by_folder(self):
        mutants = [table.Mutant(name, "t", "*", "", "") for name in PLACES]
        names = lambda *given: [m.name for m in run_mutants.choose(mutants, PLACES, *given)]
        self.assertEqual(names([], []), ["noticed", "missed", "equal"])
        self.assertEqual(names(["equal"], []), ["equal"])
        self.assertEqual(names([], ["sdk/a/"]), ["noticed", "missed"])
        self.assertEqual(names([], ["sdk"]), ["noticed", "missed", "equal"])
        self.assertEqual(names([], ["sd"]), [])


if __name__ == "__main__":
    unittest.main()
