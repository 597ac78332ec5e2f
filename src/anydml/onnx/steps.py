"""Runs on arrays that stay, but for a few of other sizes: a decoder's steps, whose caches are bound once.

A program for other sizes takes a look at each input and output, which for a decoder are a hundred. Here the few that
are new are looked at, and numbers put into the records of the kernels.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.memory import numpy_address
from anydml.core.symbolic_sizes import is_open, value_of
from anydml.runtime.profiler_hook import WATCHER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.onnx.program import Program
    from anydml.runtime.replanning import Ready


class Steps:
    """Runs of a program for other sizes, one at a time: all arrays but those given are the ones of the run before."""

    def __init__(self, program: Program, ready: Ready, arrays: dict[str, Any], results: list[Any]) -> None:
        """`results` are the arrays to be written, None for those that each run makes."""
        self._program, self._arrays, self._results, self._ready = program, arrays, results, ready
        following = ready.following
        self._groups = [[name for name in names if isinstance(name, tuple)] for names in following.names]
        self._symbols = {name: number for number, names in enumerate(following.names) for name in names}
        self._sizes = [arrays[group[0][0]].shape[group[0][1]] for group in self._groups]
        self._makes = [place for place, array in enumerate(results) if array is None]
        self.made = [(place, program.names[place]) for place in self._makes]
        """By place, the outputs that each run makes."""
        self._values = [following.more.outputs[name] for name in program.names]
        bound = [(array, value) for array, value in zip(results, self._values, strict=True) if array is not None]
        self._fixed = {
            size.number: own
            for array, value in bound
            for size, own in zip(value.shape, array.shape, strict=True)
            if is_open(size)
        }
        """The numbers that sizes of bound outputs have: these must be the same for other sizes."""
        self._in_place, self._shared = program.fields_in_place(arrays, results), {*program.shares.values()}
        self._series, self._scratch = ready.series.get(self._in_place), ready.temporary_size
        self._moved = following.series(self._in_place)
        """What moves a function of this one's own on to other sizes."""
        self._shapes = [value.shape for value in program.values]
        self._kept = [*arrays.values(), *(array for array, _ in bound)]
        self._names = [*arrays]
        self._heads = _heads(self._kept)
        spans = sorted((numpy_address(x), numpy_address(x) + x.nbytes) for x, _ in bound)
        self._starts, self._ends = [start for start, _ in spans], [end for _, end in spans]

    def run(self, changed: Mapping[str, Any]) -> list[Any] | None:
        """Run with some arrays in the stead of earlier ones; None where that needs a closer look."""
        if WATCHER.get() is not None or not self._take(changed):
            return None
        results = self._results
        if self._makes:
            results = [*results]
            for place in self._makes:
                results[place] = np.empty(self._shapes[place], self._values[place].element.dtype)
        return results if self._program.guard(self._run, results) else None

    def _take(self, changed: Mapping[str, Any]) -> bool:
        """Whether the arrays may stand where the earlier ones did; they do then."""
        if _heads(self._kept) != self._heads:
            return False
        now, sizes = {**self._arrays, **changed}, list(self._sizes)
        for name, array in changed.items():
            before = self._arrays.get(name)
            if type(array) is not np.ndarray or before is None or array.dtype != before.dtype:
                return False
            if array.ndim != before.ndim or not array.flags.c_contiguous or self._is_written(array):
                return False
            if name in self._shared:  # which may be written now, or no longer
                return False
            if array.shape != before.shape:
                for axis, size in enumerate(array.shape):
                    if size != before.shape[axis]:
                        if (symbol := self._symbols.get((name, axis))) is None:
                            return False
                        sizes[symbol] = size
        for symbol, (old, size) in enumerate(zip(self._sizes, sizes, strict=True)):
            if old != size and any(now[name].shape[axis] != size for name, axis in self._groups[symbol]):
                return False
        if sizes != self._sizes and not self._size(sizes):
            return False
        self._arrays, self._sizes = now, sizes
        for name, array in changed.items():
            place = self._names.index(name)
            self._kept[place], self._heads[place] = array, array.shape
        return True

    def _size(self, sizes: list[int]) -> bool:
        """Put the numbers of other sizes in."""
        following = self._ready.following
        numbers = following.numbers(sizes)
        if numbers is None or any(numbers[number] != own for number, own in self._fixed.items()):
            return False
        self._series = None if self._moved is None else self._moved(numbers)
        self._scratch = value_of(following.scratch, numbers)
        if self._scratch > self._ready.temporary_size:  # what scratch memory is asked for by
            self._ready = self._ready._replace(temporary_size=self._scratch)
        for place in self._makes:
            self._shapes[place] = tuple(value_of(size, numbers) for size in self._values[place].shape)
        return True

    def _is_written(self, array: Any) -> bool:
        """Whether an output overlaps it."""
        start = numpy_address(array)
        after = bisect.bisect_left(self._starts, start + array.nbytes)
        return after > 0 and self._ends[after - 1] > start

    def _run(self, results: list[Any]) -> bool:
        given = [self._arrays[name] for name in self._program.reads]
        if self._series is None:
            return False
        if not self._scratch:
            return self._series(*given, *results) is None
        arenas = self._program.arenas
        arena = arenas.take(self._ready)
        try:
            return self._series(*given, *results, arena.owner) is None
        finally:
            arenas.give_back(arena)


def _heads(arrays: Sequence[Any]) -> list[tuple[int, ...]]:
    """What changes in an array that is given other memory; one that is seen otherwise stays bound as it was."""
    return [x.shape for x in arrays]
