"""Schedules: for each pass of a compiled operator or graph, the row of the engine's decision table that it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from anydml.engines.common.engine import Engine
    from anydml.ir.verbs import Primitive


@dataclass(frozen=True, slots=True)
class Schedule:
    """The route of a pass, and the condition that chose it."""

    nodes: tuple[str, ...]
    """Whose work the pass does."""
    route: str
    when: str

    def __str__(self) -> str:
        return f"{', '.join(self.nodes)}: {self.route} ({self.when})"


class Schedules(tuple[Schedule, ...]):
    """Those of all passes, in order. `print(compiled.schedules)` writes a line for each."""

    __slots__ = ()

    def __str__(self) -> str:
        width = len(str(len(self)))
        return "\n".join(f"{number:>{width}}. {one}" for number, one in enumerate(self, 1))


def schedules_of(
    engine: Engine, passes: Iterable[tuple[Sequence[str], Sequence[Primitive]]], constants: frozenset[str]
) -> Schedules:
    """The routes of passes, each given by the names of its nodes and by its verbs, which are planned once more."""
    routes = ((tuple(nodes), engine.route(verbs, constants)) for nodes, verbs in passes)
    return Schedules(Schedule(nodes, route.name, route.when) for nodes, route in routes)
