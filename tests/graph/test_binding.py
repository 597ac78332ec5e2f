"""Graphs bound to memory: tables and lists, what is kept and what is shared, and arrays that do not fit."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml import BufferBinding as Bind
from anydml.core.memory import Buffer
from gpu import FakeTorch, Gpu, OnGpu
from small_graphs import T, X, crop_and_sum, gathering

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
