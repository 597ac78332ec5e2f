"""Categories of nodes, by which the page colours them: some of the modules that describe operators, or lower nodes."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from anydml.operators import OPERATORS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from anydml.operators import OperatorDesc

CONTROL, OTHER = "control flow", "other"
CATEGORIES = {
    "convolution, pooling": "convolution pooling convolution_pooling",
    "attention, recurrence": "attention linear_attention paged_attention scored_attention experts recurrent",
    "matrix product": "products matmul",
    "normalization": "normalization",
    "resampling, regions": "resampling regions resize roi grid_sample",
    "reduction, selection": "reductions cumulative select",
    "activation": "activations",
    "quantization": "quantization",
    "arithmetic, logic": "arithmetic logic composite_elementwise",
    "data movement": "slice gather elementwise manipulation fill data_movement indexing reshape slicing",
    CONTROL: "control_flow",
}
"""The modules of `anydml.operators` and `anydml.onnx.lower` of each; of several operators together it is the first."""
_BY_MODULE = {module: category for category, modules in CATEGORIES.items() for module in modules.split()}
ORDER = (*CATEGORIES, OTHER)


def of_operators(classes: Iterable[type[OperatorDesc]]) -> str:
    """The category of operators: of several that make one node, the first in `CATEGORIES`."""
    found = {_BY_MODULE.get(_module(cls), OTHER) for cls in classes}
    return next((category for category in ORDER if category in found), OTHER)


@functools.cache
def of_node(kind: str, version: int) -> str:
    """The category of a type of ONNX's nodes, by what lowers it."""
    from anydml.onnx.lower.elementwise import operator_of
    from anydml.onnx.lower.registry import find_lowering

    operator = operator_of(kind) or _named().get(kind.lower())
    if operator is not None:
        return of_operators([operator])
    lowering = find_lowering(kind, version)
    return OTHER if lowering is None else _BY_MODULE.get(_module(lowering), OTHER)


@functools.cache
def _named() -> dict[str, type[OperatorDesc]]:
    """The operators by names such as ONNX has them: `softmax`, `topk`."""
    bare = {kind.name.removeprefix("ACTIVATION_").rstrip("0123456789"): cls for kind, cls in OPERATORS.items()}
    return {name.replace("_", "").lower(): cls for name, cls in bare.items()}


def _module(one: object) -> str:
    return str(getattr(one, "__module__", "")).rpartition(".")[2]
