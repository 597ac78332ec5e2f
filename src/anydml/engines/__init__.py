"""The engines: each carries the primitives out in some kind of memory. Here they are found by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from anydml.engines.reference import ReferenceEngine
from anydml.errors import EngineMissingError, Fault, show

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.memory import Buffer
    from anydml.primitives import Primitive


class Program(Protocol):
    """A primitive made ready to run."""

    def bind(self, memory: Mapping[str, tuple[Buffer, int]]) -> Callable[[], None]:
        """Attach each tensor to its memory: a buffer, and the bytes to its first element. The result dispatches.

        What is bound was checked before. A dispatch validates nothing but the values of indices, which it does
        before it writes; it may be called from many threads.
        """


class Engine(Protocol):
    """An implementation of the primitives."""

    name: str

    def compile(self, primitive: Primitive) -> Program:
        """Plan a primitive and pick its kernels."""


# The device "cpu" is the first of these; an engine may also be asked for by its own name.
_HOST_ENGINES: tuple[Engine, ...] = (ReferenceEngine(),)


def find_engine(name: str | None) -> Engine:
    """The engine of a name: an engine's own, or "cpu" for the fastest that works in host memory; None for the best."""
    best = _HOST_ENGINES[0]
    known = {"cpu": best, **{engine.name: engine for engine in _HOST_ENGINES}}
    if name is None or (isinstance(name, str) and name in known):
        return best if name is None else known[name]
    names = ", ".join(map(repr, known))
    rule = f"there is no device {show(name)} in this version; there are {names}"
    raise EngineMissingError("Device", Fault(field="name", rule=rule, value=name))
