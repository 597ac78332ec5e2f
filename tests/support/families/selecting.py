"""The operators that choose places and elements, and those that train: what they give in NumPy, from the documents."""

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
    from drawing import Operator, Tensor
    from families.elementwise import Array

    Sizes = tuple[int, ...]
    Drawn = tuple[dict[str, Sizes], dict[str, Any]]


def one_hot(desc: Any, indices: Array, values: Array) -> Array:
    off = values.ravel()[0]
    place = [0] * values.ndim
    place[max(k for k, size in enumerate(values.shape) if size > 1)] = 1
    found = np.full(desc.output_tensor.sizes, off)
    size = desc.output_tensor.sizes[desc.axis]
    for at in np.ndindex(indices.shape):
        index = int(indices[at])
        index += size if index < 0 else 0
        if 0 <= index < size:
            found[(*at[: desc.axis], index, *at[desc.axis + 1 :])] = values[tuple(place)]
    return found


def adam(desc: Any, x: Array, m: Array, v: Array, g: Array, step: Array) -> list[Array]:
    x, m, v, g = (one.astype(np.float64) for one in (x, m, v, g))
    first, second, rate, epsilon = (
        float(np.float32(number)) for number in (desc.beta1, desc.beta2, desc.learning_rate, desc.epsilon)
    )
    t = float(step.ravel()[0])
    m = first * m + (1 - first) * g
    v = second * v + (1 - second) * g * g
    x = x - rate * np.sqrt(1 - second**t) / (1 - first**t) * m / (np.sqrt(v) + epsilon)
    return [x, m, v]


def scatter(desc: Any, x: Array, indices: Array, updates: Array) -> Array:
    found = x.copy()
    for at in np.ndindex(indices.shape):
        found[(*at[: desc.axis], int(indices[at]), *at[desc.axis + 1 :])] = updates[at]
    return found


def scatter_nd(desc: Any, x: Array, indices: Array, updates: Array) -> Array:
    own = x.reshape(x.shape[x.ndim - desc.input_dimension_count :]).copy()
    tuples = indices.reshape(indices.shape[indices.ndim - desc.indices_dimension_count :])
    blocks = updates.reshape((*tuples.shape[:-1], *own.shape[tuples.shape[-1] :]))
    for at in np.ndindex(tuples.shape[:-1]):
        own[tuple(int(i) for i in tuples[at])] = blocks[at]
    return own.reshape(x.shape)


def top_k(desc: Any, x: Array) -> list[Array]:
    is_rising = getattr(desc, "axis_direction", None) is dml.AxisDirection.INCREASING
    sign, lines = 1 if is_rising else -1, np.moveaxis(x, desc.axis, -1)
    places = np.empty((*lines.shape[:-1], desc.k), np.int64)
    for at in np.ndindex(lines.shape[:-1]):
        line: list[Any] = lines[at].tolist()

        def comes(j: int, line: list[Any] = line) -> tuple[Any, ...]:
            is_nan = line[j] != line[j]
            return (sign * is_nan, 0 if is_nan else sign * line[j], j)

        places[at] = sorted(range(len(line)), key=comes)[: desc.k]
    places = np.moveaxis(places, -1, desc.axis)
    return [np.take_along_axis(x, places, desc.axis), places.astype(desc.output_index_tensor.data_type.dtype)]


def nonzero(desc: Any, x: Array) -> list[Array]:
    found, columns = np.argwhere(x != 0), desc.output_coordinates_tensor.sizes[-1]
    rows = np.zeros((x.size, columns), np.uint32)
    rows[: len(found)] = found[:, x.ndim - columns :]
    return [np.full((1,), len(found), np.uint32), rows]


def philox(counter: int, key: int) -> list[int]:
    """Philox 4x32-10, as Random123 has it: a round multiplies, crosses and adds the key, which grows in between."""
    x, k, low = [counter >> 32 * i & 2**32 - 1 for i in range(4)], [key & 2**32 - 1, key >> 32], 2**32 - 1
    for _ in range(10):
        first, second = x[0] * 0xD2511F53, x[2] * 0xCD9E8D57
        x = [second >> 32 ^ x[1] ^ k[0], second & low, first >> 32 ^ x[3] ^ k[1], first & low]
        k = [k[0] + 0x9E3779B9 & low, k[1] + 0xBB67AE85 & low]
    return x


def random_generator(desc: Any, state: Array) -> list[Array]:
    counter, key = (int.from_bytes(words.tobytes(), "little") for words in np.split(state.ravel(), [4]))
    sizes = desc.output_tensor.sizes
    blocks = -(-int(np.prod(sizes)) // 4)
    numbers = [word for n in range(blocks) for word in philox((counter + n) % 2**128, key)]
    found = [np.array(numbers, np.uint32)[: np.prod(sizes)].reshape(sizes)]
    if desc.output_state_tensor is not None:
        after = ((counter + blocks) % 2**128).to_bytes(16, "little") + key.to_bytes(8, "little")
        found.append(np.frombuffer(after, np.uint32).reshape(state.shape))
    return found


ORACLE: dict[str, Callable[..., Array | list[Array]]] = {
    "SCATTER": scatter,
    "SCATTER_ND": scatter_nd,
    "TOP_K": top_k,
    "TOP_K1": top_k,
    "NONZERO_COORDINATES": nonzero,
    "ONE_HOT": one_hot,
    "ADAM_OPTIMIZER": adam,
    "RANDOM_GENERATOR": random_generator,
}


# Random descriptions


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
