"""The kernels of the cuda engine, compiled for GPUs that need not be there: they compile, and move 16 bytes at once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import anydml as dml
from anydml.ir import expressions as ex
from anydml.ir.fetches import turned
from anydml.ir.patterns import filled, scaled
from anydml.ir.verbs import Map
from anydml.ir.views import View
from anydml.runtime.chunked_scan import carried
from paths import PATHS, ROOT
from ptx import N, assembly, kernels, rows_of

if TYPE_CHECKING:
    from pathlib import Path

    from anydml.ir.verbs import Primitive

pytestmark = pytest.mark.check_bounds


def sliced(dtype: str, *strides: int) -> dml.OperatorDesc:
    tensor = dml.TensorDesc(dtype, (N, N))
    return dml.Slice1.infer(
        input_tensor=tensor, input_window_offsets=(0, 0), input_window_sizes=(N, N), input_window_strides=strides
    )


def summed(dtype: str, sizes: tuple[int, ...], axis: int, **options: Any) -> dml.OperatorDesc:
    return dml.CumulativeSummation.infer(input_tensor=dml.TensorDesc(dtype, sizes), axis=axis, **options)


def gathered(sizes: tuple[int, ...], indices: tuple[int, ...]) -> dml.OperatorDesc:
    return dml.GatherND.infer(
        input_tensor=dml.TensorDesc("float32", sizes),
        indices_tensor=dml.TensorDesc("int64", indices),
        input_dimension_count=2,
        indices_dimension_count=2,
    )


BACK = {"axis_direction": "decreasing", "has_exclusive_sum": True}
# What is read and written 16 bytes at a time; the others are for compiling alone.
ROWS: dict[str, dml.OperatorDesc] = {
    "slice of rows": sliced("float32", -2, 1),
    "slice of bytes": sliced("uint8", 1, 1),
    "sum of rows": summed("float32", (N, N), 1),
    "sum of rows, float16": summed("float16", (N, N), 1),
    "sum of a long row": summed("float32", (2**28,), 0),
    "gather of rows": gathered((2**21, 128), (2**22, 1)),
}
OTHERS: dict[str, dml.OperatorDesc] = {
    "slice of columns": sliced("float32", 1, -2),
    "sum of columns": summed("float32", (N, N), 0),
    "sum of few columns": summed("int32", (2**20, 3), 0),
    "sum of a long row of int64": summed("int64", (2**28,), 0),
    "sum of a long row, backwards": summed("float32", (2**28,), 0, **BACK),
    "product": dml.CumulativeProduct.infer(input_tensor=dml.TensorDesc("float16", (N, N)), axis=1),
    "gather of scalars": gathered((8192, 8192), (2**26, 2)),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_move_sixteen_bytes_at_once(name: str) -> None:
    text = assembly(kernels(ROWS[name].lower()[0], 90)[0])
    for access in ("ld", "st"):
        assert re.search(rf"{access}\.global\S*\.(v4\.b32|v2\.b64)", text), f"{access} is narrow"


@pytest.mark.parametrize("name", OTHERS)
def test_every_kind_of_kernel_compiles(name: str) -> None:
    for kernel in kernels(OTHERS[name].lower()[0], 90):
        assert ".target sm_90" in assembly(kernel)


@pytest.mark.parametrize("has_before", [False, True])
@pytest.mark.parametrize("name", [name for name in OTHERS if "sum" in name or "product" in name])
def test_scans_with_a_carry_compile(name: str, has_before: bool) -> None:
    for kernel in kernels(carried(OTHERS[name], has_before=has_before), 90):
        assert ".target sm_90" in assembly(kernel)


# A process says how often it had Triton compile.
COMPILED = """
import triton.backends.nvidia.compiler as nvidia
from tests.engines.cuda.test_compile import ROWS, kernels
compile_it, times = nvidia.CUDABackend.make_ptx, []
nvidia.CUDABackend.make_ptx = lambda *arguments: times.append(1) or compile_it(*arguments)
kernels(ROWS["sum of a long row"].lower()[0], 90)
print(len(times))
"""


@pytest.mark.long
def test_processes_that_start_together_compile_a_kernel_once(tmp_path: Path) -> None:
    env = {
        **os.environ,
        "ANYDML_CACHE_DIR": str(tmp_path / "own"),
        "TRITON_CACHE_DIR": str(tmp_path / "triton"),
        "PYTHONPATH": os.pathsep.join(filter(None, [*PATHS, *sys.path])),
    }
    command = [sys.executable, "-c", COMPILED]
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True, "env": env, "cwd": ROOT}
    group = [subprocess.Popen(command, **options) for _ in range(3)]  # noqa: S603 - a Python of ours
    assert sorted(process.communicate(timeout=300)[0].strip() for process in group) == ["0", "0", "1"]


@pytest.mark.parametrize("name", ["sum of rows", "gather of rows"])
def test_an_older_gpu_is_compiled_for(name: str) -> None:
    for kernel in kernels(ROWS[name].lower()[0], 80):
        assert ".target sm_80" in assembly(kernel)


@pytest.mark.parametrize("desc", [summed("float32", sizes, 0) for sizes in ((2**20, 1024), (2**20, 3), (2**28,))])
def test_what_is_handed_on_is_what_was_looked_at(desc: dml.OperatorDesc) -> None:
    """The compiler loads what it needs in two layouts twice, so a carry could be used that was not there yet.

    What it cannot do twice is assembly: one look before the waiting, one in it, and nothing volatile elsewhere.
    """
    text = assembly(kernels(desc.lower()[0], 90)[0], "ttgir")
    assert "isVolatile" not in text
    assert text.count("scf.while") == 1
    looks = [line.start() for line in re.finditer(r"elementwise_inline_asm .*ld\.relaxed", text)]
    assert len(looks) == 2
    assert looks[0] < text.index("scf.while") < looks[1]


def test_columns_of_float16_are_on_their_way_into_shared_memory() -> None:
    text = assembly(kernels(summed("float16", (N, N), 0).lower()[0], 90)[0])
    assert "cp.async" in text


# Maps, fills and reversals


def mapped(source: str, target: str, **numbers: float) -> Map:
    return scaled(rows_of(source), rows_of(target, "y"), **numbers)


def blocks_reversed() -> Map:
    x, y = (View(name, dml.DataType.FLOAT16, (512, 64, N), (64 * N, N, 1)) for name in "xy")
    return turned(x, View("n", dml.DataType.UINT32, (1, 64, 1), (0, 1, 0)), y, 0)


def four_at_once() -> Map:
    """The four words that a counter gives, in four targets beside one another."""
    state, numbers = dml.TensorDesc("uint32", (6,)), dml.TensorDesc("uint32", (N,))
    return dml.RandomGenerator(input_state_tensor=state, output_tensor=numbers).lower()[0]


def rows_fetched() -> Map:
    """Rows by indices that are checked, and a sum."""
    pick = gathered((N, N), (N, 1)).lower()[0]
    assert isinstance(pick, Map)
    value = pick.value + ex.load(len(pick.sources), dml.DataType.FLOAT32)
    return Map((*pick.sources, rows_of("float32", "z")), rows_of("float32", "y"), value, checks=pick.checks)


def test_rows_that_are_fetched_move_sixteen_bytes_at_once_too() -> None:
    text = assembly(kernels(rows_fetched(), 90)[0])
    assert not re.search(r"ld\.global\S*\.b32", text.replace("v4.b32", ""))
    assert re.search(r"st\.global\S*\.(v4\.b32|v2\.b64)", text)


@pytest.mark.parametrize(
    ("primitive", "accesses"),
    [
        (mapped("float32", "float16"), ("ld", "st")),
        (mapped("uint8", "float32"), ("st",)),
        (filled(rows_of("uint8"), 1, 0), ("st",)),
        (blocks_reversed(), ("ld", "st")),
        (four_at_once(), ("st",)),
    ],
    ids=["to float16", "to float32", "constant", "blocks reversed", "four at once"],
)
def test_what_is_in_rows_moves_sixteen_bytes_at_once(primitive: Primitive, accesses: tuple[str, ...]) -> None:
    text = assembly(kernels(primitive, 90)[0])
    assert "shared" not in text
    for access in accesses:
        assert re.search(rf"{access}\.global\S*\.(v4\.b32|v2\.b64)", text), f"{access} is narrow"


@pytest.mark.parametrize(
    "primitive",
    [mapped("uint64", "float16", scale=0.1, bias=3.0), filled(rows_of("float16"), 1.0, 0.1)],
    ids=["scaled", "sequence"],
)
def test_a_product_and_a_sum_stay_apart_and_become_float16_at_once(primitive: Primitive) -> None:
    text = assembly(kernels(primitive, 90)[0])
    assert "mul.rn.f64" in text
    assert "add.rn.f64" in text
    assert "fma" not in text
    assert "cvt.rn.f16.f64" in text
    assert ".f32" not in text
