"""The cuda engine: kernels in Triton, compiled for the GPU they run on, at the speed of its memory.

With TRITON_INTERPRET=1 in the environment Triton interprets the kernels over host memory: slowly, and without a GPU.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
from typing import TYPE_CHECKING, Any

from anydml.core.enums import DataType
from anydml.core.late_imports import import_alone
from anydml.core.memory import Buffer
from anydml.engines.common.engine import NhwcLayout, Traits
from anydml.engines.common.table_engine import TableEngine
from anydml.ir.attention import Attend
from anydml.ir.pass_by_pass import InPasses

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.ir.verbs import Primitive

NEEDS = ("torch", "triton")


def why_missing() -> str:
    """Why the engine cannot run here; nothing where it can."""
    if missing := [name for name in NEEDS if importlib.util.find_spec(name) is None]:
        return f"the cuda engine needs {' and '.join(missing)}"
    if device_count() == 0:
        return "the cuda engine needs a GPU, and PyTorch sees none here"
    return ""


def is_interpreted() -> bool:
    """Whether kernels are interpreted, over host memory."""
    return os.environ.get("TRITON_INTERPRET", "") not in ("", "0")


def device_count() -> int:
    """The devices that PyTorch sees; one that is interpreted counts."""
    import_alone("torch")
    import torch  # an optional dependency, like all of this engine's

    return 1 if is_interpreted() else torch.cuda.device_count() if torch.cuda.is_available() else 0


def device_label(index: int) -> str:
    """A device in words."""
    import_alone("torch")
    import torch

    if is_interpreted():
        return "interpreted by Triton, in host memory"
    found = torch.cuda.get_device_properties(index)
    return f"{found.name}, {found.multi_processor_count} multiprocessors"


class CudaEngine(TableEngine):
    """Triton kernels over the memory of one device."""

    name = "cuda"
    has_open_programs = True

    def __init__(self, index: int = 0) -> None:
        import_alone("anydml.engines.cuda.device", "anydml.engines.cuda.launch")
        from anydml.engines.cuda.device import figures_of
        from anydml.engines.cuda.launch import HOPPER

        self.index = index
        self.memory = "cpu" if is_interpreted() else f"cuda:{index}"
        self._figures = figures_of(index)
        few = dict.fromkeys(itertools.product((DataType.FLOAT32, DataType.FLOAT16), (4, 8)), 8)
        if is_interpreted() or self._figures.target.arch >= HOPPER:
            few[DataType.FLOAT16, 4] = 16
        self.traits = Traits(
            weight_only_rows=few,
            masks_padding=True,
            chooses_matrix_layouts=True,
            replays_checks=True,
            nhwc={DataType.FLOAT16: NhwcLayout(), DataType.FLOAT32: NhwcLayout()},
        )

    def takes(self, primitive: Primitive) -> bool:
        """Whether there is a schedule for a primitive that could be spelled out."""
        import_alone("anydml.engines.cuda.attention.attention")
        from anydml.engines.cuda.attention.attention import takes_attend

        return isinstance(primitive, InPasses) or (isinstance(primitive, Attend) and takes_attend(primitive))

    @property
    def asked_of(self) -> object:
        """The GPU's figures."""
        return self._figures

    def split_k(self, primitive: Primitive) -> tuple[Primitive, ...] | None:
        """The steps that are quicker than one whose sums are long and few; None for most."""
        import_alone("anydml.engines.cuda.gemm.gemm")
        from anydml.engines.cuda.gemm.gemm import split_k

        return split_k(primitive, self._figures.multiprocessors)

    def replayed(self, launch: Callable[[], Any]) -> Callable[[], Any]:
        """The same row of launches, which a CUDA graph takes the place of when it is run again and again."""
        import_alone("anydml.engines.cuda.launch")
        from anydml.engines.cuda.launch import replay_of

        return launch if is_interpreted() else replay_of(launch, self.index)

    def reserve(self, size: int) -> Buffer:
        """So many bytes of the engine's memory."""
        import_alone("torch")
        import torch

        where = torch.device("cpu") if is_interpreted() else torch.device("cuda", self.index)
        memory = torch.empty(size, dtype=torch.uint8, device=where)
        return Buffer(memory.data_ptr(), size, True, memory, self.memory)
