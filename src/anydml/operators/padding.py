"""PADDING and PADDING1: a tensor with more around it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping  # noqa: TC003 - read at run time
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from anydml.enums import DataType, FeatureLevel, PaddingMode
from anydml.errors import Fault
from anydml.ir.expressions import coordinate, fetch, fetch_or, given, maximum, minimum, where
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map
from anydml.operators.fields import Edges, Float, Scalar, UintArray, ValueType  # noqa: TC001 - read at run time
from anydml.operators.moved import Moved, around, needs_level
from anydml.operators.rules import one_value_per_dimension
from anydml.operators.scalars import as_type, saturated, type_faults

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.ir.expressions import Expr

MOST_COPIES = 27
"""Copies that a tensor with edges repeated is put together of: of three dimensions each has a beginning, a middle and
an end. What would take more finds places by arithmetic."""
INT64 = DataType.INT64
_LEVELS = {PaddingMode.SYMMETRIC: FeatureLevel.LEVEL_3_0, PaddingMode.WRAP: FeatureLevel.LEVEL_6_4}


class Piece(NamedTuple):
    """Elements in a row along a dimension: those from `start` on are of `source` on, a step apart."""

    start: int
    length: int
    source: int
    step: int


def pieces(mode: PaddingMode, size: int, low: int, high: int) -> list[Piece]:
    """A padded dimension in pieces; none where there are too many to be worth it."""
    if mode is PaddingMode.EDGE or size == 1:
        found = [Piece(0, low, 0, 0), Piece(low, size, 0, 1), Piece(low + size, high, size - 1, 0)]
        return [piece for piece in found if piece.length]
    # Numbered by how often the tensor was passed: even ones run forward, odd ones back unless it wraps. A reflection
    # has the edges once, in the pieces that run forward.
    period = size - 1 if mode is PaddingMode.REFLECTION else size
    first, last = -(-low // period) + 1, (size + high - 1) // period
    if last + first > MOST_COPIES:
        return []
    found = []
    for number in range(-first, last + 1):
        is_back = number % 2 == 1 and mode is not PaddingMode.WRAP
        gap = int(mode is PaddingMode.REFLECTION)
        begin = number * period + (gap if is_back else 0)
        end = number * period + (period if is_back else size)
        source, step = (size - 1 - gap, -1) if is_back else (0, 1)
        skipped = max(-low - begin, 0)
        count = min(end, size + high) - begin - skipped
        if count > 0:
            found.append(Piece(begin + skipped + low, count, source + step * skipped, step))
    return found


def place(mode: PaddingMode, at: Expr, size: int, low: int) -> Expr:
    """The index that an element of a padded dimension comes from."""
    last = given(size - 1, INT64)
    if mode is PaddingMode.EDGE or size == 1:
        return minimum(maximum(at - given(low, INT64), 0), last)
    period = {PaddingMode.REFLECTION: 2 * size - 2, PaddingMode.SYMMETRIC: 2 * size}.get(mode, size)
    inside = (at + given(-low % period, INT64)) % given(period, INT64)
    if mode is PaddingMode.WRAP:
        return inside
    top = 2 * size - 2 if mode is PaddingMode.REFLECTION else 2 * size - 1
    return where(inside <= last, inside, given(top, INT64) - inside)


class _Padded(Moved):
    """What the two share."""

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
        """Copies of pieces; or fills around a copy."""
        source, target = self.views()
        mode, sizes, ones = PaddingMode(self.padding_mode), source.sizes, (1,) * len(source.sizes)
        if mode is PaddingMode.CONSTANT:
            inside = target.window(self.start_padding, ones, sizes)
            return (copy_of(source, inside), *around(target, self.start_padding, sizes, self.filling))
        several: list[list[Piece]] = []
        for size, low, high in reversed(list(zip(sizes, self.start_padding, self.end_padding, strict=True))):
            found = pieces(mode, size, low, high)
            fits = found and math.prod(map(len, filter(None, several))) * len(found) <= MOST_COPIES
            several.insert(0, found if fits else [])
        choices: list[list[Piece | None]] = [[*found] or [None] for found in several]
        return tuple(self._part(mode, parts) for parts in itertools.product(*choices))

    def _part(self, mode: PaddingMode, parts: Sequence[Piece | None]) -> Map:
        """What goes to a piece of the output, or in a dimension without pieces to all of it."""
        source, target = self.views()
        ones, cut = (1,) * len(parts), list(enumerate(parts))
        into = target.window(
            [part.start if part else 0 for part in parts],
            ones,
            [part.length if part else target.sizes[k] for k, part in cut],
        )
        start = [part.source if part else 0 for part in parts]
        steps = [part.step if part else 1 for part in parts]
        window = source.window(start, steps, [part.length if part else source.sizes[k] for k, part in cut])
        if all(parts):
            return copy_of(window, into)
        return Map((window,), into, fetch(0, source.data_type, [self._index(k, mode, part) for k, part in cut]))

    def _index(self, k: int, mode: PaddingMode, part: Piece | None = None) -> Expr:
        at = coordinate(k)
        return at if part else place(mode, at, self.input_tensor.sizes[k], self.start_padding[k])

    def told(self) -> tuple[Map, ...]:
        """Each element with the place that it comes from."""
        source, target = self.views()
        mode, kind, dimensions = PaddingMode(self.padding_mode), source.data_type, range(len(source.sizes))
        if mode is PaddingMode.CONSTANT:
            at = [coordinate(k) - given(self.start_padding[k], INT64) for k in dimensions]
            return (Map((source,), target, fetch_or(0, kind, at, source.sizes, given(self.filling, kind))),)
        return (self.fetched([self._index(k, mode) for k in dimensions]),)


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
