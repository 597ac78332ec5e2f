"""A decoder of Llama's shape, made of DirectML's operators, that generates tokens: the same that PyTorch's chooses.

Two layers of RMS norm, attention with grouped heads, rotary positions and a cache that stays in place, and SwiGLU. The
weights are made up. One graph is a step; it is compiled once. It computes in FLOAT32 or FLOAT16, with weights of that
type, or of INT4 with a scale for every 16: `python examples/llama.py --type float16 --int4`; without options all four.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import math
from typing import Any

import numpy as np

import anydml as dml

LAYERS, WORDS, HIDDEN, INNER, HEADS, SHARED, SIZE, ROOM = 2, 64, 32, 48, 4, 2, 8, 24
PROMPT, COUNT = [3, 14, 15, 9, 2], 12
BLOCK = 16
"""Weights of INT4 that have a scale in common."""


def make_weights(kind: str) -> dict[str, Any]:
    """Small random matrices of a type, (inputs, outputs) each."""
    rng = np.random.default_rng(0)

    def matrix(*shape: int) -> Any:
        return (rng.standard_normal(shape) / math.sqrt(shape[0])).astype(kind)

    layers = [
        {
            "q": matrix(HIDDEN, HEADS * SIZE),
            "k": matrix(HIDDEN, SHARED * SIZE),
            "v": matrix(HIDDEN, SHARED * SIZE),
            "o": matrix(HEADS * SIZE, HIDDEN),
            "gate": matrix(HIDDEN, INNER),
            "up": matrix(HIDDEN, INNER),
            "down": matrix(INNER, HIDDEN),
            "norms": 1 + matrix(2, HIDDEN) / 8,
        }
        for _ in range(LAYERS)
    ]
    angles = np.outer(np.arange(ROOM), 10000.0 ** (-np.arange(SIZE // 2) / (SIZE // 2)))
    return {
        "words": matrix(WORDS, HIDDEN) * 4,
        "layers": layers,
        "norm": 1 + matrix(1, HIDDEN) / 8,
        "out": matrix(HIDDEN, WORDS),
        "cos": np.cos(angles).astype(kind),
        "sin": np.sin(angles).astype(kind),
    }


def quantised(matrix: Any) -> tuple[Any, Any]:
    """Its numbers as INT4, two in a byte, and the scale of every block of inputs: the largest number is 7."""
    largest = np.abs(matrix.reshape(-1, BLOCK, matrix.shape[1])).max(1)
    scales = (largest / 7).astype(matrix.dtype)
    return dml.quantize(matrix, scales, data_type="int4"), scales


def compile_step(weights: dict[str, Any], *, is_int4: bool) -> dml.CompiledGraph:
    """A token and its place make the scores of the next token, and a row of each cache."""
    graph: Any = dml.Graph("cpu")
    ops: Any = dml
    token, place = (graph.input(dml.TensorDesc("int32", (1, 1)), name) for name in ("token", "place"))
    lengths = place.reinterpret((1,))
    tables = [graph.constant(weights[name]) for name in ("cos", "sin")]
    cos, sin = (ops.gather(table, place, axis=0).reinterpret((1, SIZE // 2)) for table in tables)

    def norm(x: Any, scale: Any) -> Any:
        return ops.mean_variance_normalization2(x, [1], graph.constant(scale), use_mean=False, epsilon=1e-5)

    def product(x: Any, matrix: Any) -> Any:
        if not is_int4:
            return ops.gemm(x, graph.constant(matrix))
        numbers, scales = map(graph.constant, quantised(matrix))
        return ops.gemm(x, ops.dequantize(numbers.reinterpret(matrix.shape, data_type="int4"), scales))

    def turn(x: Any, count: int) -> Any:
        heads = x.reinterpret((count, SIZE))
        half, parts = SIZE // 2, [count, SIZE // 2]
        first, second = (ops.slice1(heads, [0, start], parts, [1, 1]) for start in (0, half))
        turned = ops.join([first * cos - second * sin, second * cos + first * sin], axis=1)
        return turned.reinterpret((1, 1, count * SIZE))

    x = ops.gather(graph.constant(weights["words"]), token, axis=0).reinterpret((1, HIDDEN))
    caches = []
    for layer in weights["layers"]:
        y = norm(x, layer["norms"][:1])
        q, k, v = (product(y, layer[name]) for name in "qkv")
        values = v.reinterpret((1, 1, SHARED * SIZE))
        attended, *present = attend(graph, turn(q, HEADS), turn(k, SHARED), values, lengths)
        caches += present
        x = x + product(attended.reinterpret((1, HEADS * SIZE)), layer["o"])
        y = norm(x, layer["norms"][1:])
        gate, up = (product(y, layer[name]) for name in ("gate", "up"))
        x = x + product(ops.swish(gate) * up, layer["down"])
    scores = product(norm(x, weights["norm"]), weights["out"])
    compiled: dml.CompiledGraph = graph.compile([scores, *caches])
    return compiled


def attend(graph: dml.Graph, query: Any, key: Any, value: Any, lengths: Any) -> list[dml.Expression]:
    """A node whose outputs, beside the first, are caches: they keep what the memory bound to them has."""
    cache = dml.TensorDesc(query.data_type, (1, SHARED, ROOM, SIZE))
    desc = dml.MultiheadAttention1(
        query_tensor=query.desc,
        key_tensor=key.desc,
        value_tensor=value.desc,
        past_sequence_lengths_tensor=lengths.desc,
        output_tensor=dml.TensorDesc(query.data_type, (1, 1, HEADS * SIZE)),
        output_present_key_tensor=cache,
        output_present_value_tensor=cache,
        query_head_count=HEADS,
        key_value_head_count=SHARED,
    )
    return graph.add(desc, (query, key, value, lengths), list(desc.outputs().values()))


def generate(step: dml.CompiledGraph, kind: str) -> tuple[list[int], Any]:
    """The tokens after the prompt, each the likeliest, and the last scores."""
    caches = [np.zeros((1, SHARED, ROOM, SIZE), kind) for _ in range(2 * LAYERS)]
    scores, tokens = np.empty((1, WORDS), kind), list(PROMPT)
    for place in range(len(PROMPT) + COUNT - 1):
        step(np.array([[tokens[place]]], "int32"), np.array([[place]], "int32"), out=[scores, *caches])
        if place >= len(PROMPT) - 1:
            tokens.append(int(scores.argmax()))
    return tokens[len(PROMPT) :], scores


def generate_by_torch(weights: dict[str, Any], torch: Any, *, is_int4: bool) -> tuple[list[int], Any]:
    """The same, the whole sequence anew for each token."""

    def norm(x: Any, scale: Any) -> Any:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * torch.from_numpy(scale)

    def turn(x: Any) -> Any:
        first, second = x.chunk(2, -1)
        cos, sin = (torch.from_numpy(weights[name])[: x.shape[1]] for name in ("cos", "sin"))
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)

    def product(x: Any, matrix: Any) -> Any:
        if is_int4:
            matrix = dml.dequantize(*quantised(matrix), data_type="int4")
        return x @ torch.from_numpy(matrix)

    tokens = list(PROMPT)
    scores: Any = None
    for _ in range(COUNT):
        x = torch.from_numpy(weights["words"])[tokens]
        for layer in weights["layers"]:
            y = norm(x, layer["norms"][0])
            q, k, v = (product(y, layer[name]).reshape(len(tokens), -1, SIZE).transpose(0, 1) for name in "qkv")
            k, v = (one.repeat_interleave(HEADS // SHARED, 0) for one in (turn(k), v))
            seen = torch.nn.functional.scaled_dot_product_attention(turn(q), k, v, is_causal=True)
            x = x + product(seen.transpose(0, 1).reshape(len(tokens), -1), layer["o"])
            y = norm(x, layer["norms"][1])
            gate = torch.nn.functional.silu(product(y, layer["gate"]))
            x = x + product(gate * product(y, layer["up"]), layer["down"])
        scores = product(norm(x, weights["norm"]), weights["out"])[-1]
        tokens.append(int(scores.argmax()))
    return tokens[len(PROMPT) :], scores.numpy()


def main() -> None:
    """Generate, and compare where PyTorch is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--type", choices=["float32", "float16"], help="that it computes in")
    parser.add_argument("--int4", action="store_true", default=None, help="weights of INT4")
    options = parser.parse_args()
    is_any = options.type is options.int4 is None
    kinds = ["float32", "float16"] if is_any else [options.type or "float32"]
    torch: Any = importlib.import_module("torch") if importlib.util.find_spec("torch") else None
    if torch is None:
        print("PyTorch is not here to compare with")
    for kind, is_int4 in itertools.product(kinds, [False, True] if is_any else [bool(options.int4)]):
        weights = make_weights(kind)
        tokens, scores = generate(compile_step(weights, is_int4=is_int4), kind)
        print(f"{kind}{', weights of int4' * is_int4}: {PROMPT} goes on with {tokens}")
        if torch is not None:
            others, wanted = generate_by_torch(weights, torch, is_int4=is_int4)
            np.testing.assert_array_equal(tokens, others)
            print(f"    as PyTorch's does; the scores differ by {np.abs(scores[0] - wanted).max():.0e} at most")


if __name__ == "__main__":
    main()
