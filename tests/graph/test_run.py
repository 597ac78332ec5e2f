"""Graphs that run: values on every engine, and what happens when an index is outside."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import anydml as dml
from small_graphs import T, X, crop_and_sum, gathering

pytestmark = pytest.mark.check_bounds

# Values


@pytest.mark.parametrize("optimise", [False, True])
def test_two_operators(engine: str, optimise: bool) -> None:
    g, _, y = crop_and_sum(engine)
    model = g.compile([y], optimise=optimise)
    expected = np.cumsum(X[1:, ::-2], axis=1)
    np.testing.assert_array_equal(model(X), expected)
    np.testing.assert_array_equal(model(x=X), expected)
    out = np.zeros_like(expected)
    assert model(X, out=out) is out
    np.testing.assert_array_equal(out, expected)
    assert len(model.recipe.steps) == (1 if optimise else 2)
    assert model.binding_properties == dml.BindingProperties(*((2, 0, 0) if optimise else (3, 256, 0)))


def test_several_outputs_one_of_which_feeds_another(engine: str) -> None:
    g, crop, y = crop_and_sum(engine)
    model = g.compile([y, crop])
    total, cropped = model(X)
    np.testing.assert_array_equal(cropped, X[1:, ::-2])
    np.testing.assert_array_equal(total, np.cumsum(X[1:, ::-2], axis=1))
    assert list(model.outputs) == ["total", "crop"]
    assert model.binding_properties.temporary_resource_size == 0
    outs = [np.zeros((3, 3), "float32"), np.zeros((3, 3), "float32")]
    back = model(X, out=outs)
    assert back[0] is outs[0]
    assert back[1] is outs[1]
    np.testing.assert_array_equal(outs, [total, cropped])


def test_outputs_that_are_inputs_constants_and_twice_the_same(engine: str) -> None:
    g = dml.Graph(engine)
    x = g.input(X, "x")
    c = g.constant(np.arange(6, dtype="int32"), "c")
    y = dml.cumulative_product(x, 0, has_exclusive_product=True)
    results = g.compile([x, y, c, y, x.reinterpret((6, 4)), y.reinterpret((24,))])(X)
    expected = np.cumprod(np.vstack([np.ones((1, 6)), X[:3]]), axis=0).astype("float32")
    for result, value in zip(
        results, [X, expected, np.arange(6), expected, X.reshape(6, 4), expected.ravel()], strict=True
    ):
        np.testing.assert_array_equal(result, value)
    assert results[1] is not results[3]


def test_a_chain_through_every_operator(engine: str) -> None:
    g = dml.Graph(engine)
    x = g.input(T("int64", (3, 4, 5)))
    a = dml.slice(x, [0, 1, 0], [3, 3, 3], [1, 1, 2])
    b = dml.cumulative_summation(a, 1, axis_direction="DECREASING")
    c = dml.gather_nd(b, g.constant(np.array([[2], [0], [-1]], "int64")))
    d = dml.cumulative_product(c, -1)
    e = dml.gather_nd(d, g.constant(np.array([[[0]], [[9]], [[1]]], "int32")), 1, "clamp")
    data = np.random.default_rng(3).integers(-5, 6, (3, 4, 5))
    step = np.flip(np.cumsum(np.flip(data[:, 1:4, ::2], 1), axis=1), 1)[[2, 0, 2]].cumprod(axis=2)
    expected = np.stack([step[0, [0]], step[1, [2]], step[2, [1]]])
    np.testing.assert_array_equal(g.compile(e)(data), expected)


@pytest.mark.parametrize("level", ["2_1", "3_0", "6_4"])
def test_ranks_are_the_callers_at_every_level(engine: str, level: str) -> None:
    g, crop, y = crop_and_sum(dml.Device(engine, feature_level=level))
    assert (crop.sizes, y.sizes) == ((3, 3), (3, 3))
    total, same, whole = g.compile([y, crop.reinterpret((9,)), crop])(X)
    np.testing.assert_array_equal(total, np.cumsum(X[1:, ::-2], axis=1))
    np.testing.assert_array_equal(same, X[1:, ::-2].ravel())
    np.testing.assert_array_equal(whole, X[1:, ::-2])


def test_reinterpretations_read_the_same_memory(engine: str) -> None:
    g = dml.Graph(engine)
    x = g.input(T("float32", (4, 6)))
    doubled = dml.cumulative_summation(x, axis=1)
    columns = doubled.reinterpret((6, 4), (1, 6))
    bits = dml.slice(doubled.reinterpret(data_type="uint32"), [0, 0], [4, 6])
    total, pattern, halves = g.compile(
        [
            dml.cumulative_summation(columns, 1),
            bits,
            dml.slice(x.reinterpret((4, 12), data_type="int16"), [0, 0], [4, 2]),
        ]
    )(X)
    np.testing.assert_array_equal(total, np.cumsum(np.cumsum(X, axis=1).T, axis=1))
    np.testing.assert_array_equal(pattern, np.cumsum(X, axis=1).view("uint32"))
    np.testing.assert_array_equal(halves, X.view("int16")[:, :2])


def test_an_input_may_run_backwards(engine: str) -> None:
    g = dml.Graph(engine)
    x = g.input(X[::-1, ::-2])
    model = g.compile(dml.cumulative_summation(x, 0))
    np.testing.assert_array_equal(model(X[::-1, ::-2]), np.cumsum(X[::-1, ::-2], axis=0))


def test_a_graph_of_constants_alone(engine: str) -> None:
    g = dml.Graph(engine)
    model = g.compile(dml.cumulative_summation(g.constant(X[:, ::-1]), 0))
    result = model()
    assert isinstance(result, np.ndarray)
    np.testing.assert_array_equal(result, np.cumsum(X[:, ::-1], axis=0))


def test_interleaved_channels(engine: str) -> None:
    g = dml.Graph(engine, tensor_policy="interleaved_channel")
    image = np.arange(2 * 3 * 4 * 5, dtype="float32").reshape(2, 3, 4, 5)
    x = g.input(image)
    y = dml.cumulative_summation(dml.slice(x, [0, 0, 1, 0], [2, 3, 2, 5]), 1)
    result = g.compile(y)(image)
    assert result.strides == (120, 4, 60, 12)
    np.testing.assert_array_equal(result, np.cumsum(image[:, :, 1:3], axis=1))


# Indices


def test_an_index_outside_leaves_every_output_as_it_was(engine: str) -> None:
    model = gathering(engine)
    outs = [np.full((4, 6), 5, "float32"), np.full((2, 6), 5, "float32"), np.full((1, 6), 5, "float32")]
    with pytest.raises(dml.IndexRangeError) as caught:
        model(X, np.array([[1], [4]]), out=outs)
    assert str(caught.value) == (
        "Graph: nodes[1] 'pick': GATHER_ND: indices[1] = (4,) is outside dimension 0 of size 4;"
        ' take -4 .. 3, or index_mode="clamp" for the nearest element'
    )
    assert caught.value.field == "nodes[1] 'pick'.IndicesTensor"
    for out in outs:
        np.testing.assert_array_equal(out, np.full_like(out, 5))
    model(X, np.array([[1], [-1]]), out=outs)
    np.testing.assert_array_equal(outs[0], np.cumsum(X, axis=1))
    np.testing.assert_array_equal(outs[1], np.cumsum(X, axis=1)[[1, 3]])
    np.testing.assert_array_equal(outs[2], X[:1])


def test_the_second_of_two_gathers_is_the_one_named(engine: str) -> None:
    g = dml.Graph(engine)
    x, i = g.input(X, "x"), g.input(T("int32", (2, 1)), "i")
    first = dml.gather_nd(x, i)
    second = dml.gather_nd(dml.slice(first, [0, 0], [1, 6]), i)
    model = g.compile([first, second])
    outs = [np.zeros((2, 6), "float32"), np.zeros((2, 6), "float32")]
    with pytest.raises(dml.IndexRangeError, match=r"Graph: nodes\[2\] \(GATHER_ND\): indices\[0\] = \(3,\) is outside"):
        model(X, np.array([[3], [0]], "int32"), out=outs)
    assert not np.any(outs)
    model(X, np.array([[0], [0]], "int32"), out=outs)
    np.testing.assert_array_equal(outs, [X[[0, 0]], X[[0, 0]]])


def test_only_what_must_be_held_back_is(engine: str) -> None:
    g = dml.Graph(engine)
    x, i = g.input(X, "x"), g.input(T("int64", (2, 1)), "i")
    before = dml.cumulative_summation(x, 0)
    needed = dml.cumulative_product(x, 1)
    model = g.compile([before, needed, dml.gather_nd(needed, i)])
    held = [name for name, store in model.recipe.stores.items() if store.kind == "scratch"]
    assert held == ["output1 held back"]
    assert [step.nodes for step in model.recipe.steps] == [("node1",), ("node2",), ("node0",), ("node1",)]
    results = model(X, [[3], [0]])
    for result, expected in zip(
        results, [np.cumsum(X, axis=0), np.cumprod(X, axis=1), np.cumprod(X, axis=1)[[3, 0]]], strict=True
    ):
        np.testing.assert_array_equal(result, expected)


# What is computed when a graph is compiled


def test_what_hangs_on_constants_alone_is_computed_once(engine: str) -> None:
    g = dml.Graph(engine)
    x, c = g.input(T("float32", (4, 6)), "x"), g.constant(X)
    table = dml.cumulative_summation(dml.slice1(c, [0, 0], [4, 6], [-1, 1]), 1)
    rows = dml.gather_nd(table, g.constant(np.array([[2], [0], [1]])))
    model = g.compile([dml.cumulative_summation(x, 0), rows, dml.cumulative_product(rows, 0)])
    assert len(model.once.steps) == 3
    assert [step.may_raise for step in model.recipe.steps] == [False] * 3
    wanted = np.cumsum(X[::-1], axis=1)[[2, 0, 1]]
    for found in (model(X), model(X)):
        np.testing.assert_array_equal(found[0], np.cumsum(X, axis=0))
        np.testing.assert_array_equal(found[1], wanted)
        np.testing.assert_array_equal(found[2], np.cumprod(wanted, axis=0))


def test_an_index_among_constants_is_found_when_the_graph_is_compiled(engine: str) -> None:
    g = dml.Graph(engine)
    picked = dml.gather_nd(g.constant(X), g.constant(np.array([[9]])).named("where")).named("pick")
    message = "nodes[2] 'pick': GATHER_ND: indices[0] = (9,) is outside dimension 0 of size 4"
    with pytest.raises(dml.IndexRangeError, match=re.escape(message)):
        g.compile(picked)
    model = g.compile(picked, optimise=False)
    with pytest.raises(dml.IndexRangeError, match=re.escape(message)):
        model()


def test_a_model_explains_what_it_runs() -> None:
    g, _, y = crop_and_sum()
    model = g.compile(y)
    assert "2 operators: one by one 2 passes that move 144 bytes, compiled 1 pass that moves 72 bytes" in str(
        model.explain()
    )
    assert "<svg" in model._repr_html_()
    plain = g.compile(y, optimise=False).explain()
    assert "compiled 2 passes" in str(plain)


SIZES = (1, 1, 8, 8)


def test_steps_that_look_at_indices_are_in_no_row_that_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Any] = []

    def replayed(launch: Any) -> Any:
        rows.append(launch)
        return launch

    g = dml.Graph("reference")
    monkeypatch.setattr(g.device.engine, "replayed", replayed)
    x, i = g.input(dml.TensorDesc("float32", SIZES), "x"), g.input(dml.TensorDesc("uint32", SIZES), "i")
    picked = dml.gather_elements(dml.cumulative_summation(x, axis=3), i, axis=3)
    model = g.compile([dml.gemm(dml.gemm(picked, x), picked)])
    numbers, indices = np.random.default_rng(5).standard_normal(SIZES).astype("f4"), np.full(SIZES, 3, "u4")
    want = np.take_along_axis(np.cumsum(numbers, axis=3), indices.astype(int), axis=3)
    out = np.empty(SIZES, "f4")
    model.bind(numbers, indices, out=out).dispatch()
    np.testing.assert_allclose(out, want @ numbers @ want, rtol=1e-5)
    checked = [bool(step.primitive.checks) for step in model.recipe.steps]
    assert len(rows) == 2, checked
    assert checked.count(True) == 1
    indices[0, 0, 0, 0] = 8
    with pytest.raises(dml.IndexRangeError):
        model.bind(numbers, indices, out=out).dispatch()
