"""The rows of products with weights of 4 bits, against ONNX Runtime's MatMulNBits."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import anydml as dml
from benchmarks.cpu.rows import CpuRow
from benchmarks.formula import Formula

BLOCK = 32
"""Weights that share a scale, where a row does not say it."""


def weights_row(
    name: str, rows: int, side: int, rng: np.random.Generator, level: int = 0, block: int = BLOCK
) -> CpuRow:
    """Some rows times a square of weights, whose limit is to read them.

    At the level 4 both round the rows to 8 bits first: the answers have two digits.
    """
    a = rng.random((rows, side), np.float32) - np.float32(0.5)
    packed = rng.integers(0, 256, (side, side // block, block // 2), np.uint8)
    scales = rng.random((side, side // block), np.float32) / 64

    def compute(x: Any) -> Any:
        if level:
            blocks = x.reinterpret((rows, side // block, block))
            by = (dml.reduce(dml.abs(blocks), "MAX", axes=(2,)) * (1 / 127)).reinterpret((rows, side // block))
            x = dml.dequantize(dml.quantize(x, by, data_type="int8"), by)
        whole = x.graph.constant(packed.tobytes(), desc=dml.TensorDesc("uint4", (side, side)))
        return dml.gemm(x, dml.dequantize(whole, x.graph.constant(scales)), trans_b="transpose")

    formula = Formula(name=name, count=1, ours=compute, numpy=None, torch=lambda _: compute, shape=(rows, side))
    attributes = {"K": side, "N": side, "bits": 4, "block_size": block, "accuracy_level": level}
    onnx = {"op": "MatMulNBits", "domain": "com.microsoft", "constants": [packed, scales], "attributes": attributes}
    return CpuRow(
        name=name, family="product", inputs=[a], desc=formula.desc, formula=formula, numpy=None, onnx=onnx, exact=False,
        rtol=5e-2 if level else 1e-4, atol=5e-2 if level else 1e-4, lines=packed.nbytes + scales.nbytes + 2 * a.nbytes,
        goal=1.0,
    )  # fmt: skip


def weights(rng: np.random.Generator, side: int) -> list[partial[CpuRow]]:
    """Every row."""
    name = f"product, {{}} rows by {side} x {side} of 4 bits"
    made = [partial(weights_row, name.format(m), m, side, rng) for m in (1, 2, 4, 8, 16, 32, 128)]
    made += [partial(weights_row, f"{name.format(m)}, blocks of 16", m, side, rng, block=16) for m in (1, 16)]
    rounded = (1, 4, 8, 16, 128)
    return [*made, *(partial(weights_row, f"{name.format(m)}, rounded", m, side, rng, level=4) for m in rounded)]
