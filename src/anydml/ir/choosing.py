"""The verbs that choose where elements go: scatters, and the order of elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from anydml.ir.plan import Loops, merge, order, simplify, squeeze
from anydml.ir.verbs import Check, Primitive
from anydml.ir.views import Cut

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.ir.views import View


def _whole(target: View) -> list[Cut]:
    return [Cut(0, 1, size) for size in target.sizes]


class Walks(NamedTuple):
    """How a scatter is walked: for every batch all tuples, in their order, and the block of each."""

    batches: Loops
    """Over the indices, the updates and the target, from where the first batch's first block begins in each."""
    tuples: Loops
    """Over the indices and the updates, in the order of the coordinates."""
    block: Loops
    """Over the updates and the target."""


@dataclass(frozen=True, slots=True)
class Scatter(Primitive):
    """target = base, and then target[b, indices[b, t], …] = updates[b, t, …] for one tuple t after another.

    The sources are the base, which has the target's sizes, the indices and the updates. The first `batch_rank`
    dimensions are common to all; the last dimension of the indices holds the coordinates of a tuple; what a tuple
    leaves of the target is copied whole. A negative index of a signed type counts from the end. A tuple with an index
    outside its dimension is left out, where no check raises. Of equal tuples the last one stays. The target may be the
    very memory of the base.
    """

    batch_rank: int

    @property
    def indices(self) -> View:
        """Where the updates go."""
        return self.sources[1]

    @property
    def updates(self) -> View:
        """The elements that are written there."""
        return self.sources[2]

    @property
    def tuple_size(self) -> int:
        """The coordinates in a tuple."""
        return self.indices.sizes[-1]

    @property
    def indexed(self) -> slice:
        """The target's dimensions that a tuple chooses from."""
        return slice(self.batch_rank, self.batch_rank + self.tuple_size)

    @property
    def check(self) -> Check:
        """That every index is inside its dimension."""
        return Check(self.indices, self.target.sizes[self.indexed], self.batch_rank)

    def may_overwrite(self, target: View) -> bool:
        """The base may be written over, unless it is told from the others by nothing."""
        return all((view.sizes, view.strides) != (target.sizes, target.strides) for view in self.sources[1:])

    def is_in_place(self, places: Mapping[str, int]) -> bool:
        """Whether the base lies where the target does, by the addresses of their tensors: it need not be copied."""
        source, target = self.source, self.target
        begins = [places[view.tensor] + view.offset * view.data_type.size_in_bytes for view in (source, target)]
        return begins[0] == begins[1] and source.strides == target.strides

    def needed(self, cuts: Sequence[Cut]) -> list[Cut]:  # noqa: ARG002 - as others
        """All of it: what a tuple names may lie anywhere."""
        return _whole(self.target)

    def walks(self) -> Walks:
        """Its loops, simplified."""
        indices, updates, target, batch = self.indices, self.updates, self.target, self.batch_rank
        rank = len(indices.sizes) - 1
        strides = (indices.strides[batch:rank], updates.strides[batch:rank])
        tuples = Loops(indices.sizes[batch:rank], strides, (0, 0))
        rest = (updates.strides[rank:], target.strides[batch + self.tuple_size :])
        # A block that runs backwards in the target is walked from its other end: that is where every tuple leads to.
        block = simplify(Loops(updates.sizes[rank:], rest, (updates.offset, target.offset)), 1)
        outer = tuple(view.strides[:batch] for view in (indices, updates, target))
        batches = Loops(indices.sizes[:batch], outer, (indices.offset, *block.offsets))
        return Walks(merge(order(squeeze(batches), 2)), merge(squeeze(tuples)), block)

    def begins(self) -> tuple[int, int, int]:
        """Where its walks begin in the updates, the indices and the target, in bytes from the tensors' addresses."""
        indices, updates, target = self.walks().batches.offsets
        width = self.target.data_type.size_in_bytes
        return updates * width, indices * self.indices.data_type.size_in_bytes, target * width


@dataclass(frozen=True, slots=True)
class Sort(Primitive):
    """target[…, r, …] = the place along an axis of the source's element that comes r-th, for as many as there is room.

    The smallest comes first, or the largest; of equal elements the one that lies first. NaN is larger than all numbers,
    and zeros are equal.
    """

    axis: int
    largest: bool

    def may_overwrite(self, target: View) -> bool:  # noqa: ARG002 - as others
        """Places are none of the elements."""
        return False

    def needed(self, cuts: Sequence[Cut]) -> list[Cut]:  # noqa: ARG002 - as others
        """All of it."""
        return _whole(self.target)
