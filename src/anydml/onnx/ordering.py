"""Nodes in order, each after those that it reads.

Converters to FLOAT16 write models that are not, and ONNX Runtime takes them.
"""

from __future__ import annotations

import heapq
from typing import Any

from anydml.onnx.bodies import graphs_within, names_read


def in_order(proto: Any, subject: str) -> Any:
    """A model whose nodes are in order: itself, or a copy. Nodes that read one another in a circle stay as they are."""
    if all(_is_ordered(graph) for graph in _graphs(proto, subject)):
        return proto
    found = type(proto)()
    found.CopyFrom(proto)
    for graph in reversed(_graphs(found, subject)):  # inner ones first: what a body reads depends on its order
        if not _is_ordered(graph):
            nodes = _ordered(list(graph.node))
            del graph.node[:]
            graph.node.extend(nodes)
    return found


def _graphs(proto: Any, subject: str) -> list[Any]:
    return [proto.graph, *graphs_within(proto.graph.node, subject)]


def _is_ordered(graph: Any) -> bool:
    later = {name for node in graph.node for name in node.output}
    for node in graph.node:
        if not later.isdisjoint(names_read(node)):
            return False
        later.difference_update(node.output)
    return True


def _ordered(nodes: list[Any]) -> list[Any]:
    """The nodes as early as they can be, those that need not move in the order in which they were."""
    makers = {name: number for number, node in enumerate(nodes) for name in node.output if name}
    needs = [{makers[name] for name in names_read(node) if name in makers} for node in nodes]
    readers: dict[int, list[int]] = {}
    for number, several in enumerate(needs):
        for maker in several:
            readers.setdefault(maker, []).append(number)
    left = [len(several) for several in needs]
    ready = [number for number, count in enumerate(left) if not count]
    order = []
    while ready:
        number = heapq.heappop(ready)
        order.append(number)
        for reader in readers.get(number, ()):
            left[reader] -= 1
            if not left[reader]:
                heapq.heappush(ready, reader)
    return [nodes[number] for number in order] if len(order) == len(nodes) else nodes
