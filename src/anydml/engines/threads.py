"""The threads that kernels run on: a pool that the caller works along with, so that it never waits for a free one."""

from __future__ import annotations

import itertools
import os
import queue
import threading
from typing import TYPE_CHECKING

from anydml.errors import DescriptionError, Fault
from anydml.parse import read_int

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_THREADS = 1024


def _available() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def _from_environment() -> int:
    given = os.environ.get("ANYDML_NUM_THREADS", "")
    if not given:
        return _available()
    faults: list[Fault] = []
    number = read_int(int(given) if given.strip().isdecimal() else given, "ANYDML_NUM_THREADS", faults, 1, MOST_THREADS)
    if faults:
        raise DescriptionError("threads", faults)
    return number


class _Job:
    """Ranges of one kernel's work, which whoever is free takes in turn."""

    def __init__(self, work: Callable[[int], None], count: int) -> None:
        self.work, self.count = work, count
        self.tickets = itertools.count()  # next() on it is one step, under Python's lock
        self.lock = threading.Lock()
        self.helpers = 0
        self.is_over = False
        self.all_left = threading.Event()
        self.error: BaseException | None = None

    def help(self) -> None:
        """Work along, as a thread of the pool; one that comes too late does nothing."""
        with self.lock:
            if self.is_over:
                return
            self.helpers += 1
        try:
            self.take_turns()
        except BaseException as error:  # noqa: BLE001 - told to the caller, whose thread it should have been
            self.error = error
        finally:
            with self.lock:
                self.helpers -= 1
                if self.is_over and not self.helpers:
                    self.all_left.set()

    def take_turns(self) -> None:
        """Take ranges until none is left."""
        while (ticket := next(self.tickets)) < self.count:
            self.work(ticket)

    def finish(self) -> None:
        """Wait for those who are still at work."""
        with self.lock:
            self.is_over = True
            waiting = self.helpers > 0
        if waiting:
            self.all_left.wait()
        if self.error is not None:
            raise self.error


class _Pool:
    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self.size = 0
        self.lock = threading.Lock()

    def ask(self, job: _Job, helpers: int) -> None:
        if self.size < helpers:
            with self.lock:
                while self.size < helpers:
                    threading.Thread(target=self._work, daemon=True, name=f"anydml-{self.size}").start()
                    self.size += 1
        for _ in range(helpers):
            self.jobs.put(job)

    def _work(self) -> None:
        while True:
            job = self.jobs.get()
            job.help()
            del job  # do not keep its memory alive until the next one comes


_pool = _Pool()
_num_threads: int | None = None


def _after_fork() -> None:
    """A child has none of its parent's threads."""
    global _pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def get_num_threads() -> int:
    """The threads that one dispatch may run on, the caller's own included."""
    global _num_threads
    if _num_threads is None:
        _num_threads = _from_environment()
    return _num_threads


def set_num_threads(number: int) -> None:
    """Set the threads that one dispatch may run on; the answers are the same for any number."""
    global _num_threads
    faults: list[Fault] = []
    number = read_int(number, "number", faults, 1, MOST_THREADS)
    if faults:
        raise DescriptionError("set_num_threads", faults)
    _num_threads = number


def run(work: Callable[[int], None], count: int) -> None:
    """Call work(0) .. work(count - 1), on as many threads as there are turns and threads allow."""
    helpers = min(get_num_threads(), count) - 1
    job = _Job(work, count)
    if helpers > 0:
        _pool.ask(job, helpers)
    try:
        job.take_turns()
    finally:
        job.finish()
