"""A call of a function that was made before with arrays of the same layout: it is found, and binds nothing."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.api import calls
from anydml.core.memory import has_fast_address
from anydml.runtime.call_cache import CallCache

REFERENCE = dml.Device("reference")
X = np.array([[1.5, -2, 3], [-0.0, 5, 0.25]], "float32")


@pytest.fixture(autouse=True)
def on_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions run on the reference engine, where no device is given."""
    monkeypatch.setattr(calls, "device_named", lambda _name: REFERENCE)


def test_known_calls_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_call(*_args: object, **_options: object) -> None:
        raise AssertionError("made anew")

    row = X[0].copy()
    made: list[Any] = [
        lambda: dml.add(X, X),
        lambda: dml.add(X, row),
        lambda: dml.add(2.0, X),
        lambda: dml.clip(X, min=0, max=1),
        lambda: dml.identity(X, (2, -0.0)),
        lambda: dml.add1(X, X, "RELU"),
    ]
    results = [call() for call in made]
    monkeypatch.setattr("anydml.api.derived.make_call", no_call)
    for call, wanted in zip(made, results, strict=True):
        np.testing.assert_array_equal(call(), wanted)
    with pytest.raises(AssertionError, match="made anew"):
        dml.identity(X, (2, 0.0))


def test_calls_take_the_threads_that_are_given_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product is divided for the threads that there are: one that was known kept to a single unit."""
    monkeypatch.setattr(calls, "known_calls", CallCache(8))
    x, cpu, threads = np.ones((256, 256), "float32"), dml.Device("cpu"), dml.get_num_threads()
    try:
        for number in (1, 4, 1):
            dml.set_num_threads(number)
            dml.gemm(x, x, device=cpu)
    finally:
        dml.set_num_threads(threads)
    programs: list[Any] = [compiled._programs[0] for compiled, *_ in calls.known_calls.values()]
    units = [program.work_items for program in programs]
    assert len(units) == 2
    assert units[0] < 4 <= units[1]


@pytest.mark.skipif(not has_fast_address, reason="arrays do not hold their addresses here")
def test_known_calls_of_one_kernel_bind_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses are put into the kernel's words where it is called: with offsets, steps back and numbers among them."""
    cpu, square = dml.Device("cpu"), np.arange(64, dtype=np.float32).reshape(8, 8)
    made: list[Any] = [
        lambda x: dml.gemm(x, x.T, device=cpu),
        lambda x: dml.add(x, x, device=cpu),
        lambda x: dml.subtract(3, x, device=cpu),
        lambda x: dml.reduce(x, "SUM", axes=[1], device=cpu),
    ]
    wanted = [lambda x: x @ x.T, lambda x: x + x, lambda x: 3 - x, lambda x: x.sum(1, keepdims=True)]
    views = [lambda x: x, lambda x: x[1:, :0:-1], lambda x: x[:, 2:5]]
    for call, view in itertools.product(made, views):
        call(view(square))

    def no_binding(*_args: object, **_options: object) -> None:
        raise AssertionError("bound")

    monkeypatch.setattr("anydml.runtime.compiled.CompiledOperator.launch", no_binding)
    for (call, numpys), view in itertools.product(zip(made, wanted, strict=True), views):
        for array in (view(square), view(square.copy() + 1)):
            np.testing.assert_array_equal(call(array), numpys(array))


def test_eight_threads_dispatch_one_operator_on_buffers_of_their_own(engine: str) -> None:
    tensor = dml.TensorDesc("int32", (64, 257))
    desc = dml.CumulativeSummation(input_tensor=tensor, output_tensor=tensor, axis=1, axis_direction="decreasing")
    run = dml.Device(engine).compile(desc)
    start = threading.Barrier(8)

    def work(seed: int) -> bool:
        x = np.random.default_rng(seed).integers(-1000, 1000, (64, 257), "int32")
        expected = np.cumsum(x[:, ::-1], axis=1, dtype="int32")[:, ::-1]
        out = np.empty_like(x)
        bound = run.bind(x, out=out)
        start.wait()
        for _ in range(50):
            out[...] = 0
            bound.dispatch()
            if not np.array_equal(out, expected) or not np.array_equal(run(x), expected):
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_functions_from_many_threads_share_one_cache(engine: str) -> None:
    x = np.arange(60).reshape(3, 4, 5)

    def work(i: int) -> bool:
        offset = i % 3
        expected = x[offset:, :, :: 1 + i % 2]
        window = (offset, 0, 0), (3 - offset, 4, 5), (1, 1, 1 + i % 2)
        return np.array_equal(dml.slice1(x, *window), expected)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(400)))
