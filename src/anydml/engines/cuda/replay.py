"""Launches that come in the same row again and again, as one launch of a CUDA graph.

To launch a kernel takes the host 5 us, and most kernels of a network with one row or one image take the device less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from anydml.engines.cuda.launch import IS_INTERPRETED, on_device

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DIRECT = 2
"""Runs before launches are captured, which takes about as long as they do."""
BRANCHES = 4
"""Streams that launches which wait for one another not at all are captured on."""


class Replay:
    """Launches, captured when they are run for the third time; captured by somebody else, they are launched."""

    __slots__ = ("_graph", "_index", "_launches", "_left", "_replay", "_waits")

    def __init__(self, launches: Sequence[Callable[[], Any]], waits: Sequence[Sequence[int]], index: int) -> None:
        self._launches, self._waits, self._index = tuple(launches), waits, index
        self._left = -1 if IS_INTERPRETED else DIRECT
        self._graph: Any = None
        self._replay: Callable[[], None] = self._launch

    def __call__(self) -> None:
        """Launch all of them."""
        if self._left:
            self._left -= self._left > 0
            self._launch()
        elif torch.cuda.is_current_stream_capturing():
            self._launch()
        elif self._graph is not None:
            self._replay()
        else:
            self._capture(BRANCHES)
            if self._graph is None and self._left:
                self._left = 0
                self._capture(1)
            self()

    def _launch(self) -> None:
        for launch in self._launches:
            launch()

    def _capture(self, branches: int) -> None:
        """Nothing runs meanwhile. What cannot be captured is launched from then on."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self._index), torch.cuda.stream(torch.cuda.Stream(self._index)):
            try:
                graph.capture_begin(capture_error_mode="thread_local")
                try:
                    self._launch_on(branches)
                finally:
                    graph.capture_end()
                self._graph = graph
                self._replay = graph.replay if torch.cuda.device_count() == 1 else on_device(graph.replay, self._index)
            except RuntimeError:
                self._left = -1

    def _launch_on(self, branches: int) -> None:
        """Launch each on a stream where it waits for the last, and for others where it must."""
        places = spread(self._waits, branches)
        if not any(places):
            self._launch()
            return
        first = torch.cuda.current_stream(self._index)
        streams = [first, *(torch.cuda.Stream(self._index) for _ in range(max(places)))]
        begun = first.record_event()
        for stream in streams[1:]:
            stream.wait_event(begun)
        needed = {n for number, own in enumerate(self._waits) for n in own if places[n] != places[number]}
        done: dict[int, Any] = {}
        for number, launch in enumerate(self._launches):
            stream = streams[places[number]]
            for n in self._waits[number]:
                if places[n] != places[number]:
                    stream.wait_event(done[n])
            with torch.cuda.stream(stream):
                launch()
            if number in needed:
                done[number] = stream.record_event()
        for stream in streams[1:]:
            first.wait_event(stream.record_event())


def spread(waits: Sequence[Sequence[int]], branches: int) -> list[int]:
    """For each launch the number of a stream, 0 for the first: one whose last it waits for, else one that is free."""
    places: list[int] = []
    last = [-1] * branches
    before: list[set[int]] = []
    for number, own in enumerate(waits):
        before.append(set(own).union(*(before[n] for n in own)))
        follows = [k for k, tail in enumerate(last) if tail in own]
        free = [k for k, tail in enumerate(last) if tail < 0 or tail in before[number]]
        place = max(follows, key=last.__getitem__) if follows else free[0] if free else 0
        places.append(place)
        last[place] = number
    return places
