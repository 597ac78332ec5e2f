"""The programs of a graph, one for each set of shapes and of values that a shape depends on; the last used are kept.

One that is not kept is made of what was planned with symbolic sizes, or loaded from disk; else the graph is traced.
"""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.arrays.shared import SharedData
from anydml.core.errors import ModelError, UnsupportedError
from anydml.onnx.arguments import host_copy
from anydml.onnx.lower.refusals import Refusal, Why
from anydml.onnx.lower.trace import trace
from anydml.onnx.lower.tracer import MOST_FOLDED_BYTES
from anydml.onnx.lower.values import Known, OpenData
from anydml.onnx.program import Program, outline_of
from anydml.onnx.shapes import refuse_large
from anydml.onnx.stored_plans import PlansOnDisk
from anydml.runtime.plan_cache import PlanCache
from anydml.runtime.replanning import Described, Replans

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    import numpy as np

    from anydml.onnx.lower.lowering_cache import Kept
    from anydml.onnx.program import Outline, Spares
    from anydml.onnx.read import Source
    from anydml.runtime.device import Device

    Shapes = Mapping[str, tuple[int, ...]]
    Arrays = Mapping[str, np.ndarray[Any, Any]]

_MOST_MISSED = 16
"""Runs in a row with values that a program does not hold for, each of which is computed twice."""


class _Model(NamedTuple):
    """What programs are made of, beside shapes and values."""

    source: Source
    device: Device
    kept: Kept
    spares: Spares


class Programs(PlanCache[Program]):
    """The plan cache of a model, or of a part of one: by the shapes of inputs, and by values that shapes depend on."""

    def __init__(
        self,
        source: Source,
        device: Device,
        kept: Kept,
        spares: Spares,
        forget: Callable[[Program], object],
        looks_at: Callable[[Refusal, Shapes], bool] | None = None,
        *,
        assumes: bool = True,
    ) -> None:
        """`looks_at` says whether a program is made for each value of needed inputs; else the need is refused.

        One that `assumes` that bounds need no clamping holds for all that do not: see `exact`.
        """
        super().__init__(forget)
        self.source = source
        self._model, self._looks_at = _Model(source, device, kept, spares), looks_at
        self._exact: Programs | None = None
        self.valued: list[str] = []
        """Inputs whose values a shape depends on, found while tracing."""
        self._seconds = 0.0
        self._assume(assumes=assumes)

    def _assume(self, *, assumes: bool) -> None:
        source, device, kept, _ = self._model
        self.assumes = assumes
        self._on_disk = PlansOnDisk(source, device, kept, assumes=assumes)
        describe = functools.partial(_describe, self._model, assumes=assumes)
        changes: dict[type, Callable[[Any], Any]] = {OpenData: _data, Known: _known}
        # Where plans are no data every length is compiled by itself: five of 22 layers took WebGPU 16 s, not 11.
        self._lengths = _lengths(source) if device.engine.plans is not None else []
        self._replans = Replans(device, describe, source.disabled_passes, changes, opened=self._lengths)

    @property
    def seconds(self) -> float:
        """The seconds that the programs took to compile so far."""
        return self._seconds + (0.0 if self._exact is None else self._exact.seconds)

    def exact(self) -> Programs:
        """Those for the very values of a run that another does not hold for; after some such runs they are all."""
        if self._exact is None:
            self._exact = Programs(*self._model, self._forget, self._looks_at, assumes=False)
        if self.assumes and any(program.missed > _MOST_MISSED for program in self.values()):
            self.empty()
            for key, program in self._exact.items():
                self.add(key, program)
            self.valued = self._exact.valued
            self._assume(assumes=False)
        return self._exact

    def find(self, shapes: Shapes, arrays: Mapping[str, Any]) -> Program | Refusal:
        """The program for these shapes, and for the values of the inputs that a shape depends on, or why none is."""
        while True:
            # What is too large to be looked at is so whether or not it was needed, being smaller, before.
            looked_at = [n for n in self.valued if n in arrays and refuse_large(n, shapes[n]) is None]
            values = {name: host_copy(arrays[name]) for name in looked_at}
            key = (tuple(shapes.items()), tuple((name, array.tobytes()) for name, array in values.items()))
            if (program := self.use(key)) is not None:
                return program
            start = time.perf_counter()
            try:
                found = self._make(shapes, values)
            finally:
                self._seconds += time.perf_counter() - start
            if not isinstance(found, Refusal):
                self.add(key, found)
                return found
            if found.why is not Why.VALUES or not self._looks_anew(found, shapes, arrays):
                return found

    def _make(self, shapes: Shapes, values: Arrays) -> Program | Refusal:
        """A program that is planned already with symbolic sizes, or is kept on disk, or else one that is traced."""
        source, device, kept, spares = self._model
        sizes: dict[Hashable, int] = {(name, k): n for name, shape in shapes.items() for k, n in enumerate(shape)}
        ranks = tuple((name, len(shape)) for name, shape in shapes.items())
        plain = tuple((name, array.dtype.str, array.shape, array.tobytes()) for name, array in sorted(values.items()))
        is_open = source.beside.limit.left >= MOST_FOLDED_BYTES  # less is then computed while a model is traced
        found = self._replans.known(sizes, (ranks, plain)) if is_open else None
        is_first = found is None and bool(self._lengths)
        if found is None:
            if (program := self._on_disk.find(shapes, values, spares)) is not None:
                return program
            found = self._replans.plan(sizes, (shapes, values), (ranks, plain)) if is_open else None
        if found is not None:
            program = Program(found.more, device, spares, source.beside, found.make, found.ready)
            if is_first and all(shapes[name][k] > 1 for name, k in self._lengths if name in shapes):
                # A prompt's, and no step's: the next process may begin with it too.
                self._on_disk.keep(shapes, values, program, is_rare=True)
            return program
        traced = trace(source, shapes, values, device, kept=kept, assumes=self.assumes)
        if isinstance(traced, Refusal):
            return traced
        try:
            program = Program.of(traced, spares, source.beside, source.disabled_passes)
        except UnsupportedError as error:  # by the feature level
            return Refusal(Why.DEVICE, error)
        self._on_disk.keep(shapes, values, program)
        return program

    def _looks_anew(self, need: Refusal, shapes: Shapes, arrays: Mapping[str, Any]) -> bool:
        """Whether the values of inputs that are needed are there, and are looked at from now on."""
        if self._looks_at is not None and not self._looks_at(need, shapes):
            return False
        for name in sorted(need.inputs):
            if (fault := refuse_large(name, shapes[name])) is not None:
                raise ModelError(need.error.subject, [*need.error.faults, fault])
        wanted = [name for name in sorted(need.inputs) if name not in self.valued]
        self.valued = sorted({*self.valued, *wanted})
        return bool(wanted) and all(name in arrays for name in need.inputs)


# Symbolic re-planning


_DECODING = {"com.microsoft.GroupQueryAttention"}
"""Node types of decoders that are run at one length after another.

Where attention is spelled out, plans with symbols differ from those for certain sizes, and may be slower.
"""


def _lengths(source: Source) -> list[tuple[str, int]]:
    """The open sizes of a decoder's inputs, but for batches: they are symbols from the first run on."""
    graph = source.model.graph
    if not any(node.kind in _DECODING for node in graph.node):
        return []
    shapes = [(info.name, info.type.shape or ()) for info in graph.input]
    return [(name, k) for name, shape in shapes for k, size in enumerate(shape) if k and not isinstance(size, int)]


def _describe(
    model: _Model, sizes: Mapping[Hashable, int], given: tuple[Shapes, Arrays], *, assumes: bool
) -> Described[Outline] | None:
    """The graph for shapes of which some sizes may be symbols; None where a program must be made for each of them."""
    shapes, values = given
    opened = {name: tuple(sizes[name, k] for k in range(len(shape))) for name, shape in shapes.items()}
    found = trace(model.source, opened, values, model.device, kept=model.kept, assumes=assumes)
    if isinstance(found, Refusal):
        return None
    outline, made = outline_of(found)
    return None if outline.states or not made else Described(outline, found.tracer.graph.desc(made))


def _data(data: OpenData) -> SharedData:
    array = data.array
    return SharedData(len(array), lambda: array)


def _known(known: Known) -> Known:
    return Known(known.flat()) if known.is_open else known
