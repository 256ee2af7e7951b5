#!/usr/bin/env bash
# math-verify finds a number in plain text that is not the number written there.
#
# Versions: math-verify 0.9.0 with latex2sympy2_extended 1.11.0.
#
# Behaviour: outside LaTeX `parse` takes a number that it recognizes and drops what stands around
# it. The answer "3 1/2" becomes 1, so a response that ends with 1 is right and one that ends with
# 3.5 is wrong. "1e3" becomes 1 and "12:30" becomes 12. "50%" equals both 50 and 0.5. A text without
# a number becomes the empty list, which equals nothing, itself included: an answer such as "Paris"
# can never be met. Within dollars the same fractions are read right. So gold answers must be LaTeX
# (or checked by looking at what `parse` makes of them) before a job trains on such rewards.
#
# Seen: the text of `expected` below. The script fails if it changes.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet math-verify==0.9.0 latex2sympy2_extended==1.11.0

cat >look.py <<'END'
from math_verify import parse, verify

for answer, response in [
    ("3 1/2", "1"), ("3 1/2", "3.5"), (r"$3\frac{1}{2}$", "3.5"),
    ("1e3", "1000"), ("1e3", "1"), ("12:30", "12"),
    ("50%", "50"), ("50%", "0.5"), ("0.5", "50"),
    ("2 cats and 3 dogs", "3"),
    ("Paris", "Paris"), ("B", "B"),
]:
    gold = parse(answer)
    right = verify(gold, parse(response))
    print(f"answer {answer:18} is read as {str(gold[:1]):20} response {response:6} right: {right}")
END
cat >expected <<'END'
answer 3 1/2              is read as [1]                  response 1      right: True
answer 3 1/2              is read as [1]                  response 3.5    right: False
answer $3\frac{1}{2}$     is read as [7/2]                response 3.5    right: True
answer 1e3                is read as [1]                  response 1000   right: False
answer 1e3                is read as [1]                  response 1      right: True
answer 12:30              is read as [12]                 response 12     right: True
answer 50%                is read as [50*(1/100)]         response 50     right: True
answer 50%                is read as [50*(1/100)]         response 0.5    right: True
answer 0.5                is read as [0.500000000000000]  response 50     right: False
answer 2 cats and 3 dogs  is read as [3]                  response 3      right: True
answer Paris              is read as []                   response Paris  right: False
answer B                  is read as []                   response B      right: False
END
venv/bin/python look.py | diff expected -
echo "as described"
