"""Gathers along one axis on the cpu engine: elements that lie near, far columns in tiles, and indices used again."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest

from agreement import values
from anydml.engines.cpu import CpuEngine
from anydml.engines.cpu.families import AVX2, NEOVERSE, Family, figures
from anydml.engines.cpu.launch.program import KernelProgram
from anydml.engines.cpu.move.gather import PLACES
from anydml.engines.cpu.move.index_check import CheckedProgram
from anydml.engines.reference import ReferenceEngine
from anydml.ir.fetches import gathered
from anydml.ir.verbs import IndexFault
from anydml.ir.views import View
from tests.engines.cpu import test_maps
from tests.engines.cpu.test_maps import Array, empty, run, same, view

if TYPE_CHECKING:
    from anydml.ir.verbs import Map

pytestmark = [pytest.mark.sampled(6), pytest.mark.check_bounds]

threads = test_maps.threads


def choose(shape: tuple[int, ...], size: int, dtype: str) -> Array:
    """Indices of an axis of some size, a few of them outside, and negative ones where there are any."""
    rng = np.random.default_rng(11)
    low = -size if dtype.startswith("int") else 0
    indices = rng.integers(low, size, shape).astype(dtype)
    indices.reshape(-1)[::97] = np.iinfo(dtype).max
    indices.reshape(-1)[5::97] = np.iinfo(dtype).min
    return indices


def along(name: str, array: Array, axis: int) -> View:
    """A matrix with the axis last: the other dimension is the batch."""
    return view(name, array if axis == 1 else array.T)


def elements(x: Array, indices: Array, y: Array, axis: int, *, clamp: bool = True) -> Map:
    """What GATHER_ELEMENTS of matrices is: one element for every index."""
    tuples = along("i", indices, axis)
    tuples = View("i", tuples.data_type, (*tuples.sizes, 1), (*tuples.strides, 0))
    return gathered(along("x", x, axis), tuples, along("y", y, axis), 1, clamp=clamp)


@pytest.mark.parametrize(
    ("dtype", "index_type"), [("uint8", "int32"), ("float32", "int64"), ("float32", "uint32"), ("float64", "uint64")]
)
def test_elements_along_an_axis(dtype: str, index_type: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures().move, "tile_bytes", 16 * np.dtype(dtype).itemsize)
    for near, axis, layout in itertools.product((0, figures().move.near), (0, 1), ("packed", "columns")):
        monkeypatch.setattr(figures().move, "near", near)
        for shape in ((48, 64), (30, 1), (1, 70), (37, 53)):
            x, y = values(shape, dtype), empty(shape, dtype, layout=layout)
            indices = choose(shape, shape[axis], index_type)
            same(elements(x, indices, y, axis), x=x, i=indices, y=y)


@pytest.mark.parametrize("dtype", ["int16", "float32"])
@pytest.mark.parametrize("count", [7, PLACES, PLACES + 33])
def test_indices_that_every_row_uses(dtype: str, count: int, threads: int) -> None:
    x = values((70, 50), dtype)
    for source in (x, x[:, ::-1], np.asfortranarray(x)):
        indices, y = choose((count,), 50, "int64"), empty((70, count), dtype)
        tuples = View("i", view("i", indices).data_type, (70, count, 1), (0, 1, 0))
        same(gathered(view("x", source), tuples, view("y", y), 1, clamp=True), x=source, i=indices, y=y)


@pytest.mark.parametrize("axis", [0, 1])
def test_the_first_index_outside_is_named_whatever_the_walk(axis: int, threads: int) -> None:
    x, y = values((300, 400), "float32"), np.zeros((300, 400), "float32")
    indices = np.zeros(x.shape, "int64")
    indices[299, 3] = indices[2, 390] = indices[7, 7] = 1000
    found = []
    for engine in (CpuEngine(), ReferenceEngine()):
        with pytest.raises(IndexFault) as fault:
            run(engine, elements(x, indices, y, axis, clamp=False), {"x": x, "i": indices, "y": y})
        found.append(fault.value.args)
    assert found[0] == found[1]
    assert not y.any()


def test_indices_that_every_row_uses_are_checked_once() -> None:
    x, y, indices = values((50, 60), "float32"), np.zeros((50, 9), "float32"), np.arange(9)
    tuples = View("i", view("i", indices).data_type, (50, 9, 1), (0, 1, 0))
    program = CpuEngine().compile(gathered(view("x", x), tuples, view("y", y), 1, clamp=False))
    assert isinstance(program, CheckedProgram)
    assert isinstance(program.program, KernelProgram)
    assert (program.look.work_items, program.program.work_items) == (9, 50 * 9)


def as_on(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gather as the CPUs of a family do."""
    for name in ("taken_bytes", "long_rows"):
        monkeypatch.setattr(figures().move, name, getattr(family.move, name))
    monkeypatch.setattr(figures().rows, "streams", family.rows.streams)


@pytest.mark.parametrize("index_type", ["int64", "uint32"])
@pytest.mark.parametrize("is_arm", [True, False], ids=["in batches", "one by one"])
def test_rows_as_each_kind_of_cpu_takes_them(
    index_type: str, is_arm: bool, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_on(NEOVERSE if is_arm else AVX2, monkeypatch)
    for length, count in itertools.product((4, 8, 16, 25, 128, 1500), (1, 2, 333)):
        x, y = values((60, length), "float32"), empty((count, length), "float32")
        indices = choose((count, 1), 60, index_type)
        same(gathered(view("x", x), view("i", indices), view("y", y), 0, clamp=True), x=x, i=indices, y=y)
        inside = np.where(indices < 60, indices, 0) if index_type[0] == "u" else indices % 120 - 60
        inside = inside.astype(index_type)
        same(gathered(view("x", x), view("i", inside), view("y", y), 0, clamp=False), x=x, i=inside, y=y)
        pairs = np.concatenate([choose((count, 1), 5, index_type), choose((count, 1), 12, index_type)], 1)
        deep = x.reshape(5, 12, length)
        same(gathered(view("x", deep), view("i", pairs), view("y", y), 0, clamp=True), x=deep, i=pairs, y=y)


@pytest.mark.parametrize("is_arm", [True, False], ids=["in batches", "one by one"])
def test_batches_of_rows_as_each_kind_of_cpu_takes_them(is_arm: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    as_on(NEOVERSE if is_arm else AVX2, monkeypatch)
    for length in (8, 16, 40):
        x, y = values((7, 30, length), "float32"), empty((7, 11, length), "float32")
        indices = choose((7, 11, 1), 30, "int64")
        same(gathered(view("x", x), view("i", indices), view("y", y), 1, clamp=True), x=x, i=indices, y=y)
