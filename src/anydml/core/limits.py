"""How much memory a model may take, and how much of a disk."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

from anydml.core.errors import DescriptionError, Fault, ModelError, ModelFileError
from anydml.core.memory import word_bytes
from anydml.core.parse import read_int

if TYPE_CHECKING:
    from anydml.core.errors import Place

MOST_STEPS = 1_000_000
"""That loops may take in a run where nobody says how many: seconds, for small bodies."""
_UNKNOWN = 4 * 2**30
"""Bytes taken to be free where the system does not say."""


class MemoryLimit:
    """The most memory that a model may take, and how much of it is taken for good."""

    def __init__(self, max_memory: int | None, subject: str) -> None:
        self.most = read_max_memory(max_memory, subject)
        self.is_given = max_memory is not None
        self.taken = 0

    @property
    def left(self) -> int:
        """The memory that is left."""
        return max(self.most - self.taken, 0)

    def check(self, size: int, of: str, subject: str) -> None:
        """Refuse memory that would be more than is left; `of` says what it is for."""
        if size > self.left:
            others = f", beside {word_bytes(self.taken)} of the model itself" if self.taken else ""
            raise too_large(subject, self.most, size + self.taken, f"{word_bytes(size)} of {of}{others}")

    def take(self, size: int, of: str, subject: str) -> None:
        """Count memory that is held from now on."""
        self.check(size, of, subject)
        self.taken += size


class StepLimit(threading.local):
    """The most steps that a loop may take, those of loops within it included; each thread counts its own run's."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._taken = self._depth = 0

    def __enter__(self) -> Self:
        self._taken = self._taken if self._depth else 0
        self._depth += 1
        return self

    def __exit__(self, *_error: object) -> None:
        self._depth -= 1

    @property
    def left(self) -> int:
        """How many more a loop may take."""
        return self.most - (self._taken if self._depth else 0)

    def count(self, count: int) -> None:
        """Count steps that are not more than are left."""
        if self._depth:
            self._taken += count

    def add(self, subject: str, count: int = 1) -> None:
        """Count steps of a loop; an endless one is told after the last that it may take."""
        self._taken += count
        if self._taken > self.most:
            rule = f"a loop must end within max_steps = {self.most} steps, those of loops within it included"
            raise ModelError(subject, Fault(field="max_steps", rule=rule, way_out="max_steps= allows more"))


def read_max_steps(given: int | None, subject: str) -> StepLimit:
    """The limit of a loop's steps; without one, a million."""
    faults: list[Fault] = []
    most = MOST_STEPS if given is None else read_int(given, "max_steps", faults, 0, 2**63 - 1)
    if faults:
        raise DescriptionError(subject, faults)
    return StepLimit(most)


def too_large(subject: str, most: int, total: int, found: str, place: Place | None = None) -> ModelFileError:
    """A model that would take more than it may."""
    rule = f"the model's memory must be at most {word_bytes(most)}"
    way_out = "--max-memory, or max_memory=, allows more"
    return ModelFileError(subject, Fault(field="", rule=rule, value=total, found=found, way_out=way_out, place=place))


def read_max_memory(given: int | None, subject: str) -> int:
    """A number of bytes; without one, half of the memory that is free."""
    faults: list[Fault] = []
    limit = default_max_memory() if given is None else read_int(given, "max_memory", faults, 0, 2**63 - 1)
    if faults:
        raise DescriptionError(subject, faults)
    return limit


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
    """The rest of a container's limit; the machine's own figure takes no notice of it."""
    group = Path("/sys/fs/cgroup")
    try:
        limit = int((group / "memory.max").read_text())
        return max(limit - int((group / "memory.current").read_text()), 0)
    except (OSError, ValueError):
        return None
