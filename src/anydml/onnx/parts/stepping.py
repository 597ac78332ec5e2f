"""A body that runs again and again: at first like any graph, then bound to arrays that take turns."""

from __future__ import annotations

import functools
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.onnx.values import OutsideError
from anydml.runtime.watching import WATCHER

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from anydml.onnx.parts.gathered import Gathered
    from anydml.onnx.parts.part import Bound
    from anydml.onnx.parts.whole import Parts

_QUICK_FROM = 2
"""Steps that run as any graph does, four times as many where the body cannot be bound yet: to bind two launches takes
about as long as five."""
_MOST_TRIES = 8
"""How often a body is bound whose steps leave what is bound: its values, or the branches that it takes, vary."""
_MOST_BYTES = 65_536
"""Of an array that is copied into its place at each step; what is larger costs more than binding anew."""
_MOST_ROWS = 2**20
"""Bytes of what steps give that are put together as they come."""
_MOST_SCRATCH = 2**18
"""Bytes of scratch memory that are kept between runs with what is bound to it."""
_MOST_IDLE = 2
"""Of those that are kept for the next run on arrays of some shapes."""
_MOST_KEYS = 8
"""Sets of shapes that are remembered."""


class Repeated:
    """A body that steps run, and what earlier runs have bound of it.

    A run takes what is bound for itself, and gives it back at its end: runs at the same time have their own. What a
    run leaves by an error is not used again. A Loop of ten steps took 330 us where each run bound its body, and takes
    65 since, where ONNX Runtime's takes 45.
    """

    def __init__(
        self,
        body: Parts,
        fresh: Sequence[str],
        carried: Sequence[str],
        make: Callable[[Any], np.ndarray[Any, Any]],
        constants: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """The inputs `fresh` are given at each step, `carried` come of the step before; `constants` are inputs too.

        `make` makes an array of the value given for a fresh input.
        """
        self.body, self.fresh, self.carried, self.make = body, list(fresh), list(carried), make
        self.constants = constants
        self._idle: dict[Hashable, list[_Quick]] = {}
        """By the types and shapes of all that a step reads."""
        self._refused: dict[Hashable, None] = {}
        """Those of first steps that the body could not be bound to."""

    def begin(self, captured: Mapping[str, Any], states: Sequence[Any]) -> Stepping:
        """The steps of one run: `captured` stays as it is from step to step."""
        return Stepping(self, {**captured, **self.constants}, states)

    def take(self, known: Mapping[str, Any], lead: int) -> _Quick | None:
        """The body bound for the first step of a run; None where no earlier run was like it, or it cannot be."""
        key = None if WATCHER.get() else _key(known)
        if key is None or key in self._refused:
            return None
        if (several := self._idle.get(key)) is None:
            self._remember(self._idle, key, [])
            return None
        try:
            found = several.pop()
        except IndexError:  # another thread has the last, or the run before was too short to bind any
            found = None
        if found is None and (found := self.bind(known, lead)) is None:
            self._remember(self._refused, key, None)
        return found

    def bind(self, known: Mapping[str, Any], lead: int) -> _Quick | None:
        """The body bound to arrays of its own; None where it cannot be, or does not go on as it is."""
        is_kept = not (WATCHER.get() or any(map(_is_large, known.values())))
        return _Quick.of(self, known, lead, _key(known) if is_kept else None)

    def give_back(self, quick: _Quick) -> None:
        """Keep what was bound for the next run."""
        if quick.key is not None and quick.scratch <= _MOST_SCRATCH:
            if quick.key not in self._idle:
                self._remember(self._idle, quick.key, [])
            several = self._idle.get(quick.key, [])
            if len(several) < _MOST_IDLE:
                several.append(quick)

    @staticmethod
    def _remember(by: dict[Hashable, Any], key: Hashable, value: Any) -> None:
        if len(by) >= _MOST_KEYS:
            by.clear()
        by[key] = value


def _is_large(value: Any) -> bool:
    return type(value) is not np.ndarray or value.nbytes > _MOST_BYTES


def _key(known: Mapping[str, Any]) -> Hashable:
    """The types and shapes of arrays, which are in one order; None where one is no array."""
    found = [(x.dtype, x.shape) for x in known.values() if type(x) is np.ndarray]
    return tuple(found) if len(found) == len(known) else None


class Stepping:
    """The steps of one run of a Loop or a Scan.

    A body of programs and branches that gives what it carries in the shapes in which it takes it is bound twice after
    its first steps: what it carries lies in two rows of arrays, of which each step reads one and writes the other. A
    step of a small body took 24 us before that, and takes 5 then, and one with an If 61 and 8, on a busy machine.
    """

    def __init__(self, repeated: Repeated, known: dict[str, Any], states: Sequence[Any]) -> None:
        self._repeated, self._known = repeated, known
        self.states = list(states)
        """The carried values, as the last step gave them."""
        self._count, self._slow, self._tries = 0, _QUICK_FROM, _MOST_TRIES
        self._quick: _Quick | None = None

    def step(self, fresh: Sequence[Any], lead: int) -> tuple[Sequence[Any], Sequence[Any]]:
        """Run the body once: its first `lead` results, good until the next step, and those behind what it carries."""
        if self._quick is None:
            known = self._given(fresh)
            if not self._count and self._tries == _MOST_TRIES:
                self._quick = self._repeated.take(known, lead)
            self._count += 1
            if self._quick is None and self._count > self._slow and self._tries:
                self._quick = self._repeated.bind(known, lead)
                self._slow *= 4
            if self._quick is not None:
                self._quick.begin(known)
        if self._quick is not None:
            try:
                return self._quick.step(fresh)
            except OutsideError:  # this step is run as any graph is, and so are a few more
                self.states = [array.copy() for array in self._quick.states()]
                self._quick, known = None, self._given(fresh)
                self._count, self._slow, self._tries = 0, _QUICK_FROM, self._tries - 1
        results, end = self._repeated.body.run(known), lead + len(self._repeated.carried)
        self.states = results[lead:end]
        return results[:lead], results[end:]

    def sweep(
        self, step: int, end: int, sources: Sequence[Any] | None, gathered: Sequence[Gathered]
    ) -> tuple[int, bool]:
        """Run steps up to an end, or as far as a condition holds and it can: the next one, and whether there is one.

        What a step reads is a row of each source, or its number; `gathered` take what follows what is carried. Such
        steps take 1 to 2 us each, where `step` takes 4 and more.
        """
        if self._quick is not None:
            try:
                return self._quick.sweep(step, end, sources, gathered)
            except OutsideError:  # told once more by the next step
                return self._quick.at, True
        return step, True

    def _given(self, fresh: Sequence[Any]) -> dict[str, Any]:
        """All that the body reads in a step."""
        repeated = self._repeated
        self._known.update(zip(repeated.fresh, map(repeated.make, fresh), strict=True))
        self._known.update(zip(repeated.carried, self.states, strict=True))
        return self._known

    def end(self) -> list[Any]:
        """The carried values after the last step."""
        if (quick := self._quick) is None:
            return self.states
        found = [array.copy() for array in quick.states()]
        self._quick = None
        self._repeated.give_back(quick)
        return found


class _Quick:
    def __init__(self, bound: list[Bound], given: Mapping[str, Any], fresh: list[Any], rows: list[list[Any]]) -> None:
        self._bound, self._given, self._inputs, self._rows = bound, given, fresh, rows
        self._guard, self._launches = bound[0].guard, [each.launch for each in bound]
        self._turn = 0
        self._ahead: list[tuple[Any, Any]] = [(array, array.copy()) for array in rows[0]]
        """The first row as binding left it: with constants that the body carries, which no launch writes."""
        self._is_begun = False
        self.at = 0
        """The step that `sweep` came to."""
        self.lead: list[Any] = []
        self.rest: list[Any] = []
        self.key: Hashable = None
        """Of the steps of other runs that it can be used for; None where it cannot."""
        self.scratch = sum(each.scratch for each in bound)

    @classmethod
    def of(cls, repeated: Repeated, known: Mapping[str, Any], lead: int, key: Hashable) -> _Quick | None:
        """The body bound to copies of what each step is given, and with a key to copies of all but constants."""
        body, fresh, carried = repeated.body, repeated.fresh, repeated.carried
        if any(_is_large(known[name]) for name in (*fresh, *carried)):
            return None
        copied = {*fresh, *carried} if key is None else known.keys() - repeated.constants.keys()
        held = {name: x.copy() if name in copied else x for name, x in known.items()}
        first, fixed = {name: held[name] for name in carried}, frozenset(known.keys() - copied)
        there = body.bind(held, {}, fixed)
        if there is None or len({*body.gives, *body.takes}) < len(body.gives) + len(body.takes):
            return None
        outputs = [there.made[name] for name in body.gives]
        names = body.gives[lead : lead + len(carried)]
        second = dict(zip(carried, (there.made[name] for name in names), strict=True))
        rest = outputs[lead + len(carried) :]
        is_steady = all(second[n].shape == first[n].shape and second[n].dtype == first[n].dtype for n in carried)
        if not is_steady or any(array.nbytes > _MOST_BYTES for array in rest):
            return None
        into = {**there.made, **dict(zip(names, first.values(), strict=True))}
        back = body.bind({**held, **second}, into, fixed)
        if back is None:
            return None
        rows = [[first[name] for name in carried], [second[name] for name in carried]]
        read = {name for part in body for name in part.takes}
        inputs = [held[name] if name in read else None for name in fresh]
        found = cls([there, back], {name: held[name] for name in copied.difference(fresh)}, inputs, rows)
        found.lead, found.rest, found.key = outputs[:lead], rest, key
        return found

    def begin(self, known: Mapping[str, Any]) -> None:
        """Take the values that a first step reads."""
        for name, array in self._given.items():
            array[...] = known[name]
        self._turn, self._is_begun = 0, False

    def step(self, fresh: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        for array, value in zip(self._inputs, fresh, strict=True):
            if array is not None:
                array[...] = value
        self._guard(self._launches[self._turn])
        self._turn ^= 1
        if not self._is_begun:
            for array, value in self._ahead:
                array[...] = value
            self._is_begun = True
        return self.lead, [array.copy() for array in self.rest] if self.rest else ()

    def sweep(
        self, step: int, end: int, sources: Sequence[Any] | None, gathered: Sequence[Gathered]
    ) -> tuple[int, bool]:
        self.at, goes_on = step, True
        most = max(_MOST_ROWS // max(sum(array.nbytes for array in self.rest), 1), 1)
        while goes_on and self.at < end:
            first = self.at
            blocks = [np.empty((min(end - first, most), *array.shape), array.dtype) for array in self.rest]
            last = min(end, first + most)
            try:
                goes_on = self._guard(functools.partial(self._sweep, first, last, sources, blocks))
            finally:
                for one, block in zip(gathered, blocks, strict=True):
                    if self.at > first:
                        one.add_rows(block[: self.at - first])
        return self.at, goes_on

    def _sweep(self, start: int, end: int, sources: Sequence[Any] | None, blocks: list[Any]) -> bool:
        """Whether there is a next step."""
        first, second = self._launches if not self._turn else self._launches[::-1]
        number = self._inputs[0] if sources is None else None
        read = [] if sources is None else [x for x in zip(self._inputs, sources, strict=True) if x[0] is not None]
        made = list(zip(blocks, self.rest, strict=True))
        goes_on = self.lead[0] if self.lead else None
        while self.at < end:
            if number is not None:
                number[...] = self.at
            for array, source in read:
                array[...] = source[self.at]
            first()
            first, second = second, first
            self._turn ^= 1
            for block, array in made:
                block[self.at - start] = array
            self.at += 1
            if goes_on is not None and not goes_on.item():
                return False
        return True

    def states(self) -> list[Any]:
        return self._rows[self._turn]
