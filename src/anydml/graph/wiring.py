"""What the edges of a graph say, for its check and its lowering: names, descriptions, and a topological order of the
nodes. Each edge is in range here.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from anydml.core.memory import layout_of, without_leading_ones
from anydml.graph.nodes import ConstantNode, OperatorNode
from anydml.graph.recipe import free_name

if TYPE_CHECKING:
    from anydml.arrays.tensor import TensorDesc
    from anydml.graph.description import GraphDesc
    from anydml.graph.nodes import InputEdge, IntermediateEdge


def input_descs(graph: GraphDesc) -> list[TensorDesc | None]:
    """The inputs' descriptions: the given one, else that of the first node that an input feeds as it is.

    Where each of an input's edges is marked, that of the node that reads the most.
    """
    found = list(graph.input_descs or ())
    plain: dict[int, TensorDesc] = {}
    marked: dict[int, list[TensorDesc]] = {}
    for edge in graph.input_edges:
        desc = fed_desc(graph, edge)
        if edge.reinterpret:
            marked.setdefault(edge.graph_input_index, []).append(desc)
        else:
            plain.setdefault(edge.graph_input_index, desc)
    for number, given in enumerate(found):
        if given is None:
            found[number] = plain.get(number) or max(
                marked.get(number, []), key=lambda desc: desc.data_type.bytes_of(desc.extent), default=None
            )
    return found


def output_descs(graph: GraphDesc) -> list[TensorDesc | None]:
    """The outputs' descriptions: the given one, else that of the node that an output is of."""
    found = list(graph.output_descs or ())
    for edge in reversed(graph.output_edges):  # of two, the first counts
        if graph.output_descs and graph.output_descs[edge.graph_output_index] is None:
            found[edge.graph_output_index] = graph.nodes[edge.from_node_index].outputs[edge.from_node_output_index][1]
    return found


def fed_desc(graph: GraphDesc, edge: InputEdge | IntermediateEdge) -> TensorDesc:
    """The description of the node's input that an edge feeds."""
    return graph.nodes[edge.to_node_index].inputs[edge.to_node_input_index][1]


def slot_names(graph: GraphDesc) -> tuple[list[str], list[str]]:
    """The names of the inputs and the outputs: given ones first, then `input0` and `output0` for those that have none.

    An input's is in `input_names`, or the first of its edges that has one; an output's is its edge's. One that another
    slot has already is marked.
    """
    given: list[list[str]] = [[name] for name in graph.input_names or [""] * graph.input_count]
    given += [[] for _ in range(graph.output_count)]
    for edge in graph.input_edges:
        given[edge.graph_input_index].append(edge.name)
    for output in graph.output_edges:
        given[graph.input_count + output.graph_output_index].append(output.name)
    taken: set[str] = set()

    def take(name: str) -> str:
        found = free_name(name, taken)
        taken.add(found)
        return found

    named = {i: take(name) for i, names in enumerate(given) if (name := next(filter(None, names), ""))}
    plain = [*(f"input{i}" for i in range(graph.input_count)), *(f"output{i}" for i in range(graph.output_count))]
    names = [named[i] if i in named else take(name) for i, name in enumerate(plain)]
    return names[: graph.input_count], names[graph.input_count :]


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
            names[i] = free_name(graph.nodes[i].name or f"node{i}", taken)
            taken.add(names[i])
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


def agree(source: TensorDesc, fed: TensorDesc) -> bool:
    """Whether an edge needs no mark: the descriptions at its ends say the same."""
    return (
        source.data_type == fed.data_type
        and without_leading_ones(source.sizes) == without_leading_ones(fed.sizes)
        and layout_of(source.sizes, source.element_strides) == layout_of(fed.sizes, fed.element_strides)
    )
