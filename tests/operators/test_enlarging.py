"""Images made larger: maps whose targets' elements lie in turn, and what operators make of scales with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from agreement import assert_same
from anydml.engines.cpu import CpuEngine
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.rows.map import RowShape, make_map
from anydml.engines.reference import ReferenceEngine
from anydml.ir.expressions import const, coordinate, fetch, given, load
from anydml.ir.fetches import nearest
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map, Write
from anydml.ir.views import View
from anydml.operators import resampling
from assembled import assembly
from families.moving import resampled
from guarded import guarded
from kernel_families import family_of

Array = np.ndarray[Any, Any]
F32 = dml.DataType.FLOAT32


def woven(number: int, rows: int, count: int) -> Map:
    """Two rows of a target at a time, each with the elements of so many values in turn."""
    x = View("x", F32, (rows, count), (count, 1))
    writes = [
        Write(View("y", F32, (rows, count), (2 * number * count, number), row * number * count + k), value)
        for row in range(2)
        for k, value in enumerate(load(0, F32) * const(row + n + 2.0, F32) for n in range(number))
    ]
    return Map((x,), writes[0].target, writes[0].value, also=tuple(writes[1:]))


@pytest.mark.parametrize("number", [2, 3, 5])
@pytest.mark.parametrize("at_end", [True, False])
def test_targets_in_turn_are_written_as_one(number: int, at_end: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # Lines that are fetched ahead may lie past the end.
    monkeypatch.setattr(
        figures().rows, "fetched_written_from", 0 if at_end else 2**62
    )  # lines fetched ahead may lie past the end
    for count in (1, 17, 48, 55):  # shorter than a vector, past one, whole ones
        x = np.arange(3 * count, dtype=np.float32)
        found = []
        for engine in (CpuEngine(), ReferenceEngine()):
            given, out = (guarded(one, at_end) for one in (x, np.zeros(2 * number * x.size, np.float32)))
            places = {"x": given.ctypes.data, "y": out.ctypes.data}
            engine.compile(woven(number, 3, count)).bind(places)()
            found.append(out.copy())
        assert_same(found[0], found[1])


@pytest.mark.parametrize(
    ("triple", "cpu", "number", "instruction"),
    [
        ("aarch64-unknown-linux-gnu", "neoverse-n1", 3, "st3"),
        ("x86_64-unknown-linux-gnu", "skylake-avx512", 5, "vpermt2ps"),
        ("x86_64-unknown-linux-gnu", "haswell", 2, "vunpcklps"),
    ],
)
def test_elements_in_turn_are_shuffled(triple: str, cpu: str, number: int, instruction: str) -> None:
    values = woven(number, 1, 16).values
    shape = RowShape((load(0, F32),), f"p{'w' * 2 * number}", 16, stream=False, woven=number, soon=True)
    written = assembly(make_map(values, shape), triple, cpu)
    assert instruction in written
    assert ("prfm" if "aarch64" in triple else "prefetch") in written


def test_only_elements_in_turn_are_written_as_one() -> None:
    made = woven(3, 2, 40)
    others = {
        "out of turn": (made.also[1], made.also[0], *made.also[2:]),
        "one short": made.also[:-1],
        "two tensors": (made.also[0], made.also[1]._replace(target=made.also[1].target.named("z")), *made.also[2:]),
    }
    x = np.arange(80, dtype=np.float32)
    for about, also in others.items():
        found = []
        for engine in (CpuEngine(), ReferenceEngine()):
            out = np.zeros((2, 480), np.float32)
            places = {"x": x.ctypes.data, "y": out[0].ctypes.data, "z": out[1].ctypes.data}
            engine.compile(Map(made.sources, made.target, made.value, also=also)).bind(places)()
            found.append(out)
        assert_same(found[0], found[1], about)


def passes_of(desc: Any) -> int:
    return len([part for one in desc.lower() for part in one.spelled()])


@pytest.mark.parametrize(
    ("mode", "dtype", "sizes", "scales", "offset", "maps"),
    [
        # The middle, both ends of rows, both ends of columns, and the corners.
        ("linear", "float32", (2, 40, 33), (1, 2, 2), 0.5, 4),
        ("linear", "float16", (2, 20, 40), (1, 1, 2.5), 0.5, 2),
        ("linear", "float16", (2, 20, 60), (1, 2, 1), 0.25, 2),
        ("nearest_neighbor", "float32", (2, 40, 33), (1, 2, 2), 0.5, 1),
        ("nearest_neighbor", "float16", (1, 41, 40), (1, 2.5, 1.5), 0.5, 2),
    ],
)
def test_images_are_enlarged_in_one_pass(
    mode: str,
    dtype: str,
    sizes: tuple[int, ...],
    scales: Any,
    offset: float,
    maps: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(1)
    x = (rng.random((1, *sizes)) - 0.5).astype(dtype)
    x[0, :, [0, -1], :5] = [np.inf, 1e-7, -0.0, np.nan, 3.0e-39]  # at the ends, numbers that weights would change
    into = (1, *(int(size * scale) for size, scale in zip(sizes, scales, strict=True)))
    desc = dml.Resample1(
        input_tensor=dml.TensorDesc.of(x), output_tensor=dml.TensorDesc(dtype, into), interpolation_mode=mode,
        scales=(1, *scales), input_pixel_offsets=[0.5, 0.5, offset, 0.5], output_pixel_offsets=[-0.5] * 4,
    )  # fmt: skip
    monkeypatch.setattr(resampling, "LEAST", 1)
    assert passes_of(desc) == maps
    got = dml.Device("cpu").compile(desc)(x)
    is_number = np.isfinite(got)
    assert is_number.sum() > got.size * 0.9
    wanted = resampled(desc, np.where(np.isfinite(x), x, 0))
    assert np.allclose(got[is_number], wanted[is_number], rtol=1e-6 if dtype == "float32" else 1e-3, atol=1e-7)
    monkeypatch.setattr(resampling, "LEAST", 2**62)
    assert passes_of(desc) != maps
    assert_same(got, dml.Device("reference").compile(desc)(x))  # in several passes there are the same bits


def test_rows_that_are_fetched_are_written_ahead_too(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.array([2, 0, 1], np.int64)
    x = np.arange(120, dtype=np.float32).reshape(3, 40)
    source, index = View("x", F32, (3, 40), (40, 1)), View("i", dml.DataType.INT64, (3, 40), (1, 0))
    value = fetch(0, F32, [nearest(load(1, dml.DataType.INT64), 3), coordinate(1)]) * given(3.0, F32)
    made = Map((source, index), View("y", F32, (3, 40), (50, 1)), value)
    for least in (0, 2**62):
        monkeypatch.setattr(figures().rows, "fetched_written_from", least)
        out = np.zeros((3, 50), np.float32)
        program = CpuEngine().compile(made)
        program.bind({"x": x.ctypes.data, "i": rows.ctypes.data, "y": out.ctypes.data})()
        assert_same(out[:, :40], x[rows] * 3)
        assert not out[:, 40:].any()


@pytest.mark.parametrize("is_read", [True, False])
@pytest.mark.parametrize(("number", "dtype"), [(2, "float32"), (3, "uint8"), (4, "float16"), (8, "int64")])
def test_planes_become_pixels_and_pixels_planes(number: int, dtype: str, is_read: bool) -> None:
    for rows, count in ((3, 8), (2, 45)):
        planes = np.arange(number * rows * count).astype(dtype).reshape(number, rows, count)
        pixels = np.ascontiguousarray(planes.transpose(1, 2, 0))
        given, wanted = (pixels, planes) if is_read else (planes, pixels)
        kind, sizes = dml.DataType(planes.dtype), (rows, count, number)
        views = [
            View(name, kind, sizes, (count, 1, rows * count) if one is planes else (count * number, number, 1))
            for name, one in (("x", given), ("y", wanted))
        ]
        source, out = guarded(given, at_end=True), guarded(np.zeros_like(wanted), at_end=True)
        primitive = copy_of(views[0], views[1])
        program = CpuEngine().compile(primitive)
        assert (family_of(program) == "rows") == (not is_read or number <= 4)
        program.bind({"x": source.ctypes.data, "y": out.ctypes.data})()
        assert_same(out, wanted)
