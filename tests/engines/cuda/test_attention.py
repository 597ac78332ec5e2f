"""The cuda engine's attention against FLOAT64: on a GPU, or interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agreement import run, view
from anydml.core.enums import DataType
from anydml.engines.cuda import CudaEngine, is_interpreted
from anydml.engines.cuda.attention.attention import AttentionProgram
from anydml.engines.cuda.device import figures_of
from anydml.ir import expressions as ex
from anydml.ir.attention import Attend
from places import why_not_interpreted

if reason := why_not_interpreted():
    pytest.skip(reason, allow_module_level=True)

Array = np.ndarray[Any, Any]
CUDA = CudaEngine()
F16, F32, I32 = (DataType(name) for name in ("float16", "float32", "int32"))
WIDE = 1 if is_interpreted() else 64
"""Times as many keys on a GPU, whose tiles are larger."""


def attended(query: Array, key: Array, value: Array, limits: Array | None, added: Array | None) -> tuple[Array, int]:
    """Of (batch, heads, queries, size) by keys of fewer heads, and the parts that the keys were cut into."""
    batch, heads, queries, _ = query.shape
    shared, keys = key.shape[1:3]
    five = (batch, shared, heads // shared, queries)
    wide = (batch, shared, heads // shared, keys)
    arrays = {"query": query.reshape(*five, -1)}
    for name, array in (("key", key), ("value", value)):
        arrays[name] = np.broadcast_to(array[:, :, None], (*wide, array.shape[-1]))
    arrays["target"] = np.full((*five, value.shape[-1]), 7, query.dtype)
    score, limit, beside = ex.load(0, F32) * 0.25, None, []
    if added is not None:
        arrays["added"] = np.broadcast_to(added, (*five, keys))
        beside.append("added")
        score += ex.load(len(beside), F32)
    if limits is not None:
        arrays["limits"] = np.broadcast_to(limits.reshape(batch, 1, 1, 1, 1), (*five, keys))
        beside.append("limits")
        limit = ex.load(len(beside), I32)
    views = {name: view(name, array) for name, array in arrays.items()}
    sources = tuple(views[name] for name in ("query", "key", "value", *beside))
    primitive = Attend(sources, views["target"], score, limit)
    found = run(CUDA, primitive, **arrays)
    program = AttentionProgram.plan(primitive, figures_of(0))
    return found.reshape(batch, heads, queries, -1), program.parts


def exact(query: Array, key: Array, value: Array, limits: Array | None, added: Array | None) -> Array:
    times = query.shape[1] // key.shape[1]
    keys, values = (np.repeat(one, times, 1).astype(np.float64) for one in (key, value))
    scores = 0.25 * (query.astype(np.float64) @ keys.swapaxes(-1, -2)) + (0 if added is None else added)
    if limits is not None:
        there = np.arange(keys.shape[2]) < limits.reshape(-1, 1, 1, 1)
        scores, values = np.where(there, scores, -np.inf), np.where(there.swapaxes(-1, -2), values, 0)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True) @ values)


@pytest.mark.parametrize("data_type", ["float32", "float16"])
@pytest.mark.parametrize(
    ("heads", "shared", "keys", "lengths", "parts"),
    [
        pytest.param(4, 2, 100, [100, 37], True, id="heads that share keys"),
        pytest.param(3, 3, 70, [1, 64], True, id="heads of their own, to the first key alone"),
        pytest.param(4, 1, 20, [20, 3], False, id="few keys"),
        pytest.param(4, 2, 96, None, True, id="all keys"),
    ],
)
def test_one_query_looks_at_its_keys_in_parts(
    data_type: str, heads: int, shared: int, keys: int, lengths: list[int] | None, parts: bool
) -> None:
    """What lies beyond a limit is not looked at, be it NaN; there are parts that have no keys at all."""
    rng = np.random.default_rng(keys)
    wide = WIDE if parts else 1
    keys, size = keys * wide, 16
    query = rng.standard_normal((2, heads, 1, size)).astype(data_type)
    key, value = (4 * rng.standard_normal((2, shared, keys, size)).astype(data_type) for _ in range(2))
    limits = None if lengths is None else np.array(lengths, np.int32) * wide
    if limits is not None:
        for row, limit in enumerate(limits):
            key[row, :, limit:] = value[row, :, limit:] = np.nan
    found, cut = attended(query, key, value, limits, None)
    assert (cut > 1) is parts
    np.testing.assert_allclose(
        found, exact(query, key, value, limits, None), atol=1e-2 if data_type == "float16" else 4e-6
    )


def test_heads_that_share_keys_have_scores_of_their_own() -> None:
    """As position biases are: those of one query are read by head."""
    rng = np.random.default_rng(1)
    keys = 80 * WIDE
    query = rng.standard_normal((1, 4, 1, 16)).astype(np.float32)
    key, value = (rng.standard_normal((1, 2, keys, 16)).astype(np.float32) for _ in range(2))
    added = rng.standard_normal((1, 2, 2, 1, keys)).astype(np.float32)
    found, cut = attended(query, key, value, None, added)
    assert cut > 1
    np.testing.assert_allclose(found, exact(query, key, value, None, added.reshape(1, 4, 1, keys)), atol=4e-6)
