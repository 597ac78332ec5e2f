"""A model's weights are held once, however many programs there are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from onnx_models import helper, model, node, onnx  # isort: skip - it asks for onnx

import anydml as dml
import anydml.onnx
from anydml.arrays.shared import SharedData
from anydml.core.memory import Buffer, numpy_address, reserve_host
from anydml.graph.recipe import Recipe
from anydml.onnx import external_data
from anydml.runtime import constants
from anydml.runtime.constant_program import Once
from paths import PATHS

ROWS, COLUMNS = 300_000, 4
TABLE = np.arange(ROWS * COLUMNS, dtype="float32").reshape(ROWS, COLUMNS)
X = np.arange(40, dtype="float32").reshape(10, 4)


def places(loaded: Any) -> list[set[int]]:
    """For each program, where the constants lie that every dispatch reads."""
    return [set(program.compiled._constants.places.values()) for program in loaded._programs.values()]


def run(loaded: Any, lengths: Any = range(1, 9)) -> None:
    for n in lengths:
        found = loaded.run({"x": X[:n]})["y"]
        assert np.array_equal(found[-n:], X[:n])


def joined(weight: str = "w", nodes: tuple[Any, ...] = (), table: Any = TABLE) -> Any:
    """A weight put before an input of any length."""
    last = node("Concat", f"{weight} x", "y", axis=0)
    return model([*nodes, last], {"x": ("float32", ["n", COLUMNS])}, "y", {} if table is None else {"w": table})


def test_programs_share_weights() -> None:
    loaded = dml.onnx.load(joined())
    run(loaded)
    first, *others = places(loaded)
    assert len(first) == 1
    assert others == [first] * 7


def test_programs_share_the_weights_that_they_gather_from() -> None:
    proto = model(node("Gather", "w i", "y"), {"i": ("int64", ["n"])}, "y", {"w": TABLE})
    loaded = dml.onnx.load(proto)
    for n in range(1, 9):
        assert np.array_equal(loaded.run({"i": np.arange(n)})["y"], TABLE[:n])
    assert len(set.union(*places(loaded))) == 1


def test_programs_share_constants() -> None:
    table = helper.make_node("Constant", [], ["w"], value=onnx.numpy_helper.from_array(TABLE))
    loaded = dml.onnx.load(joined("w", (table,), None))
    run(loaded)
    assert len(set.union(*places(loaded))) == 1


@pytest.mark.parametrize("rows", [ROWS // 4, ROWS])  # computed while tracing, and when the graph is compiled
def test_programs_share_what_is_computed_of_weights(rows: int) -> None:
    table = TABLE[:rows].reshape(COLUMNS, rows)
    nodes = (node("Transpose", "w", "t"), node("CumSum", "t a", "s"))
    proto = joined("s", nodes, table)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array(1), "a"))
    loaded = dml.onnx.load(proto)
    run(loaded)
    assert len(set.union(*places(loaded))) == 1
    found = loaded.run({"x": X})["y"][:rows]
    np.testing.assert_allclose(found, np.cumsum(table.T, axis=1, dtype="float64"), rtol=1e-6)


def test_programs_of_any_number_of_rows_share_what_is_laid_out_ahead() -> None:
    weight = np.random.default_rng(0).standard_normal((256, 120), "float32")
    proto = model(node("MatMul", "x w", "y"), {"x": ("float32", ["n", 256])}, "y", {"w": weight})
    loaded = dml.onnx.load(proto)
    for n in (1, 5, 8, 9, 40):
        x = np.ones((n, 256), "float32")
        assert loaded.run({"x": x})["y"].tobytes() == dml.gemm(x, weight).tobytes()
    first, *others = places(loaded)
    assert len(first) == 1
    assert others == [first] * 4


def test_what_is_computed_goes_with_the_last_program() -> None:
    nodes = (node("Shape", "x", "h"), node("Slice", "w z h", "s"))
    proto = joined("s", nodes)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0, 0]), "z"))
    loaded = dml.onnx.load(proto)
    for n in range(1, 9):
        assert np.array_equal(loaded.run({"x": X[:n]})["y"], np.concatenate([TABLE[:n], X[:n]]))
    (weight,) = (v for v in loaded._kept.values() if v.count == TABLE.size)
    assert weight.known is not None
    shared = weight.known.data(TABLE.nbytes)
    before = len(shared.derived)
    loaded._programs.clear()
    assert len(shared.derived) <= before
    assert not len(shared.derived)


def test_a_value_that_a_run_gives_is_not_kept() -> None:
    proto = model(node("Concat", "w x", "y", axis=0), {"x": ("float32", ["n"]), "w": ("float32", [2])}, "y")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, 2], "float32"), "w"))
    loaded = dml.onnx.load(proto)
    one = np.ones(1, "float32")
    for _ in range(2):
        assert loaded.run({"x": one})["y"].tolist() == [1, 2, 1]
        assert loaded.run({"x": one, "w": np.array([7, 8], "float32")})["y"].tolist() == [7, 8, 1]


def test_bytes_are_shared_in_each_memory() -> None:
    data = SharedData(TABLE.nbytes, lambda: TABLE)
    assert len(data) == TABLE.nbytes
    assert data.buffer("cpu").address == TABLE.__array_interface__["data"][0]
    assert data.buffer("cpu") is data.buffer("cpu")


GROWTH = """
import sys
sys.path[:0] = {paths!r}
import numpy as np, anydml as dml, anydml.onnx
def taken(what):
    return next(int(line.split()[1]) // 1024 for line in open("/proc/self/status") if line.startswith(what))
before = taken("VmRSS")
loaded = dml.onnx.load({path!r})
loaded.run({feed}(1))
first = taken("VmRSS")
open("/proc/self/clear_refs", "w").write("5")  # the most from here on
for n in range(2, 41):
    loaded.run({feed}(n))
print(first - before, taken("VmHWM") - first)
"""
GATHER = model(node("Gather", "w x", "y"), {"x": ("int64", ["n"])}, "y")
CASES = [
    (joined(table=None), 'lambda n: {"x": np.zeros((n, 4), "float32")}', 70),  # with two results of 49 MiB
    (GATHER, 'lambda n: {"x": np.arange(n)}', 10),
]


@pytest.mark.parametrize(("proto", "feed", "most"), CASES, ids=["Concat", "Gather"])
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="how much memory is taken is asked of Linux")
def test_forty_lengths_take_no_more_memory(tmp_path: Path, proto: Any, feed: str, most: int) -> None:
    """In MiB: 49 of weights, which 40 programs held twice each."""
    path = tmp_path / "model.onnx"
    weighty = type(proto)()
    weighty.CopyFrom(proto)
    table = np.ones((49 * 2**16, 4), "float32")
    weighty.graph.initializer.append(onnx.numpy_helper.from_array(table, "w"))
    path.write_bytes(weighty.SerializeToString())
    code = GROWTH.format(paths=PATHS, path=str(path), feed=f"({feed})")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)  # noqa: S603 - our own code
    assert found.returncode == 0, found.stderr[-2000:]
    _loaded, growth = map(int, found.stdout.split())
    assert growth < most, found.stdout


def test_a_gpu_has_weights_once_and_small_constants_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the host in a GPU's place: what is counted is how often, and what, is copied there."""
    copied: list[int] = []

    def upload(data: np.ndarray, _memory: str) -> Buffer:
        assert data.flags.writeable
        copied.append(data.size)
        return Buffer(numpy_address(data), data.size, True, data)

    monkeypatch.setattr("anydml.arrays.shared.upload", upload)
    monkeypatch.setattr(constants, "upload", upload)
    engine: Any = SimpleNamespace(memory="cuda:0", reserve=reserve_host)
    table = np.frombuffer(TABLE.tobytes(), "float32")  # which may not be written to
    large, small = SharedData(TABLE.nbytes, lambda: table), SharedData(8, lambda: np.array([7]))
    stores = [f"constant{i}" for i in range(3)]
    data: Any = {"constant0": large, "constant1": small, "constant2": b"12345678"}
    first, second = (constants.Constants(engine, "test", data, Once.of(Recipe({}, ())), stores) for _ in range(2))
    assert copied == [TABLE.nbytes, 512, 512]
    assert first.places["constant0"] == second.places["constant0"]
    assert first.places["constant2"] == first.places["constant1"] + 256


def sliced(path: Path, *, is_beside: bool = False) -> Any:
    """A model in a file, of which every length reads another part of a weight."""
    proto = joined("s", (node("Shape", "x", "h"), node("Slice", "w z h", "s")))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0, 0]), "z"))
    onnx.save_model(proto, path, save_as_external_data=is_beside, location="weights", size_threshold=0)
    return dml.onnx.load(path)


def run_sliced(loaded: Any, n: int) -> None:
    assert np.array_equal(loaded.run({"x": X[:n]})["y"], np.concatenate([TABLE[:n], X[:n]]))


@pytest.mark.skipif(not external_data.CAN_HOLD, reason="files that are open cannot be deleted on Windows")
def test_weights_of_a_file_are_read_when_they_are_asked_for_though_it_is_deleted(tmp_path: Path) -> None:
    loaded = sliced(tmp_path / "model.onnx")
    weight = next(each for each in loaded._source.model.graph.initializer if each.name == "w")
    assert isinstance(weight.data, external_data.Piece)
    run_sliced(loaded, 2)
    known = loaded._kept["w"].known
    assert known._flat is None
    assert known.data(TABLE.nbytes)._of_host() is None  # nobody has it any more
    (tmp_path / "model.onnx").unlink()
    run_sliced(loaded, 3)


@pytest.mark.parametrize("is_beside", [False, True])
def test_a_file_that_changed_since_it_was_loaded_is_refused(tmp_path: Path, is_beside: bool) -> None:
    if not (is_beside or external_data.CAN_HOLD):
        pytest.skip("the file was read whole")
    loaded = sliced(tmp_path / "model.onnx", is_beside=is_beside)
    run_sliced(loaded, 2)
    file = tmp_path / ("weights" if is_beside else "model.onnx")
    os.utime(file, ns=(1, 1))
    with pytest.raises(dml.ModelFileError, match=r"must stay as it was when .*load the model again"):
        run_sliced(loaded, 3)
    run_sliced(loaded, 2)


@pytest.mark.parametrize("name", ["two raw fields", "short", "group", "twice"])
def test_an_odd_file_is_read_whole(tmp_path: Path, name: str) -> None:
    """What is cut out of a file changes nothing that protobuf says of it."""
    proto = joined()
    tensor = proto.graph.initializer[0]
    if name == "twice":
        proto.graph.initializer.append(tensor)
    data = proto.SerializeToString()
    if name == "two raw fields":  # of which the last counts: appended to the last tensor of a graph appended again
        more = type(tensor)(name="v", dims=[20_000], data_type=1, raw_data=bytes(80_000)).SerializeToString()
        more += b"\x4a" + bytes([0x80, 0xF1, 4]) + b"\1" * 80_000
        graph = b"\x2a" + _varint(len(more)) + more
        data += b"\x3a" + _varint(len(graph)) + graph
    data = data[:-7] if name == "short" else data + b"\x0b\x0c" if name == "group" else data
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    with path.open("rb") as file:
        assert external_data.cut_out(file, len(data), 65_536) is None or name == "twice"
    found = []
    for given in (path, data):
        try:
            found.append(dml.onnx.load(given).run({"x": X})["y"].tobytes())
        except dml.DmlError as error:
            found.append(str(error.faults[0].rule))
    assert found[0] == found[1]


def _varint(number: int) -> bytes:
    return bytes([*(number >> 7 * k & 127 | 128 for k in range(4)), number >> 28])
