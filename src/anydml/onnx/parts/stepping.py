"""A body that runs again and again: at first like any graph, then bound to arrays that take turns."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.onnx.values import OutsideError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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


class Stepping:
    """The steps of one run of a Loop or a Scan.

    A body of programs and branches that gives what it carries in the shapes in which it takes it is bound twice after
    its first steps: what it carries lies in two rows of arrays, of which each step reads one and writes the other. A
    step of a small body took 24 us before that, and takes 5 then, and one with an If 61 and 8, on a busy machine.
    """

    def __init__(
        self,
        body: Parts,
        known: dict[str, Any],
        fresh: Sequence[str],
        carried: Sequence[str],
        states: Sequence[Any],
        make: Callable[[Any], np.ndarray[Any, Any]],
    ) -> None:
        """`known` stays as it is from step to step; the inputs `fresh` are given at each; `carried` has `states`.

        `make` makes an array of what is given for a fresh input.
        """
        self._make = make
        self._body, self._known, self._fresh, self._carried = body, known, list(fresh), list(carried)
        self.states = list(states)
        """What is carried, as the last step gave it."""
        self._count, self._slow, self._tries = 0, _QUICK_FROM, _MOST_TRIES
        self._quick: _Quick | None = None

    def step(self, fresh: Sequence[Any], lead: int) -> tuple[Sequence[Any], Sequence[Any]]:
        """Run the body once: its first `lead` results, good until the next step, and those behind what it carries."""
        if self._quick is None:
            known = self._given(fresh)
            self._count += 1
            if self._count > self._slow and self._tries:
                self._quick = _Quick.of(self._body, known, self._fresh, self._carried, lead)
                self._slow *= 4
        if self._quick is not None:
            try:
                return self._quick.step(fresh)
            except OutsideError:  # this step is run as any graph is, and so are a few more
                self.states = [array.copy() for array in self._quick.states()]
                self._quick, known = None, self._given(fresh)
                self._count, self._slow, self._tries = 0, _QUICK_FROM, self._tries - 1
        results, end = self._body.run(known), lead + len(self._carried)
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
        self._known.update(zip(self._fresh, map(self._make, fresh), strict=True))
        self._known.update(zip(self._carried, self.states, strict=True))
        return self._known

    def end(self) -> list[Any]:
        """What is carried after the last step."""
        return self.states if self._quick is None else self._quick.states()


class _Quick:
    def __init__(self, bound: list[Bound], fresh: list[Any], rows: list[list[Any]]) -> None:
        self._bound, self._inputs, self._rows = bound, fresh, rows
        self._guard, self._launches = bound[0].guard, [each.launch for each in bound]
        self._turn = 0
        self.at = 0
        """The step that `sweep` came to."""
        self.lead: list[Any] = []
        self.rest: list[Any] = []

    @classmethod
    def of(
        cls, body: Parts, known: Mapping[str, Any], fresh: list[str], carried: list[str], lead: int
    ) -> _Quick | None:
        """The body bound to arrays of its own; None where it cannot be, or does not go on as it is."""
        several = [known[name] for name in (*fresh, *carried)]
        if any(type(x) is not np.ndarray or x.nbytes > _MOST_BYTES for x in several):
            return None
        given = {name: known[name].copy() for name in fresh}
        first = {name: known[name].copy() for name in carried}
        fixed = frozenset(known.keys() - {*fresh, *carried})
        there = body.bind({**known, **given, **first}, {}, fixed)
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
        back = body.bind({**known, **given, **second}, into, fixed)
        if back is None:
            return None
        rows = [[first[name] for name in carried], [second[name] for name in carried]]
        read = {name for part in body for name in part.takes}
        inputs = [given[name] if name in read else None for name in fresh]
        found = cls([there, back], inputs, rows)
        found.lead, found.rest = outputs[:lead], rest
        return found

    def step(self, fresh: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        for array, value in zip(self._inputs, fresh, strict=True):
            if array is not None:
                array[...] = value
        self._guard(self._launches[self._turn])
        self._turn ^= 1
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
