"""Array libraries that work on a GPU, as the tests use them. Importing this needs PyTorch."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

LONG = 50_000_000
"""Cycles that a stream is kept busy for: long enough for work on another one to come first."""


class Library:
    """An array library, as the tests use it."""

    array: type

    def put(self, x: np.ndarray) -> Any:
        raise NotImplementedError

    def get(self, x: Any) -> np.ndarray:
        raise NotImplementedError

    def stream(self) -> AbstractContextManager[Any]:
        """A stream that is the library's current one, and busy."""
        raise NotImplementedError


class Torch(Library):
    """PyTorch."""

    array = torch.Tensor

    def put(self, x: np.ndarray) -> Any:
        return torch.from_numpy(x).cuda()

    def get(self, x: Any) -> np.ndarray:
        found: np.ndarray = x.cpu().numpy()
        return found

    @contextmanager
    def stream(self) -> Iterator[Any]:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(LONG)
            yield stream


class Cupy(Library):
    """CuPy."""

    def __init__(self) -> None:
        self._cupy: Any = pytest.importorskip("cupy", reason="CuPy is not installed")
        self.array = self._cupy.ndarray

    def put(self, x: np.ndarray) -> Any:
        return self._cupy.asarray(x)

    def get(self, x: Any) -> np.ndarray:
        found: np.ndarray = self._cupy.asnumpy(x)
        return found

    @contextmanager
    def stream(self) -> Iterator[Any]:
        stream = self._cupy.cuda.Stream(non_blocking=True)
        with torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):
            torch.cuda._sleep(LONG)
        with stream:
            yield stream
