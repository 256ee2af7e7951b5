#!/usr/bin/env python3
"""Each mutant that a patch plants stands in tests/mutants/mutants.txt with its test, and the other
way round. Run: python3 tests/architecture/mutants_test.py"""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/mutants"))

import table  # noqa: E402


class MutantsStandInTheTable(unittest.TestCase):
    def test_table_and_patches_agree(self):
        places = table.planted()
        self.assertGreater(len(places), 5, "found no mutants")
        mutants = table.read_table(table.TABLE.read_text(encoding="utf-8"))
        found = table.problems(mutants, places) + table.missing_tests(mutants, table.tests())
        self.assertEqual(found, [], "\n" + "\n".join(found))


class TheTestItself(unittest.TestCase):
    def test_reads_the_table(self):
        text = ("# A comment.\n\n# sdk/a.cc\nlate  lease_test  Lease.*\n"
                "gone  simulate  --seeds 10 --from 3  survives: nobody looks\n")
        self.assertEqual(table.read_table(text),
                         [table.Mutant("late", "lease_test", "Lease.*", "", "sdk/a.cc"),
                          table.Mutant("gone", "simulate", "--seeds 10 --from 3", "nobody looks",
                                       "sdk/a.cc")])
        for line in ("late lease_test", "late", "late t f survives:  "):
            with self.assertRaises(table.TableError, msg=line):
                table.read_table(line)

    def test_finds_differences_between_table_and_sources(self):
        late = table.Mutant("late", "t", "*", "", "sdk/a.cc")
        self.assertEqual(table.problems([late], {"late": {"sdk/a.cc"}}), [])
        self.assertIn("no patch plants it", table.problems([late], {})[0])
        self.assertIn("does not name its test", table.problems([], {"late": {"sdk/a.cc"}})[0])
        self.assertIn("2 times", table.problems([late, late], {"late": {"sdk/a.cc"}})[0])
        self.assertEqual(table.problems([late], {"late": {"sdk/a.cc", "sdk/b.cc"}}), [])
        self.assertIn("under 'sdk/a.cc'", table.problems([late], {"late": {"sdk/b.cc"}})[0])

    def test_finds_filters_that_match_no_test(self):
        names = {"Lease.EndsLate", "Contract.Holds"}
        for good in ("Lease.EndsLate", "Lease.*", "Memory/Contract.Holds/0", "Lease.*:Contract.H*",
                     "--seeds 10"):
            mutant = table.Mutant("late", "t", good, "", "sdk/a.cc")
            self.assertEqual(table.missing_tests([mutant], names), [], good)
        for bad in ("Lease.EndsEarly", "Contract.EndsLate", "Lease.*:Gone.*"):
            mutant = table.Mutant("late", "t", bad, "", "sdk/a.cc")
            self.assertIn("there is no test", table.missing_tests([mutant], names)[0], bad)

    def test_reads_sources(self):
        self.assertEqual(table.PLANTED.findall('if (Mutant("a-1") || x) y = Mutant("b") ? 1 : 2;'),
                         ["a-1", "b"])
        self.assertEqual(table.TESTED.findall("TEST(A, B) {\nTEST_P(C,\n       D) {"),
                         [("A", "B"), ("C", "D")])
        self.assertEqual(table.folder_of("a", {"a": {"sdk/a/a.cc"}}), "sdk/a")


if __name__ == "__main__":
    unittest.main()
