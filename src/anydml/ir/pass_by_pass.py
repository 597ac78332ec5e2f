"""A map that an engine takes at once or in several passes: operators lower to both forms, and the engine says which it
takes before the graph's passes begin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anydml.ir.verbs import Map, Primitive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.ir.views import View


@dataclass(frozen=True, slots=True)
class InPasses(Primitive):
    """A map, and the same in several passes by way of memory that they name, for engines that do better so.

    It is one or the other before anything else is done with it.
    """

    at_once: Map
    passes: tuple[Primitive, ...]

    @classmethod
    def of(cls, at_once: Map, passes: Sequence[Primitive]) -> InPasses:
        """Of both ways."""
        return cls(at_once.sources, at_once.target, at_once, tuple(passes))

    @property
    def targets(self) -> tuple[View, ...]:
        """The views that both write."""
        return self.at_once.targets

    def spelled(self) -> tuple[Primitive, ...]:
        """The passes."""
        return self.passes

    def taken(self) -> tuple[Primitive, ...]:
        """The map."""
        return (self.at_once,)
