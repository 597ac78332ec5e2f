"""The contents of nodes that are parts of their own, in words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from anydml.core.errors import printable
from anydml.onnx.subgraphs import bodies_of, nodes_within
from anydml.onnx.library import kind_of
from anydml.onnx.lower.registry import find_lowering
from anydml.onnx.lower.node import label_of
from anydml.onnx.partition.part import makers

if TYPE_CHECKING:
    from collections.abc import Iterable


def told(node: Any, opset: int) -> str:
    """The contents of a control flow node's bodies, or that it is of sequences; nothing for any other."""
    if kind_of(node) not in makers():
        return ""
    several = [f"{name} has {_nodes(graph.node, label_of(node), opset)}" for name, graph in bodies_of(node)]
    return (
        f"control flow: {'; '.join(several)}" if several else "of sequences and optional values, which the host holds"
    )


def _nodes(nodes: Iterable[Any], label: str, opset: int) -> str:
    counts = Counter(kind_of(node) for node in nodes_within(nodes, label))
    total = sum(counts.values())
    listed = ", ".join(f"{printable(kind)}{f' {n}' * (n > 1)}" for kind, n in sorted(counts.items()))
    hosted = [kind for kind in sorted(counts) if kind not in makers() and find_lowering(kind, opset) is None]
    beside = f", of which the host runs {', '.join(map(printable, hosted))}" if hosted else ""
    return f"{total} node{'s' * (total != 1)} ({listed}){beside}"
