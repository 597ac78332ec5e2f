"""`python -m anydml.onnxruntime script.py …` runs a script that imports onnxruntime, with this library in its place.

`-m module …` runs a module. Nothing of the script changes; see `anydml.onnxruntime.as_onnxruntime`.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from anydml.onnxruntime.process import as_onnxruntime

if TYPE_CHECKING:
    from collections.abc import Callable

_USAGE = "usage: python -m anydml.onnxruntime (script.py | -m module) [arguments]"


def run_program(stand_in: Callable[[], None], usage: str) -> None:
    """Run what the command line names, after a library of ours stands in for another's."""
    del sys.argv[0]
    is_module = sys.argv[:1] == ["-m"]
    if is_module:
        del sys.argv[0]
    if not sys.argv or sys.argv[0] in ("-h", "--help"):
        sys.exit(usage)
    stand_in()
    if is_module:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
        runpy.run_path(sys.argv[0], run_name="__main__")


def main() -> None:
    """Run what the command line names."""
    run_program(as_onnxruntime, _USAGE)


if __name__ == "__main__":
    main()
