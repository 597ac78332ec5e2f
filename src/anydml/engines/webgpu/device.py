"""GPUs that wgpu reaches by Vulkan, Metal or Direct3D 12: which there are, and one of them opened, with its pipelines.

wgpu-py finds adapters and opens devices; what happens at each dispatch goes by wgpu-native's C functions (`queue.py`).
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anydml.core.device_memory import on_loss
from anydml.core.errors import DeviceLostError, Fault, MissingDependencyError, show
from anydml.core.late_imports import import_alone
from anydml.core.locks import make_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.engines.webgpu.probe import Arithmetic

WANTED = ("immediates", "shader-f64", "subgroup", "timestamp-query", "timestamp-query-inside-passes")
"""Features that kernels use where they are there; none is needed."""
WORD = 4
"""Bytes."""
MOST_GROUPS = 4096
"""Bind groups that are kept for the next binding of the same memory: a new one takes 2 us."""
_KINDS = {"DiscreteGPU": 0, "IntegratedGPU": 1, "CPU": 3}
"""The order of adapters: the fastest first."""


@dataclass(frozen=True, slots=True)
class AdapterInfo:
    """A GPU, or a CPU that stands in for one, as its driver describes it."""

    index: int
    name: str
    vendor: str
    backend: str
    """`Vulkan`, `Metal`, `D3D12`."""
    kind: str
    """`DiscreteGPU`, `IntegratedGPU`, `CPU`."""
    memory: int
    """Bytes of the largest buffer: WebGPU does not tell how much memory there is."""
    features: tuple[str, ...]
    driver: str = ""
    """The driver's name and version."""

    def __str__(self) -> str:
        return f"{self.name}, {self.backend}"


_NAMED_TYPES = re.compile(r'"(WGPU\w+(?: ?\*|\[\d*\])|(?:uintptr_t|char|void)(?: ?\*| ?\[\])?|void\(WGPU[\w ,*]+\))"')
_NAMED_STRUCTS = re.compile(r'new_struct\(\s*"(WGPU\w+)"')


def _parse_types_at_once() -> None:
    """Have cffi parse the C types that wgpu-py and this engine name, all in one text.

    It parses each when it is first named, and every name of the header before it each time: 50 ms for a type, two
    seconds until a first result. Where cffi keeps them elsewhere it goes on doing so.
    """
    native = import_alone("wgpu.backends.wgpu_native._ffi")
    with contextlib.suppress(Exception):
        known = native.ffi._parsed_types  # noqa: SLF001 - cffi has no public way to name many types at once
        files = [Path(native.__file__).with_name("_api.py"), *Path(__file__).parent.glob("*.py")]
        text = "\n".join(file.read_text(encoding="utf-8") for file in files)
        found = {*_NAMED_TYPES.findall(text), *(f"{name} *" for name in _NAMED_STRUCTS.findall(text))}
        names = sorted(found - {*known, "void"})
        pointers = [re.sub(r"(?=\[|\(|$)", "(*)", name, count=1) for name in names]
        whole = native.ffi.typeof(f"void(*)({', '.join(pointers)})")
        for name, pointer in zip(names, whole.args, strict=True):
            known.setdefault(name, (pointer, True) if "(" in name else (pointer.item, False))


@functools.cache
def _enumerate() -> list[Any]:
    wgpu = import_alone("wgpu")
    _parse_types_at_once()
    return list(wgpu.gpu.enumerate_adapters_sync())


def _is_opengl(adapter: Any) -> bool:
    return bool(adapter.info["backend_type"] == "OpenGL")


@functools.cache
def _adapters() -> list[Any]:
    """wgpu's own: those of a backend whose memory is found by (buffer, offset) as WebGPU has it; OpenGL's has not."""
    found = [one for one in _enumerate() if not _is_opengl(one)]
    return sorted(found, key=lambda one: _KINDS.get(one.info["adapter_type"], 2))


def passed_over() -> tuple[str, ...]:
    """The adapters that OpenGL reaches, whoever else does."""
    return tuple(str(one.info["device"]) for one in _enumerate() if _is_opengl(one))


@functools.cache
def adapters() -> tuple[AdapterInfo, ...]:
    """The adapters of this machine, the fastest kind first; a device has the number of its own here."""
    return tuple(
        AdapterInfo(
            index,
            str(one.info["device"]),
            str(one.info["vendor"]),
            str(one.info["backend_type"]),
            str(one.info["adapter_type"]),
            int(one.limits["max-buffer-size"]),
            tuple(sorted(one.features)),
            str(one.info["description"]),
        )
        for index, one in enumerate(_adapters())
    )


def is_core() -> bool:
    """Whether kernels are kept to what a browser has, by ANYDML_WEBGPU_CORE=1: for tests."""
    return os.environ.get("ANYDML_WEBGPU_CORE", "") not in ("", "0")


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A compiled kernel; the objects are kept alive with it."""

    handle: int
    layout: Any
    """cffi's pointer to the layout of its bind group."""
    kept: tuple[Any, ...]


class Gpu:
    """An open device: its limits, its queue and its pipelines."""

    def __init__(self, index: int) -> None:
        api = import_alone("wgpu.backends.wgpu_native._api")
        native = import_alone("wgpu.backends.wgpu_native._ffi")
        self.lib, self.ffi, self._api = native.lib, native.ffi, api
        """wgpu-native, by cffi."""
        self.checked: Any = _Checked(self, api.libf)
        """The same, whose calls raise errors."""
        self.is_lost = False
        self.on_loss: list[Callable[[], object]] = []
        """What is done when it is lost."""
        self.info, adapter = adapters()[index], _adapters()[index]
        features = [] if is_core() else [name for name in WANTED if name in adapter.features]
        try:
            self.device = adapter.request_device_sync(required_features=features, required_limits=adapter.limits)
        except Exception as error:
            rule = f"the device {self.info} could not be opened ({show(error)})"
            raise MissingDependencyError("Device", Fault(field="name", rule=rule, value=f"webgpu:{index}")) from error
        self.features = frozenset(features)
        limits = self.device.limits
        self.offset_alignment = int(limits["min-storage-buffer-offset-alignment"])
        self.most_bindings = int(limits["max-storage-buffers-per-shader-stage"])
        self.largest_binding = int(limits["max-storage-buffer-binding-size"])
        self.largest_buffer = int(limits["max-buffer-size"])
        self.workgroup_memory = int(limits["max-compute-workgroup-storage-size"])
        self.immediate_words = int(limits["max-immediate-size"]) // WORD if "immediates" in self.features else 0
        self.handle, self.queue = self.device._internal, self.device.queue._internal  # noqa: SLF001 - wgpu-py has no public name
        self.lock = make_lock()
        """Held by whoever talks to the device."""
        self.arithmetic: Arithmetic | None = None
        """What the device makes of it, once it was probed."""
        self._pipelines: dict[tuple[str, tuple[bool, ...], int, bool], Pipeline] = {}
        self._layouts: dict[tuple[tuple[bool, ...], bool], Any] = {}
        self._groups: dict[tuple[Any, ...], tuple[Any, int]] = {}
        self._entries = self.ffi.new("WGPUBindGroupEntry[]", self.most_bindings + 1)
        self._descriptor = self.ffi.new("WGPUBindGroupDescriptor *")
        self._process = os.getpid()

    @property
    def fuses(self) -> str:
        """How a·b + c is rounded once: by the device's `fma`, or `split`: in parts, where that rounds twice."""
        return "fma" if self.arithmetic is not None and self.arithmetic.fuses else "split"

    is_precise = True
    """Whether kernels keep products apart from sums, and mend quotients and roots: see `Loose`."""

    @property
    def is_exact(self) -> bool:
        """Whether division and square root are rounded to nearest."""
        return self.arithmetic is not None and self.arithmetic.divides and self.arithmetic.roots

    def check(self) -> None:
        """That the device is there. A child process has the numbers of its parent's device, and not the device."""
        if self.is_lost:
            raise self.lost()
        if os.getpid() != self._process:
            rule = "a WebGPU device cannot be used in a child process of the one that opened it"
            way_out = "start processes by 'spawn', or make the first webgpu device in the child"
            raise MissingDependencyError("Device", Fault(field="name", rule=rule, value="webgpu", way_out=way_out))

    def lost(self) -> DeviceLostError:
        """The error of a device that is lost."""
        name = f"webgpu:{self.info.index}"
        rule = f"{self.info} was lost, with all that lay in its memory: the driver gave it up, or it was taken away"
        way_out = f'Device("{name}") makes it anew: move arrays there, load models and compile again'
        return DeviceLostError("Device", Fault(field="name", rule=rule, value=name, way_out=way_out))

    def worded(self, error: Exception) -> Exception:
        """The error to raise for one of wgpu's: that of a lost device, which everybody then lets go of."""
        if not self.is_lost and "device is lost" in str(error).lower():
            self.is_lost = True
            for forget in (*self.on_loss, *on_loss, _adapters.cache_clear):
                forget()
        return self.lost() if self.is_lost else error

    def is_alive(self) -> bool:
        """Whether it is not lost, which an empty list of commands finds out."""
        with self.lock:
            try:
                self.check()
                encoder = self.lib.wgpuDeviceCreateCommandEncoder(self.handle, self.ffi.NULL)
                commands = self.checked.wgpuCommandEncoderFinish(encoder, self.ffi.NULL)
            except DeviceLostError:
                return False
            self.lib.wgpuCommandEncoderRelease(encoder)
            self.lib.wgpuCommandBufferRelease(commands)
        return True

    def pipeline(self, text: str, reads: tuple[bool, ...], immediates: int, *, has_uniform: bool) -> Pipeline:
        """The pipeline of a kernel's text: compiled once, its storage bindings first, the numbers after them.

        `reads` has the storage that is only read: one buffer cannot be bound so and be written in one dispatch, and
        intermediates of a graph share one.
        """
        key = (text, reads, immediates, has_uniform)
        with self.lock:
            if (found := self._pipelines.get(key)) is None:
                found = self._pipelines[key] = self._compiled(*key)
        return found

    def _compiled(self, text: str, reads: tuple[bool, ...], immediates: int, has_uniform: bool) -> Pipeline:
        self.check()
        try:
            layout = self._layout(reads, has_uniform)
            whole = self.device.create_pipeline_layout(bind_group_layouts=[layout], immediate_size=immediates * WORD)
            module = self._module(text)
            compute = {"module": module, "entry_point": "main"}
            pipeline = self.device.create_compute_pipeline(layout=whole, compute=compute)
        except Exception as error:
            if isinstance(lost := self.worded(error), DeviceLostError):
                raise lost from error
            rule = f"{self.info} could not compile a kernel ({show(error)})"
            way_out = 'use Device("cpu")'
            fault = Fault(field="name", rule=rule, value=f"webgpu:{self.info.index}", way_out=way_out)
            raise MissingDependencyError("Device", fault) from error
        handle = int(self.ffi.cast("uintptr_t", pipeline._internal))  # noqa: SLF001 - wgpu-py has no public name
        return Pipeline(handle, layout._internal, (pipeline, layout, whole, module))  # noqa: SLF001 - as above

    def _layout(self, reads: tuple[bool, ...], has_uniform: bool) -> Any:
        """The layout of a bind group, which all pipelines of such bindings share, and so do their groups."""
        if (found := self._layouts.get((reads, has_uniform))) is None:
            kinds = ["read-only-storage" if is_read else "storage" for is_read in reads] + ["uniform"] * has_uniform
            entries = [{"binding": i, "visibility": 4, "buffer": {"type": kind}} for i, kind in enumerate(kinds)]
            found = self._layouts[reads, has_uniform] = self.device.create_bind_group_layout(entries=entries)
        return found

    def _module(self, text: str) -> Any:
        """A module whose indices naga does not clamp: each is guarded or was proved. Products take 14 % less."""
        ffi, lib, data = self.ffi, self.lib, text.encode()
        kept = ffi.new("char[]", data)
        source = ffi.new("WGPUShaderSourceWGSL *")
        source.chain.sType = lib.WGPUSType_ShaderSourceWGSL
        source.code.data, source.code.length = kept, len(data)
        descriptor = ffi.new("WGPUShaderModuleDescriptor *")
        descriptor.nextInChain = ffi.cast("WGPUChainedStruct *", source)
        made = self.checked.wgpuDeviceCreateShaderModuleTrusted(self.handle, descriptor, 0)
        return self._api.GPUShaderModule("", made, self.device)

    def bind_group(self, pipeline: Pipeline, entries: Sequence[tuple[int, Any, int, int]]) -> tuple[Any, int]:
        """A bind group, and its handle, of (address, buffer, offset, size) in the order of the bindings.

        The buffers of groups that are kept live on, and their memory does not: it is destroyed when it is let go of.
        """
        key = (pipeline.layout, *[(base, offset, size) for base, _, offset, size in entries])
        with self.lock:
            if (found := self._groups.get(key)) is None:
                if len(self._groups) >= MOST_GROUPS:
                    self._groups.clear()
                found = self._groups[key] = self._new_group(pipeline, entries)
        return found

    def _new_group(self, pipeline: Pipeline, entries: Sequence[tuple[int, Any, int, int]]) -> tuple[Any, int]:
        ffi, rows, descriptor = self.ffi, self._entries, self._descriptor
        for i, (_, buffer, offset, size) in enumerate(entries):
            row = rows[i]
            row.binding, row.buffer, row.offset, row.size = i, buffer, offset, size
        descriptor.layout, descriptor.entries, descriptor.entryCount = pipeline.layout, rows, len(entries)
        group = ffi.gc(self.checked.wgpuDeviceCreateBindGroup(self.handle, descriptor), self.lib.wgpuBindGroupRelease)
        return group, int(ffi.cast("uintptr_t", group))


class Loose:
    """A device, or its memory, as it is planned for where bits are traded for speed: the driver may contract products
    and sums, and divides and takes roots as it likes. Sums stay as they are written, which functions rely on.
    """

    is_precise = False
    is_exact = True

    def __init__(self, of: Any) -> None:
        self._of = of

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._of, name)
        return Loose(found) if name == "gpu" else found


class _Checked:
    """wgpu-native's functions, which raise their errors, in our words where the device is lost."""

    def __init__(self, gpu: Gpu, functions: Any) -> None:
        self._gpu, self._functions = weakref.ref(gpu), functions

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function, found = getattr(self._functions, name), self._gpu

        def call(*given: Any) -> Any:
            try:
                return function(*given)
            except Exception as error:
                if (gpu := found()) is None:
                    raise
                raise gpu.worded(error) from error

        setattr(self, name, call)
        return call


@functools.cache
def open_gpu(index: int) -> Gpu:
    """The device of an adapter, which all engines of a process share."""
    return Gpu(index)


on_loss.append(open_gpu.cache_clear)
