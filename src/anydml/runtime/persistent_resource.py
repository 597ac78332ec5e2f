"""The persistent resource: what is kept of tensors that are OWNED_BY_DML, as they are or laid out for their readers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from anydml.arrays.cuda import on_callers_stream
from anydml.runtime.binding import PERSISTENT_BUFFER_ALIGNMENT
from anydml.runtime.prepacked import size_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.core.memory import Buffer
    from anydml.engines.common.engine import Engine
    from anydml.engines.common.program import Program
    from anydml.ir.verbs import Map, Reduce
    from anydml.runtime.binding import Bound


class Kept(NamedTuple):
    """The kept part of an owned tensor in the persistent resource."""

    field: str
    copy: Map | Reduce
    """From the tensor, by its field's name, to `Persistent`."""
    size_in_bytes: int
    first: int = 0
    """Bytes from the copy's start to the first element."""
    is_laid_out: bool = False
    """Whether it is made ahead for its readers, which may read it before their turn."""


def kept_layout(field: str, layout: Map | Reduce) -> Kept:
    """The layout of an owned tensor that is made ahead."""
    sources = tuple(replace(view, tensor=field) for view in layout.sources)
    target = replace(layout.target, tensor="Persistent")
    return Kept(field, replace(layout, sources=sources, target=target), size_of(target), is_laid_out=True)


class Persistent:
    """The plan of a persistent resource."""

    def __init__(self, engine: Engine, kept: Mapping[str, Kept]) -> None:
        self.size = 0
        """In bytes."""
        self.has_layouts = any(one.is_laid_out for one in kept.values())
        self._firsts: dict[str, int] = {}
        self._copies: list[tuple[str, Program, int]] = []
        for name, one in kept.items():
            self._firsts[name] = self.size + one.first
            self._copies.append((one.field, engine.compile(one.copy), self.size))
            self.size += -(-one.size_in_bytes // PERSISTENT_BUFFER_ALIGNMENT) * PERSISTENT_BUFFER_ALIGNMENT

    def places(self, memory: Buffer) -> dict[str, int]:
        """The addresses of the first elements of what is kept, by its name."""
        return {name: memory.address + first for name, first in self._firsts.items()}

    def fill(self, memory: Buffer, sources: Mapping[str, Bound]) -> None:
        """Copy what is kept of the tensors, given by field."""
        for field, program, start in self._copies:
            copy = program.bind({field: sources[field].address, "Persistent": memory.address + start})
            on_callers_stream(copy, [sources[field].memory])()
