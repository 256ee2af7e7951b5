#!/usr/bin/env python3
"""Writes workers/tokenizer/testdata/template_cases.json: small templates with what jinja2 makes of
them in the sandbox of transformers, for jinja_template_test.cc. A text, or null where jinja2 refuses.
Differences that compare_jinja.py finds are added to template_cases.txt, a template a line as a JSON
string. Needs what compare_jinja.py needs."""
import json
import pathlib

from compare_jinja import reference
from template_grammar import variable_sets

DATA = pathlib.Path(__file__).resolve().parents[2] / "workers/tokenizer/testdata"


def main():
    sets = variable_sets()
    cases = []
    for line in (DATA / "template_cases.txt").read_text().splitlines():
        source = json.loads(line)
        texts = []
        for variables in sets:
            kind, words = reference(source, variables)
            texts.append(words if kind == "text" else None)
        cases.append({"source": source, "texts": texts})
    with open(DATA / "template_cases.json", "w") as file:
        file.write('{"sets": ' + json.dumps(sets, ensure_ascii=False) + ', "cases": [\n')
        file.write(",\n".join(json.dumps(case, ensure_ascii=False) for case in cases))
        file.write("\n]}\n")


if __name__ == "__main__":
    main()
