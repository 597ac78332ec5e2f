"""Where tests have their arrays: in the memory that an engine works in, laid out as they are."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

import anydml as dml
from anydml.core.memory import is_cuda, numpy_address, numpy_view
from anydml.engines.cuda import NEEDS, is_interpreted
from gpu import OnGpu

WIPED = 0xA5


def why_not_interpreted() -> str:
    """What to install for kernels to be interpreted; nothing where it is there, or a GPU is to run them."""
    missing = [name for name in NEEDS if importlib.util.find_spec(name) is None] if is_interpreted() else []
    return f"{' and '.join(missing)} not installed: make test EXTRAS='torch triton' has it" if missing else ""


def is_on_gpu(device: dml.Device | str) -> bool:
    """Whether a device works in CUDA's memory, and takes no array of the host's; an interpreted one does."""
    found = dml.Device(device) if isinstance(device, str) else device
    return is_cuda(found.engine.memory)


def put_bytes(data: bytearray | np.ndarray) -> Any:
    """A copy in the memory of a GPU."""
    import torch

    return torch.from_numpy(np.array(data, np.uint8)).cuda()


def get_bytes(memory: Any) -> bytearray:
    return bytearray(memory.cpu().numpy().tobytes())


class Moved(OnGpu):
    """A copy of an array in the memory of a GPU, in its layout and as far off an aligned address."""

    def __init__(self, array: np.ndarray) -> None:
        low, high = np.lib.array_utils.byte_bounds(array)
        before = low % 64
        held = numpy_view(low, (high - low,), (1,), np.dtype(np.uint8))
        self.memory = put_bytes(np.concatenate([np.full(before, WIPED, np.uint8), held]))
        self._like, self._first = array, before + numpy_address(array) - low
        super().__init__(
            array.shape, self.memory.data_ptr() + self._first, array.dtype.str, strides=array.strides or None
        )

    def back(self) -> np.ndarray:
        """As an array again."""
        like = self._like
        return np.ndarray(like.shape, like.dtype, get_bytes(self.memory), self._first, like.strides)


def put(array: np.ndarray, device: dml.Device | str) -> Any:
    """An array where a device takes it from: in the host's memory the array itself."""
    return Moved(array) if is_on_gpu(device) else array


def get(array: Any) -> np.ndarray:
    """What was put somewhere, or came out there."""
    if isinstance(array, Moved):
        return array.back()
    found: np.ndarray = array if isinstance(array, np.ndarray) else array.cpu().numpy()
    return found


def wipe(array: Any) -> None:
    """Overwrite every byte of what was put somewhere."""
    if isinstance(array, Moved):
        array.memory.fill_(WIPED)
    else:
        array.view(np.uint8)[...] = WIPED


def refill(array: Any, values: np.ndarray) -> None:
    """Overwrite what was put somewhere with other values, in its packed layout."""
    if isinstance(array, Moved):
        array.memory[-values.nbytes :].copy_(put_bytes(np.frombuffer(values.tobytes(), np.uint8)))
    else:
        array[...] = values
