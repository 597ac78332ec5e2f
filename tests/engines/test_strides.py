"""Every schedule of the engines with strides that are negative, odd, huge or 0, and slices of every result."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.engines.cuda import is_interpreted
from cases import CASES, ENGINES
from doors import as_list
from paths import PATHS, ROOT
from places import WIPED, get, is_on_gpu, put

if TYPE_CHECKING:
    from case_kinds import Case

pytestmark = [pytest.mark.sampled(12), pytest.mark.check_bounds]

Array = np.ndarray[Any, Any]
FLOAT32 = dml.DataType.FLOAT32
TUNED = [name for name in ENGINES if name != "reference"]
SLICED = [case for case in CASES if case.sources][:: 30 if is_interpreted() else 1]
STEPS = ((-1, -1), (1, -2), (2, 2))
"""Of slices, along all dimensions but the last, and along the last."""


def swept(engine: str, part: int) -> None:
    """The sweep in a process of its own, which a touch of a guard page ends."""
    command = [sys.executable, str(ROOT / "tests" / "support" / "strides.py"), engine, str(part)]
    path = os.pathsep.join([*PATHS, *sys.path])
    env = {**os.environ, "ANYDML_TEST_ENGINES": engine, "PYTHONPATH": path}
    found = subprocess.run(command, env=env, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    wrong = [line for line in found.stdout.splitlines() if line.startswith("WRONG")]
    assert not wrong, "\n".join(wrong)
    assert found.returncode == 0, f"after {found.stdout.splitlines()[-1:]}: {found.stderr}"


linux = pytest.mark.skipif(sys.platform != "linux", reason="pages are guarded as Linux does it")


@linux
@pytest.mark.long
@pytest.mark.parametrize("engine", TUNED)
def test_a_layout_of_every_schedule(engine: str) -> None:
    """And that there is a case for every schedule. CI has many; interpreted, or compiled by Triton, that takes long."""
    swept(engine, 13 if engine == "cpu" and os.environ.get("CI") else 400)


def strided(array: Array, steps: tuple[int, int]) -> Array:
    """The same numbers, in memory with canaries between and around them."""
    every = [steps[0]] * (array.ndim - 1) + [steps[1]] * (array.ndim > 0)
    whole = np.full([abs(s) * n + 2 for s, n in zip(every, array.shape, strict=True)], 0, array.dtype)
    whole.view(np.uint8)[...] = WIPED
    ends = [(n * abs(s), 0) if s < 0 else (1, n * abs(s) + 1) for s, n in zip(every, array.shape, strict=True)]
    part = whole[tuple(slice(a, b, s) for (a, b), s in zip(ends, every, strict=True))]
    part[...] = array
    return part


def sliced(x: dml.Expression, steps: tuple[int, int]) -> dml.Expression:
    every = [steps[0]] * (len(x.sizes) - 1) + [steps[1]]
    return dml.slice1(x, [0] * len(x.sizes), x.sizes, every)


@pytest.mark.parametrize("engine", TUNED)
@pytest.mark.parametrize(("number", "case"), list(enumerate(SLICED)), ids=str)
def test_arrays_and_slices_of_every_operator(engine: str, number: int, case: Case) -> None:
    """Through the function door from and to arrays that lie so, and in a graph whose results are sliced."""
    steps, device, case = STEPS[number % len(STEPS)], dml.Device(engine), case.bare()
    inputs = [strided(x, steps) for x in case.inputs(FLOAT32)]
    wanted = [np.array(y) for y in as_list(case.call(*inputs, device="reference"))]
    outs = [strided(np.zeros_like(y), steps) for y in wanted]
    there = [put(y, device) for y in outs]
    case.call(*(put(x, device) for x in inputs), out=there if len(there) > 1 else there[0], device=device)
    for got, want in zip(map(get, there), wanted, strict=True):
        near(got, want)
        got[...] = 0
    if not is_on_gpu(device):
        for out, want in zip(outs, wanted, strict=True):
            assert out.base.tobytes() == strided(np.zeros_like(want), steps).base.tobytes(), "beside its elements"  # type: ignore[union-attr]  # a view has a base
    graph = dml.Graph(device)
    results = as_list(case.call(*(graph.input(x) for x in inputs)))
    run = graph.compile([sliced(y, steps) for y in results])
    for got, want in zip(as_list(run(*(put(x, device) for x in inputs))), wanted, strict=True):
        near(get(got), want[(*[slice(None, None, steps[0])] * (want.ndim - 1), slice(None, None, steps[1]))])


def near(got: Array, wanted: Array) -> None:
    """Integers to the bit, floats as near as functions are."""
    assert got.dtype == wanted.dtype
    if got.dtype.kind == "f":
        np.testing.assert_allclose(got, wanted, 2e-5, 1e-5)
    else:
        np.testing.assert_array_equal(got, wanted)
