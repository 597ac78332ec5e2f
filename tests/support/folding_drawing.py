"""Random descriptions of operators that fold: every level, type, layout, and set of axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st

import anydml as dml
from anydml.operators.schema.fields import dml_name
from drawing import SEEDS, Case, Operator, draw_sizes, draw_tensor, make_case, pick, random_values, upto
from folding import ATTRIBUTES, axes_attribute, data_types, is_small

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drawing import Tensor

STYLES = ("small", "normal", "zeros")
LEVELS = tuple(reversed(dml.FeatureLevel))
OPTIONAL = ("scale_tensor", "bias_tensor", "fused_add_tensor")


@st.composite
def folding_cases(draw: st.DrawFn, classes: Sequence[Operator]) -> Case:
    """A valid description of one of these operators, with data."""
    cls = pick(draw, classes)
    level = pick(draw, tuple(level for level in LEVELS if level >= cls.introduced()))
    attributes: dict[str, Any] = dict(pick(draw, ATTRIBUTES.get(cls.type.name, [{}])))
    table = cls.support.of(attributes["function"].name) if "function" in attributes else cls.support
    row = table.row_at(level)
    data_type = pick(draw, data_types(cls, attributes, level))
    count = pick(draw, row.tensors["InputTensor"].dimension_counts)
    sizes = draw_sizes(draw, count, 64)
    if cls.type.name in ("ACTIVATION_SOFTMAX", "ACTIVATION_LOG_SOFTMAX", "ACTIVATION_HARDMAX"):
        sizes = (*(1 for _ in sizes[:-2]), *sizes[-2:])
    mask = 1 + draw(upto(2**count - 2))
    axes = [k for k in range(count) if mask >> k & 1][:: -1 if mask % 3 == 0 else 1]
    attributes |= axes_attribute(cls, axes)
    if level < dml.FeatureLevel.LEVEL_5_1:
        attributes.pop("fused_activation", None)
    left_out = _left_out(draw, cls, level)
    shared = _small_sizes(draw, sizes, keeps_channels=level < dml.FeatureLevel.LEVEL_4_0)
    reduced = tuple(1 if k in axes else size for k, size in enumerate(sizes))
    tensors: dict[str, Tensor] = {}
    for name in (*cls.input_names(), *cls.output_names()):
        if name in left_out:
            continue
        taken = row.tensors[dml_name(name)].data_types
        own = data_type if data_type in taken else pick(draw, sorted(taken))
        is_output = name in cls.output_names()
        of_its_own = is_small(cls, name) and cls.type.name in FREE
        sized = _small_sizes(draw, sizes, keeps_channels=level < dml.FeatureLevel.LEVEL_4_0) if of_its_own else shared
        result = reduced if is_output and cls.type.name in ("REDUCE", "ARGMAX", "ARGMIN") else sizes
        tensors[name] = draw_tensor(draw, own, sized if is_small(cls, name) else result, is_output=is_output)
    contents = {}
    for name, tensor in tensors.items():
        is_root = name == "variance_tensor" or attributes.get("function") is dml.ReduceFunction.LOG_SUM
        if is_root and name not in cls.output_names():
            contents[name] = np.abs(random_values(tensor.data_type, tensor.extent, "normal", draw(SEEDS)))
    return make_case(draw, cls, level, tensors, attributes, contents=contents, styles=STYLES)


FREE = ("BATCH_NORMALIZATION", "MEAN_VARIANCE_NORMALIZATION", "MEAN_VARIANCE_NORMALIZATION1",
        "MEAN_VARIANCE_NORMALIZATION2")  # fmt: skip
"""The operators whose small tensors repeat each in its own way."""


def _left_out(draw: st.DrawFn, cls: Operator, level: dml.FeatureLevel) -> list[str]:
    """Optional tensors; before 5_2 scale and bias are left out together."""
    if cls.type.name == "BATCH_NORMALIZATION_TRAINING":
        return list(pick(draw, ((), ("fused_add_tensor",))))
    if not cls.type.name.startswith("MEAN_VARIANCE"):
        return []
    alone = (("scale_tensor",), ("bias_tensor",)) if level >= dml.FeatureLevel.LEVEL_5_2 else ()
    return list(pick(draw, ((), ("scale_tensor", "bias_tensor"), *alone)))


def _small_sizes(draw: st.DrawFn, sizes: tuple[int, ...], *, keeps_channels: bool) -> tuple[int, ...]:
    mask = draw(upto(2 ** len(sizes) - 1))
    return tuple(1 if mask >> k & 1 and not (keeps_channels and k == 1) else size for k, size in enumerate(sizes))
