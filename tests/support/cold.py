"""Processes whose kernels are all still to be compiled, in a cache of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

ANSWER = """
import gc, os, random, signal, sys, threading, time
import numpy as np, anydml as dml
x = np.arange(6000, dtype="f4").reshape(60, 100)
def answer(kind):
    # Each kind needs another kernel.
    if kind == 0:
        return bool((dml.slice1(x, (0, 0), (60, 100), (1, -1)) == x[:, ::-1]).all())
    if kind == 1:
        return bool((dml.cumulative_summation(x.astype("i4"), 0) == x.astype("i4").cumsum(0)).all())
    return bool((dml.cast(x, "int64") == x.astype("i8")).all())
"""


def run(code: str, folder: Path, *, timeout: float = 300) -> list[str]:
    """What a process prints that dies, and says where it was, when it hangs."""
    # A job in the background of a shell ignores Ctrl-C, and Python then has no KeyboardInterrupt.
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"import faulthandler; faulthandler.dump_traceback_later({timeout - 10}, exit=True)\n{start}\n{code}"
    command, env = [sys.executable, "-c", code], {**os.environ, "ANYDML_CACHE_DIR": str(folder)}
    done = subprocess.run(  # noqa: S603 - a Python of ours
        command, capture_output=True, text=True, check=False, env=env, timeout=timeout
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()
