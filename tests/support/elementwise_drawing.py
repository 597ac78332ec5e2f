"""Random descriptions of element-wise operators: every level, type and layout, in place too."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

import anydml as dml
from anydml.operators.schema.fields import dml_name
from drawing import Case, Operator, draw_sizes, draw_tensor, make_case, pick
from elementwise import ATTRIBUTES, data_types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drawing import Tensor

STYLES = ("small", "normal", "special", "zeros")
FACTORS, TERMS = (1.0, -1.0, 0.5, 3.0, 2.0**30, 0.1, 0.0), (0.0, 1.0, -0.0, 0.25, -300.0, 0.7, math.inf)
LEVELS = tuple(reversed(dml.FeatureLevel))


@st.composite
def element_wise_cases(draw: st.DrawFn, classes: Sequence[Operator]) -> Case:
    """A valid description of one of these operators, with data."""
    cls = pick(draw, classes)
    level = pick(draw, tuple(level for level in LEVELS if level >= cls.introduced()))
    row = cls.support.row_at(level)
    data_type = pick(draw, data_types(cls, level))
    count = pick(draw, next(iter(row.tensors.values())).dimension_counts)
    sizes = draw_sizes(draw, count, 64)
    attributes: dict[str, Any] = dict(pick(draw, ATTRIBUTES.get(cls.type.name, [{}])))
    if "min_max_data_type" in cls.field_types():
        attributes["min_max_data_type"] = data_type
    if cls is dml.ValueScale2D:
        channels = pick(draw, (1, 3))
        sizes = (sizes[0], channels, *sizes[2:])
        attributes["bias"] = [0.1, -3, 7][:channels]
    if "scale_bias" in cls.field_types():
        pair = (pick(draw, FACTORS), pick(draw, TERMS)) if cls is dml.ElementWiseIdentity else (0.5, 0.25)
        attributes["scale_bias"] = pick(draw, (None, pair))
    if level < dml.FeatureLevel.LEVEL_5_1:
        attributes.pop("fused_activation", None)
    tensors: dict[str, Tensor] = {}
    for name in (*cls.input_names(), *cls.output_names()):
        taken = row.tensors[dml_name(name)].data_types
        own = data_type if data_type in taken else pick(draw, sorted(taken))
        tensors[name] = draw_tensor(draw, own, sizes, is_output=name in cls.output_names())
    first, output = cls.input_names()[0], cls.output_names()[0]
    is_in_place = cls.in_place and pick(draw, (False, True))
    if is_in_place:
        tensors[first] = tensors[output]
    return make_case(draw, cls, level, tensors, attributes, is_in_place=is_in_place, styles=STYLES)
