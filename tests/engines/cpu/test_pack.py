"""Packing for the tiles of a contraction, in the vectors of every CPU: compared with NumPy's indexing."""

from __future__ import annotations

import ctypes
import random
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.engines.cpu import build, features
from anydml.engines.cpu.build import kernel_for
from anydml.engines.cpu.codegen.function import Function, vector_of
from anydml.engines.cpu.gemm import blocking as tiles
from anydml.engines.cpu.gemm import microkernel as tile_texts
from anydml.engines.cpu.gemm.amx import make_matrices
from anydml.engines.cpu.gemm.blocking import LINED, MATRIX_LINE, MATRIX_SIDE, MicroTile, Packing
from anydml.engines.cpu.gemm.packing import NumberPacker
from anydml.engines.cpu.quant import int8
from assembled import assembly

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.check_bounds

STEPS = np.array([0, 1, 2, 60, 61, 62, 3])
"""Where the taps of a window lie, in elements."""


def pack(packing: Packing, source: np.ndarray, across: int, step: int, rows: int, count: int) -> np.ndarray:
    """What the kernel lays out, by steps and rows."""
    kernel = kernel_for("pack", NumberPacker, packing)
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
    kernel = kernel_for("pack", NumberPacker, packing)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 6)(kernel.address)
    for rows, count in ((14, 48), (14, 35), (5, 17), (1, 3)):
        target = np.full((-(-count // LINED) + 1, rows, LINED), np.nan, np.float32)
        call(source.ctypes.data, source.strides[0], source.itemsize, rows, count, target.ctypes.data)
        found = target.transpose(1, 0, 2).reshape(rows, -1)
        np.testing.assert_array_equal(found[:, :count], source[:rows, :count].astype(np.float32))
        assert np.isnan(found[:, count:]).all()


Array = np.ndarray[Any, Any]


def make_plain(tile: MicroTile) -> str:
    """The kernel of `make_matrices` without matrix registers: each product for itself."""
    f, vector = Function("kernel", "a b b_step c c_step count first b_next far far_step"), vector_of(MATRIX_SIDE, "i32")
    a, b, b_step, c, c_step, count, first = f.args[:7]
    with f.loop(0, tile.rows) as i, f.loop(0, tile.vectors) as j:
        to = c + i * c_step + j * MATRIX_LINE
        with f.when(first):
            f.store(f.zero(vector), to)
        with f.loop(0, count) as k:
            line = a + k // MATRIX_SIDE * (MATRIX_LINE * tile.pitch) + i * MATRIX_LINE + k % MATRIX_SIDE * 4
            one, other = f.splat(f.load("i32", line), MATRIX_SIDE), f.load(vector, b + k * b_step + j * MATRIX_LINE)
            total = f.load(vector, to)
            for byte in range(4):
                parts = [
                    f.cast("sext" if is_signed else "zext", f.cast("trunc", value >> 8 * byte, "i8"), "i32")
                    for value, is_signed in ((one, tile.is_swapped), (other, not tile.is_swapped))
                ]
                total += parts[0] * parts[1]
            f.store(total, to)
    return f.end()


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dml.Device:
    """One that multiplies bytes by matrix registers."""
    if not features.has_matrices():
        monkeypatch.setenv("ANYDML_CACHE_DIR", str(tmp_path))
        monkeypatch.setattr(build, "_kernels", {})
        monkeypatch.setattr(tile_texts, "make_matrices", make_plain)
        for module in (tiles, int8):
            monkeypatch.setattr(module, "has_matrices", lambda: True)
        if features.IS_ARM:
            pytest.skip("an Arm packs bytes of other signs")
    return dml.Device("cpu")


def drawn(draw: random.Random, shape: tuple[int, ...], dtype: str) -> Array:
    rng = np.random.default_rng(draw.getrandbits(32))
    return rng.integers(np.iinfo(dtype).min, int(np.iinfo(dtype).max) + 1, shape).astype(dtype)


@pytest.mark.parametrize("seed", range(8))
def test_products_of_any_sizes_and_signs_are_exact(device: dml.Device, seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - a test's
    m = draw.choice((8, 15, 16, 17, 32, 33, 70))
    n, k = draw.choice((16, 30, 32, 50, 100)), draw.choice((3, 5, 64, 100, 129, 1100))
    a, b = drawn(draw, (m, k), draw.choice(("int8", "uint8"))), drawn(draw, (k, n), draw.choice(("int8", "uint8")))
    if seed % 3 == 1:
        a = np.asfortranarray(a)
    if seed % 4 == 1:
        b = np.asfortranarray(b)
    zeros: dict[str, Array] = {}
    if seed % 2:
        zeros["a_zero_point"] = drawn(draw, (1, 1), a.dtype.name)
        zeros["b_zero_point"] = drawn(draw, (1, n) if seed % 4 == 3 else (1, 1), b.dtype.name)
    wanted = (a.astype("int64") - zeros.get("a_zero_point", 0)) @ (b.astype("int64") - zeros.get("b_zero_point", 0))
    found = dml.matrix_multiply_integer(a, b, *zeros.values(), device=device)
    np.testing.assert_array_equal(found, wanted.astype("int32"))
    assert any("matrices" in name for name in build._kernels) or not features.multiplies_bytes(MATRIX_SIDE)
    graph = dml.Graph(device)
    x = graph.input(dml.TensorDesc(a.dtype.name, a.shape), "x")
    y = dml.matrix_multiply_integer(x, graph.constant(b), *map(graph.constant, zeros.values()))
    np.testing.assert_array_equal(graph.compile([y])(np.ascontiguousarray(a)), wanted.astype("int32"))


def test_windows_of_bytes_are_exact(device: dml.Device) -> None:
    draw = random.Random(1)  # noqa: S311 - a test's
    x, filters = drawn(draw, (1, 5, 9, 11), "uint8"), drawn(draw, (20, 5, 3, 3), "int8")
    found = dml.convolution_integer(x, filters, start_padding=(1, 1), end_padding=(1, 1), device=device)
    wanted = dml.convolution_integer(x, filters, start_padding=(1, 1), end_padding=(1, 1), device="reference")
    np.testing.assert_array_equal(found, wanted)


def test_registers_are_set_up_and_given_up() -> None:
    tile = MicroTile(20, 2, MATRIX_SIDE, 32, False, "matrices")
    written = assembly(make_matrices(tile), "x86_64-unknown-linux-gnu", "sapphirerapids")
    order = re.findall(r"\b(ldtilecfg|tilezero|tileloadd|tdpbusd|tilestored|tilerelease)\b", written)
    assert [name for k, name in enumerate(order) if name not in order[:k]] == [
        "ldtilecfg", "tilezero", "tileloadd", "tdpbusd", "tilestored", "tilerelease",
    ]  # fmt: skip
    assert order.count("tdpbusd") == 4
    assert "tdpbsud" in assembly(
        make_matrices(tile._replace(is_swapped=True)), "x86_64-unknown-linux-gnu", "sapphirerapids"
    )
