"""The constants of a graph: computed by the device, or for want of its type or operator left to the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.core.errors import Fault, ModelFileError, printable, show
from anydml.onnx.element_types import ELEMENT_TYPES
from anydml.onnx.ir import ValueInfo
from anydml.onnx.lower.refusals import Why
from anydml.onnx.partition.host import host_tensor
from anydml.onnx.partition.part import Recut
from anydml.onnx.partition.segment import Segment, trace_constants
from anydml.onnx.protobuf import array_of
from anydml.onnx.tensors import decode_tensor

if TYPE_CHECKING:
    from anydml.onnx.lower.lowering_cache import Kept
    from anydml.onnx.partition.scope import Scope


def refused_constants(scope: Scope, names: list[str], kept: Kept) -> set[str]:
    """Those of a graph's folded names that the device cannot make: what does, is for that graph alone to say.

    A segment that reads a constant, be it of a body within the graph, could move no node but its own to the host.
    """
    if scope.is_strict:
        return set()
    return {
        name
        for record in trace_constants(scope, names, kept)
        if record.refusal is not None and record.refusal.why is not Why.RULE
        for name in record.node.output
        if name
    }


class Constants:
    """The constants that a graph has at hand, computed when they are first asked for."""

    def __init__(self, scope: Scope, kept: Kept) -> None:
        self._scope, self._kept = scope, kept
        self._known: dict[str, Any] = {}

    def has(self, name: str) -> bool:
        """Whether it is one."""
        return name in self._scope.tensors or name in self._scope.folded

    def value(self, name: str) -> Any:
        """The array, which nobody is to change."""
        if name not in self._known:
            self._known[name] = self._tensor(name) if name in self._scope.tensors else self._folded(name)
        return self._known[name]

    def _folded(self, name: str) -> Any:
        found = Segment([], (), [ValueInfo(name)], self._scope, self._kept).run({})
        if isinstance(found, Recut):
            raise found.reason
        return found[0]

    def _tensor(self, name: str) -> Any:
        """An initializer, be it of a type that DirectML lacks."""
        scope, what = self._scope, f"initializer '{printable(name)}'"
        tensor, source = scope.tensors[name], scope.source
        if tensor.data_type in ELEMENT_TYPES:
            found = decode_tensor(tensor, source.name, what, source.beside)
            return found.values(what).view(found.element.dtype)
        try:
            return array_of(host_tensor(name, scope))
        except (ValueError, TypeError, OverflowError) as error:
            rule = f"{what} must have as many elements as its sizes say ({show(error)})"
            raise ModelFileError(source.name, Fault(field=name, rule=rule)) from error
