"""Graphs bound again and again, of which only the steps are bound anew whose arrays lie elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.runtime.graph import CompiledGraph

MOST = 2
"""Of those that are kept, for runs at the same time."""
LARGE = 64 * 1024 * 1024
"""Bytes of scratch memory from which on it is not kept: a run that needs them takes far longer than binding."""


class Rebound:
    """A graph in scratch memory of its own, for one run at a time. To bind a step takes 14 us."""

    def __init__(self, graph: CompiledGraph) -> None:
        self._graph, self._scratch = graph, graph.reserve_scratch()
        self._places: dict[str, int] = {}
        self._launches: list[Callable[[], Any]] = []

    def run(self, places: dict[str, int]) -> None:
        """Run on the arrays at some addresses, by field."""
        if places != self._places:
            self._bind(places)
        for launch in self._launches:
            launch()

    def _bind(self, places: dict[str, int]) -> None:
        before, self._places = self._places, {}  # in case this is interrupted
        if before:
            moved = [field for field, place in places.items() if before[field] != place]
            for number, launch in self._graph.bind_steps(places, self._scratch, moved).items():
                self._launches[number] = launch
        else:
            self._launches = self._graph.bind_all(places, self._scratch)
        self._places = places


class Rebounds:
    """Those of a graph that nobody runs now, kept for the next run."""

    def __init__(self, graph: CompiledGraph) -> None:
        self._graph, self._idle = graph, list[Rebound]()

    def run(self, places: Mapping[str, int]) -> None:
        """Run on the arrays at some addresses, by field."""
        try:
            one = self._idle.pop()
        except IndexError:  # another thread has the last
            one = Rebound(self._graph)
        try:
            one.run(dict(places))
        finally:
            if len(self._idle) < MOST and self._graph.temporary_size < LARGE:
                self._idle.append(one)
