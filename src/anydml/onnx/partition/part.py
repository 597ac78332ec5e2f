"""A part of a model, and the kinds of parts by the node types that they run."""

from __future__ import annotations

import functools
import pkgutil
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from anydml.core.late_imports import import_alone

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.core.errors import DmlError
    from anydml.onnx.ir import Node
    from anydml.onnx.partition.scope import Scope


def call(launch: Callable[..., Any], *args: Any) -> Any:
    """The result of a launch."""
    return launch(*args)


class Bound(NamedTuple):
    """A program bound to certain arrays, to be launched as often as wanted."""

    launch: Callable[[], Any]
    made: dict[str, Any]
    """By name, the arrays that it writes to."""
    held: object
    """To be kept for as long as it is launched."""
    scratch: int = 0
    """Bytes of memory that it holds beside the arrays."""
    guard: Callable[..., Any] = call
    """Calls launches, and tells of what goes wrong by the model's names."""

    def guarded(self) -> Callable[[], Any]:
        """The launch within its guard."""
        return self.launch if self.guard is call else functools.partial(self.guard, self.launch)


@dataclass(frozen=True, slots=True)
class Recut:
    """The news of a part that cannot run as it is: of nodes of its graph, by their numbers."""

    reason: DmlError
    """Told to the user where it is no news."""
    hosted: frozenset[int] = frozenset()
    """Those that run on the host from now on."""
    cut: frozenset[int] = frozenset()
    """Those that begin a stage."""


class Part(ABC):
    """Some nodes of a graph, run together."""

    takes: tuple[str, ...]
    """The names that it reads, each once; constants of the graph are not among them."""
    gives: tuple[str, ...]
    """The names that it makes."""

    @abstractmethod
    def run(self, values: Mapping[str, Any]) -> tuple[Any, ...] | Recut:
        """The results for these values, in the order of `gives`; for a segment to be cut anew, how."""

    def bind(self, values: Mapping[str, Any], into: Mapping[str, Any], fixed: frozenset[str]) -> Bound | None:
        """A function that runs on these very arrays, at each launch as they are then; None where that cannot be.

        It writes to those of `into` that have a name of its own, and else to new ones. The arrays `fixed` stay as
        they are.
        """
        del values, into, fixed
        return None


Maker: TypeAlias = "Callable[[Node, Scope], Part]"
"""Makes the part of a node."""
_MAKERS: dict[str, Maker] = {}


def part_of(*kinds: str) -> Callable[[Maker], Maker]:
    """Register what makes the part of a node of these types: a class of parts, or a function."""

    def register(maker: Maker) -> Maker:
        _MAKERS.update(dict.fromkeys(kinds, maker))
        return maker

    return register


@functools.cache
def makers() -> dict[str, Maker]:
    """By node type, what makes a part; modules of this package register theirs when they are imported."""
    package = import_alone("anydml.onnx.partition")
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        import_alone(module.name)
    return _MAKERS
