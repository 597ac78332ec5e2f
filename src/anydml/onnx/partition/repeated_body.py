"""A body that runs again and again: at first like any graph, then bound to arrays that take turns."""

from __future__ import annotations

import struct
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays import DeviceArray, on_host
from anydml.arrays.cuda import load_torch
from anydml.core.errors import Fault, ModelError, UnsupportedError, printable
from anydml.core.late_imports import import_alone
from anydml.onnx.element_types import read_element_type
from anydml.onnx.program import OutsideError
from anydml.runtime.call_cache import CallCache
from anydml.runtime.profiler_hook import WATCHER

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from anydml.core.limits import MemoryLimit, StepLimit
    from anydml.onnx.ir import ValueInfo
    from anydml.onnx.partition.part import Bound
    from anydml.onnx.partition.partitioned_graph import Parts
    from anydml.onnx.read import Source

# Bodies bound to two rows of arrays that take turns


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


# Steps


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
        self._idle: CallCache[list[Quick]] = CallCache(_MOST_KEYS)
        """By the types and shapes of all that a step reads, constants aside."""
        self._refused: CallCache[None] = CallCache(_MOST_KEYS)
        """Those of first steps that the body could not be bound to."""
        self._left: CallCache[int] = CallCache(_MOST_KEYS)
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
                self._left.keep(key, self._left.get(key, 0) + 1)
        several.append(quick)
        return found

    def take(self, stepping: Stepping, step: int) -> Quick | None:
        """The body bound for the first step of a run; None where no earlier run was like it, or it cannot be."""
        key = None if WATCHER.get() else _key(stepping.given, stepping.sources)
        if key is None or key in self._refused:
            return None
        if (several := self._idle.get(key)) is None:
            self._idle.keep(key, [])
            return None
        try:
            return several.pop()
        except IndexError:  # another thread has the last, or the run before was too short to bind any
            pass
        if (found := self.bind(stepping, step)) is None:
            self._refused.keep(key, None)
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
                self._idle.keep(key, several)
            if len(several) < _MOST_IDLE:
                several.append(quick)


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


# The results of a Loop's or a Scan's steps, put together at the end.


class Gathered:
    """The values of one scan output, of one shape and type, within the model's memory limit."""

    def __init__(self, info: ValueInfo, label: str, source: Source) -> None:
        self._info, self._label, self._source = info, label, source
        self._blocks: list[Any] = []
        """Rows of values, one for each step."""
        self._size = 0

    def add(self, value: Any) -> None:
        """Take what a step gives."""
        if not hasattr(value, "nbytes"):
            rule = f"'{printable(self._info.name)}' must be a tensor: it is one for each step, put together"
            raise ModelError(self._label, Fault(field=self._info.name, rule=rule))
        self.add_rows(value[None])

    def add_rows(self, rows: Any) -> None:
        """Take what several steps give, one beside the other."""
        if self._blocks and (rows.shape[1:] != self._blocks[0].shape[1:] or rows.dtype != self._blocks[0].dtype):
            said = _said(self._blocks[0][0])
            rule = f"'{printable(self._info.name)}' must have one shape and type in every step, {said}"
            raise ModelError(self._label, Fault(field=self._info.name, rule=rule, found=_said(rows[0])))
        self._blocks.append(rows)
        self._size += rows.nbytes
        if 2 * self._size > (limit := self._source.beside.limit).left:  # they are there twice while put together
            limit.check(2 * self._size, f"results of steps, '{printable(self._info.name)}'", self._source.name)

    def stacked(self, axis: int = 0, *, is_back: bool = False) -> Any:
        """All of them as one array, the steps along an axis."""
        if not self._blocks:
            return self._none(axis)
        rank = len(self._blocks[0].shape)
        if not -rank <= axis < rank:
            rule = f"scan_output_axes must be an axis of {rank} dimensions"
            raise ModelError(self._label, Fault(field="scan_output_axes", rule=rule, found=str(axis)))
        if isinstance(self._blocks[0], np.ndarray):
            is_one = len(self._blocks) == 1 and self._blocks[0].base is None
            whole = self._blocks[0] if is_one else np.concatenate(self._blocks)
            if axis in (0, -rank) and not is_back:
                return whole
            return np.ascontiguousarray(np.moveaxis(whole[::-1] if is_back else whole, 0, axis))
        if isinstance(self._blocks[0], DeviceArray):
            self._blocks = [np.concatenate(list(map(on_host, self._blocks)))]
            return self.stacked(axis, is_back=is_back)
        whole = load_torch().cat(self._blocks)
        return (whole.flip(0) if is_back else whole).movedim(0, axis).contiguous()

    def _none(self, axis: int) -> Any:
        """The result of no steps: of the declared type and sizes, an open size being 0."""
        declared, name = self._info.type, printable(self._info.name)
        try:
            dtype = read_element_type(declared.element, self._label, f"'{name}'").dtype
        except UnsupportedError:
            rule = f"'{name}' must be declared with an element type, as no step gives one"
            raise ModelError(self._label, Fault(field=self._info.name, rule=rule)) from None
        sizes = [size if isinstance(size, int) else 0 for size in declared.shape or ()]
        sizes.insert(axis if axis >= 0 else len(sizes) + 1 + axis, 0)
        try:
            return np.empty(sizes, dtype)
        except ValueError as error:
            rule = f"'{name}' must have sizes that an array can have"
            raise ModelError(self._label, Fault(field=self._info.name, rule=rule, found=str(sizes))) from error


def _said(value: Any) -> str:
    return f"{tuple(value.shape)} of {value.dtype}"
