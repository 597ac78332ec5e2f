"""The thread pool of Python's own threads, for systems without what the native team needs."""

from __future__ import annotations

import itertools
import os
import queue
import threading
from typing import TYPE_CHECKING

from anydml.core.late_imports import start_thread
from anydml.engines.common.threads import get_num_threads

if TYPE_CHECKING:
    from collections.abc import Callable


NAME = "of Python's threads"
STACK = 1024 * 1024


class _Job:
    """Turns of one kernel's work, which whoever is free takes one after the other."""

    def __init__(self, work: Callable[[int], None], count: int) -> None:
        self.work, self.count = work, count
        self.tickets = itertools.count()  # next() on it is one step, under Python's lock
        self.lock = threading.Lock()
        self.helpers = 0
        self.is_over = False
        self.all_left = threading.Lock()  # an Event's wait, interrupted, may end in a RuntimeError of its own
        self.all_left.acquire()
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
                    self.all_left.release()

    def take_turns(self) -> None:
        """Take turns until none is left."""
        while (ticket := next(self.tickets)) < self.count:
            self.work(ticket)

    def finish(self) -> None:
        """Wait for those who are still at work, whatever signals' handlers raise meanwhile; then let it through."""
        pressed: BaseException | None = None
        while True:
            try:
                with self.lock:
                    self.is_over = True
                    waiting = self.helpers > 0
                if waiting:
                    self.all_left.acquire()
                break
            except BaseException as error:  # noqa: BLE001 - of Ctrl-C or of a signal's handler
                pressed = error
        if (failure := pressed or self.error) is not None:
            raise failure


class _Pool:
    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self.size = 0
        self.lock = threading.Lock()

    def ask(self, job: _Job, helpers: int) -> None:
        if self.size < helpers and not self.lock.locked():  # by this very thread, under a signal's handler
            with self.lock:
                self._grow(helpers)
        for _ in range(min(helpers, self.size)):
            self.jobs.put(job)

    def _grow(self, size: int) -> None:
        """Start threads up to so many, or as many as the system allows."""
        while self.size < size and start_thread(self._work, STACK):
            self.size += 1

    def _work(self) -> None:
        while True:
            job = self.jobs.get()
            job.help()
            del job  # do not keep its memory alive until the next one comes


_pool = _Pool()


def _after_fork() -> None:
    """A child has none of its parent's threads."""
    global _pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def run(work: Callable[[int], None], count: int) -> None:
    """Call work(0) .. work(count - 1), on as many threads as there are turns and threads allow."""
    helpers = min(get_num_threads(), count) - 1
    job = _Job(work, count)
    try:
        if helpers > 0:
            _pool.ask(job, helpers)
        job.take_turns()
    except BaseException:
        job.count = 0  # the others take no more turns either
        raise
    finally:
        job.finish()
