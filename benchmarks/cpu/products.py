"""The rows of products: square ones, a few rows by a matrix of weights, FLOAT16, 4 bits, fused, and over time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import anydml as dml
from benchmarks.cpu.attention import attentions
from benchmarks.cpu.recurrent import recurrent
from benchmarks.cpu.rows import CpuRow
from benchmarks.cpu.weights import BLOCK, weights

WEIGHTS = 4096
"""The side of the weights that a few rows are multiplied by."""


def product_row(
    name: str,
    sizes: tuple[int, int, int],
    rng: np.random.Generator,
    dtype: str = "float32",
    *,
    turned: bool = False,
    fused: bool = False,
    owned: bool = False,
    **options: Any,
) -> CpuRow:
    """a · b, b transposed or not; fused with a bias and RELU or not. Its limit is arithmetic, or reading b.

    With `owned` b is given ahead: to ours when the operator is initialized, to ONNX Runtime as an initializer.
    In FLOAT16 ONNX Runtime is the one peer, and adds up in FLOAT16: NumPy has no products of its own, and PyTorch takes
    a thousand times as long on some CPUs.
    """
    m, n, k = sizes

    def draw(*shape: int) -> np.ndarray:
        return (rng.random(shape, np.float32) - np.float32(0.5)).astype(dtype, copy=False)

    a, b, bias = draw(m, k), draw(n, k) if turned else draw(k, n), draw(n)
    inputs = [a, b, np.broadcast_to(bias, (m, n))] if fused else [a, b]
    descs = [dml.TensorDesc.of(array) for array in inputs]
    if owned:
        descs[1] = dml.TensorDesc(dtype, b.shape, flags=dml.TensorFlags.OWNED_BY_DML)
    desc = dml.Gemm.infer(
        **dict(zip(("a_tensor", "b_tensor", "c_tensor"), descs, strict=False)),
        trans_b="transpose" if turned else "none",
        fused_activation="relu" if fused else None,
    )

    def by_numpy(out: np.ndarray) -> None:
        np.matmul(a, b.T if turned else b, out=out)
        if fused:
            np.add(out, bias, out=out)
            np.maximum(out, 0, out=out)

    def by_torch(torch: Any) -> Any:
        x, y, z = map(torch.from_numpy, (a, b, bias))
        y = y.T if turned else y
        if fused:
            return lambda out: torch.addmm(z, x, y, out=out).relu_()
        return lambda out: torch.matmul(x, y, out=out)

    is_read, is_half = m <= 8, dtype == "float16"
    # A step of the peer's sums of FLOAT16 rounds by up to half an ulp.
    rtol, atol = (1e-2, k / 2**12) if is_half else (1e-4, 1e-4)
    onnx = {"op": "Gemm", "constants": [b] if owned else [], "attributes": {"transB": int(turned)}}
    given = [array for array in inputs if array is not b or not owned]
    return CpuRow(
        name=name, family="product", inputs=given, owned=[b] if owned else [], desc=desc, numpy=None if is_half else by_numpy,
        torch=None if is_half else by_torch, onnx=None if fused else onnx, exact=False, rtol=rtol, atol=atol,
        lines=sum(array.nbytes for array in inputs) + m * n * a.itemsize, flops=0 if is_read else 2 * m * n * k, **options,
    )  # fmt: skip


def octets_row(name: str, sizes: tuple[int, int, int], rng: np.random.Generator) -> CpuRow:
    """UINT8 times INT8 that is given ahead, to INT32: exact, and against ONNX Runtime's MatMulInteger.

    Weights have 7 bits: of two products with larger ones ONNX Runtime cuts off the sum, on an x86 without VNNI.
    """
    m, n, k = sizes
    a, b = rng.integers(0, 256, (m, k), np.uint8), rng.integers(-64, 64, (k, n), np.int8)
    desc = dml.MatrixMultiplyInteger.infer(
        a_tensor=dml.TensorDesc.of(a), b_tensor=dml.TensorDesc("int8", b.shape, flags=dml.TensorFlags.OWNED_BY_DML)
    )
    return CpuRow(
        name=name, family="product", inputs=[a], owned=[b], desc=desc, numpy=None, torch=None, exact=True, goal=1.05,
        onnx={"op": "MatMulInteger", "constants": [b]}, lines=a.nbytes + b.nbytes + 4 * m * n,
    )  # fmt: skip


def products(
    rng: np.random.Generator, quick: bool, side: int | None = None, only: str = ""
) -> list[Callable[[], CpuRow]]:
    """Every row of products whose name has something in it; small ones for a side that is given."""
    sides = (side,) if side else (64, 128, 256, 512, 768, 1024) if quick else (64, 128, 256, 512, 768, 1024, 2048)
    width = side or WEIGHTS
    made: list[partial[CpuRow]] = [
        partial(product_row, f"product, {n} x {n} x {n}", (n, n, n), rng, goal=1.05 if n < 1024 else 1.0, peak=0.9)
        for n in sides
    ]
    middle = sides[len(sides) // 2]
    for n in {middle, sides[-1]}:
        cube = (n, n, n)
        made.append(partial(product_row, f"product, {n}, bias, RELU", cube, rng, fused=True, goal=1.05, peak=0.9))
        made.append(partial(product_row, f"product, {n}, float16", cube, rng, "float16", goal=1.1))
    for turned in (False, True):
        name = f"product, {{}} rows by {width} x {width}{', transposed' if turned else ''}"
        made += [
            partial(product_row, name.format(m), (m, width, width), rng, turned=turned, goal=1.2) for m in (1, 2, 4, 8)
        ]
        for sizes in (
            ((side, side, side),)
            if side
            else ((128, 768, 768), (128, 3072, 768), (1, WEIGHTS, WEIGHTS), (8, WEIGHTS, WEIGHTS))
        ):
            name = f"product, {' x '.join(map(str, sizes))}, constant{', transposed' if turned else ''}"
            made.append(partial(product_row, name, sizes, rng, turned=turned, owned=True, goal=1.05))
            if not turned:
                made.append(partial(octets_row, f"{name}, bytes", sizes, rng))
            if not turned and sizes[2] < WEIGHTS:  # longer sums of the peer's have no digit that is right
                made.append(partial(product_row, f"{name}, float16", sizes, rng, "float16", owned=True, goal=1.1))
    made += weights(rng, -(-width // BLOCK) * BLOCK)
    made += recurrent(rng, *((4, side) if side else ()))
    made += attentions(rng, quick, side)
    return [make for make in made if only in make.args[0]]
