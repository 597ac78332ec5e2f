"""Functions as trees: within the units in the last place that they declare, and the nearest in FLOAT16."""

from __future__ import annotations

import math
from decimal import localcontext

import numpy as np
import pytest

from anydml.core.enums import DataType
from anydml.engines.reference.evaluate import evaluate
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
