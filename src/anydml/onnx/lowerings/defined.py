"""Node types that ONNX defines by others, differently for each set of attributes and types: lowered as those others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.errors import printable
from anydml.onnx.library import definition_of
from anydml.onnx.nodes import Node
from anydml.onnx.signatures import check_types

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.onnx.values import Value

_REDUCTIONS = ("none", "sum", "mean")
"""Of a loss; ONNX has a definition for every other text too."""


def lower(
    node: Node, find: Callable[[str, int], Callable[[Node], Sequence[Value | None]] | None]
) -> list[Value | None]:
    """The results of a definition's nodes, each by the lowering that is found for its type and opset."""
    if "reduction" in node.rules.attributes and (found := node.text("reduction")) not in _REDUCTIONS:
        node.refuse("reduction", f"reduction must be one of {', '.join(_REDUCTIONS)}", found=printable(found))
    given = [node.optional(i) for i in range(len(node.proto.input))]
    body = definition_of(node.proto, node.version, [None if value is None else value.element.name for value in given])
    if body is None:
        node.unsupported(node.kind, f"{node.kind} of these types and attributes has no definition")
    (version,) = {int(entry.version) for entry in body.opset_import}
    known: dict[str, Value | None] = {"": None, **dict.fromkeys(body.input)}
    known.update(zip(body.input, given, strict=False))
    for proto in body.node:
        inner = Node(proto, version, [known[name] for name in proto.input], node.tracer)
        lowering = find(inner.kind, version)
        if lowering is None:
            node.unsupported(inner.kind, f"{node.kind} is made of {inner.kind} here, which is not supported")
        check_types(inner, [known[name] for name in proto.input])
        known.update(zip(proto.output, lowering(inner), strict=False))
    for formal, actual in zip(body.output, node.proto.output, strict=False):
        if actual and known.get(formal) is None:
            node.unsupported(formal, f"{formal} is not made where {node.kind} has these inputs and attributes")
    return [known.get(formal) for formal in body.output]
