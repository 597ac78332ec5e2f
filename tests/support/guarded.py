"""Arrays beside pages that end the process when they are touched."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np


class Guarded:
    """An array with an unreadable page right behind it, or right before it."""

    def __init__(self, size: int, *, at_end: bool) -> None:
        page = mmap.PAGESIZE
        inner = -(-size // page) * page
        self.map = mmap.mmap(-1, inner + 2 * page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        libc = ctypes.CDLL(None, use_errno=True)
        for guard in (start, start + page + inner):
            assert libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 0) == 0
        first = page + (inner - size if at_end else 0)
        self.bytes = np.frombuffer(self.map, np.uint8)[first : first + size]

    def array(self, x: np.ndarray) -> np.ndarray:
        held = self.bytes.view(x.dtype).reshape(x.shape)
        held[...] = x
        return held


def guarded(x: np.ndarray, at_end: bool) -> np.ndarray:
    return Guarded(x.nbytes, at_end=at_end).array(x)
