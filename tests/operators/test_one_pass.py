"""Attention in one pass over the keys: of scores that grow, on any number of threads, and found in graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.ir.attention import Attend
from places import get, put

pytestmark = pytest.mark.judges("GEMM", "ACTIVATION_SOFTMAX1")

ATTEND: Any = dml.multihead_attention
RNG = np.random.default_rng(11)


def numbers(data_type: str, *sizes: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(sizes).astype(data_type)


def exactly(q: Any, k: Any, v: Any, added: Any, heads: int) -> Any:
    """Attention in float64; queries, keys and values are (batch, sequence, heads·size)."""
    parts = [x.astype(np.float64).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for x in (q, k, v)]
    x = parts[0] @ parts[1].swapaxes(2, 3) / np.sqrt(parts[0].shape[3]) + added
    powers = np.exp(x - x.max(3, keepdims=True))
    found = powers / powers.sum(3, keepdims=True) @ parts[2]
    return found.swapaxes(1, 2).reshape(*q.shape[:2], -1)


@pytest.fixture
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the cpu take few keys at once, so that rows' largest scores come late, and early ones are scaled."""
    families = pytest.importorskip("anydml.engines.cpu.families", reason="it needs what compiles kernels")
    monkeypatch.setattr(families.figures().attention, "keys_at_once", 16)


@pytest.mark.usefixtures("short_chunks")
@pytest.mark.parametrize("data_type", ["float32", "float16"])
def test_scores_that_grow_and_rows_that_see_nothing_at_first(engine: str, data_type: str) -> None:
    device, (batch, queries, keys, heads) = dml.Device(engine), (2, 20, 53, 2)
    q, k = (numbers(data_type, batch, length, heads * 8) for length in (queries, keys))
    v = numbers(data_type, batch, keys, heads * 5)
    bias = np.linspace(-20, 20, keys).astype(data_type) * np.array([1, -1], data_type)[:, None, None, None]
    bias = np.array(np.broadcast_to(bias, (batch, heads, queries, keys)))
    bias[:, 0, :, :30] = -np.inf
    bias[0, 1, 3] = -np.inf
    given = [put(x, device) for x in (q, k, v)]
    got = get(ATTEND(*given, relative_position_bias=put(bias, device), head_count=heads, device=device).output)
    with np.errstate(invalid="ignore"):
        wanted = exactly(q, k, v, bias.astype(np.float64), heads)
    assert np.isnan(wanted).sum() == 5  # the row that sees nothing
    np.testing.assert_allclose(got, wanted, *((1e-5, 1e-5) if data_type == "float32" else (2e-3, 2e-3)))


@pytest.mark.usefixtures("short_chunks")
@pytest.mark.parametrize("queries", [20, 1])
def test_rows_masked_by_the_lowest_number_are_means(engine: str, queries: int) -> None:
    """Scores as large as FLOAT32 has them: times log2(e) they are infinite, and their differences are 0."""
    device, (keys, heads) = dml.Device(engine), (53, 2)
    q, k, v = (numbers("float32", 1, length, heads * 8) for length in (queries, keys, keys))
    bias = np.zeros((1, heads, queries, keys), "float32")
    bias[:, :, ::3] = np.finfo("float32").min
    given = [put(x, device) for x in (q, k, v)]
    got = get(ATTEND(*given, relative_position_bias=put(bias, device), head_count=heads, device=device).output)
    mean = np.broadcast_to(v.astype(np.float64).mean(1), got[:, ::3].shape)
    np.testing.assert_allclose(got[:, ::3], mean, 1e-6, 1e-6)
    np.testing.assert_allclose(got[:, 1::3], exactly(q, k, v, 0.0, heads)[:, 1::3], 3e-6, 3e-6)


@pytest.mark.usefixtures("short_chunks")
@pytest.mark.parametrize("queries", [20, 1])
def test_large_scores_that_grow_lose_no_digits(engine: str, queries: int) -> None:
    """Two keys that count, in blocks apart: the powers of each have a largest score of their own behind them."""
    device, (keys, heads, top) = dml.Device(engine), (53, 2, 119.7)
    q, k = (np.zeros((1, length, heads * 8), "float32") for length in (queries, keys))
    v = numbers("float32", 1, keys, heads * 8)
    bias = np.full((1, heads, queries, keys), -50, "float32")
    bias[..., 3] = top + RNG.random((heads, queries))
    bias[..., 45] = top + RNG.random((heads, queries)) + 1
    given = [put(x, device) for x in (q, k, v)]
    got = get(ATTEND(*given, relative_position_bias=put(bias, device), head_count=heads, device=device).output)
    wanted = exactly(q, k, v, bias.astype(np.float64), heads)
    np.testing.assert_allclose(got, wanted, 0, 2e-7 * np.abs(wanted).max())


@pytest.mark.usefixtures("short_chunks")
def test_the_same_bits_on_any_number_of_threads() -> None:
    device = dml.Device("cpu")
    q, k, v = (numbers("float32", 1, 300, 4 * 64) for _ in range(3))
    before, found = dml.get_num_threads(), []
    try:
        for count in (1, 2, 3, 7):
            dml.set_num_threads(count)
            graph = dml.Graph(device)  # planned anew
            found.append(graph.compile(ATTEND(*(graph.input(x) for x in (q, k, v)), head_count=4).output)(q, k, v))
    finally:
        dml.set_num_threads(before)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def exported(graph: dml.Graph, arrays: list[Any], way: str) -> Any:
    """A product, a softmax of its rows and a product, as networks have them: all are (batch, heads, sequence, size)."""
    q, k, v, mask = map(graph.input, arrays)
    size = arrays[0].shape[3]
    if way == "scaled":  # and then masked
        scores: Any = dml.gemm(q, k, trans_b=True) * float(size**-0.5) + mask
    elif way == "factors":  # each has a root of the scale
        scores = dml.gemm(q * float(size**-0.25), k * float(size**-0.25), trans_b=True) + mask
    else:
        scores = dml.gemm(q, k, mask, trans_b=True, alpha=float(size**-0.5))
    return dml.gemm(dml.softmax1(scores, axes=[3]), v)


@pytest.mark.parametrize(("data_type", "way"), [("float32", "scaled"), ("float32", "factors"), ("float16", "gemm")])
def test_found_in_graphs(engine: str, data_type: str, way: str) -> None:
    device = dml.Device(engine)
    arrays = [numbers(data_type, 1, 2, length, 4) for length in (37, 38, 38)]  # a CPU with long vectors takes no fewer
    mask = np.where(RNG.random((1, 1, 1, 38)) < 0.3, -10000, 0).astype(data_type)
    arrays.append(np.array(np.broadcast_to(mask, (1, 2, 37, 38))))
    found = []
    for optimise in (True, False):
        graph = dml.Graph(device)
        compiled = graph.compile(exported(graph, arrays, way), optimise=optimise)
        kinds = [type(step.primitive) for step in compiled.recipe.steps]
        assert (Attend in kinds) == (optimise and engine != "reference")
        found.append(get(compiled(*(put(x, device) for x in arrays))).astype(np.float64))
    np.testing.assert_allclose(found[0], found[1], *((3e-6, 3e-6) if data_type == "float32" else (4e-3, 4e-3)))
    q, k, v = (x.swapaxes(1, 2).reshape(1, x.shape[2], -1) for x in arrays[:3])
    wanted = exactly(q, k, v, arrays[3].astype(np.float64), 2).reshape(1, 37, 2, 4).swapaxes(1, 2)
    np.testing.assert_allclose(found[0], wanted, *((3e-6, 3e-6) if data_type == "float32" else (6e-3, 6e-3)))


@pytest.mark.parametrize("data_type", ["float32", "float16"])
@pytest.mark.parametrize("keys", [38, 12])
def test_one_query_whose_keys_are_scaled(engine: str, data_type: str, keys: int) -> None:
    """As a decoder's step has it: keys of a cache are multiplied by a constant as they are read."""
    device, size = dml.Device(engine), 4
    arrays = [numbers(data_type, 3, 2, length, size) for length in (1, keys, keys)]
    mask = np.where(RNG.random((1, 1, 1, keys)) < 0.3, -10000, 0).astype(data_type)
    mask[..., 0] = 0
    arrays.append(np.array(np.broadcast_to(mask, (3, 2, 1, keys))))
    root = np.full((1, 1, 1, 1), size**-0.25, data_type)
    graph = dml.Graph(device)
    q, k, v, added = map(graph.input, arrays)
    scores: Any = dml.gemm(q * float(size**-0.25), k * graph.constant(put(root, device)), trans_b=True) + added
    compiled = graph.compile(dml.gemm(dml.softmax1(scores, axes=[3]), v))
    assert (Attend in [type(step.primitive) for step in compiled.recipe.steps]) == (engine == "cuda")
    got = get(compiled(*(put(x, device) for x in arrays)))
    q64, k64, v64 = (x.swapaxes(1, 2).reshape(3, x.shape[2], -1) for x in arrays[:3])
    wanted = exactly(q64, k64, v64, arrays[3].astype(np.float64), 2).reshape(3, 1, 2, size).swapaxes(1, 2)
    np.testing.assert_allclose(got, wanted, *((3e-6, 3e-6) if data_type == "float32" else (6e-3, 6e-3)))


def test_scores_that_others_read_are_written(engine: str) -> None:
    device = dml.Device(engine)
    arrays = [numbers("float32", 1, 2, 20, 8) for _ in range(3)]
    graph = dml.Graph(device)
    q, k, v = map(graph.input, arrays)
    weights = dml.softmax1(dml.gemm(q, k, trans_b=True), axes=[3])
    compiled = graph.compile([dml.gemm(weights, v), weights])
    assert Attend not in [type(step.primitive) for step in compiled.recipe.steps]
    output, given = (get(x) for x in compiled(*(put(x, device) for x in arrays)))
    np.testing.assert_allclose(given @ arrays[2], output, atol=1e-5)
