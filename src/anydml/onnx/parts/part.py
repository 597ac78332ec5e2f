"""A part of a model, and the kinds of parts by the node types that they run."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.onnx.parts.scope import Scope


class Part(ABC):
    """Some nodes of a graph, run together."""

    takes: tuple[str, ...]
    """The names that it reads, each once; constants of the graph are not among them."""
    gives: tuple[str, ...]
    """The names that it makes."""

    @abstractmethod
    def run(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """What it makes of these values, in the order of `gives`."""


Maker: TypeAlias = "Callable[[Any, Scope], Part]"
"""Makes the part of a node, given as NodeProto."""
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
    package = importlib.import_module("anydml.onnx.parts")
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    return _MAKERS


def on_host(value: Any) -> np.ndarray[Any, Any]:
    """An array as NumPy's: as it is, or copied from the memory of a GPU."""
    found: np.ndarray[Any, Any] = value if isinstance(value, np.ndarray) else value.cpu().numpy()
    return found
