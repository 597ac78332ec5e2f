"""Small files that ask for much: a limit on memory, on dimensions, and on what is computed before a run."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner

from onnx_models import helper, model, node, onnx  # isort: skip - it asks for onnx

import anydml as dml
import anydml.onnx
from anydml.cli.app import app
from paths import PATHS

if TYPE_CHECKING:
    from pathlib import Path

MANY, HUGE = 65_536, 2**62
LARGE = "model: the model's memory must be at most 256 MiB"
MORE = "--max-memory, or max_memory=, allows more"


def huge(kind: str, inputs: str, x: Any = (2,), **constants: Any) -> Any:
    attributes = {"axis": 0} if kind == "Concat" else {}
    return model(node(kind, inputs, "y", name="n", **attributes), {"x": ("float32", list(x))}, "y", constants)


def expand() -> Any:
    """132 bytes and the sizes: strides of these would be gigabytes."""
    return huge("Expand", "x to", [1], to=np.full(MANY, HUGE))


def reshape() -> Any:
    return huge("Reshape", "x to", to=np.full(MANY, HUGE))


def fill() -> Any:
    return huge("ConstantOfShape", "to", to=np.full(MANY, HUGE))


def unsqueeze() -> Any:
    return huge("Unsqueeze", "x to", to=np.arange(MANY))


def declared() -> Any:
    return huge("Identity", "x", [HUGE] * MANY)


def shown() -> Any:
    return huge("Shape", "x", [HUGE] * MANY)


def unused() -> Any:
    """200 constants that nobody reads, of 4 MiB each."""
    fills = [node("ConstantOfShape", "to", f"f{i}") for i in range(200)]
    return model([*fills, node("Identity", "x", "y")], {"x": ("float32", [2])}, "y", {"to": np.array([2**20])})


def used() -> Any:
    """As many that are put together, 800 MiB: what is computed before a run is bounded."""
    fills = [node("ConstantOfShape", "to", f"f{i}") for i in range(200)]
    sums = [node("CumSum", f"f{i} zero", f"s{i}") for i in range(200)]
    last = node("Concat", " ".join(f"s{i}" for i in range(200)), "y", axis=0)
    return model([*fills, *sums, last], {}, "y", {"to": np.array([2**20]), "zero": np.array(0)})


def folded() -> Any:
    """A sum of 8 GiB that depends on nothing, and would be computed when the graph is compiled."""
    nodes = [node("ConstantOfShape", "to", "f"), node("CumSum", "f zero", "s"), node("Gather", "s x", "y")]
    return model(nodes, {"x": ("int64", [1])}, "y", {"to": np.array([2**31]), "zero": np.array(0)})


def result() -> Any:
    return huge("Expand", "x to", [1], to=np.array([2**31]))


def numbers() -> Any:
    """A list of sizes of 8 MiB, each number of which would be an object."""
    return huge("Reshape", "x to", [1], to=np.ones(2**20, np.int64))


def parts() -> Any:
    """20,000 inputs of one node: a square of that would take minutes."""
    return huge("Concat", " ".join(["x"] * 20_000))


def entries() -> bytes:
    """A MiB of nodes of two bytes each."""
    return several(b"\x0a\x00", 2**19)


def names() -> bytes:
    """4 MiB of names of one node."""
    return several(b"\x0a\x84\x80\x80\x02" + b"\x0a\x00" * (2**21 + 2), 1)


def attributes() -> bytes:
    """10 MiB of attributes."""
    return several(b"\x0a\x80\x80\x80\x05" + b"\x2a\x00" * (5 * 2**20), 1)


def several(unit: bytes, count: int) -> bytes:
    """A model with more of something in its graph."""
    more = unit * count
    size, written = len(more), b""
    while size > 127:
        written, size = written + bytes([size & 127 | 128]), size >> 7
    return bytes(huge("Identity", "x").SerializeToString()) + b"\x3a" + written + bytes([size]) + more


LIMITED = """
import resource, sys
sys.path[:0] = {paths!r}
import anydml as dml, anydml.onnx, tests.onnx.test_limits as models
import numpy as np
proto = models.{name}()
dml.onnx.load(models.result(), max_memory=2**40)  # whatever loading takes is there
taken = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (taken + 3 * 2**28,) * 2)
def run():
    return dml.onnx.load(proto, max_memory=2**28).run(models.feed(proto))["y"].shape
for act in (lambda: dml.onnx.check(proto).status, run):
    try:
        print(act())
    except dml.DmlError as error:
        print(error)
"""


def feed(proto: Any) -> dict[str, Any]:
    """Zeros for a model's inputs."""
    inputs = {name.name: name.type.tensor_type for name in proto.graph.input}
    return {
        name: np.zeros([d.dim_value for d in kind.shape.dim], helper.tensor_dtype_to_np_dtype(kind.elem_type))
        for name, kind in inputs.items()
    }


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("expand", "3\nnode 'n' (Expand): shape must have at most 64 dimensions, NumPy's most; got 65536\n"),
        ("reshape", "3\nnode 'n' (Reshape): shape must have at most 64 dimensions, NumPy's most; got 65536\n"),
        ("fill", "3\nnode 'n' (ConstantOfShape): input must have at most 64 dimensions, NumPy's most; got 65536\n"),
        ("unsqueeze", "3\nnode 'n' (Unsqueeze): expanded must have at most 64 dimensions, NumPy's most; got 65537\n"),
        ("declared", "model: input 'x' must have at most 64 dimensions, NumPy's most; got 65536\n" * 2),
        ("shown", "model: input 'x' must have at most 64 dimensions, NumPy's most; got 65536\n" * 2),
        ("numbers", "3\nnode 'n' (Reshape): shape must have at most 64 dimensions, NumPy's most; got 1048576\n"),
        ("unused", "0\n(2,)\n"),
        ("entries", "model: the graph must have at most 100000 nodes; got 524289\n" * 2),
        ("names", f"1\n{LARGE}; got 512 MiB of nodes, names and attributes; {MORE}\n"),
        (
            "attributes",
            "model: the model must have at most 2^22 = 4194304 entries, those of its nodes included; got more\n" * 2,
        ),
        ("parts", "0\n(40000,)\n"),
        ("used", f"0\n{LARGE}; got 800 MiB of results; {MORE}\n"),
        ("result", f"0\n{LARGE}; got 8 GiB of results; {MORE}\n"),
        ("folded", f"0\n{LARGE}; got 16 GiB of results, scratch memory and constants; {MORE}\n"),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="the limit on a process's memory is Linux's")
def test_a_small_file_takes_little_memory_and_time(name: str, told: str) -> None:
    code = LIMITED.format(paths=PATHS, name=name)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)  # noqa: S603 - our own code
    assert (found.returncode, found.stdout) == (0, told), found.stderr[-2000:]


def test_memory_is_that_of_the_model_and_its_results(tmp_path: Path) -> None:
    proto = model(node("Concat", "w x", "y", axis=0), {"x": ("float32", ["n"])}, "y", {"w": np.ones(1000, "float32")})
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    size = path.stat().st_size
    loaded = dml.onnx.load(path, max_memory=size + 4 * 1100)
    assert loaded.max_memory == size + 4400
    assert loaded(np.ones(100, "float32")).shape == (1100,)
    told = rf"got 4.301 KiB of results, beside .* KiB of the model itself; {MORE}"
    with pytest.raises(dml.ModelFileError, match=told):
        loaded(np.ones(101, "float32"))
    with pytest.raises(dml.ModelFileError, match="of the file; --max-memory"):
        dml.onnx.load(path, max_memory=size - 1)
    with pytest.raises(dml.ModelFileError, match="of the file; --max-memory"):
        dml.onnx.check(path, max_memory=size - 1)
    with pytest.raises(dml.DescriptionError, match="max_memory must"):
        dml.onnx.load(path, max_memory=-1)


def test_tensors_beside_a_model_count_when_they_are_read(tmp_path: Path) -> None:
    proto = model(node("Concat", "w x", "y", axis=0), {"x": ("float32", ["n"])}, "y", {"w": np.ones(1000, "float32")})
    path = tmp_path / "model.onnx"
    onnx.save_model(proto, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    size = path.stat().st_size
    assert dml.onnx.check(path, max_memory=size)
    for limit, told in (
        (size + 4003, "of results;|of results, b"),
        (size + 8003, "3.91 KiB of results and scratch memory, beside 4"),
    ):
        with pytest.raises(dml.ModelFileError, match=told):
            dml.onnx.load(path, max_memory=limit)(np.ones(1, "float32"))
    assert dml.onnx.load(path, max_memory=size + 8004)(np.ones(1, "float32")).shape == (1001,)


def test_the_limit_on_the_command_line(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="comparing needs ONNX Runtime: make test EXTRAS=onnx")
    path = tmp_path / "model.onnx"
    proto = model(node("Expand", "x to", "y"), {"x": ("float32", [1])}, "y", {"to": np.array([2**20])})
    path.write_bytes(proto.SerializeToString())
    for command in ("run", "compare", "explain"):
        result = CliRunner().invoke(app, [command, str(path), "--max-memory", "2M"])
        assert (result.exit_code, "must be at most 2 MiB; got 4 MiB of results" in result.output) == (2, True), command
        assert CliRunner().invoke(app, [command, str(path), "--max-memory", "16M"]).exit_code == 0
    assert CliRunner().invoke(app, ["check", str(path), "--max-memory", "2M"]).exit_code == 0
    assert "of the file" in CliRunner().invoke(app, ["check", str(path), "--max-memory", "20"]).output


def test_thousands_of_outputs_have_short_names() -> None:
    names = " ".join(f"y{i}" for i in range(500))
    loaded = dml.onnx.load(model(node("Split", "x", names, name="cut"), {"x": ("float32", [500])}, names))
    (program,) = loaded._programs.values()
    assert program.compiled is not None
    found = list(program.compiled.outputs)
    assert found[:3] == ["cut", "cut'", "cut''"]
    assert (found[-1], len(set(found))) == ("cut'499", 500)
    assert [y.tolist() for y in loaded(np.arange(500, dtype="float32"))] == [[float(i)] for i in range(500)]


def test_sizes_that_no_number_counts() -> None:
    for kind in ("Size", "Shape", "Identity"):
        with pytest.raises(dml.UnsupportedError, match=r"input 'x': a tensor must have at most 2\^63 - 1"):
            dml.onnx.load(huge(kind, "x", [HUGE, 2]))
    assert dml.onnx.load(huge("Size", "x", ["n", 2])).outputs["y"].shape == ()
    assert dml.onnx.load(huge("Size", "x", [HUGE - 1, 2])).outputs["y"].shape == ()
