"""Random graphs: what a graph computes is what the functions compute, one after the other, on arrays."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import anydml as dml

GRAPHS = int(os.environ.get("ANYDML_TEST_EXAMPLES", "100"))


def random_call(rng: np.random.Generator, sizes: tuple[int, ...]) -> Any:
    """A call of a function for a tensor of some sizes: of an array, or of an expression and its graph."""
    kind = rng.choice(["slice", "slice1", "sum", "product", "gather"])
    if kind in ("sum", "product"):
        function = dml.cumulative_summation if kind == "sum" else dml.cumulative_product
        axis = int(rng.integers(-len(sizes), len(sizes)))
        direction, exclusive = rng.choice(["INCREASING", "DECREASING"]), bool(rng.integers(2))
        return lambda x, _: function(x, axis, str(direction), exclusive)
    starts = [int(rng.integers(size)) for size in sizes]
    lengths = [int(rng.integers(1, size - start + 1)) for start, size in zip(starts, sizes, strict=True)]
    if kind == "slice":
        return lambda x, _: dml.slice(x, starts, lengths)
    if kind == "slice1":
        strides = [int(rng.choice([-2, -1, 1, 2])) for _ in sizes]
        return lambda x, _: dml.slice1(x, starts, lengths, strides)
    depth = int(rng.integers(1, len(sizes)))
    count = int(rng.integers(1, 5))
    indices = np.stack([rng.integers(-size, size, count) for size in sizes[:depth]], axis=-1)
    mode = str(rng.choice(["RAISE", "CLAMP"]))
    return lambda x, g: dml.gather_nd(x, indices if g is None else g.constant(indices), index_mode=mode)


@pytest.mark.parametrize("seed", range(GRAPHS))
def test_a_random_graph(engine: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    policy = str(rng.choice(["default", "interleaved_channel"]))
    g = dml.Graph(engine, tensor_policy=policy)  # type: ignore[arg-type]  # one of the two
    arrays = [
        rng.integers(-3, 4, tuple(rng.integers(2, 6, int(rng.integers(2, 5))))).astype("int64")
        for _ in range(int(rng.integers(1, 3)))
    ]
    pairs: list[tuple[Any, Any]] = [(g.input(array), array) for array in arrays]
    for _ in range(int(rng.integers(1, 8))):
        expression, array = pairs[int(rng.integers(len(pairs)))]
        if array.ndim < 2:
            continue
        call = random_call(rng, array.shape)
        pairs.append((call(expression, g), call(array, None)))
        if policy == "default" and rng.integers(4) == 0:
            flat = (1, array.size)
            pairs.append((expression.reinterpret(flat), np.ascontiguousarray(array).reshape(flat)))
    chosen = [pairs[int(k)] for k in rng.integers(len(pairs), size=int(rng.integers(1, 4)))]
    model = g.compile([expression for expression, _ in chosen])
    results = model(*arrays)
    for result, (_, expected) in zip(results if len(chosen) > 1 else (results,), chosen, strict=True):
        np.testing.assert_array_equal(result, expected)
