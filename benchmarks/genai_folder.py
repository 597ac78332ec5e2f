"""Folders of decoders with made-up weights, their graphs as ONNX Runtime GenAI's builder makes them: Llama's and Qwen's."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

BLOCK = 32
"""Weights of 4 bits that share a scale."""


@dataclass(frozen=True)
class Shape:
    """A decoder's sizes, and the type of its weights: `int4`, or the type that it computes in."""

    name: str
    weights: str
    dtype: str = "float32"
    """What it computes in."""
    width: int = 2048
    inner: int = 5632
    layers: int = 22
    heads: int = 32
    shared: int = 4
    """Heads of keys and values."""
    size: int = 64
    """Of a head."""
    words: int = 32_000
    context: int = 2048
    level: int = 0
    """MatMulNBits' accuracy_level."""
    has_bias: bool = False
    """Whether queries, keys and values have one, as Qwen 2's do."""


SHAPES = [
    Shape("1.1B int4", "int4"),
    Shape("1.1B int4, level 4", "int4", level=4),
    Shape("0.5B fp16", "float16", "float16", 896, 4864, 24, 14, 2, 64, 151_936, has_bias=True),
    Shape("0.1B fp32", "float32", "float32", 768, 2048, 12, 12, 4, 64, 32_000),
    Shape("tiny fp32, 22 layers", "float32", "float32", 64, 128, 22, 4, 2, 16, 256),
]
"""TinyLlama's shape, Qwen2-0.5B's, and small ones. Of the last, weights are next to nothing: a step is the host's work."""
FOR_GPUS = [
    Shape("1.1B int4 of fp16", "int4", "float16"),
    Shape("8B int4 of fp16", "int4", "float16", 4096, 14_336, 32, 32, 8, 128, 128_256, context=65_536),
]
"""TinyLlama's shape and Llama 3's."""


class _Weights:
    """Made-up weights, written one after the other into a file beside the model."""

    def __init__(self, path: Path) -> None:
        self.tensors: list[Any] = []
        self.bytes = 0
        """Of all weights that each step reads."""
        self._path = path
        self._file = path.open("wb")
        self._rng = np.random.default_rng(0)

    def small(self, name: str, array: Any) -> str:
        self.tensors.append(onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def random(
        self, name: str, dtype: str, shape: tuple[int, ...], scale: float = 0.02, *, is_read: bool = True
    ) -> str:
        values = self._rng.standard_normal(shape, np.float32) * np.float32(scale)
        return self._write(name, values.astype(dtype), is_read=is_read)

    def nibbles(self, name: str, shape: tuple[int, ...]) -> str:
        return self._write(name, self._rng.integers(0, 256, shape, np.uint8))

    def scales(self, name: str, dtype: str, shape: tuple[int, ...]) -> str:
        return self._write(name, self._rng.uniform(0.002, 0.006, shape).astype(dtype))

    def _write(self, name: str, array: Any, *, is_read: bool = True) -> str:
        self._file.seek(-self._file.tell() % 4096, 1)
        at = self._file.tell()
        self._file.write(array.tobytes())
        tensor = TensorProto(name=name, dims=array.shape, data_location=TensorProto.EXTERNAL)
        tensor.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        for key, value in (("location", self._path.name), ("offset", at), ("length", array.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        self.tensors.append(tensor)
        self.bytes += array.nbytes if is_read else 0
        return name

    def close(self) -> None:
        self._file.close()


class _Graph:
    """The nodes of a decoder, as the builder names and orders them."""

    def __init__(self, shape: Shape, weights: _Weights) -> None:
        self.shape, self.weights = shape, weights
        self.nodes: list[Any] = []
        dtype = np.dtype(shape.dtype)
        self.element = helper.np_dtype_to_tensor_dtype(dtype)
        self.inputs = [self._info("input_ids", ["batch_size", "sequence_length"], TensorProto.INT64)]
        self.inputs += [self._info("attention_mask", ["batch_size", "total_sequence_length"], TensorProto.INT64)]
        self.outputs = [self._info("logits", ["batch_size", "sequence_length", shape.words])]

    def _info(self, name: str, sizes: list[Any], element: int | None = None) -> Any:
        return helper.make_tensor_value_info(name, self.element if element is None else element, sizes)

    def node(self, kind: str, inputs: str, outputs: str, **attributes: Any) -> str:
        names = [["" if name == "-" else name for name in several.split()] for several in (inputs, outputs)]
        self.nodes.append(helper.make_node(kind, *names, name=f"/{names[1][0]}/{kind}", **attributes))
        return names[1][0]

    def matmul(self, name: str, given: str, rows: int, columns: int, made: str = "") -> str:
        made = made or f"{name}.out"
        if self.shape.weights != "int4":
            weight = self.weights.random(f"{name}.weight", self.shape.weights, (rows, columns))
            return self.node("MatMul", f"{given} {weight}", made)
        packed = self.weights.nibbles(f"{name}.weight_Q4", (columns, rows // BLOCK, BLOCK // 2))
        scales = self.weights.scales(f"{name}.weight_scales", self.shape.dtype, (columns, rows // BLOCK))
        options = {"K": rows, "N": columns, "bits": 4, "block_size": BLOCK, "accuracy_level": self.shape.level}
        return self.node("MatMulNBits", f"{given} {packed} {scales}", made, domain="com.microsoft", **options)

    def norm(self, layer: str, skip: str, given: str) -> tuple[str, str]:
        """A normalization of the sum of what is given; gives both."""
        weight = self.weights.random(f"{layer}.weight", self.shape.dtype, (self.shape.width,), 1.0)
        options: dict[str, Any] = {"epsilon": 1e-5}
        if not skip:
            options |= {"axis": -1, "stash_type": 1}
            return self.node("SimplifiedLayerNormalization", f"{given} {weight}", f"{layer}.out", **options), given
        made, total = f"{layer}.out", f"{layer}.sum"
        outputs = made if layer == "model.norm" else f"{made} - - {total}"
        self.node(
            "SkipSimplifiedLayerNormalization", f"{skip} {given} {weight}", outputs, domain="com.microsoft", **options
        )
        return made, total

    def build(self) -> None:
        shape, weights, node = self.shape, self.weights, self.node
        weights.small("one", np.array([1]))
        weights.small("second", np.array(1))
        node("ReduceSum", "attention_mask one", "counts", keepdims=0)
        node("Sub", "counts one", "lasts")
        node("Cast", "lasts", "seqlens_k", to=TensorProto.INT32)
        node("Shape", "attention_mask", "mask_shape")
        node("Gather", "mask_shape second", "all", axis=0)
        node("Cast", "all", "total_seq_len", to=TensorProto.INT32)
        angles = np.arange(shape.context)[:, None] / 10_000.0 ** (np.arange(shape.size // 2) * 2 / shape.size)
        weights.small("cos_cache", np.cos(angles).astype(shape.dtype))
        weights.small("sin_cache", np.sin(angles).astype(shape.dtype))
        table = weights.random("model.embed_tokens.weight", shape.dtype, (shape.words, shape.width), is_read=False)
        hidden, skip = node("Gather", f"{table} input_ids", "model.embed_tokens.out"), ""
        for layer in range(shape.layers):
            hidden, skip = self._layer(layer, hidden, skip)
        made, _ = self.norm("model.norm", skip, hidden)
        self.matmul("lm_head", made, shape.width, shape.words, "logits")

    def _layer(self, layer: int, hidden: str, skip: str) -> tuple[str, str]:
        shape, at = self.shape, f"model.layers.{layer}"
        read, keys = shape.heads * shape.size, shape.shared * shape.size
        x, skip = self.norm(f"{at}.input_layernorm", skip, hidden)
        packed = self.matmul(f"{at}.attn.qkv_proj", x, shape.width, read + 2 * keys)
        if shape.has_bias:
            bias = self.weights.random(f"{at}.attn.qkv_proj.bias", shape.dtype, (read + 2 * keys,))
            packed = self.node("Add", f"{packed} {bias}", f"{at}.attn.qkv_proj.Add.out")
        past = [f"past_key_values.{layer}.key", f"past_key_values.{layer}.value"]
        present = [f"present.{layer}.key", f"present.{layer}.value"]
        given = f"{packed} - - {past[0]} {past[1]} seqlens_k total_seq_len cos_cache sin_cache"
        made = f"{at}.attn.GQA.out {present[0]} {present[1]}"
        options = {"num_heads": shape.heads, "kv_num_heads": shape.shared, "scale": shape.size**-0.5, "do_rotary": 1}
        read_out = self.node("GroupQueryAttention", given, made, domain="com.microsoft", **options)
        for name, length, known in zip(
            (*past, *present), ("past",) * 2 + ("total",) * 2, (self.inputs,) * 2 + (self.outputs,) * 2, strict=True
        ):
            known.append(self._info(name, ["batch_size", shape.shared, f"{length}_sequence_length", shape.size]))
        y = self.matmul(f"{at}.attn.o_proj", read_out, read, shape.width)
        x, skip = self.norm(f"{at}.post_attention_layernorm", skip, y)
        gate = self.matmul(f"{at}.mlp.gate_proj", x, shape.width, shape.inner)
        up = self.matmul(f"{at}.mlp.up_proj", x, shape.width, shape.inner)
        self.node("Sigmoid", gate, f"{at}.mlp.sigmoid")
        self.node("Mul", f"{gate} {at}.mlp.sigmoid", f"{at}.mlp.silu")
        self.node("Mul", f"{at}.mlp.silu {up}", f"{at}.mlp.product")
        return self.matmul(f"{at}.mlp.down_proj", f"{at}.mlp.product", shape.inner, shape.width), skip


def make_folder(path: Path, shape: Shape) -> int:
    """Write the model, its weights and genai_config.json; gives the bytes of weights that a step reads."""
    path.mkdir(parents=True, exist_ok=True)
    weights = _Weights(path / "model.onnx.data")
    made = _Graph(shape, weights)
    made.build()
    weights.close()
    graph = helper.make_graph(made.nodes, "main_graph", made.inputs, made.outputs, weights.tensors)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    (path / "model.onnx").write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())
    (path / "genai_config.json").write_text(json.dumps(_config(shape)))
    return weights.bytes


def _config(shape: Shape) -> dict[str, Any]:
    inputs = {"input_ids": "input_ids", "attention_mask": "attention_mask"}
    inputs |= {"past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"}
    outputs = {"logits": "logits", "present_key_names": "present.%d.key", "present_value_names": "present.%d.value"}
    decoder: dict[str, Any] = {
        "filename": "model.onnx",
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
        "head_size": shape.size,
        "hidden_size": shape.width,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.shared,
        "num_hidden_layers": shape.layers,
        "inputs": inputs,
        "outputs": outputs,
    }
    model: dict[str, Any] = {
        "type": "llama",
        "vocab_size": shape.words,
        "context_length": shape.context,
        "decoder": decoder,
    }
    model |= {"bos_token_id": 1, "pad_token_id": 2, "eos_token_id": 2}
    return {"model": model, "search": {"do_sample": False, "past_present_share_buffer": True}}
