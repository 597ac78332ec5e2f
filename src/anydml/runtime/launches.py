"""Several launches as one, and several arrays or one."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Replayed: TypeAlias = Callable[[Sequence[Callable[[], Any]], Sequence[Sequence[int]]], Callable[[], Any]]
    """Makes one launch of several, each of which must come after some of those before it, by number."""


class Steps:
    """Launches one after the other, and memory that they read."""

    __slots__ = ("_launches", "_memory")

    def __init__(self, launches: Sequence[Callable[[], Any]], memory: object) -> None:
        self._launches, self._memory = tuple(launches), memory

    def __call__(self) -> None:
        """Launch them."""
        for launch in self._launches:
            launch()

    def between(self, alone: Sequence[bool], waits: Sequence[Sequence[int]], change: Replayed) -> Steps:
        """The same, with the launches between those that are to stay alone as one each, which is changed.

        `waits` has for each launch the earlier ones that it must come after, by number.
        """
        launches: list[Callable[[], Any]] = []
        numbers = range(len(alone))
        for is_alone, row in itertools.groupby(numbers, alone.__getitem__):
            own = list(row)
            if is_alone:
                launches += [self._launches[number] for number in own]
                continue
            within = [[n - own[0] for n in waits[number] if n >= own[0]] for number in own]
            launches.append(change([self._launches[number] for number in own], within))
        return Steps(launches, self._memory)


def in_a_row(launches: list[Callable[[], Any]], memory: object = None) -> Callable[[], Any]:
    """One launch of several; it keeps memory alive that is given to it."""
    return launches[0] if len(launches) == 1 and memory is None else Steps(launches, memory)


def one_or_all(arrays: list[Any]) -> Any:
    """What is given for outputs, or by them: one alone, or a tuple."""
    return arrays[0] if len(arrays) == 1 else tuple(arrays)
