#!/usr/bin/env python3
"""Writes the tokenizers of tiny_tokenizers.py, tokenizer_*.json, and what Hugging Face's tokenizers
makes of them: tokenizer_golden.json, the ids of chosen and random texts; decode_golden.json, the
texts of random ids; added_tokens_golden.json, ids for random sets of added tokens over a vocabulary
of bytes.

    pip install tokenizers==0.23.3 && python make_tokenizer_golden.py

With --cases N --sets M --out DIR it writes N random texts per tokenizer and M sets of added tokens
elsewhere, for a longer comparison.
"""
import argparse
import copy
import json
import os
import random
import unicodedata

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import tiny_tokenizers
from tiny_tokenizers import BYTES, SENTENCEPIECE, UNDERSCORE, WORDS

HERE = os.path.dirname(os.path.abspath(__file__))

FIXED = [
    "", " ", "  ", "\n", "a", "The runner's baton.", "THEY'RE we'LL IT'S", "'S'ſ'K", "don't  stop\n\n\n go",
    "123456789 12,345.67 ٣٤٥ ½ Ⅷ", "  leading and trailing  ", "tabs\tand\r\nlines\r\n\r\n  x",
    "naïve café", "nai\u0308ve cafe\u0301", "A\u030a\u0301\u0327 \u1e9b\u0323 \u212b \u2126 \u0344",
    "\u1100\u1161\u11a8\uac00\u11a8 \u1112\u1161\u11ab", "日本語 한국어 Привет мир", "😀👨‍👩‍👧‍👦🏳️‍🌈",
    "\u00a0\u2003\u3000x\u2028y\u0085z\u180ew", "a\u180e\u180e b", "zero\u0000byte \u0001\u007f", "x=y+1; {\n\treturn 3.14\n}",
    "<|begin_of_text|>hi<|eot_id|>", "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "a <tool_call><tool><tool_cal l>", "in Zürich! and Zu\u0308rich! <|endoftext|><|endoftext|>",
    "x  <mask>  y<sep>  \t z <mask><mask> <sep> <sep>", "<|im_end|", "<<|im_end|>>", " zebra zebras",
    "the" * 40, " " * 50, "\n" * 20 + "x", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
    "<s>[INST] hi [/INST] a </s>", "<s> <s>", " <s>", "a<s>b</s> c", "[INST]x[/INST]  y [TOOL_CALLS][", "<0x0A>", "<0x41>\n<0x0a>",
    "\u2581", "\u2581\u2581x", " \u2581 x", "relay relays relay. (relay) \u00e9relay _relay relay\u0301", "two words", "x two  words two words",
    "a <|end|>  b<|end|>\n\nc", "🤖\U0001f9ea🤖 a🤖b", "\U0001f1e8 \U0010ffff ø̈ ʘ\u0302",
    "\ufffd\ufeff\u200b\u200d", "नमस्ते दुनिया ภาษาไทย עברית العربية",
]


def random_text(rng):
    def piece():
        kind = rng.randint(0, 7)
        if kind == 0:
            return rng.choice(WORDS)
        if kind == 1:
            return rng.choice([" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u2028", "\u0085"])
        if kind == 2:
            return str(rng.randint(0, 10 ** rng.randint(1, 8)))
        if kind == 3:
            return rng.choice("'\"!?.,;:-_()[]{}<>|@#$%^&*+=~`\\/")
        if kind == 4:
            return rng.choice(["'s", "'T", "'Re", "'ll", "<|im_end|>", "<|eot_id|>", "<mask>", "<sep>",
                               "<s>", "</s>", "[INST]", "[/INST]", "<|end|>", "relay", "two words",
                               UNDERSCORE, "<0xE2>"])
        if kind == 5:  # letters with combining marks in any order
            return rng.choice("aeiouAEIOUcnsСи") + "".join(
                chr(rng.choice([0x300, 0x301, 0x308, 0x323, 0x327, 0x328, 0x30A])) for _ in range(rng.randint(0, 3)))
        if kind == 6:
            return chr(rng.choice([rng.randint(0x20, 0x24F), rng.randint(0x370, 0x52F),
                                   rng.randint(0x1100, 0x11FF), rng.randint(0xAC00, 0xAC80),
                                   rng.randint(0x900, 0x97F), rng.randint(0x4E00, 0x4F00)]))
        return rng.choice(["😀", "🇨🇭", "\u0000", "\u200d", "ﬁ", "①", "²"])

    text = "".join(piece() for _ in range(rng.randint(1, 12)))
    # Python's and the Rust crate's Unicode versions differ: only characters known to both.
    return "".join(c for c in text if unicodedata.category(c) not in ("Cn", "Cs"))


def normalized_specials(state):
    """Where the normalizer changes them, tokenizers 0.23 decodes these to their normalized text and
    does not skip them as special, other than its releases before. Baton does as those did."""
    if state["normalizer"] is None or state["normalizer"]["type"] == "NFC":
        return set()
    return {t["id"] for t in state["added_tokens"] if t["special"] and t["normalized"]}


def decoded(tokenizer, ids, **options):
    """None where the reference panics: its Strip does, at the end of a text that is too short."""
    try:
        return tokenizer.decode(ids, **options)
    except BaseException as panic:
        if "PanicException" not in repr(type(panic)):
            raise
        return None


def golden(state, texts):
    tokenizer = Tokenizer.from_str(json.dumps(state))
    cases = []
    for text in texts:
        case = {"text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids}
        back = decoded(tokenizer, case["ids"])
        # For a byte-level vocabulary, the reference reads an added token that holds é as the byte
        # E9; Baton gives é back.
        comparable = ((state["decoder"] or {}).get("type") != "ByteLevel" or
                      "\ufffd" not in back or "\ufffd" in text)
        if back is not None and comparable and not normalized_specials(state) & set(case["ids"]):
            case["text_back"] = back
        with_special = tokenizer.encode(text, add_special_tokens=True).ids
        if with_special != case["ids"]:
            case["ids_with_special"] = with_special
        cases.append(case)
    return cases


def decode_golden(state, cases, rng):
    tokenizer = Tokenizer.from_str(json.dumps(state))
    vocab = state["model"]["vocab"]
    if isinstance(vocab, list):  # Unigram's
        vocab = {piece[0]: i for i, piece in enumerate(vocab)}
    size = 1 + max(list(vocab.values()) + [t["id"] for t in state["added_tokens"]])
    low = [vocab.get(b) for b in BYTES]
    low = [i for i in low if i is not None] or list(range(size))
    well_formed = [[vocab.get("<0x%02X>" % b, 0) for b in c.encode()] for c in "é€🤖\n"]
    out = []
    for _ in range(cases):
        ids = []
        for _ in range(rng.randint(1, 8)):
            kind = rng.randint(0, 3)
            ids += (rng.choice(well_formed) if kind == 0 else [rng.choice(low)] if kind == 1
                    else [rng.randrange(size + 2)])
        ids = [i for i in ids if i not in normalized_specials(state)]
        texts = decoded(tokenizer, ids), decoded(tokenizer, ids, skip_special_tokens=False)
        if None not in texts:
            out.append({"ids": ids, "text": texts[0], "text_with_special": texts[1]})
    return out


ADDED_LETTERS = ["a", "b", "c", "d", "e\u0301", "\u00e9", "\u0301", " "]
NORMALIZERS = [None, {"type": "NFC"}, json.loads(SENTENCEPIECE.__getstate__())]


def bytes_tokenizer(normalizer, added):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    state = json.loads(tokenizer.to_str())
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    state["model"]["vocab"] = {c: i for i, c in enumerate(alphabet)}
    state["normalizer"] = normalizer
    state["added_tokens"] = [dict(token, id=len(alphabet) + i)
                             for i, token in enumerate(added)]
    return state


def added_token(content, special=False, lstrip=False, rstrip=False, normalized=False,
                single_word=False):
    return {"content": content, "special": special, "lstrip": lstrip, "rstrip": rstrip,
            "normalized": normalized, "single_word": single_word}


def random_added_tokens(rng):
    # Several tokens with one normalized text: the reference chooses by the order of a hash table.
    tokens = {}
    for _ in range(rng.randint(1, 6)):
        content = "".join(rng.choice(ADDED_LETTERS) for _ in range(rng.randint(1, 4)))
        flags = [rng.random() < p for p in (0.4, 0.25, 0.25, 0.5, 0.3)]
        if content not in pre_tokenizers.ByteLevel.alphabet():  # in the vocabulary already
            tokens.setdefault(unicodedata.normalize("NFC", content), added_token(content, *flags))
    return list(tokens.values())


def added_tokens_set(normalizer, added, texts):
    state = bytes_tokenizer(normalizer, added)
    tokenizer = Tokenizer.from_str(json.dumps(state))
    cases = []
    for text in texts:
        case = {"text": text}
        try:
            for key, plain in (("ids", False), ("ids_specials_as_text", True)):
                tokenizer.encode_special_tokens = plain
                case[key] = tokenizer.encode(text, add_special_tokens=False).ids
        except BaseException as panic:  # where tokens that take white space overlap
            if "bad split" not in str(panic):
                raise
            continue
        cases.append(case)
    return {"normalizer": state["normalizer"], "added_tokens": state["added_tokens"],
            "cases": cases}


def added_tokens_golden(sets, rng):
    all_sets = [added_tokens_set(normalizer, [added_token("abc", normalized=True), added_token("cd"),
                                       added_token("bcd", special=True)],
                                 ["abcd", "abc", "abcabcd", "bcda", "xcd abc"])
                for normalizer in NORMALIZERS]
    for _ in range(sets):
        added = random_added_tokens(rng)
        pieces = ADDED_LETTERS + [" "] + [token["content"] for token in added]
        texts = ["".join(rng.choice(pieces) for _ in range(rng.randint(1, 8))) for _ in range(6)]
        all_sets.append(added_tokens_set(rng.choice(NORMALIZERS), added, texts))
    return {"tokenizer": bytes_tokenizer(None, []), "sets": all_sets}


def write_cases(path, all_cases):
    with open(path, "w") as f:
        f.write("{\n")
        for i, (name, cases) in enumerate(all_cases.items()):
            f.write('"%s": [\n' % name)
            f.write(",\n".join(json.dumps(c, separators=(",", ":")) for c in cases))
            f.write("\n]%s\n" % ("," if i + 1 < len(all_cases) else ""))
        f.write("}\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--sets", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default=HERE)
    args = parser.parse_args()
    all_cases, all_decodes = {}, {}
    for name, make in tiny_tokenizers.MAKERS.items():
        state = make()
        with open(os.path.join(args.out, "tokenizer_%s.json" % name), "w") as f:
            json.dump(state, f, ensure_ascii=False, separators=(",", ":"))
            f.write("\n")
        rng = random.Random("%s %d" % (name, args.seed))
        all_cases[name] = golden(copy.deepcopy(state),
                                 FIXED + [random_text(rng) for _ in range(args.cases)])
        if name != "qwen2":  # qwen2 has an added token with ü (see golden).
            all_decodes[name] = decode_golden(state, args.cases, rng)
    write_cases(os.path.join(args.out, "tokenizer_golden.json"), all_cases)
    write_cases(os.path.join(args.out, "decode_golden.json"), all_decodes)
    added = added_tokens_golden(args.sets, random.Random("added tokens %d" % args.seed))
    with open(os.path.join(args.out, "added_tokens_golden.json"), "w") as f:
        f.write('{"tokenizer": %s,\n"sets": [\n' % json.dumps(added["tokenizer"]))
        f.write(",\n".join(json.dumps(s, separators=(",", ":")) for s in added["sets"]))
        f.write("\n]}\n")


main()
