"""Arrays of any library, seen as memory without a copy: NumPy, whatever speaks DLPack, and the buffer protocol."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.enums import DataType
from anydml.errors import BindingError, DescriptionError, DmlError, Fault, show
from anydml.memory import Buffer, numpy_view, packed_strides, span

if TYPE_CHECKING:
    from collections.abc import Sequence

# DLPack's numbers of the devices whose memory the host can read: kDLCPU, kDLCUDAHost, kDLROCMHost.
_HOST_DEVICES = {1, 3, 11}
_DLPACK_NAMES = {
    2: "cuda",
    4: "opencl",
    7: "vulkan",
    8: "metal",
    10: "rocm",
    13: "cuda (managed)",
    14: "oneapi",
}
# Their arrays never change; DLPack before its version 1 cannot say so.
_IMMUTABLE_LIBRARIES = {"jax", "jaxlib", "tensorflow"}


@dataclass(frozen=True, slots=True)
class ArrayView:
    """An array as memory: the bytes it touches, where its first element lies, and its layout."""

    array: object = field(repr=False)
    """The caller's own object, or for a plain list the array made of it."""
    buffer: Buffer
    offset: int
    """Bytes from the buffer's start to the element at coordinate 0; strides may lead back from there."""
    data_type: DataType
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements, of any sign. For a dimension of size 1, where it has no meaning, what packing would give."""

    def numpy(self) -> np.ndarray[Any, Any]:
        """The same memory as a NumPy array."""
        return numpy_view(self.buffer.address + self.offset, self.sizes, self.strides, self.data_type.dtype)

    def wrap(self, result: np.ndarray[Any, Any]) -> Any:
        """Hand a result over in the library that this array is of; in NumPy where that library takes no DLPack."""
        if isinstance(self.array, np.ndarray) or not hasattr(type(self.array), "__dlpack__"):
            return result
        try:
            library = _library(self.array)
            return result if library is None else library.from_dlpack(result)
        except Exception as error:
            rule = f"the result could not be made a {type(self.array).__name__} ({show(error)})"
            fault = Fault(field="OutputTensor", rule=rule, value=result, way_out="pass an array of yours as out=")
            raise BindingError("from_dlpack", fault) from error


def _library(array: Any) -> Any:
    """What holds the library's from_dlpack: the array API's namespace, else the root module of a base class."""
    if hasattr(array, "__array_namespace__"):
        return array.__array_namespace__()
    modules = (sys.modules.get(cls.__module__.partition(".")[0]) for cls in type(array).__mro__)
    return next((module for module in modules if hasattr(module, "from_dlpack")), None)


def as_plain(array: Any) -> np.ndarray[Any, Any] | None:
    """A plain NumPy array, or PyTorch tensor seen as one, at once; None for anything that wants a closer look."""
    if type(array) is np.ndarray:
        return array
    torch = sys.modules.get("torch")
    if torch is None or type(array) is not torch.Tensor:
        return None
    try:
        return array.numpy()  # type: ignore[no-any-return]  # torch is not there to be asked for its types
    except Exception:  # noqa: BLE001 - on another device, with a gradient, of a type that NumPy lacks, ...
        return None


def wrap_plain(result: np.ndarray[Any, Any]) -> Any:
    """A result for a caller whose array was a PyTorch tensor."""
    return sys.modules["torch"].from_numpy(result)


def _root(array: object) -> str:
    return type(array).__module__.partition(".")[0]


def view(array: object, subject: str, field: str, *, convert: bool = True) -> ArrayView:
    """Look at an array where it lies.

    Lists and numbers are made arrays first, unless `convert` is off: an output must be memory of the caller's own.
    """
    try:
        return _view_numpy(_as_numpy(array, convert), array)
    except DmlError as error:
        raise error.within(subject, f"{field} ") from error.__cause__
    except Exception as error:  # a hostile attribute, or one that is not what its name says
        raise _no_array(array, f"could not be read ({show(error)})").within(subject, f"{field} ") from error


def _as_numpy(array: Any, convert: bool) -> np.ndarray[Any, Any]:
    if type(array) is np.ndarray:
        return array
    if isinstance(array, np.ma.MaskedArray):
        raise _no_array(array, "has a mask, which no operator knows of", "pass its .data, or .filled(...)")
    if isinstance(array, np.ndarray):
        return array
    if hasattr(type(array), "__dlpack__"):
        return _from_dlpack(array)
    if hasattr(array, "__cuda_array_interface__"):
        raise _elsewhere(array, "cuda")
    if not convert and not _is_memory(array):
        raise _no_array(array, "must be an array that can be written to")
    if not isinstance(array, (list, tuple, int, float, np.generic)) and not (
        _is_memory(array) or hasattr(type(array), "__array__")
    ):
        raise _no_array(array, "must be an array: NumPy's, one that speaks DLPack, or a list of numbers")
    try:
        return np.asarray(array)
    except Exception as error:
        raise _no_array(array, f"could not be made an array ({show(error)})") from error


def _is_memory(array: Any) -> bool:
    """Whether an array made of this is the same memory, not a copy."""
    if isinstance(array, (str, bytes, np.generic)):
        return False
    if hasattr(type(array), "__array_interface__"):
        return True
    try:
        memoryview(array)
    except Exception:  # noqa: BLE001 - no buffer, or one that is closed
        return False
    return True


def _no_array(array: object, rule: str, way_out: str = "") -> DescriptionError:
    return DescriptionError("array", Fault(field="", rule=rule, value=array, found=_describe(array), way_out=way_out))


def _describe(array: object) -> str:
    return f"a {type(array).__name__}" if not isinstance(array, (str, int, float, type(None))) else show(array)


def _elsewhere(array: object, where: str) -> BindingError:
    rule = f"lies in the memory of {where}, and this device works in the host's"
    way_out = "move it to the host first, for instance with .cpu() or .get()"
    return BindingError("array", Fault(field="", rule=rule, value=array, way_out=way_out))


def _from_dlpack(array: Any) -> np.ndarray[Any, Any]:
    try:
        kind, index = (int(number) for number in array.__dlpack_device__())
    except Exception as error:
        raise _no_array(array, f"could not be read in place ({show(error)})") from error
    if kind not in _HOST_DEVICES:
        raise _elsewhere(array, f"{_DLPACK_NAMES.get(kind, f'DLPack device {kind}')}:{index}")
    if (dtype := getattr(array, "dtype", None)) is not None:
        _data_type(dtype)  # names a type that DirectML lacks better than DLPack's own refusal does
    torch = sys.modules.get("torch")
    try:
        if torch is not None and isinstance(array, torch.Tensor):
            # numpy() keeps the storage from being resized under a bound operator, and refuses a tensor whose
            # values are the negatives of its memory; DLPack does neither.
            return array.numpy()  # type: ignore[no-any-return]  # torch is not there to be asked for its types
        return np.from_dlpack(array)
    except Exception as error:
        raise _no_array(array, f"could not be read in place ({show(error)})") from error


def _data_type(dtype: object) -> DataType:
    try:
        return DataType(dtype)
    except DescriptionError as error:
        f = error.faults[0]
        fault = Fault(field="", rule=f"must have a data type that is one of {', '.join(DataType.__members__)}",
                      value=dtype, found=show(dtype), way_out=f.way_out)  # fmt: skip
        raise DescriptionError("array", fault) from None


def _view_numpy(memory: np.ndarray[Any, Any], array: object) -> ArrayView:
    data_type = _data_type(memory.dtype)
    width = data_type.size_in_bytes
    sizes, steps = memory.shape, memory.strides
    strides = list(packed_strides(sizes))
    for i, (size, step) in enumerate(zip(sizes, steps, strict=True)):
        if size > 1:
            strides[i], rest = divmod(step, width)
            if rest:
                rule = (
                    f"must have strides of whole elements; {step} bytes in dimension {i} are not a multiple of {width}"
                )
                fault = Fault(field="", rule=rule, value=steps, way_out="copy it first, with np.ascontiguousarray(x)")
                raise DescriptionError("array", fault)
    below, above = span(sizes, strides) if memory.size else (0, -1)
    address: int = memory.__array_interface__["data"][0]
    writable = _root(array) not in _IMMUTABLE_LIBRARIES and (memory.flags.writeable or _is_old_dlpack(array))
    buffer = Buffer(address + below * width, (above - below + 1) * width, writable, (array, memory))
    kept = array if not isinstance(array, (list, tuple, int, float)) else memory
    return ArrayView(kept, buffer, -below * width, data_type, sizes, tuple(strides))


def _is_old_dlpack(array: Any) -> bool:
    """Whether NumPy calls the memory read-only for no better reason than that DLPack before version 1 cannot tell."""
    if isinstance(array, np.ndarray) or not hasattr(type(array), "__dlpack__"):
        return False
    try:
        array.__dlpack__(max_version=(1, 0))
    except TypeError:
        return True
    except Exception:  # noqa: BLE001 - it was exported a moment ago; whatever this is, it is no sign of an old protocol
        return False
    return False


def allocate(data_type: DataType, sizes: Sequence[int], strides: Sequence[int] | None = None) -> np.ndarray[Any, Any]:
    """Make an array for a result, with the layout asked for."""
    try:
        if strides is None or tuple(strides) == packed_strides(sizes):
            return np.empty(sizes, data_type.dtype)
        below, above = span(sizes, strides)
        memory = np.zeros(above - below + 1, data_type.dtype)
    except (MemoryError, ValueError) as error:
        rule = f"OutputTensor of sizes {tuple(sizes)} could not be allocated ({show(error)})"
        raise BindingError("memory", Fault(field="OutputTensor", rule=rule, value=tuple(sizes))) from error
    steps = [stride * data_type.size_in_bytes for stride in strides]
    return np.ndarray(sizes, data_type.dtype, memory, -below * data_type.size_in_bytes, steps)


def raw_memory(buffer: object, field: str) -> Buffer:
    """Look at a raw buffer: bytes in one piece, as a bytearray, an mmap, a ctypes array or a packed array has them."""
    fault: Fault
    if hasattr(type(buffer), "__dlpack__") or isinstance(buffer, np.ndarray):
        seen = view(buffer, "BufferBinding", field, convert=False)
        if seen.strides == packed_strides(seen.sizes):
            return seen.buffer
        rule, way_out = f"{field} must be one piece of memory", "bind a packed array, or its base"
        fault = Fault(field=field, rule=rule, value=buffer, found=f"strides {seen.strides}", way_out=way_out)
        raise BindingError("BufferBinding", fault)
    try:
        memory = np.frombuffer(buffer, np.uint8)  # type: ignore[call-overload]  # whether it is one is what is asked
    except Exception as error:
        rule = f"{field} must be a buffer of bytes, such as a bytearray, an mmap or a packed array"
        fault = Fault(field=field, rule=rule, value=buffer, found=_describe(buffer))
        raise BindingError("BufferBinding", fault) from error
    return Buffer(memory.__array_interface__["data"][0], memory.size, memory.flags.writeable, (buffer, memory))
