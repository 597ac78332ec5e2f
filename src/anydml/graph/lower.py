"""Lowering: a checked graph becomes a recipe, the verbs of each operator with views of the stores that its edges lead
to.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.graph.check import byte_span
from anydml.graph.nodes import ConstantNode, OperatorNode
from anydml.graph.recipe import Recipe, Step, Store, free_name
from anydml.graph.wiring import input_descs, node_names, order_nodes, output_descs, used_nodes
from anydml.ir.patterns import copy_of, filled
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from anydml.arrays.tensor import TensorDesc
    from anydml.graph.description import GraphDesc
    from anydml.graph.recipe import StoreKind
    from anydml.ir.verbs import Primitive
    from anydml.operators import OperatorDesc


def all_plain(_: Primitive) -> bool:
    """Have everything spelled out."""
    return False


def lower(graph: GraphDesc, takes: Callable[[Primitive], bool] = all_plain) -> Recipe:
    """Make a graph in which nothing is at fault a list of primitives, without the nodes that no output needs.

    Primitives that an engine does not take are spelled out.

    Stores are `input0`, `output0`, `constant2` for nodes[2], and for intermediates the nodes' names, `crop.1` being the
    second output of one. What an output
    is of is written there at once, and read back from there; an output of a constant, or of what is an output
    already, is copied.
    """
    names, used = node_names(graph), used_nodes(graph)
    reserved = frozenset(names)
    """Names that later nodes' stores are named after."""
    stores = {f"input{i}": Store("input", _bytes(desc)) for i, desc in enumerate(input_descs(graph))}
    descs = output_descs(graph)
    written: dict[tuple[int, int], str] = {}
    """The store of each output of a node."""
    copies: list[Step] = []
    for number in sorted(used):
        node = graph.nodes[number]
        if isinstance(node, ConstantNode):
            written[number, 0] = f"constant{number}"
            stores[f"constant{number}"] = Store("constant", node.size_in_bytes, node.data)
    for edge in sorted(graph.output_edges, key=lambda edge: edge.graph_output_index):
        target = f"output{edge.graph_output_index}"
        desc = descs[edge.graph_output_index]
        assert desc is not None  # noqa: S101 - for type checkers: nothing is at fault
        stores[target] = Store("output", _bytes(desc))
        source = written.setdefault((edge.from_node_index, edge.from_node_output_index), target)
        if source != target:
            copies.append(Step(copy_of(View.of(source, desc), View.of(target, desc)), (names[edge.from_node_index],)))
    steps = []
    sources = {(edge.to_node_index, edge.to_node_input_index): edge for edge in graph.intermediate_edges}
    inputs = {(edge.to_node_index, edge.to_node_input_index): edge.graph_input_index for edge in graph.input_edges}
    known: dict[int, list[Primitive]] = {}
    """By description, which several nodes may share."""
    for number in order_nodes(graph):
        node = graph.nodes[number]
        if number not in used or not isinstance(node, OperatorNode):
            continue
        places = {}
        for slot, (field, _) in node.inputs.items():
            if (number, slot) in inputs:
                places[field] = f"input{inputs[number, slot]}"
            else:
                edge_in = sources[number, slot]
                places[field] = written[edge_in.from_node_index, edge_in.from_node_output_index]
        for slot, (field, desc) in node.outputs.items():
            name = free_name(f"{names[number]}.{slot}", stores, reserved) if slot else names[number]
            store = written.setdefault((number, slot), name)
            stores.setdefault(store, Store("scratch", _bytes(desc)))
            places[field] = store
        if id(node.desc) not in known:
            known[id(node.desc)] = _spelled(node.desc.lower(), takes)
        scratch = {field for field, store in places.items() if stores[store].kind == "scratch"}
        primitives = tuple(part for primitive in known[id(node.desc)] for part in _with_zeros(primitive, scratch))
        for field, size in temporaries(primitives, places).items():
            places[field] = free_name(f"{names[number]}'s {field}", stores, reserved)
            stores[places[field]] = Store("scratch", size)
        steps += [_renamed(primitive, names[number], places) for primitive in primitives]
    return Recipe(stores, (*steps, *copies))


def lower_operator(desc: OperatorDesc, takes: Callable[[Primitive], bool]) -> Recipe:
    """An operator alone, as a graph of one node: its stores have its fields' names."""
    primitives = _spelled(desc.lower(), takes)
    kinds: dict[StoreKind, Mapping[str, TensorDesc]] = {"input": desc.inputs(), "output": desc.outputs()}
    stores = {name: Store(kind, _bytes(one)) for kind, descs in kinds.items() for name, one in descs.items()}
    stores |= {name: Store("scratch", size) for name, size in temporaries(primitives, stores).items()}
    return Recipe(stores, tuple(Step(primitive, (desc.type.name,)) for primitive in primitives))


def _spelled(primitives: Sequence[Primitive], takes: Callable[[Primitive], bool]) -> list[Primitive]:
    return [part for one in primitives for part in (one.taken() if takes(one) else one.spelled())]


def temporaries(primitives: Sequence[Primitive], known: Collection[str]) -> dict[str, int]:
    """The memory that an operator's primitives pass on among themselves: the bytes of each, by name."""
    sizes: dict[str, int] = {}
    for view in (view for primitive in primitives for view in primitive.targets):
        if view.tensor not in known:
            reach = view.offset + sum((n - 1) * stride for n, stride in zip(view.sizes, view.strides, strict=True))
            sizes[view.tensor] = max(sizes.get(view.tensor, 0), (reach + 1) * view.data_type.size_in_bytes)
    return sizes


def _with_zeros(primitive: Primitive, scratch: Collection[str]) -> Iterator[Primitive]:
    """A primitive that keeps part of what its target has, for targets that have nothing yet: it keeps zeros."""
    own = primitive.target
    if own.tensor not in scratch or own not in primitive.sources:
        yield primitive
        return
    before = replace(own, tensor=f"{own.tensor} before")
    yield filled(before, 0.0)
    yield primitive.reading(lambda view: before if view == own else view)


def _renamed(primitive: Primitive, node: str, places: dict[str, str]) -> Step:
    def renamed(view: View) -> View:
        return view.named(places[view.tensor])

    primitive = primitive.reading(renamed).writing(renamed)
    if primitive.checks:
        checks = tuple(replace(check, node=node) for check in primitive.checks)
        primitive = replace(primitive, checks=checks)
    return Step(primitive, (node,))


def _bytes(desc: TensorDesc | None) -> int:
    return byte_span(desc)[1] if desc is not None else 0
