"""Arrays of any library, seen as memory without a copy: NumPy's, PyTorch's, CuPy's, and whatever shows its memory.

The host's memory is shown by DLPack and the buffer protocol, a GPU's by DLPack and `__cuda_array_interface__`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays import cuda, host
from anydml.arrays.view import ArrayView, elsewhere, is_tensor, library_name, no_array
from anydml.core.enums import DataType
from anydml.core.errors import BindingError, DmlError, Fault, show
from anydml.core.memory import HOST, Buffer, packed_strides, sizes_of_pairs

if TYPE_CHECKING:
    from collections.abc import Sequence


__all__ = ["ArrayView", "allocate", "place_of", "raw_memory", "upload", "view", "wrap"]

# DLPack's numbers of the devices whose memory the host can read: kDLCPU, kDLCUDAHost, kDLROCMHost.
_HOST_DEVICES = {1, 3, 11}
_DLPACK_NAMES = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 13: "cuda", 14: "oneapi"}


def place_of(array: Any) -> str:
    """Where an array lies: `cpu`, `cuda:1`. What has no memory to show, such as a list, is with the host."""
    if isinstance(array, np.ndarray):
        return HOST
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


def view(array: object, subject: str, field: str, *, memory: str | None = HOST, convert: bool = True) -> ArrayView:
    """Look at an array where it lies, which must be in the given memory; None for any that a device may have.

    Lists and numbers are made arrays first, unless `convert` is off: an output must be memory of the caller's own.
    """
    try:
        place = place_of(array)
        if place == HOST:
            seen = host.view_host(array, convert)
            if memory in (HOST, None):
                return seen
        elif place.startswith("cuda:") and memory in (place, None):
            return cuda.view_cuda(array, place)
        raise elsewhere(array, place, memory)
    except DmlError as error:
        raise error.within(subject, f"{field} ") from error.__cause__
    except Exception as error:  # a hostile attribute, or one that is not what its name says
        raise no_array(array, f"could not be read ({show(error)})").within(subject, f"{field} ") from error


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
    return cuda.allocate(data_type, sizes, strides, memory, like)


def wrap(result: Any, like: object) -> Any:
    """Hand a result over in the library that an array is of; as it is where that library takes no DLPack."""
    if type(result) is type(like) or isinstance(like, np.ndarray):
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
        if memory != HOST:
            raise elsewhere(buffer, place, memory).within("BufferBinding", f"{field} ")
        return raw
    seen = view(buffer, "BufferBinding", field, memory=memory, convert=False)
    if seen.strides == packed_strides(seen.sizes):
        return seen.buffer
    rule, way_out = f"{field} must be one piece of memory", "bind a packed array, or its base"
    fault = Fault(field=field, rule=rule, value=buffer, found=f"strides {seen.strides}", way_out=way_out)
    raise BindingError("BufferBinding", fault)


def upload(data: np.ndarray[Any, Any], memory: str) -> Buffer:
    """Host bytes in another memory; as they are in host memory."""
    if memory == HOST:
        return Buffer(data.__array_interface__["data"][0], data.size, True, data)
    tensor = cuda.upload(data, memory)
    cuda.synchronize(memory)  # whatever stream it is then read on
    return Buffer(tensor.data_ptr(), data.size, True, tensor, memory)
