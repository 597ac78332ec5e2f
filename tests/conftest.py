"""What every test file shares: the engines that the cases run on."""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import is_hypothesis_test, seed

from anydml import engines
from anydml.api import calls
from anydml.core.operator_type import OperatorType
from anydml.engines.common.threads import get_num_threads, set_num_threads
from anydml.engines.cuda import is_interpreted
from anydml.operators import OPERATORS
from anydml.runtime.device import device_named
from cases import ENGINES
from gpu import Gpu
from places import why_not_interpreted
from refusals import UNBUILT

if TYPE_CHECKING:
    from collections.abc import Iterator

os.environ.setdefault("ANYDML_KEEP_PLANS", "0")
"""Tests change what plans are made by; `onnx/test_plans.py` has plans of its own."""

if "cuda" not in ENGINES:
    # `make test` runs all but the last four interpreted, in a process of their own; `make test-gpu` runs all.
    ignored = ("engine", "maps", "expressions", "reduces", "products", "windows", "arrays", "streams", "graphs")
    collect_ignore = [*(f"engines/cuda/test_{name}.py" for name in ignored), "dask/test_cuda.py"]


_PROVED = (
    "engines/c",
    "engines/test_strides",
    "graph/test_r",
    "operators/test_random",
    "operators/test_moving",
    "ir/test_bounds",
)
"""Beginnings of the files whose programs are proved to stay inside their tensors as they are compiled; which takes
time. `make stress` proves all of its programs."""


def _path(item: pytest.Item) -> str:
    """The file of a test, from this folder on."""
    return item.path.relative_to(Path(__file__).parent).with_suffix("").as_posix()


@pytest.fixture(autouse=True)
def _bounds_are_proved(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "ANYDML_CHECK_BOUNDS" not in os.environ and _path(request.node).startswith(_PROVED):
        monkeypatch.setenv("ANYDML_CHECK_BOUNDS", "1")


@pytest.fixture(autouse=True)
def _threads_are_as_they_were() -> Iterator[None]:
    before = get_num_threads()
    yield
    set_num_threads(before)


SAMPLED = {
    "engines/cpu/test_engine": 60,
    "operators/test_documents": 30,
    "engines/test_strides": 12,
    "engines/cpu/test_maps": 8,
    "graph/test_builder": 8,
    "engines/cpu/test_gathers": 6,
    "project/test_benchmarks": 6,
    "cli/test_explain": 6,
    "operators/test_moving": 6,
    "operators/test_random": 6,
    "operators/test_elementwise": 6,
    "operators/test_weights": 5,
    "operators/test_gradients": 5,
    "operators/test_carry": 5,
    "engines/cpu/test_contract": 4,
    "arrays/test_layouts": 4,
    "operators/test_folding": 4,
    "operators/test_casts": 4,
    "operators/test_choosing": 4,
    "docs/test_pages": 4,
    "explain/test_browser": 4,
    "engines/test_kernel_processes": 4,
    "engines/cpu/test_windows": 3,
    "engines/cpu/test_bytes": 3,
    "engines/cpu/test_reduce": 3,
    "engines/cpu/test_expressions": 3,
    "engines/test_targets": 3,
    "engines/test_team": 3,
    "engines/test_team_signals": 3,
    "runtime/test_forks": 3,
    "dxdispatch/test_bounds": 3,
    "dxdispatch/test_fuzz": 2,
    "explain/test_maps": 2,
    "graph/test_reduces": 2,
    "arrays/test_arrays": 2,
    "engines/cpu/test_tiles": 2,
}
"""Tests that are many of a kind, and compile a kernel or start a process each: outside of CI one in so many runs."""
INTERPRETED = {
    "engines/cuda/test_engine": 5,
    "operators/test_documents": 8,
    "engines/cuda/test_windows": 2,
    "engines/cuda/test_reduces": 3,
    "engines/cuda/test_expressions": 2,
}
"""Likewise where Triton's kernels are interpreted; on a GPU all of them run."""


def pytest_configure() -> None:
    """Have Triton's interpreter prepare each function once, not at every call of it, which takes twice as long.

    And have programs that tests start take Ctrl-C, which a shell's work in the background ignores.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not is_interpreted() or why_not_interpreted():
        return
    from triton.runtime import interpreter

    from touched import watch

    known = set()

    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        if self.fn not in known:
            known.add(self.fn)
            interpreter._patch_lang(self.fn)
        return self.rewrite()(*arguments, **options)

    interpreter.InterpretedFunction.__call__ = call
    watch()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave interpreted kernels out where Triton is not installed; on a GPU nothing is left out in silence.

    ANYDML_TEST_PART=3/16 runs a sixteenth; a case at different levels, which has the same kernels, stays in one.
    """
    part, _, parts = os.environ.get("ANYDML_TEST_PART", "1/1").partition("/")
    kinds: dict[str, int] = {}
    numbers = [kinds.setdefault(re.sub(r"-\d_\d]$", "", item.nodeid), len(kinds)) for item in items]
    items[:] = [item for item, k in zip(items, numbers, strict=True) if k % int(parts) == int(part) - 1]
    is_quick = not os.environ.get("CI") and "cuda" not in ENGINES
    sampled, where = (SAMPLED, "CI=1 make test") if is_quick else (INTERPRETED if is_interpreted() else {}, "a GPU")
    for item in items:
        if is_quick and item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason="takes several seconds: CI=1 make test runs it"))
        elif (every := sampled.get(_path(item))) and zlib.crc32(item.name.encode()) % every:
            item.add_marker(pytest.mark.skip(reason=f"one in {every} of these runs here: {where} runs all"))
    if reason := why_not_interpreted():
        for item in items:
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Draw the same examples at every run, so that a failure comes back; ANYDML_TEST_SEED=2 draws others."""
    function: Any = getattr(item, "function", None)
    if is_hypothesis_test(function):
        seed(zlib.crc32(f"{item.nodeid} {os.environ.get('ANYDML_TEST_SEED', 1)}".encode()))(function)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """The name of an engine; a test that takes it runs on each."""
    name: str = request.param
    return name


@pytest.fixture
def unbuilt() -> Iterator[str]:
    """The name of an operator as if it were not built; all of DirectML's may be."""
    all_of_them = dict(OPERATORS)
    OPERATORS.pop(OperatorType[UNBUILT], None)
    yield UNBUILT
    OPERATORS.clear()  # the order is kept as well
    OPERATORS.update(all_of_them)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder with a neighbour that is none of its business."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x.dat").write_bytes(np.ones(4, np.float32).tobytes())
    (tmp_path / "own").mkdir()
    return tmp_path / "own"


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Gpu]]:
    """Two engines that run nothing, in the place of the cuda engine."""
    made = [Gpu(0), Gpu(1)]

    def make(index: int = 0) -> Gpu:
        return made[index]

    monkeypatch.setitem(engines.ENGINES, "cuda", make)
    device_named.cache_clear()
    calls.known_calls.clear()
    yield made
    device_named.cache_clear()
    calls.known_calls.clear()


@pytest.fixture(autouse="cuda" in ENGINES)
def no_waiting_for_ever() -> Iterator[None]:
    """Programs wait for one another: one that waits in vain ends the process, and says where."""
    faulthandler.dump_traceback_later(300, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
