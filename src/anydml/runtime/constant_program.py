"""The constant program of a graph: what is computed once, when it is compiled, and the places of tensors in between."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from anydml.core.locks import cached_property
from anydml.graph.arena import Arena, lay_out

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.engines.common.engine import Engine
    from anydml.engines.common.program import Program
    from anydml.graph.recipe import Recipe, Step


class Job:
    """A step whose result lasts: its program is made when it is first run, for another graph may have that already."""

    def __init__(self, step: Step) -> None:
        self._step: Step | None = step
        self._program: Program | None = None
        self.target = step.target.tensor
        self.sources = tuple(view.tensor for view in step.sources)

    @cached_property
    def key(self) -> str:
        """Its work, whatever its tensors are called."""
        assert self._step is not None  # noqa: S101 - for type checkers: what comes from disk has its key
        order = iter(range(len(self.sources)))
        plain = self._step.reading(lambda view: replace(view, tensor=str(next(order))))
        return repr(plain.writing(replace(self._step.target, tensor="")).primitive)

    def program(self, engine: Engine) -> Program:
        """The program that runs it."""
        if self._program is None:
            assert self._step is not None  # noqa: S101 - for type checkers: what comes from disk has its program
            self._program = engine.compile(self._step.primitive)
        return self._program

    def __getstate__(self) -> dict[str, Any]:
        return {"target": self.target, "sources": self.sources, "key": self.key, "_program": self._program}


@dataclass(frozen=True, slots=True)
class Once:
    """The jobs of a graph, in order."""

    jobs: tuple[Job, ...]
    reads: frozenset[str]
    """The stores that they read or write."""
    outputs: Mapping[str, int]
    """The stores that last, and the bytes of each."""
    arena: Arena
    """Where the others lie."""

    @classmethod
    def of(cls, recipe: Recipe) -> Once:
        """The work of a recipe."""
        outputs = {name: store.size_in_bytes for name, store in recipe.stores.items() if store.kind == "output"}
        return cls(tuple(map(Job, recipe.steps)), frozenset(recipe.stores), outputs, lay_out(recipe))

    def compile(self, engine: Engine) -> None:
        """Make the programs that nothing has needed yet."""
        for job in self.jobs:
            job.program(engine)
