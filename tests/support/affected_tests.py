#!/usr/bin/env python3
"""Prints the names of the C++ tests that a change of a file or folder may affect, one a line.

  affected_tests.py PATH...

These are the tests whose sources include it, by whatever way. `./dev test PATH` builds and runs
them. Tests that start programs, such as those of tests/end_to_end, are among them only if PATH is
theirs; `./dev test` runs all."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOPS = ("sdk", "relay", "controller", "workers", "examples", "tests", "bench", "proto")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">]+)[">]', re.MULTILINE)
SET = re.compile(r"set\(\s*(\w+)((?:\s+[\w./-]+)+)\s*\)")
TEST = re.compile(r"baton_(?:torch_|fuzz_seeds_)?test\(\s*(\w+)(.*?)\)", re.DOTALL)


def component(path):
    """A .h with its .cc; of a .proto all that is generated of it."""
    return re.sub(r"(\.grpc)?(\.pb)?\.[a-z]+$", "", path)


def includers(root):
    """{component: components that include it}"""
    found = {}
    for top in TOPS:
        for path in (root / top).rglob("*"):
            if path.suffix not in (".h", ".cc"):
                continue
            name = component(path.relative_to(root).as_posix())
            for include in INCLUDE.findall(path.read_text(encoding="utf-8")):
                if include.startswith("baton/"):  # made of a proto, or a header of sdk/include
                    include = ("proto/" if "/v1/" in include else "sdk/include/") + include
                found.setdefault(component(include), set()).add(name)
    return found


def affected(root, paths):
    """The components at `paths` and all that include them."""
    todo = []
    for path in paths:
        files = [path] if (root / path).is_file() else [
            file.relative_to(root).as_posix() for file in (root / path).rglob("*") if file.is_file()]
        todo += [component(file) for file in files]
    by, done = includers(root), set()
    while todo:
        name = todo.pop()
        if name not in done:
            done.add(name)
            todo += by.get(name, ())
    return done


def tests_with(root, components):
    """Names of the tests that have one of the components among their sources."""
    names = []
    for top in TOPS:
        for lists in sorted((root / top).rglob("CMakeLists.txt")):
            text = lists.read_text(encoding="utf-8")
            variables = {name: words.split() for name, words in SET.findall(text)}
            folder = lists.parent.relative_to(root).as_posix()
            for name, words in TEST.findall(text):
                sources = []
                for word in words.split():
                    variable = re.fullmatch(r"\$\{(\w+)\}", word)
                    sources += variables.get(variable.group(1), []) if variable else [word]
                if any(component(f"{folder}/{source}") in components for source in sources):
                    names.append(name)
    return names


def main():
    paths = [pathlib.Path(path).resolve() for path in sys.argv[1:]]
    for path in paths:
        if not path.exists() or not path.is_relative_to(ROOT):
            sys.exit(f"affected_tests: there is no {path} in {ROOT}")
    components = affected(ROOT, [path.relative_to(ROOT).as_posix() for path in paths])
    print("\n".join(tests_with(ROOT, components)))


if __name__ == "__main__":
    main()
