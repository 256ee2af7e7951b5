"""The table of mutants (mutants.txt), and the mutants that the patches plant."""

import collections
import fnmatch
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests/mutants/patches"
TABLE = ROOT / "tests/mutants/mutants.txt"
TOPS = ("sdk", "relay", "controller", "workers", "tests/simulation")
HEADING = re.compile(r"# [a-z_/0-9]+\.(cc|h)$")
TESTED = re.compile(r"\b(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)")
PLANTED = re.compile(r'\bMutant\("([a-z0-9-]+)"\)')

# `program` with `arguments` must fail under the mutant. `survives` says why no test can notice it;
# empty: one must. `place` is the source that the table names above the mutant.
Mutant = collections.namedtuple("Mutant", "name program arguments survives place")


class TableError(Exception):
    """A line of the table that cannot be read."""


def read_table(text):
    """[Mutant], in the order of the lines."""
    mutants, place = [], ""
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            place = line[1:].strip() if HEADING.match(line) else place
            continue
        test, _, why = line.partition(" survives: ")
        words = test.split(None, 2)
        if len(words) != 3 or (" survives:" in line and not why.strip()):
            raise TableError(f"line {number}: expected NAME PROGRAM ARGUMENTS [survives: WHY]: {line}")
        mutants.append(Mutant(words[0], words[1], words[2].strip(), why.strip(), place))
    return mutants


def planted(folder=FOLDER):
    """Name -> set of the sources in which the patches plant it."""
    places = collections.defaultdict(set)
    for patch in sorted(folder.rglob("*.patch")):
        path = ""
        for line in patch.read_text(encoding="utf-8").splitlines():
            if line.startswith("+++ b/"):
                path = line.removeprefix("+++ b/")
            elif line.startswith("+"):
                for name in PLANTED.findall(line):
                    places[name].add(path)
    return places


def tests(root=ROOT):
    """{"Suite.Name"} of the GoogleTest cases of the sources."""
    names = set()
    for top in TOPS + ("tests",):
        for path in sorted((root / top).rglob("*.cc")) + sorted((root / top).rglob("*.h")):
            names.update(".".join(case) for case in TESTED.findall(path.read_text(encoding="utf-8")))
    return names


def missing_tests(mutants, names):
    """Filters of the table that match none of the cases `names`: sentences. Of a case with
    parameters, "Some/Suite.Name/0", suite and name must match."""
    found = []
    for mutant in mutants:
        if mutant.arguments.startswith("--"):
            continue  # of a program of bin/
        for one in mutant.arguments.lstrip("-").split(":"):
            suite, _, name = one.partition(".")
            parts = [part for part in suite.split("/") if not part.isdigit()]
            if not fnmatch.filter(names, f"{parts[-1]}.{name.split('/')[0]}"):
                found.append(f"mutant {mutant.name}: there is no test {one}")
    return found


def folder_of(name, places):
    """The folder of the mutant's source."""
    return min(places[name]).rsplit("/", 1)[0] if name in places else "(nowhere)"


def problems(mutants, places):
    """What does not agree between the table and the patches: sentences, none if all is well."""
    found = []
    listed = collections.Counter(m.name for m in mutants)
    for name, count in listed.items():
        if count > 1:
            found.append(f"mutant {name} stands {count} times in the table")
        if name not in places:
            found.append(f"mutant {name} stands in the table; no patch plants it")
    for mutant in mutants:
        if mutant.name in places and mutant.place not in places[mutant.name]:
            found.append(f"mutant {mutant.name} is planted in {min(places[mutant.name])}; the table "
                         f"has it under '{mutant.place}'")
    for name, sources in places.items():
        if name not in listed:
            found.append(f"{min(sources)} plants mutant {name}; the table does not name its test")
    return sorted(found)
