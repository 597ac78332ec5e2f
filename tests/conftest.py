"""What every test file shares: the engines that the cases run on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from anydml import calls, engines
from anydml.runtime.device import device_named
from cases import ENGINES
from gpu import Gpu

if TYPE_CHECKING:
    from collections.abc import Iterator


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
