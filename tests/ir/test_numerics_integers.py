"""Integer arithmetic as trees, against Python's integers."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from anydml.core.enums import NUMPY_TYPES, DataType
from anydml.engines.reference.evaluate import evaluate
from anydml.ir import numerics
from anydml.ir.expressions import OPERATIONS, load
from anydml.ir.trees import walk

WHOLE = [type for type in NUMPY_TYPES if not type.is_float]


def interesting(type: DataType) -> list[int]:
    limits = np.iinfo(type.dtype)
    width = 8 * type.size_in_bytes
    near = {0, 1, 2, 3, 4, 5, 6, 7, 10, 11, width - 1, width, width + 1, 127, limits.max, limits.max - 1}
    near |= {limits.max // 3, limits.max // 2, limits.max // 2 + 1, limits.min, limits.min + 1}
    return sorted(n for k in near for n in {k, -k} if limits.min <= n <= limits.max)


def wrap(number: int, type: DataType) -> int:
    width = 8 * type.size_in_bytes
    number &= (1 << width) - 1
    return number - (1 << width) if type.is_signed and number >> (width - 1) else number


def quotient(a: int, b: int) -> int:
    return 0 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


def power(x: int, y: int, type: DataType) -> int:
    if y >= 0:
        return pow(x, y, 1 << 8 * type.size_in_bytes)
    return {1: 1, -1: 1 if y % 2 == 0 else -1}.get(x, 0)


def expected(name: str, a: int, b: int, type: DataType) -> int:
    width = 8 * type.size_in_bytes
    shift = b if 0 <= b < width else None
    return {
        "divide": lambda: quotient(a, b),
        "modulus_truncate": lambda: a - b * quotient(a, b) if b else 0,
        "modulus_floor": lambda: a % b if b else 0,
        "shift_left": lambda: 0 if shift is None else a << shift,
        "shift_right": lambda: a >> (width if shift is None else shift),
        "integer_power": lambda: power(a, b, type),
        "mean": lambda: quotient(a + b, 2),
    }[name]()


@pytest.mark.parametrize("type", WHOLE, ids=lambda type: type.name)
def test_integers_are_pythons(type: DataType) -> None:
    rng = np.random.default_rng(type)
    limits = np.iinfo(type.dtype)
    some = [int(n) for n in rng.integers(limits.min, limits.max, 12, type.dtype, endpoint=True)]
    pairs = [(left, right) for left in interesting(type) + some for right in interesting(type) + some]
    a, b = (np.array(column, type.dtype) for column in zip(*pairs, strict=True))
    for name in ("divide", "modulus_truncate", "modulus_floor", "shift_left", "shift_right", "integer_power", "mean"):
        tree = getattr(numerics, name)(load(0, type), load(1, type))
        assert tree.type is type
        check_operands(tree, [a, b])
        wanted = [wrap(expected(name, left, right, type), type) for left, right in pairs]
        np.testing.assert_array_equal(evaluate(tree, [a, b], a.shape), np.array(wanted, type.dtype), name)
    count = numerics.bit_count(load(0, type))
    wanted = [(n & ((1 << 8 * type.size_in_bytes) - 1)).bit_count() for n in a.tolist()]
    np.testing.assert_array_equal(evaluate(count, [a], a.shape), wanted)
    np.testing.assert_array_equal(evaluate(numerics.sign(load(0, type)), [a], a.shape), np.sign(a))


def check_operands(tree: Any, sources: list[Any]) -> None:
    """No division by 0 or -1, and no shift of the width or more, even where the result is not chosen."""
    for node in walk(tree):
        assert node.op in OPERATIONS or not node.args
        if node.op in ("div", "rem", "shl", "shr"):
            right = np.asarray(evaluate(node.args[1], sources, sources[0].shape))
            width = 8 * right.dtype.itemsize
            bad = (0, -1) if node.op in ("div", "rem") else range(width, 2 * width)
            assert not np.isin(right, np.array([n for n in bad if n >= np.iinfo(right.dtype).min])).any(), node.op


def test_powers_of_another_type() -> None:
    bases, exponents = np.arange(-20, 20, dtype=np.int8), np.arange(-70, 70, dtype=np.int64)
    x, y = (array.reshape(-1) for array in np.meshgrid(bases, exponents))
    tree = numerics.integer_power(load(0, DataType.INT8), load(1, DataType.INT64))
    wanted = [wrap(power(a, b, DataType.INT8), DataType.INT8) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    np.testing.assert_array_equal(evaluate(tree, [x, y], x.shape), wanted)


def test_floats_are_rounded_and_divided() -> None:
    type = DataType.FLOAT32
    values = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 8388607.5, 1e30, math.inf, -math.inf, math.nan, -1, 3]
    a, b = (np.array(column, np.float32) for column in zip(*itertools.product(values, repeat=2), strict=True))
    x, y = load(0, type), load(1, type)

    def same(tree: Any, wanted: Any) -> None:
        found = evaluate(tree, [a, b], a.shape)
        np.testing.assert_array_equal(found, wanted)
        keep = ~np.isnan(found)
        np.testing.assert_array_equal(np.signbit(found[keep]), np.signbit(np.asarray(wanted)[keep]))

    with np.errstate(all="ignore"):
        same(numerics.round_half_away(x), np.copysign(np.floor(np.abs(a.astype(np.float64)) + 0.5), a))
        same(numerics.sign(x), np.sign(a))
        same(numerics.divide(x, y), a / b)
        same(numerics.modulus_truncate(x, y), np.fmod(a, b))
        same(numerics.modulus_floor(x, y), np.mod(a, b))
        same(numerics.mean(x, y), (a + b) / 2)
