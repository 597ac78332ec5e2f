"""The device of torch-directml's users: tensors of PyTorch's PrivateUse1, whose memory is the host's.

This file alone knows how PyTorch lets Python be a backend, which is experimental there: names of `torch._C` and of
`torch.utils.backend_registration` stand nowhere else. Memory goes from the host to the device and back by DLPack, with
another device written into the capsule: nothing is copied.
"""

from __future__ import annotations

import ctypes
import importlib
import warnings
from threading import get_ident
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import backend_registration

import anydml
from anydml.core.errors import DescriptionError, Fault, UnsupportedError
from anydml.torch import bridge, eager

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "privateuseone"
"""The device's name in PyTorch, as torch-directml has it."""
_SUBJECT = "torch_directml"
_HOST_ENGINE = "cpu"
_HOST, _OWN = 1, 12
"""kDLCPU and kDLExtDev."""
_CPU_KEY = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)  # noqa: SLF001 - a backend in Python has no public name for it


# Memory


class _DLDevice(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("index", ctypes.c_int32))


class _DLTensor(ctypes.Structure):
    """The beginning of DLPack's DLManagedTensor."""

    _fields_ = (("data", ctypes.c_void_p), ("device", _DLDevice))


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _seen_as(tensor: Any, kind: int, index: int) -> Any:
    """The same memory as a tensor of another device."""
    if tensor.layout is not torch.strided or tensor.is_quantized:
        is_quantized = tensor.is_quantized
        rule = f"tensors on the device must {'not be quantised' if is_quantized else 'be strided'}"
        value, way_out = str(tensor.dtype if is_quantized else tensor.layout), ".cpu() first"
        raise UnsupportedError(_SUBJECT, Fault(field="tensor", rule=rule, value=value, way_out=way_out))
    capsule = torch._C._to_dlpack(tensor)  # noqa: SLF001 - a backend in Python has no public name for it
    device = _DLTensor.from_address(_pointer(capsule, b"dltensor")).device
    device.kind, device.index = kind, index
    return torch._C._from_dlpack(capsule)  # noqa: SLF001 - a backend in Python has no public name for it


def to_host(tensor: Any) -> Any:
    """A tensor of the device as one of the host, of the same memory."""
    if tensor.is_conj():
        return to_host(tensor.conj()).conj()
    if tensor.is_neg():
        return torch._neg_view(to_host(torch._neg_view(tensor)))  # noqa: SLF001 - PyTorch's name
    return _seen_as(tensor, _HOST, 0)


def from_host(tensor: Any, index: int = 0) -> Any:
    """A tensor of the host as one of the device, of the same memory."""
    return _seen_as(tensor.detach().resolve_conj().resolve_neg(), _OWN, index)


# Devices


def names() -> list[str]:
    """What `anydml.Device` takes, by a device's number: the host's engine, and GPUs that take its arrays."""
    found = [_HOST_ENGINE]
    found += [one.name for one in anydml.devices() if one.name.startswith("webgpu")]
    return found


_names: list[str] = []


def engine(index: int | None) -> str:
    """The engine of a device, by its number."""
    number = _Module.current if index is None else index
    if number == 0:
        return _HOST_ENGINE  # without a look for GPUs
    known()
    if not 0 <= number < len(_names):
        rule = f"there must be a device {number}"
        raise DescriptionError(_SUBJECT, Fault(field="device", rule=rule, value=number, found=f"{len(_names)} devices"))
    return _names[number]


def known() -> list[str]:
    """The engines of all devices."""
    if not _names:
        _names.extend(names())
    return _names


class _Module:
    """`torch.privateuseone`, as PyTorch asks a backend for it."""

    current = 0

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return True

    def device_count(self) -> int:
        return len(known())

    def current_device(self) -> int:
        return self.current

    def set_device(self, device: Any) -> None:
        index = torch.device(NAME, device).index if isinstance(device, int) else torch.device(device).index
        engine(index)
        type(self).current = index or 0

    def synchronize(self, device: Any = None) -> None:
        """Work is done when a call returns."""

    def manual_seed(self, seed: int) -> None:
        """Random numbers are those of the host's generator, which torch.manual_seed seeds itself."""

    manual_seed_all = manual_seed

    def get_rng_state(self, device: Any = None) -> Any:
        del device
        return torch.get_rng_state()

    def set_rng_state(self, state: Any, device: Any = None) -> None:
        del device
        torch.set_rng_state(state)

    def empty_cache(self) -> None:
        """There is none: memory is the host's."""

    def get_amp_supported_dtype(self) -> list[Any]:
        return [torch.float16]

    def _is_in_bad_fork(self) -> bool:
        return False


class _Hook(torch._C._acc.PrivateUse1Hooks):  # type: ignore[misc]  # PyTorch types it as Any  # noqa: SLF001 - a backend in Python has no public name for it
    def is_available(self) -> bool:
        return True

    def has_primary_context(self, index: int) -> bool:
        del index
        return True

    def is_built(self) -> bool:
        return True


class _Guard(torch._C._acc.DeviceGuard):  # type: ignore[misc]  # PyTorch types it as Any  # noqa: SLF001 - a backend in Python has no public name for it
    def type_(self) -> Any:
        return torch._C._autograd.DeviceType.PrivateUse1  # noqa: SLF001 - a backend in Python has no public name for it


# Operators


def _is_view(schema: Any) -> bool:
    """Whether the result is the argument's memory, which is not written."""
    return any(one.alias_info is not None and not one.alias_info.is_write for one in schema.returns)


def _view(target: Any) -> Callable[..., Any]:
    """PyTorch's own kernel of the host, which looks at sizes and strides alone and keeps the device."""

    def work(*args: Any, **named: Any) -> Any:
        return target.redispatch(_CPU_KEY, *args, **named)

    return work


def _index_of(device: Any) -> int:
    found = torch.device(device) if device is not None else None
    index = _Module.current if found is None or found.index is None else found.index
    engine(index)  # whose error it is where there is no such device
    return index


def _empty(
    size: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    memory_format: Any = None,
) -> Any:
    del layout, pin_memory
    made = torch.empty(size, dtype=dtype, device="cpu", memory_format=memory_format or torch.contiguous_format)
    return from_host(made, _index_of(device))


def _empty_strided(
    size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None
) -> Any:
    del layout, pin_memory
    return from_host(torch.empty_strided(size, stride, dtype=dtype, device="cpu"), _index_of(device))


def _copy_from(source: Any, target: Any, non_blocking: bool = False) -> Any:
    del non_blocking
    both = [to_host(one) if one.device.type == NAME else one for one in (target, source)]
    both[0].copy_(both[1])
    return target


def _copy(target: Any, source: Any, non_blocking: bool = False) -> Any:
    return _copy_from(source, target, non_blocking)


def _resize(tensor: Any, size: Any, *, memory_format: Any = None) -> Any:
    """Sizes in the same memory where it is enough, and in more of it else."""
    host = to_host(tensor)
    needed = torch.empty(size, dtype=host.dtype, device="meta", memory_format=memory_format or torch.contiguous_format)
    room = tensor.untyped_storage().nbytes() // max(tensor.element_size(), 1) - tensor.storage_offset()
    if needed.numel() <= room:
        storage, offset = tensor.untyped_storage(), tensor.storage_offset()
    else:
        made = torch.empty(size, dtype=host.dtype, memory_format=memory_format or torch.contiguous_format)
        kept = min(host.numel(), made.numel())
        made.view(-1)[:kept].copy_(host.reshape(-1)[:kept])
        storage, offset = from_host(made, tensor.device.index).untyped_storage(), 0
    return replaced(tensor, storage, offset, needed.size(), needed.stride())


def replaced(tensor: Any, storage: Any, offset: int, size: Any, stride: Any) -> Any:
    """A tensor that has other memory from now on."""
    torch.ops.aten.set_.source_Storage_storage_offset.redispatch(_CPU_KEY, tensor, storage, offset, size, stride)
    return tensor


_OWN_KERNELS: dict[str, Callable[..., Any]] = {
    "empty.memory_format": _empty,
    "empty_strided": _empty_strided,
    "_copy_from": _copy_from,
    "copy_": _copy,
    "resize_": _resize,
    "native_batch_norm": eager.batch_norm,
    "_local_scalar_dense": lambda tensor: to_host(tensor).item(),
    # nn.TransformerEncoder asks whether a nested tensor will do: there are none on the device
    "_nested_tensor_from_mask_left_aligned": lambda *_: False,
}
_SET = ("set_.source_Storage", "set_.source_Storage_storage_offset", "set_.source_Tensor", "set_")
_WHOLE = (
    "convolution", "convolution_backward", "embedding", "sum", "repeat", "stack", "native_group_norm", "rsub.Tensor",
    "rsub.Scalar", "pixel_shuffle", "embedding_dense_backward", "constant_pad_nd", "roll", "flip", "clone",
)  # fmt: skip
"""Operators that PyTorch would take apart on a device that has no kernel for them."""
_LEFT = ("_to_copy", "empty", "record_stream")


def _register() -> list[torch.library.Library]:
    """A kernel for each operator that the host has one for."""
    library = torch.library.Library("aten", "IMPL")
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key  # noqa: SLF001 - a backend in Python has no public name for it
    for whole in torch._C._dispatch_get_all_op_names():  # noqa: SLF001 - a backend in Python has no public name for it
        name = whole.removeprefix("aten::")
        is_own = name in _OWN_KERNELS
        if name == whole or has_kernel(whole, "PrivateUse1") or (name.startswith(_LEFT) and not is_own):
            continue
        if name in eager.CELLS or not (is_own or name in _WHOLE or has_kernel(whole, "CPU")):
            continue
        packet, _, overload = name.partition(".")
        try:
            target = getattr(getattr(torch.ops.aten, packet), overload or "default")
        except AttributeError:  # one that is for TorchScript alone
            continue
        if is_own:
            kernel = _OWN_KERNELS[name]
        elif name in _SET or _is_view(target._schema):  # noqa: SLF001 - PyTorch's name
            kernel = _view(target)
        else:
            kernel = eager.kernel(target)
        library.impl(name, kernel, "PrivateUse1")
    for name, function in eager.CELLS.items():
        library.impl(name, eager.on_host(function), "PrivateUse1")
    # a DataLoader's pin_memory asks the accelerator for memory; the device's is the host's
    library.impl("_pin_memory", lambda tensor, _=None: tensor.clone(), "CPU", allow_override=True)
    return [library, *_autocast(library)]


_IN_FEW_BITS = (
    "matmul",
    "linear",
    "mm",
    "addmm",
    "bmm",
    "baddbmm",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose2d.input",
)


def _autocast(library: torch.library.Library) -> list[torch.library.Library]:
    """`torch.autocast`: products in few bits, and whatever else as it is."""
    rest = torch.library.Library("_", "IMPL")
    rest.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    key = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)  # noqa: SLF001 - a backend in Python has no public name for it
    for name in _IN_FEW_BITS:
        packet, _, overload = name.partition(".")
        library.impl(
            name, _cast(getattr(getattr(torch.ops.aten, packet), overload or "default"), key), "AutocastPrivateUse1"
        )
    return [rest]


def _cast(target: Any, key: Any) -> Callable[..., Any]:
    def work(*args: Any, **named: Any) -> Any:
        dtype = torch.get_autocast_dtype(NAME)
        with torch._C._ExcludeDispatchKeyGuard(key):  # noqa: SLF001 - a backend in Python has no public name for it
            several = [
                one.to(dtype) if isinstance(one, torch.Tensor) and one.dtype == torch.float32 else one for one in args
            ]
            return target(*several, **named)

    return work


# Files and copies


def _tag(storage: Any) -> str | None:
    return str(storage.device) if storage.device.type == NAME else None


def _restore(storage: Any, location: str) -> Any:
    """A storage of the host that was read from a file, on the device whose name the file or the caller has."""
    if not str(location).startswith(NAME):
        return None
    return _storage(storage, torch.device(location).index or 0)


def _storage(host: Any, index: int) -> Any:
    plain = getattr(host, "_untyped_storage", host)
    return from_host(torch.tensor([], dtype=torch.uint8).set_(plain), index).untyped_storage()


def _cloned(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A storage's copy, as `copy.deepcopy` asks for it: PyTorch has an allocator for none but its own devices."""

    def clone(self: Any) -> Any:
        if self.device.type != NAME:
            return original(self)
        return _storage(self.cpu(), self.device.index)

    return clone


def _tied(original: Callable[..., Any]) -> Callable[..., Any]:
    """Module._apply, of `.to(device)`: parameters that modules share stay shared, as on PyTorch's own devices."""
    nested: set[int] = set()

    def apply(self: Any, function: Any, recurse: bool = True) -> Any:
        thread = get_ident()
        if thread in nested:
            return original(self, function, recurse)
        nested.add(thread)
        try:
            before: dict[Any, list[tuple[Any, str]]] = {}
            for module in self.modules() if recurse else (self,):
                for name, one in module._parameters.items():  # noqa: SLF001 - PyTorch's name
                    if one is not None:
                        before.setdefault(one, []).append((module, name))
            found = original(self, function, recurse)
            for (first, name), *others in before.values():
                for module, other in others:
                    module._parameters[other] = first._parameters[name]  # noqa: SLF001 - PyTorch's name
            return found
        finally:
            nested.discard(thread)

    return apply


def _leave_data_parallel() -> None:
    """nn.DataParallel runs the module itself, as without a GPU: copies to several devices are made by CUDA alone."""
    module = importlib.import_module("torch.nn.parallel.data_parallel")
    original = module._get_available_device_type  # noqa: SLF001 - PyTorch's name
    module._get_available_device_type = lambda: None if (found := original()) == NAME else found  # type: ignore[attr-defined]  # noqa: SLF001 - PyTorch's name


_libraries: list[torch.library.Library] = []


def set_up() -> None:
    """Register the device with PyTorch, once."""
    if _libraries:
        return
    start = getattr(backend_registration, "_setup_privateuseone_for_python_backend", None)
    if start is None:
        rule = "PyTorch must let Python be a backend, as 2.13 does"
        way_out = 'a later PyTorch, or torch.compile(model, backend="anydml") on the host'
        raise UnsupportedError(_SUBJECT, Fault(field="torch", rule=rule, value=torch.__version__, way_out=way_out))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of kernels that take the place of others, and of what is experimental
        start(rename=NAME, backend_module=_Module(), hook=_Hook(), device_guard=_Guard())
        _libraries.extend(_register())
    eager.connect(to_host, from_host, replaced, engine)
    bridge.HOSTS[NAME] = (to_host, from_host, engine)
    torch.serialization.register_package(1, _tag, _restore)
    torch.nn.Module._apply = _tied(torch.nn.Module._apply)  # noqa: SLF001 - PyTorch's name
    torch.UntypedStorage.clone = _cloned(torch.UntypedStorage.clone)
    _leave_data_parallel()
