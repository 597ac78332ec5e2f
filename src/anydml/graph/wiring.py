"""What a graph's edges amount to, where each of them is in range: names, descriptions, and an order for the nodes."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from anydml.graph.nodes import ConstantNode, OperatorNode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from anydml.graph.description import GraphDesc
    from anydml.graph.nodes import InputEdge, IntermediateEdge
    from anydml.tensor import TensorDesc


def input_desc(graph: GraphDesc, number: int) -> TensorDesc | None:
    """An input's description: the given one, else that of the first node that it feeds as it is.

    Where each of its edges is marked, that of the node that reads the most.
    """
    if (given := graph.input_descs[number]) is not None:  # type: ignore[index]  # read when it was made
        return given
    marked = []
    for edge in graph.input_edges:
        if edge.graph_input_index == number:
            desc = fed_desc(graph, edge)
            if not edge.reinterpret:
                return desc
            marked.append(desc)
    return max(marked, key=lambda desc: desc.extent * desc.data_type.size_in_bytes, default=None)


def output_desc(graph: GraphDesc, number: int) -> TensorDesc | None:
    """An output's description: the given one, else that of the node that it is of."""
    if (given := graph.output_descs[number]) is not None:  # type: ignore[index]  # as above
        return given
    edge = next((edge for edge in graph.output_edges if edge.graph_output_index == number), None)
    return None if edge is None else graph.nodes[edge.from_node_index].outputs[edge.from_node_output_index][1]


def fed_desc(graph: GraphDesc, edge: InputEdge | IntermediateEdge) -> TensorDesc:
    """The description of the node's input that an edge feeds."""
    return graph.nodes[edge.to_node_index].inputs[edge.to_node_input_index][1]


def slot_names(graph: GraphDesc) -> tuple[list[str], list[str]]:
    """The names of the inputs and the outputs: the first that an edge gives, where no slot before has it."""
    taken: set[str] = set()

    def choose(given: Iterable[str], plain: str) -> str:
        name = next((name for name in given if name and name not in taken), plain)
        while name in taken:
            name += "'"
        taken.add(name)
        return name

    inputs = [
        choose((edge.name for edge in graph.input_edges if edge.graph_input_index == i), f"input{i}")
        for i in range(graph.input_count)
    ]
    outputs = [
        choose((edge.name for edge in graph.output_edges if edge.graph_output_index == i), f"output{i}")
        for i in range(graph.output_count)
    ]
    return inputs, outputs


def node_names(graph: GraphDesc) -> list[str]:
    """A name for each node that nothing else has: its own, else `node3`."""
    taken = {
        f"{kind}{i}" for kind, n in (("input", graph.input_count), ("output", graph.output_count)) for i in range(n)
    }
    taken |= {f"constant{i}" for i in range(len(graph.nodes))}
    names: dict[int, str] = {}
    named = [i for i, node in enumerate(graph.nodes) if node.name]
    for i in (*named, *range(len(graph.nodes))):
        if i not in names:
            name = graph.nodes[i].name or f"node{i}"
            while name in taken:
                name += "'"
            taken.add(name)
            names[i] = name
    return [names[i] for i in range(len(graph.nodes))]


def order_nodes(graph: GraphDesc) -> list[int]:
    """The nodes, each after those that feed it, and otherwise as they stand; those of a cycle are missing."""
    waiting = [0] * len(graph.nodes)
    followers: list[list[int]] = [[] for _ in graph.nodes]
    for edge in graph.intermediate_edges:
        waiting[edge.to_node_index] += 1
        followers[edge.from_node_index].append(edge.to_node_index)
    ready = [i for i, count in enumerate(waiting) if not count]
    found = []
    while ready:
        number = heapq.heappop(ready)
        found.append(number)
        for follower in followers[number]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, follower)
    return found


def find_cycle(graph: GraphDesc) -> list[int]:
    """The numbers of the intermediate edges of a cycle, in its direction; none where there is no cycle."""
    stuck = set(range(len(graph.nodes))) - set(order_nodes(graph))
    if not stuck:
        return []
    into: dict[int, int] = {}
    for number, edge in enumerate(graph.intermediate_edges):
        if edge.from_node_index in stuck:
            into.setdefault(edge.to_node_index, number)
    path: list[int] = []
    at, seen = min(stuck), {}
    while at not in seen:  # backwards: whatever is stuck waits for something that is stuck
        seen[at] = len(path)
        path.append(into[at])
        at = graph.intermediate_edges[into[at]].from_node_index
    return path[seen[at] :][::-1]


def used_nodes(graph: GraphDesc) -> set[int]:
    """The nodes that an output needs."""
    sources: dict[int, list[int]] = {}
    for edge in graph.intermediate_edges:
        sources.setdefault(edge.to_node_index, []).append(edge.from_node_index)
    used: set[int] = set()
    pending = [edge.from_node_index for edge in graph.output_edges]
    while pending:
        number = pending.pop()
        if number not in used:
            used.add(number)
            pending += sources.get(number, [])
    return used


def operators(graph: GraphDesc) -> dict[int, OperatorNode]:
    """The nodes that are operators, by number."""
    return {i: node for i, node in enumerate(graph.nodes) if isinstance(node, OperatorNode)}


def constants(graph: GraphDesc) -> dict[int, ConstantNode]:
    """The nodes that are constants, by number."""
    return {i: node for i, node in enumerate(graph.nodes) if isinstance(node, ConstantNode)}
