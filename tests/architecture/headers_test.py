#!/usr/bin/env python3
"""Include guards follow the paths of their headers, so no two headers have one guard.
Run: python3 tests/architecture/headers_test.py"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOPS = ("sdk", "relay", "controller", "workers", "examples", "tests", "bench")
GUARD = re.compile(r"^#ifndef (\w+)\n#define (\w+)$", re.MULTILINE)


def guard_of(path):
    return "BATON_" + re.sub(r"[/.-]", "_", path).upper() + "_"


def problem_of(path, text):
    """None: the header has its guard."""
    found, wanted = GUARD.search(text), guard_of(path)
    if found is None or found.group(1) != wanted or found.group(2) != wanted:
        return f"{path}: its include guard is to be {wanted}"
    return None


class IncludeGuards(unittest.TestCase):
    def test_follow_the_paths(self):
        headers = [path for top in TOPS for path in sorted((ROOT / top).rglob("*.h"))]
        self.assertGreater(len(headers), 100)
        problems = [problem_of(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
                    for path in headers]
        self.assertEqual([p for p in problems if p], [])


class TheTestItself(unittest.TestCase):
    def test_finds_wrong_include_guards(self):
        good = "// A.\n#ifndef BATON_SDK_COMMON_BASE_A_H_\n#define BATON_SDK_COMMON_BASE_A_H_\n"
        self.assertIsNone(problem_of("sdk/common/base/a.h", good))
        self.assertIsNotNone(problem_of("sdk/common/base/b.h", good))
        self.assertIsNotNone(problem_of("sdk/common/base/a.h", good.replace("define BATON", "define X")))
        self.assertIsNotNone(problem_of("sdk/common/base/a.h", "#pragma once\n"))


if __name__ == "__main__":
    unittest.main()
