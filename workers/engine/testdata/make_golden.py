#!/usr/bin/env python3
"""Tiny random models as Python's transformers writes them, with its logits.

    make_golden.py write DIR [NAME...]
                                  writes DIR/golden_<name>/ for each model below (or each that is
                                  named): config.json, model.safetensors (one in shards),
                                  expected.json; and DIR/golden_score_<name>/ for each with a scalar
                                  head
    make_golden.py check DIR...   loads directories that SaveModel wrote (with the expected.json
                                  that hf_directory_test puts beside them when it is run with
                                  BATON_GOLDEN_OUT=DIR; scalar_directory_test does it for scalar
                                  heads) and prints the largest difference between transformers'
                                  logits or scores and ours; exits 1 above 1e-4

The tests need the files alone, never Python. The files were made with torch 1.13.0 and
transformers 4.40.2; those of Qwen3 and Mistral, which are named on their own, with torch 2.6.0 and
transformers 5.23.0; those with gradients and greedy tokens (FULL) with torch 2.6.0 and transformers
5.24.0. transformers 4.40 computes no llama3 rope scaling; for that model the script
puts the frequencies, worked out as transformers 4.43 and later do, into the rotary embedding.

Seen with `check` on what SaveModel wrote (largest difference of any logit):
llama 4.2e-06, llama_gqa_tied 2.8e-06, llama_linear_rope 4.1e-06, llama_llama3_rope 2.8e-06,
qwen2 2.6e-06, qwen2_tied_bf16 2.4e-06, score_llama 3.3e-06, score_qwen2 9.5e-07; with transformers
5.23.0: qwen3 3.7e-06, qwen3_bias 2.9e-06, mistral 2.9e-06; with 5.24.0:
qwen2_full_windows 6.1e-06, qwen3_windows 2.4e-06, smollm3 2.5e-06, phi3 7.7e-06, phi3_longrope
2.4e-06, olmo2 3.2e-06, granite 9.5e-07, gemma3 3.0e-06.
"""
import json
import math
import os
import sys

import torch
import transformers
from transformers import (LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification,
                          MistralConfig, MistralForCausalLM, MistralForSequenceClassification,
                          Qwen2Config, Qwen2ForCausalLM, Qwen2ForSequenceClassification)

FAMILIES = {"llama": (LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification),
            "mistral": (MistralConfig, MistralForCausalLM, MistralForSequenceClassification),
            "qwen2": (Qwen2Config, Qwen2ForCausalLM, Qwen2ForSequenceClassification)}
try:
    from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3ForSequenceClassification
    FAMILIES["qwen3"] = (Qwen3Config, Qwen3ForCausalLM, Qwen3ForSequenceClassification)
except ImportError:
    pass  # transformers before 4.51 has no Qwen3.
try:
    from transformers import (Gemma3ForCausalLM, Gemma3TextConfig,
                              Gemma3TextForSequenceClassification, GraniteConfig,
                              GraniteForCausalLM, Olmo2Config, Olmo2ForCausalLM, Phi3Config,
                              Phi3ForCausalLM, Phi3ForSequenceClassification, SmolLM3Config,
                              SmolLM3ForCausalLM)
    FAMILIES.update({
        "smollm3": (SmolLM3Config, SmolLM3ForCausalLM, None),
        "phi3": (Phi3Config, Phi3ForCausalLM, Phi3ForSequenceClassification),
        "olmo2": (Olmo2Config, Olmo2ForCausalLM, None),
        "granite": (GraniteConfig, GraniteForCausalLM, None),
        "gemma3": (Gemma3TextConfig, Gemma3ForCausalLM, Gemma3TextForSequenceClassification)})
except ImportError:
    pass  # transformers 4.40 has none of them but Phi-3.

COMMON = dict(
    vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
    num_attention_heads=4, max_position_embeddings=128, initializer_range=0.3,
    bos_token_id=1, eos_token_id=2, pad_token_id=0,
)
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
MODELS = {
    "llama": dict(family="llama", num_key_value_heads=4, tie_word_embeddings=False),
    "llama_gqa_tied": dict(family="llama", num_key_value_heads=2, tie_word_embeddings=True,
                           attention_bias=True),
    "llama_llama3_rope": dict(family="llama", num_attention_heads=2, num_key_value_heads=1,
                              tie_word_embeddings=False,
                              rope_theta=100.0, llama3=LLAMA3),
    "llama_linear_rope": dict(family="llama", num_key_value_heads=2, tie_word_embeddings=False,
                              rope_scaling={"type": "linear", "factor": 2.5}),
    "qwen2": dict(family="qwen2", num_key_value_heads=2, tie_word_embeddings=False,
                  rope_theta=1000000.0),
    "qwen2_tied_bf16": dict(family="qwen2", num_key_value_heads=1, tie_word_embeddings=True,
                            dtype=torch.bfloat16),
    # Heads that are not hidden_size / num_attention_heads wide.
    "qwen3": dict(family="qwen3", num_key_value_heads=2, head_dim=6, tie_word_embeddings=True,
                  rope_theta=1000000.0),
    "qwen3_bias": dict(family="qwen3", num_key_value_heads=1, head_dim=4,
                       tie_word_embeddings=False, attention_bias=True),
    # A window that no sequence reaches.
    "mistral": dict(family="mistral", num_key_value_heads=2, head_dim=8,
                    tie_word_embeddings=False, sliding_window=24),
}
# Written with gradients and greedy tokens, too. Sequences are longer than the windows of the models
# that are called so.
FULL = {
    "qwen2_full_windows": dict(family="qwen2", num_key_value_heads=2, tie_word_embeddings=True,
                               use_sliding_window=True, sliding_window=4, max_window_layers=2),
    "qwen3_windows": dict(family="qwen3", num_key_value_heads=2, head_dim=6,
                          tie_word_embeddings=True, use_sliding_window=True, sliding_window=24,
                          max_window_layers=1),
    "smollm3": dict(family="smollm3", num_key_value_heads=2, tie_word_embeddings=True,
                    no_rope_layer_interval=2),
    "phi3": dict(family="phi3", num_key_value_heads=2, tie_word_embeddings=False,
                 sliding_window=24),
    # Heads that rotate in part, and frequencies with divisors of their own.
    "phi3_longrope": dict(family="phi3", num_attention_heads=2, num_key_value_heads=1,
                          tie_word_embeddings=True, original_max_position_embeddings=32,
                          partial_rotary_factor=0.5,
                          rope_scaling={"rope_type": "longrope", "short_factor": [1.1, 2.3],
                                        "long_factor": [3.0, 7.0]}),
    "olmo2": dict(family="olmo2", num_key_value_heads=2, tie_word_embeddings=False,
                  rope_theta=500000.0),
    "granite": dict(family="granite", num_key_value_heads=2, tie_word_embeddings=True,
                    embedding_multiplier=3.0, residual_multiplier=0.6, attention_multiplier=0.35,
                    logits_scaling=1.5),
    "gemma3": dict(family="gemma3", num_key_value_heads=2, head_dim=6, tie_word_embeddings=True,
                   sliding_window=24, query_pre_attn_scalar=10,
                   layer_types=["sliding_attention", "full_attention"],
                   rope_parameters={
                       "full_attention": {"rope_type": "linear", "factor": 8.0,
                                          "rope_theta": 1000000.0},
                       "sliding_attention": {"rope_type": "default", "rope_theta": 300.0}}),
    "mistral_short_window": dict(family="mistral", num_key_value_heads=2,
                                 tie_word_embeddings=False, sliding_window=5),
    "qwen3_short_window": dict(family="qwen3", num_key_value_heads=2, head_dim=6,
                               tie_word_embeddings=True, use_sliding_window=True,
                               sliding_window=7, max_window_layers=1),
    # The layers without rotation slide.
    "smollm3_short_window": dict(family="smollm3", num_key_value_heads=2,
                                 tie_word_embeddings=True, no_rope_layer_interval=2,
                                 use_sliding_window=True, sliding_window=3),
    "gemma3_short_window": dict(family="gemma3", num_key_value_heads=1, head_dim=6,
                                tie_word_embeddings=True, sliding_window=4,
                                query_pre_attn_scalar=10,
                                layer_types=["sliding_attention", "full_attention"]),
}
MODELS.update(FULL)
SCORE_MODELS = {
    "llama": dict(family="llama", num_key_value_heads=2),
    "qwen2": dict(family="qwen2", num_key_value_heads=2, rope_theta=1000000.0),
    "qwen3": dict(family="qwen3", num_key_value_heads=2, head_dim=6),
    "mistral": dict(family="mistral", num_key_value_heads=2, sliding_window=None),
    "phi3": dict(family="phi3", num_key_value_heads=2),
    "gemma3": dict(family="gemma3", num_key_value_heads=2, head_dim=6),
}
SEQUENCES = [[1, 5, 39, 7, 7, 0, 12, 31, 2, 18, 22, 3, 9, 27, 33, 14, 6, 1, 38, 20],
             [3], [8, 30, 11, 25, 4, 17]]


def llama3_frequencies(dim, theta, scaling):
    out = []
    for i in range(0, dim, 2):
        frequency = 1.0 / theta ** (i / dim)
        wavelength = 2 * math.pi / frequency
        original = scaling["original_max_position_embeddings"]
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        if wavelength > original / low:
            frequency /= scaling["factor"]
        elif wavelength >= original / high:
            smooth = (original / wavelength - low) / (high - low)
            frequency = (1 - smooth) * frequency / scaling["factor"] + smooth * frequency
        out.append(frequency)
    return torch.tensor(out)


def use_llama3(model, config, scaling):
    dim = config.hidden_size // config.num_attention_heads
    for layer in model.model.layers:
        layer.self_attn.rotary_emb.inv_freq = llama3_frequencies(dim, config.rope_theta, scaling)


def logits(model):
    model.eval()
    with torch.no_grad():
        return [model(torch.tensor([s])).logits[0].float() for s in SEQUENCES]


def randomise_vectors(model):
    """transformers starts biases at 0 and norms at 1, which would hide mistakes."""
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data += 0.3 * torch.randn_like(parameter)


def gradients(model):
    """Of the sum of all next tokens' log-probs: each parameter's norm, and its product with
    cos(0), cos(1), …, so that an element at a wrong place shows."""
    model.get_input_embeddings().padding_idx = None  # Token 0 learns here like any other.
    total = 0
    for tokens in SEQUENCES:
        ids = torch.tensor([tokens])
        log_probs = torch.log_softmax(model(ids).logits[0, :-1].float(), -1)
        total = total + log_probs.gather(1, ids[0, 1:, None]).sum()
    total.backward()
    out = {}
    for name, parameter in model.named_parameters():
        flat = parameter.grad.double().flatten()
        product = flat @ torch.cos(torch.arange(flat.numel(), dtype=torch.float64))
        out[name] = [round(flat.norm().item(), 5), round(product.item(), 5)]
    return out


def greedy(model, count=12):
    """The likeliest next tokens after the last sequence, each from the whole sequence anew."""
    tokens = list(SEQUENCES[-1])
    with torch.no_grad():
        for _ in range(count):
            best = model(torch.tensor([tokens])).logits[0, -1].float().topk(2)
            assert best.values[0] - best.values[1] > 1e-3, "nearly a tie: choose another seed"
            tokens.append(best.indices[0].item())
    return tokens[len(SEQUENCES[-1]):]


def write(directory, names):
    for number, (name, options) in enumerate(MODELS.items()):
        if names and name not in names:
            continue
        options = dict(options)
        family, llama3 = options.pop("family"), options.pop("llama3", None)
        dtype = options.pop("dtype", torch.float32)
        config_class, model_class, _ = FAMILIES[family]
        config = config_class(**{**COMMON, **options})
        torch.manual_seed(100 + number)
        model = model_class(config)
        randomise_vectors(model)
        if name in FULL:  # A row of zeros for the pad token has a gradient of 1 / sqrt(eps).
            model.get_input_embeddings().weight.data[0] = 0.3 * torch.randn(config.hidden_size)
        model = model.to(dtype)
        path = os.path.join(directory, "golden_" + name)
        model.save_pretrained(path, max_shard_size="12KB" if name == "qwen2" else "5GB")
        model = model_class.from_pretrained(path, torch_dtype=torch.float32)
        if llama3:
            use_llama3(model, config, llama3)
            with open(os.path.join(path, "config.json")) as file:
                saved = json.load(file)
            saved["rope_scaling"] = llama3
            with open(os.path.join(path, "config.json"), "w") as file:
                json.dump(saved, file, indent=2)
        os.remove(os.path.join(path, "generation_config.json"))
        expected = [[[round(x, 5) for x in row] for row in rows.tolist()]
                    for rows in logits(model)]
        expected = {"sequences": SEQUENCES, "logits": expected}
        if name in FULL:
            expected.update({"greedy": greedy(model), "gradients": gradients(model)})
        with open(os.path.join(path, "expected.json"), "w") as file:
            json.dump(expected, file, separators=(",", ":"))
        print(path)


def scalars(model):
    """The head's output at every token; pooling takes the last, which is checked here."""
    model.eval()
    model.config.pad_token_id = None  # Token 0 is a token like any other here.
    out = []
    with torch.no_grad():
        for tokens in SEQUENCES:
            ids = torch.tensor([tokens])
            values = model.score(model.model(ids).last_hidden_state)[0, :, 0].float()
            assert torch.equal(values[-1], model(ids).logits[0, 0].float())
            out.append(values)
    return out


def write_scores(directory, names):
    for number, (name, options) in enumerate(SCORE_MODELS.items()):
        if names and "score_" + name not in names:
            continue
        options = dict(options)
        config_class, _, model_class = FAMILIES[options.pop("family")]
        torch.manual_seed(200 + number)
        model = model_class(config_class(**{**COMMON, **options, "num_labels": 1}))
        randomise_vectors(model)
        path = os.path.join(directory, "golden_score_" + name)
        model.save_pretrained(path)
        expected = [[round(x, 5) for x in row.tolist()] for row in scalars(model)]
        with open(os.path.join(path, "expected.json"), "w") as file:
            json.dump({"sequences": SEQUENCES, "values": expected}, file, separators=(",", ":"))
        print(path)


def worst_score(path, expected):
    model, info = transformers.AutoModelForSequenceClassification.from_pretrained(
        path, torch_dtype=torch.float32, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"], info
    assert model.config.num_labels == 1
    return max((torch.tensor(ours) - theirs).abs().max().item()
               for ours, theirs in zip(expected["values"], scalars(model)))


def check(directories):
    worst_of_all = 0.0
    for path in directories:
        with open(os.path.join(path, "expected.json")) as file:
            expected = json.load(file)
        if "values" in expected:
            worst = worst_score(path, expected)
            print(f"{os.path.basename(path)}: {worst:.1e}")
            worst_of_all = max(worst_of_all, worst)
            continue
        with open(os.path.join(path, "config.json")) as file:
            saved = json.load(file)
        scaling = saved.get("rope_scaling") or {}
        knows_llama3 = tuple(map(int, transformers.__version__.split(".")[:2])) >= (4, 43)
        if scaling.get("rope_type") == "llama3" and not knows_llama3:
            config = LlamaConfig(**{**saved, "rope_scaling": None})
            model = LlamaForCausalLM.from_pretrained(path, config=config)
            use_llama3(model, config, scaling)
        else:
            model = transformers.AutoModelForCausalLM.from_pretrained(path,
                                                                      torch_dtype=torch.float32)
        worst = max((torch.tensor(ours) - theirs).abs().max().item()
                    for ours, theirs in zip(expected["logits"], logits(model)))
        print(f"{os.path.basename(path)}: {worst:.1e}")
        worst_of_all = max(worst_of_all, worst)
    return 0 if worst_of_all < 1e-4 else 1


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "write":
        write(sys.argv[2], sys.argv[3:])
        write_scores(sys.argv[2], sys.argv[3:])
    elif len(sys.argv) > 2 and sys.argv[1] == "check":
        sys.exit(check(sys.argv[2:]))
    else:
        sys.exit(__doc__)
