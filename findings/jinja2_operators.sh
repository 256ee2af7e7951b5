#!/usr/bin/env bash
# Operators of jinja2 do not bind as Python's do, though the expressions look like Python.
#
# Version: jinja2 3.1.6.
#
# Behaviour: `~`, which joins texts, binds tighter than `+` and `-`, and looser than `*`. So
# `'turn ' ~ loop.index0 + 1` adds a number to a text and fails, and `'step ' ~ 2 * 3` works. With a
# text on the right it fails with a message about `int` and `str` that does not name `~`. A minus
# sign binds tighter than `**`, which goes from left to right: -2 ** 2 is 4 (Python: -4) and
# 2 ** 3 ** 2 is 64 (Python: 512). A filter binds tighter than all of them: it takes the last
# operand, not the sum.
#
# Seen: the text of `expected` below. The script fails if they change.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet jinja2==3.1.6

cat >look.py <<'END'
from jinja2 import Environment

for expression in ["'turn ' ~ n + 1", "'turn ' ~ n * 2", "'turn ' ~ (n + 1)", "n + 1 ~ '. turn'",
                   "-2 ** 2", "2 ** 3 ** 2", "n + 0.5 | int", "'a' + ' b ' | trim + 'c'"]:
    try:
        result = Environment().from_string("{{ " + expression + " }}").render(n=1)
    except TypeError as error:
        result = f"TypeError: {error}"
    print(f"{expression:26}", result)
END
cat >expected <<'END'
'turn ' ~ n + 1            TypeError: can only concatenate str (not "int") to str
'turn ' ~ n * 2            turn 2
'turn ' ~ (n + 1)          turn 2
n + 1 ~ '. turn'           TypeError: unsupported operand type(s) for +: 'int' and 'str'
-2 ** 2                    4
2 ** 3 ** 2                64
n + 0.5 | int              1
'a' + ' b ' | trim + 'c'   abc
END
venv/bin/python look.py | diff expected -
echo "as described"
