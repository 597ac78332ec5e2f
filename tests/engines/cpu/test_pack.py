"""Packing for the tiles of a contraction, in the vectors of every CPU: compared with NumPy's indexing."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from anydml.engines.cpu.build import kernel_for
from anydml.engines.cpu.gemm.blocking import LINED, Packing
from anydml.engines.cpu.gemm.packing import Pack

pytestmark = pytest.mark.check_bounds

STEPS = np.array([0, 1, 2, 60, 61, 62, 3])
"""Where the taps of a window lie, in elements."""


def pack(packing: Packing, source: np.ndarray, across: int, step: int, rows: int, count: int) -> np.ndarray:
    """What the kernel lays out, by steps and rows."""
    kernel = kernel_for("pack", Pack, packing)
    target = np.full((max(rows // packing.panel, 1), count, packing.pitch), np.nan, np.float32)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 6)(kernel.address)
    call(source.ctypes.data, across, step, rows, count, target.ctypes.data)
    return target.transpose(1, 0, 2).reshape(count, -1)


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("kind", ["f32", pytest.param("f16", marks=pytest.mark.long)])
@pytest.mark.parametrize(("line", "stride"), [(56, 1), (28, 1), (14, 1), (7, 1), (5, 2), (28, 2), (9, 3)])
def test_windows(lanes: int, kind: str, line: int, stride: int) -> None:
    """Lines that vectors fill, that end within one, and that are shorter; elements side by side and apart."""
    rng, panel = np.random.default_rng(line), 2 * lanes
    for rows, first in ((panel, 0), (panel, 3), (panel - 3, 12), (1, 0)):
        numbers = first + np.arange(rows)
        far = numbers // line * (line * stride + 2) + numbers % line * stride
        last = int((far[:, None] + STEPS).max())
        source = rng.standard_normal(last + 1).astype(np.float32 if kind == "f32" else np.float16)
        tables = [np.ascontiguousarray(one * source.itemsize, np.int64) for one in (far, STEPS)]
        packing = Packing("w", kind, panel, panel, lanes)
        found = pack(packing, source, tables[0].ctypes.data, tables[1].ctypes.data, rows, len(STEPS))
        np.testing.assert_array_equal(found[:, :rows], source[far + STEPS[:, None]].astype(np.float32))


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("lie", ["p", "t", "s"])
@pytest.mark.parametrize("panel", [14, 32])
def test_rows(lanes: int, lie: str, panel: int) -> None:
    """Rows side by side, steps side by side, and neither: whole panels, and some rows of one."""
    source = np.random.default_rng(1).standard_normal((70, 11, 2)).astype(np.float32)
    for rows in (panel, panel - 1, panel - 5, *([2 * panel] if lie == "p" else [])):
        matrix = {"p": source[:, :, 0].T.copy().T, "t": source[:, :, 0].copy(), "s": source[:, :, 0]}[lie][:rows]
        packing = Packing(lie, "f32", panel, -(-panel // 4) * 4, lanes)
        across, step = matrix.strides
        found = pack(packing, matrix, across, step, rows, 11)
        for first in range(0, rows, panel):
            part = matrix[first : first + panel]
            np.testing.assert_array_equal(found[:, first // panel * packing.pitch :][:, : len(part)], part.T)


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("kind", ["f32", "f16"])
def test_lines(lanes: int, kind: str) -> None:
    """A line of each row, then the next line of each; of the last one the steps that there are, and nothing past it."""
    source = np.random.default_rng(2).standard_normal((14, 50)).astype(np.float32 if kind == "f32" else np.float16)
    packing = Packing("l", kind, 14, 16, lanes)
    kernel = kernel_for("pack", Pack, packing)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 6)(kernel.address)
    for rows, count in ((14, 48), (14, 35), (5, 17), (1, 3)):
        target = np.full((-(-count // LINED) + 1, rows, LINED), np.nan, np.float32)
        call(source.ctypes.data, source.strides[0], source.itemsize, rows, count, target.ctypes.data)
        found = target.transpose(1, 0, 2).reshape(rows, -1)
        np.testing.assert_array_equal(found[:, :count], source[:rows, :count].astype(np.float32))
        assert np.isnan(found[:, count:]).all()
