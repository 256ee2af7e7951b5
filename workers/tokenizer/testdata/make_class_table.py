#!/usr/bin/env python3
"""Writes ../tokens/class_table.inc: the tokenizer classes of transformers that do not take
tokenizer.json as it is. Such a class keeps the file's vocabulary, merges and post-processor, and
builds normalizer, pre-tokenizer, decoder and the model's options anew.

    pip install tokenizers==0.23.3 transformers==5.24.0 && python make_class_table.py

The rows hold what the class builds, for those settings of tokenizer_config.json that change it.
"""
import itertools
import json
import os

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
from transformers.models.auto import tokenization_auto as auto  # noqa: E402
from transformers.tokenization_utils_tokenizers import TokenizersBackend  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
SETTINGS = ("add_prefix_space", "legacy")
# The types of models that Baton loads or is likely to load, and what transformers takes for them.
MODEL_TYPES = ("gemma gemma2 gemma3_text granite llama mistral olmo olmo2 phi phi3 qwen2 qwen2_moe "
               "qwen3 qwen3_moe smollm3 stablelm starcoder2").split()
# Classes that folders of such models name.
CLASSES = ("CodeLlamaTokenizer CohereTokenizer GPT2Tokenizer GPTNeoXTokenizer GemmaTokenizer "
           "LlamaTokenizer Qwen2Tokenizer Qwen3_5Tokenizer").split()


def class_of(name):
    try:
        return auto.tokenizer_class_from_name(name)
    except Exception:  # a class whose own dependencies are missing
        return None


def builds_its_own(cls):
    return (isinstance(cls, type) and issubclass(cls, TokenizersBackend) and
            cls is not TokenizersBackend and "__init__" in cls.__dict__ and
            getattr(cls.model, "__name__", "") == "BPE")


def steps(cls, settings):
    """What the class builds: tokenizer.json without what it takes from the file."""
    vocab = {token: i for i, token in enumerate(["<unk>", "<s>", "</s>", "<pad>", "a"])}
    state = json.loads(cls(vocab=vocab, merges=[], **settings)._tokenizer.to_str())
    model = {k: v for k, v in state["model"].items() if k not in ("vocab", "merges")}
    return {"normalizer": state["normalizer"], "pre_tokenizer": state["pre_tokenizer"],
            "decoder": state["decoder"], "model": model}


def rows(cls):
    """(settings, steps), for each combination of settings that makes a difference of its own."""
    built = {}
    for values in itertools.product((None, False, True), repeat=len(SETTINGS)):
        settings = {k: v for k, v in zip(SETTINGS, values) if v is not None}
        built[values] = steps(cls, settings)
    out = []
    for values, made in built.items():
        # One setting less says the same.
        fewer = [values[:i] + (None,) + values[i + 1:] for i, v in enumerate(values) if v is not None]
        if not any(built[f] == made for f in fewer):
            out.append(({k: v for k, v in zip(SETTINGS, values) if v is not None}, made))
    return out


def literal(value):
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=True)
    return 'R"json(%s)json"' % text


def main():
    lines = ["// Made by testdata/make_class_table.py. transformers 5.24.0.", ""]
    names = sorted({n.removesuffix("Fast") for n in auto.TOKENIZER_MAPPING_NAMES.values() if n})
    lines.append("constexpr ClassRow kClassRows[] = {")
    known = []
    for name in names:
        cls = class_of(name)
        if cls is None:
            continue
        known.append(name)
        if name not in CLASSES or not builds_its_own(cls):
            continue
        for settings, made in rows(cls):
            lines.append('    {"%s", %s,\n     %s},' % (name, literal(settings), literal(made)))
    lines.append("};")
    lines += ["", "// Classes that transformers knows: for others it takes tokenizer.json as it is.",
              "constexpr const char* kKnownClasses[] = {"]
    lines += ['    "%s",' % name for name in known] + ["};"]
    lines += ["", "// The class of a type of model; whether it beats the class that a folder names.",
              "constexpr TypeRow kTypeRows[] = {"]
    for model_type in MODEL_TYPES:
        registered = (auto.TOKENIZER_MAPPING_NAMES.get(model_type) or "").removesuffix("Fast")
        beats = model_type in auto.MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS
        lines.append('    {"%s", "%s", %s},' % (model_type, registered, "true" if beats else "false"))
    lines.append("};")
    with open(os.path.join(HERE, "../tokens/class_table.inc"), "w") as f:
        f.write("\n".join(lines) + "\n")


main()
