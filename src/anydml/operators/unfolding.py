"""FOLD and UNFOLD: windows of a tensor as columns, and columns summed into a tensor."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from anydml.core.enums import DataType
from anydml.core.errors import Fault
from anydml.ir.expressions import const, coordinate, fetch, fetch_or, fold, given, maximum, minimum, where
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map, Reduce
from anydml.ir.views import View
from anydml.operators.computed import Computed
from anydml.operators.fields import Input, Output, PerDimension, SizeArray  # noqa: TC001 - read at run time
from anydml.operators.moved import around, at_least_1, split, temporary
from anydml.operators.rules import exact_sizes, same_data_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.arrays.tensor import TensorDesc
    from anydml.ir.expressions import Expr

INT64 = DataType.INT64
_COLUMNS = 3
"""The dimensions of a tensor of columns: batch, what a window holds, and windows."""
_ARRAYS = ("window_sizes", "strides", "dilations", "start_padding", "end_padding")


class _Windows(Computed):
    """The shared part of the two: windows over all dimensions but the first two."""

    if TYPE_CHECKING:
        window_sizes: SizeArray
        strides: PerDimension
        dilations: PerDimension
        start_padding: PerDimension
        end_padding: PerDimension

    def __post_init__(self) -> None:
        """One number for all dimensions is written out first."""
        count = len(self.window_sizes) if isinstance(self.window_sizes, (list, tuple)) else 1
        for name in _ARRAYS[1:]:
            value = getattr(self, name)
            if type(value) is int:
                object.__setattr__(self, name, (value,) * count)
        super().__post_init__()

    def each(self, name: str) -> tuple[int, ...]:
        """The numbers of a field."""
        found: tuple[int, ...] = getattr(self, name)
        return found

    @property
    def dimension_count(self) -> int:
        """DirectML's DimensionCount, the length of the arrays."""
        return len(self.window_sizes)

    def _array_rules(self) -> Iterator[Fault]:
        """The arrays are as long as one another, and sizes at least 1."""
        for name in _ARRAYS[1:]:
            mine, count = self.each(name), len(self.window_sizes)
            if len(mine) != count:
                field = "".join(word.capitalize() for word in name.split("_"))
                rule = f"{field} must have {count} values, as many as WindowSizes"
                yield Fault(field=field, rule=rule, value=mine, found=str(len(mine)))
        yield from at_least_1(self, "window_sizes", "strides", "dilations")

    def _image_rules(self, field: str, image: TensorDesc) -> Iterator[Fault]:
        """A window fits into each dimension."""
        sizes = image.sizes
        if len(sizes) != self.dimension_count + 2:
            rule = f"{field}.DimensionCount must be {self.dimension_count + 2}, two more than WindowSizes has values"
            yield Fault(field=f"{field}.DimensionCount", rule=rule, value=len(sizes), found=str(len(sizes)))
            return
        for k, count in enumerate(self._blocks(image)):
            if count < 1:
                rule = f"{field}.Sizes[{k + 2}] with its padding must be at least as large as a window"
                yield Fault(field=f"{field}.Sizes[{k + 2}]", rule=rule, value=sizes[k + 2], found=str(sizes[k + 2]))

    def _blocks(self, image: TensorDesc) -> tuple[int, ...]:
        """How many windows there are in each dimension."""
        every = zip(image.sizes[2:], *map(self.each, _ARRAYS), strict=True)
        return tuple(
            (size + low + high - dilation * (window - 1) - 1) // stride + 1
            for size, window, stride, dilation, low, high in every
        )

    def _column_sizes(self, image: TensorDesc) -> tuple[int, int, int]:
        channels = image.sizes[1] * math.prod(self.window_sizes)
        return image.sizes[0], channels, math.prod(self._blocks(image))

    def _columns(self, view: View, image: TensorDesc) -> View:
        """{batch, channel, place in a window …, window …}."""
        view = split(view, 1, image.sizes[1], *self.window_sizes)
        return split(view, len(view.sizes) - 1, *self._blocks(image))


class Unfold(_Windows):
    """The windows of a tensor {N, C, …}, each as a column of the output {N, C·window, windows}.

    Windows begin Strides apart, and their elements are Dilations apart; StartPadding and EndPadding are zeros around.
    """

    result_rank: ClassVar[int | None] = _COLUMNS

    input_tensor: Input
    output_tensor: Output
    window_sizes: SizeArray
    strides: PerDimension = 1
    dilations: PerDimension = 1
    start_padding: PerDimension = 0
    end_padding: PerDimension = 0

    def rules(self) -> Iterator[Fault]:
        """The arrays fit the input, and a window does."""
        faults = list(self._array_rules())
        yield from faults or self._image_rules("InputTensor", self.input_tensor)

    def implied_output_sizes(self) -> tuple[int, ...]:
        """Batch, what a window holds, and windows."""
        return self._column_sizes(self.input_tensor)

    def output_rules(self) -> Iterator[Fault]:
        """The output is of the input's type, and of the columns' sizes."""
        yield from same_data_type(self, "OutputTensor", "InputTensor")
        yield from exact_sizes(self, "OutputTensor", self.implied_output_sizes(), "{N, C·window, windows}")

    def lower(self) -> tuple[Map, ...]:
        """A copy from a view in which windows overlap, of the input with zeros around it."""
        source, steps = View.of("InputTensor", self.input_tensor), []
        start, end = ((0, 0, *self.each(name)) for name in ("start_padding", "end_padding"))
        if any((*start, *end)):
            sizes = [low + size + high for low, size, high in zip(start, source.sizes, end, strict=True)]
            padded = temporary("padded", source.data_type, sizes)
            inside = padded.window(start, (1,) * len(sizes), source.sizes)
            steps = [copy_of(source, inside), *around(padded, start, source.sizes, 0)]
            source = padded
        along = source.strides[2:]
        within = (stride * dilation for stride, dilation in zip(along, self.each("dilations"), strict=True))
        between = (stride * step for stride, step in zip(along, self.each("strides"), strict=True))
        sizes = [*source.sizes[:2], *self.window_sizes, *self._blocks(self.input_tensor)]
        strides = (*source.strides[:2], *within, *between)
        windows = View(source.tensor, source.data_type, tuple(sizes), strides, source.offset)
        columns = self._columns(View.of("OutputTensor", self.output_tensor), self.input_tensor)
        return (*steps, copy_of(windows, columns))

    def told(self) -> tuple[Map]:
        """Each element with the place that it comes from, where there is one."""
        source, target = View.of("InputTensor", self.input_tensor), View.of("OutputTensor", self.output_tensor)
        rest, block = coordinate(1), coordinate(2)
        at: list[Expr] = []
        numbers = zip(*map(self.each, _ARRAYS[:4]), self._blocks(self.input_tensor), strict=True)
        for window, stride, dilation, padding, blocks in reversed(list(numbers)):
            size, count = given(window, INT64), given(blocks, INT64)
            place = block % count * given(stride, INT64) + rest % size * given(dilation, INT64)
            at.insert(0, place - given(padding, INT64))
            rest, block = rest / size, block / count
        kind = source.data_type
        value = fetch_or(0, kind, [coordinate(0), rest, *at], source.sizes, given(0, kind))
        return (Map((source,), target, value),)


class Fold(_Windows):
    """Sums columns {N, C·window, windows} into a tensor {N, C, …}: each is a window, and windows overlap.

    Windows begin Strides apart, and their elements are Dilations apart; what falls on StartPadding and EndPadding is
    left out. Sums of floats accumulate in FLOAT64, those of integers wrap.
    """

    implies_output = False

    input_tensor: Input
    output_tensor: Output
    window_sizes: SizeArray
    strides: PerDimension = 1
    dilations: PerDimension = 1
    start_padding: PerDimension = 0
    end_padding: PerDimension = 0

    def rules(self) -> Iterator[Fault]:
        """The arrays fit one another."""
        yield from self._array_rules()

    def output_rules(self) -> Iterator[Fault]:
        """The output's windows are the input's columns."""
        yield from same_data_type(self, "OutputTensor", "InputTensor")
        faults = list(self._image_rules("OutputTensor", self.output_tensor))
        yield from faults
        if not faults:
            wanted = self._column_sizes(self.output_tensor)
            yield from exact_sizes(self, "InputTensor", wanted, "{N, C·window, windows} of OutputTensor")

    def lower(self) -> tuple[Reduce]:
        """For each element the sum over the places that it has in windows."""
        columns = self._columns(View.of("InputTensor", self.input_tensor), self.output_tensor)
        target, count = View.of("OutputTensor", self.output_tensor), self.dimension_count
        is_there, places, blocks = const(True, None), [], []
        numbers = zip(*map(self.each, ("start_padding", "dilations", "strides")), strict=True)
        every = zip(self._blocks(self.output_tensor), numbers, strict=True)
        for k, (windows, (padding, dilation, stride)) in enumerate(every):
            place, by = coordinate(count + 2 + k), given(stride, INT64)
            begin = coordinate(2 + k) + given(padding, INT64) - place * given(dilation, INT64)
            # Cut toward 0, what lies before the first has a remainder or is below 0.
            number = begin / by
            is_there = is_there & (begin >= 0) & (number * by).equals(begin) & (number < given(windows, INT64))
            places.append(place)
            blocks.append(minimum(maximum(number, 0), given(windows - 1, INT64)))
        kind = columns.data_type
        element = where(is_there, fetch(0, kind, [coordinate(0), coordinate(1), *places, *blocks]), given(0, kind))
        sums = DataType.FLOAT64 if kind.is_float else kind
        by_row = View(
            target.tensor, kind, (*target.sizes, *(1,) * count), (*target.strides, *(0,) * count), target.offset
        )
        value = fold("sum", element.to(sums)).to(kind)
        return (Reduce((columns,), by_row, value, count, rows=tuple(self.window_sizes)),)
