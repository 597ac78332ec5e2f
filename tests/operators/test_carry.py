"""Scans of blocks that hand a carry on: the bits of the scan of the whole, wherever its order is defined."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import anydml as dml
from agreement import assert_agrees, assert_same
from anydml.engines.cpu.move.scan import TILE
from anydml.runtime.chunked_scan import scan_with_carry
from cases import ENGINES
from places import get, put

pytestmark = [pytest.mark.judges("CUMULATIVE_SUMMATION", "CUMULATIVE_PRODUCT"), pytest.mark.sampled(5)]

Array = np.ndarray[Any, Any]
KINDS = ["float16", "float32", "int32", "uint32", "int64", "uint64"]
SEEDS = range(6 if "cuda" in ENGINES else 40)
MOST = 60 if "cuda" in ENGINES else 400


def whole_scan(x: Array, axis: int, exclusive: bool, decreasing: bool, product: bool, engine: str) -> Array:
    """The operator's own answer."""
    function = dml.cumulative_product if product else dml.cumulative_summation
    direction = dml.AxisDirection.DECREASING if decreasing else dml.AxisDirection.INCREASING
    return get(function(put(x, engine), axis, direction, exclusive, allow_float64=x.dtype == "f8", device=engine))


def by_blocks(x: Array, axis: int, cuts: list[int], engine: str, **options: Any) -> tuple[Array, Array]:
    """The same from blocks between cuts, and the last carry."""
    pairs = list(itertools.pairwise(cuts))
    backwards = options.get("decreasing", False)
    carry: Any = None
    found = []
    for low, high in reversed(pairs) if backwards else pairs:
        block = x[(slice(None),) * axis + (slice(low, high),)]
        before = None if carry is None else np.array(get(carry))
        y, after = scan_with_carry(put(block, engine), axis, carry, device=engine, **options)
        assert before is None or np.array_equal(before.view(np.uint8), np.array(get(carry)).view(np.uint8))
        carry = after
        found.append(get(y))
    return np.concatenate(found[::-1] if backwards else found, axis), np.array(get(carry))


def draw(chance: np.random.Generator, shape: tuple[int, ...], kind: str, product: bool) -> Array:
    """Numbers whose sums and products stay in range, zeros of both signs among them."""
    if np.dtype(kind).kind != "f":
        limits = np.iinfo(kind)
        return chance.integers(limits.min, limits.max, shape, kind, endpoint=True)
    x = np.exp2(chance.uniform(-1, 1, shape) * (0.1 if product else 8)) * chance.choice([-1, 1], shape)
    return np.where(chance.random(shape) < (0 if product else 0.2), -0.0, x).astype(kind)


def turned(chance: np.random.Generator, x: Array) -> Array:
    """The same in some other layout."""
    if chance.random() < 0.3:
        x = x.transpose(chance.permutation(x.ndim))
    if chance.random() < 0.3:
        x = x[tuple(slice(None, None, int(chance.choice([1, -1, 2]))) for _ in x.shape)]
    return x


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_give_the_whole(engine: str, seed: int) -> None:
    chance = np.random.default_rng(seed)
    kind, product = KINDS[seed % len(KINDS)], bool(chance.integers(2))
    rank = int(chance.integers(1, 5))
    shape = tuple(int(n) for n in chance.integers(1, int(MOST ** (1 / rank)) + 4, rank))
    x = turned(chance, draw(chance, shape, kind, product))
    axis, exclusive, decreasing = int(chance.integers(rank)), bool(chance.integers(2)), bool(chance.integers(2))
    cuts = sorted({0, x.shape[axis], *chance.integers(0, x.shape[axis] + 1, 3).tolist()})
    wanted = whole_scan(x, axis, exclusive, decreasing, product, engine)
    options = {"exclusive": exclusive, "decreasing": decreasing, "product": product, "whole": x.shape}
    got, carry = by_blocks(x, axis, cuts, engine, **options)
    last = np.take(whole_scan(x, axis, False, decreasing, product, engine), [0 if decreasing else -1], axis)
    assert carry.dtype == (np.float64 if x.dtype.kind == "f" else x.dtype)
    if engine == "cuda":
        operator = dml.CumulativeProduct if product else dml.CumulativeSummation
        assert_agrees(operator, x, got, wanted)
        assert_agrees(operator, x, carry.astype(x.dtype), last)
    else:
        assert_same(got, wanted)
        assert_same(carry.astype(x.dtype), last)


def test_eight_dimensions(engine: str) -> None:
    x = np.arange(3 * 2**7, dtype=np.int32).reshape(2, 2, 2, 3, 2, 2, 2, 2).transpose(6, 1, 4, 3, 0, 7, 5, 2)
    got, _ = by_blocks(x, 3, [0, 1, 3], engine, exclusive=True)
    assert_same(got, whole_scan(x, 3, True, False, False, engine))


@pytest.mark.parametrize("exclusive", [False, True])
def test_zeros_keep_their_signs(engine: str, exclusive: bool) -> None:
    x = np.array([[-0.0, -0.0, -0.0, 1.0, -1.0]] * 20, np.float32)
    for axis, array in ((1, x), (0, np.ascontiguousarray(x.T))):
        wanted = whole_scan(array, axis, exclusive, False, False, engine)
        got, _ = by_blocks(array, axis, [0, 2, 3, 5], engine, exclusive=exclusive)
        assert np.array_equal(np.signbit(got), np.signbit(wanted))


def test_a_carry_is_not_rounded(engine: str) -> None:
    # The sum passes FLOAT16's range, and comes back.
    x = np.array([60000, 60000, -60000, -60000, 1], np.float16)
    got, carry = by_blocks(x, 0, [0, 2, 3, 5], engine)
    assert got.tolist() == [60000, np.inf, 60000, 0, 1]
    assert carry.tolist() == [1]


def test_a_product_leaves_float32_and_comes_back(engine: str) -> None:
    x = np.array([1e30, 1e30, 1e-30, 1e-30, 1e-30, 1e-30, 1e30], np.float32)
    got, _ = by_blocks(x, 0, [0, 2, 5, 7], engine, product=True)
    np.testing.assert_allclose(got, [1e30, np.inf, 1e30, 1, 1e-30, 0, 1e-30], 1e-5)


@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize("kind", ["float32", "int32"])
def test_an_empty_block_hands_on(engine: str, kind: str, product: bool) -> None:
    x = np.array([[2, 3], [4, 5]], kind)
    nothing = x[:0]
    y, carry = scan_with_carry(put(nothing, engine), 0, product=product, device=engine)
    assert get(y).shape == (0, 2)
    y, carry = scan_with_carry(put(x, engine), 0, carry, product=product, device=engine)
    assert get(y).tolist() == ([[2, 3], [8, 15]] if product else [[2, 3], [6, 8]])
    _, after = scan_with_carry(put(nothing, engine), 0, carry, product=product, device=engine)
    assert get(after).tolist() == get(carry).tolist()


def test_float64(engine: str) -> None:
    x = np.random.default_rng(0).standard_normal((3, 30))
    got, _ = by_blocks(x, 1, [0, 7, 30], engine)
    np.testing.assert_allclose(got, np.cumsum(x, 1), 1e-12, 1e-12)


@pytest.mark.skipif("cpu" not in ENGINES, reason="of the CPU's own order")
class TestLongRows:
    """Rows so long, and so few, that threads share them."""

    count = 11 * TILE + 5

    def draw(self, rows: int) -> Array:
        chance = np.random.default_rng(3)
        scales = np.exp2(chance.integers(-20, 20, self.count))
        return np.asarray(chance.standard_normal((rows, self.count)) * scales, np.float32)

    @pytest.mark.parametrize(("exclusive", "decreasing"), [(False, False), (True, True)])
    def test_cut_between_tiles(self, exclusive: bool, decreasing: bool) -> None:
        x = self.draw(2)
        cut = self.count - 2 * TILE if decreasing else 2 * TILE
        wanted = whole_scan(x, 1, exclusive, decreasing, False, "cpu")
        for threads in (1, 3):
            dml.set_num_threads(threads)
            # Of the blocks one is long, and one is not: then its order is another.
            got, _ = by_blocks(x, 1, [0, cut, self.count], "cpu", exclusive=exclusive, decreasing=decreasing)
            np.testing.assert_allclose(got, wanted, 1.2e-7)
            part = slice(None, cut) if decreasing else slice(cut, None)
            y, carry = scan_with_carry(x[:, part], 1, exclusive=exclusive, decreasing=decreasing)
            assert_same(y, whole_scan(x[:, part], 1, exclusive, decreasing, False, "cpu"))
            assert_same(carry.astype("f4"), y[:, [0 if decreasing else -1]]) if not exclusive else None

    def test_cut_into_long_blocks(self) -> None:
        x = np.tile(self.draw(1), 2)[:, : 16 * TILE + 77]
        got, carry = by_blocks(x, 1, [0, 8 * TILE, x.shape[1] - 77, x.shape[1]], "cpu", whole=x.shape)
        wanted = whole_scan(x, 1, False, False, False, "cpu")
        assert_same(got, wanted)
        assert_same(carry.astype("f4"), wanted[:, -1:])

    def test_few_rows_of_many(self) -> None:
        x = self.draw(9)
        wanted = whole_scan(x, 1, False, False, False, "cpu")
        got = [by_blocks(x[r : r + 3], 1, [0, 9 * TILE, self.count], "cpu", whole=x.shape)[0] for r in (0, 3, 6)]
        assert_same(np.concatenate(got), wanted)

    def test_half_floats_and_integers_are_exact(self) -> None:
        for x in (self.draw(1).clip(-4, 4).astype("f2"), self.draw(1).view("i4")):
            got, _ = by_blocks(x, 1, [0, 1000, 9 * TILE, self.count], "cpu")
            assert_same(got, whole_scan(x, 1, False, False, False, "cpu"))


@pytest.mark.parametrize(
    ("carry", "found"),
    [
        (np.zeros((2, 1), np.float32), "FLOAT32 of sizes (2, 1)"),
        (np.zeros((1, 2)), "FLOAT64 of sizes (1, 2)"),
        (np.zeros((2, 2))[:, :1], "strides (2, 1)"),
    ],
)
def test_another_carry_is_refused(carry: Array, found: str) -> None:
    with pytest.raises(dml.DmlError) as error:
        scan_with_carry(np.ones((2, 3), np.float32), 1, carry)
    assert "carry must be FLOAT64 of sizes (2, 1)" in str(error.value)
    assert found in str(error.value)


def test_the_result_goes_to_an_array_that_is_given() -> None:
    x, out = np.arange(6, dtype="float32").reshape(2, 3), np.empty((2, 3), "float32")
    y, _ = scan_with_carry(x, 0, out=out)
    assert y is out
    np.testing.assert_array_equal(out, np.cumsum(x, axis=0))
    for other in (x, np.empty((3, 2), "float32"), np.empty((2, 3), "float64"), np.empty((3, 2), "float32").T):
        with pytest.raises(
            dml.DescriptionError, match=r"out must be FLOAT32 of sizes \(2, 3\), packed and apart from x"
        ):
            scan_with_carry(x, 0, out=other)


def test_another_axis_is_refused() -> None:
    with pytest.raises(dml.DmlError, match="CUMULATIVE_PRODUCT: Axis"):
        scan_with_carry(np.ones((2, 3), np.float32), 2, product=True)
    with pytest.raises(dml.DmlError, match="must have a dimension"):
        scan_with_carry(np.float32(1), 0)
