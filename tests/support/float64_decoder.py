"""Decoders of `genai_folders.py` in float64: every token's logits, from the whole sequence at once, without caches."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from onnx_models import helper, onnx

Array = np.ndarray[Any, Any]


class Decoder(NamedTuple):
    """A model's nodes, and its tensors."""

    nodes: list[Any]
    tensors: dict[str, Array]
    rounds: bool
    """Whether rows are rounded to 8 bits where a node's accuracy_level allows it."""
    dtype: Any
    """What each node's result is rounded to."""

    def logits(self, tokens: Any) -> Array:
        """The logits after each token, (tokens, words)."""
        known: dict[str, Any] = {"input_ids": np.asarray(tokens), **self.tensors}
        for node in self.nodes:
            made = _KINDS.get(node.op_type)
            if made is None or (node.op_type == "Gather" and node.input[1] != "input_ids"):
                continue  # the lengths of sequences and of caches: here is one sequence, and no cache
            options = {one.name: helper.get_attribute_value(one) for one in node.attribute}
            given = [known.get(name) for name in node.input]
            found = made(given, options | {"rounds": self.rounds})
            known[node.output[0]] = found.astype(self.dtype).astype(np.float64)
        return np.asarray(known["logits"])

    def sample(self, count: int, seed: int) -> list[int]:
        """So many tokens that follow one another as they are likely to."""
        draws, found = np.random.default_rng(seed).random(count), [10]
        while len(found) < count:
            row = self.logits(found)[-1]
            shares = np.cumsum(np.exp(row - row.max()))
            found.append(int(np.searchsorted(shares, draws[len(found)] * shares[-1])))
        return found


def decoder64(model: bytes, *, rounds: bool = False, dtype: Any = np.float64) -> Decoder:
    """The decoder of a model's bytes."""
    graph = onnx.load_from_string(model).graph
    tensors = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}
    wide = {name: one.astype(np.float64) if one.dtype.kind == "f" else one for name, one in tensors.items()}
    return Decoder(list(graph.node), wide, rounds, dtype)


def perplexity(logits: Array, tokens: Any) -> float:
    """exp of the mean of -log p of each token but the first."""
    rows = np.asarray(logits, np.float64)[:-1]
    rows = rows - rows.max(1, keepdims=True)
    chosen = rows[np.arange(len(rows)), np.asarray(tokens)[1:]] - np.log(np.exp(rows).sum(1))
    return float(np.exp(-chosen.mean()))


def _normal(given: list[Any], options: dict[str, Any]) -> Array:
    x, scale = given
    return np.asarray(x / np.sqrt((x * x).mean(-1, keepdims=True) + options.get("epsilon", 1e-5)) * scale)


def _unpacked(bytes_: Array, bits: int, rows: int, count: int) -> Array:
    """Numbers of few bits, the low ones of a byte first."""
    shifts = np.arange(0, 8, bits)
    return np.asarray(((bytes_.reshape(rows, -1)[..., None] >> shifts) & (2**bits - 1)).reshape(rows, -1)[:, :count])


def _few_bits(given: list[Any], options: dict[str, Any]) -> Array:
    """x · ((q - z) · s)ᵀ, with a scale s and a zero point z for each block of a column."""
    x, packed, scales = given[:3]
    length, columns, bits, block = (options[name] for name in ("K", "N", "bits", "block_size"))
    blocks = length // block
    numbers = _unpacked(packed, bits, columns, length).reshape(columns, blocks, block).astype(np.float64)
    zeros: Any = 2 ** (bits - 1)
    if len(given) > 3 and given[3] is not None:
        zeros = _unpacked(given[3], bits, columns, blocks)[..., None]
    weights = ((numbers - zeros) * scales.reshape(columns, blocks, 1)).reshape(columns, length)
    if options["rounds"] and options.get("accuracy_level") == 4:
        cut = x.reshape(-1, blocks, block)
        scale = np.abs(cut).max(2, keepdims=True) / 127
        x = (np.rint(cut / np.where(scale, scale, 1)) * scale).reshape(x.shape)
    return np.asarray(x @ weights.T)


def _turned(x: Array, cos: Array, sin: Array) -> Array:
    """Heads, (tokens, heads, size), each turned by its position's angles."""
    half = cos.shape[1]
    cosine, sine = cos[: len(x), None], sin[: len(x), None]
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * cosine - second * sine, first * sine + second * cosine], -1)


def _attention(given: list[Any], options: dict[str, Any]) -> Array:
    """GroupQueryAttention: each query sees the keys up to its own, or the last of them."""
    given = [*given, *[None] * (14 - len(given))]
    heads, shared = options["num_heads"], options["kv_num_heads"]
    queries, keys, values = (
        one.reshape(len(one), count, -1) for one, count in zip(given[:3], (heads, shared, shared), strict=True)
    )
    if options.get("do_rotary"):
        queries, keys = (_turned(one, given[7], given[8]) for one in (queries, keys))
    if bits := options.get("kv_cache_bit_width", 0):
        end = 2 ** (bits - 1)
        scales = [one.reshape(1, shared, -1) for one in given[12:14]]
        keys, values = (
            np.clip(np.rint(one / scale), -end, end - 1) * scale
            for one, scale in zip((keys, values), scales, strict=True)
        )
    keys, values = (np.repeat(one, heads // shared, 1) for one in (keys, values))
    scores = np.einsum("qhd,khd->hqk", queries, keys) / np.sqrt(queries.shape[2])
    apart = np.arange(len(queries))[:, None] - np.arange(len(keys))
    window = options.get("local_window_size", -1)
    scores = np.where((apart < 0) | ((apart >= window) & (window > 0)), -np.inf, scores)
    terms = np.exp(scores - scores.max(2, keepdims=True))
    shares = terms / terms.sum(2, keepdims=True)
    return np.asarray(np.einsum("hqk,khd->qhd", shares, values).reshape(len(queries), -1))


_KINDS: dict[str, Any] = {
    "Gather": lambda given, options: given[0][given[1]],
    "Add": lambda given, options: given[0] + given[1],
    "MatMul": lambda given, options: given[0] @ given[1],
    "SimplifiedLayerNormalization": _normal,
    "MatMulNBits": _few_bits,
    "GroupQueryAttention": _attention,
}
"""By node type, its answer of its inputs and attributes."""
