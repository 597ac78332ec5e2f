"""The operators that copy, convert, fill and add up: random descriptions, and how answers are compared."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

import anydml as dml
from agreement import assert_agrees, assert_same
from drawing import (
    CHOICES,
    OPERATORS,
    SEEDS,
    UINT32_MAX,
    Array,
    Case,
    Operator,
    draw_sizes,
    draw_tensor,
    draw_window,
    make_case,
    make_indices,
    pick,
    upto,
)
from expecting import TALLIES, expected
from families.family import Family
from moving_strategies import MORE_MAKERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drawing import Maker


@st.composite
def copying_cases(draw: st.DrawFn, classes: Sequence[Operator]) -> Case:
    """A valid description of one of these operators, with data."""
    cls = pick(draw, classes)
    levels = CHOICES[cls, "data"]
    level = pick(draw, tuple(levels))
    data_types, counts = levels[level]
    data_type, count = pick(draw, data_types), pick(draw, counts)
    return _MAKERS[cls](draw, cls, level, data_type, count)


def _slice(draw: st.DrawFn, cls: Operator, level: dml.FeatureLevel, data_type: dml.DataType, count: int) -> Case:
    input_sizes = draw_sizes(draw, count, 64)
    offsets, sizes, strides = [], [], []
    for limit in input_sizes:
        size = limit - pick(draw, range(limit))
        offset, stride = pick(draw, _steps(limit, size))
        offsets.append(offset)
        sizes.append(size)
        strides.append(stride)
    tensors = {
        "input_tensor": draw_tensor(draw, data_type, input_sizes),
        "output_tensor": draw_tensor(draw, data_type, tuple(sizes), is_output=True),
    }
    return make_case(draw, cls, level, tensors, {"offsets": offsets, "sizes": sizes, "strides": strides})


def _slice1(draw: st.DrawFn, cls: Operator, level: dml.FeatureLevel, data_type: dml.DataType, count: int) -> Case:
    input_sizes = draw_sizes(draw, count, 64)
    output_sizes, window = draw_window(draw, input_sizes)
    tensors = {
        "input_tensor": draw_tensor(draw, data_type, input_sizes),
        "output_tensor": draw_tensor(draw, data_type, output_sizes, is_output=True),
    }
    return make_case(draw, cls, level, tensors, window)


@functools.cache
def _steps(limit: int, size: int) -> tuple[tuple[int, int], ...]:
    """Every (offset, stride) that copies `size` elements out of `limit`; one element takes a stride of any length."""
    strides = range(1, (limit - 1) // (size - 1) + 1) if size > 1 else (1, limit + 1, UINT32_MAX)
    return tuple((offset, stride) for stride in strides for offset in range(limit - (size - 1) * stride))


def _gather(draw: st.DrawFn, cls: Operator, level: dml.FeatureLevel, data_type: dml.DataType, count: int) -> Case:
    input_count = count - pick(draw, range(count))
    batch_count = min(pick(draw, (1, 0, 2, 3)), input_count - 1) if cls is dml.GatherND1 else 0
    tuple_size = 1 + draw(upto(input_count - batch_count - 1))
    rest_count = input_count - batch_count - tuple_size
    # The result has indices_count - 1 + rest_count dimensions, which must find room in count.
    indices_count = min(count, count + 1 - rest_count)
    indices_count -= draw(upto(indices_count - batch_count - 1))
    batch, rest, tuples, indexed = (
        draw_sizes(draw, n, most) if n else ()
        for n, most in ((batch_count, 6), (rest_count, 4), (indices_count - 1 - batch_count, 8), (tuple_size, 12))
    )
    index_types, _ = CHOICES[cls, "IndicesTensor"][level]
    sizes = {
        "input_tensor": batch + indexed + rest,
        "indices_tensor": (*batch, *tuples, tuple_size),
        "output_tensor": batch + tuples + rest,
    }
    full = {name: (1,) * (count - len(own)) + own for name, own in sizes.items()}
    tensors = {
        "input_tensor": draw_tensor(draw, data_type, full["input_tensor"]),
        "indices_tensor": draw_tensor(draw, pick(draw, index_types), full["indices_tensor"]),
        "output_tensor": draw_tensor(draw, data_type, full["output_tensor"], is_output=True),
    }
    mode = pick(draw, tuple(dml.IndexMode))
    is_outside = draw(upto(7)) > 5 if mode is dml.IndexMode.RAISE else draw(upto(7)) < 6
    attributes: dict[str, Any] = {"input_dimension_count": input_count, "indices_dimension_count": indices_count}
    if cls is dml.GatherND1:
        attributes["batch_dimension_count"] = batch_count
    attributes["index_mode"] = mode
    indices = make_indices(tensors["indices_tensor"], indexed, draw(SEEDS), is_outside=is_outside)
    return make_case(draw, cls, level, tensors, attributes, contents={"indices_tensor": indices})


def _cumulative(draw: st.DrawFn, cls: Operator, level: dml.FeatureLevel, data_type: dml.DataType, count: int) -> Case:
    sizes = draw_sizes(draw, count, 64)
    output = draw_tensor(draw, data_type, sizes, is_output=True)
    is_in_place = pick(draw, (False, True))
    tensors = {
        "input_tensor": output if is_in_place else draw_tensor(draw, data_type, sizes),
        "output_tensor": output,
    }
    axis = draw(upto(2 * count))  # an axis of size 1 has no tally to speak of: the longest is taken often
    exclusive = "has_exclusive_sum" if cls is dml.CumulativeSummation else "has_exclusive_product"
    attributes = {
        "axis": axis if axis < count else sizes.index(max(sizes)),
        "axis_direction": pick(draw, tuple(dml.AxisDirection)),
        exclusive: pick(draw, (False, True)),
    }
    return make_case(draw, cls, level, tensors, attributes, is_in_place=is_in_place)


_MAKERS: dict[Operator, Maker] = {
    dml.Slice: _slice,
    dml.Slice1: _slice1,
    dml.GatherND: _gather,
    dml.GatherND1: _gather,
    dml.CumulativeSummation: _cumulative,
    dml.CumulativeProduct: _cumulative,
    **MORE_MAKERS,
}


def check(desc: dml.OperatorDesc, got: list[Array], wanted: list[tuple[Array, Array]], engine: str) -> None:
    """Bit for bit, where an engine adds and multiplies one by one as the oracle does."""
    for one, (want, source) in zip(got, wanted, strict=True):
        if engine == "cuda" and type(desc) in TALLIES:
            assert_agrees(type(desc), source, one.view(want.dtype), want)
        else:
            assert_same(one.view(want.dtype), want)


class Copies(Family):
    """The oracle reads memory, bit by bit."""

    def wanted(self, case: Case, engine: str) -> list[tuple[Array, Array | None]]:
        """Of each output, beside the memory of the input; an index that is outside is an error."""
        return [(want, case.contents.get("input_tensor")) for want in expected(case, engine)]


FAMILY = Copies(OPERATORS, copying_cases, lambda desc, arrays: None, check)
