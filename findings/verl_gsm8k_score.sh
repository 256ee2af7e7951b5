#!/usr/bin/env bash
# verl's score for GSM8K gives 0 to a right answer that a full stop or spaces follow.
#
# Version: verl 0.9.1. (Its file is loaded alone: `import verl` needs ray and torch.)
#
# Behaviour: the pattern of the number takes full stops too, and the text that it finds must equal
# the answer letter for letter. "#### 72." and "72.0" are wrong for the answer "72", and "#### $72"
# is not found at all although the code removes dollar signs. Method "flexible" finds the "72." of
# "The answer is 72." and calls it wrong too. Only the last 300 characters are looked at, so an
# answer that more white space or talk follows is not found. A model learns to leave out the full
# stop: the first rise of such a reward is style, not arithmetic, and scores of verl and of a rule
# that compares numbers cannot be compared.
#
# Seen: the text of `expected` below. The script fails if it changes.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --no-deps verl==0.9.1

cat >look.py <<'END'
import importlib.util
from importlib.metadata import files

(file,) = [f for f in files("verl") if str(f) == "verl/utils/reward_score/gsm8k.py"]
spec = importlib.util.spec_from_file_location("gsm8k", file.locate())
gsm8k = importlib.util.module_from_spec(spec)
spec.loader.exec_module(gsm8k)

for response in ["#### 72", "#### 72.", "#### 72.0", "#### $72", "####72", "The answer is 72",
                 "The answer is 72.", "#### 72" + " " * 300]:
    shown = response if len(response) < 30 else response.strip() + " and 300 spaces"
    strict, flexible = (gsm8k.compute_score(response, "72", method=m) for m in ("strict", "flexible"))
    print(f"{shown:24} strict {float(strict)} flexible {float(flexible)}")
END
cat >expected <<'END'
#### 72                  strict 1.0 flexible 1.0
#### 72.                 strict 0.0 flexible 0.0
#### 72.0                strict 0.0 flexible 0.0
#### $72                 strict 0.0 flexible 1.0
####72                   strict 0.0 flexible 1.0
The answer is 72         strict 0.0 flexible 1.0
The answer is 72.        strict 0.0 flexible 0.0
#### 72 and 300 spaces   strict 0.0 flexible 0.0
END
venv/bin/python look.py | diff expected -
echo "as described"
