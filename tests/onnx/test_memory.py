"""What a model holds: its weights once, one arena for all its programs, and no more than was planned."""

from __future__ import annotations

import gc
import itertools
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from onnx_models import model, node  # isort: skip - it asks for onnx

import onnx

import anydml as dml
import anydml.onnx
from anydml.core.memory import CACHE_LINE, LARGE_PAGE, reserve_host
from anydml.graph.recipe import Recipe
from anydml.runtime.constant_program import Once
from anydml.runtime.constants import Constants

if TYPE_CHECKING:
    from pathlib import Path

RNG = np.random.default_rng(5)
SIDE, COUNT = 512, 6
SLACK = 2**20
"""Bytes of Python's own objects."""


def products(path: Path, *, is_external: bool) -> tuple[list[np.ndarray[Any, Any]], int]:
    """A file with products by weights of 1 MiB and rows of a table, and the bytes of all that."""
    weights = [RNG.standard_normal((SIDE, SIDE)).astype("float32") / 23 for _ in range(COUNT)]
    constants = {f"w{i}": weight for i, weight in enumerate(weights)}
    nodes = [node("Gather", "table ids", "x0")]
    nodes += [node("MatMul", f"x{i} w{i}", f"x{i + 1}") for i in range(COUNT)]
    table = RNG.standard_normal((1000, SIDE)).astype("float32")
    made = model(nodes, {"ids": ("int64", ["n"])}, f"x{COUNT}", {**constants, "table": table})
    proto = made if isinstance(made, onnx.ModelProto) else onnx.load_model_from_string(made)
    onnx.save_model(proto, path, save_as_external_data=is_external, location="beside", size_threshold=1024)
    return [table, *weights], table.nbytes + sum(weight.nbytes for weight in weights)


@pytest.mark.parametrize("is_external", [False, True], ids=["in the file", "beside it"])
def test_weights_are_held_once_and_arenas_are_shared(is_external: bool, tmp_path: Path) -> None:
    (table, *weights), size = products(tmp_path / "m.onnx", is_external=is_external)
    ids = RNG.integers(0, 1000, 24)

    def run(loaded: Any, count: int) -> None:
        wanted = table[ids[:count]].astype("float64")
        for weight in weights:
            wanted = wanted @ weight
        np.testing.assert_allclose(loaded.run({"ids": ids[:count]})[f"x{COUNT}"], wanted, rtol=1e-3, atol=1e-4)

    run(dml.onnx.load(tmp_path / "m.onnx"), 24)  # kernels are compiled, and modules imported
    gc.collect()
    tracemalloc.start()
    try:
        loaded = dml.onnx.load(tmp_path / "m.onnx")
        run(loaded, 24)
        now, peak = tracemalloc.get_traced_memory()
        planned = loaded.memory
        assert size <= planned.weights <= 1.05 * size  # panels have widths of their own
        # Memory in large pages begins where one does: what lies before is never touched.
        assert planned.weights <= now <= planned.weights + planned.arena + LARGE_PAGE + SLACK
        assert peak <= now + table.nbytes + SLACK  # what is packed is read through one piece of memory
        arenas = loaded._spares.arenas
        assert arenas.held == planned.arena > 0
        for count in (3, 24, 17):
            run(loaded, count)
        assert loaded.memory.weights <= 1.05 * planned.weights
        assert loaded.memory.arena == planned.arena
        assert arenas.held == planned.arena
        assert tracemalloc.get_traced_memory()[0] <= now + SLACK
    finally:
        tracemalloc.stop()
    assert str(planned).count("iB") >= 3


def test_memory_begins_with_a_line_of_the_cache_and_much_of_it_with_a_large_page() -> None:
    small, large = reserve_host(4096), reserve_host(LARGE_PAGE + 5)
    assert not any(reserve_host(size).address % CACHE_LINE for size in (1, 100, 5000, 70_000))
    assert (small.size, large.size) == (4096, LARGE_PAGE + 5)
    assert large.address % LARGE_PAGE == 0
    array = large.numpy(0, (large.size,), (1,), np.dtype(np.uint8))
    array[...] = 7
    del large
    assert (array == 7).all()


def test_results_that_last_share_blocks_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anydml.runtime.constants._BLOCK", 4096)
    constants = Constants(dml.Device("cpu").engine, "test", {}, Once.of(Recipe({}, ())), ())
    sizes = (1000, 3000, 100, 5000, 200)
    rooms = list(constants._rooms(sizes))
    assert tuple(room.size for room in rooms) == sizes
    assert not any(a.overlaps(b) for a, b in itertools.combinations(rooms, 2))
    first, second, third, alone, last = rooms
    assert [room.address - first.address for room in (first, second)] == [0, 1024]
    assert [room.address - third.address for room in (third, last)] == [0, 256]
    assert alone.owner is not last.owner is third.owner is not first.owner


def test_weights_of_few_bits_are_laid_out_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """None becomes FLOAT32, which takes eight times as much, by many rows either."""
    constants: dict[str, Any] = {}
    nodes, weights = [], []
    options = {"domain": "com.microsoft", "K": SIDE, "N": SIDE, "bits": 4, "block_size": 32}
    for i in range(COUNT):
        held = RNG.integers(0, 256, (SIDE, SIDE // 32, 16)).astype("uint8")
        constants |= {f"q{i}": held, f"s{i}": np.full(SIDE * SIDE // 32, 0.01, "float32")}
        weights.append((np.stack([held & 15, held >> 4], -1).reshape(SIDE, SIDE).T - 8.0) * 0.01)
        nodes.append(node("MatMulNBits", f"x{i} q{i} s{i}", f"x{i + 1}", **options))
    made = model(nodes, {"x0": ("float32", [32, SIDE])}, f"x{COUNT}", constants)
    made.opset_import.add(domain="com.microsoft", version=1)
    reserved: list[int] = []
    reserve = Constants.reserve

    def counted(self: Constants, size: int) -> Any:
        reserved.append(size)
        return reserve(self, size)

    monkeypatch.setattr(Constants, "reserve", counted)
    found = dml.onnx.load(made).run({"x0": np.eye(32, SIDE, dtype="float32")})[f"x{COUNT}"]
    wanted = np.eye(32, SIDE)
    for weight in weights:
        wanted = wanted @ weight
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)
    assert sum(reserved) <= COUNT * SIDE * SIDE // 2 * 1.05


def test_equal_calls_on_a_graph_are_told_from_almost_equal_ones() -> None:
    graph = dml.Graph()
    x = graph.input(dml.TensorDesc("float32", (1, 1, 1, 2)), "x")
    values = (0.0, -0.0, 0.0, 1.0)
    several = [dml.padding(x, (0, 0, 0, 0), (0, 0, 0, 1), padding_value=value) for value in values]
    made = graph.compile(several)(np.ones((1, 1, 1, 2), "float32"))
    assert [repr(float(one[0, 0, 0, 2])) for one in made] == [repr(value) for value in values]
    nodes: list[Any] = [one.source.node for one in several]
    assert nodes[0].desc is nodes[2].desc is not nodes[1].desc
