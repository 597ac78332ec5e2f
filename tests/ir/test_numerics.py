"""Functions as trees: within the units in the last place that they declare, and the nearest in FLOAT16."""

from __future__ import annotations

import itertools
import math
from decimal import localcontext
from typing import Any

import numpy as np
import pytest

from anydml.core.enums import NUMPY_TYPES, DataType
from anydml.engines.reference.evaluate import evaluate
from anydml.ir import numerics
from anydml.ir.expressions import FUNCTIONS, LEAVES, OPERATIONS, call, load
from anydml.ir.numerics import ULPS, expand
from anydml.ir.numerics.parts import coefficients, half_numbers, split, words
from anydml.ir.trees import walk
from scripts import fit_halves, fit_numerics
from scripts.measure_numerics import errors, exact, halves, run, samples

FLOAT32 = DataType.FLOAT32


@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_are_those_declared(name: str) -> None:
    args = samples(name, 20_000)
    found, wanted = run(name, *args), exact(name, *args)
    error = errors(found, wanted)
    worst = int(error.argmax())
    assert error[worst] <= ULPS[name], ([arg[worst] for arg in args], found[worst], wanted[worst])
    assert ULPS[name] <= 2


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float16_is_the_nearest(name: str) -> None:
    bad = halves(name)
    # All of one argument. Of 2^32 pairs some lie nearer to the middle of two FLOAT16 than the digits that are kept.
    assert bad.shape[1] <= (0 if FUNCTIONS[name] == 1 else 2), bad


@pytest.mark.parametrize("name", FUNCTIONS)
def test_trees_are_of_operations_and_never_undefined(name: str) -> None:
    tree = expand(call(name, *(load(k, FLOAT32) for k in range(FUNCTIONS[name]))))
    args = samples(name, 2_000)
    for node in walk(tree):
        assert node.op in OPERATIONS or node.op in LEAVES
        assert node.type is not DataType.FLOAT64  # slow on most GPUs
        if node.op in ("shl", "shr"):
            amount = np.asarray(evaluate(node.args[1], args, args[0].shape)).astype(np.int64)
            assert ((amount >= 0) & (amount < 8 * node.type.size_in_bytes)).all() if node.type else False
        assert not (node.op in ("div", "rem") and node.type is not FLOAT32)


def test_what_is_around_a_function_stays() -> None:
    x = load(0, FLOAT32)
    tree = expand(call("exp", call("log", x) * 2.0) + x)
    values = np.array([0.5, 1, 3, 10], np.float32)
    np.testing.assert_allclose(evaluate(tree, [values], (4,)), values * values + values, rtol=1e-6)
    assert expand(x + 1.0) is x + 1.0


def test_halves_are_computed_from_floats_where_something_lies_between() -> None:
    x = load(0, DataType.FLOAT16)
    doubled = expand((call("exp", x.to(FLOAT32)) * 2.0).to(DataType.FLOAT16))
    plain = expand(call("exp", x.to(FLOAT32)).to(DataType.FLOAT16))
    values = np.linspace(-5, 5, 101).astype(np.float16)
    np.testing.assert_allclose(evaluate(doubled, [values], (101,)), 2 * evaluate(plain, [values], (101,)), rtol=1e-3)


def test_large_angles_are_reduced_exactly() -> None:
    # Integers modulo 2π, of which 110 digits are 365 bits: 2^127 leaves 238 behind the point.
    bits = 365
    with localcontext(prec=120):
        turn = int(2 * fit_numerics.PI * 2**bits)
    x = np.array([2.0**k * m for k in range(24, 127, 3) for m in (1, 1.25, 1.9999999)], np.float32)
    wanted = np.array([math.sin(((int(v) << bits) % turn) / 2**bits) for v in x.tolist()])
    assert errors(run("sin", x), wanted).max() <= ULPS["sin"]


@pytest.mark.parametrize("name", ["exp", "log2_erfc", "log2"])
def test_coefficients_are_those_that_the_script_derives(name: str) -> None:
    found, error = fit_numerics.fit(fit_numerics.JOBS[name])
    assert found == coefficients(name)
    assert error < 2.0**-28


def test_numbers_for_float16_are_those_that_the_script_derives() -> None:
    assert fit_halves.search("exp")[0] == half_numbers("exp")
    assert fit_halves.ties("tan") == [tuple(pair) for pair in half_numbers("tan")]


def test_constants_are_those_that_the_script_derives() -> None:
    assert all(split(name) == parts for name, parts in fit_numerics.constants().items())
    assert words() == fit_numerics.words(7, zeros=9)


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
