#!/usr/bin/env bash
# len(tokenizer.apply_chat_template(messages)) is 2, however long the conversation is.
#
# Version: transformers 5.24.0 (without torch).
#
# Behaviour: until transformers 4 the result was the list of ids; in transformers 5 it is a mapping
# with the keys `input_ids` and `attention_mask`. So `len` gives 2, and no error follows: a filter by
# `max_prompt_length` keeps each prompt, and prompts sorted by length stay as they were. A loop over
# the result gives the names of the keys. With `return_assistant_tokens_mask` the mask of a template
# without `{% generation %}` is all zeros, with a line in the log: a loss with that mask trains on
# nothing.
#
# Seen: the text of `expected` below. The script fails if it changes.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet tokenizers==0.23.3 transformers==5.24.0 jinja2==3.1.6

cat >look.py <<'END'
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

letters = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
bytes_as_tokens = Tokenizer(models.BPE(vocab=letters, merges=[]))
bytes_as_tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
bytes_as_tokens.decoder = decoders.ByteLevel()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=bytes_as_tokens)
tokenizer.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }};{% endfor %}"
long = [{"role": "user", "content": "How far? " * 100}, {"role": "assistant", "content": "Far."}]

ids = tokenizer.apply_chat_template(long)
print("len of the result", len(ids), "which holds", list(ids), "with", len(ids["input_ids"]), "ids")
print("len with return_dict=False", len(tokenizer.apply_chat_template(long, return_dict=False)))
mask = tokenizer.apply_chat_template(long, return_assistant_tokens_mask=True)["assistant_masks"]
print("ones in the mask of the assistant's tokens", sum(mask))
END
cat >expected <<'END'
len of the result 2 which holds ['input_ids', 'attention_mask'] with 923 ids
len with return_dict=False 923
ones in the mask of the assistant's tokens 0
END
venv/bin/python look.py 2>log | diff expected - || { cat log >&2; exit 1; }
echo "as described"
