"""JOIN, SPLIT, TILE, DEPTH_TO_SPACE, SPACE_TO_DEPTH and REVERSE_SUBSEQUENCES: every element somewhere else."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from anydml.core.enums import DataType, DepthSpaceOrder
from anydml.core.errors import Fault
from anydml.core.operator_type import OperatorType
from anydml.ir.expressions import coordinate, fetch, given
from anydml.ir.fetches import reversal
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map
from anydml.ir.views import View
from anydml.operators.lowering import copies_of, split
from anydml.operators.schema.fields import DepthOrder, Input, Inputs, Output, Outputs, SizeArray, Uint
from anydml.operators.schema.records import Computed, OperatorDesc
from anydml.operators.schema.rules import (
    at_least_1,
    axis_of_input,
    exact_sizes,
    fault,
    like_input,
    one_value_per_dimension,
    same_data_type,
    same_dimension_count,
    same_sizes_off_axis,
    sized_as,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.arrays.tensor import TensorDesc
    from anydml.ir.expressions import Expr


class Moved(Computed):
    """One input, and an output of its type in sizes that the attributes imply."""

    sizes_from: ClassVar[str]
    """Where the output's sizes come from, for errors."""

    input_tensor: Input
    output_tensor: Output

    @abc.abstractmethod
    def implied_output_sizes(self) -> tuple[int, ...]:
        """The output's sizes."""

    def output_rules(self) -> Iterator[Fault]:
        """The output is of the input's type, and of the sizes that are implied."""
        yield from same_data_type(self, "OutputTensor", "InputTensor")
        yield from sized_as(self, "OutputTensor", self.implied_output_sizes(), self.sizes_from)

    def views(self) -> tuple[View, View]:
        """The input and the output."""
        return View.of("InputTensor", self.input_tensor), View.of("OutputTensor", self.output_tensor)

    def fetched(self, places: Sequence[Expr]) -> Map:
        """Each element of the output from a place of the input."""
        source, target = self.views()
        return Map((source,), target, fetch(0, source.data_type, places))


# JOIN and SPLIT


def _alike(desc: OperatorDesc, fields: Sequence[str], other: str, axis: int) -> Iterator[Fault]:
    """Check that tensors have the type, the dimension count and off the axis the sizes of another."""
    for field in fields:
        yield from same_data_type(desc, field, other)
        counts = list(same_dimension_count(desc, field, other))
        yield from counts
        if not counts and axis < desc.tensors()[other].dimension_count:
            yield from same_sizes_off_axis(desc, field, other, axis)


def _parts(whole: View, tensors: Sequence[TensorDesc], axis: int) -> Iterator[View]:
    """The parts of a tensor along an axis that others are as large as."""
    start = [0] * len(whole.sizes)
    for tensor in tensors:
        yield whole.window(start, (1,) * len(start), tensor.sizes)
        start[axis] += tensor.sizes[axis]


class Join(OperatorDesc):
    """Puts tensors one after the other along an axis."""

    type = OperatorType.JOIN

    input_tensors: Inputs
    output_tensor: Output
    axis: Uint

    @property
    def input_count(self) -> int:
        """DirectML's InputCount, the number of tensors."""
        return len(self.input_tensors)

    def rules(self) -> Iterator[Fault]:
        """The axis is one of the inputs', which differ along it at most."""
        first, *others = self.inputs()
        yield from axis_of_input(self, self.axis, first)
        yield from _alike(self, others, first, self.axis)

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The inputs', which add up along the axis."""
        sizes = list(self.input_tensors[0].sizes)
        sizes[self.axis] = sum(tensor.sizes[self.axis] for tensor in self.input_tensors)
        return tuple(sizes)

    def output_rules(self) -> Iterator[Fault]:
        """The output is of the inputs' type, and as long as all of them together."""
        first = next(iter(self.inputs()))
        faults = list(_alike(self, ["OutputTensor"], first, self.axis))
        yield from faults
        if any("DimensionCount" in fault.field for fault in faults):
            return
        size, wanted = self.output_tensor.sizes[self.axis], self.implied_output_sizes()[self.axis]
        if size != wanted:
            field = f"OutputTensor.Sizes[{self.axis}]"
            yield fault(field, f"must be {wanted}, the sum of the inputs' sizes along the axis", size)

    def lower(self) -> tuple[Map, ...]:
        """A copy of each input into its part of the output."""
        parts = _parts(View.of("OutputTensor", self.output_tensor), self.input_tensors, self.axis)
        sources = (View.of(name, tensor) for name, tensor in self.inputs().items())
        return tuple(map(copy_of, sources, parts))


class Split(OperatorDesc):
    """Takes a tensor apart along an axis: what JOIN puts together."""

    type = OperatorType.SPLIT
    implies_output = False

    input_tensor: Input
    output_tensors: Outputs
    axis: Uint

    @property
    def output_count(self) -> int:
        """DirectML's OutputCount, the number of tensors."""
        return len(self.output_tensors)

    def rules(self) -> Iterator[Fault]:
        """The axis is one of the input's."""
        yield from axis_of_input(self, self.axis)

    def output_rules(self) -> Iterator[Fault]:
        """The outputs are of the input's type, differ along the axis at most, and add up to the input."""
        faults = list(_alike(self, list(self.outputs()), "InputTensor", self.axis))
        yield from faults
        if any("DimensionCount" in fault.field for fault in faults):
            return
        total, wanted = sum(t.sizes[self.axis] for t in self.output_tensors), self.input_tensor.sizes[self.axis]
        if total != wanted:
            rule = f"the sizes of OutputTensors along the axis must add up to InputTensor.Sizes[{self.axis}], {wanted}"
            yield Fault(field="OutputTensors", rule=rule, value=total, found=str(total))

    def lower(self) -> tuple[Map, ...]:
        """A copy of each part of the input into its output."""
        parts = _parts(View.of("InputTensor", self.input_tensor), self.output_tensors, self.axis)
        targets = (View.of(name, tensor) for name, tensor in self.outputs().items())
        return tuple(map(copy_of, parts, targets))


# TILE, DEPTH_TO_SPACE and SPACE_TO_DEPTH


INT64 = DataType.INT64


class Tile(Moved):
    """A tensor repeated Repeats times in each dimension."""

    fills: ClassVar[Mapping[str, float]] = {"repeats": 1}
    sizes_from: ClassVar[str] = "those of InputTensor times Repeats"

    repeats: SizeArray

    @property
    def repeats_count(self) -> int:
        """DirectML's RepeatsCount, the length of the array."""
        return len(self.repeats)

    def rules(self) -> Iterator[Fault]:
        """There is a number for each dimension, at least 1."""
        yield from one_value_per_dimension(self, "repeats")
        yield from at_least_1(self, "repeats")

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The input's, so many times."""
        return tuple(size * repeat for size, repeat in zip(self.input_tensor.sizes, self.repeats, strict=True))

    def lower(self) -> tuple[Map]:
        """A copy from a view that stands still along each dimension's repeats."""
        source, target = self.views()
        for k in reversed(range(len(source.sizes))):
            size, repeat = source.sizes[k], self.repeats[k]
            if repeat > 1:
                target = split(target, k, repeat, size)
                sizes, strides = list(source.sizes), list(source.strides)
                sizes.insert(k, repeat)
                strides.insert(k, 0)
                source = replace(source, sizes=tuple(sizes), strides=tuple(strides))
        return (copy_of(source, target),)

    def told(self) -> tuple[Map]:
        """Each element with the place that it comes from."""
        return (self.fetched([coordinate(k) % given(n, INT64) for k, n in enumerate(self.input_tensor.sizes)]),)


class _Blocks(Moved):
    """Between channels and the rows and columns of blocks."""

    if TYPE_CHECKING:
        block_size: Uint

    def rules(self) -> Iterator[Fault]:
        """A block has an element, and the input is made of whole blocks."""
        faults = list(at_least_1(self, "block_size"))
        yield from faults
        if not faults and self.input_tensor.dimension_count == 4:
            yield from self._whole_blocks()

    def _whole_blocks(self) -> Iterator[Fault]:
        raise NotImplementedError  # each direction has its own

    def _whole(self, k: int, parts: int, what: str) -> Iterator[Fault]:
        size = self.input_tensor.sizes[k]
        if size % parts:
            yield fault(f"InputTensor.Sizes[{k}]", f"must be a multiple of {what}, {parts}", size)

    def _in_blocks(self, deep: View, wide: View) -> tuple[View, View]:
        """Both tensors as {batch, channel, row, row in its block, column, column in its block}."""
        block = self.block_size
        _, channels, height, width = wide.sizes
        wide = split(split(wide, 3, width // block, block), 2, height // block, block)
        if self._is_depth_first:
            return split(deep, 1, block, block, channels).pick([0, 3, 4, 1, 5, 2]), wide
        return split(deep, 1, channels, block, block).pick([0, 1, 4, 2, 5, 3]), wide

    @property
    def _is_depth_first(self) -> bool:
        order = getattr(self, "order", DepthSpaceOrder.DEPTH_COLUMN_ROW)
        return DepthSpaceOrder(order) is DepthSpaceOrder.DEPTH_COLUMN_ROW


class _DepthToSpace(_Blocks):
    sizes_from: ClassVar[str] = "channels of InputTensor made rows and columns of blocks"

    def _whole_blocks(self) -> Iterator[Fault]:
        yield from self._whole(1, self.block_size**2, "BlockSize²")

    def implied_output_sizes(self) -> tuple[int, ...]:
        """Fewer channels, and more rows and columns."""
        (batch, channels, height, width), block = self.input_tensor.sizes, self.block_size
        return batch, channels // block**2, height * block, width * block

    def lower(self) -> tuple[Map, ...]:
        """A copy in another order."""
        source, target = self._in_blocks(*self.views())
        return copies_of(source, target, len(target.sizes) - 1)

    def told(self) -> tuple[Map]:
        """Each element with the place that it comes from."""
        n, c, y, x = map(coordinate, range(4))
        block, depth = (given(size, INT64) for size in (self.block_size, self.output_tensor.sizes[1]))
        row, column = y % block, x % block
        channel = (row * block + column) * depth + c if self._is_depth_first else (c * block + row) * block + column
        return (self.fetched([n, channel, y / block, x / block]),)


class _SpaceToDepth(_Blocks):
    sizes_from: ClassVar[str] = "rows and columns of blocks of InputTensor made channels"

    def _whole_blocks(self) -> Iterator[Fault]:
        for k in (2, 3):
            yield from self._whole(k, self.block_size, "BlockSize")

    def implied_output_sizes(self) -> tuple[int, ...]:
        """More channels, and fewer rows and columns."""
        (batch, channels, height, width), block = self.input_tensor.sizes, self.block_size
        return batch, channels * block**2, height // block, width // block

    def lower(self) -> tuple[Map]:
        """A copy in another order."""
        source, target = self.views()
        deep, wide = self._in_blocks(target, source)
        return (copy_of(wide, deep),)

    def told(self) -> tuple[Map]:
        """Each element with the place that it comes from."""
        n, k, y, x = map(coordinate, range(4))
        block, depth = (given(size, INT64) for size in (self.block_size, self.input_tensor.sizes[1]))
        in_block, c = (k / depth, k % depth) if self._is_depth_first else (k % (block * block), k / (block * block))
        return (self.fetched([n, c, y * block + in_block / block, x * block + in_block % block]),)


class DepthToSpace(_DepthToSpace):
    """Makes blocks of rows and columns of channels: Output[n, c, h·B + i, w·B + j] = Input[n, (i·B + j)·C + c, h, w].

    B is BlockSize, and C the channels of the output.
    """

    block_size: Uint


class DepthToSpace1(_DepthToSpace):
    """Makes blocks of rows and columns of channels: Output[n, c, h·B + i, w·B + j] = Input[n, k, h, w].

    B is BlockSize, and C the channels of the output. Order says which channel k is: (i·B + j)·C + c in
    DEPTH_COLUMN_ROW, and (c·B + i)·B + j in COLUMN_ROW_DEPTH.
    """

    block_size: Uint
    order: DepthOrder = DepthSpaceOrder.DEPTH_COLUMN_ROW


class SpaceToDepth(_SpaceToDepth):
    """Makes channels of the rows and columns of blocks: Output[n, k, h, w] = Input[n, c, h·B + i, w·B + j].

    B is BlockSize, C the channels of the input, and k is (i·B + j)·C + c.
    """

    block_size: Uint


class SpaceToDepth1(_SpaceToDepth):
    """Makes channels of the rows and columns of blocks: Output[n, k, h, w] = Input[n, c, h·B + i, w·B + j].

    B is BlockSize, and C the channels of the input. Order says which channel k is: (i·B + j)·C + c in
    DEPTH_COLUMN_ROW, and (c·B + i)·B + j in COLUMN_ROW_DEPTH.
    """

    block_size: Uint
    order: DepthOrder = DepthSpaceOrder.DEPTH_COLUMN_ROW


# REVERSE_SUBSEQUENCES


class ReverseSubsequences(OperatorDesc):
    """Reverses the first so many elements along an axis, and copies the rest.

    SequenceLengthsTensor has the input's sizes, but 1 along the axis. A length past the axis's size is that size.
    """

    type = OperatorType.REVERSE_SUBSEQUENCES

    input_tensor: Input
    sequence_lengths_tensor: Input
    output_tensor: Output
    axis: Uint

    def rules(self) -> Iterator[Fault]:
        """The axis is one of the input's, and there is a length for every line along it."""
        faults = [*same_dimension_count(self, "SequenceLengthsTensor", "InputTensor"), *axis_of_input(self, self.axis)]
        yield from faults
        if not faults:
            sizes = [1 if k == self.axis else size for k, size in enumerate(self.input_tensor.sizes)]
            source = "the sizes of InputTensor, but 1 along the axis"
            yield from exact_sizes(self, "SequenceLengthsTensor", sizes, source)

    def output_rules(self) -> Iterator[Fault]:
        """The output is of the input's type and sizes."""
        yield from like_input(self)

    def lower(self) -> tuple[Map]:
        """A map that fetches from the other end of each line's beginning."""
        reverse = reversal(
            source=View.of("InputTensor", self.input_tensor),
            lengths=View.of("SequenceLengthsTensor", self.sequence_lengths_tensor),
            target=View.of("OutputTensor", self.output_tensor),
            axis=self.axis,
        )
        return (reverse,)
