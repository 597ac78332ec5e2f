"""What every test file shares: the engines that the cases run on."""

from __future__ import annotations

import pytest

from cases import ENGINES


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """The name of an engine; a test that takes it runs on each."""
    name: str = request.param
    return name
