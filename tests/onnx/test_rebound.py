"""The steps of a model of many stay bound from run to run, but for those whose arrays lie elsewhere."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from onnx_models import model, node  # isort: skip - it asks for onnx

import anydml as dml
import anydml.onnx
from anydml.runtime import binding_pool as rebound
from anydml.runtime import graph
from anydml.runtime.prepacked import Layouts

if TYPE_CHECKING:
    from anydml.onnx import Model

RNG = np.random.default_rng(8)
LEFT, RIGHT = (RNG.integers(-3, 4, (40, 40)).astype("float32") for _ in range(2))


@pytest.fixture(autouse=True)
def _is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every graph has too many steps to be one function."""
    monkeypatch.setattr(graph, "_MOST_STEPS", 0)


def products() -> Model:
    """Four steps with memory between them: one reads a, one b, and the last writes y."""
    nodes = [
        node("MatMul", "a left", "p"), node("CumSum", "p axis", "q"),
        node("MatMul", "b right", "r"), node("MatMul", "q r", "y"),
    ]  # fmt: skip
    shapes = {"a": ("float32", [4, 40]), "b": ("float32", [40, 40])}
    constants = {"left": LEFT, "right": RIGHT, "axis": np.array(0)}
    return dml.onnx.load(model(nodes, shapes, "y", constants, dtypes={"y": "float32"}))


def drawn() -> dict[str, Any]:
    return {"a": RNG.integers(-3, 4, (4, 40)).astype("float32"), "b": RNG.integers(-3, 4, (40, 40)).astype("float32")}


def wanted(a: Any, b: Any) -> Any:
    return np.cumsum(a @ LEFT, axis=0) @ (b @ RIGHT)


def test_steps_are_bound_again_where_their_arrays_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, given, out = products(), drawn(), np.zeros((4, 40), "float32")
    loaded.run(given, out={"y": out})
    bound: list[int] = []
    bind_one = Layouts.bind_one

    def counted(self: Any, programs: Any, number: int, places: Any) -> Any:
        bound.append(number)
        return bind_one(self, programs, number, places)

    monkeypatch.setattr(Layouts, "bind_one", counted)
    out[:] = 0
    loaded.run(given, out={"y": out})
    assert not bound
    np.testing.assert_array_equal(out, wanted(**given))
    for name, count in (("a", 1), ("b", 1)):
        given[name] = drawn()[name]
        loaded.run(given, out={"y": out})
        assert len(bound) == count
        np.testing.assert_array_equal(out, wanted(**given))
        bound.clear()
    other = np.zeros_like(out)
    loaded.run(given, out={"y": other})
    assert len(bound) == 1
    np.testing.assert_array_equal(other, out)


@pytest.mark.parametrize("large", [0, rebound.LARGE])
def test_runs_at_the_same_time_have_scratch_memory_of_their_own(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is kept for the next or not."""
    monkeypatch.setattr(rebound, "LARGE", large)
    bind = rebound.Rebound._bind

    def slowly(self: Any, *given: Any) -> None:
        bind(self, *given)
        time.sleep(0.001)  # another thread's turn

    monkeypatch.setattr(rebound.Rebound, "_bind", slowly)
    loaded, several = products(), [drawn() for _ in range(6)]

    def run(i: int) -> bool:
        given = several[i % len(several)]
        return bool((loaded.run(given)["y"] == wanted(**given)).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(60)))
