"""SLICE, SLICE1 and SLICE_GRAD: one subregion of a tensor; PADDING and PADDING1: a tensor with more around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from anydml.arrays.tensor import TensorDesc
from anydml.core.enums import DataType, FeatureLevel, PaddingMode
from anydml.core.errors import Fault
from anydml.core.operator_type import OperatorType
from anydml.ir.expressions import const, coordinate, fetch, fetch_or, given, maximum, minimum, where
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map
from anydml.ir.views import View
from anydml.operators.lowering import slabs_around
from anydml.operators.manipulation import Moved
from anydml.operators.schema.fields import (
    Edges,
    Float,
    Input,
    IntArray,
    Output,
    Scalar,
    SizeArray,
    UintArray,
    ValueType,
    as_type,
    saturated,
)
from anydml.operators.schema.records import Computed, OperatorDesc
from anydml.operators.schema.rules import (
    fault,
    names_type_of,
    needs_level,
    one_value_per_dimension,
    same_data_type,
    same_dimension_count,
    sized_as,
    type_faults,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.ir.expressions import Expr


class Slice(OperatorDesc):
    """Copies `sizes` elements from `offsets` on, `strides` apart: Output[i] = Input[offsets + strides·i]."""

    type = OperatorType.SLICE

    input_tensor: Input
    output_tensor: Output
    offsets: UintArray
    sizes: SizeArray
    strides: SizeArray

    @property
    def dimension_count(self) -> int:
        """DirectML's DimensionCount, the length of the arrays."""
        return len(self.offsets)

    def rules(self) -> Iterator[Fault]:
        """Every element copied lies in the input."""
        lengths = list(one_value_per_dimension(self, "offsets", "sizes", "strides"))
        yield from lengths
        for name, values in (("Sizes", self.sizes), ("Strides", self.strides)):
            for i, value in enumerate(values):
                if value < 1:
                    yield fault(f"{name}[{i}]", "must be at least 1", value)
        if lengths:
            return
        window = zip(self.offsets, self.sizes, self.strides, self.input_tensor.sizes, strict=True)
        for i, (offset, size, stride, limit) in enumerate(window):
            last = offset + (size - 1) * stride
            if size >= 1 and stride >= 1 and last >= limit:
                found = f"{offset} + {size - 1} * {stride} >= {limit}"
                yield fault(
                    f"Offsets[{i}]",
                    f"+ (Sizes[{i}] - 1) * Strides[{i}] must be below InputTensor.Sizes[{i}]",
                    (offset, size, stride),
                    found,
                )

    def implied_output_sizes(self) -> tuple[int, ...]:
        """Sizes says them."""
        return tuple(self.sizes)

    def output_rules(self) -> Iterator[Fault]:
        """The output is of the input's type and of Sizes."""
        yield from same_data_type(self, "OutputTensor", "InputTensor")
        yield from sized_as(self, "OutputTensor", self.sizes, "the Sizes of the slice")

    def lower(self) -> tuple[Map]:
        """A copy from the window's view."""
        source = View.of("InputTensor", self.input_tensor)
        target = View.of("OutputTensor", self.output_tensor)
        return (copy_of(source.window(self.offsets, self.strides, self.sizes), target),)


class Slice1(OperatorDesc):
    """Copies from a window of the input; a dimension with a negative stride is walked from the window's end.

    Output[i] = Input[start + strides·i], where start is the window's offset, or its last element for a negative
    stride. The output may take fewer elements than the window holds.
    """

    type = OperatorType.SLICE1

    input_tensor: Input
    output_tensor: Output
    input_window_offsets: UintArray
    input_window_sizes: SizeArray
    input_window_strides: IntArray

    @property
    def dimension_count(self) -> int:
        """DirectML's DimensionCount, the length of the arrays."""
        return len(self.input_window_offsets)

    def rules(self) -> Iterator[Fault]:
        """The window is not empty and lies in the input; no stride stands still."""
        lengths = list(
            one_value_per_dimension(self, "input_window_offsets", "input_window_sizes", "input_window_strides")
        )
        yield from lengths
        for i, stride in enumerate(self.input_window_strides):
            if stride == 0:
                field = f"InputWindowStrides[{i}]"
                yield Fault(field=field, rule=f"{field} must not be 0", value=stride)
        for i, size in enumerate(self.input_window_sizes):
            if size < 1:
                yield fault(f"InputWindowSizes[{i}]", "must be at least 1", size)
        if lengths:
            return
        window = zip(self.input_window_offsets, self.input_window_sizes, self.input_tensor.sizes, strict=True)
        for i, (offset, size, limit) in enumerate(window):
            if offset + size > limit:
                found = f"{offset} + {size} > {limit}"
                yield fault(
                    f"InputWindowOffsets[{i}]",
                    f"+ InputWindowSizes[{i}] must not pass InputTensor.Sizes[{i}]",
                    (offset, size),
                    found,
                )

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The most elements that can be copied: 1 + (size - 1) / |stride|, rounded down."""
        return tuple(
            1 + (size - 1) // abs(stride)
            for size, stride in zip(self.input_window_sizes, self.input_window_strides, strict=True)
        )

    def output_rules(self) -> Iterator[Fault]:
        """The output is of the input's type and takes no more than the window gives."""
        yield from same_data_type(self, "OutputTensor", "InputTensor")
        counts = list(same_dimension_count(self, "OutputTensor", "InputTensor"))
        yield from counts
        if counts:
            return
        for i, (size, most) in enumerate(zip(self.output_tensor.sizes, self.implied_output_sizes(), strict=True)):
            if size > most:
                rule = (
                    f"OutputTensor.Sizes[{i}] must lie in 1 .. {most},"
                    f" 1 + (InputWindowSizes[{i}] - 1) / |InputWindowStrides[{i}]|"
                )
                yield Fault(field=f"OutputTensor.Sizes[{i}]", rule=rule, value=size, found=str(size))

    def input_window(self) -> tuple[Sequence[int], Sequence[int]]:
        """InputWindowOffsets and InputWindowSizes."""
        return self.input_window_offsets, self.input_window_sizes

    def lower(self) -> tuple[Map]:
        """A copy from the window's view."""
        start = [
            offset + (size - 1 if stride < 0 else 0)
            for offset, size, stride in zip(
                self.input_window_offsets, self.input_window_sizes, self.input_window_strides, strict=True
            )
        ]
        source = View.of("InputTensor", self.input_tensor)
        target = View.of("OutputTensor", self.output_tensor)
        return (copy_of(source.window(start, self.input_window_strides, target.sizes), target),)


# SLICE_GRAD


INT64 = DataType.INT64


class SliceGrad(Computed):
    """The gradient of SLICE1 with respect to its input: the incoming one where the slice took, and 0 elsewhere."""

    implies_output = False
    fills: ClassVar[Mapping[str, float]] = {
        "input_window_offsets": 0, "input_window_sizes": 1, "input_window_strides": 1,
    }  # fmt: skip

    input_gradient_tensor: Input
    output_gradient_tensor: Output
    input_window_offsets: UintArray
    input_window_sizes: SizeArray
    input_window_strides: IntArray

    @property
    def dimension_count(self) -> int:
        """DirectML's DimensionCount, the length of the arrays."""
        return len(self.input_window_offsets)

    @property
    def _slice(self) -> Slice1:
        """The slice whose gradient it is."""
        return Slice1(
            input_tensor=TensorDesc(self.output_gradient_tensor.data_type, self.output_gradient_tensor.sizes),
            output_tensor=TensorDesc(self.input_gradient_tensor.data_type, self.input_gradient_tensor.sizes),
            input_window_offsets=self.input_window_offsets,
            input_window_sizes=self.input_window_sizes,
            input_window_strides=self.input_window_strides,
        )

    def rules(self) -> Iterator[Fault]:
        """The gradients are alike."""
        yield from same_data_type(self, "OutputGradientTensor", "InputGradientTensor")
        yield from same_dimension_count(self, "OutputGradientTensor", "InputGradientTensor")

    def output_rules(self) -> Iterator[Fault]:
        """A slice of the output with these attributes gives the input."""
        forward = self._slice
        faults = list(forward.rules())
        for one in faults or forward.output_rules():
            yield _renamed(one)

    def _walk(self) -> tuple[list[int], list[int]]:
        """Where the first element goes, and how far on the next ones do; of a single one no step means anything."""
        sizes = self.input_gradient_tensor.sizes
        steps = [stride if size > 1 else 1 for stride, size in zip(self.input_window_strides, sizes, strict=True)]
        window = zip(self.input_window_offsets, self.input_window_sizes, self.input_window_strides, strict=True)
        return [offset + (size - 1 if stride < 0 else 0) for offset, size, stride in window], steps

    def lower(self) -> tuple[Map, ...]:
        """A copy into the window, and 0 around it; with gaps between its elements a map that looks at each."""
        source = View.of("InputGradientTensor", self.input_gradient_tensor)
        target = View.of("OutputGradientTensor", self.output_gradient_tensor)
        count = source.sizes
        start, steps = self._walk()
        if all(abs(step) == 1 for step in steps):
            low = [at if step > 0 else at - size + 1 for at, step, size in zip(start, steps, count, strict=True)]
            return (copy_of(source, target.window(start, steps, count)), *slabs_around(target, low, count, 0))
        return self.told()

    def told(self) -> tuple[Map]:
        """Each element with the place that it comes from, where there is one."""
        source = View.of("InputGradientTensor", self.input_gradient_tensor)
        target = View.of("OutputGradientTensor", self.output_gradient_tensor)
        start, steps = self._walk()
        is_taken, places = const(True, None), []
        for k, (at, step, size) in enumerate(zip(start, steps, source.sizes, strict=True)):
            behind = (coordinate(k) - given(at, INT64)) * (1 if step > 0 else -1)
            by = given(abs(step), INT64)
            # Cut toward 0, what lies before the first has a remainder or is below 0.
            number = behind / by
            is_taken = is_taken & (behind >= 0) & (number * by).equals(behind) & (number < given(size, INT64))
            places.append(minimum(maximum(number, 0), given(size - 1, INT64)))
        kind = source.data_type
        return (Map((source,), target, where(is_taken, fetch(0, kind, places), given(0, kind))),)


def _renamed(fault: Fault) -> Fault:
    """A fault of the slice as its gradient has it: what one takes the other gives."""

    def change(text: str) -> str:
        return text.replace("OutputTensor", "InputGradientTensor").replace(" InputTensor", " OutputGradientTensor")

    return replace(fault, field=change(f" {fault.field}").strip(), rule=change(f" {fault.rule}").strip())


# PADDING

_LEVELS = {PaddingMode.SYMMETRIC: FeatureLevel.LEVEL_3_0, PaddingMode.WRAP: FeatureLevel.LEVEL_6_4}


def place(mode: PaddingMode, at: Expr, size: int, low: int, high: int) -> Expr:
    """The index that an element of a padded dimension comes from."""
    if not low and not high:
        return at
    last, at = given(size - 1, INT64), at - given(low, INT64)
    if mode is PaddingMode.EDGE or size == 1:
        return minimum(maximum(at, 0), last)
    # Below 0 and past the last element it goes back, or in a wrap on from the other end.
    top = {PaddingMode.REFLECTION: 2 * size - 2, PaddingMode.SYMMETRIC: 2 * size - 1}.get(mode, -size)
    period = size if mode is PaddingMode.WRAP else 2 * size - (mode is PaddingMode.REFLECTION) * 2
    if max(low, high) > size - (mode is PaddingMode.REFLECTION):  # more than once
        at = (at + given(low - low % -period, INT64)) % given(period, INT64)
    elif mode is PaddingMode.WRAP:
        at = where(at < 0, at + given(size, INT64), at)
    else:
        at = where(at < 0, given(top - period, INT64) - at, at)
    return where(at <= last, at, at + given(top, INT64) if mode is PaddingMode.WRAP else given(top, INT64) - at)


class _Padded(Moved):
    """The shared part of the two."""

    fills: ClassVar[Mapping[str, float]] = {"start_padding": 0, "end_padding": 0}
    sizes_from: ClassVar[str] = "those of InputTensor with StartPadding and EndPadding"
    if TYPE_CHECKING:
        padding_mode: Edges
        start_padding: UintArray
        end_padding: UintArray

    @property
    def dimension_count(self) -> int:
        """DirectML's DimensionCount, the length of the arrays."""
        return len(self.start_padding)

    @property
    def filling(self) -> float:
        """PaddingValue as the tensors' type has it."""
        raise NotImplementedError  # each reads its own

    def rules(self) -> Iterator[Fault]:
        """There is a padding for each dimension."""
        yield from one_value_per_dimension(self, "start_padding", "end_padding")

    def attribute_level_faults(self, level: FeatureLevel, where: str) -> Iterator[Fault]:
        """Two modes came later."""
        yield from super().attribute_level_faults(level, where)
        mode = PaddingMode(self.padding_mode)
        if mode in _LEVELS:
            yield from needs_level("PaddingMode", mode.name, _LEVELS[mode], level, where)

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The input's, and what is added."""
        return tuple(
            low + size + high
            for low, size, high in zip(self.start_padding, self.input_tensor.sizes, self.end_padding, strict=True)
        )

    def lower(self) -> tuple[Map, ...]:
        """Fills around a copy; or each element from its place."""
        source, target = self.views()
        if PaddingMode(self.padding_mode) is not PaddingMode.CONSTANT:
            return self.told()
        inside = target.window(self.start_padding, (1,) * len(source.sizes), source.sizes)
        return (copy_of(source, inside), *slabs_around(target, self.start_padding, source.sizes, self.filling))

    def told(self) -> tuple[Map, ...]:
        """Each element with the place that it comes from."""
        source, target = self.views()
        mode, kind, dimensions = PaddingMode(self.padding_mode), source.data_type, range(len(source.sizes))
        if mode is PaddingMode.CONSTANT:
            at = [coordinate(k) - given(self.start_padding[k], INT64) for k in dimensions]
            return (Map((source,), target, fetch_or(0, kind, at, source.sizes, given(self.filling, kind))),)
        paddings = zip(source.sizes, self.start_padding, self.end_padding, strict=True)
        return (self.fetched([place(mode, coordinate(k), *numbers) for k, numbers in enumerate(paddings)]),)


class Padding(_Padded):
    """A tensor with StartPadding elements before it and EndPadding after it, in each dimension.

    PaddingMode says what they are: PaddingValue, the nearest element (EDGE), the elements reflected at the edge
    (REFLECTION), those and the edge itself (SYMMETRIC), or those from the other end on (WRAP). Paddings larger than
    the tensor go on in the same way; a dimension of one element repeats it, which the documents leave open. Of integers
    PaddingValue loses its fraction, and is at the nearer end of their range.
    """

    padding_mode: Edges = PaddingMode.CONSTANT
    padding_value: Float = 0.0
    start_padding: UintArray
    end_padding: UintArray

    @property
    def filling(self) -> float:
        """A FLOAT, of integers without its fraction."""
        return saturated(self.padding_value, self.input_tensor.data_type)


class Padding1(_Padded):
    """A tensor with StartPadding elements before it and EndPadding after it, in each dimension.

    PaddingMode says what they are: PaddingValue, the nearest element (EDGE), the elements reflected at the edge
    (REFLECTION), those and the edge itself (SYMMETRIC), or those from the other end on (WRAP). Paddings larger than
    the tensor go on in the same way; a dimension of one element repeats it, which the documents leave open.
    PaddingValue is of the tensor's type.
    """

    padding_mode: Edges = PaddingMode.CONSTANT
    padding_value_data_type: ValueType
    padding_value: Scalar = 0
    start_padding: UintArray
    end_padding: UintArray

    @property
    def filling(self) -> float:
        """A number of the type."""
        return as_type(self.padding_value, self.input_tensor.data_type)

    def rules(self) -> Iterator[Fault]:
        """PaddingValue is of the type that is said, the input's."""
        yield from super().rules()
        yield from type_faults(self.padding_value, DataType(self.padding_value_data_type), "PaddingValue")
        yield from names_type_of(self, "padding_value_data_type", "InputTensor")
