#!/usr/bin/env python3
"""Runs the test of each mutant and says which mutants no test notices. `./dev mutants` calls it.

  run_mutants.py [--build DIR] [--folder F]... [--targets] [NAME...]

First each test that is asked for passes without a mutant. Then it runs once for each of its
mutants, with BATON_MUTANT, and must fail. Exits 1 if a mutant survives that the table does not
explain. --targets prints the build targets that the chosen mutants need, and runs nothing."""

import argparse
import collections
import os
import pathlib
import subprocess
import sys
import time

import table

SECONDS = 120  # for one run of one test


def command_of(mutant, build):
    """The command line of the test: a GoogleTest program of the build with a filter, or a program
    of bin/ (the simulator) with its arguments."""
    program = build / "tests" / mutant.program
    if program.is_file():
        return [str(program), f"--gtest_filter={mutant.arguments}"]
    return [str(build / "bin" / mutant.program)] + mutant.arguments.split()


def run_test(command, build, name=""):
    """(passed, seconds, the end of the output); a test that hangs has failed."""
    environment = dict(os.environ, BATON_BUILD_DIR=str(build), BATON_SOURCE_DIR=str(table.ROOT),
                       OMP_NUM_THREADS="1", OMP_WAIT_POLICY="PASSIVE", BATON_MUTANT=name)
    begin = time.monotonic()
    try:
        done = subprocess.run(command, env=environment, cwd=table.ROOT, timeout=SECONDS,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        passed, output = done.returncode == 0, done.stdout
    except subprocess.TimeoutExpired as expired:
        passed, output = False, (expired.stdout or b"") + b"\nno end in sight"
    except OSError as error:
        passed, output = False, str(error).encode()
    lines = output.decode(errors="replace").splitlines()
    # A filter that matches no test passes.
    if passed and any(line.startswith("[==========] 0 tests from") for line in lines):
        passed, lines = False, [f"no test matches {command[-1]}"]
    return passed, time.monotonic() - begin, "\n".join(lines[-15:])


def check_without_mutant(mutants, build):
    """Each test passes as it is; otherwise its failure would prove nothing."""
    broken = False
    for command in dict.fromkeys(tuple(command_of(m, build)) for m in mutants):
        passed, _, output = run_test(list(command), build)
        if not passed:
            broken = True
            print(f"{' '.join(command)} fails without a mutant:\n{output}")
    return not broken


def run_mutants(mutants, places, build):
    """Prints a line a mutant and the score by folder. True: no unexplained survivor."""
    noticed, total, unexplained = collections.Counter(), collections.Counter(), []
    for mutant in mutants:
        folder = table.folder_of(mutant.name, places)
        passed, seconds, _ = run_test(command_of(mutant, build), build, mutant.name)
        total[folder] += 1
        if not passed:
            noticed[folder] += 1
            verdict = "noticed" if not mutant.survives else "noticed; the table says it survives"
        elif mutant.survives:
            verdict = f"survives: {mutant.survives}"
        else:
            verdict = "SURVIVES"
            unexplained.append(mutant.name)
        print(f"{mutant.name:36} {seconds:5.1f} s  {verdict}", flush=True)
    print()
    for folder in sorted(total):
        print(f"{folder:28} {noticed[folder]:3} of {total[folder]:3}")
    every, found = sum(total.values()), sum(noticed.values())
    print(f"{'all':28} {found:3} of {every:3}  ({100 * found // max(every, 1)}%)")
    if unexplained:
        print(f"no test notices: {', '.join(unexplained)}")
    return not unexplained


def choose(mutants, places, names, folders):
    """The mutants of the names and of the folders; all, if neither is given."""
    unknown = set(names) - {m.name for m in mutants}
    if unknown:
        raise table.TableError(f"there is no mutant {', '.join(sorted(unknown))}")
    if not names and not folders:
        return mutants
    return [m for m in mutants if m.name in names or
            any((table.folder_of(m.name, places) + "/").startswith(f.rstrip("/") + "/")
                for f in folders)]


def main(arguments):
    parser = argparse.ArgumentParser(prog="run_mutants")
    parser.add_argument("--build", type=pathlib.Path, default=table.ROOT / "build/mutants")
    parser.add_argument("--folder", action="append", default=[])
    parser.add_argument("--targets", action="store_true")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args(arguments)
    places = table.planted()
    try:
        mutants = table.read_table(table.TABLE.read_text(encoding="utf-8"))
        chosen = choose(mutants, places, given.names, given.folder)
    except table.TableError as error:
        print(f"run_mutants: {error}", file=sys.stderr)
        return 2
    found = table.problems(mutants, places)
    if found or not chosen:
        print("\n".join(found or ["no mutant is chosen"]), file=sys.stderr)
        return 2
    if given.targets:
        print("\n".join(dict.fromkeys(m.program for m in chosen)))
        return 0
    build = given.build.resolve()
    if not check_without_mutant(chosen, build):
        return 2
    return 0 if run_mutants(chosen, places, build) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
