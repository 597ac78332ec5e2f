"""QUANTIZE and DEQUANTIZE as functions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anydml.calls import Attempt, make_call
from anydml.describing import described
from anydml.enums import DataType, QuantizationType
from anydml.errors import DescriptionError, Fault
from anydml.expression import Expression
from anydml.memory import packed_strides
from anydml.operators import Dequantize, Quantize
from anydml.parse import read_enum, read_ints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.describing import Call
    from anydml.operators import OperatorDesc
    from anydml.runtime.device import Device


def dequantize(
    x: Any,
    scale: Any,
    zero_point: Any = None,
    data_type: DataType | str | type | Any = None,
    output_sizes: Sequence[int] | None = None,
    *,
    out: Any = None,
    device: Device | str | None = None,
) -> Any:
    """DEQUANTIZE: (x - zero_point)·scale, with a scale and a zero point for each block of `x`, in the scale's type.

    A size of the scale divides that of `x` into blocks, from the last dimension on; a number is for all of `x`. With a
    `data_type` of "uint4" or "int4" `x` and the zero point are bytes with two elements each, the first in the low half,
    as `quantize` gives them: of an odd last size all bytes are in a row, and `output_sizes` tell the sizes of what they
    were. Without a zero point it is 0, and of unsigned types the middle of the range: 128, and 8 of UINT4.

    >>> dequantize(np.array([[1, 2, 3, 4]], "int8"), np.array([[0.5, 10]], "float32"))
    array([[ 0.5,  1. , 30. , 40. ]], dtype=float32)
    """
    kind = _read_type(Dequantize, data_type)
    given = _given_sizes(output_sizes, out, kind)
    inputs = _inputs(_in_a_row(x, given) if given is not None and kind is not None else x, scale, zero_point)
    attempt = Attempt(Dequantize, device, out, inputs, len(inputs), kind, given)
    if (result := attempt.run()) is not None:
        return result
    call = make_call(Dequantize, device, out, *inputs, key=attempt.key, spreading={})
    sizes: tuple[int, ...] = call.inputs[0].sizes
    if kind is not None and kind is not call.inputs[0].data_type:
        _see_halves(call, kind, given or ((*sizes[:-1], sizes[-1] * 2) if sizes else sizes))
    elif output_sizes is not None and given != sizes:
        rule = f"output_sizes must be those of x, {sizes}, unless it is bytes with two elements of 4 bits each"
        raise DescriptionError(Dequantize.type.name, Fault(field="output_sizes", rule=rule, found=str(given)))
    return call.run(quantization_type=_QUANTIZATION[len(inputs)])


def quantize(
    x: Any,
    scale: Any,
    zero_point: Any = None,
    data_type: DataType | str | type | Any = None,
    *,
    out: Any = None,
    device: Device | str | None = None,
) -> Any:
    """QUANTIZE: round(x/scale) + zero_point, with a scale and a zero point for each block of `x`, halves to even.

    The result is of the zero point's type, or of `data_type`: UINT8 where neither is given. With "uint4" or "int4" it
    is bytes with two elements each, the first in the low half, and so is the zero point: half as many as the last size,
    and all in a row where that is odd. A size of the scale divides that of `x` into blocks, from the last dimension on;
    a number is for all of `x`. Without a zero point it is 0, and of unsigned types the middle of the range: 128, and 8
    of UINT4.

    >>> quantize(np.array([[0.5, 1, 30, 40]], "float32"), np.array([[0.5, 10]], "float32"), data_type="int8")
    array([[1, 2, 3, 4]], dtype=int8)
    """
    kind = _read_type(Quantize, data_type)
    inputs = _inputs(x, scale, zero_point)
    attempt = Attempt(Quantize, device, out, inputs, len(inputs), kind)
    if (result := attempt.run()) is not None:
        return result
    call = make_call(Quantize, device, out, *inputs, key=attempt.key, spreading={})
    sizes = call.inputs[0].sizes
    if kind is None and call.outs is None:
        kind = call.inputs[2].data_type if zero_point is not None else DataType.UINT8
    if kind is not None and kind.is_half_byte:
        _see_halves(call, kind, sizes)
    outputs = None if kind is None else [described(Quantize, "OutputTensor", kind, sizes or (1,))]
    return call.run(outputs=outputs, quantization_type=_QUANTIZATION[len(inputs)])


_QUANTIZATION = {2: QuantizationType.SCALE, 3: QuantizationType.SCALE_ZERO_POINT}


def _inputs(x: Any, scale: Any, zero_point: Any) -> tuple[Any, ...]:
    """The inputs that were given; a scale that is a whole number is a float."""
    scale = float(scale) if type(scale) is int else scale
    return (x, scale) if zero_point is None else (x, scale, zero_point)


def _given_sizes(output_sizes: Sequence[int] | None, out: Any, kind: DataType | None) -> tuple[int, ...] | None:
    """The sizes of 4-bit elements, where somebody says them."""
    if output_sizes is not None:
        faults: list[Fault] = []
        found = read_ints(output_sizes, "output_sizes", faults, low=1)
        if faults:
            raise DescriptionError(Dequantize.type.name, faults)
        return found
    is_told = kind is not None and kind.is_half_byte and isinstance(getattr(out, "shape", None), tuple)
    return tuple(int(size) for size in out.shape) or None if is_told else None


def _in_a_row(x: Any, sizes: tuple[int, ...]) -> Any:
    """Bytes that lie in a row, with as many dimensions as the elements have, so that scales and zero points fit."""
    count = (math.prod(sizes) + 1) // 2
    if not isinstance(x, Expression) and getattr(x, "shape", None) == (count,) and hasattr(x, "reshape"):
        return x.reshape((*(1,) * (len(sizes) - 1), count))
    return x


def _read_type(cls: type[OperatorDesc], data_type: object) -> DataType | None:
    faults: list[Fault] = []
    kind = None if data_type is None else read_enum(DataType, data_type, "data_type", faults, DataType.UINT8)
    if faults:
        raise DescriptionError(cls.type.name, faults)
    return kind


def _see_halves(call: Call, kind: DataType, sizes: tuple[int, ...]) -> None:
    """Bytes among the tensors as elements of 4 bits, of which the input or the output has these sizes."""
    cls = call.cls
    if not kind.is_half_byte:
        rule = f"data_type must be that of x, {call.inputs[0].data_type.name}, or uint4 or int4 for bytes with two each"
        raise DescriptionError(cls.type.name, Fault(field="data_type", rule=rule, value=kind, found=kind.name))
    call.key = None  # which tells arrays, not what their bytes are
    if cls is Dequantize:
        call.inputs[0] = _halves(cls, "InputTensor", call.inputs[0], kind, sizes)
    if len(call.inputs) > 2:
        blocks = call.inputs[1].sizes
        call.inputs[2] = _halves(cls, "QuantizationTensors[1]", call.inputs[2], kind, blocks)
    if cls is Quantize and call.outs is not None:
        call.outs = [_halves(cls, "OutputTensor", out, kind, sizes) for out in call.outs]


def _halves(cls: type[OperatorDesc], field: str, seen: Any, kind: DataType, sizes: tuple[int, ...]) -> Any:
    """Bytes as elements of 4 bits; those that are seen as such already stay."""
    if seen.data_type is kind:
        return seen
    if not isinstance(seen, Expression) and seen.sizes == sizes and not any(seen.strides):
        return replace(seen, data_type=kind)  # a number, in the low half of its byte
    wanted = (*sizes[:-1], (sizes[-1] + 1) // 2) if sizes else ()
    row = (math.prod(sizes) + 1) // 2
    is_row = math.prod(seen.sizes) == row and seen.sizes[-1:] == (row,) and seen.sizes != wanted
    if is_row and seen.data_type is DataType.UINT8 and seen.strides[-1] == 1 and not isinstance(seen, Expression):
        return replace(seen, data_type=kind, sizes=sizes, strides=packed_strides(sizes))
    fits = seen.data_type is DataType.UINT8 and seen.sizes == wanted and seen.strides[-1:] == (1,)
    if not fits or isinstance(seen, Expression):
        rule = f"{field} must be of {kind.name}, or bytes of sizes {wanted} side by side, with two elements each"
        found = f"{seen.data_type.name} of sizes {seen.sizes} and strides {seen.strides}"
        way_out = "reinterpret(data_type=…) sees an expression's bytes so" if isinstance(seen, Expression) else ""
        raise DescriptionError(cls.type.name, Fault(field=field, rule=rule, found=found, way_out=way_out))
    strides = (*(2 * stride for stride in seen.strides[:-1]), 1)
    return replace(seen, data_type=kind, sizes=sizes, strides=strides)
