"""Random descriptions of the operators that choose places and elements, and of those that train, with their data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from drawing import SEEDS, draw_sizes, make_indices, pick, upto

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis import strategies as st

    from anydml import DataType, FeatureLevel
    from drawing import Array, Operator, Tensor

    Sizes = tuple[int, ...]
    Drawn = tuple[dict[str, Sizes], dict[str, Any]]


def _one_hot(draw: st.DrawFn, cls: Operator, level: FeatureLevel, data_type: DataType, count: int) -> Drawn:
    sizes, values, axis = draw_sizes(draw, count, 16), draw_sizes(draw, count, 6), pick(draw, range(count))
    if max(values) == 1:
        values = (*values[:-1], 2)
    indices = (*sizes[:axis], 1, *sizes[axis + 1 :])
    return {"indices_tensor": indices, "values_tensor": values, "output_tensor": sizes}, {"axis": axis}


def _adam(draw: st.DrawFn, cls: Operator, level: FeatureLevel, data_type: DataType, count: int) -> Drawn:
    sizes = draw_sizes(draw, count, 48)
    names = [name for name in (*cls.input_names(), *cls.output_names()) if name != "training_step_tensor"]
    attributes = {
        "learning_rate": pick(draw, (0.001, 0.5, 0.0)),
        "beta1": pick(draw, (0.9, 0.0, 0.5)),
        "beta2": pick(draw, (0.999, 0.0, 0.75)),
        "epsilon": pick(draw, (1e-4, 0.5)),
    }
    order = dict.fromkeys(cls.input_names()[:4], sizes)
    return {**order, "training_step_tensor": (1,) * count, **dict.fromkeys(names[4:], sizes)}, attributes


def _scatter(draw: st.DrawFn, cls: Operator, level: FeatureLevel, data_type: DataType, count: int) -> Drawn:
    sizes, axis = draw_sizes(draw, count, 32), pick(draw, range(count))
    indices = (*sizes[:axis], 1 + draw(upto(4)), *sizes[axis + 1 :])
    order = dict.fromkeys(("indices_tensor", "updates_tensor"), indices)
    return {"input_tensor": sizes, **order, "output_tensor": sizes}, {"axis": axis}


def _scatter_nd(draw: st.DrawFn, cls: Operator, level: FeatureLevel, data_type: DataType, count: int) -> Drawn:
    inner, own = 1 + draw(upto(count - 1)), 1 + draw(upto(count - 1))
    sizes = draw_sizes(draw, inner, 32)
    length = 1 + draw(upto(inner - 1))
    own = min(own, count - (inner - length) + 1)
    tuples = draw_sizes(draw, own - 1, 6) if own > 1 else ()
    updates = (*tuples, *sizes[length:])

    def padded(some: Sizes) -> Sizes:
        return (*(1,) * (count - len(some)), *some)

    attributes = {"input_dimension_count": inner, "indices_dimension_count": own}
    tensors = {"input_tensor": sizes, "indices_tensor": (*tuples, length), "updates_tensor": updates}
    return {name: padded(some) for name, some in {**tensors, "output_tensor": sizes}.items()}, attributes


def _top_k(draw: st.DrawFn, cls: Operator, level: FeatureLevel, data_type: DataType, count: int) -> Drawn:
    sizes, axis = draw_sizes(draw, count, 40), pick(draw, range(count))
    k = 1 + draw(upto(sizes[axis] - 1))
    found = (*sizes[:axis], k, *sizes[axis + 1 :])
    attributes: dict[str, Any] = {"axis": axis, "k": k}
    if cls is dml.TopK1:
        attributes["axis_direction"] = pick(draw, tuple(dml.AxisDirection))
    return {"input_tensor": sizes, "output_value_tensor": found, "output_index_tensor": found}, attributes


def _nonzero(draw: st.DrawFn, cls: Operator, level: FeatureLevel, data_type: DataType, count: int) -> Drawn:
    sizes = draw_sizes(draw, count, 24)
    needed = count - next((k for k, size in enumerate(sizes) if size > 1), count)
    columns = max(needed, 1) + draw(upto(count - max(needed, 1)))
    rows = (*(1,) * (count - 2), math.prod(sizes), columns)
    return {"input_tensor": sizes, "output_count_tensor": (1,) * count, "output_coordinates_tensor": rows}, {}


def _random(draw: st.DrawFn, cls: Operator, level: FeatureLevel, data_type: DataType, count: int) -> Drawn:
    state = (*(1,) * (count - 1), 6)
    own = pick(draw, cls.support.row_at(level).tensors["OutputTensor"].dimension_counts)
    after = {"output_state_tensor": state} if pick(draw, (False, True)) else {}
    return {"input_state_tensor": state, "output_tensor": draw_sizes(draw, own, 48), **after}, {}


MAKERS: dict[Operator, Callable[..., Drawn]] = {
    dml.Scatter: _scatter,
    dml.ScatterND: _scatter_nd,
    dml.TopK: _top_k,
    dml.TopK1: _top_k,
    dml.NonzeroCoordinates: _nonzero,
    dml.OneHot: _one_hot,
    dml.AdamOptimizer: _adam,
    dml.RandomGenerator: _random,
}


def contents_of(draw: st.DrawFn, cls: Operator, tensors: dict[str, Tensor], attributes: dict[str, Any]) -> Any:
    """The data of tensors that not every number will do for."""
    found: dict[str, Array] = {}
    if cls is dml.OneHot:
        sizes = [tensors["output_tensor"].sizes[attributes["axis"]]]
        found["indices_tensor"] = make_indices(tensors["indices_tensor"], sizes, draw(SEEDS), is_outside=True)
    if cls in (dml.Scatter, dml.ScatterND):
        whole = tensors["input_tensor"].sizes
        length = tensors["indices_tensor"].sizes[-1]
        first = len(whole) - attributes.get("input_dimension_count", 0)
        chosen = [whole[attributes["axis"]]] if cls is dml.Scatter else whole[first : first + length]
        found["indices_tensor"] = make_indices(tensors["indices_tensor"], chosen, draw(SEEDS), is_outside=False)
    if cls is dml.AdamOptimizer:
        for name in cls.input_names():
            rng, own = np.random.default_rng(draw(SEEDS)), tensors[name]
            numbers = rng.integers(1, 9, own.extent) if "step" in name else rng.integers(-30, 30, own.extent) / 8
            found[name] = (np.abs(numbers) if "second" in name else numbers).astype(own.data_type.dtype)
    if cls is dml.RandomGenerator:  # counters that carry, besides others
        rng, own = np.random.default_rng(draw(SEEDS)), tensors["input_state_tensor"]
        found["input_state_tensor"] = rng.choice(np.array([0, 1, 2**31, 2**32 - 3, 2**32 - 1], np.uint32), own.extent)
    return found
