#!/usr/bin/env bash
# The line break or space that a response begins with disappears into the special token before it.
#
# Version: tokenizers 0.23.3.
#
# Behaviour: an added token with `rstrip: true` in tokenizer.json takes all white space after it into
# its own match, and has one id all the same. When a conversation is made a text and encoded as a
# whole, the "\n" of the template and the "\n" or " " that the model wrote first have no token left.
# The tokens that were sampled and those that a trainer gets from the text are then different lists,
# with log-probs at other positions, and decoding does not bring the white space back. Prompt and
# response must be encoded apart, or the sampled ids kept.
#
# Seen: the text of `expected` below. The script fails if it changes.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet tokenizers==0.23.3

cat >look.py <<'END'
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

letters = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
tokenizer = Tokenizer(models.BPE(vocab=letters, merges=[]))
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.add_special_tokens([AddedToken("<|assistant|>", rstrip=True)])

prompt, response = "<|assistant|>\n", " 4"
sampled = tokenizer.encode("<|assistant|>").ids + tokenizer.encode(response).ids
again = tokenizer.encode(prompt + response)
print("sampled ids   ", sampled)
print("encoded again ", again.ids, again.tokens)
print("decoded       ", repr(tokenizer.decode(again.ids, skip_special_tokens=False)))
END
cat >expected <<'END'
sampled ids    [256, 220, 19]
encoded again  [256, 19] ['<|assistant|>\n ', '4']
decoded        '<|assistant|>4'
END
venv/bin/python look.py | diff expected -
echo "as described"
