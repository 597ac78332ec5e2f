"""The team of native threads that large work is handed to: made when it is first needed, ended with the process.

Its threads are the system's own, with a stack of their own size, and run nothing of Python's: a dispatch is one call
that ends before any exception of Python's is raised, Ctrl-C's among them.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import platform
import signal
import sys
import threading
from typing import Any

from anydml.alone import run_alone
from anydml.engines.cores import count_cores
from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.kernels.team import PAUSES, STATE_BYTES
from anydml.engines.threads import get_num_threads, number_cell
from anydml.memory import keep_for_ever

NAME = "threads of a native team"
STACK = 1024 * 1024
"""Bytes of a thread's stack. Kernels use less than 64 KiB of it."""
PATIENCE = 1000
"""Dispatches after which more threads are asked for again, where the system gave none."""

_FUTEX = {"x86_64": 202, "aarch64": 98}
"""The system call's number."""
_FATAL = {signal.SIGSEGV, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}
"""Signals of a thread's own doing, which it takes itself; all others are for Python's threads."""
# As the text in kernels/team.py has them: words of the state.
_STOP, _THERE, _PATIENCE, _CELL, _PAUSES, _CALLS = 9, 10, 11, 12, 13, 14

_FOR_EVER = 2**62
"""Dispatches at the end of the process, which ask no more for threads: the method that starts them is gone by then."""
_IS_KNOWN = sys.platform == "linux" and sys.maxsize > 2**32 and platform.machine() in _FUTEX


def is_available() -> bool:
    """Whether this system has what the team needs: Linux's futex, and a CPU of which its number is known."""
    return _IS_KNOWN and os.environ.get("ANYDML_TEAM", "") != "python"


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


class Team:
    """The threads of this process."""

    def __init__(self) -> None:
        code = get_kernel("team")
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
        self._state[_CELL] = ctypes.addressof(number_cell)
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
            self._state[_PAUSES] = PAUSES if wanted <= count_cores() else 0
            before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
            try:
                signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _FATAL)
                while len(self._threads) < wanted - 1 and self._start():
                    self._state[_THERE] = len(self._threads)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            self._state[_PATIENCE] = PATIENCE if len(self._threads) < wanted - 1 else 0

    def _start(self) -> bool:
        """Start one thread; whether the system had one to give."""
        libc, attributes, thread = self._libc, (ctypes.c_uint64 * 32)(), ctypes.c_ulong()
        libc.pthread_attr_init(attributes)
        libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(STACK))
        self._threads.append(thread)  # before it is there: an interrupt may come at any step
        failed = libc.pthread_create(ctypes.byref(thread), attributes, ctypes.c_void_p(self._worker), None)
        libc.pthread_attr_destroy(attributes)
        if failed:
            self._threads.pop()
            return False
        libc.pthread_setname_np(thread, f"anydml-{len(self._threads)}".encode())
        return True

    def _stop(self) -> None:
        """Let the threads end, and wait for them: the code that they run goes with the process."""
        with self._lock:
            self._halt()
            while self._threads:
                if (thread := self._threads.pop()).value:
                    self._libc.pthread_join(thread, None)
            self._state[_THERE], self._state[_PATIENCE] = 0, _FOR_EVER


_team: Team | None = None


def get_team() -> Team:
    """The team of this process, of which the threads are started by the first dispatch that needs them."""
    if _team is None:
        get_kernel("team")  # which may take long, and says so
    return _team or run_alone(_make)


def _make() -> Team:
    """One team, however many threads and signal handlers ask at once: two would be at one state."""
    global _team
    if _team is None:
        _team = Team()
    return _team
