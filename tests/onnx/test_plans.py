"""Plans of programs on disk: the next load has the same bits without a trace; a file that is wrong does no harm."""

from __future__ import annotations

import ast
import hashlib
import inspect
import os
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from onnx_models import model, node  # isort: skip - it asks for onnx

import anydml as dml
import anydml.onnx
from anydml.engines.common import cache
from anydml.engines.cpu import plans
from anydml.onnx import program_cache, stored_plans
from anydml.onnx.lower.trace import trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

AROUND = os.environ.get("ANYDML_CACHE_DIR")
"""Where the kernels of other tests are."""
RNG = np.random.default_rng(0)
WEIGHT = RNG.standard_normal((256, 96), "float32")
LINE = np.arange(0, 32_768, 2)
X = RNG.standard_normal((3, 256), "float32")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where plans lie."""
    monkeypatch.setenv("ANYDML_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setenv(plans.SWITCH, "1")
    cache._prepare.cache_clear()
    yield tmp_path / "kernels" / "plans"
    cache._prepare.cache_clear()


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The shapes of each trace."""
    seen: list[Any] = []

    def watch(source: Any, shapes: Any, *arguments: Any, **options: Any) -> Any:
        seen.append(dict(shapes))
        return trace(source, shapes, *arguments, **options)

    monkeypatch.setattr(program_cache, "trace", watch)
    return seen


def saved(path: Path, weight: Any = WEIGHT, line: Any = LINE, mark: str = "") -> Path:
    """A model with a large weight, a constant that is folded, and large indices that a graph pass looks at."""
    chain = [node("Relu", f"h{i}", f"h{i + 1}") for i in range(stored_plans.FEWEST_NODES)]
    nodes = [
        *(node("MatMul", "x w", "m"), node("Add", "one two", "three"), node("Mul", "m three", "h0"), *chain),
        node("Gather", "t i", "g"),
        *(node("ReduceSum", "g", "s", keepdims=0), node("Add", f"h{len(chain)} s", "y")),
    ]
    one, two = RNG.random(96, "float32"), RNG.random(96, "float32")
    tensors = {"w": weight, "one": one * 0 + 1, "two": two * 0 + 2, "t": np.arange(32_768, dtype="float32"), "i": line}
    proto = model(nodes, {"x": ("float32", ["n", 256])}, "y", tensors)
    proto.doc_string = mark
    path.write_bytes(proto.SerializeToString())
    return path


def parted(path: Path, weight: Any = WEIGHT, last: str = "Relu") -> Path:
    """A model in three parts, of which the host runs the second."""
    chain = [node("Relu", f"h{i}", f"h{i + 1}") for i in range(stored_plans.FEWEST_NODES - 1)]
    after = [node("Relu", f"g{i}", f"g{i + 1}") for i in range(stored_plans.FEWEST_NODES - 1)]
    nodes = [node("MatMul", "x w", "h0"), *chain, node("Unique", f"h{len(chain)}", "g0"), *after]
    proto = model([*nodes, node(last, f"g{len(after)}", "y")], {"x": ("float32", ["n", 256])}, "y", {"w": weight})
    path.write_bytes(proto.SerializeToString())
    return path


def answer(path: Path, x: Any = X, **options: Any) -> Any:
    """What a model that is loaded anew makes of an input."""
    return dml.onnx.load(path, **options).run({"x": x})["y"].tobytes()


def graphs(loaded: Any) -> list[Any]:
    return [program.compiled for program in loaded._programs.values()]


def test_a_model_loaded_again_is_neither_traced_nor_planned(tmp_path: Path, folder: Path, traced: list[Any]) -> None:
    path = saved(tmp_path / "m.onnx")
    first = dml.onnx.load(path)
    assert first.run({"x": X})["y"].tobytes() == answer(path) == answer(saved(tmp_path / "other.onnx"))
    assert len(traced) == 1
    assert len(list(folder.iterdir())) == 1
    again = dml.onnx.load(path)
    again.run({"x": X})
    (ours,), (kept,) = (graphs(loaded) for loaded in (first, again))
    assert str(ours.explain()) == str(kept.explain())
    assert ours.recipe == kept.recipe
    assert again.run({"x": X[:2]})["y"].tobytes() == first.run({"x": X[:2]})["y"].tobytes()
    held = [max(graph.held.items(), key=lambda at: at[1]) for graph in graphs(again)]
    assert held[0] == held[1]  # the weights, once
    assert held[0][1] >= WEIGHT.nbytes
    answer(path, disable_passes=["fusion"])
    answer(path, X[:1])
    assert len(traced) == 4  # of which the first two shapes are kept


def test_a_kept_plan_uses_the_weights_that_the_model_has(tmp_path: Path, traced: list[Any]) -> None:
    answer(saved(tmp_path / "m.onnx"))
    other = saved(tmp_path / "other.onnx", WEIGHT + 1)
    found = answer(other)
    assert len(traced) == 1
    os.environ[plans.SWITCH] = "0"
    assert answer(other) == found
    assert len(traced) == 2


def test_indices_that_a_plan_depends_on_are_compared(tmp_path: Path, traced: list[Any]) -> None:
    first = answer(saved(tmp_path / "m.onnx"))
    found = answer(saved(tmp_path / "other.onnx", line=LINE[::-1] * 0 + 5))
    assert found != first
    assert len(traced) == 2
    os.environ[plans.SWITCH] = "0"
    assert answer(tmp_path / "other.onnx") == found


def test_parts_of_a_model_are_kept_each_for_itself(tmp_path: Path, folder: Path, traced: list[Any]) -> None:
    path = parted(tmp_path / "m.onnx")
    first = answer(path)
    assert len(traced) == len(list(folder.iterdir())) == 2
    assert answer(path) == first
    assert len(traced) == 2
    for file in folder.iterdir():
        _flip(file)
    assert answer(path) == first
    assert len(traced) == 4
    other = answer(parted(tmp_path / "weights.onnx", WEIGHT[::-1].copy()))
    negative = answer(parted(tmp_path / "negative.onnx", last="Neg"))
    assert np.array_equal(np.frombuffer(negative, "f4"), -np.frombuffer(first, "f4"))
    os.environ[plans.SWITCH] = "0"
    assert answer(tmp_path / "weights.onnx") == other != first


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _whole_but_foreign(path: Path) -> None:
    entry = cache.Entry("plan", "", "any", within="plans")
    entry._file, entry._header = path.name, _header(path)
    entry.write(pickle.dumps("something else"))


def _unknown_kernel(path: Path) -> None:
    """One that is whole, and names a kernel that nobody has."""
    entry = cache.Entry("plan", "", "any", within="plans")
    entry._file, entry._header = path.name, _header(path)
    data = entry.read()
    assert data is not None
    read, within, told = plans.load(data, stored_plans._no_name)
    assert b"macrokernel" in within
    entry.write(plans.dump((read, within.replace(b"macrokernel", b"macrokernex"), told), stored_plans._nothing))


def _header(path: Path) -> bytes:
    return path.read_bytes()[cache._DIGEST :].partition(b"\n")[0] + b"\n"


def _open_to_all(path: Path) -> None:
    path.chmod(0o666)


@pytest.mark.parametrize("harm", [_cut, _flip, _whole_but_foreign, _unknown_kernel, _open_to_all])
def test_a_file_that_is_not_as_it_was_is_replaced(
    harm: Callable[[Path], None], tmp_path: Path, folder: Path, traced: list[Any]
) -> None:
    path = saved(tmp_path / "m.onnx")
    first = answer(path)
    (file,) = folder.iterdir()
    harm(file)
    assert answer(path) == first
    assert len(traced) == 2
    assert not file.stat().st_mode & 0o022
    assert answer(path) == first
    assert len(traced) == 2


def test_a_plan_of_other_code_or_threads_is_none(
    tmp_path: Path, folder: Path, traced: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path / "m.onnx")
    first = answer(path)
    monkeypatch.setattr(plans, "_version", lambda: "other")
    assert answer(path) == first
    monkeypatch.setattr(plans, "get_num_threads", lambda: 1000)
    assert answer(path) == first
    assert len(traced) == len(list(folder.iterdir())) == 3
    monkeypatch.setattr(plans, "MOST", 2)
    answer(path, X[:1])
    assert len(list(folder.iterdir())) == 2


def test_what_has_no_form_on_disk_is_not_kept(tmp_path: Path, folder: Path) -> None:
    nodes = [node("RandomUniformLike", "x", "h0"), *(node("Relu", f"h{i}", f"h{i + 1}") for i in range(9))]
    proto = model([*nodes, node("Identity", "h9", "y")], {"x": ("float32", ["n"])}, "y")
    drawn = [dml.onnx.load(proto).run({"x": X[0]})["y"].tobytes() for _ in range(2)]
    assert drawn[0] != drawn[1]
    answer(saved(tmp_path / "m.onnx"), max_memory=2**24)  # where less is folded
    assert not folder.exists() or not list(folder.iterdir())
    with pytest.raises(plans.CannotKeepError, match="may be an address"):
        plans.dump((1, 2**40), stored_plans._nothing)


def _imported(module: str, seen: set[str]) -> set[str]:
    """The modules of the engine that a module imports, directly or not, when it is imported itself."""
    if module.startswith("anydml.engines.cpu") and module not in seen:
        seen.add(module)
        for found in ast.parse(inspect.getsource(sys.modules[module])).body:
            if isinstance(found, ast.ImportFrom) and found.module:
                _imported(found.module, seen)
    return seen


def test_no_kernel_is_written_to_load_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing the writers of kernels took a seventh of SqueezeNet's first answer."""
    weights = {f"w{i}": RNG.random((32, 32, 3, 3), "float32") for i in range(stored_plans.FEWEST_NODES)}
    nodes = [node("Conv", f"h{i} w{i}", f"h{i + 1}", pads=[1, 1, 1, 1]) for i in range(len(weights))]
    proto = model([*nodes, node("Relu", f"h{len(nodes)}", "y")], {"h0": ("float32", [1, 32, 9, 9])}, "y", weights)
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    asked: set[str] = set()
    find = plans._Unpickler.find_class

    def watch(self: Any, module: str, name: str) -> Any:
        asked.add(module)
        return find(self, module, name)

    monkeypatch.setattr(plans._Unpickler, "find_class", watch)
    for _ in range(2):
        dml.onnx.load(path)
    assert any(module == "anydml.engines.cpu.launch.program" for module in asked)
    for module in asked:
        assert "anydml.engines.cpu.gemm.microkernel" not in _imported(module, set()), module


SCRIPT = """
import sys, hashlib, numpy as np, anydml.onnx
x = np.load(sys.argv[2])
print(hashlib.sha256(anydml.onnx.load(sys.argv[1]).run({"x": x})["y"].tobytes()).hexdigest())
"""


@pytest.mark.long
def test_processes_that_keep_a_plan_at_once_have_one(
    tmp_path: Path, traced: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if AROUND is None:
        monkeypatch.delenv("ANYDML_CACHE_DIR")
    else:
        monkeypatch.setenv("ANYDML_CACHE_DIR", AROUND)
    path, given = saved(tmp_path / "m.onnx", mark=str(tmp_path)), tmp_path / "x.npy"
    np.save(given, X)
    written: list[Any] = []
    monkeypatch.setattr(cache.Entry, "write", lambda self, _: written.append(self))
    first = answer(path)
    (entry,) = (one for one in written if one._file.startswith("plan-"))  # kernels may be new as well
    file = entry.folder / entry._file
    monkeypatch.undo()
    command, env = [sys.executable, "-c", SCRIPT, str(path), str(given)], {**os.environ, plans.SWITCH: "1"}
    several = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) for _ in range(2)]  # noqa: S603 - ours
    said = [one.communicate(timeout=120)[0] for one in several]
    assert said == [f"{hashlib.sha256(first).hexdigest()}\n"] * 2
    data = entry.read()
    file.unlink()
    assert data is not None
    assert len(plans.load(data, stored_plans._no_name)) == 3
