"""The remains of one trace of a model for the next: tensors, nodes as they are read, and their results."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from anydml.core.errors import printable
from anydml.core.guards import own_cache
from anydml.onnx.lower.values import Value

if TYPE_CHECKING:
    from collections.abc import Hashable

    from anydml.onnx.ir import Graph, Node
    from anydml.onnx.lower.repeated_layers import Pattern

_MOST_ATTRIBUTES = 1024
"""Bytes of a node's attributes up to which it is looked for among others: weights are no two alike."""
_MOST_PATTERNS = 4096
"""Kept at once: a BERT of 12 layers has 60 for each length of its input."""


class Line(NamedTuple):
    """A node as a trace reads it, with what takes time to be told of it."""

    node: Node
    label: str
    """The name in errors."""
    shown: str
    """By which a graph calls what comes of it."""
    kind: str
    alike: int | None
    """Equal for nodes of one type and equal attributes that ask for the same outputs; None where that is not told."""


class Kept(dict[str, Value]):
    """The model's own tensors and what nodes make of them alone, by name: each once, for all programs of a device.

    Several threads may trace parts of a model at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.patterns: dict[Hashable, Pattern | None] = {}
        """The results of nodes, by all that they depend on; None for those that must be found anew."""
        self._lines: dict[int, tuple[Graph, list[Line]]] = {}
        """By the number of a graph, which is held so that no other gets it."""
        self._alike: dict[Hashable, int] = {}
        self._numbers = itertools.count()  # of which no two threads, tracing parts of a model at once, get the same

    def lines(self, graph: Graph) -> list[Line]:
        """The nodes of a graph."""
        if (found := self._lines.get(id(graph))) is None:
            found = self._lines[id(graph)] = (graph, [self._line(node) for node in graph.node])
        return found[1]

    def keep_pattern(self, key: Hashable, pattern: Pattern | None) -> None:
        """Keep what nodes became."""
        patterns = own_cache(self.patterns)
        if len(patterns) >= _MOST_PATTERNS:
            patterns.clear()
        patterns[key] = pattern

    def _line(self, node: Node) -> Line:
        kind, alike = node.kind, None
        shown = printable(node.name or next(iter(node.output), ""))
        attributes = [part for each in node.attribute for part in each.parts()] if not node.bodies else None
        if attributes is not None and sum(map(len, attributes)) <= _MOST_ATTRIBUTES:
            key = (kind, tuple(map(bool, node.output)), *attributes)
            alike = self._alike.setdefault(key, next(self._numbers))
        return Line(node, node.label, shown, kind, alike)
