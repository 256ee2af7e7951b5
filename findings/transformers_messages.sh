#!/usr/bin/env bash
# A chat template does not get the messages that were given to apply_chat_template.
#
# Versions: transformers 5.24.0 (without torch), jinja2 3.1.6.
#
# Behaviour: before it renders, transformers takes the keys out whose value is null, and gives
# `reasoning_content`, `reasoning` and `thinking` each other's value. So a template that says
# `'content' in m`, or prints `m.content`, does other things than jinja2 with the same template and
# messages: nothing beside `None`. An engine that renders templates with plain jinja2 makes other
# prompts for turns with tool calls (`"content": null` is OpenAI's form) and for turns with thoughts.
# Null inside of calls and tools stays, and `tojson` is another one as well: jinja2's sorts the keys
# and writes `<` as \u003c.
#
# Seen: the text of `expected` below. The script fails if it changes.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet tokenizers==0.23.3 transformers==5.24.0 jinja2==3.1.6

cat >look.py <<'END'
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

empty = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE(vocab={"a": 0}, merges=[])))
plain = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
call = {"name": "far", "arguments": {"unit": None, "limit": "<9"}}
turn = {"role": "assistant", "content": None, "reasoning": "look", "tool_calls": [call]}
for template in [
    "{{ m.content }}",
    "{{ 'content' in m }}",
    "{{ m.reasoning_content }}, {{ m.thinking }}",
    "{{ m.tool_calls[0] | tojson }}",
]:
    whole = "{% for m in messages %}" + template + "{% endfor %}"
    print(template)
    print("  transformers:", empty.apply_chat_template([turn], chat_template=whole, tokenize=False))
    print("  jinja2:      ", plain.from_string(whole).render(messages=[turn]))
END
cat >expected <<'END'
{{ m.content }}
  transformers: 
  jinja2:       None
{{ 'content' in m }}
  transformers: False
  jinja2:       True
{{ m.reasoning_content }}, {{ m.thinking }}
  transformers: look, look
  jinja2:       , 
{{ m.tool_calls[0] | tojson }}
  transformers: {"name": "far", "arguments": {"unit": null, "limit": "<9"}}
  jinja2:       {"arguments": {"limit": "\u003c9", "unit": null}, "name": "far"}
END
venv/bin/python look.py 2>log | diff expected - || { cat log >&2; exit 1; }
echo "as described"
