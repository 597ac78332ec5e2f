"""Memory that the programs of a model share: of large results, and scratch memory."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from anydml.runtime.binding_pool import Arenas
from anydml.runtime.buffer_pool import SpareMemory

if TYPE_CHECKING:
    from anydml.onnx.program import Program


class Spares:
    """The memory of the last two large results, and scratch memory."""

    def __init__(self) -> None:
        self.arenas = Arenas()
        """The scratch memory of all programs."""
        self.programs: weakref.WeakSet[Program] = weakref.WeakSet()
        """Those of a model, of its parts and of their bodies."""
        self.results = SpareMemory()
