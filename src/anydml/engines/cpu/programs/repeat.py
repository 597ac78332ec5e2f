"""Repeats, planned: where every step is a kernel whose words move evenly, one kernel calls them all."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from anydml.engines.cpu import team
from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.call import LONG, SMALL, make_dispatch
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
        found = [_words(part, places, self.times) for part in self.parts]
        steps = [each for each in found if each is not None]
        sizes, total = [first[HEADER - 1] for first, _ in steps], sum(len(first) for first, _ in steps)
        if len(steps) < len(found) or total > MOST_WORDS:
            return RepeatProgram.bind(self, places)
        share = team.get_team().share if max(sizes) >= SMALL else 0
        kernel, size = get_kernel("repeat", make_repeat), sum(sizes)
        most = max((LONG - 1) // max(size, 1), 1)  # times in one call, between which Ctrl-C is looked for

        def dispatch(start: int) -> Callable[[], Any]:
            times = min(most, self.times - start)
            words = (times, len(steps), total, share, *(word for step in steps for word in _told(*step, start)))
            return make_dispatch(kernel, words, 1, size * times)

        if most >= self.times:
            return dispatch(0)

        def run() -> None:
            for start in range(0, self.times, most):
                dispatch(start)()

        return run


def _told(first: tuple[int, ...], moves: Mapping[int, int], start: int) -> list[int]:
    """A step as the kernel has it, from one of its times on."""
    units, _, _, address, size = first[:HEADER]
    words = [word + start * moves.get(k, 0) for k, word in enumerate(first)]
    moved = [word for place, by in moves.items() for word in (8 * place, by)]
    return [address, units, int(size >= SMALL), len(first), len(moves), *words, *moved]


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
