"""Attention in NumPy, written from the documents, and small examples; beside them, how far off results may be."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from anydml import DataType
from drawing import SEEDS, draw_tensor, pick, upto

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis import strategies as st

    from drawing import Operator, Tensor
    from families.elementwise import Array

    Arrays = dict[str, Array]
    Sizes = tuple[int, ...]

MASKS = dml.MultiheadAttentionMaskType
STACKED = {"Query": ("QueryKey", "QueryKeyValue"), "Key": ("QueryKey", "KeyValue", "QueryKeyValue")}
STACKED["Value"] = ("KeyValue", "QueryKeyValue")


def head_counts(desc: Any) -> tuple[int, int]:
    """Of the query, and of the key and the value."""
    if desc.type.name == "MULTIHEAD_ATTENTION":
        return desc.head_count, desc.head_count
    return desc.query_head_count, desc.key_value_head_count


def part(arrays: Arrays, name: str, count: int) -> Array | None:
    """A query, key or value as (batch, heads, sequence, size)."""
    alone = arrays.get(f"{name}Tensor")
    if alone is not None:
        batch, length, hidden = alone.shape[-3:]
        return alone.reshape(batch, length, count, hidden // count).swapaxes(1, 2)
    for stacked in STACKED[name]:
        whole = arrays.get(f"Stacked{stacked}Tensor")
        if whole is not None:
            names = [word for word in ("Query", "Key", "Value") if word in stacked]
            return whole[:, :, :, names.index(name)].swapaxes(1, 2)
    return None


def gather(desc: Any, arrays: Arrays) -> tuple[Array, Array, Array]:
    """The queries, and all keys and values in the tensors' type, as (batch, heads, sequence, size)."""
    heads, shared = head_counts(desc)
    parts = [part(arrays, name, count) for name, count in (("Query", heads), ("Key", shared), ("Value", shared))]
    if "BiasTensor" in arrays:
        start = 0
        sizes = [parts[0].shape[3], arrays["PastKeyTensor"].shape[-1] if parts[1] is None else parts[1].shape[3]]  # type: ignore[union-attr]  # there is a query
        sizes.append(arrays["PastValueTensor"].shape[-1] if parts[2] is None else parts[2].shape[3])
        for i, (size, count) in enumerate(zip(sizes, (heads, shared, shared), strict=True)):
            own = arrays["BiasTensor"].ravel()[start : start + count * size].reshape(count, 1, size)
            start += count * size
            one = parts[i]
            parts[i] = None if one is None else one + own
    query, *others = parts
    assert query is not None
    whole = []
    for name, new in zip(("PastKeyTensor", "PastValueTensor"), others, strict=True):
        past = arrays[name].reshape(arrays[name].shape[-4:]) if name in arrays else None
        if "PastSequenceLengthsTensor" in arrays:
            assert new is not None
            kept = np.array(new) if past is None else past.copy()
            for b, first in enumerate(lengths(arrays, kept.shape[2] - new.shape[2])):
                kept[b, :, first : first + new.shape[2]] = new[b]
            whole.append(kept)
        else:
            whole.append(np.concatenate([one for one in (past, new) if one is not None], 2))
    return query, whole[0], whole[1]


def lengths(arrays: Arrays, most: int) -> list[int]:
    """How many keys each of the batch has already."""
    return [min(max(int(one), 0), most) for one in arrays["PastSequenceLengthsTensor"].ravel()]


def masked(desc: Any, mask: Array, shape: tuple[int, ...]) -> Array:
    """Which of the scores, (batch, heads, sequence, keys), a mask is added to."""
    batch, _, queries, keys = shape
    found = np.zeros(shape, bool)
    numbers = mask.ravel().tolist()
    for b in range(batch):
        at = np.arange(keys)
        if desc.mask_type is MASKS.KEY_SEQUENCE_LENGTH:
            found[b] = at >= numbers[b]
        elif desc.mask_type is MASKS.KEY_SEQUENCE_END_START:
            found[b] = (at >= numbers[b]) | (at < numbers[batch + b])
        elif desc.mask_type is MASKS.KEY_QUERY_SEQUENCE_LENGTH_START_END:
            length, begin, end, start = (numbers[k + b] for k in (0, batch, batch + 1, 2 * batch + 1))
            row = b * queries + np.arange(queries)[:, None]
            is_out = (row < begin) | (row >= end)
            found[b] = is_out | (b * keys + at < start) | (b * keys + at >= start + length)
    return mask.reshape(shape) == 0 if desc.mask_type is MASKS.BOOLEAN else found


def weigh(desc: Any, arrays: Arrays) -> tuple[Array, Array, list[Array]]:
    """What goes into the softmax, what comes out, and all keys and values: of float64."""
    query, key, value = gather(desc, arrays)
    groups = query.shape[1] // key.shape[1]
    wide = np.repeat(key.astype(np.float64), groups, 1)
    x = query.astype(np.float64) @ wide.swapaxes(2, 3) * desc.scale
    if "RelativePositionBiasTensor" in arrays:
        x = x + arrays["RelativePositionBiasTensor"].reshape(x.shape)
    if "MaskTensor" in arrays:
        x = np.where(masked(desc, arrays["MaskTensor"], x.shape), x + desc.mask_filter_value, x)
    if "PastSequenceLengthsTensor" in arrays:
        first = np.array(lengths(arrays, x.shape[3] - x.shape[2])).reshape(-1, 1, 1, 1)
        x = np.where(np.arange(x.shape[3]) <= first + np.arange(x.shape[2])[:, None], x, -np.inf)
    powers = np.exp(x - x.max(3, keepdims=True))
    return x, powers / powers.sum(3, keepdims=True), [key, value]


def attention(desc: Any, arrays: Arrays) -> list[Array]:
    """The output, and the keys and values where they are asked for."""
    _, weights, (key, value) = weigh(desc, arrays)
    groups = weights.shape[1] // value.shape[1]
    found = weights @ np.repeat(np.nan_to_num(value.astype(np.float64)), groups, 1)
    output = found.swapaxes(1, 2).reshape(*found.shape[:1], found.shape[2], -1)
    presents = {"OutputPresentKeyTensor": key, "OutputPresentValueTensor": value}
    return [output, *(presents[field] for field in presents if field in desc.outputs())]


def assert_attended(desc: Any, arrays: Arrays, got: list[Array], engine: str) -> None:
    """Compare with the oracle: an output is off by what its exponents are, which grow with the scores.

    A GPU multiplies numbers of one type, for which weights of FLOAT16 values are rounded as well.
    """
    x, weights, (_, value) = weigh(desc, arrays)
    output, *presents = attention(desc, arrays)
    for mine, wanted in zip(got[1:], presents, strict=True):
        np.testing.assert_array_equal(mine.reshape(wanted.shape), wanted.astype(mine.dtype))
    size = np.where(weights > 1e-9, np.abs(x), 0).max(initial=0) + x.shape[3] + 8
    largest = np.abs(np.nan_to_num(value.astype(np.float64))).max(initial=0)
    most = 4 * float(np.finfo(np.float32).eps) * size * largest + float(np.finfo(got[0].dtype).eps) * np.abs(output)
    if engine == "cuda" and got[0].dtype == np.float16:
        groups, numbers = weights.shape[1] // value.shape[1], np.abs(np.nan_to_num(value.astype(np.float64)))
        sizes = weights @ np.repeat(numbers, groups, 1)
        most = most + float(np.finfo(np.float16).eps) / 2 * sizes.swapaxes(1, 2).reshape(output.shape)
    off = np.abs(got[0].astype(np.float64).reshape(output.shape) - output)
    assert (off <= most).all(), (desc, off.max(), got[0], output)


# Small examples whose weights are 0, 1/2 and 1: scores are far apart, or equal


def _array(values: Any, *sizes: int) -> Array:
    return np.array(values, "float32").reshape(sizes)


_SMALL: Arrays = {
    "QueryTensor": _array([200, 0, 0, 200, 0, 200, 200, 200], 1, 2, 4),
    "KeyTensor": _array([1, 0, 0, 1, 0, 1, 1, 1], 1, 2, 4),
    "ValueTensor": _array(range(1, 5), 1, 2, 2),
}
ORACLE: dict[str, Callable[[Any, Arrays], Any]] = {
    "MULTIHEAD_ATTENTION": attention,
    "MULTIHEAD_ATTENTION1": attention,
}
SMALL: dict[str, tuple[Arrays, dict[str, Any]]] = {
    "MULTIHEAD_ATTENTION": (
        {**_SMALL, "BiasTensor": _array([0] * 8 + [10, 20], 10)},
        {"head_count": 2, "scale": 1.0},
    ),
    "MULTIHEAD_ATTENTION1": (
        {
            **_SMALL,
            "KeyTensor": _array([1, 0, 0, 1], 1, 2, 2),
            "PastKeyTensor": _array([1, 1, 0, 0, 0, 0], 1, 1, 3, 2),
            "PastValueTensor": _array([5, 0, 0], 1, 1, 3, 1),
            "ValueTensor": _array([7, 9], 1, 2, 1),
            "PastSequenceLengthsTensor": np.array([1], "int32"),
        },
        {"query_head_count": 2, "scale": 1.0},
    ),
}


# Random descriptions


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
