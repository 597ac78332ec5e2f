"""Arrays of any library, seen as memory without a copy: NumPy's, PyTorch's, CuPy's, and whatever shows its memory.

The host's memory is shown by DLPack and the buffer protocol, a GPU's by DLPack and `__cuda_array_interface__`. What
lies in memory that no library knows is a `DeviceArray`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays import cuda, host
from anydml.arrays.device_array import DeviceArray
from anydml.arrays.view import (
    ArrayView,
    elsewhere,
    is_tensor,
    library_name,
    make_view,
    no_array,
    no_room,
    read_data_type,
)
from anydml.core.device_memory import memories
from anydml.core.enums import DataType
from anydml.core.errors import BindingError, DmlError, Fault, show
from anydml.core.memory import HOST, Buffer, is_cuda, packed_strides, sizes_of_pairs, span

if TYPE_CHECKING:
    from collections.abc import Sequence


__all__ = [
    "ArrayView",
    "DeviceArray",
    "allocate",
    "device_of",
    "elements_of",
    "on_host",
    "place_of",
    "raw_memory",
    "read_bytes",
    "results_in",
    "send",
    "upload",
    "view",
    "wait",
    "wrap",
]

# DLPack's numbers of the devices whose memory the host can read: kDLCPU, kDLCUDAHost, kDLROCMHost.
_HOST_DEVICES = {1, 3, 11}
_DLPACK_NAMES = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 13: "cuda", 14: "oneapi"}


def place_of(array: Any) -> str:
    """Where an array lies: `cpu`, `cuda:1`. What has no memory to show, such as a list, is with the host."""
    if isinstance(array, np.ndarray):
        return HOST
    if type(array) is DeviceArray:
        return array.device
    try:
        if is_tensor(array) and array.is_cuda:
            return f"cuda:{array.get_device()}"
        if hasattr(type(array), "__dlpack__"):
            kind, index = (int(number) for number in array.__dlpack_device__())
            name = _DLPACK_NAMES.get(kind, f"DLPack device {kind}")
            return HOST if kind in _HOST_DEVICES else f"{name}:{index}"
        if hasattr(array, "__cuda_array_interface__"):
            return f"cuda:{cuda.find_index(array)}"
    except Exception:  # noqa: BLE001 - a hostile attribute, which whoever looks at the array closely will meet and word
        return HOST
    return HOST


def device_of(array: Any) -> str | None:
    """The name of the device that works where an array lies; None for the host's memory, and where none does."""
    place = place_of(array)
    return place if place != HOST and (is_cuda(place) or place in memories) else None


def results_in(memory: str, like: object) -> str:
    """The memory of results: a device's own, or the host's where it takes arrays of the host and was given such."""
    return HOST if memory in memories and place_of(like) != memory else memory


def view(array: object, subject: str, field: str, *, memory: str | None = HOST, convert: bool = True) -> ArrayView:
    """Look at an array where it lies, which must be in the given memory; None for any that a device may have.

    A device whose memory no library knows takes the host's as well. Lists and numbers are made arrays first, unless
    `convert` is off: an output must be memory of the caller's own.
    """
    try:
        place = place_of(array)
        if place == HOST:
            seen = host.view_host(array, convert)
            if memory in (HOST, None) or memory in memories:
                return seen
        elif memory in (place, None):
            if is_cuda(place):
                return cuda.view_cuda(array, place)
            if type(array) is DeviceArray:
                return _view_device_array(array)
        raise elsewhere(array, place, memory)
    except DmlError as error:
        raise error.within(subject, f"{field} ") from error.__cause__
    except Exception as error:  # a hostile attribute, or one that is not what its name says
        raise no_array(array, f"could not be read ({show(error)})").within(subject, f"{field} ") from error


def _view_device_array(array: DeviceArray) -> ArrayView:
    data_type = read_data_type(array.dtype)
    return make_view(array, array, array.address, data_type, array.shape, array.strides, device=array.device)


def allocate(
    data_type: DataType,
    sizes: Sequence[int],
    strides: Sequence[int] | None = None,
    *,
    memory: str = HOST,
    like: object = None,
) -> Any:
    """Make an array for a result, laid out as asked: NumPy's, or on a GPU PyTorch's, or CuPy's where `like` is.

    Of 4-bit elements it has the bytes that they share.
    """
    if data_type.is_half_byte:
        sizes, strides = sizes_of_pairs(sizes, packed_strides(sizes) if strides is None else strides), None
        data_type = DataType.UINT8
    if memory == HOST:
        return host.allocate(data_type, sizes, strides)
    if memory in memories:
        return _allocate_device_array(data_type, tuple(sizes), strides, memory)
    return cuda.allocate(data_type, sizes, strides, memory, like)


def _allocate_device_array(
    data_type: DataType, sizes: tuple[int, ...], strides: Sequence[int] | None, memory: str
) -> DeviceArray:
    try:
        if strides is None or tuple(strides) == packed_strides(sizes):
            return DeviceArray.empty(data_type.dtype, sizes, memory)
        below, above = span(sizes, strides)
        width = data_type.size_in_bytes
        whole = DeviceArray.of(np.zeros(above - below + 1, data_type.dtype), memory)
    except DmlError:
        raise
    except Exception as error:
        raise no_room(sizes, error) from error
    steps = tuple(stride * width for stride in strides)
    return DeviceArray.over(whole.buffer, whole.address - below * width, whole.dtype, sizes, steps)


def wrap(result: Any, like: object) -> Any:
    """Hand a result over in the library that an array is of; as it is where that library takes no DLPack."""
    if type(result) is type(like) or isinstance(like, np.ndarray) or type(result) is DeviceArray:
        return result
    try:
        if library_name(like) == "numba":
            return sys.modules["numba"].cuda.as_cuda_array(result)
        library = _library(like) if hasattr(type(like), "__dlpack__") else None
        return result if library is None else library.from_dlpack(result)
    except Exception as error:
        rule = f"the result could not be made a {type(like).__name__} ({show(error)})"
        fault = Fault(field="OutputTensor", rule=rule, value=result, way_out="pass an array of yours as out=")
        raise BindingError("from_dlpack", fault) from error


def _library(array: Any) -> Any:
    """The holder of the library's from_dlpack: the array API's namespace, else the root module of a base class."""
    if hasattr(array, "__array_namespace__"):
        return array.__array_namespace__()
    modules = (sys.modules.get(cls.__module__.partition(".")[0]) for cls in type(array).__mro__)
    return next((module for module in modules if hasattr(module, "from_dlpack")), None)


def raw_memory(buffer: object, field: str, memory: str = HOST) -> Buffer:
    """Look at a raw buffer: bytes in one piece, as a bytearray, an mmap, a ctypes array or a packed array has them."""
    place = place_of(buffer)
    if place == HOST and not isinstance(buffer, np.ndarray) and not hasattr(type(buffer), "__dlpack__"):
        raw = host.raw_memory(buffer, field)
        if memory != HOST and memory not in memories:
            raise elsewhere(buffer, place, memory).within("BufferBinding", f"{field} ")
        return raw
    seen = view(buffer, "BufferBinding", field, memory=memory, convert=False)
    if seen.strides == packed_strides(seen.sizes):
        return seen.buffer
    rule, way_out = f"{field} must be one piece of memory", "bind a packed array, or its base"
    fault = Fault(field=field, rule=rule, value=buffer, found=f"strides {seen.strides}", way_out=way_out)
    raise BindingError("BufferBinding", fault)


# Copies from one memory to another


def upload(data: np.ndarray[Any, Any], memory: str) -> Buffer:
    """Host bytes in another memory; as they are in host memory."""
    if memory == HOST:
        return Buffer(data.__array_interface__["data"][0], data.size, True, data)
    if memory in memories:
        array = DeviceArray.of(data, memory)
        return Buffer(array.address, data.size, True, array, memory)
    tensor = cuda.upload(data, memory)
    cuda.synchronize(memory)  # whatever stream it is then read on
    return Buffer(tensor.data_ptr(), data.size, True, tensor, memory)


def read_bytes(buffer: Buffer) -> np.ndarray[Any, Any]:
    """Copy what a buffer of a device's memory holds to the host."""
    if buffer.device in memories:
        return memories[buffer.device].read(buffer.address, buffer.size)
    return cuda.read_bytes(buffer)


def elements_of(seen: ArrayView) -> np.ndarray[Any, Any]:
    """The elements of an array, wherever it lies: its own memory on the host, and else a copy."""
    if seen.buffer.device == HOST:
        return seen.numpy()
    width = seen.data_type.size_in_bytes
    steps = [stride * width for stride in seen.strides]
    return np.ndarray(seen.sizes, seen.data_type.dtype, read_bytes(seen.buffer), seen.offset, steps)


def wait(memory: str) -> None:
    """Wait until a device has done what was dispatched; the host's work is done when it returns."""
    if memory in memories:
        memories[memory].wait()
    elif memory != HOST:
        cuda.synchronize(memory)


def send(array: Any, memory: str) -> Any:
    """An array of NumPy's in a device's memory: PyTorch's there, or a `DeviceArray`; any other as it is."""
    if memory == HOST or not isinstance(array, np.ndarray):
        return array
    if memory in memories:
        return DeviceArray.of(array, memory)
    return cuda.load_torch().from_numpy(array if array.flags.writeable else array.copy()).to(memory)


def on_host(array: Any) -> np.ndarray[Any, Any]:
    """An array of NumPy's as it is, and a device's, copied to the host."""
    if isinstance(array, np.ndarray):
        return array
    found: np.ndarray[Any, Any] = array.numpy() if type(array) is DeviceArray else array.cpu().numpy()
    return found
