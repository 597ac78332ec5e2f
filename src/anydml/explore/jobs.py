"""Long work behind the page: one thing at a time, in a thread of its own, whose progress the page asks for."""

from __future__ import annotations

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
        self._one_at_a_time = threading.Lock()

    def start(self, name: Any) -> dict[str, Any]:
        """Begin something, unless it is under way or done; gives how it stands.

        A page asks until its work is no longer under way: a failure is told once, and whoever asks then begins it anew.
        """
        if not isinstance(name, str) or name not in self._work:
            raise ModelError("explore", Fault(field="job", rule=f"there is no work called {show(name, 40)}"))
        if name not in self._states:
            self._states[name] = {"state": "running", "says": "waiting for other work", "since": time.monotonic()}
            threading.Thread(target=self._run, args=(name,), daemon=True).start()
        found = self.state(name)
        if found["state"] == "failed":
            self._states.pop(name, None)
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
        with self._one_at_a_time:

            def say(text: str) -> None:
                self._states[name] = {"state": "running", "says": text, "since": began}

            try:
                found = {"state": "done", "result": self._work[name](say)}
            except DmlError as error:
                found = {"state": "failed", "says": str(error)}
            except Exception as error:  # noqa: BLE001 - nobody else would tell the page
                found = {"state": "failed", "says": f"it did not go well ({type(error).__name__}: {show(error, 300)})"}
        self._states[name] = {**found, "since": began, "since_end": time.monotonic()}
