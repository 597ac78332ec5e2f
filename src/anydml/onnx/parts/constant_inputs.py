"""The constants that a node with bodies reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.onnx.kept import Kept
from anydml.onnx.library import make_info
from anydml.onnx.parts.segment import Segment

if TYPE_CHECKING:
    from anydml.onnx.parts.scope import Scope


class Constants:
    """The constants that a node reads, computed when they are first asked for."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._known: dict[str, Any] = {}

    def has(self, name: str) -> bool:
        """Whether it is one."""
        return name in self._scope.tensors or name in self._scope.folded

    def value(self, name: str) -> Any:
        """The array."""
        if name not in self._known:
            (self._known[name],) = Segment([], (), [make_info(name)], self._scope, Kept(), {}).run({})
        return self._known[name]
