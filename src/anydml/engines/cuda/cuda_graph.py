"""Launches that come in the same row again and again, as one launch of a CUDA graph.

To launch a kernel takes the host 5 us, and most kernels of a network with one row or one image take the device less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from anydml.engines.cuda.launch import on_device

if TYPE_CHECKING:
    from collections.abc import Callable


DIRECT = 2
"""Runs before a row of launches is captured, which takes about as long as they do."""


class Replay:
    """A row of launches, captured when it is run for the third time; captured by somebody else, it is launched."""

    __slots__ = ("_graph", "_index", "_launch", "_left", "_replay")

    def __init__(self, launch: Callable[[], Any], index: int) -> None:
        self._launch, self._index = launch, index
        self._left = DIRECT
        self._graph: Any = None
        self._replay: Callable[[], None] = launch

    def __call__(self) -> None:
        """Launch all of them."""
        if torch.cuda.is_current_stream_capturing():
            self._launch()
        elif self._graph is not None:
            self._replay()
        elif self._left:
            self._left -= 1
            self._launch()
        else:
            self._capture()
            self()

    def _capture(self) -> None:
        """Nothing runs meanwhile. What cannot be captured is launched from then on."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self._index), torch.cuda.stream(torch.cuda.Stream(self._index)):
            try:
                graph.capture_begin(capture_error_mode="thread_local")
                try:
                    self._launch()
                finally:
                    graph.capture_end()
                self._graph = graph
                self._replay = graph.replay if torch.cuda.device_count() == 1 else on_device(graph.replay, self._index)
            except RuntimeError:
                self._left = -1
