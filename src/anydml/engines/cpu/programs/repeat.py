"""Repeats, planned: where every step is a kernel whose words move evenly, one kernel calls them all."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from anydml.engines.cpu import team
from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.call import SMALL, make_dispatch
from anydml.engines.cpu.kernels import HEADER
from anydml.engines.cpu.kernels.repeat import MOST_WORDS, make_repeat
from anydml.engines.repeated import RepeatProgram

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.engines.repeated import Part

BuiltIn = type(len)


class LoopProgram(RepeatProgram):
    """A repeat of which Python makes one call: LSTM of 100 steps has 200 kernels to run."""

    __slots__ = ()

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Bind for a few times, and find out how words move on; where they do not evenly, bind for all."""
        steps: list[int] = []
        size = total = shared = 0
        for part in self.parts:
            found = _words(part, places, self.times)
            if found is None:
                return RepeatProgram.bind(self, places)
            first, moves = found
            units, _, _, address, own = first[:HEADER]
            steps += [address, units, int(own >= SMALL), len(first), len(moves), *first]
            steps += [word for place, by in moves.items() for word in (8 * place, by)]
            size, total, shared = size + own, total + len(first), shared | (own >= SMALL)
        if total > MOST_WORDS:
            return RepeatProgram.bind(self, places)
        share = team.get_team().share if shared else 0
        words = (self.times, len(self.parts), total, share, *steps)
        return make_dispatch(get_kernel("repeat", make_repeat), words, 1, size * self.times)


def _words(part: Part, places: Mapping[str, int], times: int) -> tuple[tuple[int, ...], dict[int, int]] | None:
    """The words of a step at its first time, and by how much some move on; None for what has other words each time."""
    found: list[tuple[int, tuple[int, ...]]] = []
    for time in dict.fromkeys((0, min(1, times - 1), min(2, times - 1), times - 1)):
        launch = part.bind(places, time)
        words = launch.__self__ if isinstance(launch, BuiltIn) else None
        if not isinstance(words, bytes):
            return None
        found.append((time, struct.unpack(f"{len(words) // 8}q", words)))
    (_, first), *others = found
    moves = {k: b - a for k, (a, b) in enumerate(zip(first, others[0][1], strict=True)) if a != b} if others else {}
    for time, words in others:
        if any(words[k] != a + time * moves.get(k, 0) for k, a in enumerate(first)):
            return None
    return first, moves
