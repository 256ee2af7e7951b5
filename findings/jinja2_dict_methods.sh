#!/usr/bin/env bash
# A chat template reads `parameter.items` and gets a method of dict, not the schema under that key.
#
# Version: jinja2 3.1.6, in the sandbox that transformers uses for chat templates.
#
# Behaviour: `a.b` asks for an attribute of the Python object first and for the key second. JSON
# schemas of tools have the key `items` (arrays), and arguments of tools may be called `values`,
# `keys`, `copy` or `get`. `schema.items` is then the method, and what hangs below it
# (`schema.items.type`) is undefined, which prints nothing: a template writes a tool without the
# type of its list, and nothing fails. `schema['items']` asks for the key first, but for the
# attribute second: `schema['items'] is defined` is true where there is no such key. Only
# `'items' in schema` tells whether it is there.
#
# Seen: the text of `expected` below. The script fails if they change.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet jinja2==3.1.6

cat >look.py <<'END'
from jinja2.sandbox import ImmutableSandboxedEnvironment

environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
array = {"type": "array", "items": {"type": "string"}}
text = {"type": "string"}
for template, schema in [
    ("list of {{ p.items.type }}", array),
    ("list of {{ p['items'].type }}", array),
    ("{{ p.items is defined }}, {{ p['items'] is defined }}", text),
    ("{{ 'items' in p }}", text),
    ("{{ 'array' if p.items else 'no array' }}", text),
    ("{{ p.values is callable }}, {{ p['values'] }}", {"values": [1, 2]}),
]:
    print(f"{template:58}", repr(environment.from_string(template).render(p=schema)))
END
cat >expected <<'END'
list of {{ p.items.type }}                                 'list of '
list of {{ p['items'].type }}                              'list of string'
{{ p.items is defined }}, {{ p['items'] is defined }}      'True, True'
{{ 'items' in p }}                                         'False'
{{ 'array' if p.items else 'no array' }}                   'array'
{{ p.values is callable }}, {{ p['values'] }}              'True, [1, 2]'
END
venv/bin/python look.py | diff expected -
echo "as described"
