"""The memory of large results is used again when nobody has it, and not before."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_models import model, node  # isort: skip - it asks for onnx

import anydml as dml
import anydml.onnx
from anydml.runtime.buffer_pool import LARGE

if TYPE_CHECKING:
    from anydml.onnx import Model

SIDE = 1100
X = np.arange(SIDE * SIDE, dtype="float32").reshape(SIDE, SIDE)
assert X.nbytes >= LARGE


def turned() -> Model:
    proto = model(node("Transpose", "x", "y"), {"x": ("float32", [SIDE, SIDE])}, dtypes={"y": "float32"})
    return dml.onnx.load(proto)


def place(array: Any) -> int:
    found: int = array.__array_interface__["data"][0]
    return found


def test_what_is_gone_serves_the_next() -> None:
    loaded = turned()
    assert len({place(loaded.run({"x": X})["y"]) for _ in range(5)}) == 1


def test_what_somebody_has_is_left_alone() -> None:
    loaded = turned()
    first = loaded.run({"x": X})["y"]
    second = loaded.run({"x": X + 1})["y"]
    part, where = first[1:, ::2], place(first)
    del first
    third = loaded.run({"x": X + 2})["y"]
    assert len({where, place(second), place(third)}) == 3
    np.testing.assert_array_equal(part, X.T[1:, ::2])
    np.testing.assert_array_equal(second, (X + 1).T)
    seen = memoryview(second)
    del second
    fourth = loaded.run({"x": X + 3})["y"]
    np.testing.assert_array_equal(np.asarray(seen), (X + 1).T)
    np.testing.assert_array_equal(third, (X + 2).T)
    np.testing.assert_array_equal(fourth, (X + 3).T)


def test_threads_have_results_of_their_own() -> None:
    loaded, wrong = turned(), []

    def run(number: int) -> None:
        for k in range(10):
            x = X + number + k
            if not np.array_equal(loaded.run({"x": x})["y"], x.T):
                wrong.append((number, k))

    threads = [threading.Thread(target=run, args=(100 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_no_more_than_two_are_kept() -> None:
    loaded = turned()
    held = [loaded.run({"x": X})["y"] for _ in range(5)]
    assert len({place(y) for y in held}) == 5
    assert len(loaded._spares.results._kept) == 2
