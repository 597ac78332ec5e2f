"""Graphs of operators with several inputs, several outputs or none, that run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.graph.description import GraphDesc
from anydml.graph.nodes import InputEdge, IntermediateEdge, OperatorNode, OutputEdge
from anydml.ir.verbs import Map, Scan

if TYPE_CHECKING:
    from collections.abc import Callable

T = dml.TensorDesc
X = np.arange(24, dtype="float32").reshape(4, 6) - 7
both = pytest.mark.parametrize("optimise", [False, True])


def kinds(model: dml.CompiledGraph) -> list[type]:
    return [type(step.primitive) for step in model.recipe.steps]


# Joins


@both
def test_a_join_of_what_is_computed(engine: str, optimise: bool) -> None:
    g = dml.Graph(engine)
    x = g.input(T("float32", (4, 6)))
    joined = dml.join([dml.cumulative_summation(x, 1), dml.identity(x, (2, 1)), x], 0)
    model = g.compile(joined, optimise=optimise)
    np.testing.assert_array_equal(model(X), np.concatenate([np.cumsum(X, 1), X * 2 + 1, X]))
    assert kinds(model) == ([Scan, Map, Map] if optimise else [Scan, Map, Map, Map, Map])
    assert (model.temporary_size == 0) == optimise


@both
def test_a_join_of_a_tensor_with_itself(engine: str, optimise: bool) -> None:
    g = dml.Graph(engine)
    x = g.input(T("float32", (4, 6)))
    total = dml.cumulative_summation(x, 0)
    model = g.compile([dml.join([total, total, total], 1), dml.join([x], 0)], optimise=optimise)
    three, one = model(X)
    np.testing.assert_array_equal(three, np.tile(np.cumsum(X, 0), 3))
    np.testing.assert_array_equal(one, X)


def test_a_slice_of_a_join_takes_what_it_needs(engine: str) -> None:
    g = dml.Graph(engine)
    x, w = g.input(T("float32", (4, 6)), "x"), g.input(T("float32", (4, 6)), "w")
    never = dml.gather(w, g.constant(np.full(4, 1000)), index_mode="clamp")
    joined = dml.join([dml.cumulative_summation(x, 1), never], 0)
    model = g.compile(dml.slice(joined, [1, 0], [2, 6]))
    np.testing.assert_array_equal(model(X, X), np.cumsum(X, 1)[1:3])
    assert kinds(model) == [Scan]


@pytest.mark.parametrize("first", [True, False])
@both
def test_nothing_is_written_of_a_join_when_an_index_is_outside(engine: str, optimise: bool, first: bool) -> None:
    g = dml.Graph(engine)
    x, i = g.input(T("float32", (4, 6)), "x"), g.input(T("int64", (2,)), "i")
    picked = dml.gather(x, i).named("pick")
    parts = [picked, dml.cumulative_summation(x, 0)] if first else [dml.cumulative_summation(x, 0), picked]
    joined = dml.join(parts, 0).named("joined")
    # And a second gather of what is joined, which must be through before anything of it is written.
    again = dml.gather_elements(joined, g.input(T("int64", (1, 6)), "j"), 0).named("again")
    model = g.compile([joined, again], optimise=optimise)
    out = [np.full((6, 6), 99, "float32"), np.full((1, 6), 99, "float32")]
    good, zeros = np.array([1, -1]), np.zeros((1, 6), "int64")
    for i_given, j_given, message in (
        (np.array([0, 4]), zeros, "'pick'.*indices\\[1\\] = 4 is outside the axis of size 4"),
        (good, zeros + 6, "'again'.*indices\\[0, 0\\] = 6 is outside the axis of size 6"),
    ):
        with pytest.raises(dml.IndexRangeError, match=message):
            model(X, i_given, j_given, out=out)
        assert all((array == 99).all() for array in out)
    model(X, good, zeros - 1, out=out)
    wanted = [X[[1, -1]], np.cumsum(X, 0)]
    np.testing.assert_array_equal(out[0], np.concatenate(wanted if first else wanted[::-1]))
    np.testing.assert_array_equal(out[1], out[0][-1:])


def first_rows(joined: Any) -> Any:
    return dml.slice(joined, (0, 0), (4, 6))


UNREAD: dict[str, Callable[[Any, Any], Any]] = {
    "joined": lambda x, picked: first_rows(dml.join([x, picked], 0)),
    "added up": lambda x, picked: first_rows(dml.cumulative_summation(dml.join([x, picked], 0), 0)),
    "split": lambda x, picked: dml.split(dml.join([x, picked], 0), [4, 2], 0)[0],
    "and read": lambda x, picked: [first_rows(dml.join([x, dml.identity(picked, (2, 0))], 0)), x],
}


@both
@pytest.mark.parametrize("use", UNREAD)
def test_indices_are_checked_though_nothing_that_they_pick_is_read(engine: str, use: str, optimise: bool) -> None:
    g = dml.Graph(engine)
    x, i = g.input(T("float32", (4, 6))), g.input(T("int64", (2,)))
    model = g.compile(UNREAD[use](x, dml.gather(x, i).named("pick")), optimise=optimise)
    model(X, np.array([0, -1]))
    with pytest.raises(dml.IndexRangeError, match=r"'pick': GATHER: indices\[1\] = 9 is outside the axis of size 4"):
        model(X, np.array([0, 9]))


def test_of_what_nothing_is_read_only_the_indices_cost_anything(engine: str) -> None:
    g = dml.Graph(engine)
    x, i = g.input(T("float32", (4, 6))), g.input(T("int64", (2,)))
    model = g.compile(UNREAD["joined"](x, dml.gather(x, i)))
    gather = next(step for step in model.recipe.steps if step.may_raise)
    assert gather.target.sizes == (1, 1)
    assert kinds(model) == [Map, Map]


@both
def test_a_gather_that_no_output_depends_on_is_not_run(engine: str, optimise: bool) -> None:
    g = dml.Graph(engine)
    x, i = g.input(T("float32", (4, 6))), g.input(T("int64", (2,)))
    dml.gather(x, i)
    model = g.compile(dml.identity(x), optimise=optimise)
    np.testing.assert_array_equal(model(X, np.array([0, 9])), X)


@both
def test_a_join_of_one_gather_waits_for_another(engine: str, optimise: bool) -> None:
    g = dml.Graph(engine)
    x, i, j = g.input(T("float32", (4, 6))), g.input(T("int64", (2,))), g.input(T("int64", (1,)))
    model = g.compile([dml.join([dml.gather(x, i), dml.identity(x, (2, 0))], 0), dml.gather(x, j)], optimise=optimise)
    out = [np.full((6, 6), 99, "float32"), np.full((1, 6), 99, "float32")]
    with pytest.raises(dml.IndexRangeError, match=r"indices\[0\] = 9 is outside"):
        model(X, np.array([1, 2]), np.array([9]), out=out)
    assert all((array == 99).all() for array in out)
    model(X, np.array([1, 2]), np.array([3]), out=out)
    np.testing.assert_array_equal(out[0], np.concatenate([X[1:3], X * 2]))
    np.testing.assert_array_equal(out[1], X[3:])


@both
def test_a_join_of_constants(engine: str, optimise: bool) -> None:
    g = dml.Graph(engine)
    a, b = g.constant(X, "a"), g.constant(X * 2, "b")
    joined = dml.join([a, dml.cumulative_summation(b, 1)], 1)
    model = g.compile([joined, dml.cumulative_summation(joined, 0)], optimise=optimise)
    wanted = np.concatenate([X, np.cumsum(X * 2, 1)], 1)
    for _ in range(2):
        np.testing.assert_array_equal(model()[0], wanted)
        np.testing.assert_array_equal(model()[1], np.cumsum(wanted, 0))


# Splits


@both
def test_parts_of_a_split(engine: str, optimise: bool) -> None:
    g = dml.Graph(engine)
    x = g.input(T("float32", (4, 6)))
    first, second, third = dml.split(x, [1, 3, 2], 1)
    first.named("cut")
    model = g.compile([dml.cumulative_summation(second, 0), third], optimise=optimise)
    total, rest = model(X)
    np.testing.assert_array_equal(total, np.cumsum(X[:, 1:4], 0))
    np.testing.assert_array_equal(rest, X[:, 4:])
    assert len(kinds(model)) == (2 if optimise else 4)  # the first part goes, and the second is read where it lies
    assert first.sizes == (4, 1)
    assert {"cut", "cut.1"} <= model.lowered.stores.keys()


@both
def test_every_part_is_an_output_and_one_of_them_twice(engine: str, optimise: bool) -> None:
    g = dml.Graph(engine)
    x = g.input(T("int8", (5,)))
    parts = dml.split(x, [2, 2, 1], 0)
    parts[1].named("cut")
    model = g.compile([*parts, parts[1]], optimise=optimise)
    found = model(np.arange(5, dtype="int8"))
    assert [array.tolist() for array in found] == [[0, 1], [2, 3], [4], [2, 3]]
    outs = [np.zeros(size, "int8") for size in (2, 2, 1, 2)]
    back = model(np.arange(5, dtype="int8"), out=outs)
    assert all(one is out for one, out in zip(back, outs, strict=True))
    assert [out.tolist() for out in outs] == [[0, 1], [2, 3], [4], [2, 3]]


def test_what_is_split_and_joined_is_what_it_was(engine: str) -> None:
    g = dml.Graph(engine)
    x = g.input(T("float32", (4, 6)))
    model = g.compile(dml.join(dml.split(x, [2, 3, 1], 1), 1))
    np.testing.assert_array_equal(model(X), X)
    assert kinds(model) == [Map] * 3


# None


@both
def test_fills_need_nothing(engine: str, optimise: bool) -> None:
    g = dml.Graph(engine)
    zeros, minus = (dml.fill_value_constant([2, 3], value, graph=g) for value in (0.0, -0.0))
    counted = dml.fill_value_sequence([2, 3], 3, -2, "uint8", graph=g)
    model = g.compile([zeros, minus, counted, dml.cumulative_summation(minus, 0)], optimise=optimise)
    assert model.inputs == {}
    zero, negative, numbers, total = model()
    assert np.signbit(zero).tolist() == [[False] * 3] * 2
    assert np.signbit(negative).tolist() == [[True] * 3] * 2
    assert np.signbit(total).tolist() == [[True] * 3] * 2
    assert numbers.tolist() == [[3, 1, 255], [253, 251, 249]]


def test_a_fill_is_computed_once(engine: str) -> None:
    g = dml.Graph(engine)
    x = g.input(T("float32", (2, 3)))
    counted = dml.fill_value_sequence([2, 3], 0.0, 1.0, graph=g)
    model = g.compile(dml.join([x, dml.cumulative_product(counted, 1)], 0))
    np.testing.assert_array_equal(model(X[:2, :3].copy()), [*X[:2, :3], [0, 0, 0], [3, 12, 60]])
    assert sorted(kind.__name__ for kind in kinds(model)) == ["Map", "Scan"]  # parts are put together each time
    (fill,) = model.once.steps
    assert fill.sources == ()


# Maps, reversals and layouts


@both
def test_types_that_change(engine: str, optimise: bool) -> None:
    g = dml.Graph(engine)
    x = g.input(T("float32", (4, 6)))
    whole = dml.cast(dml.identity(x, (0.5, 0.0)), "int8")
    model = g.compile(
        [dml.cumulative_summation(dml.cast(whole, "int32"), 1), dml.cast(whole, "uint8")], optimise=optimise
    )
    total, bits = model(X)
    wanted = np.trunc(X / 2).astype("int8")
    np.testing.assert_array_equal(total, np.cumsum(wanted.astype("int32"), 1))
    np.testing.assert_array_equal(bits, wanted.astype("uint8"))
    assert (total.dtype, bits.dtype) == (np.int32, np.uint8)


def test_a_slice_of_maps_and_reversals_computes_what_is_read(engine: str) -> None:
    g = dml.Graph(engine)
    x, lengths = g.input(T("float32", (4, 6))), g.input(T("uint32", (4, 1)))
    turned = dml.reverse_subsequences(dml.cast(x, "int32"), lengths, 1)
    model = g.compile(dml.slice(turned, [1, 2], [2, 3]))
    counts = np.array([[9], [3], [6], [0]], "uint32")
    np.testing.assert_array_equal(model(X, counts), [[-1 + 0, 2, 3], [8, 7, 6]])
    assert [step.target.sizes for step in model.recipe.steps] == [(2, 6), (2, 3)]


def test_a_transposed_identity_is_no_pass(engine: str) -> None:
    g = dml.Graph(engine, tensor_policy=lambda sizes, _: (1, sizes[0]) if len(sizes) == 2 else None)
    x = g.input(T("float32", (4, 6)))
    copied = dml.identity(x)
    assert copied.strides == (1, 4)
    model = g.compile(dml.cumulative_summation(copied, 1))
    np.testing.assert_array_equal(model(X), np.cumsum(X, 1))
    assert kinds(model) == [Scan]


# Descriptions by hand


def described(*edges: Any, outputs: int = 2) -> GraphDesc:
    """x is split into two, which are joined the other way round."""
    whole, halves = T("int8", (6,)), [T("int8", (2,)), T("int8", (4,))]
    cut = OperatorNode(dml.Split(input_tensor=whole, output_tensors=halves, axis=0), "cut")
    paste = OperatorNode(dml.Join(input_tensors=halves[::-1], output_tensor=whole, axis=0), "paste")
    into = [InputEdge(0, 0, 0)]
    out = [edge for edge in edges if isinstance(edge, OutputEdge)]
    between = [edge for edge in edges if isinstance(edge, IntermediateEdge)]
    return GraphDesc(1, outputs, [cut, paste], into, out, between)


GOOD = (IntermediateEdge(0, 1, 1, 0), IntermediateEdge(0, 0, 1, 1), OutputEdge(1, 0, 0), OutputEdge(0, 1, 1))


@both
def test_edges_name_outputs_and_inputs_by_their_numbers(engine: str, optimise: bool) -> None:
    model = dml.Device(engine).compile_graph(described(*GOOD), optimise=optimise).initialize()
    joined, part = model(np.arange(6, dtype="int8"))
    assert joined.tolist() == [2, 3, 4, 5, 0, 1]
    assert part.tolist() == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ((IntermediateEdge(0, 2, 1, 0), *GOOD[1:]),
         "intermediate_edges[0].FromNodeOutputIndex must lie in 0 .. 1, outputs of nodes[0] 'cut'; got 2"),
        ((GOOD[0], IntermediateEdge(0, 0, 1, 2), *GOOD[2:]),
         "intermediate_edges[1].ToNodeInputIndex must lie in 0 .. 1, inputs of nodes[1] 'paste'; got 2"),
        ((*GOOD[:3], OutputEdge(0, 2, 1)),
         "output_edges[1].FromNodeOutputIndex must lie in 0 .. 1, outputs of nodes[0] 'cut'; got 2"),
        ((GOOD[0], *GOOD[2:]), "InputTensors[1] of nodes[1] 'paste' must be fed by an edge; got none"),
        ((*GOOD, IntermediateEdge(0, 1, 1, 0)), "InputTensors[0] of nodes[1] 'paste' must be fed by one edge"),
        ((IntermediateEdge(0, 0, 1, 0), *GOOD[1:]), "OutputTensors[0] of nodes[0] 'cut'"),
    ],
)  # fmt: skip
def test_an_edge_that_is_wrong(edges: Any, message: str) -> None:
    with pytest.raises(dml.DescriptionError) as caught:
        dml.Device("reference").compile_graph(described(*edges))
    assert message in str(caught.value)
