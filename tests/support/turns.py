#!/usr/bin/env python3
"""Says whether the cores of jobs do what they did when it was recorded. `./dev turns` calls it.

  turns.py [--build DIR] [--record]

For a change that moves code and is to change nothing: all events and effects, in their order, of
1,000 seeds of the simulator and of every case of tests/job, as one number each (turn_digest.h), are
compared with those in turns.txt. --record writes that file anew; a commit that does so says what
has changed."""

import argparse
import collections
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORD = pathlib.Path(__file__).with_name("turns.txt")
SEEDS = 1000
TESTS = ("job_test", "job_accounting_test", "job_async_test")


def fail(output):
    sys.exit(f"turns: {output}")


def of_simulator(build):
    """{"simulate": digest}"""
    done = subprocess.run([build / "bin/simulate", "--seeds", str(SEEDS), "--turns"], cwd=ROOT,
                          stdout=subprocess.PIPE, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("turns ")]
    if done.returncode != 0 or len(lines) != 1:
        fail(f"simulate failed:\n{done.stdout[-2000:]}")
    return {f"{SEEDS} seeds": lines[0].split()[1]}


def of_cases(build):
    """{"Suite.Case": digest}: of all jobs of the case, in their order."""
    cases = collections.defaultdict(hashlib.sha256)
    with tempfile.TemporaryDirectory() as folder:
        for test in TESTS:
            path = pathlib.Path(folder, test)
            done = subprocess.run([build / "tests" / test], cwd=ROOT, text=True, check=False,
                                  env=dict(os.environ, BATON_TURNS_FILE=str(path)),
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if done.returncode != 0:
                fail(f"{test} failed:\n{done.stdout[-2000:]}")
            for line in path.read_text(encoding="utf-8").splitlines():
                name, value = line.rsplit(" ", 1)
                cases[name].update(value.encode() + b"\n")
    return {name: digest.hexdigest()[:16] for name, digest in cases.items()}


def differences(recorded, now):
    """What is not as it was: sentences, none if all is."""
    found = []
    for name in sorted(recorded.keys() | now.keys()):
        if name not in now:
            found.append(f"{name}: there is no such case any more")
        elif name not in recorded:
            found.append(f"{name}: it is new, or has another name")
        elif recorded[name] != now[name]:
            found.append(f"{name}: its turns have changed")
    return found


def read(text):
    return dict(line.rsplit(" ", 1) for line in text.splitlines())


def write(turns):
    return "".join(f"{name} {value}\n" for name, value in sorted(turns.items()))


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args(arguments)
    build = options.build.resolve()
    now = {**of_simulator(build), **of_cases(build)}
    if options.record:
        RECORD.write_text(write(now), encoding="utf-8")
        print(f"{len(now)} numbers recorded in {RECORD.relative_to(ROOT)}")
        return 0
    found = differences(read(RECORD.read_text(encoding="utf-8")), now)
    for sentence in found:
        print(sentence)
    print(f"{len(now)} numbers, {len(found)} of them not as recorded")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
