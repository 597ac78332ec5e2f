"""How much memory a model may take, and how much of a disk."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_UNKNOWN = 4 * 2**30
"""Bytes taken to be free where the system does not say."""


def default_max_memory() -> int:
    """Half of the memory that is free."""
    return _free_memory() // 2


def default_max_output(folder: Path) -> int:
    """Half of what is free where a folder is, or will be."""
    try:
        return shutil.disk_usage(next(found for found in (folder, *folder.parents) if os.path.lexists(found))).free // 2
    except (OSError, ValueError, StopIteration):
        return _UNKNOWN // 2


def _free_memory() -> int:
    free = [size for size in (_available(), _left_in_group()) if size is not None]
    return min(free, default=_UNKNOWN)


def _available() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _left_in_group() -> int | None:
    """What a container's limit leaves; the machine's own figure takes no notice of it."""
    group = Path("/sys/fs/cgroup")
    try:
        limit = int((group / "memory.max").read_text())
        return max(limit - int((group / "memory.current").read_text()), 0)
    except (OSError, ValueError):
        return None
