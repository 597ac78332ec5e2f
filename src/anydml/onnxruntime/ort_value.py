"""OrtValue: an array where it lies, on the host or on a GPU, a list of them, or nothing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays import DeviceArray, place_of, send
from anydml.arrays.cuda import load_torch
from anydml.arrays.view import is_tensor
from anydml.core.device_memory import memories
from anydml.core.errors import show
from anydml.core.memory import HOST, numpy_address
from anydml.onnxruntime.ort_device import OrtDevice
from anydml.onnxruntime.ort_errors import refuse, refuse_type
from anydml.onnxruntime.type_names import number_of, read_dtype, tensor_type

if TYPE_CHECKING:
    from collections.abc import Sequence


class OrtValue:
    """A tensor that a session takes or gives, in the memory of a device: made by its `ortvalue_from_…` methods.

    On the CPU it shares the memory of the array that it was made from, as `numpy()` shares its own.
    """

    def __init__(self, held: Any) -> None:
        self.held: Any = held.held if isinstance(held, OrtValue) else held
        """NumPy's array, PyTorch's on a GPU, a DeviceArray; a list for a sequence, None for an empty optional."""

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: Any, /, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """A tensor of an array; on a device other than the CPU it is a copy."""
        if not isinstance(numpy_obj, np.ndarray) or numpy_obj.dtype.kind in "OSU":
            raise refuse_type("OrtValue", "numpy_obj", "a NumPy array of numbers", numpy_obj, "np.array(x) is one")
        number_of(numpy_obj.dtype.newbyteorder("="))
        native = np.asarray(numpy_obj, numpy_obj.dtype.newbyteorder("="), order="C")
        return cls(placed(native, OrtDevice.make(device_type, device_id, vendor_id).memory))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: Any, /, onnx_element_type: int) -> OrtValue:
        """A tensor over an array's memory, its elements seen as another type of as many bytes."""
        dtype = read_dtype(onnx_element_type)
        if not isinstance(data, np.ndarray) or data.dtype.hasobject or dtype.hasobject:
            raise refuse_type("OrtValue", "data", "a NumPy array of numbers", data)
        if data.dtype.itemsize != dtype.itemsize:
            rule = f"data must have elements of {dtype.itemsize} bytes, as {dtype.name} has"
            raise refuse("OrtValue", "data", rule, f"{data.dtype.itemsize}")
        return cls(np.ascontiguousarray(data).view(dtype))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: Any,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> OrtValue:
        """A tensor to be written: its elements are not set. The type is NumPy's, or ONNX's number."""
        device, dtype = OrtDevice.make(device_type, device_id, vendor_id), read_dtype(element_type)
        number_of(dtype)
        try:
            return cls(placed(np.empty(tuple(shape), dtype), device.memory))
        except (ValueError, TypeError, MemoryError) as error:
            rule = f"a tensor of shape {show(shape)} could not be made ({show(error)})"
            raise refuse("OrtValue", "shape", rule) from error

    @classmethod
    def from_dlpack(cls, data: Any, is_bool_tensor: bool = False) -> OrtValue:
        """A tensor over the memory of another library's array, or of a DLPack capsule."""
        try:
            if type(data).__name__ == "PyCapsule":
                held = load_torch().utils.dlpack.from_dlpack(data)
                held = held if held.is_cuda else held.numpy()
            else:
                held = np.from_dlpack(data) if place_of(data) == HOST else load_torch().from_dlpack(data)
        except Exception as error:
            raise refuse("OrtValue", "data", f"data could not be read by DLPack ({show(error)})") from error
        if is_bool_tensor:
            held = held.view(np.bool_ if isinstance(held, np.ndarray) else load_torch().bool)
        return cls(held)

    @property
    def _ortvalue(self) -> OrtValue:
        """Itself: programs that reach for what ONNX Runtime wraps find the same methods."""
        return self

    # What it is

    def is_tensor(self) -> bool:
        """Whether it is a tensor."""
        return not isinstance(self.held, list) and self.held is not None

    def is_tensor_sequence(self) -> bool:
        """Whether it is a sequence of tensors."""
        return isinstance(self.held, list)

    def is_sparse_tensor(self) -> bool:
        """False: DirectML has no sparse tensors."""
        return False

    def has_value(self) -> bool:
        """Whether an optional has a value."""
        return self.held is not None

    def shape(self) -> list[int]:
        """The sizes of a tensor."""
        return [int(size) for size in self._tensor().shape]

    def element_type(self) -> int:
        """ONNX's number of the elements' type."""
        return number_of(dtype_in(self.held[0] if isinstance(self.held, list) and self.held else self._tensor()))

    def data_type(self) -> str:
        """The type's name: `tensor(float)`."""
        name = tensor_type(self.element_type())
        return f"seq({name})" if isinstance(self.held, list) else name

    def tensor_size_in_bytes(self) -> int:
        """The bytes of its elements."""
        return math.prod(self.shape()) * dtype_in(self._tensor()).itemsize

    def device_name(self) -> str:
        """Where it lies: cpu or cuda."""
        return self.memory.partition(":")[0]

    @property
    def memory(self) -> str:
        """Where it lies: `cpu`, `cuda:1`."""
        return HOST if isinstance(self.held, list) or self.held is None else place_of(self.held)

    def data_ptr(self) -> int:
        """The address of its first element: a `DeviceArray`'s is its device's own."""
        tensor = self._tensor()
        if isinstance(tensor, DeviceArray):
            return tensor.address
        return numpy_address(tensor) if isinstance(tensor, np.ndarray) else int(tensor.data_ptr())

    # Its elements

    def numpy(self) -> Any:
        """Its elements as an array, which on the CPU shares its memory."""
        return on_host(self._tensor())

    def update_inplace(self, data: Any) -> None:
        """Write elements of an array, or of another OrtValue, where they lie: the address stays."""
        given = data.held if isinstance(data, OrtValue) else data
        if not isinstance(given, (np.ndarray, DeviceArray)) and not is_tensor(given):
            raise refuse_type("OrtValue", "data", "a NumPy array or an OrtValue", data)
        tensor = self._tensor()
        found, wanted = (dtype_in(given), math.prod(given.shape)), (dtype_in(tensor), math.prod(tensor.shape))
        if found != wanted:
            rule = f"data must have {wanted[1]} elements of {wanted[0].name}"
            raise refuse("OrtValue", "data", rule, f"{found[1]} of {found[0].name}")
        if isinstance(tensor, np.ndarray):
            if not tensor.flags.writeable:
                raise refuse("OrtValue", "", "it must be made of an array that may be written")
            tensor[...] = on_host(given).reshape(tensor.shape)
        elif isinstance(tensor, DeviceArray):
            tensor.copy_from(on_host(given).reshape(tensor.shape))
        else:
            tensor.copy_(placed(given, self.memory).reshape(tensor.shape))

    def to_dlpack(self) -> Any:
        """Its elements as a DLPack capsule."""
        return self.__dlpack__()

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        tensor = self._tensor()
        if isinstance(tensor, DeviceArray):
            rule, way_out = f"memory of {tensor.device} has no DLPack", "numpy() has its elements"
            raise refuse("OrtValue", "", rule, way_out=way_out)
        return tensor.__dlpack__(**options) if isinstance(tensor, np.ndarray) else tensor.__dlpack__(stream=stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, index = self._tensor().__dlpack_device__()
        return int(kind), int(index)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        return (
            f"OrtValue({self.data_type()}, shape={self.shape()}, device={self.memory!r})"
            if self.is_tensor()
            else (f"OrtValue({'an empty optional' if self.held is None else f'a sequence of {len(self.held)}'})")
        )

    def _tensor(self) -> Any:
        if not self.is_tensor():
            what = "an empty optional" if self.held is None else "a sequence"
            raise refuse("OrtValue", "", "it must be a tensor", what)
        return self.held


def dtype_in(tensor: Any) -> np.dtype[Any]:
    """NumPy's type of an array's elements."""
    if isinstance(tensor, (np.ndarray, DeviceArray)):
        found: np.dtype[Any] = tensor.dtype
        return found
    return read_dtype(str(tensor.dtype).rpartition(".")[2])


def placed(array: Any, memory: str) -> Any:
    """An array in a memory: as it is where it lies there."""
    if memory == HOST or place_of(array) == memory:
        return on_host(array) if memory == HOST else array
    if memory in memories or isinstance(array, DeviceArray):
        return send(on_host(array), memory)
    return send(array, memory).to(memory)


def on_host(array: Any) -> Any:
    """An array in the host's memory; what is no array as it is."""
    if isinstance(array, DeviceArray):
        return array.numpy()
    return array.cpu().numpy() if is_tensor(array) else array


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: object = None) -> None:  # noqa: ARG001 - taken as ONNX Runtime takes it
    """Copy tensors into others, of as many elements and the same type, whatever memory they lie in."""
    for field, several in (("src", src), ("dst", dst)):
        if not isinstance(several, (list, tuple)) or not all(isinstance(value, OrtValue) for value in several):
            raise refuse_type("copy_tensors", field, "a list of OrtValues", several)
    if len(src) != len(dst):
        raise refuse("copy_tensors", "dst", "dst must be as many as src", f"{len(dst)} and {len(src)}")
    for source, target in zip(src, dst, strict=True):
        target.update_inplace(source)
