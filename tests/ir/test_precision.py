"""How exact running sums and products are."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest

import anydml as dml
from places import get, put

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.large
def test_a_float32_sum_of_ten_million_is_within_one_unit_in_the_last_place(engine: str) -> None:
    x = np.random.default_rng(1).random(10_000_000, dtype="float32")
    result = get(dml.cumulative_summation(put(x, engine), 0, device=engine))
    exact = np.cumsum(x, dtype="float64")
    assert np.max(np.abs(result - exact) / np.spacing(result)) <= 1
    # NumPy's own float32 sum is far off, so the test can tell.
    assert np.max(np.abs(np.cumsum(x) - exact) / np.spacing(result)) > 100


@pytest.mark.large
def test_a_float16_sum_is_the_exact_sum_rounded_once(engine: str) -> None:
    x = np.random.default_rng(2).normal(0, 100, 4000).astype("float16")
    result = get(dml.cumulative_summation(put(x, engine), 0, device=engine))
    exact = Fraction(0)
    for value, got in zip(x.tolist(), result.tolist(), strict=True):
        exact += Fraction(value)
        error = abs(Fraction(got) - exact)
        for neighbour in (np.nextafter(np.float16(got), np.float16(d)) for d in (-np.inf, np.inf)):
            assert error <= abs(Fraction(float(neighbour)) - exact)


def test_a_float16_sum_may_pass_the_largest_float16_and_come_back(engine: str) -> None:
    x = np.array([60000, 60000, -60000, -30000], "float16")
    result = get(dml.cumulative_summation(put(x, engine), 0, device=engine))
    np.testing.assert_array_equal(result, np.array([60000, np.inf, 60000, 30000], "float16"))


@pytest.mark.parametrize("name", ["int32", "int64", "uint32", "uint64", "uint16"])
@pytest.mark.parametrize(
    ("function", "combine"),
    [(dml.cumulative_summation, int.__add__), (dml.cumulative_product, int.__mul__)],
)
def test_integers_wrap(
    name: str, function: Callable[..., np.ndarray], combine: Callable[[int, int], int], engine: str
) -> None:
    if name == "uint16" and function is dml.cumulative_product:
        return  # not a type that the product takes
    info = np.iinfo(name)
    x = np.array([info.max, 3, info.min, info.max // 2, 7], name)
    tally, expected = x.tolist()[0], [x.tolist()[0]]
    for value in x.tolist()[1:]:
        tally = (combine(tally, value) - info.min) % (info.max - info.min + 1) + info.min
        expected.append(tally)
    np.testing.assert_array_equal(get(function(put(x, engine), 0, device=engine)), np.array(expected, name))


def test_special_values(engine: str) -> None:
    x = np.array([-0.0, np.inf, 1, -np.inf, 2], "float32")
    result = get(dml.cumulative_summation(put(x, engine), 0, device=engine))
    np.testing.assert_array_equal(result, np.array([-0.0, np.inf, np.inf, np.nan, np.nan], "float32"))
    assert np.signbit(result[0])  # a sum of one element is that element
    exclusive = get(dml.cumulative_summation(put(x, engine), 0, has_exclusive_sum=True, device=engine))
    assert not np.signbit(exclusive[0])


def test_a_copy_moves_every_bit(engine: str) -> None:
    """A signalling NaN and its payload survive a slice and a gather."""
    bits = np.array([0x7FA12345, 0xFFC00001, 0x80000000, 0x00000001], "uint32")
    x = bits.view("float32")
    there, indices = put(x, engine), put(np.array([[3], [2], [1], [0]]), engine)
    assert get(dml.slice(there, 0, 4, device=engine)).view("uint32").tolist() == bits.tolist()
    gathered = get(dml.gather_nd(there, indices, device=engine))
    assert gathered.view("uint32").tolist() == bits[::-1].tolist()
