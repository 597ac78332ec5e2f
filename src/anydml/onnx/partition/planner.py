"""In which order nodes run, and which of them together, so that there are few parts."""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.core.errors import DmlError


class Place(Enum):
    """Where a node runs."""

    DEVICE = "device"
    HOST = "host"
    ALONE = "alone"
    """A part of its own, such as control flow."""


@dataclass(frozen=True, slots=True)
class Item:
    """A node to be arranged."""

    takes: Sequence[str]
    """Names that it reads, constants aside."""
    gives: Sequence[str]
    place: Place
    begins: bool = False
    """Whether what it reads must have been computed before the part that it is in begins."""


@dataclass(frozen=True, slots=True)
class Recut:
    """What a segment gives that is to be cut anew: news of nodes of its graph, by their numbers."""

    reason: DmlError
    """Told to the user where the news changes nothing."""
    hosted: frozenset[int] = frozenset()
    """Those that run on the host from now on."""
    cut: frozenset[int] = frozenset()
    """Those that begin a segment."""


def arrange(items: Mapping[int, Item]) -> list[tuple[Place, list[int]]]:
    """The parts as numbers of nodes, in an order in which they can run: the shorter of two, by who begins."""
    several = [_arrange(items, first) for first in (Place.DEVICE, Place.HOST)]
    return min(several, key=len)


def _arrange(items: Mapping[int, Item], first: Place) -> list[tuple[Place, list[int]]]:
    """Take turns, each as long as it can be: whatever can run on the device, whatever can on the host, and so on."""
    makers = {name: number for number, item in items.items() for name in item.gives}
    needed = {number: {makers[name] for name in item.takes if name in makers} for number, item in items.items()}
    readers = defaultdict(list)
    for number, before in needed.items():
        for other in before:
            readers[other].append(number)
    left = {number: len(before) for number, before in needed.items()}
    ready: dict[Place, list[int]] = {place: [] for place in Place}
    for number in items:
        if not left[number]:
            heapq.heappush(ready[items[number].place], number)
    found: list[tuple[Place, list[int]]] = []
    turn = first
    while any(ready.values()):
        if ready[Place.ALONE]:
            part = [heapq.heappop(ready[Place.ALONE])]
            _release(part[0], items, readers, left, ready, ready)
            found.append((Place.ALONE, part))
            continue
        later: dict[Place, list[int]] = {place: [] for place in Place}
        part = []
        while ready[turn]:
            number = heapq.heappop(ready[turn])
            part.append(number)
            _release(number, items, readers, left, ready, later)
        for place, several in later.items():
            for number in several:
                heapq.heappush(ready[place], number)
        if part:
            found.append((turn, sorted(part)))
        turn = Place.HOST if turn is Place.DEVICE else Place.DEVICE
    return found


def _release(
    number: int,
    items: Mapping[int, Item],
    readers: Mapping[int, list[int]],
    left: dict[int, int],
    ready: dict[Place, list[int]],
    later: dict[Place, list[int]],
) -> None:
    """Count down what waits for a node; one that begins a part is ready after the present one."""
    for reader in readers.get(number, ()):
        left[reader] -= 1
        if not left[reader]:
            item = items[reader]
            heapq.heappush((later if item.begins else ready)[item.place], reader)
