"""A small model folder, and chat templates that are meant to hurt."""
import json
import os
import shutil
import struct

from tenants_api import ROOT

TOKENIZER = os.path.join(ROOT, "workers", "tokenizer", "testdata", "tokenizer_digits.json")

# Lists that share their items: each round doubles what a walk meets, and adds one item to memory.
SHARED = """{%- set ns = namespace(a=[1], b=[1]) -%}
{%- for i in range(60) -%}{%- set ns.a = [ns.a, ns.a] -%}{%- set ns.b = [ns.b, ns.b] -%}{%- endfor -%}
"""
LAST = "{{- messages[0].content -}}"
TEMPLATES = {
    "equal": SHARED + "{%- if ns.a == ns.b -%}same{%- endif -%}" + LAST,
    "less": SHARED + "{%- if ns.a < ns.b -%}less{%- endif -%}" + LAST,
    "contains": SHARED + "{%- if ns.a in [ns.b] -%}in{%- endif -%}" + LAST,
    "sort": SHARED + "{{- ([ns.a, ns.b] | sort | length) -}}" + LAST,
    "unique": SHARED + "{{- ([ns.a, ns.b] | unique | list | length) -}}" + LAST,
    "text": SHARED + "{{- (ns.a | string | length) -}}" + LAST,
    "sort_long": "{%- for i in range(500) -%}{%- set x = (range(100000) | list) | sort(reverse=true) -%}"
                 "{%- endfor -%}" + LAST,
}


def shapes(config):
    """The tensors of a Qwen2 with tied embeddings."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    values = hidden * config["num_key_value_heads"] // config["num_attention_heads"]
    layer = {"self_attn.q_proj.weight": [hidden, hidden], "self_attn.q_proj.bias": [hidden],
             "self_attn.k_proj.weight": [values, hidden], "self_attn.k_proj.bias": [values],
             "self_attn.v_proj.weight": [values, hidden], "self_attn.v_proj.bias": [values],
             "self_attn.o_proj.weight": [hidden, hidden],
             "mlp.gate_proj.weight": [inner, hidden], "mlp.up_proj.weight": [inner, hidden],
             "mlp.down_proj.weight": [hidden, inner],
             "input_layernorm.weight": [hidden], "post_attention_layernorm.weight": [hidden]}
    out = {"model.embed_tokens.weight": [config["vocab_size"], hidden], "model.norm.weight": [hidden]}
    out.update({"model.layers.0." + name: shape for name, shape in layer.items()})
    return out


def write_model(folder, template):
    """A Hugging Face directory of a model that is all zeros, with this chat template."""
    config = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": 512,
              "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
              "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 2048,
              "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": True,
              "hidden_act": "silu", "torch_dtype": "float32", "eos_token_id": 0}
    os.makedirs(folder)
    shutil.copy(TOKENIZER, os.path.join(folder, "tokenizer.json"))
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    with open(os.path.join(folder, "chat_template.jinja"), "w", encoding="utf-8") as file:
        file.write(template)
    header, at = {}, 0
    for name, shape in shapes(config).items():
        size = 4
        for length in shape:
            size *= length
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + bytes(at))
