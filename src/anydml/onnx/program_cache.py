"""The programs of a graph, one for each set of shapes and of values that a shape depends on; the last used are kept.

For new sizes they are made of what was planned with the sizes left open: nothing is traced or rewritten again.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Any

from anydml.arrays.shared import SharedData
from anydml.core.errors import ModelError, UnsupportedError
from anydml.core.guards import Tape
from anydml.core.locks import make_lock
from anydml.core.symbolic_sizes import OpenSize
from anydml.ir.substitution import Rebuilt
from anydml.onnx.arguments import on_host
from anydml.onnx.lower.refusals import Refusal, Why
from anydml.onnx.lower.trace import trace
from anydml.onnx.lower.tracer import MOST_FOLDED_BYTES
from anydml.onnx.lower.values import Known, OpenData
from anydml.onnx.program import Program, outline_of
from anydml.onnx.shapes import refuse_large
from anydml.onnx.stored_plans import PlansOnDisk
from anydml.runtime.graph import CompiledGraph
from anydml.runtime.planning import Prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy as np

    from anydml.onnx.lower.lowering_cache import Kept
    from anydml.onnx.program import Outline, Spares
    from anydml.onnx.read import Source
    from anydml.runtime.device import Device

    Shapes = Mapping[str, tuple[int, ...]]
    Arrays = Mapping[str, np.ndarray[Any, Any]]


# Symbolic re-planning


_MOST = 16
"""Plans with open sizes of one model: where sizes pass a threshold there is another. The more there are, the fewer are
made: such a plan takes three times as long as one for certain sizes."""
_FIRST_TRIES = 3
"""That are made before the first is found to hold for other sizes."""
_FEWEST_SEEN = 2
"""Shapes that are planned as they are: to leave sizes open pays with the third that comes, and many models have two."""


class Replans:
    """The plans of a model's programs, with sizes left open."""

    def __init__(self, source: Source, device: Device, kept: Kept, *, assumes: bool) -> None:
        self._source, self._device, self._kept, self._assumes = source, device, kept, assumes
        self._open: list[_OpenPlan] = []
        self._seen: list[Shapes] = []
        """The last shapes of programs that were planned as they are."""
        self._missed = self._found = 0

    def find(self, shapes: Shapes, values: Arrays, spares: Spares) -> Program | None:
        """The program for these shapes and values, without a plan of its own; None where there is none yet."""
        if self._source.beside.limit.left < MOST_FOLDED_BYTES:
            return None
        given = _plain(values)
        for plan in reversed(self._open):
            if plan.values == given and (program := plan.program(shapes, spares)) is not None:
                self._found += 1
                return program
        opened = self._opened(shapes) if len(self._seen) >= _FEWEST_SEEN else set()
        if opened and len(self._open) < min(_MOST, _FIRST_TRIES + self._found):
            self._missed += 1
            if self._missed > len(self._open) // 2:
                self._missed = 0
                if (made := self._plan(shapes, values, opened)) is not None:
                    self._open.append(made)
                    return made.program(shapes, spares)
        if shapes not in self._seen:
            self._seen = [*self._seen[1 - _MOST :], dict(shapes)]
        return None

    def _opened(self, shapes: Shapes) -> set[tuple[str, int]]:
        """The dimensions that were of other sizes before; those of size 1 stay, for so they are broadcast."""
        ranks = {name: len(shape) for name, shape in shapes.items()}
        found: set[tuple[str, int]] = set()
        for before in self._seen:
            if {name: len(shape) for name, shape in before.items()} == ranks:
                found |= {
                    (name, k)
                    for name, shape in shapes.items()
                    for k, size in enumerate(shape)
                    if size > 1 and size != before[name][k]
                }
        return found

    def _plan(self, shapes: Shapes, values: Arrays, opened: set[tuple[str, int]]) -> _OpenPlan | None:
        """Plan with open sizes; None where that cannot be, and another will say why."""
        tape, source, device = Tape(), self._source, self._device
        places = sorted(opened)
        sizes = {place: tape.open(shapes[place[0]][place[1]]) for place in places}
        given: Any = {
            name: tuple(sizes.get((name, k), size) for k, size in enumerate(shape)) for name, shape in shapes.items()
        }
        try:
            with tape.recording():
                found = trace(source, given, values, device, kept=self._kept, assumes=self._assumes)
                if isinstance(found, Refusal):
                    return None
                outline, made = outline_of(found)
                if outline.states or not made:
                    return None
                desc = found.tracer.graph.desc(made)
                desc.validate(device.feature_level)
                prepared, *told = Prepared.of(device.engine, desc, source.without)
        except Exception:  # noqa: BLE001 - a plan for these very sizes meets with the same, or does without
            return None
        tape.keep(_plain_sizes(told[1]))
        return _OpenPlan(self, tape, places, dict(shapes), _plain(values), (outline, prepared), tuple(told))

    @property
    def made_for(self) -> tuple[Source, Device]:
        """The model and the device."""
        return self._source, self._device


class _OpenPlan:
    """An outline and a graph with open sizes."""

    def __init__(
        self,
        owner: Replans,
        tape: Tape,
        places: list[tuple[str, int]],
        shapes: Shapes,
        values: tuple[Any, ...],
        planned: tuple[Outline, Prepared],
        told: tuple[Any, ...],
    ) -> None:
        self._owner, self._tape, self._places, self._shapes = owner, tape, places, shapes
        self.values = values
        self._planned, self._told = planned, told
        changes: dict[type, Callable[[Any], Any]] = {OpenSize: _number, OpenData: _data, Known: _known}
        self._rebuilt, self._rebuilt_told = Rebuilt(changes), Rebuilt(changes)
        self._lock = make_lock()

    def program(self, shapes: Shapes, spares: Spares) -> Program | None:
        """The program for sizes of which the same is found."""
        fixed = {
            name: tuple(-1 if (name, k) in self._places else size for k, size in enumerate(shape))
            for name, shape in self._shapes.items()
        }
        if shapes.keys() != fixed.keys() or any(
            len(shape) != len(fixed[name]) or any(a not in (-1, b) for a, b in zip(fixed[name], shape, strict=True))
            for name, shape in shapes.items()
        ):
            return None
        numbers = self._tape.at([shapes[name][k] for name, k in self._places])
        if numbers is None:
            return None
        with self._lock, self._tape.reading(numbers):
            if not self._tape.is_as_expected():
                return None
            outline, prepared = self._rebuilt(self._planned)
        source, device = self._owner.made_for

        def tell() -> Any:
            with self._lock, self._tape.reading(numbers):
                return self._rebuilt_told(self._told)

        def make(left: int | None) -> CompiledGraph:
            plan = prepared.plan(device.engine, source.without, left, tell)
            return CompiledGraph.planned(device, plan, max_memory=left)

        return Program(outline, device, spares, source.beside, make)


def _number(size: OpenSize) -> int | float:
    return size.tape.values[size.number]


def _data(data: OpenData) -> SharedData:
    array = data.array
    return SharedData(len(array), lambda: array)


def _known(known: Known) -> Known:
    return Known(known.flat()) if known.is_open else known


def _plain(values: Arrays) -> tuple[Any, ...]:
    return tuple((name, array.dtype.str, array.shape, array.tobytes()) for name, array in sorted(values.items()))


def _plain_sizes(lowered: Any) -> Iterator[int]:
    """The sizes and strides of a recipe that are not open."""
    for step in lowered.steps:
        for view in step.primitive.views:
            yield from (one for one in (*view.sizes, *view.strides, view.offset) if type(one) is int)


# Programs by shapes


MOST_PROGRAMS = 1024
"""That are kept: a decoder's cache has another shape at each token."""
_FEW = 64
"""Programs that are kept whatever they hold."""
_MOST_BYTES = 2**28
"""Of what more than a few of them hold, each for itself."""
_STEP_BYTES = 16_384
"""Of a program for each of its passes: 12 to 18 KiB were measured, of a body of 4 nodes and of a BERT of 1,606."""
_MOST_GONE = 4096
_MOST_MISSED = 16
"""Runs in a row with values that a program does not hold for, each of which is computed twice."""


class Programs(OrderedDict[Any, Program]):
    """By shapes and values, the programs that were used last. Whoever asks for one holds a lock."""

    def __init__(
        self,
        source: Source,
        device: Device,
        kept: Kept,
        spares: Spares,
        forget: Callable[[Program], object],
        looks_at: Callable[[Refusal, Mapping[str, tuple[int, ...]]], bool] | None = None,
        *,
        assumes: bool = True,
    ) -> None:
        """`looks_at` says whether a program is made for each value of needed inputs; else the need is refused.

        One that `assumes` that bounds need no clamping holds for all that do not: see `exact`.
        """
        super().__init__()
        self.assumes = assumes
        self._exact: Programs | None = None
        self.source = source
        self._device, self._kept, self._spares = device, kept, spares
        self._on_disk = PlansOnDisk(source, device, kept, assumes=assumes)
        self._replans = Replans(source, device, kept, assumes=assumes)
        self._forget, self._looks_at = forget, looks_at
        self.valued: list[str] = []
        """Inputs whose values a shape depends on, found while tracing."""
        self._seconds = 0.0
        self._size = 0
        self._holders: Counter[int] = Counter()
        """By the address of a constant, the programs that hold it."""
        self._gone: dict[int, None] = {}
        """The hashes of the keys of programs that were let go of."""

    @property
    def seconds(self) -> float:
        """The seconds that the programs took to compile so far."""
        return self._seconds + (0.0 if self._exact is None else self._exact.seconds)

    def exact(self) -> Programs:
        """Those for the very values of a run that another does not hold for; after some such runs they are all."""
        if self._exact is None:
            own = (self.source, self._device, self._kept, self._spares, self._forget, self._looks_at)
            self._exact = Programs(*own, assumes=False)
        if self.assumes and any(program.missed > _MOST_MISSED for program in self.values()):
            for program in self.values():
                self._forget(program)
                self._count(program, -1)
            self.clear()
            for key, program in self._exact.items():
                self._add(key, program)
            self.assumes, self.valued = False, self._exact.valued
            self._on_disk = PlansOnDisk(self.source, self._device, self._kept, assumes=False)
            self._replans = Replans(self.source, self._device, self._kept, assumes=False)
        return self._exact

    def find(self, shapes: dict[str, tuple[int, ...]], arrays: Mapping[str, Any]) -> Program | Refusal:
        """The program for these shapes, and for the values of the inputs that a shape depends on, or why none is."""
        while True:
            # What is too large to be looked at is so whether or not it was needed, being smaller, before.
            looked_at = [n for n in self.valued if n in arrays and refuse_large(n, shapes[n]) is None]
            values = {name: on_host(arrays[name]) for name in looked_at}
            key = (tuple(shapes.items()), tuple((name, array.tobytes()) for name, array in values.items()))
            if (program := self.get(key)) is not None:
                self.move_to_end(key)
                return program
            start = time.perf_counter()
            try:
                found = self._make(shapes, values)
            finally:
                self._seconds += time.perf_counter() - start
            if not isinstance(found, Refusal):
                self._add(key, found)
                return found
            if found.why is not Why.VALUES or not self._looks_anew(found, shapes, arrays):
                return found

    def _make(self, shapes: dict[str, tuple[int, ...]], values: Arrays) -> Program | Refusal:
        """A program that is kept on disk, or is planned already for open sizes, or else one that is traced."""
        if (program := self._on_disk.find(shapes, values, self._spares)) is not None:
            return program
        if (program := self._replans.find(shapes, values, self._spares)) is None:
            found = trace(self.source, shapes, values, self._device, kept=self._kept, assumes=self.assumes)
            if isinstance(found, Refusal):
                return found
            try:
                program = Program.of(found, self._spares, self.source.beside, self.source.without)
            except UnsupportedError as error:  # by the feature level
                return Refusal(Why.DEVICE, error)
            self._on_disk.keep(shapes, values, program)
        return program

    def _add(self, key: Any, program: Program) -> None:
        """Keep a program, and let go of those used longest ago.

        Where one that was let go of is asked for again, the one used last goes: of runs that go through more shapes
        than are kept, time and again, those kept are then found again, and none would be otherwise.
        """
        is_again = hash(key) in self._gone
        while len(self) >= MOST_PROGRAMS or (len(self) >= _FEW and self._size > _MOST_BYTES):
            old, gone = self.popitem(last=is_again)
            self._count(gone, -1)
            self._gone[hash(old)] = None
            self._forget(gone)
        while len(self._gone) > _MOST_GONE:
            del self._gone[next(iter(self._gone))]
        self[key] = program
        self._count(program, 1)

    def _count(self, program: Program, sign: int) -> None:
        """Count what a program holds for itself: its steps, and constants that no other one holds."""
        if (compiled := program.compiled) is None:
            return
        self._size += sign * _STEP_BYTES * len(compiled.plan.programs)
        for address, size in compiled.held.items():
            before = self._holders[address]
            self._holders[address] = after = before + sign
            self._size += size * ((after == 1) - (before == 1))
            if not after:
                del self._holders[address]

    def _looks_anew(self, need: Refusal, shapes: Mapping[str, tuple[int, ...]], arrays: Mapping[str, Any]) -> bool:
        """Whether the values of inputs that are needed are there, and are looked at from now on."""
        if self._looks_at is not None and not self._looks_at(need, shapes):
            return False
        for name in sorted(need.inputs):
            if (fault := refuse_large(name, shapes[name])) is not None:
                raise ModelError(need.error.subject, [*need.error.faults, fault])
        wanted = [name for name in sorted(need.inputs) if name not in self.valued]
        self.valued = sorted({*self.valued, *wanted})
        return bool(wanted) and all(name in arrays for name in need.inputs)
