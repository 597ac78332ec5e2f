"""Functions, a model's own and those that ONNX defines node types by: calls are replaced by what they are made of."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from anydml.core.errors import Fault, ModelFileError, printable
from anydml.core.memory import word_bytes
from anydml.onnx.library import body_of, make_node, node_rules, own_domain
from anydml.onnx.lower.registry import find_lowering
from anydml.onnx.subgraphs import MOST_DEEP, bodies_of, graphs_within, nodes_within

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Key: TypeAlias = tuple[str, str, str]
"""A function's domain, name and overload."""
_MOST_NODES = 100_000
"""Nodes that functions may become; a few that call one another twice each would become more than memory holds."""
_MOST_BYTES = 2**28
"""Bytes that functions may become: each call has the tensors of the function's attributes again."""


def find_functions(proto: Any) -> dict[Key, Any]:
    """A model's own functions, and ONNX's for the node types that have no lowering."""
    found = {_key(function, function.name): function for function in proto.functions}
    versions = [int(entry.version) for entry in proto.opset_import if not own_domain(entry.domain)]
    pending = [several.node for several in (proto.graph, *proto.functions)] if versions else []
    while pending:
        kinds = {_key(node, node.op_type) for node in nodes_within(pending.pop(), "model")}
        for key in kinds - found.keys():
            if key == ("", key[1], "") and is_made_of_others(key[1], versions[0]):
                found[key] = body_of(key[1], versions[0])
                pending.append(found[key].node)
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
        for node in nodes_within(body.node, kind)
    )


def _takes_as_many(node: Any, version: int) -> bool:
    rules = node_rules(node.op_type, version)
    least, most = rules.counts[0] if rules is not None else (0, 0)
    return least <= len(node.input) <= most


def inlined(proto: Any, functions: Mapping[Key, Any], name: str) -> Any:
    """The model without calls of functions."""
    if not functions or not _calls(proto.graph.node, functions, name):
        return proto
    versions = {own_domain(entry.domain): entry.version for entry in proto.opset_import}
    known = {key: function for key, function in functions.items() if not _other_opset(function, versions)}
    try:
        costs: dict[Key, tuple[int, int] | None] = {}
        calls = [_cost(key, known, costs, name) for key in _calls(proto.graph.node, known, name)]
    except RecursionError as error:
        raise _broken(name, "the model's functions must not call one another a thousand deep", "") from error
    nodes, size = (sum(cost[i] for cost in calls) for i in (0, 1))
    if nodes > _MOST_NODES:
        raise _broken(name, f"the model's functions must come to at most {_MOST_NODES} nodes", str(nodes))
    if size > _MOST_BYTES:
        rule = f"the model's functions must come to at most {word_bytes(_MOST_BYTES)}"
        raise _broken(name, rule, word_bytes(size))
    found = _copied(proto)
    del found.graph.node[:]
    found.graph.node.extend(_Expansion(proto, known, name).expand(proto.graph.node))
    return found


def why_kept(node: Any, functions: Mapping[Key, Any], proto: Any) -> str:
    """Why a call of a function was not put in place; nothing where it is no such call."""
    found = functions.get(_key(node, node.op_type))
    if found is None:
        return ""
    versions = {own_domain(entry.domain): entry.version for entry in proto.opset_import}
    entry = _other_opset(found, versions)
    if entry is None:
        return ""
    of = f" of '{printable(entry.domain)}'" if own_domain(entry.domain) else ""
    return f": it is a function of opset {entry.version}{of} in a model of opset {versions[own_domain(entry.domain)]}"


def _other_opset(function: Any, versions: Mapping[str, int]) -> Any:
    """The first opset of a function that the model has in another version."""
    differing = (e for e in function.opset_import if versions.get(own_domain(e.domain), e.version) != e.version)
    return next(differing, None)


def _calls(nodes: Any, functions: Mapping[Key, Any], name: str) -> list[Key]:
    return [key for node in nodes_within(nodes, name) if (key := _key(node, node.op_type)) in functions]


def _key(given: Any, name: str) -> Key:
    """Of a function, or of a node that may call one."""
    return own_domain(given.domain), name, given.overload


def _cost(
    key: Key, functions: Mapping[Key, Any], known: dict[Key, tuple[int, int] | None], name: str
) -> tuple[int, int]:
    """The nodes and bytes that a call becomes; functions that call themselves never end."""
    if key not in known:
        known[key] = None  # being counted
        body = functions[key].node
        inner = [_cost(other, functions, known, name) for other in _calls(body, functions, name)]
        nodes = sum(1 for _ in nodes_within(body, name)) + sum(count for count, _ in inner)
        known[key] = nodes, functions[key].ByteSize() + sum(size for _, size in inner)
    found = known[key]
    if found is None:
        raise _broken(name, f"function {printable(key[1])!r} must not call itself", "")
    return found


@dataclass(slots=True)
class _Frame:
    """The nodes of a call that are left, and what names and attributes stand for in them."""

    nodes: Iterator[Any]
    names: dict[str, str] | None = None
    """By a function's own name; None in the model itself, whose names are as they are."""
    attributes: Mapping[str, Any] | None = None


class _Expansion:
    """Nodes as they are without calls, in names that nothing else in the model has."""

    def __init__(self, proto: Any, functions: Mapping[Key, Any], name: str) -> None:
        self._functions, self._model = functions, name
        self._numbers = itertools.count()
        self._taken = {name for node in nodes_within(proto.graph.node, name) for name in (*node.input, *node.output)}
        for graph in (proto.graph, *graphs_within(proto.graph.node, name)):
            self._taken.update(info.name for info in (*graph.input, *graph.output, *graph.initializer))

    def expand(self, nodes: Iterable[Any], depth: int = 0) -> Iterator[Any]:
        """Nodes, those of functions in the place of calls, in the graphs within them too."""
        if depth > MOST_DEEP:
            rule = f"graphs must lie within one another at most {MOST_DEEP} deep, functions being put in place"
            raise _broken(self._model, rule, "more")
        frames = [_Frame(iter(nodes))]
        while frames:
            frame = frames[-1]
            given = next(frame.nodes, None)
            if given is None:
                frames.pop()
                continue
            node = self._rename(given, frame)
            function = self._functions.get(_key(node, node.op_type))
            if function is None:
                yield self._expand_bodies(node, given, depth)
            else:
                frames.append(self._call(node, function))

    def _expand_bodies(self, node: Any, given: Any, depth: int) -> Any:
        if not any(_calls(graph.node, self._functions, self._model) for _, graph in bodies_of(node)):
            return node
        if node is given:  # the model's own, which others may hold
            node = _copied(node)
        for _, graph in bodies_of(node):
            nodes = list(self.expand(_copied(graph).node, depth + 1))
            del graph.node[:]
            graph.node.extend(nodes)
        return node

    def _call(self, node: Any, function: Any) -> _Frame:
        inputs = itertools.chain(node.input, itertools.repeat(""))
        names = {"": "", **dict(zip(function.input, inputs, strict=False))}
        copies = []
        for i, (formal, actual) in enumerate(itertools.zip_longest(function.output, node.output, fillvalue="")):
            if formal in names:  # which the function takes, or gives already
                names[f"{formal} {i}"] = actual
                copies.append(make_node("Identity", [formal], [f"{formal} {i}"] if actual else [""]))
            else:
                names[formal] = actual or self._fresh(formal)
        attributes = {attribute.name: attribute for attribute in (*function.attribute_proto, *node.attribute)}
        return _Frame(itertools.chain(function.node, copies), names, attributes)

    def _rename(self, given: Any, frame: _Frame) -> Any:
        """A node of a function as the model has it."""
        if frame.names is None or frame.attributes is None:
            return given
        node = _copied(given)
        for several in (node.input, node.output):
            for i, name in enumerate(several):
                several[i] = self._name(name, frame.names)
        if any(attribute.ref_attr_name for attribute in node.attribute):
            del node.attribute[:]
            for attribute in given.attribute:
                actual = frame.attributes.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
                if actual is not None:  # one that nobody gave is left out
                    node.attribute.add().CopyFrom(actual)
                    node.attribute[-1].name = attribute.name
        own = {attribute.name for attribute in given.attribute if not attribute.ref_attr_name}
        for attribute, graph in bodies_of(node):
            if attribute in own:  # one that the call gives has the names of the model already
                for each in (*graph.input, *graph.output, *graph.initializer):
                    each.name = self._name(each.name, frame.names)
                nodes = [self._rename(inner, frame) for inner in graph.node]
                del graph.node[:]
                graph.node.extend(nodes)
        return node

    def _name(self, name: str, names: dict[str, str]) -> str:
        if name not in names:
            names[name] = self._fresh(name)
        return names[name]

    def _fresh(self, name: str) -> str:
        """A name that nothing else has."""
        found = next(found for number in self._numbers if (found := f"{name}_{number}") not in self._taken)
        self._taken.add(found)
        return found


def _copied(message: Any) -> Any:
    found = type(message)()
    found.CopyFrom(message)
    return found


def _broken(name: str, rule: str, found: str) -> ModelFileError:
    return ModelFileError(name, Fault(field="functions", rule=rule, found=found))
