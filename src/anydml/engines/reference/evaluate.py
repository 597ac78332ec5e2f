"""Expressions in NumPy: operations in the type of each node, functions in float64, rounded to it once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.enums import DataType
from anydml.ir.expressions import number_of
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.ir.expressions import Expr

Array = np.ndarray[Any, Any]
AT_ONCE = 2**28
"""Elements that are folded in one call of NumPy's: a fraction of a second."""


def evaluate(
    value: Expr,
    sources: Sequence[Array],
    shape: tuple[int, ...],
    depth: int = 0,
    known: Mapping[Expr, Array] | None = None,
) -> Array:
    """The values of an expression at every coordinate of a shape, whose last `depth` dimensions are folded.

    What is known is not computed. The result has the shape, or sizes that it is repeated along for.
    """
    found: dict[Expr, Any] = dict(known or {})
    unrounded: dict[Expr, Array] = {}
    fetches = any(node.op == "fetch" for node in walk(value, known=found))
    with np.errstate(all="ignore"):
        for node in walk(value, known=found):
            args = [found[arg] for arg in node.args]
            if node.op == "load":
                found[node] = sources[int(node.value)]
                if fetches:  # read once: another thread may write to indices
                    found[node] = _once(found[node])
            elif node.op == "fetch":
                source = sources[int(node.value)]
                found[node] = source.view(f"u{source.itemsize}")[tuple(args)].view(source.dtype)
            elif node.op == "coordinate":
                found[node] = _coordinate(int(node.value), shape)
            elif node.op in ("const", "given"):
                found[node] = number_of(node)
            elif node.op in ("cast", "bits"):
                assert node.type is not None  # noqa: S101 - for type checkers: both give numbers
                number = args[0]
                if node.type is DataType.FLOAT16:  # a function's result is rounded to it at once
                    number = unrounded.get(node.args[0], number)
                found[node] = (convert if node.op == "cast" else np.ndarray.view)(number, node.type.dtype)
            elif node.op in _FUNCTIONS:
                wide = [np.asarray(arg, np.float64) for arg in args]
                unrounded[node] = np.asarray(_FUNCTIONS[node.op](*wide))
                found[node] = unrounded[node].astype(DataType.FLOAT32.dtype)
            elif node.op in _FOLDS:
                found[node] = _fold(node, np.broadcast_to(args[0], shape), depth)
            else:
                found[node] = np.asarray(_OPERATIONS[node.op](*args))
    return np.asarray(found[value])


def _once(array: Array) -> Array:
    """A copy of an array, with one element where it repeats that along a dimension."""
    return np.array(array[tuple(slice(None if stride else 1) for stride in array.strides)])


def _fold(node: Expr, numbers: Array, depth: int) -> Array:
    """Sums and products of floats in float64, rounded once. Ctrl-C is looked for between parts of what is much."""
    assert node.type is not None  # noqa: S101 - for type checkers: truths are not folded
    along = max(range(numbers.ndim - depth), key=lambda k: numbers.shape[k], default=0)
    if numbers.size > AT_ONCE and numbers.ndim > depth and numbers.shape[along] > 1:
        count = min(-(-numbers.size // AT_ONCE), numbers.shape[along])
        parts = np.array_split(numbers, count, along)
        return np.concatenate([_fold(node, part, depth) for part in parts], along)
    axes = tuple(range(numbers.ndim - depth, numbers.ndim))
    kind = {"dtype": np.float64 if node.type.is_float else node.type.dtype} if node.op in _WIDE_FOLDS else {}
    return np.asarray(_FOLDS[node.op](numbers, axis=axes, keepdims=True, **kind)).astype(node.type.dtype)


def _coordinate(dimension: int, shape: tuple[int, ...]) -> Array:
    size = shape[dimension]
    return np.arange(size).reshape([size if k == dimension else 1 for k in range(len(shape))])


def convert(numbers: Array, dtype: np.dtype[Any]) -> Array:
    """Numbers of another type: see `Map`."""
    if numbers.dtype.kind == "f" and dtype.kind != "f":
        numbers = _whole(numbers, dtype)
    return numbers.astype(dtype)


def _whole(numbers: Array, dtype: np.dtype[Any]) -> Array:
    """Floats without their fractions as integers, those outside the range as the end that is nearer; NaN is 0."""
    limits = np.iinfo(dtype)
    wide = numbers.astype(np.float64)
    # 2^63 - 1 and 2^64 - 1 are no float64: what reaches the power of two above them is outside.
    low, high = wide <= float(limits.min), wide >= float(limits.max)
    inside = np.where(low | high | np.isnan(wide), 0.0, wide).astype(dtype)
    return np.where(low, limits.min, np.where(high, limits.max, inside)).astype(dtype)


def _divide(a: Array, b: Array) -> Array:
    """Integers are cut toward 0, which NumPy rounds down."""
    if a.dtype.kind == "f":
        return np.asarray(np.true_divide(a, b))
    return np.asarray(np.floor_divide(a - np.fmod(a, b), b))


def _fma(a: Array, b: Array, c: Array) -> Array:
    """Rounded once: a product of two float32 is a float64, of which the sum with the third is rounded to odd."""
    if a.dtype != np.float32:
        raise NotImplementedError(f"fma of {a.dtype}")
    product, c = np.broadcast_arrays(a.astype(np.float64) * b, c.astype(np.float64))
    total = product + c
    part = total - product
    error = (product - (total - part)) + (c - part)
    bits = np.asarray(total, order="C").view(np.int64)
    toward = np.where((error > 0) == (total > 0), 1, -1)
    inexact = (error != 0) & np.isfinite(total) & (bits & 1 == 0)
    return np.where(inexact, bits + toward, bits).view(np.float64).astype(np.float32)


def _power(x: Array, y: Array) -> Array:
    """As C's: NumPy takes a root for an exponent of 0.5 that is a number, and the roots of -0.0 and -inf are others."""
    x = np.where((y == 0.5) & ((x == 0) | np.isneginf(x)), np.abs(x), x)
    return np.asarray(np.power(x, y))


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": _divide, "rem": np.fmod, "fma": _fma,
    "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint,
    "lt": np.less, "le": np.less_equal, "eq": np.equal, "where": np.where,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert,
    "shl": np.left_shift, "shr": np.right_shift,
}  # fmt: skip
_FOLDS: dict[str, Callable[..., Any]] = {
    "fold_sum": np.sum, "fold_product": np.prod, "fold_max": np.max, "fold_min": np.min,
}  # fmt: skip
_WIDE_FOLDS = {"fold_sum", "fold_product"}
_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p,
    "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erf": _erf, "pow": _power, "fmod": np.fmod,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "softplus": lambda x: np.logaddexp(0, x),
    "gelu": lambda x: np.where(np.isneginf(x), -0.0, x * _erfc(-x / math.sqrt(2)) / 2),
}  # fmt: skip
