"""What the tests of threads share: kinds of threads, operators whose work is large, and processes to try them in."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import anydml as dml

if TYPE_CHECKING:
    import numpy as np

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the system's threads, signals and limits are Linux's here")
KINDS = ["native", "python"]


def reversing(x: np.ndarray) -> dml.OperatorDesc:
    zeros = (0,) * x.ndim
    steps = (*(1,) * (x.ndim - 1), -1)
    tensor = dml.TensorDesc.of(x)
    return dml.Slice1.infer(
        input_tensor=tensor, input_window_offsets=zeros, input_window_sizes=x.shape, input_window_strides=steps
    )


def summing(x: np.ndarray) -> dml.OperatorDesc:
    return dml.CumulativeSummation.infer(input_tensor=dml.TensorDesc.of(x), axis=x.ndim - 1)


def run_python(code: str, *, timeout: float = 300, **environment: str) -> subprocess.CompletedProcess[str]:
    head = "import os, sys, threading, time, signal\nimport numpy as np\nimport anydml as dml\n"
    return subprocess.run(  # noqa: S603 - the code is the test's own
        [sys.executable, "-c", head + code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
