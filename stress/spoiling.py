"""Accidents of a kernel cache: entries cut, changed, swapped, and replaced by pipes, folders, links and devices."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HUGE = 512 * 2**20
AT_FIRST = 3
"""Entries that are spoiled before a child starts."""
_chance = random.Random()  # noqa: S311 - when something happens is not part of an item


class Cache:
    """A folder of kernels: the first child fills it, all others find it spoiled."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._good = folder / "cache", folder / "good"

    def before_child(self) -> list[str]:
        """Put back what the first child left, and spoil some of it; what was done."""
        if not self.folder.is_dir():
            return []
        if not self._good.is_dir():
            shutil.copytree(self.folder, self._good, symlinks=True)
        shutil.rmtree(self.folder)
        shutil.copytree(self._good, self.folder, symlinks=True)
        return [self.spoil() for _ in range(AT_FIRST)]

    def spoil(self) -> str:
        """Do something to one of the entries; what was done."""
        if not self._good.is_dir():
            return ""
        entries = [path for path in self.folder.rglob("*") if not path.name.startswith(".")]
        if len(entries) < 2:
            return ""
        path, other = _chance.sample(entries, 2)
        name, act = _chance.choice(tuple(_SPOILERS.items()))
        with contextlib.suppress(OSError, shutil.SameFileError):
            act(path, other)
        return name


def _replace(path: Path) -> Path:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink()
    return path


def _flip(path: Path, _: Path) -> None:
    if path.is_file() and (data := bytearray(path.read_bytes())):  # one may be cut to nothing already
        data[_chance.randrange(len(data))] ^= 1 << _chance.randrange(8)
        path.write_bytes(data)


def _truncate(path: Path, _: Path) -> None:
    if path.is_file():
        os.truncate(path, _chance.randrange(path.stat().st_size + 1))


def _copy(path: Path, other: Path) -> None:
    """One kernel in the place of another, whole as it is."""
    if path.is_file() and other.is_file():
        shutil.copyfile(path, other)


def _swap(path: Path, other: Path) -> None:
    aside = path.with_name(".aside")
    path.rename(aside)
    other.rename(path)
    aside.rename(other)


def _huge(path: Path, _: Path) -> None:
    """A sparse file, of more than any kernel has."""
    if path.is_file():
        os.truncate(path, HUGE)


_SPOILERS: dict[str, Callable[[Path, Path], object]] = {
    "flip": _flip,
    "truncate": _truncate,
    "copy": _copy,
    "swap": _swap,
    "huge": _huge,
    "pipe": lambda path, _: os.mkfifo(_replace(path)),
    "folder": lambda path, _: _replace(path).mkdir(),
    "link": lambda path, other: _replace(path).symlink_to(other),
    "dangling": lambda path, _: _replace(path).symlink_to("nowhere"),
    "device": lambda path, _: _replace(path).symlink_to("/dev/zero"),
    "unreadable": lambda path, _: path.chmod(0),
    "gone": lambda path, _: _replace(path),
}
