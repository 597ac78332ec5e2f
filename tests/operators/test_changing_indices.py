"""Indices that somebody writes to while a dispatch reads them: a sentence says so, and only the source is read."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.engines import reference
from anydml.engines.cpu.move import index_check as checking
from anydml.ir.fetches import gathered
from anydml.ir.verbs import Check, IndexFault
from anydml.ir.views import View
from paths import PATHS

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.engines.reference import Array

CHANGED = "the indices changed while they were read; let nothing write to them during a dispatch"
X = np.arange(12, dtype="float32").reshape(4, 3)
BAD = np.array([[0], [9], [1]])
GATHERS: dict[str, Callable[..., Any]] = {
    "GATHER": lambda x, i, **more: dml.gather(x, i, 0, **more),
    "GATHER_ELEMENTS": lambda x, i, **more: dml.gather_elements(x[:, :1], i, 0, **more),
    "GATHER_ND": dml.gather_nd,
    "GATHER_ND1": lambda x, i, **more: dml.gather_nd(x[None], i[None], batch_dimension_count=1, **more),
}


@pytest.fixture
def mended(monkeypatch: pytest.MonkeyPatch) -> list[Array]:
    """Arrays whose indices are all inside again when the check has found one that was not."""
    arrays: list[Array] = []

    def find_outside(check: Check, indices: Array) -> IndexFault | None:
        for array in arrays:
            array[...] = 0
        return reference.find_outside(check, indices)

    monkeypatch.setattr(checking, "find_outside", find_outside)
    return arrays


@pytest.mark.parametrize("name", GATHERS)
def test_indices_that_are_inside_when_they_are_looked_at_again(name: str, mended: list[Array]) -> None:
    indices = BAD.copy()
    mended.append(indices)
    out = np.full_like(GATHERS[name](X, np.zeros_like(BAD)), 7)
    with pytest.raises(dml.IndexRangeError) as caught:
        GATHERS[name](X, indices, out=out, device=dml.Device("cpu"))
    assert str(caught.value) == f"{name}: {CHANGED}"
    assert (caught.value.field, caught.value.value) == ("IndicesTensor", None)
    assert (out == 7).all()


def test_in_a_graph_the_gather_is_named(mended: list[Array]) -> None:
    graph = dml.Graph(dml.Device("cpu"))
    x, i = graph.input(X), graph.input(BAD)
    model = graph.compile(dml.cumulative_summation(dml.gather(x, i, 0), 1))
    indices = BAD.copy()
    mended.append(indices)
    with pytest.raises(dml.IndexRangeError) as caught:
        model(X, indices)
    assert str(caught.value) == f"Graph: nodes[0] (GATHER): {CHANGED}"


class Changing(np.ndarray[Any, Any]):
    """Indices that all point far outside once something has been computed of them."""

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **more: Any) -> Any:
        result = getattr(ufunc, method)(*(np.asarray(a) if isinstance(a, Changing) else a for a in given), **more)
        self[...] = 2**40
        return result


def test_the_reference_engine_reads_indices_once() -> None:
    indices = np.array([[1], [-1]]).view(Changing)
    primitive = gathered(
        View("x", dml.DataType.FLOAT32, (4, 3), (3, 1)),
        View("i", dml.DataType.INT64, (2, 1), (1, 1)),
        View("y", dml.DataType.FLOAT32, (2, 3), (3, 1)),
        0,
        clamp=False,
    )
    y = np.zeros((2, 3), "float32")
    reference.compute(primitive, X, indices, y)
    np.testing.assert_array_equal(y, X[[1, -1]])


def test_the_cuda_engine_says_it_too() -> None:
    programs = pytest.importorskip("anydml.engines.cuda.move.gather", reason="needs torch and triton")
    primitive = gathered(
        View("x", dml.DataType.FLOAT32, (4,), (1,)),
        View("i", dml.DataType.INT64, (3, 1), (1, 1)),
        View("y", dml.DataType.FLOAT32, (3,), (1,)),
        0,
        clamp=False,
    )
    look = object.__new__(programs._Look)
    look._check = primitive.checks[0]
    for index, found in ((9, ((1,), (9,), 0, 4)), (3, ((), (), 0, 0))):
        look._report = [1, index]
        fault = look.fault()
        assert isinstance(fault, IndexFault)
        assert fault.args == found


WILD = """
import threading, numpy as np, anydml as dml
from guarded import guarded
dml.set_num_threads(2)
device = dml.Device("cpu")
ended = threading.Event()

def change(indices):
    low, high = np.iinfo(indices.dtype).min, np.iinfo(indices.dtype).max
    while not ended.is_set():
        for value in (high, low, 0, high // 2):
            indices[-9_000:] = value

cases = [(4, 1, "int64"), (4, 1, "uint32"), (70_000, 1, "uint64"), (50, 40, "int32"), (50, 3, "int64")]
for number, (rows, length, dtype) in enumerate(cases):
    x = guarded(np.ones((rows, length), "float32"), number % 2)
    indices = guarded(np.zeros((20_000, 1), dtype), number % 2)
    out = guarded(np.ones((20_000, length), "float32"), number % 2)
    dispatches = [
        device.compile(dml.GatherND.infer(
            input_tensor=dml.TensorDesc.of(x), indices_tensor=dml.TensorDesc.of(indices), input_dimension_count=2,
            indices_dimension_count=2, index_mode=mode)).bind(x, indices, out=out).dispatch
        for mode in ("clamp", "raise")
    ]
    ended.clear()
    thread = threading.Thread(target=change, args=(indices,))
    thread.start()
    try:
        for i in range(300):
            try:
                dispatches[i % 2]()
            except dml.IndexRangeError:
                assert i % 2
            assert (out == 1).all()
    finally:
        ended.set()
        thread.join()
"""


@pytest.mark.long
def test_wild_indices_read_nothing_but_the_source() -> None:
    """Elements that lie near and far, rows and short blocks, between pages that end the process."""
    paths = os.pathsep.join([*PATHS, os.environ.get("PYTHONPATH", "")])
    command, env = [sys.executable, "-c", WILD], {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=300)  # noqa: S603 - our own
    assert done.returncode == 0, done.stderr
