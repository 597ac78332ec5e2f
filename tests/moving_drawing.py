"""Random descriptions of the operators that move and interpolate: every level, type, layout and attribute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

import anydml as dml
from anydml import DataType, FeatureLevel
from drawing import Case, Operator, draw_sizes, draw_tensor, make_case, pick, upto
from drawing_windows import draw_window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Sizes = tuple[int, ...]
    Drawn = tuple[dict[str, Sizes], dict[str, Any]]
    """The sizes of each tensor, and the attributes."""

LEVELS = tuple(reversed(FeatureLevel))
NUMBERS = (0, 1, 7, 100)


@st.composite
def moving_cases(draw: st.DrawFn, classes: Sequence[Operator]) -> Case:
    """A valid description of one of these operators, with data."""
    cls = pick(draw, classes)
    level = pick(draw, tuple(level for level in LEVELS if level >= cls.introduced()))
    row = cls.support.row_at(level)
    first = next(iter(row.tensors.values()))
    data_type, count = pick(draw, sorted(first.data_types)), pick(draw, sorted(first.dimension_counts))
    sizes, attributes = MAKERS[cls](draw, cls, level, data_type, count)
    tensors = {
        name: draw_tensor(draw, data_type, own, is_output=name in cls.output_names()) for name, own in sizes.items()
    }
    return make_case(draw, cls, level, tensors, attributes)


def _padding(draw: st.DrawFn, cls: Operator, level: FeatureLevel, data_type: DataType, count: int) -> Drawn:
    sizes = draw_sizes(draw, count, 24)
    modes = list(dml.PaddingMode)[: 3 + (level >= FeatureLevel.LEVEL_3_0) + (level >= FeatureLevel.LEVEL_6_4)]
    pads: list[tuple[int, int]] = []
    left = 48
    for size in sizes:
        most = max(min(12, left // size), 0)
        low = pick(draw, (0, draw(upto(most))))
        high = pick(draw, (0, draw(upto(max(most - low, 0)))))
        pads.append((low, high))
        left = max(left // (low + size + high), 1)
    attributes: dict[str, Any] = {
        "padding_mode": pick(draw, modes),
        "start_padding": [low for low, _ in pads],
        "end_padding": [high for _, high in pads],
        "padding_value": pick(draw, NUMBERS),
    }
    if cls is dml.Padding1:
        attributes["padding_value_data_type"] = data_type
    else:
        attributes["padding_value"] = pick(draw, (*NUMBERS, -3.75, 10.6, 1e9, -1e30))
    whole = tuple(low + size + high for size, (low, high) in zip(sizes, pads, strict=True))
    return {"input_tensor": sizes, "output_tensor": whole}, attributes


def _tile(draw: st.DrawFn, cls: Operator, level: FeatureLevel, data_type: DataType, count: int) -> Drawn:
    sizes, repeats = draw_sizes(draw, count, 16), draw_sizes(draw, count, 8)
    whole = tuple(size * repeat for size, repeat in zip(sizes, repeats, strict=True))
    return {"input_tensor": sizes, "output_tensor": whole}, {"repeats": list(repeats)}


def _blocks(draw: st.DrawFn, cls: Operator, level: FeatureLevel, data_type: DataType, count: int) -> Drawn:
    (n, c, h, w), block = draw_sizes(draw, 4, 12), 1 + draw(upto(3))
    deep, wide = (n, c * block**2, h, w), (n, c, h * block, w * block)
    attributes: dict[str, Any] = {"block_size": block}
    if "order" in cls.field_types():
        attributes["order"] = pick(draw, tuple(dml.DepthSpaceOrder))
    one, other = (deep, wide) if "DEPTH_TO" in cls.type.name else (wide, deep)
    return {"input_tensor": one, "output_tensor": other}, attributes


def _diagonal(draw: st.DrawFn, cls: Operator, level: FeatureLevel, data_type: DataType, count: int) -> Drawn:
    sizes = draw_sizes(draw, count, 48)
    value = pick(draw, (*NUMBERS, 10.6, -3.5, 1e9))
    return {"output_tensor": sizes}, {"offset": pick(draw, (0, 1, -1, 2, -7, 2**31 - 1, -(2**31))), "value": value}


def _diagonals(draw: st.DrawFn, cls: Operator, level: FeatureLevel, data_type: DataType, count: int) -> Drawn:
    sizes = draw_sizes(draw, count, 48)
    bounds = [pick(draw, (0, 1, -1, 2, -3, 2**31 - 1, -(2**31))) for _ in range(2)]
    attributes = {
        "value_data_type": data_type,
        "value": pick(draw, NUMBERS),
        "diagonal_fill_begin": bounds[0],
        "diagonal_fill_end": bounds[1],
    }
    given = {"input_tensor": sizes} if pick(draw, (True, False)) else {}
    return {**given, "output_tensor": sizes}, attributes


def _slice_gradient(draw: st.DrawFn, cls: Operator, level: FeatureLevel, data_type: DataType, count: int) -> Drawn:
    whole = draw_sizes(draw, count, 64)
    sizes, attributes = draw_window(draw, whole)
    return {"input_gradient_tensor": sizes, "output_gradient_tensor": whole}, attributes


MAKERS: dict[Operator, Callable[..., Drawn]] = {
    dml.Padding: _padding,
    dml.Padding1: _padding,
    dml.Tile: _tile,
    dml.DepthToSpace: _blocks,
    dml.DepthToSpace1: _blocks,
    dml.SpaceToDepth: _blocks,
    dml.SpaceToDepth1: _blocks,
    dml.DiagonalMatrix: _diagonal,
    dml.DiagonalMatrix1: _diagonals,
    dml.SliceGrad: _slice_gradient,
}
