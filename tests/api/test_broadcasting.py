"""Sizes that broadcast as NumPy's do; numbers, lists and booleans beside arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.api import calls

REFERENCE = dml.Device("reference")
MUCH: Any = "much"
X = np.array([[1.5, -2, 3], [-0.0, 5, 0.25]], "float32")


@pytest.fixture(autouse=True)
def on_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions run on the reference engine, where no device is given."""
    monkeypatch.setattr(calls, "device_named", lambda _name: REFERENCE)


BROADCASTS = [((2, 3), (3,)), ((3,), (2, 3)), ((2, 1), (1, 3)), ((1,), (2, 3)), ((), (2, 3)), ((2, 3), ()), ((), ()),
              ((4, 1, 3), (2, 1)), ((1, 1), (3,)), ((2, 1, 1, 3), (5, 1, 1))]  # fmt: skip


@pytest.mark.parametrize(("first", "second"), BROADCASTS)
def test_sizes_broadcast_as_numpys_do(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    rng = np.random.default_rng(7)
    a, b = rng.random(first, "float32"), rng.random(second, "float32")
    for function, ufunc in ((dml.add, np.add), (dml.subtract, np.subtract), (dml.logical_less_than, np.less)):
        wanted = np.asarray(ufunc(a, b))
        for _ in range(2):  # the second call is a known one
            result = function(a, b)
            np.testing.assert_array_equal(result, wanted)
            assert result.shape == wanted.shape
        out = np.empty(wanted.shape, result.dtype)
        np.testing.assert_array_equal(function(a, b, out=out), wanted)
    c = rng.integers(0, 2, second, "uint8")
    np.testing.assert_array_equal(dml.if_(c, a, 7), np.where(c, a, np.float32(7)))
    flipped = a[::-1] if a.ndim else a
    np.testing.assert_array_equal(dml.add(flipped, b.T.T), flipped + b)
    if not (a.ndim and b.ndim):
        return  # no input of a graph is without dimensions
    g = dml.Graph("reference")
    x, y = g.input(a), g.input(b)
    np.testing.assert_array_equal(g.compile(dml.subtract(x, y))(a, b), (a - b).reshape(g.compile(x - y).results[0][1]))


def test_numbers_take_the_type_beside_them() -> None:
    for dtype in ("float32", "float16", "int8", "uint64"):
        x = np.arange(3).astype(dtype)
        for number in (2, np.int64(2), np.uint8(2), True, np.array(2)):
            for _ in range(2):
                np.testing.assert_array_equal(dml.add(x, number), x + x.dtype.type(number), strict=True)
                np.testing.assert_array_equal(dml.subtract(number, x), (x.dtype.type(number) - x), strict=True)
    x = np.arange(3, dtype="float16")
    np.testing.assert_array_equal(dml.add(0.1, x), np.float16(0.1) + x, strict=True)
    # Known calls tell 0.0 from -0.0, 1 from 1.0 and from True, and one number from the next.
    with np.errstate(all="ignore"):
        for value in (0.0, -0.0, 1, 1.0, np.nan, np.nan, np.inf):
            np.testing.assert_array_equal(dml.divide(X, value), X / np.float32(value))
            product = dml.multiply(X, value)
            np.testing.assert_array_equal(
                np.signbit(product)[~np.isnan(product)], np.signbit(X * value)[~np.isnan(product)]
            )
    assert dml.add(2, 3).dtype == np.int64
    assert dml.add(2, 3.5).dtype == np.float32
    assert dml.linear(X, -0.0, 0.0)[0, 0] == 0
    np.testing.assert_array_equal(dml.pow(X, 2), X**2)


def test_lists_of_numbers_take_the_type_beside_them() -> None:
    for dtype in ("float32", "float16", "int8", "uint64"):
        x = np.arange(3).astype(dtype)
        for several in ([1, 2, 3], (True, False, True), [[1], [2]]):
            np.testing.assert_array_equal(dml.add(x, several), x + np.array(several, dtype), strict=True)
            np.testing.assert_array_equal(dml.subtract(several, x), np.array(several, dtype) - x, strict=True)
    half = np.ones(2, "float16")
    np.testing.assert_array_equal(dml.add(half, [0.1, np.inf]), half + np.array([0.1, np.inf], "float16"), strict=True)
    large = np.zeros(2, "uint64")
    np.testing.assert_array_equal(dml.max(large, [2**64 - 1, 1]), np.array([2**64 - 1, 1], "uint64"), strict=True)
    np.testing.assert_array_equal(dml.if_([True, False, True], X, [7, 8, 9]), np.where([1, 0, 1], X, X.dtype.type(8)))
    np.testing.assert_array_equal(dml.add([1, 2], [0.5, 1]), np.array([1.5, 3], "float32"), strict=True)
    np.testing.assert_array_equal(dml.add([1, 2], 0.5), np.array([1.5, 2.5], "float32"), strict=True)
    assert [dml.add([1], [2]).dtype, dml.sqrt([4]).dtype, dml.relu([4]).dtype] == [np.int64, np.float32, np.int32]


def test_an_array_without_dimensions_is_read_each_time() -> None:
    number = np.array(2.0)
    for value in (2.0, 3.0):
        number[...] = value
        np.testing.assert_array_equal(dml.add(X, number), X + np.float32(value), strict=True)


def test_booleans_are_uint8() -> None:
    mask = X > 1
    np.testing.assert_array_equal(dml.logical_not(mask), (~mask).view("uint8"), strict=True)
    np.testing.assert_array_equal(dml.if_(mask, X, 0), np.where(mask, X, np.float32(0)), strict=True)
    np.testing.assert_array_equal(dml.logical_and(mask, True), mask.view("uint8"), strict=True)
    for _ in range(2):  # of which the second is a known call
        np.testing.assert_array_equal(dml.nonzero_coordinates(mask)[1][: mask.sum()], np.argwhere(mask))
        np.testing.assert_array_equal(dml.slice(mask, [0, 0], [1, 3]), mask[:1].view("uint8"), strict=True)


def test_truths_go_into_an_array_of_booleans() -> None:
    out = np.zeros(X.shape, bool)
    for number in (2, 3, 3):  # of which the last is a known call
        assert dml.logical_less_than(X, number, out=out) is out
        np.testing.assert_array_equal(out, number > X, strict=True)
    np.testing.assert_array_equal(dml.logical_not(out, out=out), X >= 3, strict=True)
    was, bits = out.copy(), out.view("uint8")
    with pytest.raises(dml.DescriptionError, match="out must not be an array of booleans: results are not"):
        dml.add(bits, 1, out=out)
    with pytest.raises(dml.DescriptionError, match=r"OutputTensor\.DataType must be ATensor\.DataType, FLOAT32"):
        dml.add(X, 1, out=out)
    np.testing.assert_array_equal(out, was, strict=True)


def test_truths_are_of_a_type_that_the_level_has() -> None:
    old = dml.Device("reference", feature_level="1_0")
    assert dml.logical_less_than(X, 2, device=old).dtype == np.uint32
    assert dml.logical_less_than(X, 2).dtype == np.uint8
    assert dml.is_nan(X).dtype == np.uint8


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: dml.add(X, X.T),
            r"ATensor.Sizes and BTensor.Sizes must be equal or 1 in each dimension, counted from the last; got",
        ),
        (
            lambda: dml.if_(np.ones(4, bool), X, 0),
            r"ConditionTensor.Sizes and ATensor.Sizes must be equal .*\(4,\) and \(2, 3\)",
        ),
        (
            lambda: dml.add(np.arange(3), 2.0),
            r'BTensor must be a whole number for INT64, .* pass a\.astype\("float32"\)',
        ),
        (lambda: dml.add(2.5, np.arange(3)), r'ATensor must be a whole number.* pass b\.astype\("float32"\)'),
        (
            lambda: dml.add(np.arange(3, dtype="uint8"), 256),
            r"BTensor must lie in 0 \.\. 255 for UINT8, the type of ATensor",
        ),
        (lambda: dml.add(X, 1e300), "BTensor must be a number that fits FLOAT32, the type of ATensor"),
        (lambda: dml.add(X, 10**400), "BTensor must be a number that fits FLOAT"),
        (lambda: dml.add(X, X.astype("float64")), r'BTensor must be of .*; got FLOAT64; pass b\.astype\("float32"\)'),
        (
            lambda: dml.relu(X > 0),
            r'must be of .*; got booleans, which are read as UINT8; pass x\.astype\("float32"\): no feature level',
        ),
        (lambda: dml.relu(X.astype("float64")), r'InputTensor must be of .*; got FLOAT64; pass x\.astype\("float32"\)'),
        (lambda: dml.add(X, np.arange(3)), r'ATensor.DataType, FLOAT32; got INT64; pass b\.astype\("float32"\)'),
        (lambda: dml.add(X, [1, 2, 1e300]), r"BTensor must be a number that fits .* got 1e\+300"),
        (lambda: dml.add(np.arange(2, dtype="uint8"), [0, 256]), r"BTensor must lie in 0 \.\. 255 for .* got 256"),
        (lambda: dml.add(np.arange(2), [1, 2.5]), r'BTensor must be a whole number.* pass a\.astype\("float32"\)'),
        (lambda: dml.add([2**63], [1]), r"ATensor must lie in .* for INT64; got 9223372036854775808"),
        (lambda: dml.add(X, [1, [2]]), "BTensor could not be made an array"),
        (lambda: dml.elu(X, MUCH), "ACTIVATION_ELU: Alpha must be a number; got 'much'"),
        (lambda: dml.round(X, MUCH), "RoundingMode must be one of"),
        (lambda: dml.add(X, "text"), "BTensor must be an array"),
        (lambda: dml.add(X, X, out=np.empty((3, 3), "float32")), r"OutputTensor.Sizes must be \(2, 3\)"),
        (lambda: dml.value_scale_2d(X[None], 2, [1, 2, 3]), r"must be 3"),
        (lambda: dml.value_scale_2d(np.ones((1, 3, 2, 2, 1), "float32"), 2, [1, 2, 3]), "dimensions"),
        (lambda: dml.add1(X, X, fused_activation="ABS"), "FusedActivation"),
        (lambda: dml.add1(X, X, fused_activation="rellu"), r"did you mean RELU\?"),
    ],
)
def test_errors_name_the_field_and_the_way_out(call: Any, words: str) -> None:
    with pytest.raises(dml.DmlError, match=words):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda d: dml.greater(d, 0),
        lambda d: dml.greater(0.5, d),
        lambda d: dml.add(d, 1),
        lambda d: dml.maximum(d, 0),
        lambda d: dml.add(d, [1, 2, 3]),
    ],
)
def test_beside_an_array_of_a_wrong_type_a_number_breaks_no_rule(call: Any) -> None:
    with pytest.raises(dml.DescriptionError, match=r"must be of .*; got FLOAT64; pass") as error:
        call(X.astype("float64"))
    assert len(error.value.faults) == 1
