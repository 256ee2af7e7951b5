#!/usr/bin/env bash
# TRL's accuracy_reward pays nothing for a response that equals the solution letter for letter.
#
# Versions: trl 1.16.0, math-verify 0.9.0. (trl is installed without torch: its rewards need none.)
#
# Behaviour: the solution is read as plain text or as LaTeX, the response as LaTeX alone, and only
# in \boxed{} or after words such as "answer is". The response "7" to the solution "7" earns 0.0, and
# so do "$7$" and "The answer is 7."; "The answer is $7$." earns 1.0. A solution without a number
# gives None, which leaves the response out of the reward, even if the two are equal. A job whose
# prompts ask for neither \boxed{} nor LaTeX sees the reward 0 for all responses, which looks like a
# model that cannot do the task.
#
# Seen: the text of `expected` below. The script fails if it changes.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet math-verify==0.9.0 latex2sympy2_extended==1.11.0 packaging==25.0
venv/bin/pip install --quiet --no-deps trl==1.16.0

cat >look.py <<'END'
from trl.rewards import accuracy_reward

for solution, response in [
    ("7", "7"),
    ("7", "The answer is 7."),
    ("7", "$7$"),
    ("7", "The answer is $7$."),
    ("7", r"\boxed{7}"),
    ("Paris", "Paris"),
    ("Paris", r"\boxed{Paris}"),
]:
    reward = accuracy_reward([[{"role": "assistant", "content": response}]], [solution])[0]
    print(f"solution {solution:6} response {response:20} {reward}")
END
cat >expected <<'END'
solution 7      response 7                    0.0
solution 7      response The answer is 7.     0.0
solution 7      response $7$                  0.0
solution 7      response The answer is $7$.   1.0
solution 7      response \boxed{7}            1.0
solution Paris  response Paris                None
solution Paris  response \boxed{Paris}        None
END
venv/bin/python look.py | diff expected -
echo "as described"
