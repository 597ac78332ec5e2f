"""Graphs that run: values on every engine, memory, and what happens when an index is outside."""

from __future__ import annotations

import gc
import re
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml import BufferBinding as Bind
from anydml.memory import Buffer
from gpu import FakeTorch, Gpu, OnGpu

T = dml.TensorDesc
X = np.arange(24, dtype="float32").reshape(4, 6) - 7


def crop_and_sum(device: Any = None) -> tuple[dml.Graph, dml.Expression, dml.Expression]:
    g = dml.Graph(device)
    x = g.input(T("float32", (4, 6)), "x")
    crop = dml.slice1(x, [1, 0], [3, 6], [1, -2]).named("crop")
    return g, crop, dml.cumulative_summation(crop, axis=-1).named("total")


def gathering(device: Any = None) -> dml.CompiledGraph:
    """Three outputs, of which one is needed by a gather that may raise, one is its own, and one is of neither."""
    g = dml.Graph(device)
    x, i = g.input(T("float32", (4, 6)), "x"), g.input(T("int64", (2, 1)), "i")
    total = dml.cumulative_summation(x, axis=1)
    picked = dml.gather_nd(total, i).named("pick")
    return g.compile([total, picked, dml.slice(x, [0, 0], [1, 6])])


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


# Memory


def test_owned_inputs_are_given_once(engine: str) -> None:
    g = dml.Graph(engine)
    table = g.input(T("float32", (4, 6), strides=(12, 2), flags="OWNED_BY_DML"), "table")
    i = g.input(T("uint32", (2, 1)), "i")
    model = g.compile(
        [dml.gather_nd(table, i), dml.slice(table.reinterpret((46,)), [0], [3]), dml.slice(table, [0, 0], [1, 2])]
    )
    wide = np.arange(48, dtype="float32").reshape(4, 12)
    with pytest.raises(dml.BindingError, match=r"Graph: table must be given to initialize\(\) first"):
        model(np.zeros((2, 1), "uint32"))
    assert model.binding_properties == dml.BindingProperties(6, 0, 256)
    model.initialize(wide[:, ::2])
    before = wide.copy()
    wide[:] = -1
    picked, first, corner = model(np.array([[3], [0]], "uint32"))
    np.testing.assert_array_equal(picked, before[[3, 0], ::2])
    np.testing.assert_array_equal(first, before.ravel()[:3])
    np.testing.assert_array_equal(corner, before[:1, 0:4:2])
    with pytest.raises(dml.BindingError, match="is initialized already"):
        model.initialize(wide[:, ::2])


def test_an_owned_input_may_run_backwards(engine: str) -> None:
    g = dml.Graph(engine)
    x, w = g.input(X[:1], "x"), g.input(T.of(X[::-1, ::-2], flags="OWNED_BY_DML"), "w")
    model = g.compile([dml.cumulative_summation(w, 1), x]).initialize(X[::-1, ::-2])
    np.testing.assert_array_equal(model(X[:1])[0], np.cumsum(X[::-1, ::-2], axis=1))


def floats(*values: float) -> bytearray:
    return bytearray(np.array(values, "float32").tobytes())


def test_binding_tables_and_command_lists(engine: str) -> None:
    device = dml.Device(engine)
    g = dml.Graph(device)
    x, w = g.input(T("float32", (4,)), "x"), g.input(T("float32", (4,), flags="OWNED_BY_DML"), "w")
    total = dml.cumulative_summation(dml.slice1(x, [0], [4], [-1]), 0)
    model = device.compile_graph(g.desc([dml.cumulative_summation(total, 0), dml.cumulative_product(w, 0)]))
    sizes = model.binding_properties
    assert sizes == dml.BindingProperties(6, 256, 256)
    initializer, recorder = device.create_operator_initializer([model]), device.create_command_recorder()
    persistent, scratch, first, second = bytearray(256), bytearray(256), bytearray(16), bytearray(16)
    commands, table = device.create_command_list(), device.create_binding_table(initializer)
    table.bind_inputs([[None, Bind(floats(1, 2, 3, 4))]])
    table.bind_outputs([Bind(persistent)])
    recorder.record_dispatch(commands, initializer, table)
    table.reset(model)
    table.bind_inputs([Bind(floats(1, 2, 3, 4)), None])
    table.bind_outputs([Bind(first), Bind(second)])
    table.bind_persistent_resource(Bind(persistent))
    with pytest.raises(dml.BindingError) as caught:
        recorder.record_dispatch(commands, model, table)
    assert str(caught.value) == (
        "Graph: TemporaryResource must be bound, of 256 bytes, as binding_properties says;"
        " call bind_temporary_resource()"
    )
    with pytest.raises(dml.BindingError, match="TemporaryResource: SizeInBytes must be at least 256"):
        table.bind_temporary_resource(Bind(bytearray(128)))
    table.bind_temporary_resource(Bind(scratch))
    recorder.record_dispatch(commands, model, table)
    device.execute(commands)
    np.testing.assert_array_equal(np.frombuffer(first, "float32"), [4, 11, 20, 30])
    np.testing.assert_array_equal(np.frombuffer(second, "float32"), [1, 2, 6, 24])


def test_a_graph_must_be_initialized_before_a_list_runs_it() -> None:
    device = dml.Device()
    g, _, y = crop_and_sum(device)
    model = device.compile_graph(g.desc(y), "DESCRIPTORS_VOLATILE")
    commands, table = device.create_command_list(), device.create_binding_table(model)
    table.bind_inputs([Bind(X.copy())])
    table.bind_outputs([Bind(bytearray(36))])
    table.bind_temporary_resource(Bind(bytearray(128)))
    device.create_command_recorder().record_dispatch(commands, model, table)
    with pytest.raises(dml.BindingError, match="Graph: the operator must be initialized before it runs"):
        device.execute(commands)


def test_two_bound_graphs_have_each_their_own_scratch_memory(engine: str) -> None:
    g, _, y = crop_and_sum(engine)
    model = g.compile(dml.cumulative_summation(y, 0))
    arrays = [X.copy(), X * 3]
    outs = [np.zeros((3, 3), "float32") for _ in arrays]
    bound = [model.bind(x, out=out) for x, out in zip(arrays, outs, strict=True)]
    for turn in range(3):
        for x, out, run in zip(arrays, outs, bound, strict=True):
            x += turn
            assert run.dispatch() is out
        for x, out in zip(arrays, outs, strict=True):
            np.testing.assert_array_equal(out, np.cumsum(np.cumsum(x[1:, ::-2], axis=1), axis=0))


def test_a_dispatch_allocates_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    g, _, y = crop_and_sum("cpu")
    model = g.compile(y)
    bound = model.bind(X, out=np.zeros((3, 3), "float32"))
    monkeypatch.setattr(model.device.engine, "reserve", None)
    bound.dispatch()


def test_what_is_bound_keeps_the_constants_alive() -> None:
    g = dml.Graph("cpu")
    out = np.zeros((4, 6), "float32")
    model = g.compile(dml.cumulative_summation(g.constant(X), 0))
    bound = model.bind(out=out)
    held = weakref.ref(model._constants)
    del model, g
    gc.collect()
    assert held() is not None
    bound.dispatch()
    np.testing.assert_array_equal(out, np.cumsum(X, axis=0))
    del bound
    gc.collect()
    assert held() is None


@pytest.mark.parametrize("engine", ["reference", "cpu"])  # Triton's interpreter is not for threads
def test_threads_share_a_model(engine: str) -> None:
    g, _, y = crop_and_sum(engine)
    model = g.compile(dml.cumulative_summation(y, 0))
    wrong: list[int] = []

    def work(number: int) -> None:
        x = X * number
        expected = np.cumsum(np.cumsum(x[1:, ::-2], axis=1), axis=0)
        wrong.extend(number for _ in range(50) if not np.array_equal(model(x), expected))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


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


# Arrays that do not fit


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda m: m(), "Graph: call() takes the inputs: x, i; got 0 arrays"),
        (lambda m: m(X, X, X), "Graph: call() takes the inputs: x, i; got 3 arrays"),
        (lambda m: m(X, j=X), "Graph: there is no input 'j' to give; call() takes x, i"),
        (lambda m: m(X, x=X), "Graph: x was given by its place already; call() takes x, i"),
        (lambda m: m(X.T, [[1], [2]]), "Graph: x must be an array of sizes (4, 6), as described; got (6, 4)"),
        (lambda m: m(X, [[1], [2]], out=X), "Graph: out must be 3 arrays, for output0, pick, output2; got 1"),
        (
            lambda m: m(X, [[1], [2]], out=[X, np.zeros((2, 6), "float32"), np.zeros((1, 6), "float32")]),
            "Graph: output0 must not overlap x: the operator does not run in place; got bytes ",
        ),
    ],
)  # fmt: skip
def test_calls_that_do_not_fit(act: Any, message: str) -> None:
    with pytest.raises(dml.BindingError) as caught:
        act(gathering())
    assert str(caught.value).startswith(message)


def test_outputs_must_not_overlap_one_another() -> None:
    memory = np.zeros((5, 6), "float32")
    with pytest.raises(dml.BindingError, match="Graph: pick must not overlap output0: both are written"):
        gathering()(X, [[1], [2]], out=(memory[:4], memory[3:], np.zeros((1, 6), "float32")))
    assert not memory.any()


# Streams, without a GPU


def test_scratch_memory_is_used_on_one_stream_after_the_other(gpus: list[Gpu], monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch gives out memory in the order of one stream: others wait for it, and it for the last of them."""
    torch = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    reserved: list[int] = []

    def reserve(size: int) -> Buffer:
        reserved.append(torch.current)
        return Buffer(3 << 40, size, True, object(), "cuda:0")

    monkeypatch.setattr(gpus[0], "reserve", reserve)
    g, _, y = crop_and_sum("cuda")
    model = g.compile(y, optimise=False)
    torch.current = 7
    bound = model.bind(OnGpu((4, 6)), out=OnGpu((3, 3), 2 << 40))
    assert (reserved, torch.current) == ([0], 7)
    for _ in range(2):
        bound.dispatch()
        assert torch.waited == [(7, "0")]
    torch.current = 8
    bound.dispatch()
    assert torch.waited == [(7, "0"), (8, 7)]
    torch.is_capturing = True
    bound.dispatch()
    assert len(torch.waited) == 2
    places = {"input0": 1 << 40, "output0": 2 << 40, "crop": 3 << 40}
    assert gpus[0].bound == [places, places]
    assert len(gpus[0].ran) == 8
    del bound
    gc.collect()
    assert len(torch.waited) == 2  # which nothing may be waited for in
    torch.is_capturing = False
    torch.current = 0
    model.bind(OnGpu((4, 6)), out=OnGpu((3, 3), 2 << 40)).dispatch()
    assert torch.waited == [(7, "0"), (8, 7), (0, 8)]


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
    assert "2 nodes: one by one 2 passes that move 144 bytes, compiled 1 pass that moves 72 bytes" in str(
        model.explain()
    )
    assert "<svg" in model._repr_html_()
    plain = g.compile(y, optimise=False).explain()
    assert "compiled 2 passes" in str(plain)
