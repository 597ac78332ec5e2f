"""Schedules: for each pass of a compiled operator or graph, the row of the engine's decision table that it takes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anydml.engines.common.routes import routes_of
from anydml.ir.contraction import match_contraction
from anydml.ir.verbs import Reduce

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from anydml.engines.common.engine import Engine
    from anydml.ir.verbs import Primitive


@dataclass(frozen=True, slots=True)
class Schedule:
    """The route of a pass, the condition that chose it, and the sizes that it was chosen for."""

    nodes: tuple[str, ...]
    """Whose work the pass does."""
    route: str
    """The row of the decision table, and after a slash each way that its planner chose."""
    when: str
    values: str
    measured: str = ""
    """The time that the row takes somewhere, and what others take there; empty where nobody wrote it down."""

    def __str__(self) -> str:
        measured = f": {self.measured}" if self.measured else ""
        return f"{', '.join(self.nodes)}: {self.route} ({self.when}; {self.values}){measured}"


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
    return Schedules(_schedule(engine, nodes, verbs, constants) for nodes, verbs in passes)


def _schedule(engine: Engine, nodes: Sequence[str], verbs: Sequence[Primitive], constants: frozenset[str]) -> Schedule:
    routes = routes_of(engine, verbs, constants)
    names, conditions = (" / ".join(route.name for route in routes), "; ".join(route.condition for route in routes))
    measured = "; ".join(route.measured for route in routes if route.measured)
    return Schedule(tuple(nodes), names, conditions, _sizes(verbs[-1]), measured)


def _sizes(verb: Primitive) -> str:
    """What conditions are about: M, N, K of a contraction, rows and their lengths of a reduce, or all sizes."""
    kind, sizes = verb.target.data_type.name, verb.sizes
    if not isinstance(verb, Reduce):
        return f"{' x '.join(map(str, sizes)) or 1} of {kind}"
    if (found := match_contraction(verb)) is not None:
        (m, n, k), batch = found.shape, found.count(found.batch)
        return f"M {m}, N {n}, K {k}{f', batch {batch}' if batch > 1 else ''} of {kind}"
    kept = len(sizes) - verb.depth
    return f"{math.prod(sizes[:kept])} rows by {math.prod(sizes[kept:])} of {kind}"
