"""The team of native threads that large work is handed to: made when it is first needed, ended with the process.

Its threads are the system's own, with a stack of their own size, and run nothing of Python's: a dispatch is one call
that ends before any exception of Python's is raised, Ctrl-C's among them. What takes long has threads of its own, which
are cancelled then: see `Cancellable`.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import platform
import signal
import sys
import threading
import time
from collections import deque
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, ClassVar

from anydml.core.late_imports import run_alone
from anydml.core.memory import keep_for_ever
from anydml.engines.common.cores import count_cores
from anydml.engines.common.threads import get_num_threads, number_cell
from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.threads.team_kernel import JOB, STATE, STATE_BYTES, make_team

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


NAME = "threads of a native team"
STACK = 1024 * 1024
"""Bytes of a thread's stack. Kernels use less than 64 KiB of it."""
WATCH = 0.1
"""Seconds after which whoever waits for long work looks for signals that came to another thread."""
PATIENCE = 1000
"""Dispatches after which more threads are asked for again, where the system gave none."""

_FUTEX = {"x86_64": 202, "aarch64": 98}
"""The system call's number."""
_FATAL = {signal.SIGSEGV, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}
"""Signals of a thread's own doing, which it takes itself; all others are for Python's threads."""
_STOP, _THERE, _PATIENCE, _THREADS, _PAUSES, _CALLS = map(
    STATE.word, ("stop", "there", "patience", "threads", "pauses", "syscall")
)
_FOR_EVER = 2**62
"""Dispatches at the end of the process, which ask no more for threads: the method that starts them is gone by then."""
_IS_KNOWN = sys.platform == "linux" and sys.maxsize > 2**32 and platform.machine() in _FUTEX


def is_available() -> bool:
    """Whether this system has what the team needs: Linux's futex, and a CPU of which its number is known."""
    return _IS_KNOWN and os.environ.get("ANYDML_TEAM", "") != "python"


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@contextlib.contextmanager
def _for_threads() -> Iterator[None]:
    """The signals as a thread is to have them, which starts with those of whoever starts it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _FATAL)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_thread(libc: ctypes.CDLL, threads: list[ctypes.c_ulong], entry: int, argument: int = 0) -> bool:
    """Start one thread more; whether the system had one to give."""
    attributes, thread = (ctypes.c_uint64 * 32)(), ctypes.c_ulong()
    libc.pthread_attr_init(attributes)
    libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(STACK))
    threads.append(thread)  # before it is there: an interrupt may come at any step
    place = ctypes.c_void_p(argument)
    failed = libc.pthread_create(ctypes.byref(thread), attributes, ctypes.c_void_p(entry), place)
    libc.pthread_attr_destroy(attributes)
    if failed:
        threads.pop()
        return False
    libc.pthread_setname_np(thread, f"anydml-{len(threads)}".encode())
    return True


class Team:
    """The threads of this process."""

    def __init__(self) -> None:
        code = get_kernel("team", make_team)
        self.entry = code.address
        """The function that Python calls with the words of a kernel."""
        self.share = code.find("divide")
        """The function that a kernel calls with the words of another, Python's lock released: other threads help."""
        self._worker = code.find("worker")
        self._halt = ctypes.CFUNCTYPE(None)(code.find("halt"))
        self._state = (ctypes.c_int64 * (STATE_BYTES // 8)).from_address(code.find("state"))
        self._libc = ctypes.CDLL(None)
        self._threads: list[ctypes.c_ulong] = []
        self._lock = threading.Lock()
        self._more = self._grow  # the bound method, kept alive for the native side
        keep_for_ever(number_cell)
        self._reset()
        os.register_at_fork(after_in_child=self._after_fork)
        atexit.register(self._stop)

    def _reset(self) -> None:
        """A state in which there is no thread and no work."""
        ctypes.memset(self._state, 0, STATE_BYTES)
        get_num_threads()
        python, libc = ctypes.pythonapi, self._libc
        self._state[_THREADS] = ctypes.addressof(number_cell)
        self._state[_CALLS : _CALLS + 6] = [
            _address(libc.syscall),
            _FUTEX[platform.machine()],
            _address(python.PyEval_SaveThread),
            _address(python.PyEval_RestoreThread),
            _address(python.PyObject_CallNoArgs),
            id(self._more),
        ]

    def _after_fork(self) -> None:
        """A child has none of its parent's threads, and none of the work that they were at."""
        self._threads = []
        self._lock = threading.Lock()
        self._reset()

    def _grow(self) -> None:
        """Start threads, as many as a dispatch may use or the system allows."""
        if self._lock.locked():  # by another thread, or by this one, under a signal's handler
            return
        with self._lock:
            if self._state[_STOP]:
                return
            self._threads = [thread for thread in self._threads if thread.value]
            wanted = get_num_threads()
            # Who watches for work keeps a core busy: not where others wait for it.
            self._state[_PAUSES] = figures().threads.pauses if wanted <= count_cores() else 0
            with _for_threads():
                while len(self._threads) < wanted - 1 and self._start():
                    self._state[_THERE] = len(self._threads)
            self._state[_PATIENCE] = PATIENCE if len(self._threads) < wanted - 1 else 0

    def _start(self) -> bool:
        """Start one thread; whether the system had one to give."""
        return _start_thread(self._libc, self._threads, self._worker)

    def _stop(self) -> None:
        """Let the threads end, and wait for them: the code that they run goes with the process."""
        with self._lock:
            self._halt()
            while self._threads:
                if (thread := self._threads.pop()).value:
                    self._libc.pthread_join(thread, None)
            self._state[_THERE], self._state[_PATIENCE] = 0, _FOR_EVER


def _from_now(seconds: float) -> Any:
    """A time as the C library has it."""
    until = time.time() + seconds
    return (ctypes.c_long * 2)(int(until), int(until % 1 * 1e9))


class Cancellable:
    """Units of a kernel's work that takes so long that Ctrl-C cannot wait for it, on threads of their own.

    Kernels only compute: they hold no lock and own no memory. A thread may be cancelled at any instruction of theirs,
    and no loop has to ask whether it is to end. What they have written is left as it is.
    """

    running: ClassVar[set[Cancellable]] = set()

    def __init__(self, kernel: int, words: int, units: int, threads: int) -> None:
        """`words` is the address of the kernel's words."""
        self._libc, self._threads = ctypes.CDLL(None), list[ctypes.c_ulong]()
        self._entry = get_kernel("team", make_team).find("cancellable")
        self._over = (ctypes.c_uint64 * 8)()
        """A semaphore."""
        self._libc.sem_init(self._over, 0, 0)
        job = JOB.write({
            "units": units, "step": max(units // (threads * figures().threads.grains), 1), "kernel": kernel,
            "words": words, "status": -1, "set_type": _address(self._libc.pthread_setcanceltype),
            "post": _address(self._libc.sem_post), "over": ctypes.addressof(self._over),
        })  # fmt: skip
        self._job = (ctypes.c_int64 * len(job.words))(*job.words)
        self._wanted, self._process = threads, os.getpid()

    @staticmethod
    @functools.cache
    def is_possible() -> bool:
        """Whether the system can cancel threads: glibc asks for a library of the compiler's, or ends the process."""
        try:
            ctypes.CDLL("libgcc_s.so.1")
        except OSError:
            return False
        return _IS_KNOWN

    def run(self) -> int | None:
        """Do the work: the smallest status but 0. An exception meanwhile, Ctrl-C's, ends it."""
        self.running.add(self)
        try:
            with _for_threads():
                while len(self._threads) < self._wanted:
                    if not _start_thread(self._libc, self._threads, self._entry, ctypes.addressof(self._job)):
                        break
            if not self._threads:
                raise MemoryError("the system has no thread for a kernel that takes long")
            for _ in self._threads:
                while self._libc.sem_timedwait(self._over, _from_now(WATCH)):  # it ends at a signal, too
                    if os.getpid() != self._process:  # a handler of signals forked here: the threads are the parent's
                        self._threads.clear()
                        return Cancellable(self._job[3], self._job[4], self._job[1], self._wanted).run()
        finally:
            self._end()
            self.running.discard(self)
        return None if self._job[5] == -1 else self._job[5]

    def _end(self) -> None:
        """Cancel what is left, whatever signals' handlers raise meanwhile; then let it through."""
        pressed: BaseException | None = None
        while True:
            try:
                joined = map(self._libc.pthread_join, self._threads, repeat(None))
                self.cancel(joined, map(list.clear, [self._threads]))
                break
            except BaseException as error:  # noqa: BLE001 - of Ctrl-C or of a signal's handler
                pressed = error
        if pressed is not None:
            raise pressed

    def cancel(self, *more: Iterable[object]) -> None:
        """End the threads that are at work, then do more: no exception of Python's comes in between."""
        deque(chain(map(self._libc.pthread_cancel, self._threads), *more), 0)


@atexit.register
def _cancel_all() -> None:
    """At the end of the process, of whose memory they would be the last users."""
    for job in list(Cancellable.running):
        job.cancel()


_team: Team | None = None


def get_team() -> Team:
    """The team of this process, of which the threads are started by the first dispatch that needs them."""
    if _team is None:
        get_kernel("team", make_team)  # which may take long, and says so
    return _team or run_alone(_make)


def _make() -> Team:
    """One team, however many threads and signal handlers ask at once: two would be at one state."""
    global _team
    if _team is None:
        _team = Team()
    return _team
