"""CAST between all pairs of types, and scaled copies, on the numbers at which conversions go wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import anydml as dml
import moving_oracle
from agreement import Array, assert_same, bits
from anydml import DataType
from anydml.core.enums import NUMPY_TYPES
from drawing import hard_values, special_values
from places import get, put

pytestmark = [pytest.mark.judges("CAST"), pytest.mark.sampled(4)]


def numbers_of(data_type: DataType) -> Array:
    """Ends of ranges, ties, zeros, infinities and NaN, of either sign, quiet and signalling."""
    found = [special_values(data_type), hard_values(data_type)]
    if data_type.is_float:
        infinity = bits(np.array([np.inf], data_type.dtype))
        sign = infinity.dtype.type(1) << infinity.dtype.type(8 * infinity.itemsize - 1)
        payloads = np.array([1, 2, 77], infinity.dtype)
        found += [(infinity | payloads).view(data_type.dtype), (infinity | payloads | sign).view(data_type.dtype)]
    return np.concatenate(found)


def cast_by_oracle(x: Array, result_type: DataType) -> Array:
    found = [moving_oracle.converted(number, result_type.name) for number in x.tolist()]
    return np.array(found, result_type.dtype)


@pytest.mark.parametrize("data_type", NUMPY_TYPES, ids=lambda t: t.name)
def test_a_type_becomes_every_other(data_type: DataType, engine: str) -> None:
    device, x = dml.Device(engine), numbers_of(data_type)
    there = put(x, device)
    for result_type in NUMPY_TYPES:
        got = get(dml.cast(there, result_type, device=device))
        assert got.dtype == result_type.dtype
        if result_type is data_type:
            np.testing.assert_array_equal(bits(got), bits(x))
        else:
            assert_same(got, cast_by_oracle(x, result_type), (data_type, result_type))


@pytest.mark.parametrize("pair", [(1.0, 0.0), (0.1, -0.7), (-1.0, 2.0**40), (0.0, -0.0)], ids=str)
def test_every_type_is_scaled(pair: tuple[float, float], engine: str) -> None:
    device = dml.Device(engine)
    for data_type in NUMPY_TYPES:
        x = numbers_of(data_type)
        numbers = dict(enumerate(x.tolist()))
        found = moving_oracle.scaled({(n,): number for n, number in numbers.items()}, *pair, data_type.name)
        got = get(dml.identity(put(x, device), pair, device=device))
        assert_same(got, np.array([found[(n,)] for n in numbers], data_type.dtype), data_type)


@pytest.mark.parametrize(
    ("x", "result_type", "wanted"),
    [
        (np.array([1.9, -1.9, 300, -300, math.nan], "float32"), "int8", [1, -1, 127, -128, 0]),
        (np.array([math.inf, -math.inf, 2e9, 3e9], "float32"), "int32", [2**31 - 1, -(2**31), 2 * 10**9, 2**31 - 1]),
        (np.array([2.0**63, 2.0**64, -1.0, math.nan]), "uint64", [2**63, 2**64 - 1, 0, 0]),
        (np.array([2.0**63, -(2.0**63), 2.0**62]), "int64", [2**63 - 1, -(2**63), 2**62]),
        (np.array([300, -1, 127], "int16"), "uint8", [44, 255, 127]),
        (np.array([2**63, 2**64 - 1], "uint64"), "int64", [-(2**63), -1]),
        (np.array([2**24 + 1, 2**54 + 2**30 + 1], "int64"), "float32", [2**24, 2**54 + 2**31]),
        (np.array([2**53 + 1, 2**64 - 1], "uint64"), "float64", [2**53, 2**64]),
        (np.array([65519, 65520, 2**31], "uint32"), "float16", [65504, math.inf, math.inf]),
        (np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, 2.0**-25]), "float16", [1, 1 + 2.0**-9, 0]),
    ],
)  # fmt: skip
def test_what_becomes_of_a_number(x: Array, result_type: str, wanted: list[Any], engine: str) -> None:
    """By hand, beside the oracle."""
    got = get(dml.cast(put(x, engine), result_type, device=engine))
    np.testing.assert_array_equal(got, np.array(wanted, result_type))


def test_the_sign_of_zero_and_the_bits_of_nan(engine: str) -> None:
    pattern = np.array([0x7FA12345, 0xFFC00001, 0x80000000, 0x00000001], "uint32")
    there = put(pattern.view("float32"), engine)
    for copied in (dml.identity(there, device=engine), dml.cast(there, "float32", device=engine)):
        assert get(copied).view("uint32").tolist() == pattern.tolist()
    zeros = get(dml.cast(put(np.array([-0.0, 0.0], "float32"), engine), "float64", device=engine))
    assert np.signbit(zeros).tolist() == [True, False]
    bias = get(dml.identity(put(np.array([-0.0, 0.0], "float32"), engine), (1.0, 0.0), device=engine))
    assert np.signbit(bias).tolist() == [True, False]  # nothing is added
