"""TILE, DEPTH_TO_SPACE and SPACE_TO_DEPTH: every element somewhere else, once or several times."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - read at run time
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from anydml.enums import DataType, DepthSpaceOrder
from anydml.errors import Fault
from anydml.ir.expressions import coordinate, given
from anydml.ir.patterns import copy_of
from anydml.operators.fields import DepthOrder, SizeArray, Uint  # noqa: TC001 - read at run time
from anydml.operators.moved import Moved, at_least_1, copies_of, split
from anydml.operators.rules import one_value_per_dimension

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.ir.verbs import Map
    from anydml.ir.views import View


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
            rule = f"InputTensor.Sizes[{k}] must be a multiple of {what}, {parts}"
            yield Fault(field=f"InputTensor.Sizes[{k}]", rule=rule, value=size, found=str(size))

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
