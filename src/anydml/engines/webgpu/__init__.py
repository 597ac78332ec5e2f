"""The webgpu engine: kernels in WGSL, for any GPU that Vulkan, Metal or Direct3D 12 reaches, by wgpu.

ANYDML_WEBGPU_CORE=1 in the environment keeps kernels to what every device and a browser has.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from anydml.core.errors import show
from anydml.core.late_imports import import_alone
from anydml.engines.common.engine import Engine, Traits
from anydml.engines.common.repeat import compile_repeat
from anydml.engines.common.routes import REPEATED
from anydml.ir.bounds import are_checked, check_fetches
from anydml.ir.verbs import Repeat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.core.memory import Buffer
    from anydml.engines.common.program import Program
    from anydml.engines.common.routes import Route
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


class WebGpuEngine(Engine):
    """WGSL kernels over the memory of one device."""

    name = "webgpu"
    traits = Traits()

    def __init__(self, index: int = 0) -> None:
        import_alone("anydml.engines.webgpu.memory", "anydml.engines.webgpu.probe")
        from anydml.engines.webgpu.memory import memory_of
        from anydml.engines.webgpu.probe import probe

        self.index = index
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

    def compile(self, primitive: Primitive, constants: frozenset[str] = frozenset()) -> Program:
        """Plan, and write the kernels; they are compiled when they are bound."""
        import_alone("anydml.engines.webgpu.schedules")
        from anydml.engines.webgpu.schedules import plan

        if are_checked():
            check_fetches(primitive)
        if isinstance(primitive, Repeat):
            return compile_repeat(self, primitive, constants)
        return plan(primitive, self._memory, constants)

    def route(self, primitives: Sequence[Primitive], constants: frozenset[str]) -> Route:
        """The row of the decision table that a verb is carried out by."""
        import_alone("anydml.engines.webgpu.schedules")
        from anydml.engines.webgpu.schedules import route

        (primitive,) = primitives
        return REPEATED if isinstance(primitive, Repeat) else route(primitive, self._memory, constants)

    def reserve(self, size: int) -> Buffer:
        """So many bytes of the engine's memory."""
        found: Buffer = self._memory.reserve(size)
        return found
