"""Work on a thread of its own: the compilation of kernels, one at a time, and the import of what is first needed late.

Python runs signal handlers on the main thread. One that calls anydml meanwhile waits for its turn like any other
caller; on the working thread it would find a module half imported, or enter a half-made kernel. An interrupt
ends the waiting, not the work. A fork waits for the turn, and for imports that other threads are at; imports that have
not begun wait for the fork: a child has neither a module that is half imported nor a lock whose holder it lacks.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import gc
import importlib
import logging  # noqa: F401 - see the end
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

T = TypeVar("T")
PATIENCE = 30.0
"""Seconds that a fork and the end of the process wait for the turn; a compilation takes about one, an import less."""
STACK = 8 * 2**20
"""Bytes of the working thread's stack: LLVM's recursion is not for the few that threading.stack_size may say."""
_turn = threading.RLock()
_owner = 0
_is_gc_paused = False
_forking_threads: set[int] = set()
_importing_threads: set[int] = set()


class _Task(Generic[T]):
    """Work for a thread of its own. Its end is a bare lock: an Event's own could be held by who is interrupted."""

    result: T

    def __init__(self, work: Callable[[], T]) -> None:
        self.work = work
        self.error: BaseException | None = None
        self.ended = threading.Lock()
        self.ended.acquire()

    def run_in_turn(self) -> None:
        global _owner
        deadline = time.monotonic() + PATIENCE
        while _forking_threads and time.monotonic() < deadline:  # which get the turn before the work that waits for it
            time.sleep(0.001)
        with _turn:
            _owner = threading.get_ident()
            self.run()

    def run(self) -> None:
        global _owner
        try:
            self.result = self.work()
        except BaseException as error:  # noqa: BLE001 - it is the caller's
            self.error = error
        finally:
            if _owner == threading.get_ident():
                _owner = 0
            self.ended.release()


def run_alone(work: Callable[[], T], *, every: float = 1, remind: Callable[[], None] | None = None) -> T:
    """The result of `work`, run on its own thread; while it lasts `remind` is called here every so many seconds."""
    if _owner == threading.get_ident():  # a finaliser's call from within such work
        return work()
    return _await(work, in_turn=True, every=every, remind=remind)


def import_alone(*names: str) -> Any:
    """Import modules as they are first needed, on a thread of their own; gives the last of them.

    A signal handler that needs one of them meanwhile waits for it: Python lets the thread that imports a module, and no
    other, have it half made. The turn is not taken: a thread that imports the same may wait for it.
    """
    for name in names:
        found = sys.modules.get(name)
        if found is None or getattr(getattr(found, "__spec__", None), "_initializing", False):
            break
    else:
        return found

    def work() -> Any:
        with _without_forks(), without_collection():  # whose finalisers would run within the import
            return [importlib.import_module(name) for name in names][-1]

    return _await(work, in_turn=False) if threading.get_ident() == threading.main_thread().ident else work()


def _await(work: Callable[[], T], *, in_turn: bool, every: float = 1, remind: Callable[[], None] | None = None) -> T:
    task, process = _Task(work), os.getpid()
    run = task.run_in_turn if in_turn else task.run
    with _outside_of_llvm():
        if _is_importing() or not start_thread(run, STACK):
            run()
        while not task.ended.acquire(timeout=every):
            if os.getpid() != process:  # a signal handler forked here: the thread is the parent's
                return _await(work, in_turn=in_turn, every=every, remind=remind)
            if remind is not None:
                remind()
    if task.error is None:
        return task.result
    try:
        raise task.error
    finally:
        del task


@contextlib.contextmanager
def _without_forks() -> Iterator[None]:
    """Import while no other thread forks. Within an import, and with the turn, for which a fork waits, nobody waits."""
    own = threading.get_ident()
    if own in _importing_threads or own == _owner or _is_importing():
        yield
        return
    deadline = time.monotonic() + PATIENCE
    _importing_threads.add(own)
    while not _forking_threads <= {own} and time.monotonic() < deadline:
        _importing_threads.discard(own)
        time.sleep(0.001)
        _importing_threads.add(own)
    try:
        yield
    finally:
        _importing_threads.discard(own)


def _is_importing() -> bool:
    """Whether this thread is within an import: another that needs the same module would wait for it for ever."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - inspect would be imported for it
    while frame is not None and id(frame.f_code) not in _IMPORTING:
        frame = frame.f_back
    return frame is not None


_IMPORTING = {
    id(getattr(importlib._bootstrap, name).__code__)  # noqa: SLF001 - the frames of whoever holds a module's lock, to which there is no other way
    for name in ("_find_and_load", "_find_and_load_unlocked")
}
"""By identity: code that Dynamo wrote has constants without a hash, and so none itself."""


def start_thread(run: Callable[[], None], stack: int) -> bool:
    """Start a thread with so many bytes of stack; False at the limit of threads, and late in the interpreter's end."""
    size = threading.stack_size()
    with contextlib.suppress(ValueError):
        threading.stack_size(stack)
    try:
        # In one step, where Thread.start takes locks that a signal handler's own start would wait for.
        _thread.start_new_thread(run, ())
    except RuntimeError:
        return False
    finally:
        threading.stack_size(size)
    return True


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Collect no garbage: a finaliser that calls anydml would compile a kernel in the middle of another."""
    global _is_gc_paused
    if not gc.isenabled():
        yield
        return
    gc.disable()
    _is_gc_paused = True
    try:
        yield
    finally:
        _is_gc_paused = False
        gc.enable()


# llvmlite has no public name for its lock.


def _llvm_locks() -> list[tuple[Any, Any]]:
    holder: Any = getattr(getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None), "_lock", None)
    return [(holder, holder._lock)] if hasattr(holder, "_lock") else []  # noqa: SLF001 - as said above


@contextlib.contextmanager
def _outside_of_llvm() -> Iterator[None]:
    """Let other threads into LLVM: a signal handler runs before or after a call of it, with llvmlite's lock held."""
    kept = [(lock, lock._release_save()) for _, lock in _llvm_locks() if lock._is_owned()]  # noqa: SLF001 - as Condition does
    try:
        yield
    finally:
        for lock, state in kept:
            lock._acquire_restore(state)  # noqa: SLF001 - likewise


# Forks


class _Forking(threading.local):
    held: list[Any]


_forking = _Forking()


def _before_fork() -> None:
    """Wait until no thread imports, the turn is free, and no thread is inside of LLVM."""
    own = threading.get_ident()
    _forking.held = []
    _forking_threads.add(own)
    deadline = time.monotonic() + PATIENCE
    while (not _importing_threads <= {own} or _are_others_importing()) and time.monotonic() < deadline:
        time.sleep(0.001)
    with _outside_of_llvm():
        _hold(_turn, deadline)
    for _, lock in _llvm_locks():
        _hold(lock, deadline)


def _are_others_importing() -> bool:
    """Whether another thread is within an import of a program's own: of a module of ours, or of one that ours needs."""
    owners = _held_by_others()
    frames = sys._current_frames() if owners else {}  # noqa: SLF001 - as the documentation has it
    return any(_is_ours(name) or _imports_for_us(frames.get(owner)) for name, owner in owners.items())


def _held_by_others() -> dict[str, int]:
    """The modules that other threads import, and those threads."""
    known: dict[str, Any] = getattr(importlib._bootstrap, "_module_locks", {})  # noqa: SLF001 - no other way to them
    owners = {name: getattr(lock(), "owner", None) for name, lock in list(known.items())}
    return {name: owner for name, owner in owners.items() if owner is not None and owner != threading.get_ident()}


def _is_ours(name: str) -> bool:
    return name.startswith("anydml.")


def _imports_for_us(frame: FrameType | None) -> bool:
    """Whether a thread imports something because a function of ours does."""
    is_import = False
    while frame is not None and not (is_import and _is_ours(frame.f_globals.get("__name__", ""))):
        is_import = is_import or frame.f_code.co_filename.startswith("<frozen importlib")
        frame = frame.f_back
    return frame is not None


def _hold(lock: Any, deadline: float) -> None:
    if lock.acquire(timeout=max(deadline - time.monotonic(), 0)):
        _forking.held.append(lock)


def _after_in_parent() -> None:
    _forking_threads.discard(threading.get_ident())
    for lock in _forking.held:
        lock.release()


def _after_in_child() -> None:
    """Make anew what a thread holds that is not here: a compilation that lasts, here or in Numba."""
    global _turn, _owner
    _after_in_parent()
    _forking_threads.clear()
    _importing_threads.intersection_update({threading.get_ident()})
    if _turn not in _forking.held:
        _turn, _owner = threading.RLock(), 0
        if _is_gc_paused:
            gc.enable()
    for holder, lock in _llvm_locks():
        if lock.acquire(blocking=False):
            lock.release()
        else:
            holder._lock = threading.RLock()  # noqa: SLF001 - the only way to it


def _at_exit() -> None:
    """An interrupted caller may leave a compilation behind, and LLVM does not outlive the process's own end."""
    if _turn.acquire(timeout=PATIENCE):
        _turn.release()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    # What is registered last is called first: after logging, whose lock a fork would else hold while it waits for work
    # that logs something.
    os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
