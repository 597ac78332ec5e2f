"""The memory plan, after the passes: scratch stores share one arena by their liveness, and some lie in the place of
what a step reads last.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

from anydml.core.guards import tape_on
from anydml.core.symbolic_sizes import greatest, present
from anydml.graph.check import byte_span
from anydml.ir.bounds import BoundsError, Span, check_views
from anydml.ir.contraction import adds_to_product
from anydml.ir.patterns import is_copy
from anydml.ir.verbs import Reduce

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from anydml.arrays.tensor import TensorDesc
    from anydml.core.memory import Buffer
    from anydml.graph.recipe import Recipe, Step
    from anydml.ir.views import View

ALIGNMENT = 256
"""Of every store's place, in bytes."""


@dataclass(frozen=True, slots=True)
class Arena:
    """Where scratch stores lie in one range of memory that begins at a multiple of ALIGNMENT."""

    offsets: Mapping[str, int]
    """In bytes, by store."""
    size_in_bytes: int

    def placed(self, places: Mapping[str, int], memory: Buffer | None) -> Mapping[str, int]:
        """The addresses of stores, with those of the scratch stores added."""
        if memory is None:
            return places
        return {**places, **{name: memory.address + offset for name, offset in self.offsets.items()}}


@dataclass(slots=True)
class _Block:
    """Memory that one store after another uses, from one step to another, both included."""

    size: int
    begin: int
    end: int
    offset: int = 0
    open_size: int = 0
    """The size, be it an open one; `size` is its number."""
    open_offset: int = 0


class _Busy:
    """Which memory is in use at which steps, in a tree that halves them: node 1 is all, and 2n and 2n + 1 are n's."""

    def __init__(self, steps: int) -> None:
        self._leaf = steps
        self._throughout: list[list[tuple[int, int]]] = [[] for _ in range(2 * steps)]
        """By node, blocks that it is among the fewest nodes of."""
        self._sometimes: list[list[tuple[int, int]]] = [[] for _ in range(2 * steps)]
        """By node, those, and the blocks of the nodes below it."""

    def _inside(self, block: _Block) -> Iterator[int]:
        """The fewest nodes that make up the steps of a block."""
        low, high = block.begin + self._leaf, block.end + self._leaf + 1
        while low < high:
            if low & 1:
                yield low
                low += 1
            if high & 1:
                high -= 1
                yield high
            low, high = low >> 1, high >> 1

    def _above(self, nodes: Iterable[int]) -> set[int]:
        """The nodes that others are part of."""
        found: set[int] = set()
        for node in nodes:
            above = node >> 1
            while above and above not in found:
                found.add(above)
                above >>= 1
        return found

    def lowest(self, block: _Block) -> int:
        """The lowest place that is free for as long as a block is needed."""
        inside = list(self._inside(block))
        ranges = {
            *(one for node in inside for one in self._sometimes[node]),
            *(one for node in self._above(inside) for one in self._throughout[node]),
        }
        place = 0
        for start, end in sorted(ranges):
            if place + block.size <= start:
                break
            place = max(place, end)
        return place

    def add(self, block: _Block) -> None:
        """Note a block where it lies."""
        inside = list(self._inside(block))
        for node in inside:
            _unite(self._throughout[node], block.offset, block.offset + block.size)
        for node in {*inside, *self._above(inside)}:
            _unite(self._sometimes[node], block.offset, block.offset + block.size)


def _unite(ranges: list[tuple[int, int]], start: int, end: int) -> None:
    """Add a range to others in order, as one with those that it touches."""
    low = bisect_left(ranges, start, key=itemgetter(1))
    high = bisect_right(ranges, end, key=itemgetter(0))
    if low < high:
        start, end = min(start, ranges[low][0]), max(end, ranges[high - 1][1])
    ranges[low:high] = [(start, end)]


def lay_out(recipe: Recipe) -> Arena:
    """Place the largest first, each as low as it can lie beside those that are needed at the same time.

    A store is needed from the first step that writes it to the last that reads it. A step that is the last to read a
    store laid out like its own result writes it there, if its verb can.
    """
    blocks: dict[str, _Block] = {}
    last = {view.tensor: number for number, step in enumerate(recipe.steps) for view in (*step.targets, *step.sources)}
    for number, step in enumerate(recipe.steps):
        free = {view.tensor for view in step.sources if view.tensor in blocks and last[view.tensor] == number}
        for target in step.targets:
            name = target.tensor
            if recipe.stores[name].kind != "scratch" or name in blocks:
                continue
            size = -(-recipe.stores[name].size_in_bytes // ALIGNMENT) * ALIGNMENT
            over = [source for source in _may_overwrite(step, target) if source in free and _is(size, blocks[source])]
            if over:
                before = blocks[name] = blocks[over[0]]
                before.end = last[name]
                free -= {source for source in free if blocks[source] is before}
            else:
                blocks[name] = _Block(present(size), number, last[name], open_size=size)
    busy = _Busy(len(recipe.steps))
    several = list({id(block): block for block in blocks.values()}.values())
    for block in sorted(several, key=lambda b: -b.size):
        block.offset = busy.lowest(block)
        busy.add(block)
    if tape_on() is not None:
        return _opened(blocks, several)
    offsets = {name: block.offset for name, block in blocks.items()}
    return Arena(offsets, max((block.offset + block.size for block in several), default=0))


def _is(size: int, block: _Block) -> bool:
    """Whether a block has a size; of open ones, whether it is computed alike, so that nothing is found of them."""
    if (tape := tape_on()) is None:
        return block.size == size
    with tape.naming():
        return block.open_size == size


def _opened(blocks: Mapping[str, _Block], several: Sequence[_Block]) -> Arena:
    """The same for all sizes: each block on top of those below it that are needed at the same time."""
    placed: list[_Block] = []
    for block in sorted(several, key=lambda b: b.offset):
        below = [
            b for b in placed if b.begin <= block.end and block.begin <= b.end and b.offset + b.size <= block.offset
        ]
        block.open_offset = greatest([b.open_offset + b.open_size for b in below])
        placed.append(block)
    offsets = {name: block.open_offset for name, block in blocks.items()}
    return Arena(offsets, greatest([block.open_offset + block.open_size for block in several]))


def check_bounds(recipe: Recipe, arena: Arena, bound: Mapping[str, TensorDesc]) -> None:
    """Prove that steps stay inside their stores, and scratch stores inside the arena; some stores are bound tensors."""
    tensors = {name: Span(0, store.size_in_bytes) for name, store in recipe.stores.items()}
    tensors |= {name: Span(*byte_span(tensor)) for name, tensor in bound.items() if tensor.element_count}
    check_views((step.primitive for step in recipe.steps), tensors)
    for name, offset in arena.offsets.items():
        if not 0 <= offset <= arena.size_in_bytes - recipe.stores[name].size_in_bytes:
            size = recipe.stores[name].size_in_bytes
            raise BoundsError(f"{name!r} has {size} bytes from {offset} on, of an arena of {arena.size_in_bytes}")


def _may_overwrite(step: Step, target: View) -> list[str]:
    """The stores that a step may write a result into while it reads them: all that it reads there lies alike."""
    primitive = step.primitive
    if is_copy(primitive):
        return []
    found = {view.tensor: True for view in step.sources}
    may_overwrite = primitive.may_overwrite(target)
    for view in step.sources:
        if may_overwrite:
            found[view.tensor] &= _lies(view) == _lies(target)
        else:
            found[view.tensor] &= isinstance(primitive, Reduce) and adds_to_product(primitive, view)
    return [name for name, is_alike in found.items() if is_alike]


def _lies(view: View) -> tuple[object, ...]:
    return (view.sizes, view.strides, view.offset, view.data_type.size_in_bytes)
