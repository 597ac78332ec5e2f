"""Messages of a child to its parent: lines of JSON on its standard output."""

from __future__ import annotations

import json
import os
import threading
from typing import Any


class Teller:
    """Writes lines, whole ones, from any thread. Whoever has no parent any more ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.RLock()  # a signal's handler may have something to tell meanwhile

    def __call__(self, **message: Any) -> None:
        """Tell something."""
        line = (json.dumps(message) + "\n").encode()
        with self._lock:
            try:
                while line:
                    line = line[os.write(self._descriptor, line) :]
            except OSError:
                os._exit(3)

    def fault(self, kind: str, text: str, item: int | None = None, about: str = "") -> None:
        """Something that must not be."""
        self(fault={"kind": kind, "text": text[-30_000:], "item": item, "about": about[:600]})
