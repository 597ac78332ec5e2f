"""Clocks: the device's own, by events, and how long a thing may take."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch

from benchmarks.cuda.contestants import Contestant

CYCLES, MOST_CYCLES = 40_000, 8_000_000
"""How long the device is kept busy for a call that is about to be launched, and at the most: 20 us and 4 ms."""


class Clock:
    """Times calls on the device, or for memory of the host by the host's clock."""

    def __init__(self, place: str) -> None:
        self._is_cuda = torch.device(place).type == "cuda"
        self._wait: Callable[[int], None] | None = getattr(torch.cuda, "_sleep", None) if self._is_cuda else None

    def synchronize(self) -> None:
        if self._is_cuda:
            torch.cuda.synchronize()

    def time(self, contestant: Contestant, repeat: int, *, hide_launch: bool = True) -> tuple[float, float]:
        """Seconds a call on the device and seconds of the host's time, over so many calls, in turn on each set.

        With `hide_launch` the calls are queued behind a wait, so that the device never waits for the host.
        """
        calls = contestant.calls
        queue = [calls[i % len(calls)] for i in range(repeat)]
        self.synchronize()
        if not self._is_cuda or contestant.on_own_stream:
            start = time.perf_counter()
            for call in queue:
                call()
            seconds = (time.perf_counter() - start) / repeat
            return seconds, seconds
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        if hide_launch and self._wait is not None:
            self._wait(min(CYCLES * (repeat + 2), MOST_CYCLES))
        first.record()
        start = time.perf_counter()
        for call in queue:
            call()
        host = time.perf_counter() - start
        last.record()
        last.synchronize()
        return first.elapsed_time(last) / 1e3 / repeat, host / repeat


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in what takes longer, as soon as Python gets a word in, and again where it is swallowed."""

    def ring(*_: Any) -> NoReturn:
        raise TimeoutError(f"took more than {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3), 2.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def remark(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
