"""Random expressions, typed, whose bits every engine agrees on; and the numbers to try them on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st

from anydml.enums import DataType
from anydml.ir import expressions as ex

if TYPE_CHECKING:
    from anydml.ir.expressions import Expr

Array = np.ndarray[Any, Any]
TYPES = list(DataType)
INTEGERS = [t for t in TYPES if not t.is_float]
WIDE_FLOATS = [DataType.FLOAT32, DataType.FLOAT64]
ROUNDINGS = [ex.floor, ex.ceil, ex.trunc, ex.rint]
LEAF_DEPTH = 4


def numbers(shape: Any, data_type: DataType, seed: int = 0) -> Array:
    """Anything that a type holds: random bits, small numbers, and the ends of every range."""
    rng = np.random.default_rng(seed)
    width = data_type.size_in_bytes
    count = int(np.prod(shape))
    random = np.frombuffer(rng.bytes(count * width), data_type.dtype)
    small = rng.integers(-9, 10, count) / (4 if data_type.is_float else 1)
    with np.errstate(all="ignore"):
        near = small.astype(data_type.dtype)
        ends = np.array(
            [s * 2.0**k + d for k in (7, 8, 15, 16, 31, 32, 63, 64) for s in (-1, 1) for d in (-1, -0.5, 0)]
        )
        odd = np.concatenate([ends, [np.nan, np.inf, -np.inf, -0.0, 0.5, 1.5, 2.5, 65519, 65520, 1e-45, 1e-8]])
        odd = odd if data_type.is_float else np.nan_to_num(odd)
        special = np.clip(odd, *_range(data_type)).astype(data_type.dtype)
    return np.choose(rng.integers(0, 3, count), [random, near, rng.choice(special, count)]).reshape(shape)


def _range(data_type: DataType) -> tuple[float, float]:
    if data_type.is_float:
        return -np.inf, np.inf
    limits = np.iinfo(data_type.dtype)
    return float(limits.min), float(np.nextafter(float(limits.max), 0)) if limits.bits == 64 else float(limits.max)


def plain_bits(x: Expr, data_type: DataType) -> Expr:
    """The bits of a number; every NaN has the same."""
    if x.type is not None and x.type.is_float:
        x = ex.where(x.is_nan, ex.const(1, x.type), x)
    return x.bits(data_type)


def divisor(x: Expr) -> Expr:
    """A number that may divide."""
    wrong = x.equals(0)
    if x.type is not None and x.type.is_signed:
        wrong = wrong | x.equals(-1)
    return ex.where(wrong, ex.const(3, x.type), x)


def shift(x: Expr) -> Expr:
    """A number that may be shifted by."""
    assert x.type is not None
    return x & (x.type.size_in_bytes * 8 - 1)


def operations(a: Expr, b: Expr, c: Expr) -> list[Expr]:
    """Every operation of three numbers of a type that gives one of it, and every test as a number."""
    data_type = a.type
    assert data_type is not None
    tests = [a < b, a <= b, a.equals(b), (a < b) & (b < c), (a < b) | ~(b < c), (a < b) ^ (a < c)]
    found = [test.to(data_type) for test in tests]
    found += [-a, ex.absolute(a), ex.where(a < b, a, c), ex.maximum(a, b), ex.minimum(a, b)]
    if data_type is DataType.FLOAT16:
        return found
    found += [a + b, a - b, a * b]
    if data_type.is_float:
        found += [a / b, ex.sqrt(a), *(rounding(a) for rounding in ROUNDINGS)]
        found += [ex.fma(a, b, c)] if data_type is DataType.FLOAT32 else []
        return found
    found += [a / divisor(b), a % divisor(b), a & b, a | b, a ^ b, ~a]
    return [*found, a << shift(b), a >> shift(b), a / 7, a % 10]


@st.composite
def trees(draw: st.DrawFn, slots: list[DataType], data_type: DataType, rank: int, depth: int = LEAF_DEPTH) -> Expr:
    """A tree that gives a type, over sources of types."""
    leaves = [ex.load(i, t) for i, t in enumerate(slots)]
    kind = draw(
        st.sampled_from(["load", "load", "number"] if depth == 0 else ["op", "op", "op", "cast", "bits", "load"])
    )
    if kind == "op":
        a, b, c = (
            draw(trees(slots, data_type, rank, depth - 1 - i)) if depth > i else leaf_of(draw, leaves, data_type)
            for i in range(3)
        )
        return draw(st.sampled_from(operations(a, b, c)))
    if kind == "number":
        number = draw(st.integers(0, 100))
        return draw(st.sampled_from([ex.const, ex.given]))(number, data_type)
    if kind == "cast":
        return draw(trees(slots, draw(st.sampled_from(TYPES)), rank, depth - 1)).to(data_type)
    if kind == "bits":
        alike = [t for t in TYPES if t.size_in_bytes == data_type.size_in_bytes]
        return plain_bits(draw(trees(slots, draw(st.sampled_from(alike)), rank, depth - 1)), data_type)
    if rank and draw(st.integers(0, 5)) == 0:
        return ex.coordinate(draw(st.integers(0, rank - 1))).to(data_type)
    return leaf_of(draw, leaves, data_type)


def leaf_of(draw: st.DrawFn, leaves: list[Expr], data_type: DataType) -> Expr:
    """A source's number as one of a type."""
    return draw(st.sampled_from(leaves)).to(data_type)


@st.composite
def layouts(draw: st.DrawFn, shape: tuple[int, ...], data_type: DataType, is_target: bool) -> tuple[Array, Array]:
    """An array of a shape, and what it lies in: turned, cut out of a larger one, or for a source repeated."""
    rank = len(shape)
    order = draw(st.permutations(range(rank))) if draw(st.booleans()) else range(rank)
    steps = [draw(st.sampled_from([1, 1, 1, 2, 3, -1])) for _ in shape]
    repeated = [not is_target and draw(st.integers(0, 4)) == 0 for _ in shape]
    room = [1 if r else n * abs(s) + draw(st.integers(0, 1)) for n, s, r in zip(shape, steps, repeated, strict=True)]
    whole = numbers([room[k] for k in order], data_type, draw(st.integers(0, 99)))
    whole = whole.transpose(np.argsort(order)) if rank else whole
    cut = whole[(..., *(slice(None, None, s) for s in steps))]
    cut = cut[(..., *(slice(0, 1 if r else n) for n, r in zip(shape, repeated, strict=True)))]
    return np.broadcast_to(cut, shape) if not is_target else cut, whole
