"""The names of a graph while it is traced: what its nodes made, and its own tensors, which stay from trace to trace."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.core.errors import Fault, UnsupportedError, printable
from anydml.onnx.lower.interleaved_weights import interleaved
from anydml.onnx.lower.refusals import UnknownError
from anydml.onnx.tensors import decode_tensor

if TYPE_CHECKING:
    from anydml.onnx.ir import Graph, Node
    from anydml.onnx.lower.lowering_cache import Kept
    from anydml.onnx.lower.values import Value
    from anydml.onnx.read import Source


class Scope:
    """The values of a graph's names; a body has those of the graphs around it as well.

    The graph's own tensors are decoded when they are first asked for. They and what nodes make of them alone are in
    `kept`, for the next trace, by the way to the graph and the name.
    """

    def __init__(self, source: Source, graph: Graph, kept: Kept, *, outer: Scope | None = None, path: str = "") -> None:
        self._source, self.kept, self._outer = source, kept, outer
        self.path = path
        """Of the nodes that the graph lies within; nothing for the model's."""
        self.known: dict[str, Value | None] = {"": None}
        """None for what a node that met with an error would have made."""
        self._tensors = {tensor.name: tensor for tensor in graph.initializer}
        self._interleaved = interleaved(graph)
        self._own = {"", *self._tensors}
        """The values that are the same in every trace: an initializer may be given at a run."""
        self._absent: dict[str, tuple[str, int]] = {}
        """Outputs that a node names and that are not computed: harmless until somebody reads one."""

    def give(self, name: str, value: Value | None) -> None:
        """Say what an input of the graph is in this trace."""
        self.known[name] = value
        self._own.discard(name)

    def has(self, name: str) -> bool:
        """Whether there is such an initializer."""
        return name in self._tensors

    def find(self, name: str) -> Value | None:
        """The value of that name, of this graph or of one around it."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.known:
                if scope.known[name] is None and name:
                    rule = f"'{printable(name)}' is unavailable: the node that produces it failed"
                    raise UnknownError("onnx", Fault(field=name, rule=rule))
                return scope.known[name]
            if name in scope._tensors or name in scope._absent:  # noqa: SLF001 - of its own class
                return scope._decode(name)  # noqa: SLF001 - as above
            scope = scope._outer  # noqa: SLF001 - as above
        raise UnknownError("onnx", Fault(field=name, rule=f"there is no '{printable(name)}'"))

    def is_failed(self, name: str) -> bool:
        """Whether a node of this graph met with an error that would have made it."""
        return name in self.known and self.known[name] is None

    def _decode(self, name: str) -> Value:
        """An initializer."""
        source, key = self._source, self.path + name
        if name in self._absent:
            label, i = self._absent[name]
            rule = f"outputs[{i}] of {label}, '{printable(name)}', is not supported"
            raise UnsupportedError(source.name, Fault(field=name, rule=rule))
        if key not in self.kept:
            what = f"initializer '{printable(name)}'"
            found = decode_tensor(self._tensors[name], source.name, what, source.beside)
            self.kept[key] = self._interleaved[name].plain(found) if name in self._interleaved else found
        found = self.known[name] = replace(self.kept[key].for_next_graph(), source=key)
        return found

    def recall(self, node: Node) -> list[Value | None] | None:
        """The results of a node in an earlier trace, where they are the same in each."""
        kept, path = self.kept, self.path
        for name in node.output:
            if name and path + name not in kept:
                return None
        if not self._is_own(node):
            return None
        self._own.update(filter(None, node.output))
        return [kept[path + name].for_next_graph() if name else None for name in node.output]

    def keep(self, node: Node, made: list[Value | None]) -> None:
        """Keep what a node made of the model's own tensors alone."""
        if self._is_own(node) and all(value is not None and value.is_known for value in made):
            for name, value in zip(node.output, made, strict=False):
                if name and value is not None:
                    self.kept[self.path + name] = value.for_next_graph()
                    self._own.add(name)

    def put(self, node: Node, made: list[Value | None]) -> None:
        """Say what a node made; an output that is left out has no name, and what is called "" stays nothing."""
        for name, value in zip(node.output, made, strict=False):
            if name:
                self.known[name] = value
        for i in range(len(made), len(node.output)):
            self._absent[node.output[i]] = (node.label, i)

    def _is_own(self, node: Node) -> bool:
        # What a body reads of the graphs around it is not among the inputs of its node.
        return not node.bodies and all(map(self._is_own_name, node.input))

    def _is_own_name(self, name: str) -> bool:
        scope: Scope | None = self
        while scope is not None:
            if name in scope._own:  # noqa: SLF001 - of its own class
                return True
            if name in scope.known:
                return False
            scope = scope._outer  # noqa: SLF001 - as above
        return False
