"""What is the same, depends on constants alone or is read by nobody: computed once, ahead or not at all."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given

import anydml as dml
from anydml.core.enums import DataType
from anydml.graph.optimise import optimise
from anydml.graph.passes.constant_folding import constant_folding
from anydml.graph.passes.horizontal_fusion import horizontal_fusion
from anydml.graph.passes.redundancy import cse, dce
from anydml.graph.recipe import Recipe
from anydml.ir.patterns import copy_of, is_copy, scaled
from anydml.ir.trees import fetched
from anydml.ir.verbs import Map
from cases import ENGINES
from places import get, put
from random_recipes import RANDOM, Drawn, random_recipes
from recipes import assert_same_outputs, gathered, made, recipe, run, summed, view

if TYPE_CHECKING:
    from anydml.graph.recipe import StoreKind

XY: dict[str, StoreKind] = {"x": "input", "y": "output"}
XSY: dict[str, StoreKind] = {"x": "input", "s": "scratch", "y": "output"}


# Same


def test_what_is_the_same_is_computed_once() -> None:
    given = recipe(
        XSY | {"t": "scratch", "z": "output"},
        summed(view("x", (6,)), view("s", (6,))),
        summed(view("x", (6,)), view("t", (6,), (-2,), 10)),
        summed(view("s", (6,)), view("y", (6,))),
        gathered(view("t", (6,), (-2,), 10), view("x", (3, 1)), view("z", (3,))),
    )
    assert cse(given) == made(
        XSY | {"t": "scratch", "z": "output"},
        (summed(view("x", (6,)), view("s", (6,))), "ab"),
        (summed(view("s", (6,)), view("y", (6,))), "c"),
        (gathered(view("s", (6,)), view("x", (3, 1)), view("z", (3,))), "d"),
    )


def test_the_first_writes_the_output_of_the_second() -> None:
    given = recipe(
        XSY | {"z": "output"},
        summed(view("x", (6,)), view("s", (6,))),
        summed(view("s", (6,)), view("z", (6,))),
        summed(view("x", (6,)), view("y", (6,), (2,))),
    )
    assert cse(given) == made(
        XSY | {"z": "output"},
        (summed(view("x", (6,)), view("y", (6,), (2,))), "ac"),
        (summed(view("y", (6,), (2,)), view("z", (6,))), "b"),
    )


def test_of_two_outputs_the_second_is_copied() -> None:
    stores: dict[str, StoreKind] = XY | {"z": "output"}
    scan = summed(view("x", (6,)), view("y", (6,)))
    given = recipe(stores, scan, summed(view("x", (6,)), view("z", (6,))))
    assert optimise(given) == made(stores, (scan, "a"), (copy_of(view("y", (6,)), view("z", (6,))), "b"))
    copies = recipe(stores, *(copy_of(view("x", (6,)), view(name, (6,))) for name in "yz"))
    assert optimise(copies) is copies


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_of_two_outputs_the_second_is_not_copied_where_its_source_is_narrower(scale: float) -> None:
    half = replace(view("x", (6,)), data_type=DataType.FLOAT16)
    made_wide = [scaled(half, view(name, (6,)), scale=scale) for name in "yz"]
    given = recipe(XY | {"z": "output"}, *made_wide)
    assert optimise(given) is given


@pytest.mark.parametrize("change", [{"axis": 1}, {"reverse": True}, {"exclusive": True}, {"function": "product"}])
def test_what_differs_is_computed_apart(change: dict[str, Any]) -> None:
    scan = summed(view("x", (3, 2)), view("y", (3, 2)))
    other = replace(scan, target=view("z", (3, 2)), **change)
    given = recipe(XY | {"z": "output"}, scan, other)
    assert optimise(given) is given


# Dead


@pytest.mark.parametrize("clamp", [False, True])
def test_what_nobody_reads_is_not_computed(clamp: bool) -> None:
    """But for what may raise."""
    stores: dict[str, StoreKind] = XSY | {"c": "constant", "t": "scratch"}
    copy = copy_of(view("x", (3,)), view("y", (3,)))
    gather = gathered(view("c", (6,)), view("x", (3, 1)), view("s", (3,)), clamp=clamp)
    given = recipe(stores, copy, gather, summed(view("s", (3,)), view("t", (3,))))
    assert dce(given) == (made(XY, (copy, "a")) if clamp else made(XSY | {"c": "constant"}, (copy, "a"), (gather, "b")))
    assert dce(dce(given)) == dce(given)


# Constants


def test_what_hangs_on_constants_alone_is_computed_once() -> None:
    stores: dict[str, StoreKind] = {**XSY, "c": "constant", "t": "scratch", "z": "output", "w": "output"}
    given = recipe(
        stores,
        summed(view("c", (6,)), view("s", (6,))),
        summed(view("s", (6,)), view("t", (6,))),
        gathered(view("t", (6,)), view("x", (3, 1)), view("y", (3,))),
        summed(view("t", (6,)), view("z", (6,))),
        copy_of(view("c", (6,)), view("w", (6,))),
    )
    once, always = constant_folding(given)
    assert once == made(
        {"c": "constant", "s": "scratch", "t": "output", "z once": "output"},
        (summed(view("c", (6,)), view("s", (6,))), "a"),
        (summed(view("s", (6,)), view("t", (6,))), "b"),
        (summed(view("t", (6,)), view("z once", (6,))), "d"),
    )
    assert always == made(
        {**XY, "z": "output", "w": "output", "t": "constant", "z once": "constant", "c": "constant"},
        (gathered(view("t", (6,)), view("x", (3, 1)), view("y", (3,))), "c"),
        (copy_of(view("z once", (6,)), view("z", (6,))), "d"),
        (copy_of(view("c", (6,)), view("w", (6,))), "e"),
    )


def test_what_reads_a_constant_output_is_computed_once_too() -> None:
    given = recipe(
        {"c": "constant", "y": "output", "z": "output", "y once": "output"},
        summed(view("c", (6,)), view("y", (6,))),
        summed(view("y", (6,)), view("z", (6,))),
        copy_of(view("y", (6,)), view("y once", (6,))),
    )
    once, always = constant_folding(given)
    assert (
        once.steps
        == made(
            {},
            (summed(view("c", (6,)), view("y once'", (6,))), "a"),
            (summed(view("y once'", (6,)), view("z once", (6,))), "b"),
        ).steps
    )
    assert (
        always.steps
        == made(
            {},
            (copy_of(view("y once'", (6,)), view("y", (6,))), "a"),
            (copy_of(view("z once", (6,)), view("z", (6,))), "b"),
            (copy_of(view("y once'", (6,)), view("y once", (6,))), "c"),
        ).steps
    )


def test_there_may_be_nothing_to_compute_once() -> None:
    given = recipe(XY, summed(view("x", (6,)), view("y", (6,))))
    assert constant_folding(given) == (Recipe({}, ()), given)


# All of them


@pytest.mark.parametrize("engines", [ENGINES], ids="+".join)
@RANDOM
@given(drawn=random_recipes())
def test_random_recipes_keep_their_bits(engines: list[str], drawn: Drawn) -> None:
    simple = optimise(drawn.recipe)
    assert simple.bytes_moved <= drawn.recipe.bytes_moved
    assert len(simple.steps) <= len(drawn.recipe.steps)
    once, always = constant_folding(simple)
    whole = horizontal_fusion(simple)
    assert whole.bytes_moved <= simple.bytes_moved
    for engine in engines:
        wanted = run(drawn.recipe, engine, drawn.contents)
        for shares in (False, True):
            assert_same_outputs(run(simple, engine, drawn.contents, shares=shares), wanted, drawn)
            if whole is not simple:
                assert_same_outputs(run(whole, engine, drawn.contents, shares=shares), wanted, drawn)
        folded = {name: np.frombuffer(data, np.uint8) for name, data in run(once, engine, drawn.contents).items()}
        assert_same_outputs(run(always, engine, drawn.contents | folded), wanted, drawn)


@RANDOM
@given(drawn=random_recipes())
def test_what_was_simplified_is_simple(drawn: Drawn) -> None:
    simple = optimise(drawn.recipe)
    assert optimise(simple) is simple
    named = {node for step in drawn.recipe.steps for node in step.nodes}
    assert all(set(step.nodes) <= named and len(set(step.nodes)) == len(step.nodes) for step in simple.steps)


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
    for simplify in (False, True):
        model = compiled("cpu", indices, optimise=simplify)
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
