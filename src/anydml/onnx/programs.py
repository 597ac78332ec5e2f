"""The programs of a graph, one for each set of shapes and of values that a shape depends on; the last used are kept."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Any

from anydml.errors import ModelError
from anydml.onnx.feeding import on_host
from anydml.onnx.plans import PlansOnDisk
from anydml.onnx.program import Program
from anydml.onnx.replans import Replans
from anydml.onnx.shapes import refuse_large
from anydml.onnx.tracing import trace
from anydml.onnx.values import NeedsValueError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np

    from anydml.onnx.kept import Kept
    from anydml.onnx.reading import Source
    from anydml.onnx.spares import Spares
    from anydml.runtime.device import Device

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
        looks_at: Callable[[NeedsValueError, Mapping[str, tuple[int, ...]]], bool] | None = None,
        *,
        assumes: bool = True,
    ) -> None:
        """`looks_at` says whether a program is made for each value of needed inputs; else the need is raised.

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

    def find(self, shapes: dict[str, tuple[int, ...]], arrays: Mapping[str, Any]) -> Program:
        """The program for these shapes, and for the values of the inputs that a shape depends on."""
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
                program = self._make(shapes, values)
            except NeedsValueError as error:
                self._need(error, shapes, arrays)
                continue
            finally:
                self._seconds += time.perf_counter() - start
            self._add(key, program)
            return program

    def _make(self, shapes: dict[str, tuple[int, ...]], values: Mapping[str, np.ndarray[Any, Any]]) -> Program:
        """A program that is kept on disk, or is planned already for open sizes, or else one that is traced."""
        if (program := self._on_disk.find(shapes, values, self._spares)) is not None:
            return program
        if (program := self._replans.find(shapes, values, self._spares)) is None:
            found = trace(self.source, shapes, values, self._device, kept=self._kept, assumes=self.assumes)
            program = Program.of(found, self._spares, self.source.beside, self.source.without)
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

    def _need(self, error: NeedsValueError, shapes: Mapping[str, tuple[int, ...]], arrays: Mapping[str, Any]) -> None:
        """Remember that the values of inputs are needed; where they cannot be had, say so."""
        if self._looks_at is not None and not self._looks_at(error, shapes):
            raise error
        for name in sorted(error.inputs):
            if (fault := refuse_large(name, shapes[name])) is not None:
                raise ModelError(error.subject, [*error.faults, fault]) from None
        wanted = [name for name in sorted(error.inputs) if name not in self.valued]
        self.valued = sorted({*self.valued, *wanted})
        if not all(name in arrays for name in error.inputs) or not wanted:
            raise error
