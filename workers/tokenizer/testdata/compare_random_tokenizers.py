#!/usr/bin/env python3
"""Compares Baton's tokenizer with Hugging Face's on random tokenizer.json files: models, steps,
patterns and added tokens in any combination, and random texts. Outside CI.

    pip install tokenizers==0.23.3
    python compare_random_tokenizers.py --out DIR --test build/release/tests/tokenizer_test

DIR/N then holds tokenizer.json and cases.json, which the test reads. Not made: what the reference
decides by the order of a hash table (two added tokens with one normalized text), and added tokens
that the normalizer removes, which Baton refuses.
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import unicodedata

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

SENTENCES = [
    "The quick brown fox can't jump over 13 lazy dogs; it's 3.14159 metres!",
    "Der Fußgänger überquerte die Straße, 1.000.000 €.", "L'été dernier — c'était délicieux…",
    "Съешь же ещё этих", "Ξεσκεπάζω την ψυχοφθόρα ΟΔΥΣΣΕΎΣ", "שָׁלוֹם עֲלֵיכֶם", "السلام، ١٢٣٤٥",
    "यह हिन्दी। १२३", "นี่คือภาษาไทย ๑๒๓", "これは日本語。カタカナー１２３ｶﾞ", "这是一个《你好》、“世界”。12345",
    "이것은 한국어 문장", "Bu İstanbul'da ığdır ŞEKER", "😀👨‍👩‍👧‍👦🏳️‍🌈 ❤️‍🔥",
    "def fib(n: int):\n\treturn n\n\n", "{a[i] += b[i] * 0x1F; }\r\n\r\n    // done",
    "H₂O x² ½ №5 ™ ﬁ ﬂ Ⅷ ①②", "  leading \t\ttabs \u00a0nbsp\u2003em\u3000wide  \n\n trailing ",
    "snake_case CamelCase O'Neill they'Ve WE'RE", "`` quoted'' -- a--b -",
    "a\u0301e\u0308 \u0301x \u1100\u1161\u11a8", "\u2581\u2581 x\u2581y", "<0x41> <s> [INST]"]
WORDS = ("the a runner it's don't café Zürich привет 日本 한국 123 2024 3.14 x=y+1; { } () _under "
         "HTTP -dash-ed e o n to zz").split()
SPACES = [" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u2028", "\u0085", "\u200b", "\ufeff"]
ODD = list("\u0000\u0001\u200d😀ﬁ①²\u007f\u180eİſßKΣς") + [
    "'s", "'T", "<x>", "<y>", "[Z]", "ab", "two words", "\u2581", "<0xE2>", "</w>", "##a", "XX"]
BLOCKS = [(0x20, 0x24F), (0x370, 0x52F), (0x900, 0x97F), (0x4E00, 0x4F00), (0x2000, 0x2BFF),
          (0x3000, 0x30FF), (0xAC00, 0xAC80)]
PATTERNS = [
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+|\p{N}{1,3}|\s+",
    r"\w+|[^\w\s]+", r"[\w-]+", r"(?<=[a-z])(?=[A-Z])", r"\b", r"^", r"$", r"x*", r"\p{P}|\p{S}",
    r"\p{N}{1,3}(?=(?:\p{N}{3})*\b)", r"\p{Han}+", r"\p{Katakana}+|\p{Hiragana}", r"\p{Arabic}",
    r"(?:\r?\n)+(?!\r?\n)", r"'(?i:[sdmt]|ll|ve|re)", r"\s?[^(\s|[.,!?…。，、।۔،])]+",
    r"[[:punct:]]", r"[[:alpha:]]+", r"[[:word:]]+", r"\W", r"(?i)[a-c]+", r"a(?i)b|c", r"a{2}+",
    r"(a|e)\1", r"\p{^L}", r"\p{Letter}+|\p{Punct}", r"[^\p{L}]+$", r"\x{61}|\u0062", r"(?m:.)+",
    r"[\w&&[^a]]+", r"[^\s&&[a-m]]", r"\h+", r"(?>a|ab)c?"]
ATOMS = ["a", "b", "e", " ", "\\s", "\\S", "\\w", "\\W", "\\d", "\\p{L}", "\\p{N}", "\\p{Lu}",
         "\\P{L}", "[a-m]", "[^a-m]", "[^\\s\\p{L}]", "[\\w-]", ".", "'", "\\.", "\\n", "\\b", "^",
         "$", "[[:alpha:]_]", "[é-ü]", "(?i:T)", "\\h", "\\p{Han}", "[a-z&&[^e]]", "日", "k"]
GROUPS = ["(?:%s)", "(%s)", "(?=%s)", "(?!%s)", "(?<=[a-z\\s])%s", "(?>%s)", "(?i:%s)", "(?m:%s)"]
COUNTS = ["", "", "", "+", "*", "?", "{2}", "{1,3}", "+?", "*?", "??", "{2,}", "++", "?+", "{,2}"]
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
ADDED = ["<x>", "<y>", "[Z]", "ab", "two words", "XX", "a", "\u2581x", " ", "th"]


def flip(rng):
    return rng.random() < 0.5


def some_text(rng):
    def piece():
        kind = rng.randrange(6)
        if kind == 0:
            sentence = rng.choice(SENTENCES)
            begin = rng.randrange(len(sentence))
            return sentence[begin:begin + rng.randint(1, 25)]
        if kind == 1:
            return rng.choice(WORDS) + rng.choice(["", " "])
        if kind == 2:
            return rng.choice(SPACES)
        if kind == 3:
            return rng.choice(ODD + list("'\"!?.,;:-_()[]{}<>|@#$%^&*+=~`\\/"))
        if kind == 4:
            marks = [0x300, 0x301, 0x308, 0x323, 0x327]
            return rng.choice("aeiouAEIOUcnsСи") + "".join(
                chr(rng.choice(marks)) for _ in range(rng.randint(0, 3)))
        return chr(rng.randint(*rng.choice(BLOCKS)))

    text = "".join(piece() for _ in range(rng.randint(1, 8)))
    # Assigned in every Unicode version in use here.
    return "".join(c for c in text if unicodedata.category(c) not in ("Cn", "Cs"))


def regex(rng, depth=0):
    if depth == 0 and flip(rng):
        return rng.choice(PATTERNS)

    def atom():
        if depth < 2 and rng.random() < 0.25:
            inner = rng.choice(GROUPS) % regex(rng, depth + 1)
        else:
            inner = rng.choice(ATOMS)
        looks = inner.startswith(("(?=", "(?!", "(?<", "\\b", "^", "$"))
        return inner if looks else inner + rng.choice(COUNTS)

    return "|".join("".join(atom() for _ in range(rng.randint(1, 3)))
                    for _ in range(rng.randint(1, 2)))


def pattern(rng):
    if rng.random() < 0.7:
        return {"Regex": regex(rng)}
    return {"String": rng.choice([" ", "a", "e", "th", ".", "\u2581", "ab", "\n", "é", "-", "aa"])}


def normalizer(rng, depth=0):
    if depth < 2 and rng.random() < 0.3:
        steps = [normalizer(rng, depth + 1) for _ in range(rng.randint(0, 3))]
        return {"type": "Sequence", "normalizers": steps}
    return rng.choice([
        {"type": "Strip", "strip_left": flip(rng), "strip_right": flip(rng)},
        {"type": "Replace", "pattern": pattern(rng),
         "content": rng.choice(["", "_", " ", "\u2581", "aa", "é"])},
        {"type": "Prepend", "prepend": rng.choice(["\u2581", " ", "ab"])},
        {"type": "BertNormalizer", "clean_text": flip(rng), "handle_chinese_chars": flip(rng),
         "lowercase": flip(rng), "strip_accents": rng.choice([None, True, False])},
        {"type": rng.choice(["NFC", "NFD", "NFKC", "NFKD", "Nmt", "Lowercase", "StripAccents"])}])


def cut(rng):
    split = {"type": "Split", "pattern": pattern(rng), "behavior": rng.choice(BEHAVIORS),
             "invert": flip(rng)}
    return rng.choice([
        split, split, {"type": "Punctuation", "behavior": rng.choice(BEHAVIORS)},
        {"type": "Digits", "individual_digits": flip(rng)},
        {"type": rng.choice(["Whitespace", "WhitespaceSplit", "BertPreTokenizer"])},
        {"type": "CharDelimiterSplit", "delimiter": rng.choice([" ", "-", "e"])},
        {"type": "FixedLength", "length": rng.randint(1, 6)}])


def metaspace(rng):
    return {"type": "Metaspace", "replacement": "\u2581",
            "prepend_scheme": rng.choice(["always", "first", "never"]), "split": flip(rng)}


def pre_tokenizer(rng, bytes_needed):
    before = [metaspace(rng) if rng.random() < 0.2 else cut(rng) for _ in range(rng.randint(0, 3))]
    if not bytes_needed:
        return {"type": "Sequence", "pretokenizers": before} if before else None
    byte_level = {"type": "ByteLevel", "add_prefix_space": flip(rng), "trim_offsets": flip(rng),
                  "use_regex": flip(rng)}
    behind = [cut(rng)] if rng.random() < 0.25 else []
    return {"type": "Sequence", "pretokenizers": before[:2] + [byte_level] + behind}


def train(byte_level):
    """A model of byte-pair encoding whose tokens cross words, so that cuts show."""
    tokenizer = Tokenizer(models.BPE() if byte_level
                          else models.BPE(byte_fallback=True, unk_token="<unk>"))
    bytes_of = ["<0x%02X>" % b for b in range(256)]
    options = {"special_tokens": ["<unk>"] + bytes_of, "limit_alphabet": 120}
    if byte_level:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        options = {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}
    trainer = trainers.BpeTrainer(vocab_size=500 if byte_level else 700, show_progress=False,
                                  **options)
    tokenizer.train_from_iterator(SENTENCES + [" ".join(WORDS)] * 3, trainer)
    return json.loads(tokenizer.to_str())["model"]


def affixed_bpe(rng):
    prefix, suffix = rng.choice(["", "##", "@"]), rng.choice(["", "</w>"])
    tokens = ["<unk>"]
    for c in "abcdefghijklmnopqrstuvwxyz \u2581.é1":
        tokens += [c, prefix + c, c + suffix, prefix + c + suffix]
    tokens = list(dict.fromkeys(tokens))
    merges = []
    for _ in range(150):
        left, right = rng.choice(tokens[1:]), rng.choice(tokens[1:])
        if (suffix and left.endswith(suffix)) or not right.startswith(prefix):
            continue
        merges.append([left, right])
        if left + right[len(prefix):] not in tokens:
            tokens.append(left + right[len(prefix):])
    return {"type": "BPE", "unk_token": "<unk>", "continuing_subword_prefix": prefix or None,
            "end_of_word_suffix": suffix or None, "merges": merges,
            "vocab": {t: i for i, t in enumerate(tokens)}}


def pieces_model(rng, kind):
    pieces = list("abcdefghijklmnopqrstuvwxyz \u2581_'.")
    for _ in range(250):
        sentence = rng.choice(SENTENCES + WORDS)
        begin = rng.randrange(len(sentence))
        pieces.append(sentence[begin:begin + rng.choice([1, 1, 2, 2, 3, 4, 6])])
    pieces = [p for p in dict.fromkeys(pieces) if p and not p.startswith("<0x")]
    if kind == "Unigram":
        vocab = [["<unk>", 0.0]]
        vocab += [[p, -rng.randint(1, 8) - rng.choice([0, 0.5, rng.random()])] for p in pieces]
        fallback = flip(rng)
        vocab += [["<0x%02X>" % b, -9.0] for b in range(256)] if fallback else []
        return {"type": kind, "unk_id": 0, "vocab": vocab, "byte_fallback": fallback}
    prefix = rng.choice(["##", "@", ""])
    tokens = ["[UNK]"] + pieces + ([prefix + p for p in pieces] if kind == "WordPiece" else [])
    out = {"type": kind, "unk_token": "[UNK]",
           "vocab": {t: i for i, t in enumerate(dict.fromkeys(tokens))}}
    if kind == "WordPiece":
        out.update(continuing_subword_prefix=prefix,
                   max_input_chars_per_word=rng.choice([4, 20, 100]))
    return out


def some_model(rng, trained):
    kind = rng.choice(["bytes", "bytes", "characters", "characters", "Unigram", "WordPiece",
                       "WordLevel", "affixes"])
    if kind not in ("bytes", "characters", "affixes"):
        return False, pieces_model(rng, kind)
    model = affixed_bpe(rng) if kind == "affixes" else json.loads(json.dumps(trained[kind]))
    model.update(ignore_merges=flip(rng), fuse_unk=flip(rng))
    if kind == "characters":
        model["byte_fallback"] = flip(rng)
    return kind == "bytes", model


def added_tokens(rng, vocab):
    known = vocab if isinstance(vocab, dict) else {piece[0]: i for i, piece in enumerate(vocab)}
    out, size = [], len(vocab)
    for content in rng.sample(ADDED, rng.randint(0, 5)):
        token_id = known.get(content, size)
        size += token_id == size
        special = content[0] in "<[" and flip(rng)
        # A special token that is normalized is decoded otherwise: see make_tokenizer_golden.py.
        out.append({"id": token_id, "content": content, "special": special,
                    "normalized": not special and flip(rng), "single_word": rng.random() < 0.2,
                    "lstrip": rng.random() < 0.3, "rstrip": rng.random() < 0.3})
    return out


def decoder(rng, byte_level):
    if byte_level:
        return {"type": "ByteLevel"}
    kind = rng.randrange(5)
    if kind == 0:
        return None
    if kind == 1:
        return metaspace(rng)
    if kind == 2:
        return {"type": "WordPiece", "prefix": "##", "cleanup": flip(rng)}
    steps = [{"type": "Replace", "pattern": rng.choice([{"String": "\u2581"}, {"Regex": "[eo]+"}]),
              "content": rng.choice([" ", "", "_"])} for _ in range(rng.randint(0, 2))]
    steps += [{"type": t} for t in ("ByteFallback", "Fuse") if flip(rng)]
    return {"type": "Sequence", "decoders": steps}


def some_tokenizer(rng, trained):
    byte_level, model = some_model(rng, trained)
    return {"version": "1.0", "truncation": None, "padding": None, "post_processor": None,
            "added_tokens": added_tokens(rng, model["vocab"]), "model": model,
            "normalizer": normalizer(rng) if flip(rng) else None,
            "pre_tokenizer": pre_tokenizer(rng, byte_level), "decoder": decoder(rng, byte_level)}


def or_none(function, *arguments):
    """None where the reference refuses or panics: a pattern that Oniguruma does not take, a merge
    that is shorter than its prefix, tokens that take white space and overlap."""
    try:
        return function(*arguments)
    except BaseException as error:
        if not isinstance(error, Exception) and "PanicException" not in repr(type(error)):
            raise
        return None


def cases_of(tokenizer, rng, count):
    def case(text):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        return {"text": text, "ids": ids, "text_back": tokenizer.decode(ids)}

    cases = [or_none(case, some_text(rng)) for _ in range(count)]
    return [c for c in cases if c is not None]


def is_compared(state, tokenizer):
    def found_by(token):
        if not token["normalized"] or tokenizer.normalizer is None:
            return token["content"]
        return tokenizer.normalizer.normalize_str(token["content"])

    texts = [found_by(token) for token in state["added_tokens"]]
    return "" not in texts and len(set(texts)) == len(texts)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--tokenizers", type=int, default=1000)
    parser.add_argument("--texts", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--test", help="tokenizer_test, to run")
    args = parser.parse_args()
    trained = {"bytes": train(True), "characters": train(False)}
    shutil.rmtree(args.out, ignore_errors=True)
    made = 0
    for i in range(args.tokenizers):
        rng = random.Random("%d %d" % (args.seed, i))
        state = some_tokenizer(rng, trained)
        tokenizer = or_none(Tokenizer.from_str, json.dumps(state))
        if tokenizer is None or not is_compared(state, tokenizer):
            continue
        folder = os.path.join(args.out, "%05d" % i)
        os.makedirs(folder)
        cases = cases_of(tokenizer, rng, args.texts)
        for name, content in (("tokenizer", state), ("cases", cases)):
            with open(os.path.join(folder, name + ".json"), "w") as f:
                json.dump(content, f)
        made += 1
    print("%d tokenizers" % made)
    if args.test:
        subprocess.run([args.test, "--gtest_filter=TokenizerCompareTest.*"], check=True,
                       env=dict(os.environ, BATON_TOKENIZER_MAY_REFUSE="1",
                                BATON_TOKENIZER_COMPARE=os.path.abspath(args.out)))


main()
