"""Several launches as one, and several arrays or one."""

from __future__ import annotations

import contextlib
import itertools
import operator
from typing import TYPE_CHECKING, Any

from anydml.engines.common.program import Checking

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


class CheckedSteps(Steps):
    """Launches some of which look at indices: what those found is waited for when more is under way.

    `settles` has the launches before which it must be known: they write what others see.
    """

    __slots__ = ("_settles",)

    def __init__(self, launches: Sequence[Callable[[], Any]], memory: object, settles: Sequence[bool]) -> None:
        super().__init__(launches, memory)
        self._settles = tuple(settles)

    def __call__(self) -> None:
        """Launch them; the first fault is raised."""
        with contextlib.ExitStack() as pending:  # it asks the first check last, whose fault counts
            for launch, settles in zip(self.launches, self._settles, strict=True):
                if settles:
                    pending.pop_all().close()
                if isinstance(launch, Checking):
                    pending.callback(launch.start())
                else:
                    launch()

    def between(self, alone: Sequence[bool], change: Callable[[Callable[[], Any]], Callable[[], Any]]) -> Steps:
        """The same, with the launches between those as one each, which is changed; some begin where faults settle."""
        launches: list[Callable[[], Any]] = []
        settles: list[bool] = []
        rows = zip(self.launches, alone, itertools.accumulate(self._settles), self._settles, strict=True)
        for (is_alone, _), row in itertools.groupby(rows, operator.itemgetter(1, 2)):
            own = list(row)
            several = [launch for launch, *_ in own]
            made = several if is_alone else [change(Steps(several, self._memory))]
            launches += made
            settles += [own[0][-1], *[False] * (len(made) - 1)]
        return CheckedSteps(launches, self._memory, settles)


def in_a_row(launches: list[Callable[[], Any]], memory: object = None) -> Callable[[], Any]:
    """One launch of several; it keeps memory alive that is given to it."""
    return launches[0] if len(launches) == 1 and memory is None else Steps(launches, memory)
