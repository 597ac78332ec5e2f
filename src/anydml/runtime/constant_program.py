"""The constant program of a graph: what is computed once, when it is compiled, and the places of tensors in between."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from anydml.core.locks import cached_property
from anydml.graph.arena import Arena, lay_out

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.engines.common.engine import Engine
    from anydml.engines.common.program import Program
    from anydml.graph.recipe import Recipe, Step


@dataclass(eq=False)
class Job:
    """A step whose result lasts: its program is made when it is first run, for another graph may have that already."""

    step: Step | None
    """None of one that comes from disk, which has its key and its program."""
    target: str
    sources: tuple[str, ...]
    _made: list[Program] = field(default_factory=list, init=False)

    @classmethod
    def of(cls, step: Step) -> Job:
        """That of a step."""
        return cls(step, step.target.tensor, tuple(view.tensor for view in step.sources))

    @cached_property
    def key(self) -> str:
        """Its work, whatever its tensors are called."""
        assert self.step is not None  # noqa: S101 - for type checkers: what comes from disk has its key
        order = iter(range(len(self.sources)))
        plain = self.step.reading(lambda view: replace(view, tensor=str(next(order))))
        return repr(plain.writing(replace(self.step.target, tensor="")).primitive)

    def program(self, engine: Engine) -> Program:
        """The program that runs it."""
        if not self._made:
            assert self.step is not None  # noqa: S101 - for type checkers: what comes from disk has its program
            self._made.append(engine.compile(self.step.primitive))
        return self._made[0]

    def __getstate__(self) -> dict[str, Any]:
        return {"step": None, "target": self.target, "sources": self.sources, "key": self.key, "_made": self._made}


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
        return cls(tuple(map(Job.of, recipe.steps)), frozenset(recipe.stores), outputs, lay_out(recipe))

    def compile(self, engine: Engine) -> None:
        """Make the programs that nothing has needed yet."""
        for job in self.jobs:
            job.program(engine)
