"""Functions, a model's own and those that ONNX defines node types by: calls are replaced by what they are made of."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from anydml.core.errors import Fault, ModelFileError, printable
from anydml.onnx.ir import Attribute, Function, Graph, Model, Node, graphs_within, make_node, nodes_within, with_bodies
from anydml.onnx.library import body_of, node_rules, resolved
from anydml.onnx.lower.registry import find_lowering
from anydml.onnx.protobuf import MOST_DEEP, too_deep

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Key: TypeAlias = tuple[str, str, str]
"""A function's domain, name and overload."""
_MOST_NODES = 100_000
"""Nodes that functions may become; a few that call one another twice each would become more than memory holds."""
_MOST_NAMES = 2**22
"""Names that these nodes may read and make; tensors of a function's attributes are shared by its calls."""


def find_functions(model: Model) -> dict[Key, Function]:
    """A model's own functions, and ONNX's for the node types that have no lowering."""
    found = {function.key: function for function in model.functions}
    version = model.opset_import.get("")
    pending = [several.node for several in (model.graph, *(each.graph for each in model.functions))]
    while version is not None and pending:
        kinds = {_key(node) for node in nodes_within(pending.pop())}
        for key in kinds - found.keys():
            if key == ("", key[1], "") and is_made_of_others(key[1], version):
                body = body_of(key[1], version)
                assert body is not None  # noqa: S101 - for type checkers: it is made of others
                found[key] = body
                pending.append(body.graph.node)
    return found


@functools.cache
def is_made_of_others(kind: str, version: int) -> bool:
    """Whether ONNX defines a node type that has no lowering by others, each of which has one or is such a type."""
    body = None if find_lowering(kind, version) else body_of(kind, version)
    if body is None:
        return False
    # The body may be of another opset than this, in which its operators took other inputs.
    return all(
        (find_lowering(node.op_type, version) or is_made_of_others(node.op_type, version))
        and _takes_as_many(node, version)
        for node in nodes_within(body.graph.node)
    )


def _takes_as_many(node: Node, version: int) -> bool:
    rules = node_rules(node.op_type, version)
    least, most = rules.counts[0] if rules is not None else (0, 0)
    return least <= len(node.input) <= most


def inlined(model: Model, functions: Mapping[Key, Function], name: str) -> Model:
    """The model without calls of functions."""
    if not functions or not _calls(model.graph.node, functions):
        return model
    known = {key: function for key, function in functions.items() if not _other_opset(function, model)}
    try:
        costs: dict[Key, tuple[int, int] | None] = {}
        calls = [_cost(key, known, costs, name) for key in _calls(model.graph.node, known)]
    except RecursionError as error:
        raise _broken(name, "the model's functions must not call one another a thousand deep", "") from error
    for i, (most, what) in enumerate(((_MOST_NODES, "nodes"), (_MOST_NAMES, "names"))):
        if (count := sum(cost[i] for cost in calls)) > most:
            raise _broken(name, f"the model's functions must come to at most {most} {what}", str(count))
    nodes = tuple(_Expansion(model, known, name).expand(model.graph.node))
    return replace(model, graph=replace(model.graph, node=nodes))


def why_kept(node: Node, functions: Mapping[Key, Function], model: Model) -> str:
    """Why a call of a function was not put in place; nothing where it is no such call."""
    found = functions.get(_key(node))
    domain = None if found is None else _other_opset(found, model)
    if found is None or not domain:
        return ""
    (name,) = domain
    of = f" of '{printable(name)}'" if name else ""
    return f": it is a function of opset {found.opset_import[name]}{of} in a model of opset {model.opset_import[name]}"


def _other_opset(function: Function, model: Model) -> list[str]:
    """The first domain of a function of which the model has another opset, if there is one."""
    ours = model.opset_import
    return [name for name, version in function.opset_import.items() if ours.get(name, version) != version][:1]


def _calls(nodes: Iterable[Node], functions: Mapping[Key, Function]) -> list[Key]:
    return [key for node in nodes_within(nodes) if (key := _key(node)) in functions]


def _key(node: Node) -> Key:
    """Of the function that a node may call."""
    return node.domain, node.op_type, node.overload


def _cost(
    key: Key, functions: Mapping[Key, Function], known: dict[Key, tuple[int, int] | None], name: str
) -> tuple[int, int]:
    """The nodes that a call becomes, and their names; functions that call themselves never end."""
    if key not in known:
        known[key] = None  # being counted
        body = list(nodes_within(functions[key].graph.node))
        inner = [_cost(other, functions, known, name) for node in body if (other := _key(node)) in functions]
        names = sum(len(node.input) + len(node.output) for node in body)
        known[key] = len(body) + sum(count for count, _ in inner), names + sum(count for _, count in inner)
    found = known[key]
    if found is None:
        raise _broken(name, f"function {printable(key[1])!r} must not call itself", "")
    return found


@dataclass(slots=True)
class _Frame:
    """The nodes of a call that are left, and what names and attributes stand for in them."""

    nodes: Iterator[Node]
    names: dict[str, str] | None = None
    """By a function's own name; None in the model itself, whose names are as they are."""
    attributes: Mapping[str, Attribute] | None = None


class _Expansion:
    """Nodes as they are without calls, in names that nothing else in the model has."""

    def __init__(self, model: Model, functions: Mapping[Key, Function], name: str) -> None:
        self._functions, self._model = functions, name
        self._numbers = itertools.count()
        nodes = model.graph.node
        self._taken = {name for node in nodes_within(nodes) for name in (*node.input, *node.output)}
        for graph in (model.graph, *graphs_within(nodes)):
            self._taken.update(graph.constants, (info.name for info in (*graph.input, *graph.output)))

    def expand(self, nodes: Iterable[Node], depth: int = 0) -> Iterator[Node]:
        """Nodes, those of functions in the place of calls, in the graphs within them too."""
        if depth > MOST_DEEP:
            raise too_deep(self._model)
        frames = [_Frame(iter(nodes))]
        while frames:
            frame = frames[-1]
            given = next(frame.nodes, None)
            if given is None:
                frames.pop()
                continue
            node = self._rename(given, frame)
            function = self._functions.get(_key(node))
            if function is not None:
                frames.append(self._call(node, function))
            else:
                yield with_bodies(node, lambda graph: replace(graph, node=tuple(self.expand(graph.node, depth + 1))))

    def _call(self, node: Node, function: Function) -> _Frame:
        graph = function.graph
        inputs = itertools.chain(node.input, itertools.repeat(""))
        names = {"": "", **dict(zip((info.name for info in graph.input), inputs, strict=False))}
        copies = []
        outputs = itertools.zip_longest((info.name for info in graph.output), node.output, fillvalue="")
        for i, (formal, actual) in enumerate(outputs):
            if formal in names:  # which the function takes, or gives already
                names[f"{formal} {i}"] = actual
                copies.append(make_node("Identity", [formal], [f"{formal} {i}"] if actual else [""]))
            else:
                names[formal] = actual or self._fresh(formal)
        attributes = {attribute.name: attribute for attribute in (*function.defaults, *node.attribute)}
        return _Frame(itertools.chain(graph.node, copies), names, attributes)

    def _rename(self, node: Node, frame: _Frame) -> Node:
        """A node of a function as the model has it."""
        if frame.names is None or frame.attributes is None:
            return node
        names = frame.names
        own = {attribute.name for attribute in node.attribute if not attribute.refers}

        def renamed(graph: Graph) -> Graph:
            inputs, outputs = (
                tuple(replace(each, name=self._name(each.name, names)) for each in infos)
                for infos in (graph.input, graph.output)
            )
            tensors = tuple(replace(each, name=self._name(each.name, names)) for each in graph.initializer)
            nodes = tuple(self._rename(inner, frame) for inner in graph.node)
            return replace(graph, node=nodes, input=inputs, output=outputs, initializer=tensors)

        found = replace(
            node,
            input=tuple(self._name(name, names) for name in node.input),
            output=tuple(self._name(name, names) for name in node.output),
            attribute=tuple(resolved(node.attribute, frame.attributes)),
        )
        # A body that the call gives has the names of the model already.
        return with_bodies(found, renamed, own)

    def _name(self, name: str, names: dict[str, str]) -> str:
        if name not in names:
            names[name] = self._fresh(name)
        return names[name]

    def _fresh(self, name: str) -> str:
        """A name that nothing else has."""
        found = next(found for number in self._numbers if (found := f"{name}_{number}") not in self._taken)
        self._taken.add(found)
        return found


def _broken(name: str, rule: str, found: str) -> ModelFileError:
    return ModelFileError(name, Fault(field="functions", rule=rule, found=found))
