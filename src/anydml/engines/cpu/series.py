"""Launches one after the other as one built-in function of arrays: nothing is bound anew where those lie elsewhere."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from anydml.engines.cpu import team
from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.call import LONG, METH_FASTCALL, NO_STATUS, SMALL, STATUS, make_builtin
from anydml.engines.cpu.kernels import HEADER
from anydml.engines.cpu.kernels.series import make_series

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_MOST_WORDS = 4096
"""Of one step: they lie on the stack."""
_APART = 2**36
"""Bytes between arrays that stand for others: no view reaches so far."""
_FAR, _ODD = (2**24, 36), (2**28, 1)
"""By how much the first array moves, the second twice as much, and all of them: the second figure is for programs whose
words depend on how an address is aligned."""
_BuiltIn = type(len)


def make_series_of(
    bind: Callable[[Sequence[int]], Sequence[Callable[[], Any]]], count: int
) -> Callable[..., Any] | None:
    """A function of `count` NumPy arrays, which runs the launches that `bind` gives for their addresses.

    It gives None, or something else where a step has a status: it has then run no further. Programs are bound to
    addresses that are none, to see which words move on with which of them; where words depend on addresses in another
    way, or a launch is no kernel's, there is no such function.
    """
    first, *others = (list(_addresses(count, *by)) for by in ((0, 0), _FAR, _ODD))
    steps, *moved = (_words(bind(addresses)) for addresses in (first, *others))
    if steps is None or max(map(len, steps), default=0) > _MOST_WORDS:
        return None
    if sum(words[HEADER - 1] for words in steps) >= LONG:  # Ctrl-C is looked for between them
        return None
    packed = [len(steps), max(map(len, steps), default=0), NO_STATUS, STATUS]
    for number, words in enumerate(steps):
        found = [_moves(words, several, number, first, to) for several, to in zip(moved, others, strict=True)]
        if (places := found[0]) is None or any(other != places for other in found):
            return None
        entry = 0 if words[HEADER - 1] < SMALL else team.get_team().entry
        packed += [entry, len(words), len(places)]
        packed += [word for k, (array, offset) in places.items() for word in (8 * k, array, offset)]
        packed += words
    kernel = get_kernel("series", make_series)
    return make_builtin(kernel.address, struct.pack(f"{len(packed)}q", *packed), METH_FASTCALL)


def _moves(
    words: tuple[int, ...], moved: list[tuple[int, ...]] | None, number: int, first: list[int], to: list[int]
) -> dict[int, tuple[int, int]] | None:
    """By the number of a word of a step, the array whose address moves it, and how far it is after that."""
    if moved is None or number >= len(moved) or len(moved[number]) != len(words):
        return None
    arrays = {b - a: i for i, (a, b) in enumerate(zip(first, to, strict=True))}
    found = {}
    for k, (before, after) in enumerate(zip(words, moved[number], strict=True)):
        if before != after:
            if (array := arrays.get(after - before)) is None:
                return None
            found[k] = (array, before - first[array])
    return found


def _addresses(count: int, far: int, all_: int) -> Iterator[int]:
    return ((i + 1) * _APART + (i + 1) * far + all_ for i in range(count))


def _words(launches: Sequence[Callable[[], Any]]) -> list[tuple[int, ...]] | None:
    """The words of each kernel; None where a launch is no kernel's."""
    found = kernels_of(launches)
    return None if found is None else [struct.unpack(f"{len(words) // 8}q", words) for words in found]


def kernels_of(launches: Sequence[Callable[[], Any]]) -> list[bytes] | None:
    """The words of the kernels that launches run, in order; None where one does something else."""
    found = list[bytes]()
    for launch in launches:
        if (several := getattr(launch, "launches", None)) is not None:
            if (own := kernels_of(several)) is None:
                return None
            found += own
            continue
        words = launch.__self__ if isinstance(launch, _BuiltIn) else None
        if not isinstance(words, bytes):
            return None
        found.append(words)
    return found
