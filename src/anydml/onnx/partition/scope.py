"""Where a graph stands: the model, the device, and the constants that it sees, those of graphs around it included."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from anydml.onnx.lower.registry import find_lowering

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from anydml.onnx.ir import Graph, Node, Tensor
    from anydml.onnx.program import Spares
    from anydml.onnx.read import Source
    from anydml.runtime.device import Device

_DRAWN = ("Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform")
"""Node types, or what their names begin with, that make other values at each run."""


@dataclass(frozen=True)
class Scope:
    """The shared state of a graph's parts."""

    source: Source
    """The model: its name, opset, files beside it and memory limit."""
    device: Device
    spares: Spares
    is_strict: bool = False
    """Whether nothing may run on the host."""
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    """By name, the initializers."""
    folded: Mapping[str, Node] = field(default_factory=dict)
    """By the name of what it makes, each node that reads constants alone."""

    def within(self, graph: Graph, given: Iterable[str] = (), hosted: Iterable[str] = ()) -> Scope:
        """The scope of a graph: a run gives the initializers `given` values, and nodes on the host make `hosted`."""
        given, hosted = set(given), set(hosted)
        made = {name for node in graph.node for name in node.output}
        inputs = {info.name for info in graph.input}
        tensors = {tensor.name: tensor for tensor in graph.initializer if tensor.name not in given}
        hidden = {*made, *inputs, *tensors, *given}
        tensors |= {name: tensor for name, tensor in self.tensors.items() if name not in hidden}
        folded = {name: node for name, node in self.folded.items() if name not in hidden}
        for node in graph.node:
            is_constant = all(not name or name in tensors or name in folded for name in node.input)
            if is_constant and self._folds(node) and hosted.isdisjoint(node.output):
                folded |= {name: node for name in node.output if name}
        return replace(self, tensors=tensors, folded=folded)

    def _folds(self, node: Node) -> bool:
        if node.bodies:  # which read names that are not among its inputs
            return False
        return find_lowering(node.kind, self.source.opset) is not None and not node.op_type.startswith(_DRAWN)

    def constants_of(self, names: Iterable[str]) -> tuple[list[Node], list[str]]:
        """The nodes that make constants of these names, in order, and the initializers that they and the names are."""
        nodes: list[Node] = []
        tensors: dict[str, None] = {}
        seen: set[str] = set()
        pending = [(name, False) for name in names]
        while pending:
            name, is_ready = pending.pop()
            if is_ready:
                nodes.append(self.folded[name])
            elif name in self.tensors:
                tensors[name] = None
            elif name in self.folded and name not in seen:
                node = self.folded[name]
                seen.update(node.output)
                pending.append((name, True))
                pending.extend((each, False) for each in node.input)
        return nodes, list(tensors)
