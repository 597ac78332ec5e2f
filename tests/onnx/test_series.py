"""A small model's steps are one call from its second run on, wherever its arrays lie."""

from __future__ import annotations

import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from onnx_models import model, node  # isort: skip - it asks for onnx


import anydml as dml
import anydml.onnx
from anydml.engines.common.program import Place
from anydml.engines.cpu import plans
from anydml.engines.cpu.launch.program import KernelProgram, Otherwise, make_series
from anydml.engines.cpu.launch.record import HEADER, WALK, Layout, Pointer, Record, Relocation, Table
from anydml.engines.cpu.move.copy import get_copy
from anydml.engines.cpu.threads import team
from anydml.engines.reference import ReferenceProgram
from anydml.ir.patterns import copy_of
from anydml.ir.views import View
from anydml.onnx.program import Program

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.onnx import Model

RNG = np.random.default_rng(8)
VIEWS = [View(name, dml.DataType.FLOAT32, (4,), (1,)) for name in "xy"]
TABLE = np.arange(12, dtype="float32").reshape(4, 3)


def drawn(*shape: int) -> Any:
    return RNG.integers(-3, 4, shape).astype("float32")


@pytest.fixture(autouse=True)
def bound(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The runs that are bound to their arrays."""
    found: list[int] = []
    run_bound = Program._run_bound

    def counted(self: Program, *given: Any) -> None:
        found.append(1)
        run_bound(self, *given)

    monkeypatch.setattr(Program, "_run_bound", counted)
    return found


def products(size: int) -> tuple[Model, Callable[..., Any]]:
    """Three steps with memory between them."""
    weight = drawn(size, size)
    nodes = [node("MatMul", "a w", "p"), node("CumSum", "p axis", "q"), node("MatMul", "q b", "y")]
    shapes = {"a": ("float32", [4, size]), "b": ("float32", [size, size])}
    found = dml.onnx.load(model(nodes, shapes, "y", {"w": weight, "axis": np.array(0)}, dtypes={"y": "float32"}))
    return found, lambda a, b: np.cumsum(a @ weight, axis=0) @ b


@pytest.mark.parametrize("size", [8, 240])
def test_new_arrays_are_not_bound(size: int, bound: list[int]) -> None:
    """Those of 240 x 240 are much enough to be shared out among threads."""
    loaded, wanted = products(size)
    kept = []
    for _ in range(6):
        given = {"a": drawn(4, size), "b": drawn(size, size)}
        kept.append((given, loaded.run(given)["y"]))
    assert len(bound) == (2 if size == 8 or team.is_available() else 6)
    for given, found in kept:
        np.testing.assert_array_equal(found, wanted(**given))


def test_arrays_may_begin_anywhere(bound: list[int]) -> None:
    loaded = dml.onnx.load(model(node("Add", "a b", "y"), {n: ("float32", [5]) for n in "ab"}))
    whole = np.arange(40, dtype="float32")
    octets = np.zeros(21, np.uint8)
    for i in range(5):
        octets[1:].view("float32")[:] = i
        found = loaded.run({"a": whole[i : i + 5], "b": octets[1:].view("float32")})
        np.testing.assert_array_equal(found["y"], whole[i : i + 5] + i)
    assert len(bound) == 2


def test_an_index_outside_is_told_as_by_the_first_run(bound: list[int]) -> None:
    gather = model(node("Gather", "table i", "y", name="pick"), {"i": ("int64", [2])}, "y", {"table": TABLE})
    loaded, told = dml.onnx.load(gather), []
    for _ in range(2):
        for indices in ([0, 9], [3, 1], [1, 2], [2, 0]):
            given = np.array(indices)
            if indices[1] == 9:
                with pytest.raises(dml.DmlError, match="pick") as caught:
                    loaded.run({"i": given})
                told.append(str(caught.value))
            else:
                np.testing.assert_array_equal(loaded.run({"i": given})["y"], TABLE[given])
    assert told[0] == told[1]
    assert len(bound) == 3


def test_runs_at_the_same_time_have_scratch_memory_of_their_own() -> None:
    loaded, wanted = products(40)
    several = [{"a": drawn(4, 40), "b": drawn(40, 40)} for _ in range(6)]

    def run(i: int) -> bool:
        given = several[i % len(several)]
        return bool((loaded.run(given)["y"] == wanted(**given)).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(200)))


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="None is not counted from 3.12 on")
@pytest.mark.parametrize("size", [8, 240])
def test_none_is_counted_as_often_as_it_is_given(size: int) -> None:
    loaded, _ = products(size)
    given = {"a": drawn(4, size), "b": drawn(size, size)}
    for _ in range(3):
        loaded.run(given)
    before = sys.getrefcount(None)
    for _ in range(300):
        loaded.run(given)
    assert abs(sys.getrefcount(None) - before) < 100


def copying(count: int, offset: int = 0) -> KernelProgram:
    """A copy of some floats from "x" to "y", so many bytes on."""
    record = WALK.write(
        {"source": Pointer("x", 0), "target": Pointer("y", offset), "count": count, "segments": 1, "length": count}
    )
    return KernelProgram(get_copy("copy run 4"), record, 1, 8 * count)


def test_programs_run_on_arrays_and_on_memory_that_is_known() -> None:
    """Each tensor an array's, so many bytes on, or memory of which the address is known."""
    x, y, z = np.arange(6, dtype="f"), np.zeros(8, "f"), np.zeros(6, "f")
    first = {"x": Place(0, 8), "y": Place(1, 4)}
    second = {"x": Place(1, 0), "y": Place(None, z.ctypes.data)}
    run = make_series([copying(4), copying(6)], [first, second])
    assert run is not None
    for by in (1, 2):
        assert run(by * x, y) is None
        np.testing.assert_array_equal(y[1:5], by * x[2:])
        np.testing.assert_array_equal(z, y[:6])


def test_what_depends_on_an_addresss_alignment_is_bound() -> None:
    program = copying(4)
    places = [{"x": Place(0, 0), "y": Place(1, 0)}]
    aligned = replace(program, alignment=Otherwise(1, 4, get_copy("copy run 1")))
    assert make_series([program], places) is not None
    assert make_series([aligned], places) is None
    assert make_series([program, ReferenceProgram(copy_of(*VIEWS))], 2 * places) is None
    x, y = np.arange(4, dtype="f"), np.zeros(5, "f")
    for on, name in ((0, "copy run 4"), (1, "copy run 1")):
        launch = aligned.bind({"x": x.ctypes.data, "y": y.ctypes.data + on})
        assert launch.__self__[24:32] == struct.pack("q", get_copy(name).address)  # type: ignore[attr-defined]  # a built-in's


def test_a_program_is_kept_without_addresses() -> None:
    """A plan on disk has the record and its relocations, and is bound as the program that it was made of."""
    program = copying(4, offset=4)
    x, y = np.arange(4, dtype="f"), np.zeros((2, 5), "f")
    program.bind({"x": x.ctypes.data, "y": y[0].ctypes.data})()
    loaded = plans.load(plans.dump(program, lambda _: None), lambda _: None)
    loaded.bind({"x": x.ctypes.data, "y": y[1].ctypes.data})()
    assert loaded.record == program.record
    np.testing.assert_array_equal(y, [[0, 0, 1, 2, 3]] * 2)


def test_fields_are_written_and_read_by_name() -> None:
    layout = Layout("first", Table("pairs", 2, "a b", ""), "last")
    record = layout.write({"last": Pointer("y", 12), "pairs": [1, 2, 3]})
    assert record == Record((0, 1, 2, 3, 0, 0), (Relocation(5, "y", 12),))
    assert (layout.at("last"), layout.end) == (8 * (HEADER + 5), HEADER + 6)
    read = layout.read([0] * HEADER + [7, 1, 2, 3, 4, 9])
    assert (read.first, [(pair.a, pair.b) for pair in read.pairs], read.last) == (7, [(1, 2), (3, 4)], 9)
    both = Record.of((5,), record, [Pointer("", 8), Pointer("x", 0)])
    assert both.words == (5, 0, 1, 2, 3, 0, 0, 8, 0)
    assert both.relocations == (Relocation(6, "y", 12), Relocation(8, "x", 0))
    with pytest.raises(KeyError, match="no fields of this record: lost"):
        layout.write({"lost": 1})
    with pytest.raises(ValueError, match="pairs has room for 4 words, and not for 5"):
        layout.write({"pairs": [0] * 5})
