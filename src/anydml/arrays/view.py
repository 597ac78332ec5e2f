"""An array as memory, and how an array that cannot be taken is worded."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anydml.core.device_memory import memories
from anydml.core.enums import DataType
from anydml.core.errors import BindingError, DescriptionError, Fault, show
from anydml.core.memory import HOST, Buffer, is_cuda, packed_strides, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

# Their arrays never change; neither DLPack before its version 1 nor every array interface says so.
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
        """The same memory, kept alive, as a NumPy array: its elements are to be read only where they are the host's.

        Of 4-bit elements it is the bytes that they share.
        """
        if self.data_type.is_half_byte:
            return self.buffer.numpy(0, (self.buffer.size,), (1,), self.data_type.dtype)
        return self.buffer.numpy(self.offset, self.sizes, self.strides, self.data_type.dtype)


def make_view(
    array: object,
    owner: object,
    address: int,
    data_type: DataType,
    sizes: Sequence[int],
    steps: Sequence[int],
    *,
    writable: bool = True,
    device: str = HOST,
    stream: int | None = None,
) -> ArrayView:
    """Make a view of an array's numbers: the address of its first element, its sizes, and its strides in bytes."""
    width = data_type.size_in_bytes
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
    below, above = span(sizes, strides) if math.prod(sizes) else (0, -1)
    writable = writable and not is_immutable(array)
    buffer = Buffer(address + below * width, (above - below + 1) * width, writable, owner, device, stream)
    return ArrayView(array, buffer, -below * width, data_type, tuple(sizes), tuple(strides))


def is_dask(array: object) -> bool:
    """Whether an array is Dask's; where nobody imported that, none is."""
    module = sys.modules.get("dask.array")
    return module is not None and isinstance(array, module.Array)


def library_name(array: object) -> str:
    """The module that an array's type comes from, such as `cupy`."""
    return type(array).__module__.partition(".")[0]


def is_immutable(array: object) -> bool:
    """Whether its library's arrays never change."""
    return library_name(array) in _IMMUTABLE_LIBRARIES


def is_tensor(array: object) -> bool:
    """Whether it is a PyTorch tensor, on any device."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def read_data_type(dtype: object) -> DataType:
    """The data type of an array, as any library spells it."""
    try:
        return DataType(dtype)
    except DescriptionError as error:
        rule, way_out = (
            f"must have a data type that is one of {', '.join(DataType.__members__)}",
            error.faults[0].way_out,
        )
        if not way_out and "float" in (name := str(dtype)):  # bfloat16, or an extended precision
            way_out = "pass x.float()" if name.startswith("torch.") else 'pass x.astype("float32")'
        fault = Fault(field="", rule=rule, value=dtype, found=show(dtype), way_out=way_out)
        raise DescriptionError("array", fault) from None


def no_array(array: object, rule: str, way_out: str = "") -> DescriptionError:
    """The error of an object that is no array, or none that can be taken."""
    return DescriptionError("array", Fault(field="", rule=rule, value=array, found=describe(array), way_out=way_out))


def requires_gradient(array: object) -> DescriptionError:
    """A tensor that PyTorch records."""
    return no_array(array, "could not be read in place (it requires a gradient)", "pass x.detach()")


def masked(array: object, way_out: str = "") -> DescriptionError:
    """An array of which some elements do not count."""
    return no_array(array, "is a masked array, and operators have no masks", way_out)


def describe(array: object) -> str:
    """A description of an object for a message: a number or a name as it is, anything else by its type."""
    return f"a {type(array).__name__}" if not isinstance(array, (str, int, float, type(None))) else show(array)


def no_room(sizes: Sequence[int], error: Exception) -> BindingError:
    """A result for which there is no memory."""
    rule = f"OutputTensor of sizes {tuple(sizes)} could not be allocated ({show(error)})"
    return BindingError("memory", Fault(field="OutputTensor", rule=rule, value=tuple(sizes)))


def elsewhere(array: object, place: str, memory: str | None) -> BindingError:
    """An array that lies in another memory than the one that the device works in; None for every device's."""
    lies = "lies in the host's memory" if place == HOST else f"lies in the memory of {place}"
    if memory is None:
        rule, way_out = f"{lies}, which no device here works in", ""
    elif memory == HOST:
        rule = f"{lies}, and this device works in the host's"
        way_out = "with x.numpy()" if place in memories else "for instance with .cpu() or .get()"
        way_out = f"move it to the host first, {way_out}"
    else:
        rule = f"{lies}, and this device works in that of {memory}"
        way_out = (
            "move it to the host first, which this device takes arrays of as well"
            if memory in memories
            else f"move it there first, for instance with torch.as_tensor(x, device={memory!r})"
        )
    if memory is not None and (place == HOST or is_cuda(place) or place in memories):
        way_out += f", or run on Device({place!r})"
    return BindingError("array", Fault(field="", rule=rule, value=array, way_out=way_out))
