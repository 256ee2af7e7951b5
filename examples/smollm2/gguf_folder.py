#!/usr/bin/env python3
"""Writes the model of a GGUF file as a Hugging Face folder, which a job's model.path can name.

    gguf_folder.py FILE.gguf FOLDER [--dtype bfloat16|float32]

It reads what SmolLM2 is: architecture `llama`, byte-level BPE with the pre-tokenizer `smollm`, and
types of weights that the package gguf knows. What it does not know it refuses by name. Needs the
packages gguf and numpy.
"""
import argparse
import json
import math
import os
import shutil
import sys

CONTROL, USER_DEFINED = 3, 4  # of tokenizer.ggml.token_type

# The name of a tensor in GGUF -> its name in a folder.
LAYER_TENSORS = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OTHER_TENSORS = {"token_embd": "model.embed_tokens", "output_norm": "model.norm",
                 "output": "lm_head"}


class Unknown(Exception):
    """The file has something that this script does not know."""


def required(metadata, key):
    if key not in metadata:
        raise Unknown(f"the file has no {key}")
    return metadata[key]


def check(metadata):
    for key, known in (("general.architecture", "llama"), ("tokenizer.ggml.model", "gpt2"),
                       ("tokenizer.ggml.pre", "smollm")):
        if required(metadata, key) != known:
            raise Unknown(f"{key} is {metadata[key]!r}; this script knows {known!r}")
    if metadata.get("tokenizer.ggml.add_bos_token"):
        raise Unknown("tokenizer.ggml.add_bos_token is true; this script knows false")
    for key in metadata:
        if key.startswith("llama.rope.scaling."):
            raise Unknown(f"{key}: this script knows rotary positions without scaling")


def decimal(number):
    """What was written before it became a float32: 1e-05 for 9.999999747378752e-06."""
    return float(f"{number:.7g}")


def model_config(metadata, tied, dtype):
    """config.json"""
    llama = {key[len("llama."):]: value for key, value in metadata.items()
             if key.startswith("llama.")}
    hidden, heads = required(llama, "embedding_length"), required(llama, "attention.head_count")
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(required(metadata, "tokenizer.ggml.tokens")),
        "hidden_size": hidden,
        "intermediate_size": required(llama, "feed_forward_length"),
        "num_hidden_layers": required(llama, "block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": llama.get("attention.head_count_kv", heads),
        "head_dim": llama.get("rope.dimension_count", hidden // heads),
        "max_position_embeddings": required(llama, "context_length"),
        "rms_norm_eps": decimal(required(llama, "attention.layer_norm_rms_epsilon")),
        "rope_theta": decimal(llama.get("rope.freq_base", 10000)),
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": tied,
        "torch_dtype": dtype,
    }
    return {**config, **token_ids(metadata)}


def token_ids(metadata):
    """Ids of the tokens that begin, end and fill a text: `eos` ends a response."""
    keys = {"bos_token_id": "bos_token_id", "eos_token_id": "eos_token_id",
            "pad_token_id": "padding_token_id"}
    return {name: metadata["tokenizer.ggml." + key] for name, key in keys.items()
            if "tokenizer.ggml." + key in metadata}


def tokenizer(metadata):
    """tokenizer.json: digits are tokens of their own, the rest is GPT-2's byte-level BPE."""
    tokens = required(metadata, "tokenizer.ggml.tokens")
    types = required(metadata, "tokenizer.ggml.token_type")
    added = [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": kind == CONTROL}
             for i, (token, kind) in enumerate(zip(tokens, types))
             if kind in (CONTROL, USER_DEFINED)]
    bytes_of = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True}, bytes_of]},
        "post_processor": None,
        "decoder": bytes_of,
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {token: i for i, token in enumerate(tokens)},
                  "merges": list(required(metadata, "tokenizer.ggml.merges"))},
    }


def tokenizer_config(metadata):
    """tokenizer_config.json, with the chat template."""
    tokens = metadata["tokenizer.ggml.tokens"]
    named = {name[:-len("_id")]: tokens[i] for name, i in token_ids(metadata).items()}
    config = {
        # Not GPT2Tokenizer: transformers 5 gives that class its own pre-tokenizer, without digits.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": required(metadata, "llama.context_length"),
        "clean_up_tokenization_spaces": False,
        **named,
    }
    if "tokenizer.chat_template" in metadata:
        config["chat_template"] = metadata["tokenizer.chat_template"]
    return config


def folder_name(name):
    """The name in a folder of a tensor of GGUF."""
    parts = name.split(".")
    if len(parts) == 4 and parts[0] == "blk" and parts[3] == "weight" and (
            parts[2] in LAYER_TENSORS):
        return f"model.layers.{parts[1]}.{LAYER_TENSORS[parts[2]]}.weight"
    if len(parts) == 2 and parts[1] == "weight" and parts[0] in OTHER_TENSORS:
        return OTHER_TENSORS[parts[0]] + ".weight"
    raise Unknown(f"tensor {name}: this script does not know its place")


def rows_of_halves(heads, head_dim):
    """Where each row of a folder's q_proj or k_proj stands in GGUF.

    Rotary positions turn pairs of rows of a head. GGUF's llama has the two of a pair side by side
    (0, 1, 2, 3, ... are a, b, a, b, ...); a folder has all a, then all b.
    """
    half = head_dim // 2
    return [head * head_dim + 2 * pair + second
            for head in range(heads) for second in range(2) for pair in range(half)]


def encoded(values, dtype):
    """The bytes of float32 values; bfloat16 rounds to nearest, ties to even."""
    import numpy
    values = numpy.ascontiguousarray(values, dtype="<f4")
    if dtype == "float32":
        return values.tobytes()
    bits = values.view("<u4")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()


def write_safetensors(path, shapes, dtype, bytes_of):
    """`shapes`: {name: shape}; `bytes_of(name)`: its values, asked for in this order."""
    width, kind = (4, "F32") if dtype == "float32" else (2, "BF16")
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes.items():
        begin, end = end, end + width * math.prod(shape)
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in shapes:
            file.write(bytes_of(name))


def write_weights(path, tensors, config, dtype):
    from gguf.quants import dequantize
    by_name = {folder_name(tensor.name): tensor for tensor in tensors}
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}

    def bytes_of(name):
        tensor = by_name[name]
        values = dequantize(tensor.data, tensor.tensor_type)
        projection = name.split(".")[-2]
        if projection in heads:
            values = values[rows_of_halves(heads[projection], config["head_dim"])]
        return encoded(values, dtype)

    # GGUF gives the extent that is next to each other in memory first.
    shapes = {name: [int(extent) for extent in reversed(by_name[name].shape)]
              for name in sorted(by_name)}
    write_safetensors(path, shapes, dtype, bytes_of)


def write_json(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False, indent=2)
        file.write("\n")


def convert(source, folder, dtype="bfloat16"):
    """Writes `folder`, which does not exist yet; nothing is left there if it fails."""
    from gguf import GGUFReader
    reader = GGUFReader(source)
    metadata = {key: field.contents() for key, field in reader.fields.items()}
    check(metadata)
    tied = all(tensor.name != "output.weight" for tensor in reader.tensors)
    config = model_config(metadata, tied, dtype)
    os.makedirs(folder)
    try:
        write_json(folder, "config.json", config)
        write_json(folder, "generation_config.json", token_ids(metadata))
        write_json(folder, "tokenizer.json", tokenizer(metadata))
        write_json(folder, "tokenizer_config.json", tokenizer_config(metadata))
        write_weights(os.path.join(folder, "model.safetensors"), reader.tensors, config, dtype)
    except BaseException:
        shutil.rmtree(folder)
        raise


def main(argv):
    parser = argparse.ArgumentParser(description="Writes a GGUF file as a Hugging Face folder.")
    parser.add_argument("file", help="the GGUF file")
    parser.add_argument("folder", help="to write; it must not exist yet")
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    arguments = parser.parse_args(argv)
    if os.path.exists(arguments.folder):
        parser.error(f"{arguments.folder} exists; name a folder that does not")
    try:
        convert(arguments.file, arguments.folder, arguments.dtype)
    except Unknown as error:
        sys.exit(f"gguf_folder.py: {arguments.file}: {error}")
    print(f"{arguments.folder} is written")


if __name__ == "__main__":
    main(sys.argv[1:])
