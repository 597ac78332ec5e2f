"""The assembly of the cuda engine's kernels, for GPUs that need not be there; it needs PyTorch and Triton."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import anydml as dml
from anydml.engines.cuda import is_interpreted

pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS='torch triton'")
pytest.importorskip("triton", reason="Triton is not installed: make test EXTRAS='torch triton'")
if is_interpreted():
    pytest.skip("Triton interprets in this process, and compiles nothing", allow_module_level=True)

from triton.backends.compiler import GPUTarget

from anydml.engines.cuda.dependent_launch import WAIT
from anydml.engines.cuda.device import Figures
from anydml.engines.cuda.launch import HOPPER, MOST_OVERLAPPING
from anydml.engines.cuda.move.copy import CopyProgram, FillProgram
from anydml.engines.cuda.move.gather import GatherProgram, check_kernel
from anydml.engines.cuda.move.reverse import ReverseProgram
from anydml.engines.cuda.schedules import TABLES
from anydml.ir.views import View

if TYPE_CHECKING:
    from anydml.engines.cuda.launch import Kernel
    from anydml.ir.verbs import Primitive

N = 32768
F32, F16 = dml.DataType.FLOAT32, dml.DataType.FLOAT16


def figures_for(capability: int) -> Figures:
    return Figures(0, GPUTarget("cuda", capability, 32), 132, 16 * 1024)


def kernels(primitive: Primitive, capability: int) -> list[Kernel]:
    program: Any = TABLES.plan(primitive, figures := figures_for(capability))
    if isinstance(program, CopyProgram | FillProgram | GatherProgram | ReverseProgram):
        widest = program.kernel(program.widest())
        checks = program.checks if isinstance(program, GatherProgram) else ()
        return [widest, *(check_kernel(check, figures) for check in checks)]
    return [program.kernel]


def assembly(kernel: Kernel, stage: str = "ptx") -> str:
    """The text of a stage; of a kernel that waits for its turn before it touches memory, where there are turns.

    But for prepacked constants, which it reads past its own cache.
    """
    made = kernel._compiled((True,) * len(kernel.pointers)).asm
    before, wait, _ = made["ptx"].partition(WAIT)
    is_small = kernel.programs <= MOST_OVERLAPPING * kernel.figures.multiprocessors
    has_turns = is_small and kernel.figures.target.arch >= HOPPER
    assert bool(wait) == has_turns
    early = before.partition(".entry")[2].replace("ld.global.L1::no_allocate", "")
    assert not has_turns or ".global." not in early
    text: str = made[stage]
    return text


def rows_of(dtype: str, name: str = "x") -> View:
    return View(name, dml.DataType(dtype), (N, N), (N, 1))
