"""The programs of a graph, one for each set of shapes and of values that a shape hangs on; the last used are kept."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from anydml.errors import ModelError
from anydml.onnx.feeding import on_host
from anydml.onnx.program import Program
from anydml.onnx.shapes import refuse_large
from anydml.onnx.tracing import trace
from anydml.onnx.values import NeedsValueError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.onnx.kept import Kept
    from anydml.onnx.reading import Source
    from anydml.onnx.spares import Spares
    from anydml.runtime.device import Device

_MOST_PROGRAMS = 64


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
    ) -> None:
        """`looks_at` says whether a program is made for each value of needed inputs; else the need is raised."""
        super().__init__()
        self.source = source
        self._device, self._kept, self._spares = device, kept, spares
        self._forget, self._looks_at = forget, looks_at
        self.valued: list[str] = []
        """Inputs whose values a shape hangs on, found while tracing."""
        self.seconds = 0.0
        """What the programs took to compile so far."""

    def find(self, shapes: dict[str, tuple[int, ...]], arrays: Mapping[str, Any]) -> Program:
        """The program for these shapes, and for the values of the inputs that a shape hangs on."""
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
                found = trace(self.source, shapes, values, self._device, kept=self._kept)
                program = Program(found, self._spares, self.source.beside, self.source.without)
            except NeedsValueError as error:
                self._need(error, shapes, arrays)
                continue
            finally:
                self.seconds += time.perf_counter() - start
            self[key] = program
            if len(self) > _MOST_PROGRAMS:
                _, gone = self.popitem(last=False)
                self._forget(gone)
            return program

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
