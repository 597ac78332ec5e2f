"""Small folders of ONNX Runtime GenAI: a decoder with made-up weights, its configuration and a tokenizer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_models import helper, info, node, onnx

if TYPE_CHECKING:
    from pathlib import Path

WIDTH, HEADS, SHARED, SIZE, LAYERS, ROOM = 32, 4, 2, 8, 2, 64
BYTES, SPECIAL = 256, ("<|endoftext|>", "<|user|>", "<|assistant|>", "<|end|>")
WORDS = BYTES + len(SPECIAL)
END = WORDS - 1
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def decoder(
    seed: int = 0,
    dtype: str = "float32",
    *,
    positions: bool = False,
    adapters: bool = False,
    window: int = 0,
    slides: bool = True,
    states: bool = False,
    axes: bool = False,
    bits: int = 0,
    level: int = 0,
    cache_bits: int = 0,
) -> bytes:
    """A decoder as GenAI's builder makes them: lengths come of the mask, some products have weights of 4 bits.

    With a `window` the first layer keeps no more keys, if it `slides`. A convolution before the layers has `states`.
    `axes` is for tokens of three positions. Weights of all products have `bits`, where they are given, their
    activations `level` as accuracy_level, and caches `cache_bits`.
    """
    rng = np.random.default_rng(seed)

    def random(*shape: int) -> Any:
        return (rng.standard_normal(shape) * 0.6).astype(dtype)

    angles = np.arange(ROOM)[:, None] / 10.0 ** np.arange(SIZE // 2)
    tensors: dict[str, Any] = {
        "one": np.array([1]), "second": np.array(1), "table": random(WORDS, WIDTH), "head": random(WIDTH, WORDS),
        "cos": np.cos(angles).astype(dtype), "sin": np.sin(angles).astype(dtype), "scale": np.ones(WIDTH, dtype),
    }  # fmt: skip
    nodes = [
        *(node("ReduceSum", "attention_mask one", "counts", keepdims=0), node("Sub", "counts one", "lasts")),
        *(node("Cast", "lasts", "seqlens", to=6), node("Shape", "attention_mask", "shape")),
        *(node("Gather", "shape second", "all"), node("Cast", "all", "total", to=6)),
        node("Gather", "table input_ids", "h0"),
    ]

    def product(x: str, name: str, y: str) -> Any:
        """A product with weights of that name: of few bits, blocks of 16 with a scale and a zero point each."""
        if not bits:
            return node("MatMul", f"{x} {name}", y)
        length, columns = tensors.pop(name).shape
        tensors[name] = rng.integers(0, 256, (columns, length // 16, 2 * bits), np.uint8)
        tensors[f"{name}scale"] = random(columns, length // 16) / 2**bits * 2
        tensors[f"{name}zero"] = rng.integers(0, 256, (columns, -(-length // 16 * bits // 8)), np.uint8)
        sizes = {"K": length, "N": columns, "bits": bits, "block_size": 16, "accuracy_level": level}
        return node("MatMulNBits", f"{x} {name} {name}scale {name}zero", y, **sizes, domain="com.microsoft")

    cache_type, cache_size = {0: (dtype, SIZE), 8: ("int8", SIZE), 4: ("uint8", SIZE // 2)}[cache_bits]
    inputs = [info("input_ids", "int64", ["b", "s"]), info("attention_mask", "int64", ["b", "t"])]
    inputs += [info("position_ids", "int64", ["b", "s"])] if positions else []
    inputs += [info("position_ids", "int64", [3, "b", "s"])] if axes else []
    outputs = [info("logits", dtype, ["b", "s", WORDS])]
    if states:
        nodes[-1] = node("Gather", "table input_ids", "taken")
        nodes.append(node("Transpose", "taken", "turned", perm=[0, 2, 1]))
        given, made = "turned filter - past_conv.0", "passed present_conv.0"
        nodes.append(node("CausalConvWithState", given, made, domain="com.microsoft"))
        nodes += [node("Transpose", "passed", "back", perm=[0, 2, 1]), node("Add", "taken back", "h0")]
        tensors["filter"] = random(WIDTH, 1, 3)
        inputs.append(info("past_conv.0", dtype, ["b", WIDTH, 2]))
        outputs.append(info("present_conv.0", dtype, ["b", WIDTH, 2]))
    for i in range(LAYERS):
        for part in ("key", "value"):
            inputs.append(info(f"past_key_values.{i}.{part}", cache_type, ["b", SHARED, "p", cache_size]))
            outputs.append(info(f"present.{i}.{part}", cache_type, ["b", SHARED, "t", cache_size]))
        tensors |= {f"q{i}": random(WIDTH, WIDTH), f"k{i}": random(WIDTH, SHARED * SIZE)}
        tensors |= {f"v{i}": random(WIDTH, SHARED * SIZE)}
        tensors[f"o{i}"] = rng.integers(0, 256, (WIDTH, 1, WIDTH // 2), np.uint8)
        tensors[f"oscale{i}"] = random(WIDTH) / 8
        nodes.append(node("SimplifiedLayerNormalization", f"h{i} scale", f"x{i}", axis=-1))
        nodes += [product(f"x{i}", f"{name}{i}", f"{name}m{i}") for name in "qkv"]
        if axes:
            turned = {"mrope_section": [1, 2, 1], "num_heads": HEADS, "domain": "com.microsoft"}
            nodes.append(node("MRotaryEmbedding", f"qm{i} position_ids cos sin", f"qt{i}", **turned))
            turned["num_heads"] = SHARED
            nodes.append(node("MRotaryEmbedding", f"km{i} position_ids cos sin", f"kt{i}", **turned))
        given = f"qm{i} km{i} vm{i} past_key_values.{i}.key past_key_values.{i}.value seqlens total cos sin"
        given += " position_ids" if positions else ""
        made = f"a{i} present.{i}.key present.{i}.value"
        options = {"num_heads": HEADS, "kv_num_heads": SHARED, "do_rotary": 1, "domain": "com.microsoft"}
        if axes:
            given = given.replace("qm", "qt").replace("km", "kt").removesuffix(" cos sin")
            options["do_rotary"] = 0
        if window:
            options |= {"local_window_size": window, "sliding_window_cache": int(slides and i == 0)}
        if cache_bits:
            given += " -" * (12 - len(given.split())) + " kscale vscale"
            options |= {f"{part}_quant_type": "PER_CHANNEL" for part in "kv"} | {"kv_cache_bit_width": cache_bits}
            tensors |= {f"{part}scale": np.full((SHARED, 1, SIZE), 8 / 2**cache_bits, "float32") for part in "kv"}
        nodes.append(node("GroupQueryAttention", given, made, **options))
        packed: dict[str, Any] = {"K": WIDTH, "N": WIDTH, "bits": 4, "block_size": WIDTH, "accuracy_level": level}
        packed["domain"] = "com.microsoft"
        nodes.append(node("MatMulNBits", f"a{i} o{i} oscale{i}", f"p{i}", **packed))
        nodes.append(node("Add", f"h{i} p{i}", f"h{i + 1}"))
    last = "plain" if adapters else "logits"
    nodes += [node("SimplifiedLayerNormalization", f"h{LAYERS} scale", "y", axis=-1), product("y", "head", last)]
    if adapters:
        nodes.append(node("Add", "plain shift", "logits"))
        inputs.append(info("shift", dtype, [WORDS]))
        tensors["shift"] = np.zeros(WORDS, dtype)
    made_tensors = [onnx.numpy_helper.from_array(np.asarray(one), name) for name, one in tensors.items()]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, made_tensors)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())


def config(**search: Any) -> dict[str, Any]:
    """What genai_config.json says."""
    return {
        "model": {
            "type": "llama",
            "vocab_size": WORDS,
            "context_length": ROOM,
            "bos_token_id": BYTES,
            "pad_token_id": BYTES,
            "eos_token_id": [END],
            "decoder": {
                "filename": "model.onnx",
                "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
                "head_size": SIZE,
                "num_key_value_heads": SHARED,
                "num_hidden_layers": LAYERS,
                "inputs": {
                    "input_ids": "input_ids",
                    "attention_mask": "attention_mask",
                    "past_key_names": "past_key_values.%d.key",
                    "past_value_names": "past_key_values.%d.value",
                },
                "outputs": {
                    "logits": "logits",
                    "present_key_names": "present.%d.key",
                    "present_value_names": "present.%d.value",
                },
            },
        },
        "search": {"do_sample": False, "max_length": 24, "past_present_share_buffer": True, **search},
    }


def tokenizer() -> dict[str, Any]:
    """A tokenizer.json whose tokens are bytes, and a few special ones."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in plain}
    letters |= {byte: chr(256 + place) for place, byte in enumerate(b for b in range(256) if b not in plain)}
    added = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": BYTES + place, "content": word, **added} for place, word in enumerate(SPECIAL)],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "merges": [],
            "vocab": {letters[byte]: byte for byte in range(256)},
        },
    }


def make_folder(path: Path, model: bytes | None = None, **search: Any) -> Path:
    """A whole folder."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "model.onnx").write_bytes(decoder() if model is None else model)
    (path / "genai_config.json").write_text(json.dumps(config(**search)))
    (path / "tokenizer.json").write_text(json.dumps(tokenizer()))
    (path / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE, "eos_token": "<|end|>"}))
    return path
