"""CAST, JOIN, SPLIT and REVERSE_SUBSEQUENCES as functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.broadcasting import numbers_of
from anydml.calls import Attempt, make_call
from anydml.describing import described
from anydml.enums import DataType
from anydml.errors import DescriptionError, Fault, show
from anydml.operators import Cast, Join, ReverseSubsequences, Split
from anydml.parse import read_enum, read_int, read_ints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.runtime.device import Device

MOST_PARTS = 2**16
"""Outputs of a SPLIT; DirectML counts them in 32 bits."""


def cast(
    x: Any,
    data_type: DataType | str | type | Any,
    *,
    out: Any = None,
    device: Device | str | None = None,
) -> Any:
    """CAST: every element as a number of another type.

    A float loses its fraction where the type is of integers, and takes the nearest end of its range; NaN is 0.
    Integers wrap.

    >>> cast(np.array([1.9, -1.9, 300.0]), "uint8")
    array([  1,   0, 255], dtype=uint8)
    """
    faults: list[Fault] = []
    kind = read_enum(DataType, data_type, "data_type", faults, DataType.FLOAT32)
    if faults:
        raise DescriptionError(Cast.type.name, faults)
    attempt = Attempt(Cast, device, out, (x,), kind)
    if (result := attempt.run()) is not None:
        return result
    call = make_call(Cast, device, out, x, key=attempt.key)
    call.scalars = ("InputTensor",)
    return call.run(outputs=[described(Cast, "OutputTensor", kind, call.inputs[0].sizes or (1,))])


def join(tensors: Sequence[Any], axis: int = 0, *, out: Any = None, device: Device | str | None = None) -> Any:
    """JOIN: tensors one after the other along an axis, as `numpy.concatenate` has it.

    >>> join([np.array([1, 2]), np.array([3])], axis=0)
    array([1, 2, 3])
    """
    if not isinstance(tensors, (list, tuple)) or not tensors:
        rule = "InputTensors must be a list of at least one tensor"
        way_out = "" if isinstance(tensors, (list, tuple)) else "write join([a, b], axis)"
        fault = Fault(field="InputTensors", rule=rule, found=show(tensors), way_out=way_out)
        raise DescriptionError(Join.type.name, fault)
    attempt = Attempt(Join, device, out, tuple(tensors), axis)
    if (result := attempt.run()) is not None:
        return result
    call = make_call(Join, device, out, *tensors, key=attempt.key)
    return call.run(axis=call.axis(axis))


def split(
    x: Any,
    output_axis_sizes: Sequence[int] | int,
    axis: int = 0,
    *,
    out: Sequence[Any] | None = None,
    device: Device | str | None = None,
) -> Any:
    """SPLIT: parts of `x` along an axis, in a list: of these sizes, or a number of equal ones as `numpy.split` has it.

    `out` takes a list of as many arrays.

    >>> split(np.array([1, 2, 3]), [2, 1])
    [array([1, 2]), array([3])]
    >>> split(np.array([1, 2, 3, 4]), 2)
    [array([1, 2]), array([3, 4])]
    """
    call = make_call(Split, device, out, x)
    number = call.axis(axis)
    sizes = _part_sizes(output_axis_sizes, (call.inputs[0].sizes or (1,))[number], call.faults)
    if not sizes and not call.faults:
        rule = "output_axis_sizes must have at least one size"
        call.faults.append(Fault(field="output_axis_sizes", rule=rule, value=output_axis_sizes, found="none"))
    if call.faults:
        raise DescriptionError(Split.type.name, call.faults)
    whole, kind = call.inputs[0].sizes, call.inputs[0].data_type
    parts = [(*whole[:number], size, *whole[number + 1 :]) for size in sizes]
    return call.run(
        axis=number,
        outputs=[described(Split, f"OutputTensors[{i}]", kind, part) for i, part in enumerate(parts)],
    )


def _part_sizes(given: Any, size: int, faults: list[Fault]) -> tuple[int, ...]:
    """The sizes of the parts, or of so many equal ones."""
    field = "output_axis_sizes"
    if hasattr(given, "__index__") and not getattr(given, "shape", ()):
        count = read_int(given, field, faults, 1, MOST_PARTS)
        if size % count:
            rule = f"{field} must divide the {size} elements along the axis, or list the parts' sizes"
            most = size % count
            way_out = f"as in {[size // count + 1] * most + [size // count] * (count - most)}" if count < size else ""
            faults.append(Fault(field=field, rule=rule, value=given, found=show(given), way_out=way_out))
        return (size // count,) * count
    return read_ints(given, field, faults, 1, most=MOST_PARTS)


def reverse_subsequences(
    x: Any, sequence_lengths: Any, axis: int, *, out: Any = None, device: Device | str | None = None
) -> Any:
    """REVERSE_SUBSEQUENCES: the first so many elements along an axis reversed, the rest as they are.

    `sequence_lengths` has the sizes of `x`, but 1 along the axis, or no such dimension where it is a list; an array is
    of an unsigned type of 32 or 64 bits.

    >>> reverse_subsequences(np.array([[1, 2, 3], [4, 5, 6]]), np.array([[2], [3]], "uint32"), axis=1)
    array([[2, 1, 3],
           [6, 5, 4]])
    """
    if (numbers := numbers_of(sequence_lengths)) is not None and numbers.ndim == getattr(x, "ndim", 0) - 1:
        sequence_lengths = np.expand_dims(numbers, axis).tolist()
    attempt = Attempt(ReverseSubsequences, device, out, (x, sequence_lengths), axis)
    if (result := attempt.run()) is not None:
        return result
    call = make_call(ReverseSubsequences, device, out, x, sequence_lengths, key=attempt.key)
    return call.run(axis=call.axis(axis))
