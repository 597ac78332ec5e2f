"""The memory plan: scratch stores share one arena, each for as long as it is needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
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

    def meets(self, other: _Block) -> bool:
        """Whether both are needed at some step."""
        return self.begin <= other.end and other.begin <= self.end


def lay_out(recipe: Recipe) -> Arena:
    """Place the largest first, each as low as it can lie beside those that are needed at the same time.

    A store is needed from the step that writes it to the last that reads it. A scan that is the last to read a store
    laid out like its own result writes it there.
    """
    blocks: dict[str, _Block] = {}
    for number, step in enumerate(recipe.steps):
        for view in step.sources:
            if view.tensor in blocks:
                blocks[view.tensor].end = number
        name = step.target.tensor
        if recipe.stores[name].kind == "scratch":
            size = -(-recipe.stores[name].size_in_bytes // ALIGNMENT) * ALIGNMENT
            before = blocks.get(step.sources[0].tensor)
            if before and before.size == size and _works_in_place(step) and not _is_read(recipe, number + 1, step):
                blocks[name] = before
            else:
                blocks[name] = _Block(size, number, number)
    placed: list[_Block] = []
    for block in sorted({id(block): block for block in blocks.values()}.values(), key=lambda b: -b.size):
        for other in sorted((b for b in placed if b.meets(block)), key=lambda b: b.offset):
            if block.offset + block.size <= other.offset:
                break
            block.offset = max(block.offset, other.offset + other.size)
        placed.append(block)
    offsets = {name: block.offset for name, block in blocks.items()}
    return Arena(offsets, max((block.offset + block.size for block in placed), default=0))


def _works_in_place(step: Step) -> bool:
    source, target = step.sources[0], step.target
    return isinstance(step.primitive, Scan) and replace(source, tensor=target.tensor) == target


def _is_read(recipe: Recipe, start: int, step: Step) -> bool:
    """Whether a step from a number on reads what this one reads."""
    return any(view.tensor == step.sources[0].tensor for later in recipe.steps[start:] for view in later.sources)
