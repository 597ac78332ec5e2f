"""Arrays in the memory of a GPU, and the streams that their libraries work on.

PyTorch's tensors are asked themselves, anything else for its `__cuda_array_interface__`, else for DLPack, which PyTorch
reads. Nothing here reads or writes an element but `upload` and `read_bytes`.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays.view import (
    is_immutable,
    is_tensor,
    library_name,
    make_view,
    masked,
    no_array,
    no_room,
    read_data_type,
    requires_gradient,
)
from anydml.core.errors import DmlError, show
from anydml.core.late_imports import import_alone
from anydml.core.memory import is_cuda, packed_strides, span

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.arrays.view import ArrayView
    from anydml.core.enums import DataType
    from anydml.core.memory import Buffer

# The CUDA array interface's name of the legacy default stream, which PyTorch and CuPy call 0.
_LEGACY_STREAM = 1


def load_torch() -> Any:
    """PyTorch, which whoever has arrays on a GPU has loaded."""
    return import_alone("torch")


def index_of(place: str) -> int:
    """The number of a GPU: 1 for `cuda:1`."""
    return int(place.partition(":")[2])


class _Bytes:
    """Shows bytes on a GPU to PyTorch."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": (size,),
            "strides": None,
            "typestr": "|u1",
        }


def bytes_at(address: int, size: int) -> Any:
    """Memory of a GPU as a tensor of bytes."""
    return load_torch().as_tensor(_Bytes(address, size))


def find_index(array: Any) -> int:
    """The GPU of an array that shows no more than its interface: where there are several, the address tells."""
    try:
        torch = load_torch()
        if torch.cuda.device_count() < 2:
            return 0
        address = array.__cuda_array_interface__["data"][0]
        index: int = bytes_at(address, 1).get_device() if address else 0
    except ImportError:
        return 0
    return index


# Views


def view_cuda(array: Any, place: str) -> ArrayView:
    """Look at an array of a GPU's."""
    if is_tensor(array):
        return _view_tensor(array, place)
    interface = getattr(array, "__cuda_array_interface__", None)
    return _view_dlpack(array, place) if interface is None else _view_interface(array, interface, place)


def _view_tensor(array: Any, place: str) -> ArrayView:
    data_type = read_data_type(array.dtype)
    if array.layout is not load_torch().strided:
        raise no_array(array, "could not be read in place (it is sparse)", "pass its .to_dense()")
    if array.requires_grad:
        raise requires_gradient(array)
    if array.is_neg():
        raise no_array(array, "could not be read in place (its memory holds the negatives)", "pass its .resolve_neg()")
    width = data_type.size_in_bytes
    owner = (array, array.untyped_storage())  # set_() gives a tensor other memory, and leaves this to whoever holds it
    steps = [stride * width for stride in array.stride()]
    return make_view(array, owner, array.data_ptr(), data_type, tuple(array.shape), steps, device=place)


def _view_interface(array: Any, interface: dict[str, Any], place: str) -> ArrayView:
    if interface.get("mask") is not None:
        raise masked(array)
    data_type = read_data_type(np.dtype(interface["typestr"]))
    address, read_only = interface["data"]
    sizes = tuple(int(size) for size in interface["shape"])
    steps = interface.get("strides")
    if steps is None:
        steps = [stride * data_type.size_in_bytes for stride in packed_strides(sizes)]
    # CuPy's own stream at each dispatch says more than the one at the time of binding.
    stream = None if library_name(array) == "cupy" else interface.get("stream")
    return make_view(
        array,
        (array, interface),
        address or 0,
        data_type,
        sizes,
        [int(step) for step in steps],
        writable=not read_only,
        device=place,
        stream=stream,
    )


def _view_dlpack(array: Any, place: str) -> ArrayView:
    try:
        tensor = load_torch().from_dlpack(array)
        seen = _view_tensor(tensor, place)
    except DmlError:
        raise
    except Exception as error:
        raise no_array(array, f"could not be read in place ({show(error)})") from error
    buffer = seen.buffer._replace(owner=(array, tensor), writable=not is_immutable(array))
    return replace(seen, array=array, buffer=buffer)


# Results


def allocate(data_type: DataType, sizes: Sequence[int], strides: Sequence[int] | None, place: str, like: object) -> Any:
    """Make an array for a result on a GPU: CuPy's where the caller's is, else PyTorch's."""
    make = _allocate_cupy if library_name(like) == "cupy" else _allocate_torch
    packed = strides is None or tuple(strides) == packed_strides(sizes)
    try:
        return make(data_type, tuple(sizes), None if packed or strides is None else tuple(strides), place)
    except Exception as error:
        raise no_room(sizes, error) from error


def _allocate_torch(data_type: DataType, sizes: tuple[int, ...], strides: tuple[int, ...] | None, place: str) -> Any:
    torch = load_torch()
    dtype = getattr(torch, data_type.name.lower())
    if strides is None:
        return torch.empty(sizes, dtype=dtype, device=place)
    below, above = span(sizes, strides)
    return torch.zeros(above - below + 1, dtype=dtype, device=place).as_strided(sizes, strides, -below)


def _allocate_cupy(data_type: DataType, sizes: tuple[int, ...], strides: tuple[int, ...] | None, place: str) -> Any:
    cupy = sys.modules["cupy"]
    with cupy.cuda.Device(index_of(place)):
        if strides is None:
            return cupy.empty(sizes, data_type.dtype)
        below, above = span(sizes, strides)
        memory = cupy.zeros(above - below + 1, data_type.dtype)
        width = data_type.size_in_bytes
        steps = tuple(stride * width for stride in strides)
        return cupy.ndarray(sizes, data_type.dtype, memory.data + -below * width, steps)


# Streams


def on_callers_stream(dispatch: Callable[[], Any], buffers: Sequence[Buffer]) -> Callable[[], Any]:
    """Make a dispatch run where the caller's library works, on its current stream; as it is where that is PyTorch's.

    What another producer may still be writing, PyTorch's stream waits for. The first buffer tells whose call it is.
    """
    first = buffers[0]
    if not is_cuda(first.device):
        return dispatch
    for buffer in buffers:
        if buffer.stream is not None:
            _await(buffer.stream, index_of(buffer.device))
    owner = first.owner[0] if isinstance(first.owner, tuple) else None
    if library_name(owner) == "cupy":
        return functools.partial(_on_cupys_stream, dispatch, index_of(first.device))
    return dispatch


def is_capturing() -> bool:
    """Whether launches are recorded into a CUDA graph, and what is bound meanwhile is ready in its replays alone."""
    found: bool = load_torch().cuda.is_current_stream_capturing()
    return found


def _await(stream: int, index: int) -> None:
    torch = load_torch()
    handle = 0 if stream == _LEGACY_STREAM else stream
    current = torch.cuda.current_stream(index)
    if current.cuda_stream != handle:
        current.wait_stream(torch.cuda.ExternalStream(handle, device=index))


def _on_cupys_stream(dispatch: Callable[[], Any], index: int) -> Any:
    torch, cupy = sys.modules["torch"], sys.modules["cupy"]
    handle = cupy.cuda.get_current_stream(index).ptr
    if handle == torch.cuda.current_stream(index).cuda_stream:
        return dispatch()
    with torch.cuda.stream(torch.cuda.ExternalStream(handle, device=index)):
        return dispatch()


# Copies, for those who ask for one


def upload(data: np.ndarray[Any, Any], place: str) -> Any:
    """Copy host bytes to a GPU."""
    return load_torch().from_numpy(data).to(place)


def read_bytes(buffer: Buffer) -> np.ndarray[Any, Any]:
    """Copy what a buffer on a GPU holds to the host."""
    torch = load_torch()
    synchronize(buffer.device)  # whatever stream it is written on
    data: np.ndarray[Any, Any] = (
        torch.as_tensor(_Bytes(buffer.address, buffer.size), device=buffer.device).cpu().numpy()
    )
    return data


def synchronize(place: str) -> None:
    """Wait for a GPU to be done."""
    load_torch().cuda.synchronize(place)
