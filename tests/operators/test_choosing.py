"""Scatters and orders: large ones on any number of threads, and in graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.engines.common.threads import get_num_threads, set_num_threads
from places import get, is_on_gpu, put

pytestmark = pytest.mark.sampled(4)

RNG = np.random.default_rng(18)


@pytest.fixture
def threads() -> Any:
    """What sets the number of threads, which is taken back."""
    before = get_num_threads()
    yield set_num_threads
    set_num_threads(before)


ROWS = [((3000, 24), 1, 9000), ((40, 50, 9), 2, 5000), ((64, 4096), 1, 50), ((70000,), 1, 90000)]


@pytest.mark.parametrize(("sizes", "length", "count"), ROWS, ids=str)
def test_the_last_of_equal_tuples_stays(engine: str, threads: Any, sizes: Any, length: int, count: int) -> None:
    if engine != "cpu":  # where tuples go one after the other
        count, sizes = min(count, 60), tuple(min(size, 40) for size in sizes)
    indices = np.stack([RNG.integers(-size, size, count) for size in sizes[:length]], -1)
    x, updates = (RNG.standard_normal(some).astype("float32") for some in (sizes, (count, *sizes[length:])))
    wanted = x.copy()
    for at, update in zip(indices, updates, strict=True):
        wanted[tuple(at)] = update
    for number in (1, 2, 7)[: 3 if engine == "cpu" else 1]:
        threads(number)
        device = dml.Device(engine)
        found = dml.scatter_nd(*(put(one, device) for one in (x, indices, updates)), device=device)
        np.testing.assert_array_equal(get(found), wanted)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_elements_go_along_an_axis(engine: str, threads: Any, axis: int) -> None:
    sizes = (90, 40, 300) if engine == "cpu" else (9, 7, 30)
    several = [*sizes[:axis], 2 * sizes[axis], *sizes[axis + 1 :]]
    x, updates = (RNG.integers(0, 255, some, "uint8") for some in (sizes, several))
    indices = RNG.integers(0, sizes[axis], several, "int32")
    wanted = np.moveaxis(x.copy(), axis, 0)
    for index, update in zip(np.moveaxis(indices, axis, 0), np.moveaxis(updates, axis, 0), strict=True):
        np.put_along_axis(wanted, index[None], update[None], 0)
    for number in (1, 2, 7)[: 3 if engine == "cpu" else 1]:
        threads(number)
        device = dml.Device(engine)
        there: list[Any] = [put(one, device) for one in (x, indices, updates)]
        found = dml.scatter(there[0], there[1], there[2], axis, device=device)
        np.testing.assert_array_equal(get(found), np.moveaxis(wanted, 0, axis))


def test_a_graph_scatters_into_what_nobody_reads_again(engine: str) -> None:
    device = dml.Device(engine)
    x, updates = RNG.random((64, 32), "float32"), RNG.random((5, 32), "float32")
    indices = np.array([[3], [60], [3], [-1], [0]])
    wanted = x * 2
    for at, update in zip(indices, updates, strict=True):
        wanted[at[0]] = update + 1
    g = dml.Graph(device)
    a, i, u = (g.input(one) for one in (x, indices, updates))
    made = dml.scatter_nd(a * 2, i, u + 1)
    compiled = g.compile(made + made)
    there = [put(one, device) for one in (x, indices, updates)]
    np.testing.assert_array_equal(get(compiled(*there)), wanted * 2)
    outside = put(np.array([[3], [64], [3], [-1], [0]]), device)
    out = put(np.full((64, 32), 7, "float32"), device)
    with pytest.raises(dml.IndexRangeError, match=r"indices\[1\] = \(64,\) is outside dimension 0 of size 64"):
        compiled(there[0], outside, there[2], out=out)
    assert (get(out) == 7).all()


@pytest.mark.parametrize("count", [2, 40])
@pytest.mark.parametrize("layout", [np.s_[:, ::-1, :], np.s_[:, :, ::-1], np.s_[::-1, ::-1, ::-1], np.s_[:, ::2, ::-2]])
def test_rows_run_backwards_in_the_target(engine: str, layout: Any, count: int) -> None:
    """Each row is written to its own elements, and none beside them; 2 tuples and many have kernels of their own."""
    device = dml.Device(engine)
    part = np.full((9, 12, 20), -1, "float32")[layout]
    x, updates = (RNG.standard_normal((n, *part.shape[1:])).astype("float32") for n in (9, count))
    indices = RNG.integers(-9, 9, (count, 1))
    guard = np.full((11, 12, 20), -1, "float32")
    there = put(guard[1:-1][layout], device)
    dml.scatter_nd(*(put(one, device) for one in (x, indices, updates[..., ::-1])), out=there, device=device)
    wanted = guard.copy()
    wanted[1:-1][layout] = x
    for at, update in zip(indices[:, 0], updates[..., ::-1], strict=True):
        wanted[1:-1][layout][at] = update
    np.testing.assert_array_equal(get(there), wanted[1:-1][layout])
    if not is_on_gpu(device):
        np.testing.assert_array_equal(guard, wanted)


KINDS = ["float32", "float16", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))]


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_of_long_rows(kind: str) -> None:
    """Of which the cpu engine looks at several elements at once: along rows and columns, with many that are equal."""
    if kind.startswith("float"):
        numbers = np.array([1.5, -2, 0, -0.0, np.nan, np.inf, -np.inf, 3], kind)
    else:
        numbers = np.array([*dml.DataType(kind).limits, 2, 3], kind)
    top: Any = dml.top_k1
    for shape, axis in (((3, 200), 1), ((200, 3), 0), ((1000,), 0)):
        x = RNG.choice(numbers, shape)
        for k, direction in ((1, "INCREASING"), (16, "DECREASING"), (16, "INCREASING"), (64, "DECREASING")):
            found, wanted = (top(x, axis, k, direction, device=engine) for engine in ("cpu", "reference"))
            for own, other in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize("k", [0, 5])
def test_k_lies_in_the_axis(k: int) -> None:
    for function in (dml.top_k, dml.top_k1):
        with pytest.raises(dml.DescriptionError, match=rf"K must lie in 1 \.\. 4, the size of the axis; got {k}"):
            function(np.ones((3, 4), "float32"), axis=1, k=k)
