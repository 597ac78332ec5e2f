"""Random arrays in random blocks: the bits of the whole in memory, sums of FLOAT32 within their rounding."""

from __future__ import annotations

import itertools
import os
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml

if TYPE_CHECKING:
    from collections.abc import Callable

da = pytest.importorskip("dask.array", reason="Dask is not installed: make test EXTRAS=dask")

from lazies import REFERENCE, TAKEN, Array, agree, arrays_of, computed, cut  # noqa: E402 - where Dask is  # noqa: E402 - where Dask is

COUNT = 1000 if os.environ.get("CI") else 30
SHARDS = 10
FLOATS, INTEGERS = ("float16", "float32"), ("int32", "int64", "uint32")


class Draw(random.Random):
    """Random arrays, indices and blocks."""

    def sizes(self, rank: int) -> list[int]:
        return [self.randint(1, 7) for _ in range(rank)]

    def array(self, kind: str, sizes: list[int]) -> Array:
        numbers = np.random.default_rng(self.randrange(2**32))
        if kind in FLOATS:
            return numbers.normal(size=sizes).astype(kind)
        return numbers.integers(0, 50, sizes).astype(kind)

    def cut(self, x: Array) -> Any:
        chunks = []
        for size in x.shape:
            ends = sorted({0, size, *(self.randint(0, size) for _ in range(self.randint(0, 3)))})
            chunks.append(tuple(b - a for a, b in itertools.pairwise(ends)))
        return da.from_array(x, chunks=tuple(chunks))


Made = tuple["Callable[..., Any]", list[Array]]


def running_sum(draw: Draw) -> Made:
    sizes = draw.sizes(draw.randint(1, 3))
    axis, exclusive = draw.randrange(len(sizes)), draw.random() < 0.5
    direction: Any = draw.choice(["increasing", "decreasing"])
    x = draw.array(draw.choice(FLOATS + INTEGERS), sizes)
    return lambda x: dml.cumulative_summation(x, axis, direction, exclusive), [x]


def running_product(draw: Draw) -> Made:
    sizes = draw.sizes(2)
    axis = draw.randrange(2)
    return lambda x: dml.cumulative_product(x, axis), [draw.array(draw.choice(FLOATS), sizes)]


def part(draw: Draw) -> Made:
    sizes = draw.sizes(3)
    offsets = [draw.randrange(size) for size in sizes]
    windows = [draw.randint(1, size - offset) for size, offset in zip(sizes, offsets, strict=True)]
    strides = [draw.choice([1, 2, -1, -2]) for _ in sizes]
    return lambda x: dml.slice1(x, offsets, windows, strides), [draw.array("int32", sizes)]


def by_index(draw: Draw) -> Made:
    sizes = draw.sizes(3)
    axis = draw.randrange(3)
    indices = draw.array("int64", draw.sizes(draw.randint(1, 2))) % sizes[axis] - draw.choice([0, sizes[axis]])
    return lambda x, i: dml.gather(x, i, axis), [draw.array("float32", sizes), indices]


def by_tuples(draw: Draw) -> Made:
    sizes, width = draw.sizes(3), draw.randint(1, 3)
    indices = draw.array("int64", [draw.randint(1, 9), width]) % np.array(sizes[:width])
    return lambda x, i: dml.gather_nd(x, i), [draw.array("float16", sizes), indices]


def along(draw: Draw) -> Made:
    sizes, axis = draw.sizes(3), draw.randrange(3)
    own = [draw.randint(1, 6) if k == axis else size for k, size in enumerate(sizes)]
    return lambda x, i: dml.gather_elements(x, i, axis), [
        draw.array("int32", sizes),
        draw.array("int64", own) % sizes[axis],
    ]


def scattered(draw: Draw) -> Made:
    sizes, width = draw.sizes(3), draw.randint(1, 3)
    count = draw.randint(1, 9)
    indices = draw.array("int64", [count, width]) % np.array(sizes[:width])
    updates = draw.array("int32", [count, *sizes[width:]])
    return lambda x, i, u: dml.scatter_nd(x, i, u), [draw.array("int32", sizes), indices, updates]


def folded(draw: Draw) -> Made:
    sizes = draw.sizes(3)
    axes = draw.sample(range(3), draw.randint(1, 3))
    kind = draw.choice(FLOATS + INTEGERS[:2])
    functions = ["sum", "max", "min", "argmax", "argmin"] + (["average", "l2", "log_sum_exp"] if kind in FLOATS else [])
    function: Any = draw.choice(functions)
    return lambda x: dml.reduce(x, function, axes=axes), [draw.array(kind, sizes)]


def rows(draw: Draw) -> Made:
    sizes, axis = draw.sizes(3), draw.randrange(3)
    function = draw.choice([dml.softmax1, dml.log_softmax1, dml.hardmax1])
    return lambda x: function(x, axes=[axis]), [draw.array(draw.choice(FLOATS), sizes)]


def mapped(draw: Draw) -> Made:
    sizes = draw.sizes(3)
    other = [1 if draw.random() < 0.3 else size for size in sizes]
    function = draw.choice([dml.add, dml.multiply, dml.max, dml.logical_less_than])
    return lambda x, y: function(x, y), [draw.array("float32", sizes), draw.array("float32", other)]


def largest(draw: Draw) -> Made:
    sizes, axis = draw.sizes(3), draw.randrange(3)
    k = draw.randint(1, sizes[axis])
    return lambda x: dml.top_k(x, axis, k), [draw.array("int32", sizes) % np.int32(5)]


def padded(draw: Draw) -> Made:
    sizes = draw.sizes(3)
    mode: Any = draw.choice(["constant", "edge", "reflection", "symmetric", "wrap"])
    low, high = [draw.randint(0, 3) for _ in sizes], [draw.randint(0, 3) for _ in sizes]
    return lambda x: dml.padding(x, low, high, padding_mode=mode), [draw.array("float32", sizes)]


def pooled(draw: Draw) -> Made:
    sizes = [draw.randint(1, 2), draw.randint(1, 3), draw.randint(4, 9), draw.randint(4, 9)]
    window, stride, padding = [draw.randint(1, 3) for _ in "hw"], draw.randint(1, 3), draw.randint(0, 1)
    window = [max(size, padding + 1) for size in window]
    return lambda x: dml.max_pooling(x, window, stride, padding, padding), [draw.array("float32", sizes)]


def product(draw: Draw) -> Made:
    m, k, n = draw.sizes(3)
    return lambda a, b: dml.gemm(a, b), [draw.array("float32", [m, k]), draw.array("float32", [k, n])]


DRAWN = [running_sum, running_sum, running_product, part, by_index, by_tuples, along, scattered, folded, rows, mapped,
         largest, padded, pooled, product]  # fmt: skip
SUMMED = (folded, rows, product)


def test_random_sums_along_cut_dimensions_are_rounded_once() -> None:
    for number in range(COUNT // 10):
        draw = Draw(f"sum {number}")
        kind, sizes = draw.choice(FLOATS), [draw.randint(2, 7) for _ in range(3)]
        axes = draw.sample(range(3), draw.randint(1, 3))
        x = draw.array(kind, sizes)
        exact = x.astype("float64").sum(axis=tuple(axes), keepdims=True).astype(kind)
        found = dml.reduce(da.from_array(x, chunks=[draw.randint(1, size // 2) for size in sizes]), "sum", axes=axes)
        np.testing.assert_array_max_ulp(computed(found, exact), exact, maxulp=1)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_random_blocks_give_what_the_whole_gives(shard: int) -> None:
    for number in range(shard, COUNT, SHARDS):
        draw = Draw(f"{number} {os.environ.get('ANYDML_TEST_SEED', '')}")
        make = DRAWN[number % len(DRAWN)]
        call, arrays = make(draw)
        lazies = [draw.cut(x) for x in arrays]
        wanted = call(*arrays)
        found = call(*lazies)
        if not isinstance(wanted, (list, tuple)):
            found, wanted = [found], [wanted]
        for one, other in zip(found, wanted, strict=True):
            result = computed(one, other)
            where = f"{make.__name__} {number}: {[x.chunks for x in lazies]}"
            if make in SUMMED and other.dtype.kind == "f":
                ulp = float(np.finfo(other.dtype).eps)
                largest_of = float(np.abs(arrays[0]).max()) * max(arrays[0].size, 1)
                np.testing.assert_allclose(result, other, rtol=4 * ulp, atol=ulp * largest_of, err_msg=where)
            else:
                assert result.tobytes() == np.ascontiguousarray(other).tobytes(), where


@pytest.mark.parametrize("case", TAKEN, ids=str)
def test_an_operator_gives_in_blocks_what_it_gives_in_memory(case: Any) -> None:
    case = case.bare()
    found = arrays_of(case)
    if found is None:
        pytest.skip("of 4 bits, or of types that the function does not read from whole numbers")
    arrays, wanted = found
    whole = [da.from_array(x, chunks=-1) for x in arrays]
    agree(case.call(*whole, device=REFERENCE), wanted)  # never refused in one block
    draw = random.Random(str(case))  # noqa: S311 - a test's
    for _ in range(3):
        try:
            result = case.call(*[cut(x, draw) for x in arrays], device=REFERENCE)
        except dml.UnsupportedError as error:
            refused = str(error)
            if "one block" not in refused or "rechunk" not in refused:
                raise
            continue
        agree(result, wanted)
