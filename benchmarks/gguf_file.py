"""A decoder's folder as a GGUF file of the same weights, which llama.cpp runs: blocks of 4 bits become its Q4_0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.genai_folder import BLOCK

_SCALES = 18
"""Bytes of a block of Q4_0: a FLOAT16 scale, then 16 bytes of which each has weight j and weight j + 16."""


class _Tensors:
    """The weights of a folder's model, by name."""

    def __init__(self, folder: Path) -> None:
        import onnx

        model = onnx.load(str(folder / "model.onnx"), load_external_data=False)
        self._at = {one.name: one for one in model.graph.initializer if one.external_data}
        self._file = folder / "model.onnx.data"
        self._dtype = onnx.helper.tensor_dtype_to_np_dtype

    def __contains__(self, name: str) -> bool:
        return name in self._at

    def __getitem__(self, name: str) -> Any:
        found = self._at[name]
        where = {one.key: one.value for one in found.external_data}
        dtype = self._dtype(found.data_type)
        return np.memmap(self._file, dtype, "r", int(where["offset"]), tuple(found.dims))


def write_gguf(folder: Path, target: Path) -> None:
    """Write the weights of a folder that `make_folder` made into a file."""
    import gguf

    model = json.loads((folder / "genai_config.json").read_text())["model"]
    decoder, tensors = model["decoder"], _Tensors(folder)
    heads, shared, size = (decoder[name] for name in ("num_attention_heads", "num_key_value_heads", "head_size"))
    has_bias = "model.layers.0.attn.qkv_proj.bias" in tensors
    writer = gguf.GGUFWriter(str(target), "qwen2" if has_bias else "llama")
    writer.add_context_length(model["context_length"])
    writer.add_embedding_length(decoder["hidden_size"])
    writer.add_block_count(decoder["num_hidden_layers"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(shared)
    writer.add_rope_dimension_count(size)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(model["vocab_size"])
    writer.add_tokenizer_model("no_vocab")

    def add(name: str, given: str, rows: slice, order: Any = None) -> None:
        """A matrix, of which llama.cpp has outputs by inputs."""
        if f"{given}.weight_Q4" in tensors:
            packed, scales = tensors[f"{given}.weight_Q4"][rows], tensors[f"{given}.weight_scales"][rows]
            blocks = _q4_0(packed, scales)
            writer.add_tensor(
                name, blocks if order is None else blocks[order], raw_dtype=gguf.GGMLQuantizationType.Q4_0
            )
        else:
            matrix = tensors[f"{given}.weight"].T[rows]
            writer.add_tensor(name, np.ascontiguousarray(matrix if order is None else matrix[order]))

    every, read, keys = slice(None), heads * size, shared * size
    table = tensors["model.embed_tokens.weight"]
    writer.add_tensor("token_embd.weight", np.asarray(table, "float16" if table.dtype == np.float16 else "float32"))
    for layer in range(decoder["num_hidden_layers"]):
        at, to = f"model.layers.{layer}", f"blk.{layer}"
        parts = {"q": slice(0, read), "k": slice(read, read + keys), "v": slice(read + keys, read + 2 * keys)}
        for part, rows in parts.items():
            # Llama's halves of a head that rotate together lie side by side there, Qwen's do not.
            count = rows.stop - rows.start
            order = (
                None if has_bias or part == "v" else np.arange(count).reshape(-1, 2, size // 2).swapaxes(1, 2).ravel()
            )
            add(f"{to}.attn_{part}.weight", f"{at}.attn.qkv_proj", rows, order)
            if has_bias:
                bias = tensors[f"{at}.attn.qkv_proj.bias"][rows]
                writer.add_tensor(f"{to}.attn_{part}.bias", np.asarray(bias, np.float32))
        add(f"{to}.attn_output.weight", f"{at}.attn.o_proj", every)
        for part in ("gate", "up", "down"):
            add(f"{to}.ffn_{part}.weight", f"{at}.mlp.{part}_proj", every)
        for name, norm in (("attn_norm", "input_layernorm"), ("ffn_norm", "post_attention_layernorm")):
            writer.add_tensor(f"{to}.{name}.weight", np.asarray(tensors[f"{at}.{norm}.weight"], np.float32))
    writer.add_feed_forward_length(_inner(tensors))
    writer.add_tensor("output_norm.weight", np.asarray(tensors["model.norm.weight"], np.float32))
    add("output.weight", "lm_head", every)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _inner(tensors: _Tensors) -> int:
    name = "model.layers.0.mlp.gate_proj.weight"
    return int(tensors[f"{name}_Q4"].shape[0] if f"{name}_Q4" in tensors else tensors[name].shape[1])


def _q4_0(packed: Any, scales: Any) -> Any:
    """Rows of Q4_0's blocks: ONNX Runtime has weights 2j and 2j + 1 in a byte. Both take 8 away."""
    rows, count, _ = packed.shape
    weights = np.stack([packed & 15, packed >> 4], -1).reshape(rows, count, 2, BLOCK // 2)
    blocks = np.empty((rows, count, _SCALES), np.uint8)
    blocks[..., :2] = np.asarray(scales, "<f2").reshape(rows, count, 1).view(np.uint8)
    blocks[..., 2:] = weights[:, :, 0] | (weights[:, :, 1] << 4)
    return blocks.reshape(rows, count * _SCALES)
