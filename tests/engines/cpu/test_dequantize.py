"""Weights of few bits that are dequantised into panels of columns, as the microkernel reads them."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np
import pytest

from anydml.engines.cpu.build import kernel_for
from anydml.engines.cpu.features import has_feature
from anydml.engines.cpu.quant.dequantize import PanelShape, PanelUnpacking

pytestmark = [pytest.mark.judges("GEMM", "DEQUANTIZE"), pytest.mark.sampled(4)]

COLUMNS, WORD = 11, 4


def laid_out(packed: Any, bits: int, columns: int) -> Any:
    """Words side by side as products of a few rows read them: of panels of columns, or of four portions of 32."""
    count, width = packed.shape
    if columns:
        whole = packed[np.minimum(np.arange(-(-count // columns) * columns), count - 1)]
        return whole.reshape(-1, columns, width // WORD, WORD).swapaxes(1, 2)
    return packed.reshape(count, -1, 4, bits, WORD).swapaxes(2, 3)


CASES = [
    (bits, is_signed, zeros, block, length, laid, lanes)
    for bits, is_signed, zeros in itertools.product((4, 8), (False, True), (False, True))
    for block, length, laid in (
        (32, 256, "portions"), (128, 384, "portions"), (16, 128, ""), (32, 160, ""), (96, 96, ""), (160, 160, ""),
        (256, 256, ""), (32, 160, "columns"), (16, 144, "columns"),
    )
    for lanes in (4, 8, 16)
    if laid != "columns" or (bits == 4 and lanes > 4)
]  # fmt: skip


@pytest.mark.parametrize(("bits", "is_signed", "zeros", "block", "length", "laid", "lanes"), CASES)
@pytest.mark.parametrize("scale", ["float", "half"])
def test_panels_are_what_weights_stand_for(
    bits: int, is_signed: bool, zeros: bool, block: int, length: int, laid: str, lanes: int, scale: str
) -> None:
    """Every bit of (q - z)·s, for all columns that there are, from a step on that is not the first."""
    rng = np.random.default_rng([bits, is_signed, zeros, block, length, lanes])
    low, high = (-(1 << bits - 1), 1 << bits - 1) if is_signed else (0, 1 << bits)
    q = rng.integers(low, high, (COLUMNS, length))
    s = rng.random((COLUMNS, length // block)).astype("f4" if scale == "float" else "f2")
    z = rng.integers(low, high, s.shape).astype("i1" if is_signed else "u1")
    middle = 0 if is_signed else high // 2
    for zero in (middle,) if zeros else (middle, 3):
        packed: Any = (q & (1 << bits) - 1).astype(np.uint8)
        packed = packed if bits == 8 else packed[:, ::2] | packed[:, 1::2] << 4
        columns = (8 if lanes == 8 else 16) if laid == "columns" else 0
        words = np.ascontiguousarray(laid_out(packed, bits, columns) if laid else packed)
        vectors = -(-COLUMNS // lanes)
        has_tables = bits == 4 and lanes == 16 and has_feature("avx512f")
        shape = PanelShape(
            bits, is_signed, block, 0 if zeros else zero, ("s8" if is_signed else "u8") if zeros else "", scale,
            bool(laid), columns, lanes, vectors, has_tables,
        )  # fmt: skip
        kernel = kernel_for("unpacked-panels", PanelUnpacking, shape)
        views = [words, s, *([z] if zeros else [])]
        bases = np.array([view.ctypes.data for view in views])
        section = np.array([0, len(views), 0, *bases, *[0] * len(views), *(view.strides[0] for view in views)])
        start = 128 if length > 128 else 0
        panel = np.full((length - start + 1, vectors * lanes), np.nan, "f4")
        run = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 7)(int(kernel.address))
        run(section.ctypes.data, bases.ctypes.data, 0, COLUMNS, start, length - start, panel.ctypes.data)
        less = np.repeat(z.astype(int), block, 1) if zeros else zero
        wanted = (q - less).astype("f4") * np.repeat(s.astype("f4"), block, 1)
        assert np.array_equal(panel[:-1, :COLUMNS], wanted[:, start:].T)
        assert np.isnan(panel[-1]).all()
