#!/usr/bin/env bash
# A config.json whose rope_parameters have the right theta computes with 10000.
#
# Versions: transformers 5.24.0 and 4.57.1 (both without torch).
#
# Behaviour: transformers 5 writes `rope_parameters`, which hold theta, in place of `rope_theta` and
# `rope_scaling`. transformers 4 reads such a folder without a word and takes its default theta,
# 10000. transformers 5 itself loses theta where a config has the old key beside the new one, as after
# a merge or an edit by hand: `rope_scaling` replaces `rope_parameters` whole, and theta is 10000 unless
# the top level has `rope_theta`. All tensors fit in either case, so nothing fails.
#
# Seen: the text of `expected` below. The script fails if it changes.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv 5.24.0
5.24.0/bin/pip install --quiet transformers==5.24.0
python3 -m venv 4.57.1
4.57.1/bin/pip install --quiet transformers==4.57.1

cat >save.py <<'END'
from transformers import LlamaConfig

LlamaConfig(rope_parameters={"rope_type": "default", "rope_theta": 500000.0}).save_pretrained("saved")
END
cat >read.py <<'END'
import json
import sys

from transformers import AutoConfig, __version__

with open("saved/config.json") as file:
    written = {**json.load(file), **json.loads(sys.argv[1])}
with open("saved/config.json", "w") as file:
    json.dump(written, file)
config = AutoConfig.from_pretrained("saved")
theta = config.rope_theta if __version__[0] == "4" else config.rope_parameters["rope_theta"]
keys = sorted(key for key in written if key.startswith("rope_"))
print(f"transformers {__version__} reads {', '.join(keys)}: theta {theta:g}")
END
cat >expected <<'END'
transformers 5.24.0 reads rope_parameters: theta 500000
transformers 4.57.1 reads rope_parameters: theta 10000
transformers 5.24.0 reads rope_parameters, rope_scaling: theta 10000
END
{
  5.24.0/bin/python save.py
  5.24.0/bin/python read.py '{}'
  4.57.1/bin/python read.py '{}'
  5.24.0/bin/python read.py '{"rope_scaling": {"rope_type": "linear", "factor": 2.0}}'
} 2>log | diff expected - || { cat log >&2; exit 1; }
echo "as described"
