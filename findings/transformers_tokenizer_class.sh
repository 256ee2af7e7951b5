#!/usr/bin/env bash
# transformers 5 encodes a text otherwise than the tokenizer.json that it loads.
#
# Versions: transformers 5.24.0 (without torch), tokenizers 0.23.3.
#
# Behaviour: for some names in `tokenizer_class` of tokenizer_config.json, AutoTokenizer takes only
# vocabulary and merges of tokenizer.json. It builds normalizer, pre-tokenizer and decoder as the
# class has them, and drops those of the file without a word. A folder that was made from a Qwen2
# tokenizer with a pattern of its own for digits keeps "Qwen2Tokenizer", and gets Qwen2's pattern:
# each digit a token. Engines that read tokenizer.json itself get the file's tokens. For the same
# file "LlamaTokenizer" is not obeyed, with a warning. "TokenizersBackend", or no name, takes the file
# as it is.
#
# Seen: the text of `expected` below. The script fails if it changes.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet tokenizers==0.23.3 transformers==5.24.0

cat >look.py <<'END'
import json
import os

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer

vocab = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
vocab.update({"12": 256, "123": 257})
tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[("1", "2"), ("12", "3")]))
tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
    pre_tokenizers.Split(Regex(r"\d{1,3}|\D+"), "isolated"),
    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
])
tokenizer.decoder = decoders.ByteLevel()
os.mkdir("model")
tokenizer.save("model/tokenizer.json")
text = "+123"
print(f"{'tokenizers':18}", tokenizer.encode(text).ids)
for name in ["TokenizersBackend", "LlamaTokenizer", "Qwen2Tokenizer", None]:
    with open("model/tokenizer_config.json", "w") as out:
        json.dump({"tokenizer_class": name} if name else {}, out)
    print(f"{str(name):18}", AutoTokenizer.from_pretrained("model")(text)["input_ids"])
END
cat >expected <<'END'
tokenizers         [10, 257]
TokenizersBackend  [10, 257]
LlamaTokenizer     [10, 257]
Qwen2Tokenizer     [10, 16, 17, 18]
None               [10, 257]
END
venv/bin/python look.py 2>log | diff expected - || { cat log >&2; exit 1; }
echo "as described"
