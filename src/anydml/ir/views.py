"""Views: which elements of a tensor's memory a verb reads or writes, in which order; and where one view's elements lie
among another's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from anydml.core.guards import cached, tape_on

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.arrays.tensor import TensorDesc
    from anydml.core.enums import DataType


class IndexRange(NamedTuple):
    """The kept part of a dimension: `size` indices, `step` apart, from `start` on."""

    start: int
    step: int
    size: int


@dataclass(frozen=True, slots=True)
class View:
    """Part of a bound tensor: element i lies at offset + the sum of i[k]·strides[k], in elements."""

    tensor: str
    """The bind point whose memory this is: `InputTensor`."""
    data_type: DataType
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    """From the tensor's own first element."""

    def __hash__(self) -> int:
        """Where sizes are symbols all views of a tensor meet in a dict: whether two are equal is a guard then."""
        if tape_on() is not None:
            return hash((self.tensor, self.data_type))
        return hash((self.tensor, self.data_type, self.sizes, self.strides, self.offset))

    @classmethod
    def of(cls, tensor: str, desc: TensorDesc) -> View:
        """The whole of a described tensor."""
        return cls(tensor, desc.data_type, desc.sizes, _meaningful(desc.sizes, desc.element_strides))

    def window(self, start: Sequence[int], steps: Sequence[int], sizes: Sequence[int]) -> View:
        """The elements start + steps·i for i below sizes, in each dimension."""
        offset = self.offset + sum(s * stride for s, stride in zip(start, self.strides, strict=True))
        strides = tuple(step * stride for step, stride in zip(steps, self.strides, strict=True))
        return View(self.tensor, self.data_type, tuple(sizes), _meaningful(sizes, strides), offset)

    def named(self, tensor: str) -> View:
        """The same elements of another tensor's memory."""
        return View(tensor, self.data_type, self.sizes, self.strides, self.offset)

    def pick(self, dimensions: Sequence[int]) -> View:
        """The same elements with the dimensions in another order."""
        sizes, strides = ([of[k] for k in dimensions] for of in (self.sizes, self.strides))
        return View(self.tensor, self.data_type, tuple(sizes), tuple(strides), self.offset)

    def last(self, dimension_count: int) -> View:
        """The last dimensions alone; those before them have size 1."""
        first = len(self.sizes) - dimension_count
        return View(self.tensor, self.data_type, self.sizes[first:], self.strides[first:], self.offset)


def _meaningful(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Strides with 0 where a size of 1 leaves them without meaning: there they may be of any size."""
    return tuple(stride if size > 1 else 0 for size, stride in zip(sizes, strides, strict=True))


# Where a reader's elements lie among those of a target.


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

    None where the target's strides do not nest, where elements differ in width, where the reader leaves the target,
    and where a dimension of the reader runs on from one line of the target to the next.
    """
    if reader.data_type.size_in_bytes != target.data_type.size_in_bytes:
        return None
    told = (reader.sizes, reader.strides, reader.offset - target.offset, target.sizes, target.strides)
    return _trace(*told)


@cached(4096)  # layers are alike, and a rule asks again what another asked
def _trace(
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    offset: int,
    target_sizes: tuple[int, ...],
    target_strides: tuple[int, ...],
) -> Trace | None:
    indices_at = indices_in(target_sizes, target_strides)
    first = None if indices_at is None else indices_at(offset)
    if indices_at is None or first is None:
        return None
    columns = []
    for size, stride in zip(sizes, strides, strict=True):
        second = first if size == 1 or stride == 0 else indices_at(offset + stride)
        if second is None:
            return None
        columns.append([b - a for a, b in zip(first, second, strict=True)])
    steps = tuple(tuple(column[k] for column in columns) for k in range(len(target_sizes)))
    found = Trace(tuple(first), steps)
    for k, size in enumerate(target_sizes):
        low, high = found.bounds(k, sizes)
        if low < 0 or high >= size:
            return None
    return found


def indices_in(sizes: tuple[int, ...], strides: tuple[int, ...]) -> Callable[[int], list[int] | None] | None:
    """A function from an element's distance to the first to its indices in a target, as digits are told from a number.

    For that the target's strides must nest, each passing everything below it. A place that is none of the target's
    has no indices, or some that are outside of its sizes.
    """
    digits = sorted((abs(stride), k) for k, stride in enumerate(strides) if sizes[k] > 1)
    lowest = reach = 0
    for stride, k in digits:
        if stride <= reach:
            return None
        reach += (sizes[k] - 1) * stride
        lowest += min((sizes[k] - 1) * strides[k], 0)

    def indices_at(place: int) -> list[int] | None:
        found, left = [0] * len(sizes), place - lowest
        for stride, k in reversed(digits):
            found[k], left = divmod(left, stride)
            if strides[k] < 0:
                found[k] = sizes[k] - 1 - found[k]
        return None if left else found

    return indices_at
