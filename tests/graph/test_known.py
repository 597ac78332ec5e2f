"""Constant indices that lie in a line: gathers become slices, and checks that constants pass go."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.ir.patterns import is_copy
from anydml.ir.trees import fetched
from anydml.ir.verbs import Map
from cases import ENGINES
from places import get, put

X = np.random.default_rng(1).standard_normal((6, 5, 4)).astype("f4")


def compiled(engine: str, indices: Any, axis: int = 0, *, optimise: bool = True, **options: Any) -> Any:
    g = dml.Graph(engine)
    x = g.input(dml.TensorDesc.of(X), "x")
    taken = dml.gather(x, g.constant(np.asarray(indices)).named("where"), axis, **options).named("pick")
    return g.compile(taken, optimise=optimise)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("indices", "is_line"),
    [
        ([2], True),
        ([-1], True),
        ([1, 2, 3], True),
        ([4, 2, 0], True),
        ([-1, 1], True),
        ([0, 0, 0], True),
        ([[0, 1], [2, 3]], True),
        (np.array([3, 2, 1], "u4"), True),
        ([0, 1, 3], False),
        ([[0, 1], [2, 4]], False),
    ],
)
def test_a_gather_by_constants_in_a_line_is_a_slice(engine: str, indices: Any, is_line: bool) -> None:
    for axis in range(2):
        model = compiled(engine, indices, axis)
        (step,) = model.recipe.steps
        assert is_copy(step.primitive) == is_line
        assert not step.may_raise
        np.testing.assert_array_equal(get(model(put(X, engine))), np.take(X, np.asarray(indices).astype("i8"), axis))


def test_an_index_outside_is_the_nearest_where_it_is_clamped() -> None:
    for wanted, indices in (([5], [9]), ([5, 5], [7, 2**40]), ([0, 0], [-7, -9])):
        model = compiled("cpu", np.array(indices), index_mode="clamp")
        assert is_copy(model.recipe.steps[0].primitive)
        np.testing.assert_array_equal(model(X), X[wanted])
    model = compiled("cpu", np.array([2**64 - 1], "u8"), index_mode="clamp")
    np.testing.assert_array_equal(model(X), X[[5]])


@pytest.mark.parametrize("indices", [[6], [-7], [4, 5, 6], [2**32], np.array([2**64 - 1], "u8")])
def test_a_constant_outside_is_an_error_of_every_dispatch(indices: Any) -> None:
    for optimise in (False, True):
        model = compiled("cpu", indices, optimise=optimise)
        out = np.full((len(indices), 5, 4), 7, "f4")
        for _ in range(2):
            with pytest.raises(dml.IndexRangeError, match=re.escape("'pick': GATHER: indices[")):
                model(X, out=out)
        assert (out == 7).all()


def test_what_reads_a_slice_reads_its_source() -> None:
    """And explain says where the gathers went."""
    g = dml.Graph("cpu")
    x = g.input(dml.TensorDesc.of(X), "x")
    parts = [dml.gather(x, g.constant(np.array([i])), 0).named(f"part{i}") for i in (1, 4)]
    again = dml.gather(parts[1], g.constant(np.array([0, 2, 4])), 1).named("again")
    model = g.compile([parts[0] * 2.0, again + 1.0])
    assert [step.nodes for step in model.recipe.steps] == [("part1", "node6"), ("part4", "again", "node7")]
    assert all(isinstance(step.primitive, Map) and not fetched(step.primitive.value) for step in model.recipe.steps)
    first, second = model(X)
    np.testing.assert_array_equal(first, X[[1]] * 2)
    np.testing.assert_array_equal(second, X[[4]][:, ::2] + 1)
    assert "scale x[4:5, ::2, :] by 1, add 1" in str(model.explain())


def test_a_line_beside_an_index_that_is_not_known_is_a_window() -> None:
    g = dml.Graph("cpu")
    x, i = g.input(dml.TensorDesc.of(X), "x"), g.input(dml.TensorDesc("int64", (3,)), "i")
    model = g.compile(dml.gather(dml.gather(x, i, 1), g.constant(np.array([4, 2])), 0) * 2.0)
    (step,) = model.recipe.steps
    assert {view.tensor for view in step.sources} == {"input0", "input1"}
    where = np.array([3, 0, -1])
    np.testing.assert_array_equal(model(X, where), X[[4, 2]][:, where] * 2)
    with pytest.raises(dml.IndexRangeError, match="outside"):
        model(X, where + 9)


@pytest.mark.parametrize(("of_x", "of_weights", "reads"), [(0, 0, 2), (3, 0, 3), (0, 3, 3)])
def test_zero_points_that_are_0_go(of_x: int, of_weights: int, reads: int) -> None:
    """Bytes are multiplied as they lie then, and results are computed where sums are."""
    g, x = dml.Graph("cpu"), np.arange(40, dtype=np.uint8).reshape(5, 8)
    weights = np.arange(-24, 24, dtype=np.int8).reshape(8, 6)
    points = [np.full((1, 1), of_x, np.uint8), np.full((1, 6), of_weights, np.int8)]
    product = dml.matrix_multiply_integer(g.input(x, "x"), g.constant(weights), *map(g.constant, points))
    compiled = g.compile(product)
    assert len(compiled.recipe.steps[-1].sources) == reads
    wanted = (x.astype(int) - of_x) @ (weights.astype(int) - of_weights)
    np.testing.assert_array_equal(compiled(x), wanted)


@pytest.mark.parametrize("engine", ENGINES)
def test_indices_into_what_turns_out_to_be_constant_are_read_no_more(engine: str) -> None:
    """Gathers of a gather of one number: the indices' sizes are none of the result's, and were taken for them."""
    g = dml.Graph(engine)
    near, far = g.input(dml.TensorDesc("uint64", (1,)), "near"), g.input(dml.TensorDesc("uint64", (4, 3)), "far")
    filled = dml.fill_value_constant([3, 1, 6], 2.5, graph=g)
    taken = dml.gather(dml.identity(dml.gather(filled, near, 1, "clamp")), far, 0, "clamp")
    part = dml.slice1(taken, [0] * 4, [2, 1, 1, 2]).reinterpret((4,))
    result = g.compile(dml.cumulative_product(part, 0))
    arrays = [put(np.zeros(1, "u8"), engine), put(np.zeros((4, 3), "u8"), engine)]
    np.testing.assert_allclose(get(result(*arrays)), np.float32(2.5) ** np.arange(1, 5))
