"""What an engine is, to the runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.ir.verbs import Primitive
    from anydml.memory import Buffer


class Program(Protocol):
    """A primitive made ready to run."""

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Attach each tensor to its memory, given by the address of its first element. The result dispatches.

        What is bound was checked before, and whoever binds keeps it alive. A dispatch validates nothing but the
        values of indices, which it does before it writes.
        """


class Engine(Protocol):
    """An implementation of the primitives."""

    name: str
    memory: str
    """Where the tensors lie that it works on: `cpu`, `cuda:0`."""

    def compile(self, primitive: Primitive) -> Program:
        """Plan a primitive and pick its kernels."""

    def reserve(self, size: int) -> Buffer:
        """Bytes of that memory, which their owner keeps; what they hold is not said."""
