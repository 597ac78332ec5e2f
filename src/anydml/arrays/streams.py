"""Memory of our own on a GPU, which launches on whatever streams use one after the other."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from anydml.arrays.cuda import index_of, is_capturing, load_torch
from anydml.core.memory import is_cuda

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anydml.core.memory import Buffer


@contextlib.contextmanager
def at_home(place: str) -> Iterator[None]:
    """Whatever is allocated here is of the default stream, which is there for as long as the process.

    PyTorch gives memory out, and takes it back, in the order of one stream. What is allocated while a CUDA graph
    captures is the capture's.
    """
    if not is_cuda(place) or is_capturing():
        yield
        return
    cuda = load_torch().cuda
    with cuda.stream(cuda.default_stream(index_of(place))):
        yield


class Turns:
    """The launches that use memory allocated `at_home`: each waits for the one before, where that ran elsewhere.

    When it goes, the default stream waits for the last. PyTorch, told of every stream by `record_stream`, would look
    for them when the memory goes, and end the process where one of them is gone already.
    """

    __slots__ = ("_done", "_index", "_memory", "_stream")

    def __init__(self, memory: object, place: str) -> None:
        self._memory, self._index = memory, index_of(place)
        self._stream = 0
        """The last that it was used on; 0 is the default stream."""
        self._done: Any = None
        """After the last launch there; None for the default stream."""
        while _left and not is_capturing():
            _left.pop().__del__()

    def enter(self) -> None:
        """Before a launch. One that is captured has been bound for the capture alone."""
        cuda = load_torch().cuda
        if _current_handle(self._index) == self._stream or is_capturing():
            return
        here = cuda.current_stream(self._index)
        here.wait_event(self._done or cuda.default_stream(self._index).record_event())
        self._stream = here.cuda_stream

    def leave(self) -> None:
        """After a launch."""
        if not self._stream:
            self._done = None
        elif not is_capturing():
            self._done = load_torch().cuda.current_stream(self._index).record_event()

    def __del__(self) -> None:
        if getattr(self, "_done", None) is None:
            return
        with contextlib.suppress(Exception):  # when the process ends there is nothing to wait for
            if is_capturing():  # which nothing may be waited for in
                _left.append(self)
            else:
                load_torch().cuda.default_stream(self._index).wait_event(self._done)
                self._done = None


_left: list[Turns] = []
"""Those that went while a CUDA graph was captured."""


def _current_handle(index: int) -> int:
    """The handle of the current stream; PyTorch's public way takes 10 times as long."""
    torch = load_torch()
    find = getattr(getattr(torch, "_C", None), "_cuda_getCurrentRawStream", None)
    handle: int = find(index) if find else torch.cuda.current_stream(index).cuda_stream
    return handle


def in_turns(dispatch: Callable[[], Any], memory: Buffer) -> Callable[[], Any]:
    """Let a dispatch use memory that was reserved at home, on whatever stream it then runs."""
    if not is_cuda(memory.device):  # a queue of its own runs one after the other
        return dispatch
    turns = Turns(memory.owner, memory.device)

    def run() -> Any:
        turns.enter()
        try:
            return dispatch()
        finally:
            turns.leave()

    return run
