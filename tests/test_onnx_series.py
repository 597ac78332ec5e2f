"""A small model's steps are one call from its second run on, wherever its arrays lie."""

from __future__ import annotations

import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from onnx_models import model, node  # isort: skip - it asks for onnx

import anydml as dml
import anydml.onnx
from anydml.engines.cpu.launch.call import make_dispatch
from anydml.engines.cpu.launch.series import make_series_of
from anydml.engines.cpu.move.copy import get_copy
from anydml.engines.cpu.threads import team
from anydml.onnx.program import Program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.onnx import Model

RNG = np.random.default_rng(8)
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


@pytest.mark.parametrize("word", ["address % 64", "address % 2", "-address", "2 * address", "(address, address)"])
def test_words_that_do_not_move_with_an_address_are_bound(word: str) -> None:
    kernel = get_copy("copy run 4")

    def bind(addresses: Sequence[int]) -> list[Callable[[], Any]]:
        found = eval(word, {"address": addresses[0]})  # noqa: S307 - of this file's own
        words = found if isinstance(found, tuple) else (found,)
        return [make_dispatch(kernel, (addresses[0], *words), 1, 4)]

    assert (make_series_of(bind, 1) is None) == (word != "(address, address)")


def test_a_launch_that_is_no_kernel_is_bound() -> None:
    assert make_series_of(lambda _: [lambda: None], 1) is None
    assert make_series_of(lambda _: [struct.Struct("q").pack], 1) is None
