"""A model's own functions: calls of them are replaced by what they are made of."""

from __future__ import annotations

from typing import Any, TypeAlias

from anydml.errors import Fault, ModelFileError, printable, show
from anydml.onnx.library import AttributeProto, inline_functions, own_domain

Key: TypeAlias = tuple[str, str, str]
"""A function's domain, name and overload."""
_MOST_NODES = 100_000
"""Nodes that functions may become; a few that call one another twice each would become more than memory holds."""


def inlined(proto: Any, name: str) -> Any:
    """The model without functions of its own; as it is where there is control flow, which is not supported anyway."""
    bodies = {_key(function, function.name): function.node for function in proto.functions}
    if not _calls(proto.graph.node, bodies) or _has_graphs([proto.graph.node, *bodies.values()]):
        return proto
    try:
        known: dict[Key, int | None] = {}
        total = sum(_count(key, bodies, known, name) for key in _calls(proto.graph.node, bodies))
        if total > _MOST_NODES:
            raise _broken(name, f"the model's functions must come to at most {_MOST_NODES} nodes", str(total))
        return inline_functions(proto)
    except ModelFileError:
        raise
    except Exception as error:  # of onnx's own, or RecursionError where functions nest a thousand deep
        reason = show(" ".join(str(error).split()))
        raise _broken(name, f"the model's functions cannot be put in place ({reason})", "") from error


def _calls(nodes: Any, bodies: dict[Key, Any]) -> list[Key]:
    return [key for node in nodes if (key := _key(node, node.op_type)) in bodies]


def _key(given: Any, name: str) -> Key:
    """Of a function, or of a node that may call one."""
    return own_domain(given.domain), name, given.overload


def why_kept(node: Any, proto: Any) -> str:
    """Why a call of one of the model's own functions was not put in place; nothing where it is no such call."""
    functions = {_key(function, function.name): function for function in proto.functions}
    found = functions.get(_key(node, node.op_type))
    if found is None:
        return ""
    versions = {own_domain(entry.domain): entry.version for entry in proto.opset_import}
    for entry in found.opset_import:
        have = versions.get(own_domain(entry.domain))
        if have not in (None, entry.version):
            of = f" of '{printable(entry.domain)}'" if own_domain(entry.domain) else ""
            return f": it is a function of opset {entry.version}{of} in a model of opset {have}"
    return ": it is a function, and none is put in place in a model with control flow"


def _has_graphs(several: list[Any]) -> bool:
    kinds = (AttributeProto.GRAPH, AttributeProto.GRAPHS)
    return any(attribute.type in kinds for nodes in several for node in nodes for attribute in node.attribute)


def _count(key: Key, bodies: dict[Key, Any], known: dict[Key, int | None], name: str) -> int:
    """The nodes that a call becomes; functions that call themselves never end."""
    if key not in known:
        known[key] = None  # being counted
        known[key] = len(bodies[key]) + sum(_count(k, bodies, known, name) for k in _calls(bodies[key], bodies))
    found = known[key]
    if found is None:
        raise _broken(name, f"function {printable(key[1])!r} must not call itself", "")
    return found


def _broken(name: str, rule: str, found: str) -> ModelFileError:
    return ModelFileError(name, Fault(field="functions", rule=rule, found=found))
