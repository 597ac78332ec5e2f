"""Several launches as one, and several arrays or one."""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Steps:
    """Launches one after the other, and memory that they read."""

    __slots__ = ("_memory", "launches")

    def __init__(self, launches: Sequence[Callable[[], Any]], memory: object) -> None:
        self.launches, self._memory = tuple(launches), memory

    def __call__(self) -> None:
        """Launch them."""
        for launch in self.launches:
            launch()

    def between(self, alone: Sequence[bool], change: Callable[[Callable[[], Any]], Callable[[], Any]]) -> Steps:
        """The same, with the launches between those that are to stay alone as one each, which is changed."""
        launches: list[Callable[[], Any]] = []
        for is_alone, row in itertools.groupby(zip(self.launches, alone, strict=True), operator.itemgetter(1)):
            own = [launch for launch, _ in row]
            launches += own if is_alone else [change(Steps(own, self._memory))]
        return Steps(launches, self._memory)


def in_a_row(launches: list[Callable[[], Any]], memory: object = None) -> Callable[[], Any]:
    """One launch of several; it keeps memory alive that is given to it."""
    return launches[0] if len(launches) == 1 and memory is None else Steps(launches, memory)
