"""How much memory a model takes: what its programs hold and a run needs, and what the system counted."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from anydml.core.late_imports import import_alone
from anydml.core.memory import word_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from anydml.onnx.program import Program


class Footprint(NamedTuple):
    """Bytes of the device's memory, as they were planned."""

    weights: int
    """Constants as programs read them, each once: packed where an engine wants them so, and then not as they were."""
    arena: int
    """Memory between operators, of the program that needs most: runs share it, one at a time."""
    results: int
    """The outputs of that program, which are the caller's."""

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self)

    def __str__(self) -> str:
        parts = zip(self._fields, self, strict=True)
        return f"{word_bytes(self.total)} ({', '.join(f'{name} {word_bytes(size)}' for name, size in parts)})"


def footprint(programs: Iterable[Program]) -> Footprint:
    """The memory of some programs of a model, which may share their constants."""
    weights: dict[int, int] = {}
    most = (0, 0)
    for program in programs:
        if program.compiled is not None:
            weights |= program.compiled.held
        scratch = 0 if program.compiled is None else program.compiled.temporary_size
        most = max(most, (scratch, program.result_size))
    return Footprint(sum(weights.values()), *most)


def peak_of_process() -> int | None:
    """The most bytes of memory that this process has had; None where the system does not say."""
    try:
        import_alone("resource")
        import resource
    except ImportError:  # Windows
        return None
    found: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found if sys.platform == "darwin" else found * 1024
