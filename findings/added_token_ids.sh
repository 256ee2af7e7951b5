#!/usr/bin/env bash
# The id written beside an added token is not the id that the token gets.
#
# Versions: tokenizers 0.23.3, transformers 5.24.0 (without torch).
#
# Behaviour: `added_tokens` of tokenizer.json has an "id" for each token, and `added_tokens_decoder`
# of tokenizer_config.json has ids as its keys. For tokens that the vocabulary lacks both are ignored,
# without an error or a warning: the tokens get the next free ids, in the order of the list
# (tokenizers) or of the written ids (transformers). So a gap between the vocabulary and the first
# added token is closed, and the model gets rows of its embedding that belong to other tokens. An id
# that another token has already is no error either. Only a token in the vocabulary itself has its id
# for certain.
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

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer

letters = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}  # 256 tokens
file = json.loads(Tokenizer(models.BPE(vocab=letters, merges=[])).to_str())
flags = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
written = {1000: "<a>", 300: "<b>", 5: "<c>"}
os.mkdir("model")


def save(name, content):
    with open(f"model/{name}", "w") as out:
        json.dump(content, out)


added = [dict(id=i, content=text, **flags) for i, text in written.items()]
save("tokenizer.json", {**file, "added_tokens": added})
tokenizer = Tokenizer.from_file("model/tokenizer.json")
print("tokenizers  ", {text: (i, tokenizer.token_to_id(text)) for i, text in written.items()})

save("tokenizer.json", file)
save("tokenizer_config.json", {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "added_tokens_decoder": {str(i): dict(content=text, **flags) for i, text in written.items()},
})
tokenizer = AutoTokenizer.from_pretrained("model")
print("transformers", {text: (i, tokenizer.convert_tokens_to_ids(text)) for i, text in written.items()})
END
cat >expected <<'END'
tokenizers   {'<a>': (1000, 256), '<b>': (300, 257), '<c>': (5, 258)}
transformers {'<a>': (1000, 258), '<b>': (300, 257), '<c>': (5, 256)}
END
venv/bin/python look.py 2>log | diff expected - || { cat log >&2; exit 1; }
echo "as described"
