"""Random graphs of folds and products: simplified or not, and on every engine, they compute the same."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anydml as dml
import random_rows
from agreement import assert_same
from doors import as_list

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.check_bounds

FEW = int(os.environ.get("ANYDML_TEST_EXAMPLES", "0"))
QUICK = settings(deadline=None, derandomize=False, print_blob=True, max_examples=FEW or 60)


def _assert_agrees(got: Any, wanted: Any, error: float, about: object) -> None:
    """As numbers: of two zeros with different signs either may be the largest."""
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype), about
    apart = np.abs(got.astype(np.float64) - wanted.astype(np.float64))
    assert (apart <= error).all(), (about, error, np.argwhere(apart > error)[:3], got, wanted)


def _assert_untouched(graph: random_rows.Graph, compiled: Any, wanted: list[Any], *, raises: bool | None) -> bool:
    """With an index outside of its dimension nothing is written, whoever computes it."""
    slot = min(graph.indices)
    arrays = [array.copy() for array in graph.arrays]
    arrays[slot][-1] = graph.indices[slot]
    out = [np.full_like(array, 7) for array in wanted]
    try:
        compiled(*arrays, out=out if len(out) > 1 else out[0])
    except dml.IndexRangeError:
        assert all((array == 7).all() for array in out), "something was written before the index was found"
        assert raises is not False, "not simplified it does not raise"
        return True
    assert not raises, "not simplified it raises"
    return False


def _check(graph: random_rows.Graph, *devices: str, disabled: Sequence[str] = ()) -> None:
    reference = dml.Device("reference").compile_graph(graph.desc, optimise=False).initialize()
    wanted = as_list(reference(*graph.arrays))
    raises = _assert_untouched(graph, reference, wanted, raises=None) if graph.indices else None
    for device in devices:
        compiled = dml.Device(device).compile_graph(graph.desc, disable_passes=disabled).initialize()
        for _ in range(2):  # the arena of the first run is another's by the second
            found = as_list(compiled(*graph.arrays))
            for got, want, error in zip(found, wanted, graph.errors, strict=True):
                _assert_agrees(got, want, error, device)
        if graph.indices:
            _assert_untouched(graph, compiled, wanted, raises=raises)


@given(source=st.randoms(use_true_random=False))
@QUICK
def test_a_graph_of_rows_is_what_its_operators_are(source: random.Random) -> None:
    names = [*dml.graph_passes()]
    _check(random_rows.draw(source), "reference", disabled=source.sample(names, source.choice((0, 0, 1, 3))))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_a_graph_of_rows_on_the_processor(seed: int) -> None:
    """And by one thread what it is by two, bit for bit."""
    threads = dml.get_num_threads()
    try:
        for number in range(10):
            graph = random_rows.draw(random.Random(10 * seed + number))  # noqa: S311 - for a test
            _check(graph, "cpu", disabled=random.Random(number).sample([*dml.graph_passes()], number % 3))  # noqa: S311 - as above
            compiled = dml.Device("cpu").compile_graph(graph.desc).initialize()
            found = []
            for count in (1, 2):
                dml.set_num_threads(count)
                found.append([np.ascontiguousarray(array) for array in as_list(compiled(*graph.arrays))])
            for got, want in zip(*found, strict=True):
                assert_same(got, want)
    finally:
        dml.set_num_threads(threads)


# What was wrong once


def _both(build: Any, *arrays: Any) -> None:
    graph = dml.Graph("reference")
    made = build(graph, *(graph.input(dml.TensorDesc.of(array)) for array in arrays))
    before, after = (graph.compile(made, optimise=optimise)(*arrays) for optimise in (False, True))
    for got, want in zip(as_list(after), as_list(before), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


SQUARE = np.random.default_rng(5).standard_normal((4, 4)).astype("float32")
CUBE = np.random.default_rng(6).standard_normal((4, 4, 3)).astype("float32")


def test_a_sum_of_what_is_filled_knows_how_much_that_is() -> None:
    _both(lambda graph: dml.reduce(dml.fill_value_constant((3, 4), 2.0, "float32", graph=graph), "sum", [1]))


def test_a_diagonal_of_what_is_folded() -> None:
    def squared(x: Any) -> Any:
        diagonal = x.reinterpret((4,), (5,))
        return dml.multiply(diagonal, diagonal)

    _both(lambda _, x: squared(dml.softmax1(x, [1])), SQUARE)
    _both(lambda _, x: squared(dml.reduce(x, "sum", [2])), CUBE)


@pytest.mark.parametrize("names", [("a", "a's Product"), ("b", "b.1"), ("c", "output0 held back")])
def test_nodes_may_be_named_as_their_neighbours_memory_is(names: tuple[str, str]) -> None:
    """Each of them keeps a large tensor where a small one would be."""

    def build(graph: dml.Graph, x: Any, indices: Any) -> list[Any]:
        product = dml.gemm(x, x, fused_activation="softmax")
        parts = dml.split(x, [1, 3], 1)
        taken = dml.gather(dml.reduce(x, "max", [0]), indices, 1)
        first = {"a": product, "b": parts[0], "c": taken}[names[0]]
        first.named(names[0])
        large = dml.join([x] * 16, 0).named(names[1])
        summed = dml.cumulative_summation(large, 0)
        running = [dml.cumulative_summation(one, 0) for one in (*parts, product, taken)]
        early = dml.cumulative_summation(x, 1)
        return [early, dml.gather(early, indices, 1), *running, summed]

    _both(build, SQUARE, np.array([3, 0], "int32"))


def test_many_softmaxes_are_several_passes() -> None:
    """Each of them would compute again, in every pass along the row, all that come before it."""
    graph = dml.Graph("reference")
    made = graph.input(dml.TensorDesc.of(SQUARE))
    for _ in range(10):
        made = dml.softmax1(made, [1])
    assert 4 <= len(graph.compile(made).recipe.steps) <= 10


@pytest.mark.parametrize("axis", [0, 1])
def test_a_tree_is_written_once_for_each_node(axis: int) -> None:
    """Each of 30 values of a row is named twice: there are 2³⁰ ways through them."""
    x = np.ones((40, 64), "float32")
    graph = dml.Graph("cpu")
    given = graph.input(dml.TensorDesc.of(x))
    found = dml.reduce(given, "min", [axis])
    for _ in range(30):
        found = dml.multiply(dml.negate(found), dml.clip(found, -1.0, 1.0))
    np.testing.assert_array_equal(graph.compile(dml.add(given, found))(x), x - 1)
