"""The cores that this process may use: those it may run on, and no more than its control groups give it time for."""

from __future__ import annotations

import math
import os
from pathlib import Path

_PROC, _ROOT = Path("/proc/self"), Path("/")


def count_cores() -> int:
    """How many threads can run at once: affinity and quotas counted, at least 1."""
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        allowed = os.cpu_count() or 1
    quota = read_quota()
    return allowed if quota is None else max(min(allowed, math.ceil(quota)), 1)


def read_quota(proc: Path = _PROC, root: Path = _ROOT) -> float | None:
    """The cores' worth of time that control groups allow, of version 1 or 2; None where they set no limit."""
    found = [
        quota
        for folder in _cpu_folders(proc, root)
        if (quota := _read_max(folder / "cpu.max") or _read_v1(folder)) is not None
    ]
    return min(found, default=None)


def _cpu_folders(proc: Path, root: Path) -> list[Path]:
    """The folders of this process's groups that may limit its time, and of the groups around them."""
    folders = []
    for mount, inside, is_v2 in _mounts(proc):
        for line in _lines(proc / "cgroup"):
            _, controllers, group = [*line.split(":", 2), "", ""][:3]
            if is_v2 != (controllers == "") or not (is_v2 or "cpu" in controllers.split(",")):
                continue
            # A mount may show a part of the tree alone, as in a container.
            shown = group[len(inside) :] if inside != "/" and group.startswith(inside) else group
            parts = [part for part in shown.split("/") if part not in ("", "..")]
            folders += [root / mount.lstrip("/") / Path(*parts[:depth]) for depth in range(len(parts), -1, -1)]
    return folders


def _mounts(proc: Path) -> list[tuple[str, str, bool]]:
    """Where control groups are mounted, what of their tree is, and whether they are of version 2."""
    found = []
    for line in _lines(proc / "mountinfo"):
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(), after.split()
        if len(fields) > 4 and len(kinds) > 2:
            is_v1 = kinds[0] == "cgroup" and "cpu" in kinds[2].split(",")
            if is_v1 or kinds[0] == "cgroup2":
                found.append((fields[4], fields[3], not is_v1))
    return found


def _read_max(path: Path) -> float | None:
    quota, period = [*" ".join(_lines(path)).split(), "", ""][:2]
    return _ratio(quota, period)


def _read_v1(folder: Path) -> float | None:
    quota, period = (" ".join(_lines(folder / f"cpu.cfs_{name}_us")) for name in ("quota", "period"))
    return _ratio(quota, period)


def _ratio(quota: str, period: str) -> float | None:
    """A share of time in cores; None for `max`, -1 and whatever is no number."""
    if not (quota.isdecimal() and period.isdecimal()) or int(quota) < 1 or int(period) < 1:
        return None
    return int(quota) / int(period)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return []
