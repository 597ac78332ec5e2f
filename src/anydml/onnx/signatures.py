"""The types that ONNX lets the inputs of a node have, checked before anything is made of the node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.onnx.library import input_rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.onnx.nodes import Node
    from anydml.onnx.values import Value


def check_types(node: Node, inputs: Sequence[Value | None]) -> None:
    """Check that every input is of a type that ONNX allows, and that those of one type variable have one type."""
    rules = input_rules(node.kind, node.version)
    if not rules:
        return
    bound: dict[str, tuple[str, str]] = {}
    for i, value in enumerate(inputs):
        rule = rules[min(i, len(rules) - 1)]
        if value is None:
            continue
        name, found = f"inputs[{i}]" if rule.is_variadic else rule.name, value.element.name
        if found not in rule.allowed:
            node.refuse(name, f"{name} must be of {_listed(rule.allowed)}", found=found)
        if not rule.shared:
            continue
        first, wanted = bound.setdefault(rule.shared, (name, found))
        if found != wanted:
            node.refuse(name, f"{name} must be of {wanted}, as {first} is", found=found)


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last
