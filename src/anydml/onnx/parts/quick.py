"""A body that steps run again and again, bound to two rows of arrays that take turns."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.alone import import_alone

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from anydml.onnx.parts.gathered import Gathered
    from anydml.onnx.parts.part import Bound
    from anydml.onnx.parts.stepping import Repeated

MOST_ROWS = 2**20
"""Bytes of what steps give that are put together as they come."""
_AT_ONCE = 64
"""Steps in one call."""
_STATE, _BY_CONDITION = struct.Struct("6q"), 1
"""As kernels of steps have it."""
_MOST_BYTES = 65_536
"""Of an array that is copied into its place at each step; what is larger costs more than binding anew."""


def is_large(value: Any) -> bool:
    """Whether it is no array, or too large to be copied at each step."""
    return type(value) is not np.ndarray or value.nbytes > _MOST_BYTES


class Quick:
    """A body bound to two rows of arrays, for one run at a time."""

    def __init__(self, bound: list[Bound], given: list[Any], fresh: list[Any], rows: list[list[Any]]) -> None:
        self._bound, self._given, self._inputs, self._rows = bound, given, fresh, rows
        self.guard, self._launches = bound[0].guard, [each.launch for each in bound]
        self._turn = 0
        self._ahead: list[tuple[Any, Any]] = [(array, array.copy()) for array in rows[0]]
        """The first row as binding left it: with constants that the body carries, which no launch writes."""
        self._is_begun = False
        self._native: Callable[..., Any] | None = None
        self._read: list[int] = []
        """The numbers of the inputs that a row of a source is put to."""
        self._state = np.zeros(6, np.int64)
        self.at = 0
        """The step that `sweep` came to."""
        self.goes_on: Any = None
        self.rest: list[Any] = []
        self.row_bytes = 0
        """Of what a step gives."""
        self.key: Hashable = None
        """Of the steps of other runs that it can be used for; None where it cannot."""
        self.scratch = sum(each.scratch for each in bound)

    @classmethod
    def of(cls, repeated: Repeated, known: Mapping[str, Any], key: Hashable) -> Quick | None:
        """The body bound to copies of what each step is given, and with a key to copies of all but constants."""
        body, fresh, carried, lead = repeated.body, repeated.fresh, repeated.carried, repeated.lead
        if any(is_large(known[name]) for name in (*fresh, *carried)):
            return None
        copied = {*fresh, *carried} if key is None else known.keys() - repeated.constants.keys()
        held = {name: x.copy() if name in copied else x for name, x in known.items()}
        first, fixed = {name: held[name] for name in carried}, frozenset(known.keys() - copied)
        there = body.bind(held, {}, fixed)
        if there is None or len({*body.gives, *body.takes}) < len(body.gives) + len(body.takes):
            return None
        outputs = [there.made[name] for name in body.gives]
        names = body.gives[lead : repeated.rest]
        second = dict(zip(carried, (there.made[name] for name in names), strict=True))
        rest = outputs[repeated.rest :]
        is_steady = all(second[n].shape == first[n].shape and second[n].dtype == first[n].dtype for n in carried)
        if not is_steady or any(is_large(array) for array in rest):
            return None
        into = {**there.made, **dict(zip(names, first.values(), strict=True))}
        back = body.bind({**held, **second}, into, fixed)
        if back is None:
            return None
        rows = [[first[name] for name in carried], [second[name] for name in carried]]
        read = {name for part in body for name in part.takes}
        inputs = [held[name] if name in read else None for name in fresh]
        given = [held[name] if name in copied else None for name in (*body.captures, *carried)]
        found = cls([there, back], given, inputs, rows)
        found.goes_on, found.rest, found.key = outputs[0] if lead else None, rest, key
        found.row_bytes = sum(array.nbytes for array in rest)
        found.make_native(is_counted=lead > 0)
        return found

    def begin(self, given: Sequence[Any]) -> None:
        """Take the values that a first step reads."""
        for array, value in zip(self._given, given, strict=True):
            if array is not None:
                array[...] = value
        self._turn, self._is_begun = 0, False

    def sweep(
        self, step: int, end: int, sources: Sequence[Any] | None, gathered: Sequence[Gathered]
    ) -> tuple[int, bool]:
        """Run steps up to an end, or as far as a condition holds: the next one, and whether it is due."""
        self.at = step
        if not self.rest:
            goes_on = self.guard(self.sweep_into, step, end, sources, ())
            return self.at, goes_on
        goes_on = True
        most = max(MOST_ROWS // max(self.row_bytes, 1), 1)
        while goes_on and self.at < end:
            first = self.at
            blocks = [np.empty((min(end - first, most), *array.shape), array.dtype) for array in self.rest]
            last = min(end, first + most)
            try:
                goes_on = self.guard(self.sweep_into, first, last, sources, blocks)
            finally:
                if count := self.at - first:
                    for one, block in zip(gathered, blocks, strict=True):
                        one.add_rows(block if count == len(block) else block[:count])
        return self.at, goes_on

    def make_native(self, *, is_counted: bool) -> None:
        """Have steps in one call where they are nothing but kernels; `is_counted` says that each reads its number."""
        import_alone("anydml.engines.cpu.launch.loops")
        from anydml.engines.cpu.launch.loops import make_sweep_of  # with what compiles kernels, which few models need

        self._read = [] if is_counted else [i for i, array in enumerate(self._inputs) if array is not None]
        number, reads = self._inputs[0] if is_counted else None, [self._inputs[i] for i in self._read]
        is_whole = all(array.flags.c_contiguous for array in (*reads, *self.rest))
        condition = self.goes_on
        if is_whole and (condition is None or (condition.dtype == np.bool_ and condition.size == 1)):
            self._native = make_sweep_of(self._launches, number, self.goes_on, reads, self.rest, self._ahead, _AT_ONCE)

    def sweep_into(self, start: int, end: int, sources: Sequence[Any] | None, blocks: Sequence[Any]) -> bool:
        """Whether there is a next step; `blocks` take the rows of what each gives."""
        if (native := self._native) is None:
            return self._sweep(start, start, end, sources, blocks)
        arrays = list(blocks)
        if sources is not None:
            arrays = [sources[i] for i in self._read] + arrays
            if not all(array.flags.c_contiguous for array in arrays):
                return self._sweep(start, start, end, sources, blocks)
        at, state, why = start, self._state, 0
        while at < end:  # a few at a time: others may want Python's lock, and Ctrl-C is looked for in between
            _STATE.pack_into(state.data, 0, at, min(end, at + _AT_ONCE), self._turn, self._is_begun, start, 0)
            native(state, *arrays)
            at, _, self._turn, self._is_begun, _, why = _STATE.unpack_from(state.data)
            self.at = at
            if why:
                return why != _BY_CONDITION and self._sweep(start, at, end, sources, blocks)
        return True

    def _sweep(self, start: int, at: int, end: int, sources: Sequence[Any] | None, blocks: Sequence[Any]) -> bool:
        """The same by one launch after the other."""
        launches, turn, goes_on = self._launches, self._turn, self.goes_on
        number = self._inputs[0] if sources is None else None
        read = [] if sources is None else [x for x in zip(self._inputs, sources, strict=True) if x[0] is not None]
        made = list(zip(blocks, self.rest, strict=True))
        try:
            while at < end:
                if number is not None:
                    number[...] = at
                for array, source in read:
                    array[...] = source[at]
                launches[turn]()
                turn ^= 1
                if not self._is_begun:
                    for array, value in self._ahead:
                        array[...] = value
                    self._is_begun = True
                for block, array in made:
                    block[at - start] = array
                at += 1
                if goes_on is not None and not goes_on.item():
                    return False
        finally:
            self._turn, self.at = turn, at
        return True

    def states(self) -> list[Any]:
        """The carried values, as the last step gave them."""
        return self._rows[self._turn]
