"""How ONNX's nodes become DirectML's operators: by node type and the opset from which on the lowering holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.onnx.lowerings import filling, gathering, moving, running, shaping, slicing

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.onnx.nodes import Node
    from anydml.onnx.values import Value

    Lowering = Callable[[Node], list[Value]]

LOWERINGS: dict[str, dict[int, Lowering]] = {
    "BitCast": {26: moving.bit_cast},
    "Cast": {1: moving.cast_by_name, 6: moving.cast},
    "CastLike": {15: moving.cast_like},
    "Concat": {1: moving.concat_default, 4: moving.concat},
    "Constant": {1: filling.constant},
    "ConstantOfShape": {9: filling.constant_of_shape},
    "CumProd": {26: running.cum_prod},
    "CumSum": {11: running.cum_sum},
    "Expand": {8: moving.expand},
    "Flatten": {1: shaping.flatten},
    "Gather": {1: gathering.gather},
    "GatherElements": {11: gathering.gather_elements},
    "GatherND": {11: gathering.gather_nd},
    "Identity": {1: shaping.identity},
    "Range": {11: filling.range_of},
    "Reshape": {1: shaping.reshape_by_attribute, 5: shaping.reshape},
    "ReverseSequence": {10: running.reverse_sequence},
    "Shape": {1: shaping.shape},
    "Size": {1: shaping.size},
    "Slice": {1: slicing.slice_by_attributes, 10: slicing.slice_by_inputs},
    "Split": {1: slicing.split},
    "Squeeze": {1: shaping.squeeze},
    "Transpose": {1: moving.transpose},
    "Unsqueeze": {1: shaping.unsqueeze},
}


def find_lowering(kind: str, version: int) -> Lowering | None:
    """The lowering of a node type at an opset; None where there is none."""
    found = [since for since in LOWERINGS.get(kind, {}) if since <= version]
    return LOWERINGS[kind][max(found)] if found else None
