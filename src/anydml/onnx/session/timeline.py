"""A session's profile: what was loaded and run, and for how long, in the form of Chrome's traces."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anydml.alone import import_alone
from anydml.errors import show
from anydml.locks import make_lock
from anydml.onnx.session.ort_errors import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.runtime.profiler_hook import Recorder

_MOST = 1_000_000
"""Events that are kept, as in ONNX Runtime."""


class Timeline:
    """Events since a session was made, a run's passes among them; `end` writes them. Runs take turns meanwhile."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._events: list[dict[str, Any]] = []
        self._lock = make_lock()
        self._recorders: dict[str, Recorder] = {}
        """By the memory that passes work in."""
        self.start = time.monotonic_ns()

    @contextlib.contextmanager
    def event(self, name: str) -> Iterator[None]:
        """Time what is done within."""
        begun = time.monotonic_ns()
        try:
            yield
        finally:
            self._add("Session", name, begun, time.monotonic_ns() - begun)

    @contextlib.contextmanager
    def run(self, memory: str) -> Iterator[None]:
        """Time a run, and each of its passes, by the nodes that it is of."""
        import_alone("anydml.runtime.profiler_hook")
        from anydml.runtime.profiler_hook import Recorder, watching  # which nothing needs that only runs

        with self._lock:
            recorder = self._recorders.setdefault(memory, Recorder(memory))
            with self.event("model_run"), watching(recorder):
                begun = time.monotonic_ns()
                with recorder.run():
                    yield
            for span in recorder.spans:
                nodes = ", ".join(recorder.passes[span.number].nodes)
                self._add("Node", f"{nodes}_kernel_time", begun + int(span.start * 1e9), int(span.seconds * 1e9))

    def _add(self, kind: str, name: str, begun: int, taken: int) -> None:
        if len(self._events) < _MOST:
            thread = {"pid": os.getpid(), "tid": threading.get_native_id()}
            times = {"ts": (begun - self.start) // 1000, "dur": taken // 1000}
            self._events.append({"cat": kind, **thread, **times, "ph": "X", "name": name, "args": {}})

    def end(self) -> str:
        """Write the events to a file, whose name is the prefix and the time; gives the name."""
        now = datetime.now().astimezone()
        path = Path(f"{self._prefix}_{now:%Y-%m-%d_%H-%M-%S}_{now.microsecond // 1000:03}.json")
        try:
            path.write_text(json.dumps(self._events, indent=1))
        except (OSError, ValueError) as error:
            rule = f"profile_file_prefix could not be written to ({show(error)})"
            raise refuse("end_profiling", "profile_file_prefix", rule) from error
        return str(path)
