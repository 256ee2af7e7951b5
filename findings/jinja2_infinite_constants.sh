#!/usr/bin/env bash
# A constant that is infinite or not a number is printed, but cannot be used.
#
# Versions: jinja2 3.1.6, as plain Environment and as ImmutableSandboxedEnvironment (transformers
# renders chat templates with it).
#
# Behaviour: the compiler computes constant expressions and writes the results into the Python code
# of the template by repr(). For infinity and NaN that is `inf` and `nan`, which are no Python
# literals. So {{ "inf"|float }} prints inf, because an output that is constant becomes a text, but
# the same expression in `set`, `if` or a comparison raises NameError when the template is rendered,
# even though no name of the template is missing. With a variable in place of the constant it works.
# (A number that a float cannot hold, 1e400, is such a constant too.)
#
# Seen: the text of `expected` below. The script fails if it changes.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet jinja2==3.1.6

cat >look.py <<'END'
from jinja2 import Environment
from jinja2.sandbox import ImmutableSandboxedEnvironment

TEMPLATES = [
    '{{ "inf"|float }}',
    '{% set most = "inf"|float %}{{ 3 < most }}',
    '{% set most = limit|float %}{{ 3 < most }}',
    '{% if "nan"|float %}true{% else %}false{% endif %}',
    '{% if 1e400 > 3 %}true{% endif %}',
    '{% set most = 1e400 %}{{ most }}',
]
for environment in (Environment(), ImmutableSandboxedEnvironment()):
    for template in TEMPLATES:
        try:
            text = environment.from_string(template).render(limit="inf")
        except NameError as error:
            text = f"NameError: {error}"
        print(f"{template:52} {text}")
END
cat >expected <<'END'
{{ "inf"|float }}                                    inf
{% set most = "inf"|float %}{{ 3 < most }}           NameError: name 'inf' is not defined
{% set most = limit|float %}{{ 3 < most }}           True
{% if "nan"|float %}true{% else %}false{% endif %}   NameError: name 'nan' is not defined
{% if 1e400 > 3 %}true{% endif %}                    true
{% set most = 1e400 %}{{ most }}                     NameError: name 'inf' is not defined
{{ "inf"|float }}                                    inf
{% set most = "inf"|float %}{{ 3 < most }}           NameError: name 'inf' is not defined
{% set most = limit|float %}{{ 3 < most }}           True
{% if "nan"|float %}true{% else %}false{% endif %}   NameError: name 'nan' is not defined
{% if 1e400 > 3 %}true{% endif %}                    true
{% set most = 1e400 %}{{ most }}                     NameError: name 'inf' is not defined
END
venv/bin/python look.py | diff expected -
echo "as described"
