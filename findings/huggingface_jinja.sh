#!/usr/bin/env bash
# Hugging Face's Jinja for JavaScript renders a valid chat template to another text than jinja2.
#
# Versions: @huggingface/jinja 0.5.11 (npm; what transformers.js renders chat templates with) and
# jinja2 3.1.6 (PyPI; what transformers renders them with).
#
# Behaviour: both accept these templates, and none of the two reports anything. In JavaScript a
# boolean prints `true` and null prints nothing, an empty list does not equal an empty list, the
# argument of `strip` has no effect, `1.0` is `1`, and a remainder has the sign of the dividend. So the text that a page in the browser shows for a template is no proof
# of what a trainer or an engine in Python feeds to the model.
#
# Seen: the text of `expected` below, one for each template: in Python, in JavaScript. The script
# fails if they change.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet jinja2==3.1.6
npm install --silent --no-audit --no-fund @huggingface/jinja@0.5.11

cat >cases.json <<'END'
[["strict={{ tool.strict }}", {"tool": {"strict": true}}],
 ["content={{ m.content }}", {"m": {"content": null}}],
 ["{{ 'calls' if m.tool_calls != [] else 'no calls' }}", {"m": {"tool_calls": []}}],
 ["{{ m.content.strip('\n') }}|", {"m": {"content": "\n\n  4\n"}}],
 ["{{ m.content.lstrip('<think>') }}", {"m": {"content": "<think>so"}}],
 ["{{ (loop_index - 1) % 2 }}", {"loop_index": 0}],
 ["{{ call.arguments }}", {"call": {"arguments": {"city": "Oslo", "exact": true}}}],
 ["{{ p.items is defined }} {{ p.items.type }}", {"p": {"items": {"type": "string"}}}],
 ["{{ ['b', 'B', 'a'] | unique | join }}", {}],
 ["{{ t }}", {"t": 1.0}]]
END
cat >look.py <<'END'
import json
from jinja2.sandbox import ImmutableSandboxedEnvironment

environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
for template, variables in json.load(open("cases.json")):
    print(json.dumps(environment.from_string(template).render(**variables)))
END
cat >look.mjs <<'END'
import {readFileSync} from "node:fs";
import {Template} from "@huggingface/jinja";

for (const [template, variables] of JSON.parse(readFileSync("cases.json"))) {
  console.log(JSON.stringify(new Template(template).render(variables)));
}
END
venv/bin/python look.py >python.txt
node look.mjs >javascript.txt
cat >expected <<'END'
"strict=True" "strict=true"
"content=None" "content="
"no calls" "calls"
"  4|" "4|"
"so" "<think>so"
"1" "-1"
"{'city': 'Oslo', 'exact': True}" "{\"city\": \"Oslo\", \"exact\": true}"
"True " "true string"
"ba" "bBa"
"1.0" "1"
END
paste -d ' ' python.txt javascript.txt | diff expected -
echo "as described"
