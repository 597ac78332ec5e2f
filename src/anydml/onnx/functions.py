"""A model's own functions: calls of them are replaced by what they are made of."""

from __future__ import annotations

from typing import Any, TypeAlias

from anydml.errors import Fault, ModelFileError, printable, show
from anydml.onnx.library import AttributeProto, inline_functions

Key: TypeAlias = tuple[str, str]
"""A function's domain and name."""
_MOST_NODES = 100_000
"""Nodes that functions may become; a few that call one another twice each would become more than memory holds."""


def inlined(proto: Any, name: str) -> Any:
    """The model without functions of its own; as it is where there is control flow, which is not supported anyway."""
    bodies = {(function.domain, function.name): function.node for function in proto.functions}
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
    return [key for node in nodes if (key := (node.domain, node.op_type)) in bodies]


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
