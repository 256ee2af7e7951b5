#!/usr/bin/env bash
# In a GGUF file of a Llama the rows of the query and key weights stand in another order.
#
# Versions: gguf 0.19.0, transformers 5.24.0 (its reader of GGUF files, without torch), numpy 2.4.6.
#
# Behaviour: GGUF's architecture `llama` rotates neighbouring pairs of a head's dimensions, Hugging
# Face's Llama the first half with the second. So within each head the converters reorder the rows of
# `attn_q` and `attn_k`, and readers must undo it; the other tensors, and those of `qwen2`, stay as
# they are. Names and shapes are the same either way, so a reader that copies the rows loads without
# an error, and the model writes nonsense. Beside that, a tensor's `shape` as gguf's reader
# gives it is the reverse of that of its `data`.
#
# Seen: the text of `expected` below. The script fails if it changes.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet gguf==0.19.0 numpy==2.4.6 transformers==5.24.0

cat >look.py <<'END'
import numpy as np
from gguf import GGUFReader, GGUFWriter
from transformers.modeling_gguf_pytorch_utils import TENSOR_PROCESSORS, TensorProcessor

heads, rows = 2, np.arange(16, dtype=np.float32)
for architecture in ["llama", "qwen2"]:
    writer = GGUFWriter("model.gguf", architecture)
    for name in ["attn_q", "attn_v"]:  # the weight's row r has the value r everywhere
        writer.add_tensor(f"blk.0.{name}.weight", np.repeat(rows[:, None], 4, axis=1))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    config = {"num_attention_heads": heads, "num_key_value_heads": heads}
    reader = TENSOR_PROCESSORS.get(architecture, TensorProcessor)(config=config)
    for tensor in GGUFReader("model.gguf").tensors:
        read = reader.process(tensor.data, name=tensor.name).weights
        print(architecture, tensor.name, "shape", tensor.shape.tolist(), "data", list(tensor.data.shape))
        print("  rows of the file as Hugging Face has them:", *read[:, 0].astype(int))
END
cat >expected <<'END'
llama blk.0.attn_q.weight shape [4, 16] data [16, 4]
  rows of the file as Hugging Face has them: 0 2 4 6 1 3 5 7 8 10 12 14 9 11 13 15
llama blk.0.attn_v.weight shape [4, 16] data [16, 4]
  rows of the file as Hugging Face has them: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
qwen2 blk.0.attn_q.weight shape [4, 16] data [16, 4]
  rows of the file as Hugging Face has them: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
qwen2 blk.0.attn_v.weight shape [4, 16] data [16, 4]
  rows of the file as Hugging Face has them: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
END
venv/bin/python look.py 2>log | diff expected - || { cat log >&2; exit 1; }
echo "as described"
