"""The kernels of the cuda engine, compiled for GPUs that need not be there: they compile, and move 16 bytes at once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import anydml as dml
from anydml.engines.cuda import is_interpreted

pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS='torch triton'")
pytest.importorskip("triton", reason="Triton is not installed: make test EXTRAS='torch triton'")
if is_interpreted():
    pytest.skip("Triton interprets in this process, and compiles nothing", allow_module_level=True)

from triton.backends.compiler import GPUTarget

from anydml.engines.cuda.figures import Figures
from anydml.engines.cuda.programs import CopyProgram, GatherProgram, ScanProgram
from anydml.primitives import IndexedCopy, StridedCopy

if TYPE_CHECKING:
    from anydml.engines.cuda.launch import Kernel
    from anydml.primitives import Primitive

N = 32768


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
    "sum of a long row, backwards": summed("float32", (2**28,), 0, **BACK),
    "product": dml.CumulativeProduct.infer(input_tensor=dml.TensorDesc("float16", (N, N)), axis=1),
    "gather of scalars": gathered((8192, 8192), (2**26, 2)),
}


def kernels(primitive: Primitive, capability: int) -> list[Kernel]:
    figures = Figures(0, GPUTarget("cuda", capability, 32), 132, 16 * 1024)
    if isinstance(primitive, StridedCopy):
        copy = CopyProgram.plan(primitive, figures)
        return [copy.kernel(copy.widest())]
    if isinstance(primitive, IndexedCopy):
        gather = GatherProgram.plan(primitive, figures)
        return [gather.kernel(gather.widest()), gather.check()]
    return [ScanProgram.plan(primitive, figures).kernel]


def assembly(kernel: Kernel, stage: str = "ptx") -> str:
    text: str = kernel._compiled((True,) * len(kernel.pointers)).asm[stage]
    return text


@pytest.mark.parametrize("name", ROWS)
def test_rows_move_sixteen_bytes_at_once(name: str) -> None:
    text = assembly(kernels(ROWS[name].lower(), 90)[0])
    for access in ("ld", "st"):
        assert re.search(rf"{access}\.global\S*\.(v4\.b32|v2\.b64)", text), f"{access} is narrow"


@pytest.mark.parametrize("name", OTHERS)
def test_every_kind_of_kernel_compiles(name: str) -> None:
    for kernel in kernels(OTHERS[name].lower(), 90):
        assert ".target sm_90" in assembly(kernel)


@pytest.mark.parametrize("name", ["sum of rows", "gather of rows"])
def test_an_older_gpu_is_compiled_for(name: str) -> None:
    for kernel in kernels(ROWS[name].lower(), 80):
        assert ".target sm_80" in assembly(kernel)


@pytest.mark.parametrize("sizes", [(2**20, 1024), (2**20, 3)])
def test_what_is_handed_on_is_read_after_it_was_seen(sizes: tuple[int, int]) -> None:
    """The compiler loads what it needs in two layouts twice: the loads that are used must come after the loop.

    They once came before it, and a column's carry could be read before it was there.
    """
    (kernel,) = kernels(summed("float32", sizes, 0).lower(), 90)
    lines = assembly(kernel, "ttgir").splitlines()
    told = ["wait" if "scf.while" in line else "read" for line in lines if re.search(r"scf\.while|isVolatile", line)]
    waits = [i for i, what in enumerate(told) if what == "wait"]
    assert len(waits) == 4  # for the totals of a group and what it is handed, to hand on and to go on
    # Two reads in each loop, and whatever comes behind it again.
    assert told[0] == "wait"
    for first, after in zip(waits, [*waits[1:], len(told)], strict=True):
        assert after - first - 1 >= 4, told
