"""Memory that a run reads is there until the run has ended, whoever else has it, and is read from the caller once."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from onnx_models import model, node  # isort: skip - it asks for onnx
import anydml as dml
import anydml.onnx
from anydml.arrays import view
from anydml.core.memory import numpy_address
from anydml.runtime.buffer_pool import LARGE
from paths import PATHS

if TYPE_CHECKING:
    from pathlib import Path

    from anydml.onnx import Model

A, B = [1, 2, 3, 4], [5, 6, 7, 8]


def joined(dtype: str = "int64", shape: Any = ("n",)) -> Model:
    inputs = {"a": (dtype, list(shape)), "b": (dtype, list(shape))}
    return dml.onnx.load(model(node("Concat", "a b", "y", axis=0), inputs, dtypes={"y": dtype}))


class Shown:
    """Has nothing but `__array__`, which makes a new array each time."""

    def __init__(self, values: Any, dtype: str) -> None:
        self.values, self.dtype_name = values, dtype

    def __array__(self, _dtype: object = None, copy: object = None) -> np.ndarray:
        return np.array(self.values, self.dtype_name)


class Counted(Mapping[str, Any]):
    """A mapping that counts how often each entry is read, and makes a new array for it."""

    def __init__(self, **values: Any) -> None:
        self.values_of, self.reads = values, dict.fromkeys(values, 0)

    def __getitem__(self, name: str) -> np.ndarray:
        self.reads[name] += 1
        return np.array(self.values_of[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_of)

    def __len__(self) -> int:
        return len(self.values_of)


@pytest.mark.parametrize("make", [list, tuple, lambda values: Shown(values, "int64"), np.array])
def test_what_is_made_an_array_lasts(make: Any) -> None:
    loaded = joined()
    for _ in range(5):
        assert loaded.run({"a": make(A), "b": make(B)})["y"].tolist() == A + B
        assert loaded(make(A), make(B)).tolist() == A + B


def test_numbers_last() -> None:
    proto = model(
        [node("Unsqueeze", "a axes", "c"), node("Unsqueeze", "b axes", "d"), node("Concat", "c d", "y", axis=0)],
        {"a": ("int64", []), "b": ("int64", [])},
        "y",
        {"axes": np.array([0])},
    )
    loaded = dml.onnx.load(proto)
    for a, b in ((1, 2), (np.int64(1), np.int64(2)), (np.array(1), np.array(2)), (Shown(1, "int64"), 2)):
        assert loaded.run({"a": a, "b": b})["y"].tolist() == [1, 2]


def test_booleans_last() -> None:
    loaded = joined("bool")
    t, f = [True, True], [False, False]
    assert loaded.run({"a": t, "b": f})["y"].tolist() == t + f
    assert loaded.run({"a": Shown(t, "bool"), "b": Shown(f, "bool")})["y"].tolist() == t + f


def test_a_file_of_arrays_may_be_run_again_and_again(tmp_path: Path) -> None:
    loaded = joined()
    np.savez(tmp_path / "in.npz", a=np.array(A), b=np.array(B))
    with np.load(tmp_path / "in.npz") as several:
        for _ in range(10):
            assert loaded.run(several)["y"].tolist() == A + B


def test_each_input_is_read_once() -> None:
    loaded = joined()
    out = np.empty(8, np.int64)
    for times in range(1, 5):  # a first run, and those that find its program
        given = Counted(a=A, b=B)
        assert loaded.run(given, out=None if times % 2 else {"y": out})["y"].tolist() == A + B
        assert set(given.reads.values()) == {1}


def test_an_entry_that_another_thread_replaces() -> None:
    loaded, size = joined("float32"), 100_000
    inputs = {"a": np.zeros(size, "float32"), "b": np.zeros(size, "float32")}
    stop = threading.Event()

    def replace() -> None:
        number = 0.0
        while not stop.is_set():
            number += 1
            inputs["a"] = np.full(size, number, "float32")

    other = threading.Thread(target=replace)
    other.start()
    try:
        for _ in range(200):
            first = loaded.run(inputs)["y"][:size]
            assert (first == first[0]).all()
    finally:
        stop.set()
        other.join()


def test_a_mapping_that_raises_is_told() -> None:
    class Broken(Counted):
        def __getitem__(self, name: str) -> np.ndarray:
            raise OSError(f"no {name}")

    with pytest.raises(dml.BindingError, match=r"inputs could not be read \(OSError\('no a'\)\)"):
        joined().run(Broken(a=A, b=B))


def test_an_array_made_of_an_address_holds_its_owner() -> None:
    seen = view(A, "test", "array").numpy()
    gc.collect()
    other = [np.array(B) for _ in range(100)]
    assert seen.tolist() == A
    assert other[0].tolist() == B

    class Owner(np.ndarray):
        """One that can be watched."""

    owner = np.array(A).view(Owner)
    watched = weakref.ref(owner)
    part = view(owner[::-2], "test", "array").numpy()
    assert numpy_address(part) == numpy_address(np.asarray(owner)) + 3 * 8
    del owner
    gc.collect()
    assert watched() is not None
    assert part.tolist() == A[::-2]
    del part
    gc.collect()
    assert watched() is None


CRASH = """
import numpy as np, sys
sys.path[:0] = {paths!r}
from tests.onnx.test_lifetimes import Shown, joined
loaded = joined()
for n in (100_000, 300_000):
    for make in (list, lambda x: Shown(x, "int64")):
        for _ in range(3):
            a, b = make(range(n)), make(range(n, 2 * n))
            found = loaded.run({{"a": a, "b": b}})["y"]
            assert np.array_equal(found, np.arange(2 * n))
print("well")
"""


def test_long_lists_do_not_end_the_process() -> None:
    code = CRASH.format(paths=PATHS)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)  # noqa: S603 - our own code
    assert (found.returncode, found.stdout) == (0, "well\n"), found.stderr[-2000:]


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
