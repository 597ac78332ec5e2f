"""Random descriptions of attention: stacked or not, with masks, biases, a past and a cache, in any layout."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from anydml import DataType
from drawing import SEEDS, draw_tensor, pick, upto

if TYPE_CHECKING:
    from hypothesis import strategies as st

    from drawing import Array, Operator, Tensor

    Sizes = tuple[int, ...]

MASKS = dml.MultiheadAttentionMaskType
WAYS: tuple[tuple[str, ...], ...] = (
    ("query", "key", "value"),
    ("stacked_query_key", "value"),
    ("query", "stacked_key_value"),
    ("stacked_query_key_value",),
    ("query",),
)


def draw_attention(draw: st.DrawFn, cls: Operator) -> tuple[dict[str, Tensor], dict[str, Any], dict[str, Array]]:
    """The tensors, attributes and contents of a valid description."""
    kind = pick(draw, (DataType.FLOAT32, DataType.FLOAT16))
    way, is_grouped = pick(draw, WAYS), cls is dml.MultiheadAttention1
    batch, queries, shared, size = (1 + draw(upto(2)) for _ in range(4))
    queries += pick(draw, (0, 0, 15))  # enough for one pass over the keys
    is_single = way in (WAYS[1], WAYS[3])  # query and key have one length, and one number of heads
    heads = shared * (1 + draw(upto(2))) if is_grouped and not is_single else shared
    keys = 0 if way == WAYS[4] else queries if is_single else 1 + draw(upto(3))
    value_size = size if any("value" in name and name != "value" for name in way) else 1 + draw(upto(2))
    past = 1 + draw(upto(2)) if way == WAYS[4] or pick(draw, (True, False)) else 0
    has_lengths = is_grouped and way != WAYS[4] and pick(draw, (True, False))
    if has_lengths:
        keys, past = queries, queries + draw(upto(2))
    total = past if has_lengths else past + keys
    whole = {
        "query": (batch, queries, heads * size),
        "key": (batch, keys, shared * size),
        "value": (batch, keys, shared * value_size),
        "stacked_query_key": (batch, queries, shared, 2, size),
        "stacked_key_value": (batch, keys, shared, 2, size),
        "stacked_query_key_value": (batch, queries, shared, 3, size),
    }
    sizes: dict[str, Sizes] = {f"{name}_tensor": own for name, own in whole.items() if name in way}
    if pick(draw, (True, False)):
        sizes["bias_tensor"] = (heads * size + shared * (size + value_size),)
    mask, scores = pick(draw, tuple(MASKS)), (batch, heads, queries, total)
    masks = {
        MASKS.BOOLEAN: scores,
        MASKS.KEY_SEQUENCE_LENGTH: (1, batch),
        MASKS.KEY_SEQUENCE_END_START: (2, batch),
        MASKS.KEY_QUERY_SEQUENCE_LENGTH_START_END: (3 * batch + 2,),
    }
    if mask in masks:
        sizes["mask_tensor"] = masks[mask]
    if pick(draw, (True, False)):
        sizes["relative_position_bias_tensor"] = scores
    if past:
        sizes |= {
            "past_key_tensor": (batch, shared, past, size),
            "past_value_tensor": (batch, shared, past, value_size),
        }
    if has_lengths:
        sizes["past_sequence_lengths_tensor"] = (batch,)
    sizes["output_tensor"] = (batch, queries, heads * value_size)
    for name, own in (("key", size), ("value", value_size)):
        if pick(draw, (True, False)):
            sizes[f"output_present_{name}_tensor"] = (batch, shared, total, own)
    types = dict.fromkeys(sizes, kind) | {"mask_tensor": DataType.INT32}
    types["past_sequence_lengths_tensor"] = pick(draw, (DataType.INT32, kind))
    tensors = {name: draw_tensor(draw, types[name], own, is_output="output" in name) for name, own in sizes.items()}
    attributes: dict[str, Any] = {
        "scale": pick(draw, (math.nan, 1.0, 0.5, -0.25)),
        "mask_filter_value": pick(draw, (-10000.0, -8.0)),
        "mask_type": mask,
    }
    attributes |= {"query_head_count": heads, "key_value_head_count": shared} if is_grouped else {"head_count": heads}
    contents = {
        name: _content(draw, name, tensor, batch * total)
        for name, tensor in tensors.items()
        if name in cls.input_names()
    }
    return tensors, attributes, contents


def _content(draw: st.DrawFn, name: str, tensor: Tensor, most: int) -> Array:
    rng, kind = np.random.default_rng(draw(SEEDS)), tensor.data_type
    if name in ("mask_tensor", "past_sequence_lengths_tensor"):
        return rng.integers(-1, pick(draw, (1, 3, most)), tensor.extent, endpoint=True).astype(kind.dtype)
    return rng.choice(np.array([*range(-2, 3), 0.25, 1.5, -0.75], kind.dtype), tensor.extent)
