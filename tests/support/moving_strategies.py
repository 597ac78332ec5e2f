"""Random descriptions of the operators that gather along an axis, convert, put together, fill and reverse."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from drawing import (
    CHOICES,
    SEEDS,
    STYLES,
    Array,
    Case,
    Operator,
    Tensor,
    draw_sizes,
    draw_tensor,
    hard_values,
    make_case,
    make_indices,
    pick,
    slots,
    special_values,
    upto,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis import strategies as st

    from drawing import Maker

CONVERTED = (*STYLES, "hard", "hard", "hard")


def draw_axis(draw: st.DrawFn, sizes: Sequence[int]) -> int:
    """Any axis, the longest more often: along one of size 1 there is little to get wrong."""
    axis = draw(upto(2 * len(sizes)))
    return axis if axis < len(sizes) else list(sizes).index(max(sizes))


def _with(sizes: Sequence[int], axis: int, size: int) -> tuple[int, ...]:
    return (*sizes[:axis], size, *sizes[axis + 1 :])


# GATHER and GATHER_ELEMENTS


def _gather(draw: st.DrawFn, cls: Operator, level: dml.FeatureLevel, data_type: dml.DataType, count: int) -> Case:
    sizes = list(draw_sizes(draw, count, 48))
    axis, index_count = draw_axis(draw, sizes), pick(draw, (1, 1, 0, 2, 3, 4, 8))
    index_count = min(index_count, count)
    own = list(draw_sizes(draw, index_count, 8)) if index_count else []
    # The result has a dimension more for each of the indices' but one, and those in front must be 1 to be left away.
    for k in range(index_count - 1):
        if k < axis:
            sizes[k] = 1
        elif k < axis + index_count:
            own[k - axis] = 1
    result = (*sizes[:axis], *own, *sizes[axis + 1 :])
    output = (1,) * (count - len(result)) + result[max(len(result) - count, 0) :]
    attributes = {"axis": axis, "index_dimensions": index_count}
    indices = (1,) * (count - index_count) + tuple(own)
    return _indexed(draw, cls, level, data_type, (tuple(sizes), indices, output), attributes)


def _gather_elements(
    draw: st.DrawFn, cls: Operator, level: dml.FeatureLevel, data_type: dml.DataType, count: int
) -> Case:
    sizes = draw_sizes(draw, count, 32)
    axis = draw_axis(draw, sizes)
    indices = _with(sizes, axis, 1 + draw(upto(5)))
    return _indexed(draw, cls, level, data_type, (sizes, indices, indices), {"axis": axis})


def _indexed(
    draw: st.DrawFn,
    cls: Operator,
    level: dml.FeatureLevel,
    data_type: dml.DataType,
    sizes: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]],
    attributes: dict[str, Any],
) -> Case:
    index_types, _ = CHOICES[cls, "IndicesTensor"][level]
    tensors = {
        "input_tensor": draw_tensor(draw, data_type, sizes[0]),
        "indices_tensor": draw_tensor(draw, pick(draw, index_types), sizes[1]),
        "output_tensor": draw_tensor(draw, data_type, sizes[2], is_output=True),
    }
    mode = pick(draw, tuple(dml.IndexMode))
    is_outside = draw(upto(7)) > 5 if mode is dml.IndexMode.RAISE else draw(upto(7)) < 6
    limit = sizes[0][attributes["axis"]]
    indices = make_indices(tensors["indices_tensor"], (limit,), draw(SEEDS), is_outside=is_outside)
    return make_case(
        draw, cls, level, tensors, {**attributes, "index_mode": mode}, contents={"indices_tensor": indices}
    )


# CAST


def _cast(draw: st.DrawFn, cls: Operator, level: dml.FeatureLevel, data_type: dml.DataType, count: int) -> Case:
    sizes = draw_sizes(draw, count, 64)
    result_types, _ = CHOICES[cls, "data"][level]
    tensors = {
        "input_tensor": draw_tensor(draw, data_type, sizes),
        "output_tensor": draw_tensor(draw, pick(draw, result_types), sizes, is_output=True),
    }
    return make_case(draw, cls, level, tensors, {}, styles=CONVERTED)


# JOIN and SPLIT


def _parts(draw: st.DrawFn, count: int) -> tuple[tuple[int, ...], list[tuple[int, ...]], int]:
    """The sizes of a tensor, those of parts that it is made of, and the axis."""
    sizes = draw_sizes(draw, count, 16)
    axis = draw_axis(draw, sizes)
    lengths = [1 + draw(upto(4)) for _ in range(1 + draw(upto(4)))]
    return _with(sizes, axis, sum(lengths)), [_with(sizes, axis, length) for length in lengths], axis


def _join(draw: st.DrawFn, cls: Operator, level: dml.FeatureLevel, data_type: dml.DataType, count: int) -> Case:
    whole, parts, axis = _parts(draw, count)
    tensors = slots("input_tensors", [draw_tensor(draw, data_type, part) for part in parts])
    tensors["output_tensor"] = draw_tensor(draw, data_type, whole, is_output=True)
    return make_case(draw, cls, level, tensors, {"axis": axis})


def _split(draw: st.DrawFn, cls: Operator, level: dml.FeatureLevel, data_type: dml.DataType, count: int) -> Case:
    whole, parts, axis = _parts(draw, count)
    outputs = [draw_tensor(draw, data_type, part, is_output=True) for part in parts]
    tensors = {"input_tensor": draw_tensor(draw, data_type, whole), **slots("output_tensors", outputs)}
    return make_case(draw, cls, level, tensors, {"axis": axis})


# FILL_VALUE_CONSTANT and FILL_VALUE_SEQUENCE


def _number(draw: st.DrawFn, data_type: dml.DataType) -> int | float:
    """A number of a type, those at which something goes wrong more often; or a float that is none of its own."""
    chosen = pick(draw, (special_values, hard_values))(data_type).tolist()
    numbers: tuple[int | float, ...] = (3, 0, 10, *chosen)
    return pick(draw, (*numbers, 0.1, 1e300, -1e-300, 10**400) if data_type.is_float else numbers)


def _fill(draw: st.DrawFn, cls: Operator, level: dml.FeatureLevel, data_type: dml.DataType, count: int) -> Case:
    tensors = {"output_tensor": draw_tensor(draw, data_type, draw_sizes(draw, count, 64), is_output=True)}
    attributes: dict[str, Any] = {"value_data_type": data_type}
    if cls is dml.FillValueConstant:
        attributes["value"] = _number(draw, data_type)
    else:
        attributes["value_start"] = _number(draw, data_type)
        attributes["value_delta"] = _step(draw, data_type)
    return make_case(draw, cls, level, tensors, attributes)


def _step(draw: st.DrawFn, data_type: dml.DataType) -> int | float:
    """A number that may go down in an unsigned type as well; of a signed one the lowest has no opposite."""
    step = _number(draw, data_type)
    if not data_type.is_float:
        limits = np.iinfo(data_type.dtype)
        step = max(step, -int(limits.max))
    return pick(draw, (step, -step))


# REVERSE_SUBSEQUENCES


def _reverse(draw: st.DrawFn, cls: Operator, level: dml.FeatureLevel, data_type: dml.DataType, count: int) -> Case:
    sizes = draw_sizes(draw, count, 64)
    axis = draw_axis(draw, sizes)
    length_types, _ = CHOICES[cls, "SequenceLengthsTensor"][level]
    tensors = {
        "input_tensor": draw_tensor(draw, data_type, sizes),
        "sequence_lengths_tensor": draw_tensor(draw, pick(draw, length_types), _with(sizes, axis, 1)),
        "output_tensor": draw_tensor(draw, data_type, sizes, is_output=True),
    }
    lengths = _lengths(tensors["sequence_lengths_tensor"], sizes[axis], draw(SEEDS))
    return make_case(draw, cls, level, tensors, {"axis": axis}, contents={"sequence_lengths_tensor": lengths})


def _lengths(tensor: Tensor, size: int, seed: int) -> Array:
    """Lengths of lines, a few of them past the end."""
    chance = random.Random(seed)  # noqa: S311 - test data
    most = int(np.iinfo(tensor.data_type.dtype).max)
    past = (size + 1, most, most // 2 + 1, 2**31)
    numbers = [chance.choice(past) if chance.random() < 0.2 else chance.randint(0, size) for _ in range(tensor.extent)]
    return np.array(numbers, tensor.data_type.dtype)


MORE_MAKERS: dict[Operator, Maker] = {
    dml.Gather: _gather,
    dml.GatherElements: _gather_elements,
    dml.Cast: _cast,
    dml.Join: _join,
    dml.Split: _split,
    dml.FillValueConstant: _fill,
    dml.FillValueSequence: _fill,
    dml.ReverseSubsequences: _reverse,
}
