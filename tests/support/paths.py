"""Where the project's files lie, and what a process of its own needs to import the tests'."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "examples" / "models"
PATHS = [str(ROOT), str(ROOT / "tests" / "support")]
"""For sys.path and PYTHONPATH."""
