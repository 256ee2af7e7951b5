#!/usr/bin/env bash
# What load_dataset makes of an answer in a JSON Lines file depends on the answers of other lines.
#
# Versions: datasets 5.2.0, pyarrow 26.0.1.
#
# Behaviour: load_dataset("json") gives a column the type timestamp if each of its strings looks like
# a date. The rows have datetime objects, whose text is "2024-02-29 00:00:00", so no response that
# gives the date as it was written equals the answer. One string that is no date keeps the whole
# column as text. Integers become floats if one number of the column has a fraction: 7 is "7.0", and
# integers above 2^53 lose digits. All of it happens without an error or a warning.
# `features=Features({"answer": Value("string")})` comes too late: it makes the timestamp a text.
#
# Seen: the text of `expected` below. The script fails if it changes.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export HF_HOME=$dir/home HF_HUB_OFFLINE=1
python3 -m venv venv
venv/bin/pip install --quiet datasets==5.2.0 pyarrow==26.0.1

cat >look.py <<'END'
import json

from datasets import Features, Value, load_dataset

texts = Features({"answer": Value("string")})
for answers, features in [
    (["2024-02-29", "2023-12-31"], None),
    (["2024-02-29", "unknown"], None),
    (["2024-02-29", "2023-12-31"], texts),
    ([7, 9007199254740993], None),
    ([7, 9007199254740993, 0.5], None),
]:
    with open("data.jsonl", "w") as file:
        file.writelines(json.dumps({"answer": answer}) + "\n" for answer in answers)
    rows = load_dataset("json", data_files="data.jsonl", split="train", features=features)
    print(answers, *(["as Value('string')"] if features else []))
    print("  as text:", ", ".join(str(row["answer"]) for row in rows))
END
cat >expected <<'END'
['2024-02-29', '2023-12-31']
  as text: 2024-02-29 00:00:00, 2023-12-31 00:00:00
['2024-02-29', 'unknown']
  as text: 2024-02-29, unknown
['2024-02-29', '2023-12-31'] as Value('string')
  as text: 2024-02-29 00:00:00, 2023-12-31 00:00:00
[7, 9007199254740993]
  as text: 7, 9007199254740993
[7, 9007199254740993, 0.5]
  as text: 7.0, 9007199254740992.0, 0.5
END
venv/bin/python look.py 2>log | diff expected - || { cat log >&2; exit 1; }
echo "as described"
