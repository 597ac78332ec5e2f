"""Graphs bound again and again, of which only the steps are bound anew whose arrays lie elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.core.memory import Buffer
    from anydml.runtime.graph import CompiledGraph
    from anydml.runtime.replanning import Ready


MOST = 2
"""Of those that are kept, for runs at the same time."""
LARGE = 64 * 1024 * 1024
"""Bytes of scratch memory from which on it is not kept: a run that needs them takes far longer than binding."""


class Arenas:
    """Scratch memory that several graphs share, each run with one for itself: two are kept, not two of each graph."""

    def __init__(self) -> None:
        self._idle: list[Buffer] = []

    @property
    def held(self) -> int:
        """The bytes that are kept."""
        return sum(arena.size for arena in self._idle)

    def take(self, graph: CompiledGraph | Ready) -> Buffer:
        """Memory for a run of a graph; one that is too small is not kept."""
        try:
            found = self._idle.pop()
        except IndexError:  # another thread has the last
            found = None
        if found is None or found.size < graph.temporary_size:
            found = graph.reserve_scratch()
        assert found is not None  # noqa: S101 - for type checkers: the graph needs some
        return found

    def give_back(self, arena: Buffer) -> None:
        """Keep memory for the next run, unless it is large."""
        if len(self._idle) < MOST and arena.size < LARGE:
            self._idle.append(arena)


class Rebound:
    """A graph bound to scratch memory, for one run at a time. To bind a step takes 14 us."""

    def __init__(self, graph: CompiledGraph) -> None:
        self._graph, self._at = graph, 0
        self._places: dict[str, int] = {}
        self._launches: list[Callable[[], Any]] = []

    def run(self, places: dict[str, int], scratch: Buffer) -> None:
        """Run on the arrays at some addresses, by field."""
        if scratch.address != self._at or places != self._places:
            self._bind(places, scratch)
        for launch in self._launches:
            launch()

    def _bind(self, places: dict[str, int], scratch: Buffer) -> None:
        before, self._places = self._places, {}  # in case this is interrupted
        if before and scratch.address == self._at:
            moved = [field for field, place in places.items() if before[field] != place]
            for number, launch in self._graph.bind_steps(places, scratch, moved).items():
                self._launches[number] = launch
        else:
            self._launches = self._graph.bind_all(places, scratch)
        self._places, self._at = places, scratch.address


class Rebounds:
    """Those of a graph that nobody runs now, kept for the next run."""

    def __init__(self, graph: CompiledGraph, arenas: Arenas) -> None:
        self._graph, self._arenas, self._idle = graph, arenas, list[Rebound]()

    def run(self, places: Mapping[str, int]) -> None:
        """Run on the arrays at some addresses, by field."""
        try:
            one = self._idle.pop()
        except IndexError:  # another thread has the last
            one = Rebound(self._graph)
        scratch = self._arenas.take(self._graph)
        try:
            one.run(dict(places), scratch)
        finally:
            self._arenas.give_back(scratch)
            if len(self._idle) < MOST:
                self._idle.append(one)
