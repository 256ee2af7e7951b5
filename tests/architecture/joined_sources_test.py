#!/usr/bin/env python3
"""Sources of one target are compiled together (a unity build), and share their anonymous namespaces
then. Two functions of one name would be overloads of each other there, and a call might silently
take the other file's. Fails on a name that two sources of a target both define.
Run: BATON_BUILD_DIR=build/release python3 tests/architecture/joined_sources_test.py"""

import collections
import os
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BATON_BUILD_DIR", ROOT / "build/release"))

INCLUDED = re.compile(r'^#include "(.*)"', re.M)
DEFINITIONS = [
    re.compile(r"(?:class|struct|enum(?: class)?)\s+(\w+)\b(?!.*;\s*$)"),
    re.compile(r"(?:inline |static |thread_local )*(?:constexpr|const)\s+[\w:<>,\s*&]*?\b(\w+)(?:\[[^\]]*\])?\s*[={]"),
    re.compile(r"(?!(?:using|return|namespace|TEST|TYPED_TEST|INSTANTIATE|template|typedef|static_assert)\b|TEST_|#|//)"
               r"[A-Za-z_][\w:<>,\s*&\[\]]*?[\s*&]([A-Za-z_]\w*)\("),
]


def own_names(text):
    """What the text defines for itself, in anonymous namespaces or as static functions: names at
    the beginning of a line."""
    names, inside = set(), False
    for line in text.splitlines():
        if line.startswith("namespace {"):
            inside = True
        elif re.match(r"\}\s*// namespace$", line.rstrip()):
            inside = False
        elif inside or line.startswith("static "):
            found = next(filter(None, (d.match(line) for d in DEFINITIONS)), None)
            if found:
                names.add(found.group(1))
    return names


def clashes(sources):
    """sources: path -> text. Of names that several define: (name, paths)."""
    where = collections.defaultdict(list)
    for path, text in sorted(sources.items()):
        for name in own_names(text):
            where[name].append(path)
    return sorted((name, paths) for name, paths in where.items() if len(paths) > 1)


def joined_sources():
    """Target -> path -> text, of the targets of this build."""
    targets = collections.defaultdict(dict)
    for unity in BUILD.glob("**/*.dir/Unity/unity_*.cxx"):
        for path in INCLUDED.findall(unity.read_text()):
            source = pathlib.Path(path)
            if source.is_file() and source.is_relative_to(ROOT):
                targets[unity.parent.parent.name][str(source.relative_to(ROOT))] = source.read_text()
    return targets


class JoinedSources(unittest.TestCase):
    def test_names_are_of_one_source(self):
        cache = BUILD / "CMakeCache.txt"
        if "CMAKE_UNITY_BUILD:UNINITIALIZED=ON" not in cache.read_text() and \
                "CMAKE_UNITY_BUILD:BOOL=ON" not in cache.read_text():
            self.skipTest("not a unity build")
        targets = joined_sources()
        self.assertGreater(len(targets), 40, "found no sources")
        found = [f"{target[:-4]}: {name} in {', '.join(paths)}"
                 for target, sources in sorted(targets.items()) for name, paths in clashes(sources)]
        self.assertEqual(found, [], "\nrename one, or share it:\n" + "\n".join(found))


class TheTestItself(unittest.TestCase):
    ONE = "namespace baton {\nnamespace {\nint Two(bool b) {\n}\nconstexpr int kSize = 3;\n}  // namespace\n"

    def names(self, line):
        return own_names("namespace {\n" + line + "\n}  // namespace\nvoid After() {\n")

    def test_reads_definitions(self):
        self.assertEqual(own_names(self.ONE), {"Two", "kSize"})
        self.assertEqual(own_names("static int Outside(int a) {"), {"Outside"})
        self.assertEqual(self.names("std::vector<std::pair<int, A*>>& Of(const B& b) {"), {"Of"})
        self.assertEqual(self.names("class Tally final : public Base {"), {"Tally"})
        self.assertEqual(self.names("const std::vector<int64_t> kLengths = {7, 1};"), {"kLengths"})
        self.assertEqual(self.names("constexpr char kPpo[] = R\"("), {"kPpo"})
        for nothing in ["using ::testing::Pair;", "using Job = v1::Job;", "struct Ahead;", "TEST(Suite, Name) {",
                        "  int inside = Call();", "// A note (aside).", "}"]:
            self.assertEqual(self.names(nothing), set(), nothing)

    def test_finds_an_overload_of_another_file(self):
        other = self.ONE.replace("bool b", "const std::string& s").replace("kSize", "kOther")
        self.assertEqual(clashes({"a.cc": self.ONE, "b.cc": other}), [("Two", ["a.cc", "b.cc"])])
        self.assertEqual(clashes({"a.cc": self.ONE}), [])


if __name__ == "__main__":
    unittest.main()
