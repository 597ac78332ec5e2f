"""A body that runs again and again: at first like any graph, then bound to arrays that take turns."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.onnx.parts.quick import MOST_ROWS, Quick, is_large
from anydml.onnx.values import OutsideError
from anydml.runtime.profiler_hook import WATCHER

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from anydml.limits import MemoryLimit, StepLimit
    from anydml.onnx.parts.gathered import Gathered
    from anydml.onnx.parts.whole import Parts

_QUICK_FROM = 2
"""Steps that run as any graph does, four times as many where the body cannot be bound yet: to bind two launches takes
about as long as five."""
_MOST_TRIES = 8
"""How often a body is bound whose steps leave what is bound: its values, or the branches that it takes, vary."""
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

        `make` makes an array of the value given for a fresh input. Results before those that are carried say whether
        there is a next step; a body of the inputs `constants` has one.
        """
        self.body, self.fresh, self.carried, self.make = body, list(fresh), list(carried), make
        self.constants, self.lead = constants, len(constants)
        self.rest = self.lead + len(self.carried)
        """The number of results before those of each step."""
        self._idle: dict[Hashable, list[Quick]] = {}
        """By the types and shapes of all that a step reads, constants aside."""
        self._refused: dict[Hashable, None] = {}
        """Those of first steps that the body could not be bound to."""
        self._left: dict[Hashable, int] = {}
        """How often a run left what is bound."""

    def run(
        self, given: list[Any], sources: Sequence[Any] | None, most: int | None, steps: StepLimit, memory: MemoryLimit
    ) -> list[Any] | None:
        """All steps of a run like an earlier one, at once: the carried values, and the rows of what each step gives.

        There are `most` steps, or without that as many as a condition says and the limit allows. None where it is a
        matter of more than copies and kernels, which is for a run step by step. A short Loop takes half of that one's
        time so.
        """
        end = steps.left if most is None else most
        if WATCHER.get() or not 0 < end <= steps.left or (key := _key(given, sources)) is None:
            return None
        try:
            quick = (several := self._idle[key]).pop()
        except (KeyError, IndexError):
            return None
        rest, found = quick.rest, None
        is_little = not rest or end * quick.row_bytes <= min(MOST_ROWS, memory.left // 2)
        if is_little and not (self._left and self._left.get(key, 0) > _MOST_TRIES):
            blocks = [np.empty((end, *array.shape), array.dtype) for array in rest]
            try:
                quick.begin(given)
                if not quick.guard(quick.sweep_into, 0, end, sources, blocks) or most is not None:  # else it is endless
                    found = [array.copy() for array in quick.states()]
                    found += blocks if quick.at == end else [block[: quick.at].copy() for block in blocks]
                    steps.count(quick.at)
            except OutsideError:  # which is found once more, step by step
                self._remember(self._left, key, self._left.get(key, 0) + 1)
        several.append(quick)
        return found

    def take(self, stepping: Stepping, step: int) -> Quick | None:
        """The body bound for the first step of a run; None where no earlier run was like it, or it cannot be."""
        key = None if WATCHER.get() else _key(stepping.given, stepping.sources)
        if key is None or key in self._refused:
            return None
        if (several := self._idle.get(key)) is None:
            self._remember(self._idle, key, [])
            return None
        try:
            return several.pop()
        except IndexError:  # another thread has the last, or the run before was too short to bind any
            pass
        if (found := self.bind(stepping, step)) is None:
            self._remember(self._refused, key, None)
        return found

    def bind(self, stepping: Stepping, step: int) -> Quick | None:
        """The body bound to arrays of its own; None where it cannot be, or does not go on as it is."""
        known = stepping.known(step)
        is_kept = not (WATCHER.get() or any(map(is_large, known.values())))
        return Quick.of(self, known, _key(stepping.given, stepping.sources) if is_kept else None)

    def give_back(self, quick: Quick) -> None:
        """Keep what was bound for the next run."""
        if (key := quick.key) is not None and quick.scratch <= _MOST_SCRATCH:
            if (several := self._idle.get(key)) is None:
                several = []
                self._remember(self._idle, key, several)
            if len(several) < _MOST_IDLE:
                several.append(quick)

    @staticmethod
    def _remember(by: dict[Hashable, Any], key: Hashable, value: Any) -> None:
        if len(by) >= _MOST_KEYS:
            by.clear()
        by[key] = value


def _key(given: Sequence[Any], sources: Sequence[Any] | None) -> Hashable:
    """The types and shapes of arrays, which are in one order, and of rows; None where one is no array."""
    found = [(x.dtype, x.shape) for x in given if type(x) is np.ndarray]
    if len(found) != len(given):
        return None
    return (*found, *[(x.dtype, x.shape[1:]) for x in sources]) if sources else tuple(found)


class Stepping:
    """The steps of one run of a Loop or a Scan.

    A body of programs and branches that gives what it carries in the shapes in which it takes it is bound twice after
    its first steps: what it carries lies in two rows of arrays, of which each step reads one and writes the other. A
    step of a small body took 24 us before that, and takes 1 then, and one with an If 61 and 8, on a busy machine.
    """

    def __init__(
        self, repeated: Repeated, captured: Sequence[Any], states: Sequence[Any], sources: Sequence[Any] | None = None
    ) -> None:
        """`captured` stays as it is from step to step. A step reads a row of each source, or without any its number."""
        self._repeated, self._captured, self._states, self.sources = repeated, captured, states, sources
        self._count, self._slow, self._tries = 0, _QUICK_FROM, _MOST_TRIES
        self._quick: Quick | None = None

    @property
    def given(self) -> list[Any]:
        """All that the next step reads, but for what is fresh and constants."""
        return [*self._captured, *self._states]

    def known(self, step: int) -> dict[str, Any]:
        """All that the body reads in a step."""
        repeated = self._repeated
        rows = [step] if self.sources is None else [source[step] for source in self.sources]
        found = dict(zip(repeated.body.captures, self._captured, strict=True))
        found |= repeated.constants
        found.update(zip(repeated.fresh, map(repeated.make, rows), strict=True))
        found.update(zip(repeated.carried, self._states, strict=True))
        return found

    def sweep(self, step: int, end: int, gathered: Sequence[Gathered]) -> tuple[int, bool]:
        """Run bound steps up to an end, or as far as a condition holds and they can: the next, and whether it is due.

        `gathered` take what follows what is carried. Such steps take about 1 us each.
        """
        if (quick := self._quick) is None:
            if (quick := self._find(step)) is None:
                return step, True
            quick.begin(self.given)
            self._quick = quick
        try:
            return quick.sweep(step, end, self.sources, gathered)
        except OutsideError:  # this step is run as any graph is, and so are a few more
            self._states, self._quick = [array.copy() for array in quick.states()], None
            self._count, self._slow, self._tries = 0, _QUICK_FROM, self._tries - 1
            return quick.at, True

    def _find(self, step: int) -> Quick | None:
        if not self._count and self._tries == _MOST_TRIES:
            return self._repeated.take(self, step)
        if self._count < self._slow or not self._tries:
            return None
        self._slow *= 4
        return self._repeated.bind(self, step)

    def step(self, step: int, gathered: Sequence[Gathered]) -> Any:
        """Run the body once, as any graph: the first result, where one says whether there is a next step."""
        repeated = self._repeated
        self._count += 1
        results = repeated.body.run(self.known(step))
        self._states = results[repeated.lead : repeated.rest]
        for one, value in zip(gathered, results[repeated.rest :], strict=True):
            one.add(value)
        return results[0] if repeated.lead else None

    def end(self) -> Sequence[Any]:
        """The carried values after the last step."""
        if (quick := self._quick) is None:
            return self._states
        found = [array.copy() for array in quick.states()]
        self._quick = None
        self._repeated.give_back(quick)
        return found
