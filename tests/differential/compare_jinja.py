#!/usr/bin/env python3
"""Compares Baton's template renderer with jinja2 on random templates.

    compare_jinja.py PROGRAM [--seed N] [--count N] [--show N] [--out FILE]

PROGRAM is render_templates of a build. Each seed gives the same templates, and each template is
rendered by PROGRAM and by jinja2 in the sandbox that transformers makes for chat templates
(_compile_jinja_template): the texts must be equal, and where one refuses, the other must too. Prints
each kind of difference once (--show of them) and the figures; the exit code is 1 when there are any.
Needs transformers and jinja2 3.1.6. docs/formats/data-set.md names the differences that stay; what
only they could explain is counted as `named`.
"""
import argparse
import builtins
import collections
import copy
import json
import random
import re
import signal
import subprocess
import sys

import jinja2
from transformers.utils.chat_template_utils import _cached_compile_jinja_template

from template_grammar import Grammar, variable_sets

# A value that Python prints with its address has no text to compare.
ADDRESS = re.compile(r"at 0x[0-9a-f]{6,}", re.IGNORECASE)
# What Baton refuses and jinja2 renders: named in the documentation.
NAMED_ERRORS = re.compile(
    r"an integer is too large|complex number|the (filter|method) '.*' (of .* )?is not supported|more than \d+ "
    r"|nested too deep|takes more than|escape \\N|is too large|the integer .* is too large"
    r"|the width or the precision of a format|after the end of its for")


SANDBOX = _cached_compile_jinja_template("").environment
seen_address = False


class Text(str, metaclass=type("Metaclass", (type,), {
        "__instancecheck__": lambda cls, value: isinstance(value, builtins.str)})):
    """`str` as jinja2's filters and its operator ~ use it: notes a value that is an address."""

    def __new__(cls, *arguments):
        global seen_address
        text = builtins.str(*arguments)
        seen_address = seen_address or ADDRESS.search(text) is not None
        return text


jinja2.filters.str = jinja2.filters.soft_str = jinja2.runtime.str = Text
SANDBOX.filters["string"] = Text
SANDBOX.finalize = lambda value: (Text(value), value)[1]  # of each value that is printed


class TooSlow(Exception):
    pass


def reference(source, variables):
    """("text", TEXT) or ("error", its class and words)."""
    global seen_address
    seen_address = False
    signal.setitimer(signal.ITIMER_REAL, 2)
    try:
        # A copy, since jinja2's filter `indent` changes a list that it is given.
        return "text", SANDBOX.from_string(source).render(**copy.deepcopy(variables))
    except TooSlow:
        return "slow", ""
    except RecursionError as error:
        return "slow", str(error)
    except Exception as error:
        return "error", f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def too_slow(*_):
    raise TooSlow


def verdict(expected, answer):
    """equal, named (a documented difference), skipped, or what differs."""
    kind, words = expected
    if kind == "slow":
        return "skipped"
    if seen_address or (kind == "text" and ADDRESS.search(words)):
        return "skipped"
    if kind == "text" and "text" in answer:
        try:
            return "equal" if answer["text"] == words else "text"
        except UnicodeError:
            return "skipped"
    if kind == "error" and "error" in answer:
        return "equal"
    if kind == "text":
        return "named" if NAMED_ERRORS.search(answer["message"]) else "refused"
    return "accepted"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--show", type=int, default=20)
    parser.add_argument("--out")
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, too_slow)
    sets = variable_sets()
    baton = subprocess.Popen([options.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True, encoding="utf-8")
    baton.stdin.write(json.dumps({"sets": sets}) + "\n")
    counts = collections.Counter()
    shown = 0
    out = open(options.out, "w") if options.out else None
    errors = 0
    for i in range(options.count):
        grammar = Grammar(random.Random(f"{options.seed}/{i}"))
        source, index = grammar.template(), grammar.random.randrange(len(sets))
        baton.stdin.write(json.dumps({"source": source, "set": index}) + "\n")
        baton.stdin.flush()
        expected = reference(source, sets[index])
        line = baton.stdout.readline()
        if not line:
            print("the program ended at", json.dumps(source))
            return 1
        answer = json.loads(line)
        errors += expected[0] == "error"
        result = verdict(expected, answer)
        counts[result] += 1
        if result in ("equal", "named", "skipped"):
            continue
        if out:
            out.write(json.dumps({"seed": f"{options.seed}/{i}", "kind": result, "source": source,
                                  "set": index, "jinja2": expected, "baton": answer}) + "\n")
        if shown < options.show:
            shown += 1
            print(f"--- {options.seed}/{i} {result}\n{source}\n  jinja2: {expected!r}\n  baton:  {answer!r}")
    baton.stdin.close()
    baton.wait()
    print(f"seed {options.seed}: {options.count} templates, {errors} of which jinja2 refuses:",
          ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    return 1 if set(counts) - {"equal", "named", "skipped"} else 0


if __name__ == "__main__":
    sys.exit(main())
