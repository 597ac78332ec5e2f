"""Views of views: where one view's elements lie among another's, and what a copy's reader would read at its source."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.plan import loops_of, simplify
from anydml.primitives import View

if TYPE_CHECKING:
    from collections.abc import Sequence


class Trace(NamedTuple):
    """Where a reader's elements lie in a target: element i at index first[k] + Σ i[m]·steps[k][m] of dimension k."""

    first: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]
    """By the target's dimension, then by the reader's."""

    def bounds(self, k: int, sizes: Sequence[int]) -> tuple[int, int]:
        """The least and the greatest index of the target's dimension k that a reader of these sizes takes."""
        reach = [(size - 1) * step for size, step in zip(sizes, self.steps[k], strict=True)]
        return self.first[k] + sum(r for r in reach if r < 0), self.first[k] + sum(r for r in reach if r > 0)


def trace(reader: View, target: View) -> Trace | None:
    """Find a reader's elements among those of a target in the same store.

    The target's strides must nest, each passing everything below it, so that a place says its indices as a number
    says its digits. None where they do not, where elements differ in width, where the reader leaves the target, and
    where a dimension of the reader runs on from one line of the target to the next.
    """
    if reader.data_type.size_in_bytes != target.data_type.size_in_bytes:
        return None
    digits = sorted(
        (
            (abs(stride), k)
            for k, (size, stride) in enumerate(zip(target.sizes, target.strides, strict=True))
            if size > 1
        )
    )
    lowest, reach = target.offset, 0
    for stride, k in digits:
        if stride <= reach:
            return None
        reach += (target.sizes[k] - 1) * stride
        lowest += min((target.sizes[k] - 1) * target.strides[k], 0)

    def indices(place: int) -> list[int] | None:
        found, left = [0] * len(target.sizes), place - lowest
        for stride, k in reversed(digits):
            found[k], left = divmod(left, stride)
            if target.strides[k] < 0:
                found[k] = target.sizes[k] - 1 - found[k]
        return None if left else found

    first = indices(reader.offset)
    if first is None:
        return None
    columns = []
    for size, stride in zip(reader.sizes, reader.strides, strict=True):
        second = first if size == 1 or stride == 0 else indices(reader.offset + stride)
        if second is None:
            return None
        columns.append([b - a for a, b in zip(first, second, strict=True)])
    steps = tuple(tuple(column[k] for column in columns) for k in range(len(target.sizes)))
    found = Trace(tuple(first), steps)
    for k, size in enumerate(target.sizes):
        low, high = found.bounds(k, reader.sizes)
        if low < 0 or high >= size:
            return None
    return found


def through(reader: View, target: View, source: View) -> View | None:
    """The view of the source's store that reads what `reader` does of what a copy from source to target left there.

    The bits are the same and their type is the reader's. None where no view does, or none that is easily found.
    """
    loops = simplify(loops_of(source, target), 1)
    found = trace(reader, View(target.tensor, target.data_type, loops.sizes, loops.strides[1], loops.offsets[1]))
    if found is None or source.data_type.size_in_bytes != target.data_type.size_in_bytes:
        return None
    rows = list(zip(loops.strides[0], found.first, found.steps, strict=True))
    strides = tuple(sum(stride * steps[m] for stride, _, steps in rows) for m in range(len(reader.sizes)))
    offset = loops.offsets[0] + sum(stride * index for stride, index, _ in rows)
    return View(source.tensor, reader.data_type, reader.sizes, strides, offset)
