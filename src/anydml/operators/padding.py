"""PADDING and PADDING1: a tensor with more around it."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - read at run time
from typing import TYPE_CHECKING, ClassVar

from anydml.core.enums import DataType, FeatureLevel, PaddingMode
from anydml.core.errors import Fault
from anydml.ir.expressions import coordinate, fetch_or, given, maximum, minimum, where
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map
from anydml.operators.fields import Edges, Float, Scalar, UintArray, ValueType  # noqa: TC001 - read at run time
from anydml.operators.moved import Moved, around, needs_level
from anydml.operators.rules import one_value_per_dimension
from anydml.operators.scalars import as_type, saturated, type_faults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.ir.expressions import Expr

INT64 = DataType.INT64
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
        return (copy_of(source, inside), *around(target, self.start_padding, source.sizes, self.filling))

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
        mine, theirs = DataType(self.padding_value_data_type), self.input_tensor.data_type
        yield from type_faults(self.padding_value, mine, "PaddingValue")
        if mine != theirs:
            rule = f"PaddingValueDataType must be InputTensor.DataType, {theirs.name}"
            yield Fault(field="PaddingValueDataType", rule=rule, value=mine, found=mine.name)
