#!/usr/bin/env bash
# safetensors writes a transposed numpy array with the right shape and the wrong values.
#
# Versions: safetensors 0.8.0, numpy 2.4.6.
#
# Behaviour: safetensors.numpy.save_file copies the memory of an array as it lies there, and does
# not ask whether it lies in C order. `w.T`, a Fortran array and a slice of columns are written with
# their own shape and with numbers in another order, without an error or a warning. (The same
# function for torch refuses such tensors.) Converters of weights transpose all the time, so the
# file looks right to every check of names, shapes and dtypes, and the model talks nonsense. Write
# `np.ascontiguousarray(w.T)`.
#
# Seen: the text of `expected` below. The script fails if it changes.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet safetensors==0.8.0 numpy==2.4.6

cat >look.py <<'END'
import numpy as np
from safetensors.numpy import load_file, save_file

w = np.arange(6, dtype=np.float32).reshape(2, 3)
for name, array in [
    ("w", w),
    ("w.T", w.T),
    ("np.ascontiguousarray(w.T)", np.ascontiguousarray(w.T)),
    ("np.asfortranarray(w)", np.asfortranarray(w)),
    ("w[:, 1:]", w[:, 1:]),
]:
    save_file({"weight": array}, "model.safetensors")
    read = load_file("model.safetensors")["weight"]
    print(f"{name:26} {array.astype(int).tolist()} read as {read.astype(int).tolist()}")
END
cat >expected <<'END'
w                          [[0, 1, 2], [3, 4, 5]] read as [[0, 1, 2], [3, 4, 5]]
w.T                        [[0, 3], [1, 4], [2, 5]] read as [[0, 1], [2, 3], [4, 5]]
np.ascontiguousarray(w.T)  [[0, 3], [1, 4], [2, 5]] read as [[0, 3], [1, 4], [2, 5]]
np.asfortranarray(w)       [[0, 1, 2], [3, 4, 5]] read as [[0, 3, 1], [4, 2, 5]]
w[:, 1:]                   [[1, 2], [4, 5]] read as [[1, 2], [3, 4]]
END
venv/bin/python look.py | diff expected -
echo "as described"
