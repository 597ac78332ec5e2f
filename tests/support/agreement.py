"""How far the answers of engines agree: to the bit, or within one step of their type; and what they are asked."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from anydml.core.memory import numpy_address
from anydml.ir.views import View
from places import Moved, get, put

if TYPE_CHECKING:
    from collections.abc import Collection

    from anydml.engines.common.engine import Engine
    from anydml.ir.verbs import Primitive

Array = np.ndarray[Any, Any]


def bits(array: Array) -> Array:
    """The elements as unsigned numbers of their width."""
    return array.view(f"u{array.dtype.itemsize}")


def assert_same(got: Array, wanted: Array, about: object = "") -> None:
    """Compare bit for bit, one NaN as good as another."""
    differ = bits(got) != bits(wanted)
    if wanted.dtype.kind == "f":
        differ &= ~(np.isnan(got) & np.isnan(wanted))
    assert not differ.any(), (np.argwhere(differ)[:5], got, wanted, about)


def assert_near(got: Array, wanted: Array, error: float = 0.0, about: object = "") -> None:
    """Compare within one step from a float to the next, or an error that the order of additions explains.

    Signs agree, zeros' too, unless the error passes them; infinity is one step past the largest number.
    """
    both = np.isnan(got) & np.isnan(wanted)
    same_sign = np.signbit(got) == np.signbit(wanted)
    steps = np.where(same_sign, np.abs(bits(got).astype(np.int64) - bits(wanted).astype(np.int64)), 2)
    with np.errstate(invalid="ignore"):
        explained = np.abs(got.astype(np.float64) - wanted.astype(np.float64)) <= error if error else both
    wrong = ~(both | explained | (steps <= 1)) | (np.isnan(got) ^ np.isnan(wanted))
    assert not wrong.any(), (np.argwhere(wrong)[:5], got[wrong][:5], wanted[wrong][:5], about)


def sum_error(values: Array) -> float:
    """How much float64 sums of these numbers, added in any order, may differ."""
    finite = np.abs(values[np.isfinite(values)].astype(np.float64))
    return float(finite.sum() * values.size * 2.0**-52)


def assert_agrees(operator: type[dml.OperatorDesc], source: Array, got: Array, wanted: Array) -> None:
    """What an engine may differ in that adds and multiplies floats in an order of its own."""
    if operator is dml.CumulativeSummation and source.dtype == np.float32:
        assert_near(got, wanted, sum_error(source))
    elif operator is dml.CumulativeProduct and source.dtype.kind == "f":
        assert_near(got, wanted)
    else:
        assert_same(got, wanted)


# Data and layouts


def values(shape: Any, dtype: str, seed: int = 0) -> Array:
    """Anything that a type holds, floats within reason."""
    rng = np.random.default_rng(seed)
    if dtype.startswith("float"):
        return np.asarray(rng.standard_normal(shape), dtype)
    limits = np.iinfo(dtype)
    return np.asarray(rng.integers(limits.min, limits.max, shape, dtype, endpoint=True))


def columns(out: Array) -> Array:
    return np.zeros(out.shape[::-1], out.dtype).T


def padded(out: Array) -> Array:
    return np.zeros((*out.shape[:-1], out.shape[-1] * 2 + 1), out.dtype)[..., : out.shape[-1] * 2 : 2]


def framed(out: Array, frame: int = 16) -> Array:
    """Packed, with room before and behind it."""
    return np.zeros(out.size + 2 * frame, out.dtype)[frame : frame + out.size].reshape(out.shape)


def slicing(x: Array, cut: tuple[slice, ...]) -> dml.OperatorDesc:
    """The slice that NumPy makes of an array."""
    bounds = [s.indices(n) for s, n in zip(cut, x.shape, strict=True)]
    counts = [len(range(*b)) for b in bounds]
    return dml.Slice1.infer(
        input_tensor=dml.TensorDesc.of(x),
        input_window_offsets=[a if s > 0 else a + (n - 1) * s for (a, _, s), n in zip(bounds, counts, strict=True)],
        input_window_sizes=[(n - 1) * abs(s) + 1 for (_, _, s), n in zip(bounds, counts, strict=True)],
        input_window_strides=[s for _, _, s in bounds],
    )


def gathering(x: Array, indices: Array, batch: int = 0, mode: str = "raise") -> dml.OperatorDesc:
    """A gather of tuples from arrays of any rank."""
    rank = max(x.ndim, indices.ndim, indices.ndim - 1 + x.ndim - batch - indices.shape[-1], 1)
    return dml.GatherND1.infer(
        input_tensor=dml.TensorDesc.of(x).padded(rank),
        indices_tensor=dml.TensorDesc.of(indices).padded(rank),
        input_dimension_count=x.ndim,
        indices_dimension_count=indices.ndim,
        batch_dimension_count=batch,
        index_mode=mode,
    )


def answer(device: dml.Device, desc: dml.OperatorDesc, *inputs: Array, layout: Any = framed) -> Array:
    """What a device writes into an array that `layout` makes of an empty one, and nowhere beside it."""
    out = layout(np.zeros(desc.tensors()["OutputTensor"].sizes, inputs[0].dtype))
    fields = {name: getattr(desc, name) for name in desc.field_types()}
    run = device.compile(type(desc)(**{**fields, "output_tensor": dml.TensorDesc.of(out)}))
    there = put(out, device)
    assert run(*(put(x, device) for x in inputs), out=there) is there
    got = get(there)
    kept, root = got.copy(), got
    while isinstance(root.base, np.ndarray):
        root = root.base
    got[...] = 0
    assert not bits(np.asarray(root)).any(), "something was written outside the output"
    return kept


# Engines on their own

OFFSET = 3
"""Elements from where a tensor begins to where its views do."""


def view(name: str, array: Array) -> View:
    strides = tuple(stride // array.itemsize for stride in array.strides)
    return View(name, dml.DataType(array.dtype), array.shape, strides, OFFSET)


def begin(array: Any, itemsize: int) -> int:
    """The address of a tensor of which an array is a view."""
    first: int = array.shown["data"][0] if isinstance(array, Moved) else numpy_address(array)
    return first - OFFSET * itemsize


def run(engine: Engine, primitive: Primitive, constants: Collection[str] = (), **arrays: Array) -> Array:
    """What an engine writes into the array named `target`, and nowhere beside it; constants are laid out as it asks."""
    there = {name: put(array, engine.name) for name, array in arrays.items()}
    places = {name: begin(x, arrays[name].itemsize) for name, x in there.items()}
    program, packed = engine.compile(primitive, frozenset(constants)), {}
    for name, layout in program.layouts.items():
        packed[name] = engine.reserve(math.prod(layout.target.sizes) * layout.target.data_type.size_in_bytes)
        engine.compile(layout).bind({**places, layout.target.tensor: packed[name].address})()
    program.bind({**places, **{name: buffer.address for name, buffer in packed.items()}})()
    got = get(there["target"])
    kept, root = got.copy(), got
    while isinstance(root.base, np.ndarray):
        root = root.base
    got[...] = 0
    assert not bits(np.asarray(root)).any(), "something was written outside the target"
    return kept
