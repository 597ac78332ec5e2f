"""Memory of the engine's own: zeroed words on the device, and words that both it and the host see."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from anydml.engines.cuda.launch import IS_INTERPRETED

Words = np.ndarray[Any, np.dtype[np.int64]]
_none = np.zeros(4, np.int64)
NO_WORDS: int = (_none.__array_interface__["data"][0] + 15) & -16
"""The address for a kernel that looks at no words."""


def device_words(count: int, index: int) -> tuple[int, object]:
    """So many words of 64 bits, all 0: their address, and what keeps them alive."""
    if IS_INTERPRETED:
        host = np.zeros(count, np.int64)
        return host.__array_interface__["data"][0], host
    words = torch.zeros(count, dtype=torch.int64, device=torch.device("cuda", index))
    return words.data_ptr(), words


def shared_words(count: int) -> tuple[int, Words]:
    """Words in the host's memory that a kernel writes to: their address for the kernel, and an array of them."""
    words = torch.zeros(count, dtype=torch.int64, pin_memory=not IS_INTERPRETED)
    array: Words = words.numpy()
    return words.data_ptr(), array
