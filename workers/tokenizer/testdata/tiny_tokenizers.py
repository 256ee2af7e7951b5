"""Tiny tokenizers of every kind, trained on made-up text: MAKERS has a function for each that makes
its tokenizer.json as a value (make_tokenizer_golden.py writes the files).

Each run makes the same files. Training Unigram, WordPiece, and BPE with a suffix depends on the
order of a hash map, which is another one in each run; those vocabularies are trained once and then
kept (keep_vocabulary)."""
import base64
import json
import os
import random
import re

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers import processors, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
         r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")

UNDERSCORE = "\u2581"  # SentencePiece's sign for a space
BYTES = ["<0x%02X>" % byte for byte in range(256)]
SENTENCEPIECE = normalizers.Sequence([normalizers.Prepend(UNDERSCORE),
                                      normalizers.Replace(" ", UNDERSCORE)])
SENTENCEPIECE_DECODER = decoders.Sequence([
    decoders.Replace(UNDERSCORE, " "), decoders.ByteFallback(), decoders.Fuse(),
    decoders.Strip(" ", 1, 0)])

WORDS = ("the a runner hands on her baton to another and he runs they're we'll it's didn't I'm "
         "conductor leads many players relay carries weights policy reward token steps "
         "naïve café Zürich Ωmega привет мир 日本 語 한국 größer 😀 123 2024 17 3.14 x=y+1; { } () "
         "def return if else for while").split()


def keep_vocabulary(name, state):
    """Replaces the vocabulary of `state` by that of tokenizer_NAME.json beside this file. Delete that
    file to have one trained anew."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizer_%s.json" % name)
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            kept = json.load(file)["model"]
        state["model"].update({key: kept[key] for key in ("vocab", "merges") if key in kept})
    return state


def made_up_text(rng):
    return [" ".join(rng.choice(WORDS) for _ in range(rng.randint(4, 14))) +
            rng.choice([".", "!\n", "?\n\n", "  ", "\t", ""]) for _ in range(1500)]


def train(split, vocab_size, specials, add_prefix_space=False, nfc=False, unmerged=()):
    tokenizer = Tokenizer(models.BPE())
    if nfc:
        tokenizer.normalizer = normalizers.NFC()
    if split is None:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(split), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(made_up_text(random.Random(7)), trainer)
    if unmerged:  # words that are tokens but that no merge leads to: only ignore_merges finds them
        state = json.loads(tokenizer.to_str())
        state["model"]["ignore_merges"] = True
        for word in unmerged:
            state["model"]["vocab"][word] = len(state["model"]["vocab"])
        tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in specials])
    return tokenizer


def make_llama3():
    tokenizer = train(LLAMA3, 480, ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>",
                                    "<|end_header_id|>", "<|eot_id|>"], unmerged=["Ġzebra"])
    bos = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A",
                                      pair="<|begin_of_text|> $A <|begin_of_text|> $B",
                                      special_tokens=[("<|begin_of_text|>", bos)])])
    return json.loads(tokenizer.to_str())


def make_qwen2():
    tokenizer = train(QWEN2, 470, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], nfc=True)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_tokens([AddedToken("<tool_call>", normalized=False, special=False),
                          AddedToken("<tool>", normalized=False, special=False),
                          AddedToken("Zu\u0308rich!", normalized=True, special=False)])
    return json.loads(tokenizer.to_str())


def make_gpt2():
    tokenizer = train(None, 420, ["<|endoftext|>"], add_prefix_space=True)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False),
                                  AddedToken("<sep>", rstrip=True, normalized=False)])
    state = json.loads(tokenizer.to_str())
    # The older form of merges.
    state["model"]["merges"] = [" ".join(m) for m in state["model"]["merges"]]
    return state


def make_digits():
    """Digits before ByteLevel, as SmolLM has it; with an unk token and some bytes missing."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=150, show_progress=False, special_tokens=["<unk>"])
    tokenizer.train_from_iterator([t.encode("ascii", "ignore").decode()
                                   for t in made_up_text(random.Random(8))], trainer)
    return json.loads(tokenizer.to_str())


def pack(tokenizer, **changes):
    state = json.loads(tokenizer.to_str())
    state["model"].update(changes)
    return state


def byte_level_bpe(pre_tokenizer, normalizer=None, **trainer_options):
    """A tokenizer of bytes without special tokens, and what it does to text before its model."""
    affixes = {k: v for k, v in trainer_options.items() if k == "end_of_word_suffix"}
    tokenizer = Tokenizer(models.BPE(**affixes))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  **trainer_options)
    tokenizer.train_from_iterator(made_up_text(random.Random(17)), trainer)
    return tokenizer


def make_falcon():
    """Steps behind ByteLevel, as Falcon has them: they see the byte alphabet."""
    return pack(byte_level_bpe(pre_tokenizers.Sequence([
        pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
        pre_tokenizers.Digits(individual_digits=False),
        pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), behavior="isolated")]), vocab_size=420))


def make_clip():
    """A suffix at the end of words in the byte alphabet, as CLIP has it."""
    tokenizer = byte_level_bpe(
        pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(r"'s|'t|'re|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"),
                                 behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False)]),
        normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "),
                              normalizers.Lowercase()]),
        vocab_size=760, end_of_word_suffix="</w>")
    state = pack(tokenizer)
    state["model"]["end_of_word_suffix"] = "</w>"
    for token in list(state["model"]["vocab"]):  # each byte may end a word
        if len(token) == 1:
            state["model"]["vocab"].setdefault(token + "</w>", len(state["model"]["vocab"]))
    return keep_vocabulary("clip", state)


def make_bloom():
    """A set within a set, which not every engine of regular expressions reads alike; NFKC."""
    return pack(byte_level_bpe(
        pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"),
                                 behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
        normalizers.NFKC(), vocab_size=420))


def make_gpt4():
    """Possessive and repeated intervals, the end of a line, the rest removed."""
    pattern = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+|"
               r" ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s")
    return pack(byte_level_bpe(pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), behavior="removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), vocab_size=420))


def make_byte_normalizer():
    """The byte alphabet made by the normalizer."""
    return pack(byte_level_bpe(
        pre_tokenizers.Split(Regex("\u0120?[a-zA-Z]+|\u0120+"), behavior="merged_with_next"),
        normalizers.Sequence([normalizers.NFD(), normalizers.ByteLevel()]), vocab_size=400))


# Made by SentencePiece from the rules \ufb01 -> fi, \u2460 -> 1, \uff21 -> A, U+3000 -> space, e with U+0301
# -> \u00e9, \u00e9 -> E, U+200B -> nothing, \u2122 -> TM, tab and newline -> space, \u00b2 -> 2, \u00bd -> 1\u20442,
# halfwidth \uff76\uff9e -> \u30ac.
CHARSMAP = (
    "AAQAAAAgAAAJCQAACgUAAAEAAIDMAAIAgQ0AABcAAICyOQAAvQkAAAsAAIAFAACAqR0AAA8AAICR+AIAiwUAAAAAAI"
    "CiBQAAEQAAgAMAAICgBQAAgAQCAIBZAACBBQAAFAAAgISoAgChDQAADQAAgLakAwCAZAIA7/QCAL58AgCe+QAArNwC"
    "ABoAAIAjAAAAIgAAACUAAAAkAAAAJwAAACYAAAApAAAAKAAAACsAAAAqAAAALQAAACwAAAAvAAAALgAAALwgAgC9cA"
    "IAMwAAADIAAAA1AAAANAAAADcAAAA2AAAAOQAAADgAAAA7AAAAOgAAAD0AAAA8AAAAPwAAAD4AAABBAAAAQAAAAEMA"
    "AABCAAAARQAAAEQAAABHAAAARgAAAEkAAABIAAAASwAAAEoAAABNAAAATAAAAE8AAABOAAAAUQAAAFAAAABTAAAAUg"
    "AAAFUAAABUAAAAVwAAAFYAAABZAAAAWAAAAFsAAABaAAAAXQAAAFwAAABfAAAAXgAAAGEAAABgAAAAYwAAAGIAAABl"
    "AAAAZAAAAGcAAABmAAAAaQAAAGgAAABrAAAAagAAAG0AAABllAIAbwAAAG4AAABxAAAAcAAAAHMAAAByAAAAdQAAAH"
    "QAAAB3AAAAdgAAAHkAAAB4AAAAewAAAHoAAAB9AAAAfAAAAH8AAAB+AAAAgQAAAIAAAACDAAAAggAAAIUAAACEAAAA"
    "hwAAAIYAAACJAAAAiAAAAIsAAACKAAAAjQAAAIwAAACPAAAAjgAAAJEAAACQAAAAkwAAAJIAAACVAAAAlAAAAJcAAA"
    "CWAAAAmQAAAJgAAACbAAAAmgAAAJ0AAACcAAAAnwAAAJ4AAAChAAAAoAAAAKMAAACiAAAApQAAAKQAAACnAAAApgAA"
    "AKkAAACoAAAAqwAAAKoAAACtAAAArAAAAK8AAACuAAAAsQAAALAAAACzAAAAsgAAALUAAAC0AAAAtwAAALYAAAC5AA"
    "AAuAAAALsAAAC6AAAAvQAAALwAAAC/AAAAvgAAAMEAAADAAAAAwwAAAMIAAADFAAAAxAAAAMcAAADGAAAAyQAAAMgA"
    "AADC/AEAw6QBAM0AAADMAAAAzwAAAM4AAADRAAAA0AAAANMAAADSAAAA1QAAANQAAADXAAAA1gAAANkAAADYAAAA2w"
    "AAANoAAADdAAAA3AAAAN8AAADeAAAA4QAAAOAAAADjAAAA4gAAAOUAAADkAAAA5wAAAO+sAQDpAAAA6AAAAOLYAQDj"
    "/AEA7QAAAOwAAADvAAAA7gAAAPEAAADwAAAA8wAAAPIAAAD1AAAA9AAAAPcAAAD2AAAA+QAAAPgAAAD7AAAA+gAAAP"
    "0AAAD8AAAA/wAAAP4AAAAAIAAxADHigYQyADIAQQBFAFRNAGZpAMOpAOOCrAA=")


def train_unigram(name, normalizer, pre_tokenizer, vocab_size, specials, extra=()):
    """`extra` tokens are as improbable as the least probable one."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=vocab_size, show_progress=False,
                                      special_tokens=specials, unk_token="<unk>")
    tokenizer.train_from_iterator(made_up_text(random.Random(19)), trainer)
    state = pack(tokenizer)
    known = {piece[0] for piece in state["model"]["vocab"]}
    lowest = min(piece[1] for piece in state["model"]["vocab"])
    state["model"]["vocab"] += [[t, lowest - i / 16] for i, t in enumerate(extra) if t not in known]
    return keep_vocabulary(name, state)


def precompiled():
    return normalizers.Precompiled(base64.b64decode(CHARSMAP))


def make_t5():
    state = train_unigram("t5", precompiled(), pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]), 330,
        ["<pad>", "</s>", "<unk>"])
    tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>",
        special_tokens=[("</s>", tokenizer.token_to_id("</s>"))])
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    return json.loads(tokenizer.to_str())


def make_albert():
    return train_unigram("albert", normalizers.Sequence([
        normalizers.Replace("``", '"'), normalizers.NFKD(), normalizers.StripAccents(),
        normalizers.Lowercase(), precompiled(), normalizers.Replace(Regex(" {2,}"), " ")]),
        pre_tokenizers.Metaspace(prepend_scheme="first"), 300,
        ["<pad>", "<unk>", "[CLS]", "[SEP]"])


def make_unigram_bytes():
    """Characters that no token covers become bytes; a run of them may be a token all the same."""
    state = train_unigram("unigram_bytes",
                          normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(),
                                                normalizers.Strip()]),
                          pre_tokenizers.Metaspace(prepend_scheme="never", split=False), 290,
                          ["<unk>", "<s>", "</s>"], BYTES + ["\U0001f916", "\u30ed\u30ea"])
    state["model"]["byte_fallback"] = True
    state["decoder"] = json.loads(SENTENCEPIECE_DECODER.__getstate__())
    return state


def make_bert(cased=False):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=not cased)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(cleanup=not cased)
    trainer = trainers.WordPieceTrainer(vocab_size=260, show_progress=False, special_tokens=[
        "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    tokenizer.train_from_iterator(made_up_text(random.Random(23)), trainer)
    state = keep_vocabulary("bert_cased" if cased else "bert", pack(tokenizer))
    tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.post_processor = processors.BertProcessing(
        ("[SEP]", tokenizer.token_to_id("[SEP]")), ("[CLS]", tokenizer.token_to_id("[CLS]")))
    return pack(tokenizer)


def make_bert_cased():
    return make_bert(cased=True)


def make_word_level():
    """Words alone, joined by spaces: no decoder."""
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordLevelTrainer(vocab_size=120, show_progress=False,
                                        special_tokens=["<unk>", "<s>", "</s>"])
    tokenizer.train_from_iterator(made_up_text(random.Random(29)), trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1))
    return pack(tokenizer)


def make_cuts():
    """Characters, cut in the ways that are left; a decoder of single steps."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=False))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Replace(Regex(r"(?m)^#.*?$"), "#"), normalizers.Strip(left=True, right=False),
        normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=True, strip_accents=False,
                                   lowercase=False)])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.CharDelimiterSplit("-"), pre_tokenizers.Split("e", "merged_with_next"),
        pre_tokenizers.Split(Regex(r"[\w-]+\b"), "merged_with_previous"),
        pre_tokenizers.Split(Regex("o"), "contiguous", invert=True),
        pre_tokenizers.Punctuation("merged_with_previous"), pre_tokenizers.FixedLength(4)])
    tokenizer.decoder = decoders.Sequence([
        decoders.Strip(" ", 0, 1), decoders.Replace(Regex("[aeiou]{2}"), "*"),
        decoders.Metaspace("t", "never"), decoders.Fuse(), decoders.Replace("z", "zz"),
        decoders.Strip("n", 1, 2)])
    trainer = trainers.BpeTrainer(vocab_size=190, show_progress=False, special_tokens=["<unk>"])
    tokenizer.train_from_iterator(made_up_text(random.Random(31)), trainer)
    return pack(tokenizer)


def train_sentencepiece(vocab_size, specials):
    """The vocabulary and merges as a conversion from SentencePiece has them: specials, bytes, then
    words that begin with the sign; rare characters are left to their bytes."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(UNDERSCORE, "always", split=True)
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, show_progress=False, limit_alphabet=95,
                                  special_tokens=specials + BYTES)
    # SentencePiece has no token for a newline: it is the byte.
    tokenizer.train_from_iterator([re.sub(r"[\n\t]", " ", t) for t in made_up_text(random.Random(9))],
                                  trainer)
    state = json.loads(tokenizer.to_str())
    vocab, merges = state["model"]["vocab"], state["model"]["merges"]
    for length in (1, 2, 4):  # runs of spaces
        if length > 1 or UNDERSCORE * 2 not in vocab:
            vocab.setdefault(UNDERSCORE * 2 * length, len(vocab))
            merges.append([UNDERSCORE * length] * 2)
    state["pre_tokenizer"] = None
    state["decoder"] = json.loads(SENTENCEPIECE_DECODER.__getstate__())
    # Bytes are plain entries of the vocabulary.
    state["added_tokens"] = [t for t in state["added_tokens"] if t["content"] not in BYTES]
    return state


def begin_with(state, bos):
    tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=bos + " $A", pair=bos + " $A " + bos + ":1 $B:1",
        special_tokens=[(bos, tokenizer.token_to_id(bos))])
    return json.loads(tokenizer.to_str())


def make_mistral():
    """As Mistral-7B v0.1 and v0.2 have it."""
    state = train_sentencepiece(520, ["<unk>", "<s>", "</s>"])
    state["normalizer"] = json.loads(SENTENCEPIECE.__getstate__())
    return begin_with(state, "<s>")


def make_llama2():
    """As Llama-2 has it: the special tokens are looked for in the normalized text; merges in the
    older form; tokens that were added later, as Phi-3's, with all flags."""
    state = train_sentencepiece(480, ["<unk>", "<s>", "</s>"])
    state["normalizer"] = json.loads(SENTENCEPIECE.__getstate__())
    for token in state["added_tokens"]:
        token["normalized"] = True
    tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.add_special_tokens([AddedToken("<|end|>", rstrip=True, normalized=False),
                                  AddedToken("<mask>", lstrip=True, normalized=False)])
    tokenizer.add_tokens([AddedToken("relay", single_word=True, normalized=False),
                          AddedToken("two words", normalized=True)])
    state = begin_with(json.loads(tokenizer.to_str()), "<s>")
    state["model"]["merges"] = [" ".join(m) for m in state["model"]["merges"]]
    return state


def make_mistral_v3():
    """As Mistral-7B v0.3 has it, with marks of a chat template; ignore_merges as later ones."""
    marks = ["[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"]
    state = train_sentencepiece(530, ["<unk>", "<s>", "</s>"] + marks)
    state["model"]["ignore_merges"] = True
    state["model"]["vocab"][UNDERSCORE + "zebra"] = len(state["model"]["vocab"])
    state["pre_tokenizer"] = {"type": "Metaspace", "replacement": UNDERSCORE,
                              "prepend_scheme": "first", "split": False}
    return begin_with(state, "<s>")


def make_gemma():
    """As Gemma has it: nothing is prepended, and nothing stripped."""
    state = train_sentencepiece(500, ["<pad>", "<eos>", "<bos>", "<unk>"])
    state["normalizer"] = {"type": "Replace", "pattern": {"String": " "}, "content": UNDERSCORE}
    state["pre_tokenizer"] = {"type": "Split", "pattern": {"String": " "},
                              "behavior": "MergedWithPrevious", "invert": False}
    state["decoder"]["decoders"] = state["decoder"]["decoders"][:3]
    return begin_with(state, "<bos>")


def make_metaspace():
    """Metaspace in its older form, words cut apart; bytes that are not all there, so that unk
    tokens are needed, not fused."""
    state = train_sentencepiece(470, ["<unk>", "<s>", "</s>"])
    state["pre_tokenizer"] = {"type": "Metaspace", "replacement": UNDERSCORE,
                              "add_prefix_space": True}
    state["model"]["fuse_unk"] = False
    del state["model"]["vocab"]["<0xF0>"]
    return state


MAKERS = {"llama3": make_llama3, "qwen2": make_qwen2, "gpt2": make_gpt2, "digits": make_digits,
          "mistral": make_mistral, "mistral_v3": make_mistral_v3, "llama2": make_llama2,
          "gemma": make_gemma, "metaspace": make_metaspace, "falcon": make_falcon,
          "clip": make_clip, "bloom": make_bloom, "gpt4": make_gpt4,
          "byte_normalizer": make_byte_normalizer, "t5": make_t5, "albert": make_albert,
          "unigram_bytes": make_unigram_bytes, "bert": make_bert,
          "bert_cased": make_bert_cased, "word_level": make_word_level, "cuts": make_cuts}
