"""Programs for new sizes, made of what was planned with the sizes left open: nothing is traced or rewritten again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.arrays.shared import SharedData
from anydml.locks import make_lock
from anydml.onnx.outline import outline_of
from anydml.onnx.program import Program
from anydml.onnx.tracer import MOST_FOLDED_BYTES
from anydml.onnx.tracing import trace
from anydml.onnx.values import Known, OpenData
from anydml.opened import OpenSize
from anydml.rebuilding import Rebuilt
from anydml.runtime.graph import CompiledGraph
from anydml.runtime.planning import Prepared
from anydml.tapes import Tape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy as np

    from anydml.onnx.kept import Kept
    from anydml.onnx.outline import Outline
    from anydml.onnx.reading import Source
    from anydml.onnx.spares import Spares
    from anydml.runtime.device import Device

    Shapes = Mapping[str, tuple[int, ...]]
    Arrays = Mapping[str, np.ndarray[Any, Any]]

_MOST = 16
"""Plans with open sizes of one model: where sizes pass a threshold there is another. The more there are, the fewer are
made: such a plan takes three times as long as one for certain sizes."""
_FEW = 3
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
        if opened and len(self._open) < min(_MOST, _FEW + self._found):
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
