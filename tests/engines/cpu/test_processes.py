"""The cpu engine in a process: its memory, its threads after a fork, and the packages that it needs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import anydml as dml
from anydml.engines.cpu import families, features
from anydml.engines.cpu.families import AVX2, AVX512, NEOVERSE, SSE, Family, Figures, GemmFigures
from anydml.engines.cpu.threads import scratch as layout

pytestmark = pytest.mark.check_bounds


def run_python(code: str, *, timeout: float = 300, **environment: str) -> subprocess.CompletedProcess[str]:
    command, env = [sys.executable, "-c", code], {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=timeout)  # noqa: S603 - a Python of ours


PEAK = """
import resource, numpy as np, anydml as dml
dml.set_num_threads(4)
x = np.ones((2048, 4096), "f4")
rows = np.zeros((2048, 1), "i8")
out, turned = np.ones_like(x), np.ones((4096, 2048), "f4")
D, T = dml.Device("cpu"), dml.TensorDesc.of
whole = dict(input_window_offsets=(0, 0), input_window_sizes=x.shape)
bound = [
    D.compile(dml.Slice1.infer(input_tensor=T(x), input_window_strides=(1, -1), **whole)).bind(x, out=out),
    D.compile(dml.Slice.infer(input_tensor=T(x.T), offsets=(0, 0), sizes=turned.shape, strides=(1, 1)))
     .bind(x.T, out=turned),
    D.compile(dml.CumulativeSummation.infer(input_tensor=T(x), axis=0)).bind(x, out=out),
    D.compile(dml.CumulativeSummation.infer(input_tensor=T(x), axis=1)).bind(x, out=out),
    D.compile(dml.CumulativeSummation.infer(input_tensor=T(x.reshape(-1)), axis=0))
     .bind(x.reshape(-1), out=out.reshape(-1)),
    D.compile(dml.GatherND.infer(input_tensor=T(x), indices_tensor=T(rows), input_dimension_count=2,
                                 indices_dimension_count=2)).bind(x, rows, out=out),
]
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
for step in bound:
    step.dispatch()
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss counts in other units elsewhere")
@pytest.mark.long
def test_a_dispatch_takes_at_most_a_mebibyte_a_thread() -> None:
    done = run_python(PEAK)
    assert int(done.stdout) <= 4 * 1024, done.stderr  # KiB; the arrays are 32 MiB each


def test_a_child_of_a_process_with_threads_works() -> None:
    code = """
import os, numpy as np, anydml as dml
dml.set_num_threads(4)
x = np.ones((64, 100_000), "f4")
total = dml.cumulative_summation(x, 1).sum()
if (child := os.fork()) == 0:
    os._exit(0 if dml.cumulative_summation(x, 1).sum() == total else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = run_python(code)
    assert done.stdout.strip() == "0", done.stderr


def test_the_number_of_threads() -> None:
    shown = "import anydml as dml; print(dml.get_num_threads())"
    assert run_python(shown, ANYDML_NUM_THREADS="3").stdout.strip() == "3"
    wrong = run_python(shown, ANYDML_NUM_THREADS="many")
    assert "ANYDML_NUM_THREADS must be a whole number; got 'many'" in wrong.stderr
    for number in (0, -1, 1.5, "2", 10**6):
        with pytest.raises(dml.DescriptionError, match="set_num_threads: number must"):
            dml.set_num_threads(number)  # type: ignore[arg-type]  # wrong on purpose


def test_a_missing_dependency_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from anydml import engines

    engines._cpu.cache_clear()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    try:
        with pytest.raises(dml.MissingDependencyError, match="needs llvmlite; pip install llvmlite"):
            dml.Device("cpu")
        assert dml.Device().engine.name == "reference"
    finally:
        engines._cpu.cache_clear()


FAMILIES = (SSE, AVX2, AVX512, NEOVERSE)


@pytest.mark.parametrize(
    ("wanted", "is_arm", "has"),
    [
        (SSE, False, "sse4.1"),
        (AVX2, False, "sse4.1 avx2"),
        (AVX512, False, "sse4.1 avx2 avx512f"),
        (NEOVERSE, True, "neon"),
    ],
    ids=[family.name for family in FAMILIES],
)
def test_a_family_is_chosen_by_features(
    wanted: Family, is_arm: bool, has: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(families, "IS_ARM", is_arm)
    monkeypatch.setattr(features, "find_cpu", lambda: ("", ",".join(f"+{name}" for name in has.split())))
    assert families.figures.__wrapped__() is wanted


def test_a_figure_that_nobody_reads_is_refused() -> None:
    with pytest.raises(TypeError, match="GemmFigures has no figures k_blok, rows"):
        GemmFigures(k_blok=256, k_block=512, rows=3)


@pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])
def test_tiles_fit_registers_and_a_scratch(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    of = family.gemm
    assert of.tile_rows * of.tile_vectors + of.tile_vectors < of.registers
    monkeypatch.setattr(layout, "figures", lambda: family)
    found = layout.workspace.__wrapped__()
    assert list(found) == sorted(found)
    assert found.left_at - layout.RIGHT_AT >= of.right_bytes
    assert found.size - found.sums_at == of.sum_bytes


def test_an_instruction_set_is_named_where_its_instructions_are_written() -> None:
    """All else asks for a figure of the family, or for what the CPU can (`features.py`): a new family is one table."""
    folder = Path(families.__file__).parent
    found = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if re.search(r"\bIS_ARM\b", path.read_text(encoding="utf-8"))
    }
    assert found - {"families.py", "features.py"} == {
        "codegen/expressions.py", "codegen/function.py", "quant/dequantize.py", "quant/weight_only.py",
        "rows/lookup.py", "threads/team_kernel.py",
    }  # fmt: skip


def test_every_figure_is_read() -> None:
    folder = Path(families.__file__).parent
    read = {
        word
        for path in folder.rglob("*.py")
        if path.name != "families.py"
        for word in re.findall(r"\.(\w+)", path.read_text(encoding="utf-8"))
    }
    for group in Figures.__subclasses__():
        assert {name for name in vars(group) if not name.startswith("_")} <= read, group
