"""Several launches as one, and several arrays or one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class _Steps:
    """Launches one after the other, and memory that they read."""

    __slots__ = ("_launches", "_memory")

    def __init__(self, launches: list[Callable[[], Any]], memory: object) -> None:
        self._launches, self._memory = tuple(launches), memory

    def __call__(self) -> None:
        for launch in self._launches:
            launch()


def in_a_row(launches: list[Callable[[], Any]], memory: object = None) -> Callable[[], Any]:
    """One launch of several; it keeps memory alive that is given to it."""
    return launches[0] if len(launches) == 1 and memory is None else _Steps(launches, memory)


def one_or_all(arrays: list[Any]) -> Any:
    """What is given for outputs, or by them: one alone, or a tuple."""
    return arrays[0] if len(arrays) == 1 else tuple(arrays)
