#!/usr/bin/env python3
"""What transformers makes of chat templates, for chat_golden_test.cc and jinja_template_test.cc.

    make_chat_golden.py         writes chat_templates/golden.json (the templates beside it, with
                                conversations), jinja_golden.json (small templates) and
                                turn_golden.json (lines of data whose turns have keys that are
                                null, empty or absent), settings_golden.json (settings of
                                templates, reasoning, developers, calls as replies) and
                                learned_golden.json (what is learned of conversations)
    make_chat_golden.py MODEL   prints the same of a model's own folder, as one JSON object: what
                                transformers makes of each conversation with the template in MODEL;
                                compare `baton-worker generate`, or your data, with it

Needs transformers and tokenizers (the files were made with 5.24.0 and 0.23.3, jinja2 3.1.6). The
tests need the files alone.
"""
import json
import os
import sys

from datetime import datetime

from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils import chat_template_utils
from transformers.utils.chat_template_utils import _compile_jinja_template

HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "The weather of a \"city\", as <b>text</b> überall 日本.",
        "parameters": {"type": "object",
                       "properties": {"city": {"type": "string", "description": "Its name."},
                                      "days": {"type": "integer", "enum": [1, 2], "default": 1.5}},
                       "required": ["city"]}}},
    {"type": "function", "function": {"name": "now", "description": "The time.",
                                      "parameters": {"type": "object", "properties": {}}}}]
SYSTEM = {"role": "system", "content": " Be brief.\n"}
USER = {"role": "user", "content": "\n What is 2+2? \u65e5\u672c\u00a0\u3000"}
REPLY = {"role": "assistant", "content": " It is 4.\n"}
AGAIN = {"role": "user", "content": "And 3+3?"}
CALL = {"role": "assistant", "content": "", "tool_calls": [
    {"id": "abcdefghi", "type": "function",
     "function": {"name": "get_weather",
                  "arguments": {"city": "Zürich", "days": 2, "f": 1e-7, "n": None, "b": True,
                                "l": [1, "x"]}}}]}
RESULT = {"role": "tool", "content": "{\"celsius\": 21}", "tool_call_id": "abcdefghi",
          "name": "get_weather"}
CHATS = {
    "user": [USER],
    "system": [SYSTEM, USER],
    "turns": [USER, REPLY, AGAIN],
    "system_turns": [SYSTEM, USER, REPLY, AGAIN],
    "reply": [SYSTEM, USER, REPLY],
    "call": [SYSTEM, USER, CALL],
    "result": [USER, CALL, RESULT],
    "whole": [SYSTEM, USER, CALL, RESULT, REPLY, AGAIN],
    "two_of_the_user": [USER, AGAIN],  # Mistral's refuses it.
}
MODELS = {  # template: (tokenizer of the tests, bos, eos)
    "qwen2_5": ("qwen2", None, "<|im_end|>"),
    "headed_turns": ("llama3", "<|begin_of_text|>", "<|eot_id|>"),
    "mistral_nemo": ("qwen2", "<s>", "</s>"),
    "instructions": ("mistral", "<s>", "</s>"),
}


def conversations(tokenizer, **options):
    """What `tokenizer` makes of each conversation."""
    cases = []
    for chat, messages in CHATS.items():
        for tools in (None, TOOLS):
            for generates in (True, False):
                case = {"chat": chat, "tools": tools is not None, "generates": generates}
                try:
                    case["text"] = tokenizer.apply_chat_template(
                        messages, tools=tools, tokenize=False, add_generation_prompt=generates,
                        **options)
                    if tools is None:
                        case["ids"] = tokenizer.encode(case["text"], add_special_tokens=False)
                except Exception as error:
                    case["error"] = str(error)
                cases.append(case)
    return cases


def of_templates():
    cases = []
    for name, (vocabulary, bos, eos) in MODELS.items():
        with open(os.path.join(HERE, "chat_templates", name + ".jinja"), newline="") as file:
            template = file.read()
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_file=os.path.join(HERE, f"tokenizer_{vocabulary}.json"))
        tokens = {k: v for k, v in {"bos_token": bos, "eos_token": eos}.items() if v}
        cases += [{"template": name, "tokenizer": vocabulary, **case}
                  for case in conversations(tokenizer, chat_template=template, **tokens)]
    return {"chats": CHATS, "tools": TOOLS, "cases": cases}


DATA = {"s": "  Ab c\u00a0", "n": 7, "neg": -7, "f": 2.5, "none": None, "yes": True, "no": False,
        "list": [3, 1, 2], "names": ["b", "A", "c", "a"], "empty": [], "d": {"b": 1, "a": "x", "C": []},
        "quote": "it's \"so\"\n\\ \u00e9 \U0001f600", "long": "one two  three",
        "people": [{"name": "Ann", "age": 3, "tags": {"x": 1}}, {"name": "bob", "age": 1},
                   {"name": "Cy"}]}
SMALL = r"""
{{ n + 1 }},{{ n - 10 }},{{ n * 2 }},{{ n / 2 }},{{ n // 2 }},{{ neg // 2 }},{{ neg % 3 }},{{ n ** 2 }},{{ 2 ** -1 }}
{{ 1.0 }} {{ 1e20 }} {{ 1e-5 }} {{ 0.0001 }} {{ 123456789.125 }} {{ 1e15 }} {{ 1e16 }} {{ f * 2 }} {{ -f }}
{{ 1 + 2 * 3 ** 2 }} {{ (1 + 2) * 3 }} {{ -2 ** 2 }} {{ 7 % 4 * 2 }} {{ 'a' ~ 1 ~ none ~ true }}
{{ 'a' * 3 }} {{ [1] * 2 + [3] }} {{ (1, 2) + (3,) }} {{ () }} {{ (1,) }}
{{ none }} {{ yes }} {{ list }} {{ d }} {{ {'k': [1, none, 'x', 2.0]} }} {{ quote }} {{ [quote] }} {{ ['a\'b'] }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ 'a' == 'a' }} {{ [1] == [1] }} {{ true == 1 }} {{ 'b' > 'a' }}
{{ 1 in list }} {{ 9 not in list }} {{ 'b' in d }} {{ 'b' in 'abc' }} {{ not 1 in list }}
{{ no or 'x' }} {{ yes and 'x' }} {{ not no }} {{ '' or none or 0 }} {{ 'a' if yes else 'b' }} {{ 'a' if no }}
{{ list[0] }} {{ list[-1] }} {{ list[9] }} {{ list[1:] }} {{ list[:-1] }} {{ list[::-1] }} {{ s[2:4] }} {{ s[::2] }} {{ 'abc'[-2:] }}
{{ d.a }} {{ d['b'] }} {{ d.missing }} {{ d.items() | list }} {{ d.keys() | list }} {{ d.values() | list }} {{ d.get('a') }} {{ d.get('z') }} {{ d.get('z', 4) }}
{{ '[' ~ s.strip() ~ ']' }}{{ '[' ~ s.lstrip() ~ ']' }}{{ '[' ~ s.rstrip() ~ ']' }}{{ 'xxaxx'.strip('x') }}
{{ long.split() }} {{ long.split(' ') }} {{ long.split(' ', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ 'a\nb\r\nc'.splitlines() }}
{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'bc')) }} {{ 'abcabc'.replace('b', '-') }} {{ 'abcabc'.replace('b', '-', 1) }} {{ 'abcab'.find('b') }} {{ 'abcab'.rfind('b') }} {{ 'abcab'.count('ab') }}
{{ 'aBc dEf'.upper() }} {{ 'aBc dEf'.lower() }} {{ 'aBc dEf'.title() }} {{ 'aBc dEf'.capitalize() }} {{ ','.join(['a', 'b']) }} {{ '12'.isdigit() }} {{ 'a1'.isalpha() }}
{{ s | trim }}|{{ s | length }}|{{ list | length }}|{{ d | count }}|{{ quote | length }}
{{ list | sort }} {{ list | sort(reverse=true) }} {{ names | sort }} {{ names | sort(case_sensitive=true) }} {{ people | sort(attribute='name') | map(attribute='name') | list }}
{{ list | first }} {{ list | last }} {{ list | sum }} {{ list | min }} {{ list | max }} {{ list | reverse | list }} {{ 'abc' | reverse }} {{ [1, 1, 2] | unique | list }}
{{ list | join }} {{ list | join(', ') }} {{ people | join('-', attribute='name') }} {{ names | map('upper') | list }} {{ people | map(attribute='age', default='?') | list }}
{{ people | selectattr('age') | list | length }} {{ people | selectattr('age', 'defined') | map(attribute='name') | list }} {{ people | rejectattr('name', 'equalto', 'bob') | list | length }} {{ list | select('odd') | list }} {{ list | reject('gt', 1) | list }}
{{ missing | default('x') }} {{ '' | default('x') }} {{ '' | default('x', true) }} {{ missing | d }} {{ d.a | upper }} {{ n | string ~ '!' }} {{ 'aBC' | capitalize }} {{ 'a b' | title }}
{{ d | tojson }} {{ quote | tojson }} {{ [1, 2.0, none, true, 'é'] | tojson }} {{ 'é' | tojson(ensure_ascii=true) }} {{ {} | tojson(indent=2) }}
{{ d | tojson(indent=2) }} {{ people | tojson(indent=4) }} {{ d | tojson(sort_keys=true) }} {{ d | tojson(separators=(',', ':')) }}
{{ d | dictsort }} {{ d | dictsort(reverse=true) }} {{ {'b': 1, 'a': 2} | dictsort(by='value') }} {{ d | items | list }}
{{ '7' | int }} {{ 'x' | int }} {{ 'x' | int(3) }} {{ 2.9 | int }} {{ '1.5' | float }} {{ -3 | abs }} {{ 2.567 | round(2) }} {{ 2.5 | round }} {{ 3 | round }} {{ n | round(1) }} {{ 3 | round(0, 'floor') }} {{ 2.1 | round(0, 'ceil') }}
{{ 'a\nb' | indent }} {{ 'a\nb' | indent(2, true) }} {{ 'x' | replace('x', 'y') }} {{ 'abc' | list }} {{ d | list }}
{{ missing is defined }} {{ n is defined }} {{ missing is undefined }} {{ none is none }} {{ s is string }} {{ d is mapping }} {{ list is iterable }} {{ list is sequence }} {{ d is sequence }} {{ n is number }} {{ f is float }} {{ n is integer }} {{ yes is boolean }} {{ yes is true }} {{ no is false }} {{ 4 is even }} {{ 3 is odd }} {{ 6 is divisibleby 3 }} {{ 1 is in [1] }} {{ n is not none }} {{ 'A' is upper }} {{ n is eq 7 }} {{ n is ge 8 }}
{% for x in list %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ '' if loop.last else ',' }}{% endfor %}
{% for x in list if x > 1 %}{{ x }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.first }}{% else %}none{% endfor %}{% for x in empty %}{% else %}nothing{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for x in list %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {{ loop.cycle('a', 'b') }}{% endfor %}
{% for x in range(5) %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %}{{ range(2, 9, 3) | list }}
{% set x = 1 %}{% for i in list %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}{% set ns = namespace(t=0) %}{% for i in list %}{% set ns.t = ns.t + i %}{% endfor %}{{ ns.t }}
{% if no %}a{% elif n == 7 %}b{% else %}c{% endif %}{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set t %}x{{ n }}{% endset %}{{ t }}{% set u | upper %}abc{% endset %}{{ u }}
{% macro m(a, b='x') %}<{{ a }}{{ b }}>{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=3, a=4) }}{% macro r(k) %}{% if k %}{{ k }}{{ r(k - 1) }}{% endif %}{% endmacro %}{{ r(3) }}
{% raw %}{{ not }} {% this %}{% endraw %}{# a comment #}{{ '{{' }}{{ "a" "b" }}{{ 'tab\t\x41\u00e9' }}
a  {%- if yes -%}  b  {%- endif -%}  c {{- n -}} d
{{ 'aaabaaa'.rfind('aa') }} {{ 'aaab'.find('aab') }} {{ 'ababa'.count('aba') }} {{ 'abaab'.find('z') }} {{ 'a\u00e9b'.rfind('b') }} {{ 'a--b--c'.rsplit('--', 1) }} {{ 'aaaaa'.rsplit('aa') }} {{ 'aaaaa'.split('aa') }} {{ 'aab' in 'aaab' }} {{ '' in 'a' }} {{ 'a'.find('') }} {{ 'ab'.rfind('') }}
{{ '\u65e5\u672c\u8a9e'[1] }}{{ '\u65e5\u672c\u8a9e'[-1] }}{{ '\u65e5\u672c\u8a9e'[1:] }}{{ '\u65e5\u672c\u8a9e'[:-1] }}{{ '\u65e5\u672c\u8a9e'[::2] }}{{ '\u65e5\u672c\u8a9e'[::-1] }}{{ '\u65e5\u672c\u8a9e'[5:] }}{{ '\u65e5\u672c\u8a9e'[2:1] }}{{ '\u65e5\u672c\u8a9e'[-2:9] }}|{{ '\u65e5\u672c\u8a9e'[3] }}{{ '\u65e5'[-2] }}|{{ '\u65e5\u672c' | first }}{{ '\u65e5\u672c' | last }}{{ list | last }}{{ list[-3] }}{{ list[-4] }}
{{ 'xy\u00e9abxy\u00e9'.strip('yx\u00e9') }}|{{ 'xyx'.strip('xy') }}|{{ '\u3000 a \u00a0'.strip() }}|{{ ' a b '.split(none, 1) }}{{ '  '.split() }}{{ 'a\n\nb\n'.splitlines() }}|{{ 'ab' * 7 }}{{ 'a' * 0 }}{{ [1, 2] * 3 }}{{ 'abc'.replace('', '-') }}{{ 'abc'.replace('', '-', 2) }}{{ ['b', 'B', 'a', 'b'] | unique | list }}
{% generation %}text{% endgeneration %}{{ {'a': {'b': [1, {'c': 2}]}}.a.b[1]['c'] }}{{ {'a': 1, 'a': 2} }}
""".strip("\n").split("\n")
BLOCKS = [  # With newlines, for trim_blocks and lstrip_blocks.
    "a\n  {% if yes %}\n  b\n  {% endif %}\nc\n",
    "a\n  {%+ if yes %}\n  b\n  {%+ endif +%}\nc\n\n",
    "  {# x #}\n  y\n {#- z -#} \n w",
    "x {% if yes %} y\n{% endif %}\n{{ n }}\n{{ n }}\n",
    "{% for i in list %}\n  {{ i }}\n{% endfor %}\nend",
    "a\r\nb\rc\n{% raw %}\n  {{ x }}\n{% endraw %}\n d",
    "a {%- raw -%} \n b\n  {% endraw %}\nc {% raw %} x {%- endraw %} y",
    "\n\n{%- set z = 1 %}\n\n  {{- z }}\n\n  {%- if z %}\n k{% endif -%}\n\n m",
]


def small():
    out = []
    for source in SMALL + BLOCKS:
        text = _compile_jinja_template(source).render(**DATA)
        out.append({"source": source, "text": text})
    return {"data": DATA, "cases": out}


ABSENT = object()
CALLS = [{"id": "abcdefghi", "type": "function", "index": None,
          "function": {"name": "f", "arguments": {"x": 1, "none": None, "deep": {"n": None}}}}]
TURNS = {  # Templates that tell an absent key, null, an empty and a full value apart.
    "content": "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}",
    "think": "{% for m in messages %}{% if m.role == 'assistant' and '</think>' in m.content %}T{% endif %}"
             "[{{ m.role }}:{{ m.content }}{% for c in m.tool_calls or [] %}<{{ c.function.name }}>{% endfor %}]"
             "{% endfor %}",
    "keys": "{% for m in messages %}{{ m | tojson }}{% for k, v in m.items() %},{{ k }}{% endfor %}\n{% endfor %}",
    "tests": "{% for m in messages %}{% for v in [m.content, m.tool_calls, m.name, m['tool_call_id'], m.get('x')] %}"
             "{{ 'd' if v is defined }}{{ 'n' if v is none }}{{ 's' if v is string }}{{ 't' if v }}/"
             "{% endfor %}{{ 'tool_calls' in m }}{{ 'content' in m }}|{% endfor %}",
}


def turn_lines():
    """Conversations whose assistant's and tool's turns have every mix of such keys."""
    def turn(**keys):  # in the order in which Baton gives them to a template
        return {key: value for key, value in keys.items() if value is not ABSENT}
    for content in (ABSENT, None, "", "text"):
        for calls in (ABSENT, None, [], CALLS):
            if content in (ABSENT, None) and calls != CALLS:
                continue  # A turn without content or calls says nothing; Baton refuses the line.
            yield [USER, turn(role="assistant", content=content, tool_calls=calls),
                   turn(role="tool", content="3", name="f", tool_call_id="abcdefghi"), REPLY, AGAIN]
    for name in (ABSENT, None, "", "f"):
        for call_id in (ABSENT, None, "", "abcdefghi"):
            yield [USER, turn(role="assistant", content=None, tool_calls=CALLS),
                   turn(role="tool", content="", name=name, tool_call_id=call_id), REPLY, AGAIN]


def of_turns():
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=os.path.join(HERE, "tokenizer_qwen2.json"))
    templates = dict(TURNS)
    for name in ("qwen2_5", "headed_turns", "mistral_nemo"):
        with open(os.path.join(HERE, "chat_templates", name + ".jinja"), newline="") as file:
            templates[name] = file.read()
    cases = []
    for messages in turn_lines():
        for name, source in templates.items():
            case = {"template": name, "line": json.dumps({"messages": messages}, ensure_ascii=False)}
            try:
                _, bos, eos = MODELS.get(name, (None, None, None))
                tokens = {k: v for k, v in {"bos_token": bos, "eos_token": eos}.items() if v}
                case["text"] = tokenizer.apply_chat_template(
                    messages, chat_template=source, tokenize=False, add_generation_prompt=True,
                    **tokens)
            except Exception as error:
                case["error"] = str(error)
            cases.append(case)
    return {"templates": TURNS, "cases": cases}


DATE = "2026-02-03"
ADD = {"type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": [2, None]}}}
SETTINGS = {  # Templates that read more than messages and tools.
    "kwargs": "{{ enable_thinking }}|{{ reasoning_effort | default('none') }}|{{ budget }}|{{ names }}|"
              "{% if enable_thinking is defined and enable_thinking is false %}off{% endif %}"
              "{% for m in messages %}[{{ m.content }}]{% endfor %}",
    "documents": "{% for d in documents or [] %}<{{ d.title }}:{{ d['text'] }}>{% endfor %}{{ documents | tojson }}"
                 "{{ bos_token }}{% for m in messages %}[{{ m.content }}]{% endfor %}",
    "date": "{{ strftime_now('%d %b %Y|%Y-%m-%d|%A %B %-d, %j %y %H:%M:%S') }}"
            "{% if strftime_now is defined %}!{% endif %}{{ strftime_now(format='%A') }}",
    "reasoning": "{% for m in messages %}[{{ m.role }}:{% if m.reasoning_content %}<think>{{ m.reasoning_content }}"
                 "</think>{% endif %}{{ m.thinking }}/{{ m.reasoning }}/{{ m.content }}]{% endfor %}",
    "keys": "{% for m in messages %}{{ m | tojson }}{% endfor %}",
}
SETTINGS_LINES = [
    ({}, {}),
    ({"enable_thinking": False, "budget": 1024, "names": ["a", {"b": 1.5}]}, {}),
    ({"enable_thinking": False, "budget": 1}, {"chat_template_kwargs": {"enable_thinking": True, "names": None}}),
    ({}, {"chat_template_kwargs": {"reasoning_effort": "<|im_end|>", "bos_token": "B"}}),
    ({"documents": [{"title": "of the job", "text": "x"}]}, {}),
    ({"documents": [{"title": "of the job", "text": "x"}]}, {"documents": [{"title": "of the line", "text": "y"}]}),
    ({}, {"documents": []}),
]
REASONED = [
    [USER, {"role": "assistant", "content": "4", "reasoning_content": "2 and 2"}, AGAIN,
     {"role": "assistant", "content": "6", "reasoning": "3 and 3"}, USER],
    [USER, {"role": "assistant", "content": "4", "thinking": "t"}, AGAIN],
    [USER, {"role": "assistant", "content": "4", "reasoning_content": "", "thinking": "t"}, AGAIN],
    [USER, {"role": "assistant", "content": "4", "reasoning_content": "r", "thinking": "t", "reasoning": "x"}, AGAIN],
    [USER, {"role": "assistant", "content": "4", "reasoning_content": None, "thinking": None, "reasoning": "x"}, AGAIN],
    [USER, {"role": "assistant", "content": "", "tool_calls": [ADD], "reasoning": "I add."},
     {"role": "tool", "content": "3", "name": "add", "tool_call_id": "1"}, AGAIN],
    [{"role": "developer", "content": "Be brief.", "name": "dev"}, USER],
    [{"role": "user", "content": "Hi", "name": "Ann", "channel": "a", "parts": [{"x": None}]}],
]


class FixedDay(datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromisoformat(DATE)


def of_settings():
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=os.path.join(HERE, "tokenizer_qwen2.json"))
    chat_template_utils.datetime = FixedDay
    lines = [(spec, {"messages": [USER], **line}) for spec, line in SETTINGS_LINES]
    lines += [({}, {"messages": messages}) for messages in REASONED]
    cases = []
    for spec, line in lines:
        for name, source in SETTINGS.items():
            case = {"template": name, "spec": spec, "line": json.dumps(line, ensure_ascii=False)}
            given = {key: value for key, value in line.get("chat_template_kwargs", {}).items()
                     if value is not None}  # Of a table null is an absent key.
            if line.get("documents"):
                given["documents"] = line["documents"]
            case["text"] = tokenizer.apply_chat_template(
                line["messages"], chat_template=source, tokenize=False, add_generation_prompt=True,
                **{**spec, **given})
            cases.append(case)
    return {"templates": SETTINGS, "date": DATE, "cases": cases}


# The same text with {% generation %} around what the model is to learn, and without. A newline after a
# tag would be trimmed, so ends write theirs.
SAID = "{{ m.content }}{% for c in m.tool_calls or [] %}<call>{{ c.function | tojson }}{% endfor %}<|im_end|>"
LEARNED = {
    "chatml": ("{% for m in messages %}<|im_start|>{{ m.role }}\n", SAID, "{{ '\n' }}{% endfor %}"
               "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"),
    "tight": ("{{ 'Talk:' }}{% for m in messages %}{{ '<|im_start|>' ~ m.role ~ '>' }}", SAID, "{% endfor %}"
              "{% if add_generation_prompt %}{{ '<|im_start|>assistant>' }}{% endif %}"),
    # A reply is begun with a thought that no turn keeps.
    "thinks": ("{% for m in messages %}<|im_start|>{{ m.role }}\n", SAID, "{{ '\n' }}{% endfor %}"
               "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"),
}


def talks():
    u, a = (lambda text, **more: {"role": "user", "content": text, **more}), \
        (lambda text, **more: {"role": "assistant", "content": text, **more})
    yield [u("2+2?"), a("4")]
    yield [u("2+2?"), a("4"), u("And 3+3?"), a("It is 6.")]
    yield [{"role": "system", "content": "Be brief."}, u("x\ny"), a("no "), u("Überall?"), a("日本 ja")]
    yield [u("Add."), a("", tool_calls=[ADD]), {"role": "tool", "content": "3"}, a("3"), u("Thanks"), a("Bye.")]
    yield [u("a"), a("b", weight=0), u("c"), a("d", weight=1), u("e"), a("f", weight=0)]
    yield [u("a"), a("b", weight=1), u("c"), a("d", weight=0), u("e"), a("f")]
    yield [u("a"), a("a b c"), a("d"), u("e"), a("<b>f</b>")]


def of_learned():
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=os.path.join(HERE, "tokenizer_qwen2.json"))
    templates, cases = {}, []
    for name, (begin, said, end) in LEARNED.items():
        def learned(condition):
            return (f"{begin}{{% if {condition} %}}{{% generation %}}{said}{{% endgeneration %}}"
                    f"{{% else %}}{said}{{% endif %}}{end}")
        templates[name] = {"plain": begin + said + end, "marked": learned("m.role == 'assistant'")}
        # What transformers masks: of turns of weight 0 nothing, which a template can say too.
        reference = learned("m.role == 'assistant' and (m.weight is undefined or m.weight != 0)")
        for messages in talks():
            out = tokenizer.apply_chat_template(
                messages, chat_template=reference, tokenize=True, return_dict=True,
                return_assistant_tokens_mask=True, sanitize_control_tokens=False)
            cases.append({"template": name, "line": json.dumps({"messages": messages}, ensure_ascii=False),
                          "ids": out["input_ids"], "mask": out["assistant_masks"]})
    return {"templates": templates, "cases": cases}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        made = conversations(AutoTokenizer.from_pretrained(sys.argv[1]))
        json.dump({"chats": CHATS, "tools": TOOLS, "cases": made}, sys.stdout, ensure_ascii=False, indent=1)
        sys.exit()
    for name, content in (("chat_templates/golden.json", of_templates()), ("jinja_golden.json", small()),
                          ("turn_golden.json", of_turns()), ("settings_golden.json", of_settings()),
                          ("learned_golden.json", of_learned())):
        with open(os.path.join(HERE, name), "w") as file:
            cases = content.pop("cases")
            file.write(json.dumps(content, ensure_ascii=False)[:-1] + ', "cases": [\n')
            file.write(",\n".join(json.dumps(case, ensure_ascii=False) for case in cases))
            file.write("\n]}\n")
        print(name)
