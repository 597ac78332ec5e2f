"""The operators that fold in plain NumPy: what comes out, and by how much a result in FLOAT32 may be off.

Floats come as float64, and integers as Python's own, which have no width. Each function takes the description and the
inputs, None for those that are not there, and gives pairs: the output, and what of it is rounded on the way. An engine
may be off by some 2^-24 of that, beyond the rounding to the output's type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from elementwise_oracle import activated, is_whole

if TYPE_CHECKING:
    from collections.abc import Callable

Array = np.ndarray[Any, Any]
Answer = tuple[Array, Any]


def activate(x: Array, desc: Any) -> Array:
    return activated(x, desc.fused_activation)


def row_major(x: Array, axes: tuple[int, ...]) -> Array:
    """Rows as the last dimension."""
    kept = [k for k in range(x.ndim) if k not in axes]
    moved = x.transpose([*kept, *sorted(axes)])
    return moved.reshape(*moved.shape[: len(kept)], -1)


def index_of(x: Array, axes: tuple[int, ...], function: Any, *, last: bool = False) -> Array:
    rows = row_major(x, axes)
    found = function(rows[..., ::-1] if last else rows, axis=-1)
    found = rows.shape[-1] - 1 - found if last else found
    return np.expand_dims(found, sorted(axes)).astype(object)


def log_sum_exp(x: Array, axes: tuple[int, ...]) -> Array:
    largest = x.max(axes, keepdims=True)
    taken = np.where(np.isinf(largest), 0, largest)
    found: Array = np.log(np.exp(x - taken).sum(axes, keepdims=True)) + taken
    return found


def reduce(desc: Any, x: Array) -> list[Answer]:
    axes, name = tuple(desc.axes), desc.function.name
    if name in ("ARGMAX", "ARGMIN"):
        return [(index_of(x, axes, np.argmax if name == "ARGMAX" else np.argmin), 0)]
    total = np.abs(x).sum(axes, keepdims=True) if not is_whole(x) else 0
    count = np.prod([x.shape[k] for k in axes])
    links = min(count, 64)  # of the longest chain in a tree of FLOAT32
    functions: dict[str, Callable[[], Answer]] = {
        "AVERAGE": lambda: (x.mean(axes, keepdims=True), total * links / count),
        "L1": lambda: (np.abs(x).sum(axes, keepdims=True), total * links),
        "L2": lambda: (np.sqrt((x * x).sum(axes, keepdims=True)), 0),
        "LOG_SUM": lambda: (np.log(x.sum(axes, keepdims=True)), 1e-6 * total),
        "LOG_SUM_EXP": lambda: (log_sum_exp(x, axes), 4),
        "MAX": lambda: (x.max(axes, keepdims=True), 0),
        "MIN": lambda: (x.min(axes, keepdims=True), 0),
        "MULTIPLY": lambda: (x.prod(axes, keepdims=True), 0),
        "SUM": lambda: (x.sum(axes, keepdims=True), total * links),
        "SUM_SQUARE": lambda: ((x * x).sum(axes, keepdims=True), 0),
    }
    return [functions[name]()]


def arg(desc: Any, x: Array) -> list[Answer]:
    function = np.argmax if desc.type.name == "ARGMAX" else np.argmin
    return [(index_of(x, tuple(desc.axes), function, last=desc.axis_direction.name == "DECREASING"), 0)]


def axes_of(desc: Any, x: Array) -> tuple[int, ...]:
    return tuple(getattr(desc, "axes", (x.ndim - 1,)))


def softmax(desc: Any, x: Array) -> list[Answer]:
    """What is far below the largest has a rounded difference, which its exponential has as a share."""
    axes = axes_of(desc, x)
    less = x - x.max(axes, keepdims=True)
    power = np.exp(less)
    found = power / power.sum(axes, keepdims=True)
    return [(found, found * (8 + np.abs(less)) + 2.0**-120)]


def log_softmax(desc: Any, x: Array) -> list[Answer]:
    axes = axes_of(desc, x)
    less = x - x.max(axes, keepdims=True)
    return [(less - np.log(np.exp(less).sum(axes, keepdims=True)), 8 + 2 * np.abs(less))]


def hardmax(desc: Any, x: Array) -> list[Answer]:
    axes = axes_of(desc, x)
    rows = row_major(x, axes)
    found = (np.arange(rows.shape[-1]) == np.argmax(rows, -1)[..., None]).astype(np.float64)
    kept = [k for k in range(x.ndim) if k not in axes]
    order = [*kept, *sorted(axes)]
    return [(found.reshape([x.shape[k] for k in order]).transpose(np.argsort(order)), 0)]


def normalised(desc: Any, x: Array, scale: Any, bias: Any, axes: Any, *, mean: bool, variance: bool) -> list[Answer]:
    centred = x - x.mean(axes, keepdims=True) if mean else x
    found = centred
    if variance:
        found = centred / np.sqrt((centred * centred).mean(axes, keepdims=True) + desc.epsilon)
    scaled = found if scale is None else found * scale
    moved = scaled if bias is None else scaled + bias
    return [(activate(moved, desc), 8 * (np.abs(scaled) + np.abs(moved)))]


def mean_variance(desc: Any, x: Array, scale: Any, bias: Any) -> list[Answer]:
    axes = (1, 2, 3) if desc.cross_channel else (2, 3)
    return normalised(desc, x, scale, bias, axes, mean=True, variance=desc.normalize_variance)


def mean_variance1(desc: Any, x: Array, scale: Any, bias: Any) -> list[Answer]:
    return normalised(desc, x, scale, bias, tuple(desc.axes), mean=True, variance=desc.normalize_variance)


def mean_variance2(desc: Any, x: Array, scale: Any, bias: Any) -> list[Answer]:
    return normalised(desc, x, scale, bias, tuple(desc.axes), mean=desc.use_mean, variance=desc.use_variance)


def lp(desc: Any, x: Array) -> list[Answer]:
    norm = np.linalg.norm(x, desc.p, desc.axis, keepdims=True)
    found = x / np.maximum(norm, desc.epsilon)
    return [(found, 4 * np.abs(found))]


def batch(desc: Any, x: Array, mean: Array, variance: Array, scale: Array, bias: Array) -> list[Answer]:
    factor = scale / np.sqrt(variance + desc.epsilon)
    moved = (x - mean) * factor + bias
    return [(activate(moved, desc), 8 * (np.abs((x - mean) * factor) + np.abs(bias)))]


def small_axes(small: Array) -> tuple[int, ...]:
    return tuple(k for k, size in enumerate(small.shape) if size == 1)


def batch_training(desc: Any, x: Array, scale: Array, bias: Array, added: Any) -> list[Answer]:
    axes = small_axes(scale)
    mean = x.mean(axes, keepdims=True)
    variance = ((x - mean) ** 2).mean(axes, keepdims=True)
    scaled = (x - mean) / np.sqrt(variance + desc.epsilon) * scale
    moved = scaled + bias + (0 if added is None else added)
    slack = np.abs(scaled) + np.abs(bias) + (0 if added is None else np.abs(added))
    return [(activate(moved, desc), 8 * slack), (mean, 1e-6 * np.abs(x).max()), (variance, 1e-6 * variance)]


def sums(desc: Any, x: Array, dy: Array, mean: Array, variance: Array) -> list[Answer]:
    axes = small_axes(mean)
    terms = dy * (x - mean) / np.sqrt(variance + desc.epsilon)
    found = [each.sum(axes, keepdims=True) for each in (terms, np.broadcast_to(dy, x.shape))]
    return [(one, 1e-6 * np.abs(each).sum()) for one, each in zip(found, (terms, dy), strict=True)]


def batch_grad(desc: Any, x: Array, dy: Array, mean: Array, variance: Array, scale: Array) -> list[Answer]:
    found = dy * scale / np.sqrt(variance + desc.epsilon)
    return [(found, 8 * np.abs(found)), *sums(desc, x, dy, mean, variance)]


def batch_training_grad(desc: Any, x: Array, dy: Array, mean: Array, variance: Array, scale: Array) -> list[Answer]:
    axes = small_axes(mean)
    centred, factor = x - x.mean(axes, keepdims=True), scale / np.sqrt(variance + desc.epsilon)
    part = centred * (dy * centred).mean(axes, keepdims=True) / (variance + desc.epsilon)
    level = dy.mean(axes, keepdims=True)
    slack = (np.abs(dy) + np.abs(level) + np.abs(part)) * np.abs(factor)
    return [(factor * (dy - level - part), 8 * slack), *sums(desc, x, dy, mean, variance)]


def region_sums(desc: Any, x: Array, *, back: bool = False) -> Array:
    """The sum of each element's region, or of the elements whose regions it is in."""
    before = (desc.local_size - 1) // 2
    reach = (before, desc.local_size - 1 - before)[:: -1 if back else 1]
    for axis in (1,) if desc.cross_channel else (2, 3):
        size = x.shape[axis]
        parts = [
            np.take(x, range(max(k - reach[0], 0), min(k + reach[1], size - 1) + 1), axis).sum(axis)
            for k in range(size)
        ]
        x = np.stack(parts, axis)
    return x


def local_response(desc: Any, x: Array) -> list[Answer]:
    base = desc.bias + desc.alpha / desc.local_size * region_sums(desc, x * x)
    found = x / base**desc.beta
    return [(found, 16 * np.abs(found))]


def local_response_grad(desc: Any, x: Array, dy: Array) -> list[Answer]:
    factor = desc.alpha / desc.local_size
    base = desc.bias + factor * region_sums(desc, x * x)
    part = dy * x * base ** (-desc.beta - 1)
    first, second = dy * base**-desc.beta, 2 * factor * desc.beta * x * region_sums(desc, part, back=True)
    slack = np.abs(first) + np.abs(2 * factor * desc.beta * x) * region_sums(desc, np.abs(part), back=True)
    return [(first - second, 16 * slack)]


ORACLE: dict[str, Callable[..., list[Answer]]] = {
    "REDUCE": reduce,
    "ARGMAX": arg,
    "ARGMIN": arg,
    **dict.fromkeys(("ACTIVATION_SOFTMAX", "ACTIVATION_SOFTMAX1"), softmax),
    **dict.fromkeys(("ACTIVATION_LOG_SOFTMAX", "ACTIVATION_LOG_SOFTMAX1"), log_softmax),
    **dict.fromkeys(("ACTIVATION_HARDMAX", "ACTIVATION_HARDMAX1"), hardmax),
    "MEAN_VARIANCE_NORMALIZATION": mean_variance,
    "MEAN_VARIANCE_NORMALIZATION1": mean_variance1,
    "MEAN_VARIANCE_NORMALIZATION2": mean_variance2,
    "LP_NORMALIZATION": lp,
    "BATCH_NORMALIZATION": batch,
    "BATCH_NORMALIZATION_TRAINING": batch_training,
    "BATCH_NORMALIZATION_GRAD": batch_grad,
    "BATCH_NORMALIZATION_TRAINING_GRAD": batch_training_grad,
    "LOCAL_RESPONSE_NORMALIZATION": local_response,
    "LOCAL_RESPONSE_NORMALIZATION_GRAD": local_response_grad,
}
