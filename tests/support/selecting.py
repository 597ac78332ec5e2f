"""The operators that choose places and elements, and those that train: what they give in NumPy, from the documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml

if TYPE_CHECKING:
    from collections.abc import Callable

    from elementwise_oracle import Array


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
