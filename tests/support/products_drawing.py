"""Random descriptions of products and of what quantises: every level, type, layout, transposition and epilogue."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st

import anydml as dml
from anydml import DataType, FeatureLevel
from anydml.operators.attention import Attention
from anydml.operators.convolution import Windowed
from anydml.operators.products import Product
from anydml.operators.schema.fields import dml_name
from attention_drawing import draw_attention
from drawing import SEEDS, Case, Operator, draw_sizes, draw_tensor, make_case, pick
from recurrent import GATES as RECURRENT
from recurrent import recurrent_sizes
from windows_drawing import window_sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.operators.schema.facts import LevelSupport
    from drawing import Array, Tensor

LEVELS = tuple(reversed(FeatureLevel))
SCALES = (0.5, 0.25, 1.0, 2.0, 0.1, 3.0, -0.5)
ACTIVATIONS: tuple[Any, ...] = (
    None, "RELU", {"Type": "LEAKY_RELU", "Alpha": 0.5}, {"Type": "CLIP", "Min": -3, "Max": 7.5},
    {"Type": "CLIP", "Min": 0, "Max": 9, "ScaleBias": (0.5, 1)}, {"Type": "LINEAR", "Alpha": 2, "Beta": -1}, "TANH",
    "SIGMOID", {"Type": "ELU", "Alpha": 0.5}, "SOFTPLUS", "GELU", "IDENTITY", {"Type": "SHRINK", "Bias": 1},
    "HARD_SIGMOID", "SOFTSIGN", "CELU", "SCALED_ELU", "SCALED_TANH", "THRESHOLDED_RELU",
    {"Type": "PARAMETRIC_SOFTPLUS", "Alpha": 2, "Beta": 0.5},
)  # fmt: skip


@st.composite
def product_cases(draw: st.DrawFn, classes: Sequence[Operator]) -> Case:
    """A valid description of one of these operators, with data."""
    cls = pick(draw, classes)
    level = pick(draw, tuple(level for level in LEVELS if level >= cls.introduced()))
    if issubclass(cls, Attention):
        tensors, attributes, contents = draw_attention(draw, cls)
        return make_case(draw, cls, level, tensors, attributes, contents=contents)
    row = cls.support.row_at(level)
    fields = [name for name in (*cls.input_names(), *cls.output_names()) if _is_there(draw, cls, name, row)]
    make: Callable[..., dict[str, Tensor]] = _matrices if issubclass(cls, Product) else _elements
    make = _windows if issubclass(cls, Windowed) or cls.type.name in RECURRENT else make
    attributes = _attributes(draw, cls, level)
    types = _types(draw, cls, fields, row)
    tensors = make(draw, cls, fields, row, types, attributes)
    contents = {
        name: _content(draw, tensor, is_scale="scale" in name, below=_below(name, tensors))
        for name, tensor in tensors.items()
        if name in cls.input_names()
    }
    return make_case(draw, cls, level, tensors, attributes, contents=contents)


def _is_there(draw: st.DrawFn, cls: Operator, name: str, row: LevelSupport) -> bool:
    optional = (*cls.optional_inputs(), *cls.optional_outputs())
    return name not in optional or dml_name(name) in row.required or pick(draw, (True, False))


def _types(draw: st.DrawFn, cls: Operator, fields: Sequence[str], row: LevelSupport) -> dict[str, DataType]:
    """Of each tensor one that the level takes, or another tensor's."""
    like: Any = getattr(cls, "typed_alike")() if hasattr(cls, "typed_alike") else {}  # noqa: B009 - not of every one
    if cls is dml.DynamicQuantizeLinear:
        like = {"OutputZeroPointTensor": "OutputTensor"}
    found: dict[str, DataType] = {}
    for name in fields:
        taken = row.tensors[dml_name(name)].data_types
        other = found.get(like.get(dml_name(name), ""))
        found[dml_name(name)] = other if other in taken else pick(draw, sorted(taken))
    if cls is dml.ElementWiseQuantizeLinear and found["InputTensor"] is DataType.INT32:
        found["ScaleTensor"] = DataType.FLOAT32
    return found


def _attributes(draw: st.DrawFn, cls: Operator, level: FeatureLevel) -> dict[str, Any]:
    if cls not in (dml.Gemm, dml.Convolution):
        return {}
    activation = pick(draw, ACTIVATIONS if level >= FeatureLevel.LEVEL_6_0 else ACTIVATIONS[:3])
    if cls is dml.Convolution:
        return {"fused_activation": activation}
    turned = [pick(draw, tuple(dml.MatrixTransform)) for _ in range(2)]
    factors = [pick(draw, (1.0, 2.0, -0.5, 0.0)) for _ in range(2)]
    return {
        "trans_a": turned[0],
        "trans_b": turned[1],
        "alpha": factors[0],
        "beta": factors[1],
        "fused_activation": activation,
    }


def _matrices(
    draw: st.DrawFn,
    cls: Operator,
    fields: Sequence[str],
    row: LevelSupport,
    types: dict[str, DataType],
    attributes: dict[str, Any],
) -> dict[str, Tensor]:
    assert issubclass(cls, Product)
    rank = pick(draw, row.tensors["ATensor"].dimension_counts)
    batch = draw_sizes(draw, rank - 2, 6) if rank > 2 else ()
    rows, columns, length = (1 + draw(st.integers(0, most)) for most in (4, 4, 8))
    turned_a, turned_b = cls.turned(**attributes)
    sizes = {
        "ATensor": (*batch, *((length, rows) if turned_a else (rows, length))),
        "BTensor": (*batch, *((columns, length) if turned_b else (length, columns))),
        "OutputTensor": (*batch, rows, columns),
        **dict.fromkeys(cls.whole, (*batch, rows, columns)),
    }
    own = pick(draw, row.tensors.get("AScaleTensor", row.tensors["ATensor"]).dimension_counts)
    for name in map(dml_name, fields):
        if name not in sizes:
            place, count = (max(-2, -own), rows) if name in cls.by_row else (-1, columns)
            ones = [1] * own
            ones[place] = pick(draw, (1, count))
            sizes[name] = tuple(ones)
    return {
        name: draw_tensor(draw, types[dml_name(name)], sizes[dml_name(name)], is_output=name in cls.output_names())
        for name in fields
    }


def _windows(
    draw: st.DrawFn,
    cls: Operator,
    fields: Sequence[str],
    row: LevelSupport,
    types: dict[str, DataType],
    attributes: dict[str, Any],
) -> dict[str, Tensor]:
    rank = pick(draw, next(iter(row.tensors.values())).dimension_counts)
    sizes, more = recurrent_sizes(draw, cls) if cls.type.name in RECURRENT else window_sizes(draw, cls, rank)
    attributes |= more
    return {
        name: draw_tensor(draw, types[dml_name(name)], sizes[dml_name(name)], is_output=name in cls.output_names())
        for name in fields
    }


def _elements(
    draw: st.DrawFn,
    cls: Operator,
    fields: Sequence[str],
    row: LevelSupport,
    types: dict[str, DataType],
    _: dict[str, Any],
) -> dict[str, Tensor]:
    count = pick(draw, next(iter(row.tensors.values())).dimension_counts)
    sizes = draw_sizes(draw, count, 64)
    repeated = getattr(cls, "repeated", ())
    found = {}
    for name in fields:
        is_output = name in cls.output_names()
        own = tuple(pick(draw, (size, 1)) for size in sizes) if dml_name(name) in repeated else sizes
        if cls is dml.DynamicQuantizeLinear and name.endswith(("scale_tensor", "point_tensor")):
            own = (1,) * count
        found[name] = draw_tensor(draw, types[dml_name(name)], own, is_output=is_output)
    return found


def _below(name: str, tensors: dict[str, Tensor]) -> int:
    """What an index lies below: a place in the output, or a length that may be too long; 0 for what is none."""
    if name == "indices_tensor":
        return math.prod(tensors["output_tensor"].sizes)
    return 2 * tensors[name].extent if name == "sequence_lengths_tensor" else 0


def _content(draw: st.DrawFn, tensor: Tensor, *, is_scale: bool, below: int) -> Array:
    """Small whole numbers and quarters, of which products are exact; of bytes any."""
    rng = np.random.default_rng(draw(SEEDS))
    kind = tensor.data_type
    if is_scale:
        return rng.choice(np.array(SCALES, kind.dtype), tensor.extent)
    if kind.is_float:
        return rng.choice(np.array([*range(-4, 5), 0.25, 1.5, -0.75], kind.dtype), tensor.extent)
    info = np.iinfo(kind.dtype)
    if below:
        return rng.integers(0, below, tensor.extent).astype(kind.dtype)
    few = 2**15 if kind.size_in_bytes > 1 else 2**8
    return rng.integers(max(info.min, -few), min(info.max, few), tensor.extent, endpoint=True).astype(kind.dtype)
