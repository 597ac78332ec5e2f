"""The rows of the cuda engine, with the goals they are measured against; 32768 × 32768 unless they say otherwise."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from benchmarks.chain import ALL, BACK, SECOND, chains, twelve
from benchmarks.cuda.attention import attention_rows
from benchmarks.cuda.kinds import CudaRow, chain_row, gather_row, launch_row, scan_row, slice_row
from benchmarks.cuda.maps import MAPS, map_row
from benchmarks.cuda.pool import Pool
from benchmarks.cuda.reduces import product_rows, row_rows

SIDE, QUICK_SIDE = 32768, 8192
GIB = 2**30

WIDTHS = {"uint8": 1, "float16": 2, "uint64": 8}
QUICK_CHAINS = ("chain, crop, running sum", "chain, flip, running sum, flip", "chain, two crops, gather rows of 128")


def rows(pool: Pool, n: int = SIDE, *, quick: bool = False, growth: bool = True) -> list[CudaRow]:
    """Every row; `n` is the side of the square that all sizes follow from. No array is made yet."""
    cut, scan, gather, launch = (partial(make, pool=pool) for make in (slice_row, scan_row, gather_row, launch_row))
    square, row, half = (n, n), (n * n // 4,), slice(n // 4, n // 4 + n // 2)
    few, deep, tall = max(n // 512, 2), max(n // 32, 2), n * 32
    image = max(n // 128, 2)
    rows_of_128 = {"shape": (n * n // 512, 128), "count": n * n // 256, "share": 0.90}
    rows_of_8 = {"shape": (20 * n * n // 1024, 8), "count": 40 * n * n // 1024, "share": 0.50}
    scalars = {"shape": (n // 4, n // 4), "count": n * n // 16, "coordinates": 2, "share": 0.40}
    cached = {**scalars, "shape": (n // 16, n // 16)}
    made = [
        launch("launch, bound slice of 4 x 4", bound=True, device_us=9.0, host_us=15.0, quick=True),
        launch("launch, slice1(...) of 4 x 4", bound=False, quick=True),
        chain_row(twelve(), pool, family="compile", goal=0.0, compile_ms=50.0, quick=True),
        cut("slice, block of half by half", shape=square, window=(half, half), quick=True),
        cut("slice, every second row", shape=square, window=(SECOND, ALL)),
        cut("slice, every second column", shape=square, window=(ALL, SECOND), quick=True),
        cut("slice, last axis reversed", shape=square, window=(ALL, BACK), compiled=True, quick=True),
        cut("slice, strides -2 and 2", shape=square, window=(slice(None, None, -2), SECOND), compiled=True),
        cut("slice, NHWC described as NCHW", shape=(few, image, image, image), order=(0, 3, 1, 2), window=(ALL,) * 4, compiled=True),
        scan("running sum, last axis", shape=square, axis=1, compiled=True, jax=True, quick=True),
        scan("running sum, rows", shape=square, axis=0, goal=3.0, compiled=True, quick=True),
        scan("running sum, last axis, int32", shape=square, axis=1, dtype="int32"),
        scan("running sum, rows, int32", shape=square, axis=0, dtype="int32", goal=3.0),
        scan("running sum, last axis, float16", shape=square, axis=1, dtype="float16", quick=True),
        scan("running sum, rows, float16", shape=square, axis=0, dtype="float16", goal=3.0),
        scan(f"running sum, [{few},{deep},{deep}], axis 1", shape=(few, deep, deep), axis=1, goal=3.0),
        scan(f"running sum, [{tall},{deep}], last axis", shape=(tall, deep), axis=1),
        scan(f"running sum, [1,{tall},{deep}], axis 1", shape=(1, tall, deep), axis=1, goal=3.0),
        scan("running sum, one row", shape=row, axis=0, compiled=True, jax=True, quick=True),
        scan("running sum, one row, exclusive, decreasing", shape=row, axis=0, decreasing=True, exclusive=True, compiled=True, quick=True),
        gather("gather rows of 128, clamp", **rows_of_128, compiled=True, quick=True),
        gather("gather rows of 128, raise", **rows_of_128, mode="raise", quick=True),
        gather("gather rows of 128, clamp, int32 indices", **rows_of_128, indices="int32"),
        gather("gather rows of 8, clamp", **rows_of_8, compiled=True, quick=True),
        gather("gather rows of 8, raise", **rows_of_8, mode="raise"),
        gather("gather rows of 8, clamp, int32 indices", **rows_of_8, indices="int32"),
        gather("gather scalars by 2-D index, clamp", **scalars, compiled=True, quick=True),
        gather("gather scalars by 2-D index, raise", **scalars, mode="raise"),
        gather("gather scalars by 2-D index, clamp, int32", **scalars, indices="int32"),
        gather("gather scalars from 16 MiB, clamp", **cached),
    ]  # fmt: skip
    for dtype, width in WIDTHS.items():
        shape = (n // 2 if width == 1 else n, 4 * n // width)  # a tensor has at most 2^32 - 1 elements
        block = tuple(slice(size // 4, size // 4 + size // 2) for size in shape)
        made += [
            cut(f"slice, last axis reversed, {dtype}", shape=shape, window=(ALL, BACK), dtype=dtype),
            cut(f"slice, block of half by half, {dtype}", shape=shape, window=block, dtype=dtype),
        ]
    for dtype in ("float32", "float16"):
        for what in MAPS:
            name = f"map, {what}, {dtype}"
            made.append(map_row(name, pool, square, what, dtype, quick=what == "gelu" or dtype == "float32"))
    made += [*row_rows(pool, n * n // 4, quick=False), *product_rows(pool, n // 4, quick=False)]
    made += attention_rows(pool, n, quick=False)
    if growth:
        for amount in (GIB >> 10, GIB >> 7, GIB >> 4, GIB >> 1, 4 * GIB, 8 * GIB):
            count = amount // 4 if quick else max(amount // 4 * n * n // SIDE**2, 4)
            made += growing(pool, amount, count, quick=amount in (GIB >> 10, GIB >> 4))
    for chain in chains(n, n * n // 256, n * n // 512, "clamp"):
        judged = {"goal": chain.goal, "vs_single": 1.15, "vs_compile": 0.9, "compiled": True}
        made.append(chain_row(chain, pool, **judged, quick=chain.name in QUICK_CHAINS))
    return [one for one in made if one.quick or not quick]


def growing(pool: Pool, amount: int, count: int, *, quick: bool) -> list[CudaRow]:
    """So many bytes, of so many float32 elements, in rows that grow with them; PyTorch is the only peer."""
    width = min(1024 if amount < GIB >> 5 else 8192 if amount < GIB else 32768, count // 2)
    shape = (count // width, width)
    text = f"{amount // GIB} GiB" if amount >= GIB else f"{amount >> 20} MiB"
    made = [
        slice_row(f"growth, last axis reversed, {text}", pool, shape, (ALL, BACK)),
        scan_row(f"growth, running sum, {text}", pool, shape, 1),
    ]
    return [replace(row, cupy=None, quick=quick) for row in made]
