"""gguf_folder.py writes the config, the tokenizer, the chat template and the weights of a GGUF file
as a Hugging Face folder has them, and refuses what it does not know by name.

The tests of whole files need the packages gguf and numpy, and are skipped without them."""
import contextlib
import importlib.util
import io
import json
import os
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gguf_folder  # noqa: E402

HAS_PACKAGES = all(importlib.util.find_spec(name) for name in ("gguf", "numpy"))
TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "a", "b", "ab", "\u0120", "1"]
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"


def as_float32(number):
    return struct.unpack("<f", struct.pack("<f", number))[0]


def metadata(**changes):
    """Of a model with 2 heads of 4, one of them for keys and values, and one layer."""
    values = {
        "general.architecture": "llama",
        "llama.block_count": 1,
        "llama.context_length": 128,
        "llama.embedding_length": 8,
        "llama.feed_forward_length": 32,
        "llama.attention.head_count": 2,
        "llama.attention.head_count_kv": 1,
        "llama.rope.freq_base": 100000.0,
        "llama.attention.layer_norm_rms_epsilon": as_float32(1e-5),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": [3, 3, 3, 1, 1, 1, 1, 1],
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.padding_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    }
    values.update({key.replace("__", "."): value for key, value in changes.items()})
    return values


class MetadataTest(unittest.TestCase):
    def test_the_config_has_the_numbers_as_they_were_written(self):
        config = gguf_folder.model_config(metadata(), tied=True, dtype="bfloat16")
        expected = {"model_type": "llama", "vocab_size": 8, "hidden_size": 8,
                    "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
                    "num_key_value_heads": 1, "head_dim": 4, "max_position_embeddings": 128,
                    "rms_norm_eps": 1e-05, "rope_theta": 100000.0, "tie_word_embeddings": True,
                    "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2,
                    "pad_token_id": 2}
        self.assertEqual({key: config[key] for key in expected}, expected)

    def test_control_tokens_are_special_and_digits_are_tokens_of_their_own(self):
        tokenizer = gguf_folder.tokenizer(metadata())
        self.assertEqual([(t["id"], t["content"], t["special"]) for t in tokenizer["added_tokens"]],
                         [(0, "<|endoftext|>", True), (1, "<|im_start|>", True),
                          (2, "<|im_end|>", True)])
        self.assertEqual(tokenizer["model"]["vocab"], {t: i for i, t in enumerate(TOKENS)})
        self.assertEqual(tokenizer["model"]["merges"], ["a b"])
        kinds = [part["type"] for part in tokenizer["pre_tokenizer"]["pretokenizers"]]
        self.assertEqual(kinds, ["Digits", "ByteLevel"])

    def test_the_tokenizers_config_has_the_template_and_the_named_tokens(self):
        config = gguf_folder.tokenizer_config(metadata())
        self.assertEqual(config["chat_template"], TEMPLATE)
        self.assertEqual((config["bos_token"], config["eos_token"], config["pad_token"]),
                         ("<|im_start|>", "<|im_end|>", "<|im_end|>"))

    def test_what_it_does_not_know_is_refused_by_name(self):
        for changes, words in (
                ({"general__architecture": "qwen2"}, "general.architecture is 'qwen2'"),
                ({"tokenizer__ggml__pre": "llama-bpe"}, "tokenizer.ggml.pre is 'llama-bpe'"),
                ({"tokenizer__ggml__add_bos_token": True}, "add_bos_token is true"),
                ({"llama__rope__scaling__factor": 2.0}, "llama.rope.scaling.factor")):
            with self.assertRaisesRegex(gguf_folder.Unknown, words):
                gguf_folder.check(metadata(**changes))
        with self.assertRaisesRegex(gguf_folder.Unknown, "tensor blk.0.attn_q.bias"):
            gguf_folder.folder_name("blk.0.attn_q.bias")
        gguf_folder.check(metadata())


class RowsTest(unittest.TestCase):
    def test_the_rows_of_a_head_are_all_firsts_of_its_pairs_and_then_all_seconds(self):
        self.assertEqual(gguf_folder.rows_of_halves(2, 6), [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11])


@unittest.skipUnless(HAS_PACKAGES, "needs the packages gguf and numpy")
class FileTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.source = os.path.join(folder.name, "tiny.gguf")
        self.made = os.path.join(folder.name, "made")

    def write_gguf(self, values, tensors):
        """`tensors`: {name: (numpy array, its GGMLQuantizationType)}."""
        import gguf
        writer = gguf.GGUFWriter(self.source, values["general.architecture"])
        for key, value in values.items():
            if key == "general.architecture":
                continue
            if isinstance(value, bool):
                writer.add_bool(key, value)
            elif isinstance(value, int):
                writer.add_uint32(key, value)
            elif isinstance(value, float):
                writer.add_float32(key, value)
            elif isinstance(value, str):
                writer.add_string(key, value)
            else:
                writer.add_array(key, value)
        for name, (array, kind) in tensors.items():
            if kind == gguf.GGMLQuantizationType.F32:
                writer.add_tensor(name, array)
            else:
                writer.add_tensor(name, gguf.quantize(array, kind), raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    def tensors(self):
        """Row r, column c of a matrix of the layer is r + c / 64; all of them fit bfloat16."""
        import numpy
        from gguf import GGMLQuantizationType as Kind

        def counted(rows, columns):
            return (numpy.arange(rows)[:, None] + numpy.arange(columns) / 64).astype("float32")
        ones = numpy.ones(8, "float32")
        # A block of 32 with the scale 1 and the minimum 0 is exact in Q4_1.
        blocks = numpy.tile(numpy.arange(32, dtype="float32") % 16, (8, 1))
        made = {"token_embd": counted(8, 8), "output_norm": ones, "blk.0.attn_norm": ones,
                "blk.0.ffn_norm": ones, "blk.0.attn_q": counted(8, 8),
                "blk.0.attn_k": counted(4, 8), "blk.0.attn_v": counted(4, 8),
                "blk.0.attn_output": counted(8, 8), "blk.0.ffn_gate": counted(32, 8),
                "blk.0.ffn_up": counted(32, 8)}
        named = {name + ".weight": (array, Kind.F32) for name, array in made.items()}
        named["blk.0.ffn_down.weight"] = (blocks, Kind.Q4_1)
        return named

    def read_safetensors(self):
        """{name: (dtype, rows of numbers)}"""
        import numpy
        with open(os.path.join(self.made, "model.safetensors"), "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
            data = file.read()
        read, end = {}, 0
        self.assertEqual(header.pop("__metadata__"), {"format": "pt"})
        for name, tensor in header.items():
            begin, until = tensor["data_offsets"]
            self.assertEqual(begin, end, "no gap before " + name)
            end = until
            if tensor["dtype"] == "BF16":  # the upper half of a float32
                upper = numpy.frombuffer(data[begin:until], "<u2").astype("<u4") << 16
                values = upper.view("<f4")
            else:
                values = numpy.frombuffer(data[begin:until], "<f4")
            read[name] = (tensor["dtype"], values.reshape(tensor["shape"]).tolist())
        self.assertEqual(end, len(data))
        return read

    def convert(self, *arguments):
        with contextlib.redirect_stdout(io.StringIO()):
            gguf_folder.main([self.source, self.made, *arguments])

    def test_a_file_becomes_a_folder(self):
        self.write_gguf(metadata(), self.tensors())
        self.convert()
        self.assertEqual(sorted(os.listdir(self.made)),
                         ["config.json", "generation_config.json", "model.safetensors",
                          "tokenizer.json", "tokenizer_config.json"])
        with open(os.path.join(self.made, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        self.assertEqual((config["rms_norm_eps"], config["tie_word_embeddings"]), (1e-05, True))
        weights = self.read_safetensors()
        self.assertEqual(len(weights), 11)
        kinds = {kind for kind, _ in weights.values()}
        self.assertEqual(kinds, {"BF16"})
        rows = {name: values for name, (_, values) in weights.items()}
        first = [row[0] for row in rows["model.layers.0.self_attn.q_proj.weight"]]
        self.assertEqual(first, [0, 2, 1, 3, 4, 6, 5, 7])
        first = [row[0] for row in rows["model.layers.0.self_attn.k_proj.weight"]]
        self.assertEqual(first, [0, 2, 1, 3])
        first = [row[0] for row in rows["model.layers.0.self_attn.v_proj.weight"]]
        self.assertEqual(first, [0, 1, 2, 3])
        self.assertEqual(rows["model.layers.0.mlp.down_proj.weight"],
                         [[float(c % 16) for c in range(32)]] * 8)
        self.assertEqual(rows["model.embed_tokens.weight"][3][4], 3 + 4 / 64)

    def test_float32_keeps_what_bfloat16_rounds_to_nearest_even(self):
        import numpy
        values = numpy.array([1 + 2 ** -8, 1 + 3 * 2 ** -8, 1 + 2 ** -8 + 2 ** -16, -1 / 3] * 2,
                             "float32")
        tensors = self.tensors()
        tensors["output_norm.weight"] = (values, tensors["output_norm.weight"][1])
        self.write_gguf(metadata(), tensors)
        self.convert()
        # 8 bits of mantissa: steps of 2^-7 above 1; 1/3 is 1.0101010|1..b / 4.
        rounded = [1.0, 1 + 2 ** -6, 1 + 2 ** -7, -(1 + 43 / 128) / 4] * 2
        self.assertEqual(self.read_safetensors()["model.norm.weight"], ("BF16", rounded))
        self.made += "32"
        self.convert("--dtype", "float32")
        self.assertEqual(self.read_safetensors()["model.norm.weight"], ("F32", values.tolist()))

    def test_a_file_that_fails_leaves_no_folder(self):
        tensors = self.tensors()
        tensors["blk.0.attn_q.bias"] = tensors["output_norm.weight"]
        self.write_gguf(metadata(), tensors)
        with self.assertRaisesRegex(SystemExit, "tensor blk.0.attn_q.bias: this script does not"):
            self.convert()
        self.assertFalse(os.path.exists(self.made))


if __name__ == "__main__":
    unittest.main()
