"""The graphs within a model's nodes: the branches of an If, the bodies of a Loop and a Scan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.core.errors import Fault, UnsupportedError
from anydml.onnx.library import AttributeProto

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST_DEEP = 24
"""Graphs within one another; a parser of protobufs takes 33, and functions that are put in place may add to those."""


_GRAPH, _GRAPHS = int(AttributeProto.GRAPH), int(AttributeProto.GRAPHS)


def bodies_of(node: Any) -> list[tuple[str, Any]]:
    """The graphs that a node has as attributes, by the attributes' names."""
    found: list[tuple[str, Any]] = []
    for attribute in node.attribute:
        kind = attribute.type
        if kind == _GRAPH:
            found.append((attribute.name, attribute.g))
        elif kind == _GRAPHS:
            found += [(attribute.name, graph) for graph in attribute.graphs]
    return found


def has_bodies(node: Any) -> bool:
    """Whether a node has graphs as attributes."""
    return bool(bodies_of(node))


def graphs_within(nodes: Iterable[Any], subject: str) -> Iterator[Any]:
    """Every graph within nodes, however deep; those too deep are refused."""
    # Asked ten times of a model's nodes while it is loaded: which have some is found without a call for each.
    some = [node for node in nodes for attribute in node.attribute if attribute.type in (_GRAPH, _GRAPHS)]
    pending = [(graph, 1) for node in {id(node): node for node in some}.values() for _, graph in bodies_of(node)]
    while pending:
        graph, depth = pending.pop()
        if depth > MOST_DEEP:
            rule = f"graphs must lie within one another at most {MOST_DEEP} deep"
            raise UnsupportedError(subject, Fault(field="graph", rule=rule, value=depth))
        yield graph
        pending.extend((inner, depth + 1) for node in graph.node for _, inner in bodies_of(node))


def nodes_within(nodes: Iterable[Any], subject: str) -> Iterator[Any]:
    """Nodes, and every node of the graphs within them."""
    several = list(nodes)
    yield from several
    for graph in graphs_within(several, subject):
        yield from graph.node


def captures(graph: Any) -> set[str]:
    """The names of the graphs around a body that it reads, or that the graphs within it read."""
    own = {each.name for each in (*graph.input, *graph.initializer)}
    found: set[str] = set()
    for node in graph.node:
        found.update(name for name in node.input if name and name not in own)
        for _, inner in bodies_of(node):
            found |= captures(inner) - own
        own.update(node.output)
    return found | {info.name for info in graph.output if info.name not in own}


def names_read(node: Any) -> list[str]:
    """The names that a node reads, those that its bodies read of the graphs around them included."""
    found = [name for name in node.input if name]
    return found if not has_bodies(node) else [*found, *sorted(set().union(*(captures(g) for _, g in bodies_of(node))))]
