"""The webgpu engine: kernels in WGSL, for any GPU that Vulkan, Metal or Direct3D 12 reaches, by wgpu.

ANYDML_WEBGPU_CORE=1 in the environment keeps kernels to what every device and a browser has.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from anydml.core.enums import DataType
from anydml.core.errors import show
from anydml.core.late_imports import import_alone
from anydml.core.locks import cached_property
from anydml.engines.common.engine import Traits
from anydml.engines.common.table_engine import TableEngine
from anydml.ir.verbs import Reduce, Scan, Sort

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.core.memory import Buffer
    from anydml.engines.common.program import Program
    from anydml.engines.webgpu.device import AdapterInfo
    from anydml.ir.verbs import Primitive

NEEDS = ("wgpu",)
_DRIVERS = "install your GPU's driver, or Mesa's Vulkan drivers, which have one for CPUs too"


def why_missing() -> str:
    """Why the engine cannot run here, and what helps; nothing where it can."""
    if importlib.util.find_spec("wgpu") is None:
        return "the webgpu engine needs wgpu"
    try:
        there = adapters()
    except Exception as error:  # noqa: BLE001 - a driver's own
        return f"wgpu could not be loaded ({show(error)})"
    if not there:
        import_alone("anydml.engines.webgpu.device")
        from anydml.engines.webgpu.device import passed_over

        found = f"only {', '.join(over)} by OpenGL" if (over := passed_over()) else "none"
        needed = "a GPU that Vulkan, Metal or Direct3D 12 reaches"
        return f"the webgpu engine needs {needed}, and wgpu finds {found}: {_DRIVERS}"
    return ""


def adapters() -> tuple[AdapterInfo, ...]:
    """The GPUs that there are, the fastest kind first."""
    import_alone("anydml.engines.webgpu.device")
    from anydml.engines.webgpu.device import adapters

    return adapters()


class WebGpuEngine(TableEngine):
    """WGSL kernels over the memory of one device."""

    name = "webgpu"
    traits = Traits(alignment=4)  # memory is words

    def __init__(self, index: int = 0, *, is_precise: bool = True) -> None:
        import_alone("anydml.engines.webgpu.memory", "anydml.engines.webgpu.probe")
        from anydml.engines.webgpu.memory import memory_of
        from anydml.engines.webgpu.probe import probe

        self.index, self.is_precise = index, is_precise
        self._memory: Any = memory_of(index)
        self.memory = self._memory.name
        with self._memory.gpu.lock:
            self._memory.gpu.arithmetic = self._memory.gpu.arithmetic or probe(self._memory)

    @classmethod
    def over(cls, memory: Any) -> WebGpuEngine:
        """The engine over a memory that records."""
        made = cls.__new__(cls)
        made.index, made._memory, made.memory = 0, memory, memory.name  # noqa: SLF001 - its own
        return made

    @property
    def asked_of(self) -> object:
        """The memory, which has the device."""
        self._memory.gpu.check()
        return self._memory if self.is_precise else self._loose

    @cached_property
    def _loose(self) -> Any:
        import_alone("anydml.engines.webgpu.device")
        from anydml.engines.webgpu.device import Loose

        return Loose(self._memory)

    def precise(self) -> WebGpuEngine:
        """The engine for verbs that add up FLOAT64, which products of floats are a part of."""
        return self if self.is_precise else WebGpuEngine(self.index)

    def compile(self, primitive: Primitive, constants: frozenset[str] = frozenset()) -> Program:
        """Plan, and write the kernels: for each part of tensors that are too large to be bound."""
        if isinstance(primitive, (Reduce, Scan, Sort)):
            import_alone("anydml.engines.webgpu.rows.map")
            from anydml.engines.webgpu.launch import Parts
            from anydml.engines.webgpu.rows.map import pieces

            if len(parts := pieces(primitive, self._memory.gpu)) > 1:
                return Parts(tuple(super(WebGpuEngine, self).compile(part) for part in parts))
        is_double = any(view.data_type is DataType.FLOAT64 for view in primitive.views)
        if not self.is_precise and (is_double or isinstance(primitive, Scan)):
            return self.precise().compile(primitive, constants)
        return super().compile(primitive, constants)

    def is_alive(self) -> bool:
        """Whether its device is not lost."""
        found: bool = self._memory.gpu.is_alive()
        return found

    def takes(self, primitive: Primitive) -> bool:
        """Whether there is a schedule for a primitive that could be spelled out."""
        import_alone("anydml.engines.webgpu.schedules")
        from anydml.engines.webgpu.schedules import takes

        return takes(primitive, self._memory)

    def replayed(self, launch: Callable[[], Any]) -> Callable[[], Any]:
        """The rows of a row of launches, appended to the queue's table as one."""
        import_alone("anydml.engines.webgpu.launch")
        from anydml.engines.webgpu.launch import joined

        return joined(launch.launches, launch) if hasattr(launch, "launches") else launch

    def reserve(self, size: int) -> Buffer:
        """So many bytes of the engine's memory."""
        found: Buffer = self._memory.reserve(size)
        return found
