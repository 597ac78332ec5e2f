"""Long work behind the page: one thing at a time, in a thread of its own, whose progress the page asks for.

Who stops work interrupts its thread as Ctrl+C interrupts a program: kernels under way are cancelled, locks are given
back, caches stay whole. Another library's code is not interrupted: what it computes is thrown away when it is done.
"""

from __future__ import annotations

import ctypes
import threading
import time
from typing import TYPE_CHECKING, Any, TypeAlias

from anydml.core.errors import DmlError, Fault, ModelError, show

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Say: TypeAlias = "Callable[[str], None]"


class Jobs:
    """Jobs by name; their results are kept."""

    def __init__(self, work: Mapping[str, Callable[[Say], Any]]) -> None:
        self._work = dict(work)
        self._states: dict[str, dict[str, Any]] = {}
        self._guard = threading.Lock()
        self._stopped: set[str] = set()
        self._working: tuple[str, int] | None = None
        """The work under way, and its thread."""
        self._is_interrupted = False
        """Whether an interrupt was sent to it: one at most."""
        self._one_at_a_time = threading.Lock()

    def start(self, name: Any) -> dict[str, Any]:
        """Begin something, unless it is under way or done; gives how it stands.

        A page asks until its work is no longer under way: a failure is told once, and whoever asks then begins it anew.
        """
        if not isinstance(name, str) or name not in self._work:
            raise ModelError("explore", Fault(field="job", rule=f"there is no work called {show(name, 40)}"))
        if name not in self._states:
            self._stopped.discard(name)
            self._states[name] = {"state": "running", "says": "waiting for other work", "since": time.monotonic()}
            threading.Thread(target=self._run, args=(name,), daemon=True).start()
        found = self.state(name)
        if found["state"] in ("failed", "stopped"):
            self._states.pop(name, None)
        return found

    def stop(self, name: Any) -> dict[str, Any]:
        """Stop what is under way, or waits for other work; gives how it stands."""
        with self._guard:
            found = self.state(name) if isinstance(name, str) else {"state": "waiting"}
            if found["state"] == "running" and name not in self._stopped:
                self._stopped.add(name)
                if self._working is not None and self._working[0] == name:
                    self._is_interrupted = True
                    _interrupt(self._working[1])
        return found

    def names(self) -> list[str]:
        """The jobs that there are."""
        return list(self._work)

    def put(self, name: str, work: Callable[[Say], Any]) -> None:
        """Another job, or another in place of one."""
        self._work[name] = work
        self._states.pop(name, None)

    def state(self, name: str) -> dict[str, Any]:
        """How something stands, and what came of it once it is done."""
        found = dict(self._states.get(name, {"state": "waiting"}))
        if "since" in found:
            found["seconds"] = round(found.pop("since_end", time.monotonic()) - found.pop("since"), 1)
        return found

    def result(self, name: str, say: Say = lambda _text: None) -> Any:
        """The result of a job, waited for."""
        return self._work[name](say)

    def _run(self, name: str) -> None:
        began = self._states[name]["since"]
        found = {"state": "stopped", "says": "stopped"}
        while name not in self._stopped:
            if self._one_at_a_time.acquire(timeout=_PATIENCE):
                try:
                    found = self._stoppable(name, began)
                finally:
                    self._one_at_a_time.release()
                break
        self._states[name] = {**found, "since": began, "since_end": time.monotonic()}

    def _stoppable(self, name: str, began: float) -> dict[str, Any]:
        """What comes of work, which an interrupt may end at any of its instructions, and nothing after it."""
        try:
            with self._guard:
                self._working, self._is_interrupted = (name, threading.get_ident()), False
            found = {"state": "stopped", "says": "stopped"}
            if name not in self._stopped:
                self._states[name] = {"state": "running", "says": "beginning", "since": began}
                found = self._outcome(name, began)
            with self._guard:
                self._working = None
            for _ in range(_INSTRUCTIONS * self._is_interrupted):
                time.sleep(0)
        except KeyboardInterrupt:
            found = {"state": "stopped", "says": "stopped"}
        with self._guard:
            self._working = None
        return found

    def _outcome(self, name: str, began: float) -> dict[str, Any]:
        def say(text: str) -> None:
            self._states[name] = {"state": "running", "says": text, "since": began}

        try:
            return {"state": "done", "result": self._work[name](say)}
        except DmlError as error:
            return {"state": "failed", "says": str(error)}
        except Exception as error:  # noqa: BLE001 - nobody else would tell the page
            return {"state": "failed", "says": f"it did not go well ({type(error).__name__}: {show(error, 300)})"}


_PATIENCE = 0.1
"""Seconds after which work that waits for other work looks whether it was stopped."""


_INSTRUCTIONS = 100
"""In which an interrupt comes that was sent at the end of work. One that is left has all threads look for it for ever,
and traced ones never go on; one that comes inside a destructor is lost."""


def _interrupt(thread: int) -> None:
    """Interrupt another thread at its next instruction of Python."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(KeyboardInterrupt))
