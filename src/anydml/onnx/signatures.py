"""ONNX's rules for a node of each type: its inputs, outputs and attributes, and their types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.core.display import listed
from anydml.core.errors import Fault, ModelError, printable
from anydml.onnx.contrib_schemas import CONTRIB, OTHERWISE
from anydml.onnx.element_types import ELEMENT_TYPES
from anydml.onnx.library import node_rules
from anydml.onnx.protobuf import ELEMENT_NAMES, ELEMENT_NUMBERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.onnx.element_types import ElementType
    from anydml.onnx.ir import Graph, Node
    from anydml.onnx.library import SlotRule
    from anydml.onnx.lower.bound_node import BoundNode
    from anydml.onnx.lower.values import Value


_FLAGS = {
    "align_corners", "allowzero", "antialias", "broadcast", "ceil_mode", "channels_last", "count_include_pad",
    "detect_negative", "detect_positive", "do_rotary", "exclude_outside", "exclusive", "fmod", "input_forget",
    "interleaved", "inverse", "is_causal", "is_packed_batching", "keepdims", "largest", "layout",
    "linear_before_reset", "new_axis", "noop_with_empty_axes", "onesided", "reverse", "rotary_interleaved",
    "saturate", "select_last_index", "sorted", "spatial", "storage_order", "training_mode", "transA", "transB",
    "transBatchA", "transBatchB", "unidirectional", "upper",
}  # fmt: skip
"""Attributes of any node type that are a choice of two, which ONNX writes as INT."""


_FLOATS = tuple(ELEMENT_NUMBERS[name] for name in ("FLOAT", "FLOAT16", "DOUBLE", "BFLOAT16"))


def node_faults(node: Node, version: int) -> Iterator[Fault]:
    """Faults of the numbers of a node's inputs and outputs, and of its attributes."""
    kind = node.kind
    rules = node_rules(kind, version)
    if rules is None:
        return
    slots = (("input", node.input, rules.inputs), ("output", node.output, rules.outputs))
    for (what, names, known), (least, most) in zip(slots, rules.counts, strict=True):
        if not least <= len(names) <= most:
            count = f"{least}" if least == most else f"{least} .. {most}"
            count = count if most < 2**31 - 1 else f"at least {least}"
            several = "" if count in ("1", "at least 1") else "s"
            rule = f"a {kind} must have {count} {what}{several}"
            yield Fault(field=f"{what}s", rule=rule, found=str(len(names)))
        for name, slot in zip(names, known, strict=False) if "" in names else ():
            if not name and slot.is_single:
                rule = f"{slot.name} must {'be given' if what == 'input' else 'have a name'}"
                yield Fault(field=slot.name, rule=rule)
    yield from _attribute_faults(node, rules.attributes, rules.required)


def _attribute_faults(node: Node, known: dict[str, str], required: tuple[str, ...]) -> Iterator[Fault]:
    seen: set[str] = set()
    for attribute in node.attribute:
        name = attribute.name
        if name not in known:
            has = f"it has {', '.join(known) or 'none'}"
            yield Fault(field=name, rule=f"a {node.op_type} has no attribute '{printable(name)}'", way_out=has)
            continue
        found, value = attribute.kind, attribute.value
        if name in seen:
            yield Fault(field=name, rule=f"{name} must be given once")
        elif attribute.refers:
            yield Fault(field=name, rule=f"{name} must be a value: outside a function there is nothing to refer to")
        elif found != known[name]:
            yield Fault(field=name, rule=f"{name} must be of {known[name]}", found=found)
        elif name in _FLAGS and found == "INT" and value not in (0, 1):
            yield Fault(field=name, rule=f"{name} must be 0 or 1", value=value, found=str(value))
        elif name == "stash_type" and value not in _FLOATS:
            rule = f"{name} must be the number of a type of floats, {', '.join(map(str, _FLOATS))}"
            yield Fault(field=name, rule=rule, value=value, found=str(value))
        seen.add(name)
    for name in required:
        if name not in seen:
            yield Fault(field=name, rule=f"{name} must be given")


def check_types(node: BoundNode, inputs: Sequence[Value | None]) -> None:
    """Check that every input is of a type that ONNX allows, and that those of one type variable have one type."""
    elements = [None if value is None else value.element.name for value in inputs]
    if (fault := type_fault(node.kind, node.version, elements)) is not None:
        raise ModelError(node.label, fault)


def type_fault(kind: str, version: int, elements: Sequence[str | None]) -> Fault | None:
    """The first fault of the types of a node's inputs, by ONNX's names; None for one that is not there or not known."""
    rules = node_rules(kind, version)
    if rules is None or not rules.inputs:
        return None
    bound: dict[str, tuple[str, str]] = {}
    for i, found in enumerate(elements):
        rule = _slot(rules.inputs, i)
        if found is None:
            continue
        name = f"inputs[{i}]" if rule.is_variadic else rule.name
        if found not in rule.allowed:
            return Fault(field=name, rule=f"{name} must be of {listed(rule.allowed)}", found=found)
        if not rule.shared:
            continue
        first, wanted = bound.setdefault(rule.shared, (name, found))
        if found != wanted:
            return Fault(field=name, rule=f"{name} must be of {wanted}, as {first} is", found=found)
    return None


_BY_NAME = {element.name: element for element in ELEMENT_TYPES.values()}
_CONSTANTS = {"value_float": "FLOAT", "value_floats": "FLOAT", "value_int": "INT64", "value_ints": "INT64"}


def result_types(graph: Graph, version: int, known: dict[str, ElementType]) -> dict[str, ElementType]:
    """The element types of what nodes make, as far as those of their inputs and their attributes say them."""
    found = dict(known)
    for node in graph.node:
        rules = node_rules(node.kind, version)
        if rules is None or not rules.outputs:
            continue
        bound = {
            _slot(rules.inputs, i).shared: found[name].name
            for i, name in enumerate(node.input)
            if name in found and rules.inputs
        }
        for i, name in enumerate(node.output):
            rule = _slot(rules.outputs, i)
            kind = _said(node) or bound.get(rule.shared) or (rule.allowed[0] if len(rule.allowed) == 1 else "")
            if not kind and node.kind in CONTRIB:
                kind = bound.get(OTHERWISE.get(rule.shared, ""), "")
            if kind in _BY_NAME:
                found[name] = _BY_NAME[kind]
    return found


def _said(node: Node) -> str:
    """The type that a node's attributes say, where its inputs do not."""
    if node.op_type in ("Cast", "BitCast"):
        to = node.value("to", "")
        return to.decode(errors="replace") if isinstance(to, bytes) else ELEMENT_NAMES.get(to, "")
    if node.op_type in ("Constant", "ConstantOfShape"):
        if (value := node.value("value")) is not None:
            return ELEMENT_NAMES.get(value.data_type, "")
        names = ["value_float"] if node.op_type == "ConstantOfShape" else [each.name for each in node.attribute]
        return _CONSTANTS.get(names[0], "") if names else ""
    return ""


def _slot(rules: Sequence[SlotRule], i: int) -> SlotRule:
    return rules[min(i, len(rules) - 1)]
