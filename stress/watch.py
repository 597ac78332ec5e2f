"""The holdings of a process: memory, descriptors and threads, at rest."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import anydml as dml

SELF = Path("/proc/self")
MOST_THREADS = 12
"""The most that the number of threads is set to."""
PATIENCE = 5.0
"""Seconds in which what has ended may go away."""
PAGE = 4096


def is_possible() -> bool:
    """Whether the system tells a process what it holds."""
    return (SELF / "statm").exists()


def cpu_seconds(pid: int) -> float:
    """The time that a process has computed so far, in seconds; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def waits(pid: int) -> dict[str, float]:
    """The seconds for which each thread of a process was ready to compute and others had the CPU."""
    found = {}
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):  # a thread that has ended
            found[path.parent.name] = int(path.read_text().split()[1]) / 1e9
    return found


@dataclass(frozen=True, slots=True)
class Held:
    """Of one moment."""

    memory: int
    """Bytes in RAM."""
    descriptors: tuple[str, ...]
    """The target of each."""
    threads: int

    @classmethod
    def now(cls) -> Held:
        """Collect what nobody has any more, give free memory back, and look."""
        gc.collect()
        trim: Any = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
        memory = int((SELF / "statm").read_text().split()[1]) * PAGE
        return cls(memory, _descriptors(), len(list((SELF / "task").iterdir())))

    def leaks(self, before: Held, most: int, spare: int = 0) -> list[str]:
        """The growth since before: memory and descriptors beyond what is allowed, any thread."""
        found = []
        if self.memory - before.memory > most:
            grown = (self.memory - before.memory) / 2**20
            found.append(f"memory grew by {grown:.0f} MiB, {most / 2**20:.0f} are allowed")
        if (count := len(self.descriptors)) > len(before.descriptors) + spare:
            new = Counter(self.descriptors) - Counter(before.descriptors)
            found.append(f"{len(before.descriptors)} open descriptors became {count}: {', '.join(new.elements())}")
        if self.threads > before.threads:
            found.append(f"{before.threads} threads became {self.threads}")
        return found


def _descriptors() -> tuple[str, ...]:
    found = []
    for link in (SELF / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # of the folder that is looked at
            found.append(str(link.readlink()))
    return tuple(found)


def fill_team() -> None:
    """Have as many threads at hand as there will ever be, so that their number tells."""
    dml.set_num_threads(MOST_THREADS)
    x = np.zeros((1024, 1024), "float32")
    for _ in range(3):
        dml.slice1(x, (0, 0), x.shape, (1, -1), device="cpu")


def find_leaks(before: Held, most: int, spare: int) -> list[str]:
    """The leaks since; threads and descriptors that are about to go have their time."""
    deadline = time.monotonic() + PATIENCE
    while True:
        fill_team()
        found = Held.now().leaks(before, most, spare)
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.2)
