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

from anydml.errors import show
from anydml.onnx.session.ort_errors import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator


class Timeline:
    """Events since a session was made; `end` writes them."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._events: list[dict[str, Any]] = []
        self.start = time.monotonic_ns()

    @contextlib.contextmanager
    def event(self, name: str) -> Iterator[None]:
        """Time what is done within."""
        begun = time.monotonic_ns()
        try:
            yield
        finally:
            times = {"ts": (begun - self.start) // 1000, "dur": (time.monotonic_ns() - begun) // 1000}
            thread = {"pid": os.getpid(), "tid": threading.get_native_id()}
            self._events.append({"cat": "Session", **thread, **times, "ph": "X", "name": name, "args": {}})

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
