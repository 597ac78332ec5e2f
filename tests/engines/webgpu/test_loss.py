"""A device that is lost, in a process of its own: other tests keep theirs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from anydml.engines.webgpu import why_missing

WHY = why_missing()
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
CASES = Path(__file__).with_name("lost_device.py")


def test_a_lost_device() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(CASES)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)  # noqa: S603 - our own
    assert found.returncode == 0, found.stdout
    assert "passed" in found.stdout
