"""Arrays whose type, shape, strides or values change between two calls, and those that are gone."""

from __future__ import annotations

import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import anydml as dml
from tests.runtime.test_binding import compiled
from threading_helpers import reversing


def changed(x: np.ndarray, change: str) -> None:
    """Change an array in place, as its owner may."""
    if change == "dtype":
        x.dtype = np.dtype("float32")  # type: ignore[misc]  # which NumPy's types call read-only
    elif change == "strides":
        x.strides = (4, 16)
    elif change == "shape":
        x.shape = (2, 8)
    else:
        x.flags.writeable = False


@pytest.mark.filterwarnings("ignore:Setting the:DeprecationWarning")  # which a later NumPy gives
@pytest.mark.parametrize("change", ["dtype", "shape", "writeable"])
def test_a_call_sees_that_its_output_has_changed(change: str, engine: str) -> None:
    x, out = np.arange(16, dtype="int32").reshape(4, 4).copy(), np.empty((4, 4), "int32")
    run = dml.Device(engine).compile(reversing(x))
    for _ in range(2):
        run(x, out=out)
    out[...] = 7
    changed(out, change)
    before = out.tobytes()
    with pytest.raises(dml.BindingError):
        run(x, out=out)
    assert out.tobytes() == before


@pytest.mark.filterwarnings("ignore:Setting the:DeprecationWarning")
@pytest.mark.parametrize("change", ["dtype", "shape", "strides"])
def test_a_call_sees_that_its_input_has_changed(change: str, engine: str) -> None:
    x, out = np.arange(16, dtype="int32").reshape(4, 4).copy(), np.empty((4, 4), "int32")
    run = dml.Device(engine).compile(reversing(x))
    for _ in range(2):
        run(x, out=out)
    changed(x, change)
    with pytest.raises(dml.BindingError):  # never the old layout
        run(x, out=out)


@pytest.mark.filterwarnings("ignore:Setting the:DeprecationWarning")
def test_a_call_sees_a_type_at_the_address_of_the_last_one() -> None:
    x: np.ndarray[Any, Any] = np.ones(4, np.dtype("f4", metadata={"of": 1}))
    out = np.empty(4, "f4")
    tensor = dml.TensorDesc("float32", (4,))
    run = dml.Device("cpu").compile(dml.CumulativeSummation(input_tensor=tensor, output_tensor=tensor, axis=0))
    run(x, out=out)
    place = id(x.dtype)
    x.dtype = np.dtype("u4")  # type: ignore[misc]  # NumPy sets it, its stub does not
    others = [np.dtype("i4", metadata={"of": k}) for k in range(1000)]
    x.dtype = next((other for other in others if id(other) == place), others[0])  # type: ignore[misc]  # NumPy sets it, its stub does not
    with pytest.raises(dml.BindingError):
        run(x, out=out)


def reshape_in_place(array: np.ndarray, shape: tuple[int, ...]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # NumPy 2.5 on: still possible, and so to be reckoned with
        array.shape = shape


def test_a_call_that_repeats_looks_at_its_arrays_again() -> None:
    run, x, out = compiled(), np.ones((2, 4), "float32"), np.zeros((2, 4), "float32")
    for start in (1, 5):
        x[:, 0] = start
        assert run(x, out=out) is out
        assert out[0, 0] == start
    reshape_in_place(x, (4, 2))
    with pytest.raises(dml.BindingError, match=r"must be an array of sizes \(2, 4\)"):
        run(x, out=out)
    reshape_in_place(x, (2, 4))
    reshape_in_place(out, (8,))
    with pytest.raises(dml.BindingError, match=r"OutputTensor must be an array of sizes \(2, 4\)"):
        run(x, out=out)
    reshape_in_place(out, (2, 4))
    listed = x.tolist()
    for first in (3, 4):
        listed[0][0] = first
        assert run(listed, out=out) is out
        assert out[0, 0] == first
    listed[0][0] = np.float64(5)
    with pytest.raises(dml.BindingError, match="must be an array of FLOAT32"):
        run(listed, out=out)


def test_a_call_that_repeats_does_not_write_where_it_may_no_longer() -> None:
    run, x, out = compiled(), np.ones((2, 4), "float32"), np.zeros((2, 4), "float32")
    other = np.full((2, 4), 2, "float32")
    for _ in range(2):  # arrays that take turns
        assert run(x, out=out)[0, -1] == 4
        assert run(other, out=out)[0, -1] == 8
    out.flags.writeable = False
    with pytest.raises(dml.BindingError, match="must be writable; got a read-only array"):
        run(x, out=out)
    assert out[0, -1] == 8


def test_a_call_keeps_none_of_its_arrays_alive() -> None:
    run, x, out = compiled(), np.ones((2, 4), "float32"), np.zeros((2, 4), "float32")
    run(x, out=out)
    held = weakref.ref(x), weakref.ref(out)
    del x, out
    assert [array() for array in held] == [None, None]
    for start in range(200):  # new arrays at old addresses, and more of them than are remembered
        x, out = np.full((2, 4), start, "float32"), np.zeros((2, 4), "float32")
        assert run(x, out=out)[1, 1] == 2 * start


def test_functions_that_were_called_before_look_at_their_out_again() -> None:
    x, out = np.arange(12, dtype="float32"), np.zeros(4, "float32")
    for _ in range(3):
        x += 1
        assert dml.slice(x, [2], [4], out=out) is out
        np.testing.assert_array_equal(out, x[2:6])
        with pytest.raises(dml.BindingError, match="OutputTensor must not overlap InputTensor"):
            dml.slice(x, [2], [4], out=x[3:7])
        frozen = np.zeros(4, "float32")
        frozen.flags.writeable = False
        with pytest.raises(dml.BindingError, match="must be writable; got a read-only array"):
            dml.slice(x, [2], [4], out=frozen)
        sums = x.copy()
        assert dml.cumulative_summation(sums, 0, out=sums) is sums
        np.testing.assert_array_equal(sums, np.cumsum(x))


def test_functions_that_were_called_before_look_at_their_arrays_again() -> None:
    x = np.arange(8, dtype="int64")
    for _ in range(3):
        x += 1
        np.testing.assert_array_equal(dml.slice(x, [2], [3]), x[2:5])
        np.testing.assert_array_equal(dml.gather_nd(x, np.array([[1], [-1]])), x[[1, -1]])
        with pytest.raises(dml.IndexRangeError, match=r"indices\[0\] = \(8,\)"):
            dml.gather_nd(x, np.array([[8], [-1]]))
        with pytest.raises(dml.DescriptionError, match="Offsets"):
            dml.slice(x, [7], [3])
        assert dml.cumulative_summation(x[::-1], 0)[0] == x[-1]
        assert dml.cumulative_summation(x, 0)[0] == x[0]
