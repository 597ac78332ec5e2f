"""Functions that are written: they do more than the operators' descriptions say. The others are `derived`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.api.broadcasting import numbers_of
from anydml.api.builder import Graph
from anydml.api.calls import Attempt, make_call
from anydml.api.describing import described
from anydml.api.expression import Expression
from anydml.core.enums import AxisDirection, DataType, IndexMode, QuantizationType
from anydml.core.errors import DescriptionError, Fault, show
from anydml.core.memory import packed_strides
from anydml.core.parse import read_enum, read_int, read_ints
from anydml.operators import (
    Cast,
    CumulativeProduct,
    CumulativeSummation,
    Dequantize,
    DiagonalMatrix,
    DiagonalMatrix1,
    FillValueConstant,
    FillValueSequence,
    Gather,
    GatherElements,
    GatherND,
    GatherND1,
    Join,
    Quantize,
    ReverseSubsequences,
    ScatterND,
    Slice,
    Slice1,
    Split,
)
from anydml.operators.schema.fields import dml_name, read_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.api.describing import Call
    from anydml.operators import OperatorDesc
    from anydml.runtime.device import Device


# SLICE and SLICE1


def slice(
    x: Any,
    offsets: Sequence[int] | int,
    sizes: Sequence[int] | int,
    strides: Sequence[int] | int | None = None,
    *,
    out: Any = None,
    device: Device | str | None = None,
) -> Any:
    """SLICE: `sizes` elements from `offsets` on, `strides` apart (1 where not given), in each dimension.

    >>> slice(np.arange(10), [2], [3], [2])
    array([2, 4, 6])
    """
    attempt = Attempt(Slice, device, out, (x,), offsets, sizes, strides)
    if (result := attempt.run()) is not None:
        return result
    call = make_call(Slice, device, out, x, key=attempt.key)
    strides = (1,) * call.rank if strides is None else strides
    return call.run({"offsets": 0, "sizes": 1, "strides": 1}, offsets=offsets, sizes=sizes, strides=strides)


def slice1(
    x: Any,
    input_window_offsets: Sequence[int] | int,
    input_window_sizes: Sequence[int] | int,
    input_window_strides: Sequence[int] | int | None = None,
    output_sizes: Sequence[int] | int | None = None,
    *,
    out: Any = None,
    device: Device | str | None = None,
) -> Any:
    """SLICE1: from a window of `x`, every stride-th element; a negative stride walks from the window's end.

    Without `output_sizes` the result takes all that the window gives.

    >>> slice1(np.arange(10), [2], [6], [-2])
    array([7, 5, 3])
    """
    attempt = Attempt(
        Slice1, device, out, (x,), input_window_offsets, input_window_sizes, input_window_strides, output_sizes
    )
    if (result := attempt.run()) is not None:
        return result
    call = make_call(Slice1, device, out, x, output_sizes=output_sizes, key=attempt.key)
    strides = (1,) * call.rank if input_window_strides is None else input_window_strides
    return call.run(
        {"input_window_offsets": 0, "input_window_sizes": 1, "input_window_strides": 1},
        input_window_offsets=input_window_offsets,
        input_window_sizes=input_window_sizes,
        input_window_strides=strides,
    )


# GATHER_ND, GATHER and GATHER_ELEMENTS


def gather_nd(
    x: Any,
    indices: Any,
    batch_dimension_count: int = 0,
    index_mode: IndexMode | str = IndexMode.RAISE,
    *,
    out: Any = None,
    device: Device | str | None = None,
) -> Any:
    """GATHER_ND, and GATHER_ND1 with batch dimensions: the elements or blocks of `x` that tuples point at.

    The last dimension of `indices` holds the coordinates of a tuple; one tuple of as many coordinates as `x` has
    dimensions gives an array without dimensions, or such an expression. An index outside its dimension is an error
    that names it; with `index_mode="clamp"` it takes the nearest element.

    >>> gather_nd(np.array([[0, 1], [2, 3]]), np.array([[1], [0]]))
    array([[2, 3],
           [0, 1]])
    """
    return _gather_nd(GatherND, x, indices, batch_dimension_count, index_mode, out, device)


def gather_nd1(
    x: Any,
    indices: Any,
    batch_dimension_count: int = 0,
    index_mode: IndexMode | str = IndexMode.RAISE,
    *,
    out: Any = None,
    device: Device | str | None = None,
) -> Any:
    """GATHER_ND1: the elements or blocks of `x` that tuples point at, within each batch.

    >>> gather_nd1(np.array([[0, 1], [2, 3]]), np.array([[1], [0]]), 1)
    array([1, 2])
    """
    return _gather_nd(GatherND1, x, indices, batch_dimension_count, index_mode, out, device)


def _gather_nd(
    cls: type[OperatorDesc], x: Any, indices: Any, batch_count: Any, index_mode: Any, out: Any, device: Any
) -> Any:
    """Either operator; that without batch dimensions leaves them to the other."""
    attempt = Attempt(cls, device, out, (x, indices), batch_count, index_mode)
    if (result := attempt.run()) is not None:
        return result
    faults: list[Fault] = []
    batch = read_int(batch_count, "BatchDimensionCount", faults)
    cls = GatherND1 if batch or faults else cls
    if faults:
        raise DescriptionError(cls.type.name, faults)
    call = make_call(cls, device, out, x, indices, key=attempt.key)
    indices_sizes = call.inputs[1].sizes
    call.make_room(len(indices_sizes) - 1 + call.rank - batch - (indices_sizes[-1] if indices_sizes else 0))
    attributes: dict[str, Any] = {"batch_dimension_count": batch} if cls is GatherND1 else {}
    return call.run(
        input_dimension_count=call.rank,
        indices_dimension_count=len(indices_sizes),
        index_mode=index_mode,
        **attributes,
    )


def gather(
    x: Any,
    indices: Any,
    axis: int = 0,
    index_mode: IndexMode | str = IndexMode.RAISE,
    *,
    out: Any = None,
    device: Device | str | None = None,
) -> Any:
    """GATHER: the elements or blocks of `x` that indices point at along an axis, as `numpy.take` has it.

    The dimensions of `indices`, which may have none, stand in the result in the place of the axis. An index outside
    is an error that names it; with `index_mode="clamp"` it takes the nearest element.

    >>> gather(np.array([[0, 1], [2, 3]]), np.array([1, 1, 0]), axis=1)
    array([[1, 1, 0],
           [3, 3, 2]])
    """
    attempt = Attempt(Gather, device, out, (x, indices), axis, index_mode)
    if (result := attempt.run()) is not None:
        return result
    call = make_call(Gather, device, out, x, indices, key=attempt.key)
    call.scalars = ("IndicesTensor",)
    number, index_rank = call.axis(axis), len(call.inputs[1].sizes)
    call.make_room(call.rank - 1 + index_rank)
    return call.run(axis=number + call.common_rank - call.rank, index_dimensions=index_rank, index_mode=index_mode)


def gather_elements(
    x: Any,
    indices: Any,
    axis: int,
    index_mode: IndexMode | str = IndexMode.RAISE,
    *,
    out: Any = None,
    device: Device | str | None = None,
) -> Any:
    """GATHER_ELEMENTS: along an axis of `x`, the element that each index points at, as `numpy.take_along_axis` has it.

    `indices` has the sizes of `x`, but along the axis any. An index outside is an error that names it; with
    `index_mode="clamp"` it takes the nearest element.

    >>> gather_elements(np.array([[1, 2], [3, 4]]), np.array([[1, 0]]), axis=0)
    array([[3, 2]])
    """
    attempt = Attempt(GatherElements, device, out, (x, indices), axis, index_mode)
    if (result := attempt.run()) is not None:
        return result
    call = make_call(GatherElements, device, out, x, indices, key=attempt.key)
    return call.run(axis=call.axis(axis), index_mode=index_mode)


# SCATTER_ND


def scatter_nd(x: Any, indices: Any, updates: Any, *, out: Any = None, device: Device | str | None = None) -> Any:
    """SCATTER_ND: a copy of `x` with elements or blocks of `updates` at the places that tuples point at.

    The last dimension of `indices` holds the coordinates of a tuple. `updates` has the other sizes of `indices`, then
    those of `x` that no tuple indexes. Of several updates of one place the last one stays. An index outside its
    dimension is an error that names it.

    >>> scatter_nd(np.array([0, 1, 2, 3]), np.array([[3], [1], [3]]), np.array([7, 8, 9]))
    array([0, 8, 2, 9])
    """
    attempt = Attempt(ScatterND, device, out, (x, indices, updates))
    if (result := attempt.run()) is not None:
        return result
    call = make_call(ScatterND, device, out, x, indices, updates, key=attempt.key)
    call.make_room(call.rank)
    return call.run(input_dimension_count=call.rank, indices_dimension_count=len(call.inputs[1].sizes))


# CAST, JOIN, SPLIT and REVERSE_SUBSEQUENCES


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
    """SPLIT: parts of `x` along an axis, in a tuple: of these sizes, or a number of equal ones as `numpy.split` has it.

    `out` takes a list of as many arrays.

    >>> split(np.array([1, 2, 3]), [2, 1])
    (array([1, 2]), array([3]))
    >>> split(np.array([1, 2, 3, 4]), 2)
    (array([1, 2]), array([3, 4]))
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


# FILL_VALUE_CONSTANT, FILL_VALUE_SEQUENCE, DIAGONAL_MATRIX and DIAGONAL_MATRIX1


def fill_value_constant(
    sizes: Sequence[int] | int,
    value: float,
    data_type: DataType | str | type | Any = DataType.FLOAT32,
    *,
    out: Any = None,
    device: Device | str | None = None,
    graph: Graph | None = None,
) -> Any:
    """FILL_VALUE_CONSTANT: an array of one number, as `numpy.full` has it; an expression, where a graph is given.

    >>> fill_value_constant([2, 2], 7, "int32")
    array([[7, 7],
           [7, 7]], dtype=int32)
    """
    return _fill(FillValueConstant, sizes, data_type, out, device, graph, {"value": value})


def fill_value_sequence(
    sizes: Sequence[int] | int,
    value_start: float,
    value_delta: float,
    data_type: DataType | str | type | Any = DataType.FLOAT32,
    *,
    allow_float64: bool = False,
    out: Any = None,
    device: Device | str | None = None,
    graph: Graph | None = None,
) -> Any:
    """FILL_VALUE_SEQUENCE: start, start + delta, start + 2·delta and so on, in the elements' order.

    It is an expression where a graph is given. `allow_float64=True` takes float64 as well, which DirectML does not.

    >>> fill_value_sequence([2, 2], 10, 20, "uint8")
    array([[10, 30],
           [50, 70]], dtype=uint8)
    """
    numbers = {"value_start": value_start, "value_delta": value_delta}
    added = {"allow_float64": allow_float64}
    return _fill(FillValueSequence, sizes, data_type, out, device, graph, numbers, **added)


def diagonal_matrix(
    sizes: Sequence[int] | int,
    offset: int = 0,
    value: float = 1.0,
    data_type: DataType | str | type | Any = DataType.FLOAT32,
    *,
    out: Any = None,
    device: Device | str | None = None,
    graph: Graph | None = None,
) -> Any:
    """DIAGONAL_MATRIX: matrices with a number on a diagonal, `offset` columns right of the main one, and 0 elsewhere.

    It is an expression where a graph is given.

    >>> diagonal_matrix([2, 3], 1, 7, "int32")
    array([[0, 7, 0],
           [0, 0, 7]], dtype=int32)
    """
    return _fill(DiagonalMatrix, sizes, data_type, out, device, graph, {"value": value}, offset=offset)


def diagonal_matrix1(
    x: Any = None,
    diagonal_fill_begin: int = 0,
    diagonal_fill_end: int = 1,
    value: float = 1,
    sizes: Sequence[int] | int | None = None,
    data_type: DataType | str | type | Any = DataType.FLOAT32,
    *,
    out: Any = None,
    device: Device | str | None = None,
    graph: Graph | None = None,
) -> Any:
    """DIAGONAL_MATRIX1: matrices with a number on some diagonals, and elsewhere `x`; or 0, where `sizes` are given.

    It is on those from `diagonal_fill_begin` columns right of the main one on, up to `diagonal_fill_end` and without
    that; with a begin above the end on all others. With `sizes` it is of `data_type`, and an expression where a graph
    is given.

    >>> diagonal_matrix1(np.array([[1, 2, 3], [4, 5, 6]]), 0, 2, 9)
    array([[9, 9, 3],
           [4, 9, 9]])
    """
    bounds: dict[str, Any] = {"diagonal_fill_begin": diagonal_fill_begin, "diagonal_fill_end": diagonal_fill_end}
    if (x is None) is (sizes is None):
        rule, found = "either x or sizes must be given", "neither" if x is None else "both"
        raise DescriptionError(DiagonalMatrix1.type.name, Fault(field="sizes", rule=rule, found=found))
    if x is None:
        return _fill(DiagonalMatrix1, sizes, data_type, out, device, graph, {"value": value}, **bounds)
    exact = (type(value), repr(value)) if isinstance(value, float) else (type(value), value)
    attempt = Attempt(DiagonalMatrix1, device, out, (x,), *exact, *bounds.values())
    if (result := attempt.run()) is not None:
        return result
    call = make_call(DiagonalMatrix1, device, out, x, key=attempt.key)
    kind = call.inputs[0].data_type
    output = described(DiagonalMatrix1, "OutputTensor", kind, call.inputs[0].sizes)
    return call.run(outputs=[output], value_data_type=kind, value=value, **bounds)


def _fill(
    cls: type[OperatorDesc],
    sizes: Any,
    data_type: Any,
    out: Any,
    device: Device | str | None,
    graph: Graph | None,
    values: dict[str, Any],
    **added: Any,
) -> Any:
    faults: list[Fault] = []
    kind = read_enum(DataType, data_type, "data_type", faults, DataType.FLOAT32)
    if graph is not None and not isinstance(graph, Graph):
        rule = "graph must be a Graph, or None"
        faults.append(Fault(field="graph", rule=rule, value=graph, found=show(graph)))
    numbers: dict[str, Any] = {name: read_number(value, dml_name(name), faults) for name, value in values.items()}
    if faults:
        raise DescriptionError(cls.type.name, faults)
    exact = [repr(number) if isinstance(number, float) else number for number in numbers.values()]  # -0.0 equals 0.0
    attempt = Attempt(cls, device, out, (), graph is None, kind, sizes, *exact, *added.values())
    if graph is None and (result := attempt.run()) is not None:
        return result
    output = described(cls, "OutputTensor", kind, sizes)
    call = make_call(cls, device, out, key=attempt.key, graph=graph, names=())
    call.make_room(output.dimension_count)
    if "value_data_type" in cls.field_types():
        added["value_data_type"] = kind
    return call.run(outputs=[output], **numbers, **added)


# CUMULATIVE_SUMMATION and CUMULATIVE_PRODUCT


def cumulative_summation(
    x: Any,
    axis: int,
    axis_direction: AxisDirection | str = AxisDirection.INCREASING,
    has_exclusive_sum: bool = False,
    *,
    allow_float64: bool = False,
    out: Any = None,
    device: Device | str | None = None,
) -> Any:
    """CUMULATIVE_SUMMATION: the running sum along an axis. `out=x` works in place.

    `allow_float64=True` takes float64 as well, which DirectML does not.

    >>> cumulative_summation(np.array([2, 1, 3, 5]), 0)
    array([ 2,  3,  6, 11])
    """
    attempt = Attempt(CumulativeSummation, device, out, (x,), axis, axis_direction, has_exclusive_sum, allow_float64)
    if (result := attempt.run()) is not None:
        return result
    call = make_call(CumulativeSummation, device, out, x, key=attempt.key)
    return call.run(
        axis=call.axis(axis),
        axis_direction=axis_direction,
        has_exclusive_sum=has_exclusive_sum,
        allow_float64=allow_float64,
    )


def cumulative_product(
    x: Any,
    axis: int,
    axis_direction: AxisDirection | str = AxisDirection.INCREASING,
    has_exclusive_product: bool = False,
    *,
    allow_float64: bool = False,
    out: Any = None,
    device: Device | str | None = None,
) -> Any:
    """CUMULATIVE_PRODUCT: the running product along an axis. `out=x` works in place.

    `allow_float64=True` takes float64 as well, which DirectML does not.

    >>> cumulative_product(np.array([2, 1, 3, 5]), 0)
    array([ 2,  2,  6, 30])
    """
    attempt = Attempt(CumulativeProduct, device, out, (x,), axis, axis_direction, has_exclusive_product, allow_float64)
    if (result := attempt.run()) is not None:
        return result
    call = make_call(CumulativeProduct, device, out, x, key=attempt.key)
    return call.run(
        axis=call.axis(axis),
        axis_direction=axis_direction,
        has_exclusive_product=has_exclusive_product,
        allow_float64=allow_float64,
    )


# QUANTIZE and DEQUANTIZE


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
