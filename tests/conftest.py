"""What every test file shares: the engines that the cases run on."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest

from anydml import calls, engines
from anydml.engines.cuda import NEEDS, is_interpreted
from anydml.runtime.device import device_named
from cases import ENGINES
from gpu import Gpu

if TYPE_CHECKING:
    from collections.abc import Iterator


if "cuda" not in ENGINES:
    collect_ignore = ["test_cuda_engine.py"]  # `make test` and `make test-gpu` run it in a process of its own


MISSING = [name for name in NEEDS if importlib.util.find_spec(name) is None] if is_interpreted() else []


def pytest_configure() -> None:
    """Have Triton's interpreter prepare each function once, not at every call of it, which takes twice as long."""
    if not is_interpreted() or MISSING:
        return
    from triton.runtime import interpreter

    known = set()

    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        if self.fn not in known:
            known.add(self.fn)
            interpreter._patch_lang(self.fn)
        return self.rewrite()(*arguments, **options)

    interpreter.InterpretedFunction.__call__ = call


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave interpreted kernels out where Triton is not installed; on a GPU nothing is left out in silence."""
    names = " and ".join(MISSING)
    for item in items if MISSING else []:
        item.add_marker(pytest.mark.skip(reason=f"{names} not installed: make test EXTRAS='torch triton' has it"))


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """The name of an engine; a test that takes it runs on each."""
    name: str = request.param
    return name


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
