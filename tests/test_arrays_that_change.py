"""Arrays whose type, shape or strides change between two calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
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
