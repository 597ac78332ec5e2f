"""A body that runs again and again: at first like any graph, then bound to arrays that take turns."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.onnx.parts.segment import Segment
from anydml.onnx.values import OutsideError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.onnx.parts.gathered import Gathered
    from anydml.onnx.parts.whole import Parts
    from anydml.onnx.program import Program

_QUICK_FROM = 2
"""Steps that run as any graph does: to bind two launches takes about as long as five."""
_MOST_BYTES = 65_536
"""Of an array that is copied into its place at each step; what is larger costs more than binding anew."""
_MOST_ROWS = 2**20
"""Bytes of what steps give that are put together as they come."""


class Stepping:
    """The steps of one run of a Loop or a Scan.

    A body that is one program, and gives what it carries in the shapes in which it takes it, is bound twice after its
    first steps: what it carries lies in two rows of arrays, of which each step reads one and writes the other. A step
    of a small body took 24 us before that, and takes 5 then, on a busy machine.
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
        self._count = 0
        self._quick: _Quick | None = None

    def step(self, fresh: Sequence[Any], lead: int) -> tuple[Sequence[Any], Sequence[Any]]:
        """Run the body once: its first `lead` results, good until the next step, and those behind what it carries."""
        if self._quick is None:
            known = self._given(fresh)
            self._count += 1
            if self._count == _QUICK_FROM + 1:
                self._quick = _Quick.of(self._body, known, self._fresh, self._carried, lead)
        if self._quick is not None:
            try:
                return self._quick.step(fresh)
            except OutsideError:  # this step is run as any graph is, and so are a few more
                self.states = [array.copy() for array in self._quick.states()]
                self._quick, self._count, known = None, 0, self._given(fresh)
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
    def __init__(
        self, program: Program, launches: list[Callable[[], Any]], fresh: list[Any], rows: list[list[Any]]
    ) -> None:
        self._guard, self._launches, self._inputs, self._rows = program.guard, launches, fresh, rows
        self._turn = 0
        self.at = 0
        """The step that `sweep` came to."""
        self._held: list[Any] = []
        self.lead: list[Any] = []
        self.rest: list[Any] = []

    @classmethod
    def of(
        cls, body: Parts, known: Mapping[str, Any], fresh: list[str], carried: list[str], lead: int
    ) -> _Quick | None:
        """The body bound to arrays of its own; None where it is not one program that goes on as it is."""
        parts = list(body)
        if len(parts) != 1 or not isinstance(parts[0], Segment):
            return None
        segment = parts[0]
        program = segment.recall(known)
        several = [known[name] for name in (*fresh, *carried)]
        if program is None or any(type(x) is not np.ndarray or x.nbytes > _MOST_BYTES for x in several):
            return None
        results: dict[str, Any] = {name: np.empty(v.shape, v.element.dtype) for name, v in program.results()}
        for name in body.gives:
            if name not in results:
                if name in body.takes:
                    return None
                results[name] = body.constant(name)
        outputs = [results[name] for name in body.gives]
        others = outputs[lead : lead + len(carried)]
        rest = outputs[lead + len(carried) :]
        pairs = list(zip(others, (known[name] for name in carried), strict=True))
        is_steady = all(a.shape == b.shape and a.dtype == b.dtype for a, b in pairs)
        is_apart = len({id(array) for array in outputs}) == len(outputs)
        if not (is_steady and is_apart) or any(array.nbytes > _MOST_BYTES for array in rest):
            return None
        given = {name: known[name].copy() for name in fresh}
        first = {name: known[name].copy() for name in carried}
        second = dict(zip(carried, others, strict=True))
        fixed = frozenset(known.keys() - {*fresh, *carried})
        names = dict(zip(body.gives[lead:], carried, strict=False))
        launches, held = [], []
        for reads, writes in ((first, second), (second, first)):
            arrays = {name: reads.get(name, given.get(name, known.get(name))) for name in segment.takes}
            made = [writes[names[name]] if name in names else results[name] for name in segment.gives]
            launches.append(program.bound(arrays, made, fixed))
            held += [*arrays.values(), *made]
        if None in launches:
            return None
        rows = [[first[name] for name in carried], [second[name] for name in carried]]
        inputs = [given[name] if name in segment.takes else None for name in fresh]
        found = cls(program, [each for each in launches if each is not None], inputs, rows)
        found.lead, found.rest, found._held = outputs[:lead], rest, held
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
