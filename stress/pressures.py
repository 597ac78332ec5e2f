"""Pressures around the work of a process: signals, forks, changing thread counts, small stacks."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import random
import select
import signal
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from stress import doors, items
from stress.watch import MOST_THREADS, cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stress.worker import Worker

FORK_SECONDS, FORK_WAITS = 45, 4
"""How long a forked child may take, and how often as long again where it works on: others work beside it."""
STACK = 128 * 1024
_X = np.arange(12, dtype="int32").reshape(3, 4)
_stacks = threading.Lock()
_chance = random.Random()  # noqa: S311 - when something happens is not part of an item


# Signals, which Python gives to its main thread


class Signals:
    """SIGINT interrupts the item that the main thread is at; SIGALRM runs an operator in the midst of it."""

    def __init__(self, worker: Worker) -> None:
        self._worker, self._is_armed, self._is_at_work = worker, False, False
        signal.signal(signal.SIGINT, self._interrupt)
        signal.signal(signal.SIGALRM, self._run_one)

    def _interrupt(self, *_: Any) -> None:
        if self._is_armed:
            self._is_armed = False
            raise KeyboardInterrupt

    def _run_one(self, *_: Any) -> None:
        """A handler may use anydml, whatever it interrupts."""
        was_armed, self._is_armed = self._is_armed, False
        try:
            if not np.array_equal(dml.slice1(_X, (0, 0), (3, 4), (1, -1), device="cpu"), _X[:, ::-1]):
                self._worker.tell.fault("wrong", "an operator that a signal's handler ran")
            self._worker.pressures["handlers"] += 1
        except Exception:  # noqa: BLE001 - whatever it is, it is a fault
            self._worker.tell.fault("bare", "in a signal's handler\n" + traceback.format_exc())
        finally:
            self._is_armed = was_armed
        if self._is_at_work:  # and not in the process's end, which such a signal would be
            signal.setitimer(signal.ITIMER_REAL, _chance.uniform(0.001, 0.2))

    def run(self, work: Callable[[], None]) -> None:
        """Work that may be interrupted at any point."""
        self._is_at_work = True
        signal.setitimer(signal.ITIMER_REAL, _chance.uniform(0.001, 0.2))
        try:
            self._is_armed = True
            work()
            self._is_armed = False
        except KeyboardInterrupt:
            self._worker.pressures["interrupts"] += 1
        finally:
            self._is_armed = self._is_at_work = False
            signal.setitimer(signal.ITIMER_REAL, 0)


# The number of threads


def change_threads(worker: Worker) -> None:
    """Set the number of threads at random times, until the worker rests or stops."""
    while worker.is_busy():
        dml.set_num_threads(_chance.randint(1, MOST_THREADS))
        worker.pressures["thread counts"] += 1
        time.sleep(_chance.uniform(0.001, 0.05))


# Forks


def fork(worker: Worker, numbers: list[int]) -> None:
    """A child that does some items and exits: it must do so, and find nothing wrong."""
    worker.pressures["forks"] += 1
    (reads, writes), (traces, tells) = os.pipe(), os.pipe()
    with doors.drawing:
        pid = os.fork()
    if not pid:
        _in_child(worker, numbers, writes, tells)
    os.close(writes)
    os.close(tells)
    trace: str | None = ""
    try:
        said, worked = None, 0.0
        for _ in range(FORK_WAITS):
            said = _read(reads, time.monotonic() + FORK_SECONDS)
            before, worked = worked, cpu_seconds(pid)
            if said is not None or (trace and worked - before < 1):
                break
            if worked - before < 1:
                os.kill(pid, signal.SIGUSR1)
                # A child tells where it stands as soon as it has a CPU: one that tells nothing waits for others' work.
                trace = _read(traces, time.monotonic() + 10, is_whole=False)
        if said is None:
            os.kill(pid, signal.SIGKILL)
    finally:
        os.close(reads)
        os.close(traces)
    status = os.waitpid(pid, 0)[1]
    if said is None:
        worker.tell.fault(
            "hang", f"a forked child does not end, {worked:.0f} s at work; items {numbers}\n{trace}", numbers[0]
        )
    elif said:
        worker.tell.fault("wrong", f"in a forked child: {said}", numbers[0])
    elif status:
        worker.tell.fault("crash", f"a forked child ended with status {status}; items {numbers}", numbers[0])


def _in_child(worker: Worker, numbers: list[int], writes: int, tells: int) -> None:
    status = 1
    try:
        faulthandler.register(signal.SIGUSR1, file=tells)  # where it stands, should it not end
        sys.unraisablehook, threading.excepthook = sys.__unraisablehook__, threading.__excepthook__
        for kind in (signal.SIGINT, signal.SIGALRM):
            signal.signal(kind, signal.SIG_IGN)
        for number in numbers:
            if said := items.make(worker.seed, number).judge():
                os.write(writes, f"item {number}: {said}".encode())
                break
        status = 0
    except BaseException:  # noqa: BLE001 - nothing may leave a child
        os.write(writes, traceback.format_exc().encode()[-4000:])
    finally:
        os._exit(status)


def _read(descriptor: int, deadline: float, *, is_whole: bool = True) -> str | None:
    """The words of a child until it ends; None where it does not end, unless that will do."""
    found = b""
    while (left := deadline - time.monotonic()) > 0:
        if select.select([descriptor], [], [], left)[0]:
            data = os.read(descriptor, 65536)
            if not data:
                return found.decode(errors="replace")
            found += data
    return None if is_whole else found.decode(errors="replace")


# Small stacks


@contextlib.contextmanager
def _small_stacks() -> Iterator[None]:
    with _stacks:
        before = threading.stack_size(STACK)
        try:
            yield
        finally:
            threading.stack_size(before)


def on_small_stack(worker: Worker, work: Callable[[], str], number: int) -> None:
    """Repeat an item on a thread of 128 KiB of stack."""
    worker.pressures["small stacks"] += 1
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(work()))
    with _small_stacks():
        thread.start()
    thread.join()
    if said != [""]:
        worker.tell.fault("wrong", f"on a small stack: {said}", number)
