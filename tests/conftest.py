"""What every test file shares: the engines that the cases run on."""

from __future__ import annotations

import faulthandler
import os
import signal
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import is_hypothesis_test, seed

from anydml import engines
from anydml.api import calls
from anydml.core.device_memory import memories
from anydml.core.operator_type import OperatorType
from anydml.engines.common.threads import get_num_threads, set_num_threads
from anydml.engines.cuda import is_interpreted
from anydml.operators import OPERATORS
from anydml.runtime.device import device_named
from cases import ENGINES
from device_double import DoubleEngine
from gpu import Gpu
from places import why_not_interpreted
from refusals import UNBUILT
from sampling import (  # hooks  # noqa: F401
    pytest_collection_finish,
    pytest_collection_modifyitems,
    pytest_itemcollected,
    pytest_sessionfinish,
    pytest_terminal_summary,
    pytest_testnodedown,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

os.environ.setdefault("ANYDML_KEEP_PLANS", "0")
"""Tests change what plans are made by; `onnx/test_plans.py` has plans of its own."""

if "cuda" not in ENGINES:
    # `make test` runs all but the last four interpreted, in a process of their own; `make test-gpu` runs all.
    ignored = [
        "engine",
        "maps",
        "expressions",
        "reduces",
        "products",
        "windows",
        "attention",
        "arrays",
        "streams",
        "graphs",
    ]
    collect_ignore = [*(f"engines/cuda/test_{name}.py" for name in ignored), "dask/test_cuda.py"]


@pytest.fixture(autouse=True)
def _bounds_are_proved(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a test marked `check_bounds`: it takes time. `make stress` proves all of its programs."""
    if "ANYDML_CHECK_BOUNDS" not in os.environ and request.node.get_closest_marker("check_bounds"):
        monkeypatch.setenv("ANYDML_CHECK_BOUNDS", "1")


@pytest.fixture(autouse=True)
def _threads_are_as_they_were() -> Iterator[None]:
    before = get_num_threads()
    yield
    set_num_threads(before)


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


@pytest.fixture
def doubles(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[DoubleEngine]]:
    """Two devices whose memory no library knows, in the place of the webgpu engine's."""
    made = [DoubleEngine(0), DoubleEngine(1)]
    for each in made:
        monkeypatch.setitem(memories, each.memory, each.own)
    monkeypatch.setitem(engines.ENGINES, "webgpu", lambda index=0: made[index])
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
