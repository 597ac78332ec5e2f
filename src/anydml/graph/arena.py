"""The memory plan: scratch stores share one arena, each for as long as it is needed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING

from anydml.primitives import Scan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.graph.recipe import Recipe, Step

ALIGNMENT = 256
"""Of every store's place, in bytes."""


@dataclass(frozen=True, slots=True)
class Arena:
    """Where scratch stores lie in one range of memory that begins at a multiple of ALIGNMENT."""

    offsets: Mapping[str, int]
    """In bytes, by store."""
    size_in_bytes: int


@dataclass(slots=True)
class _Block:
    """Memory that one store after another uses, from one step to another, both included."""

    size: int
    begin: int
    end: int
    offset: int = 0


class _Shelf:
    """The blocks at one place: no two are needed at the same step, so that they stand in the order of their use."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self._begins: list[int] = []
        self._blocks: list[_Block] = []

    def top(self, block: _Block) -> int:
        """Where those end that are needed together with a block; 0 where none is."""
        number, top = bisect_right(self._begins, block.end), 0
        while number and self._blocks[number - 1].end >= block.begin:
            number -= 1
            top = max(top, self.offset + self._blocks[number].size)
        return top

    def place(self, block: _Block) -> None:
        """Add a block that meets none of the others."""
        number = bisect_right(self._begins, block.begin)
        self._begins.insert(number, block.begin)
        self._blocks.insert(number, block)


def lay_out(recipe: Recipe) -> Arena:
    """Place the largest first, each as low as it can lie beside those that are needed at the same time.

    A store is needed from the step that writes it to the last that reads it. A scan that is the last to read a store
    laid out like its own result writes it there.
    """
    blocks: dict[str, _Block] = {}
    last = {view.tensor: number for number, step in enumerate(recipe.steps) for view in step.sources}
    for number, step in enumerate(recipe.steps):
        name = step.target.tensor
        if recipe.stores[name].kind == "scratch":
            size = -(-recipe.stores[name].size_in_bytes // ALIGNMENT) * ALIGNMENT
            source, end = step.sources[0].tensor, last.get(name, number)
            before = blocks.get(source)
            if before and before.size == size and last[source] == number and _works_in_place(step):
                before.end = end
                blocks[name] = before
            else:
                blocks[name] = _Block(size, number, end)
    shelves: list[_Shelf] = []
    for block in sorted({id(block): block for block in blocks.values()}.values(), key=lambda b: -b.size):
        for shelf in shelves:
            if block.offset + block.size <= shelf.offset:
                break
            block.offset = max(block.offset, shelf.top(block))
        number = bisect_left(shelves, block.offset, key=attrgetter("offset"))
        if number == len(shelves) or shelves[number].offset > block.offset:
            shelves.insert(number, _Shelf(block.offset))
        shelves[number].place(block)
    offsets = {name: block.offset for name, block in blocks.items()}
    return Arena(offsets, max((block.offset + block.size for block in blocks.values()), default=0))


def _works_in_place(step: Step) -> bool:
    source, target = step.sources[0], step.target
    return isinstance(step.primitive, Scan) and replace(source, tensor=target.tensor) == target
