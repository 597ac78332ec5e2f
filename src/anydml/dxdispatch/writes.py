"""Files put in their places together, once everything has gone well; where one fails, all are as they were."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from typing import TYPE_CHECKING, Self

from anydml.core.errors import show
from anydml.core.files import refuse, word_reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_LONGEST_SHOWN = 400


class Writes:
    """Files written beside their places, and put there all together."""

    def __init__(self) -> None:
        self._staged: dict[Path, Path] = {}
        """By its place, the file that is to be put there."""
        self._made: list[Path] = []
        """Files that must not stay behind."""
        self._folders: list[Path] = []

    def stage(self, target: Path, chunks: Iterable[bytes | memoryview]) -> None:
        """Write a file under a name of its own in the target's folder, with the owner and mode of what is there."""
        try:
            if target.is_dir() or any(folder in self._staged for folder in target.parents):
                raise refuse("a path must not be that of a file and of a folder", str(target))
            old = _look_at(target)
            for folder in reversed([folder for folder in target.parents if not folder.exists()]):
                folder.mkdir()
                self._folders.append(folder)
            temporary = _name_beside(target)
            self._made.append(temporary)
            with open(os.open(temporary, _CREATE, 0o666 if old is None else 0o600), "wb") as file:  # noqa: PTH123 - flags need a descriptor
                before, self._staged[target] = self._staged.get(target), temporary
                if before is not None:
                    before.unlink(missing_ok=True)
                for chunk in chunks:
                    file.write(chunk)
            if old is not None:
                with contextlib.suppress(OSError, AttributeError):  # only root gives files away, and not on Windows
                    os.chown(temporary, old.st_uid, old.st_gid)
                temporary.chmod(old.st_mode & 0o777)
        except OSError as error:
            raise refuse(f"the file cannot be written ({word_reason(error)})", str(target)) from error

    def commit(self) -> None:
        """Put every file in its place, or leave every place as it is."""
        if not self._staged:
            return
        *_, (last, last_temporary) = self._staged.items()
        kept: dict[Path, Path] = {}
        target = last
        try:
            for target, temporary in self._staged.items():
                if target != last and os.path.lexists(target) and not target.is_dir():
                    kept[target] = _name_beside(target)
                    _keep(target, kept[target])
                temporary.replace(target)
        except OSError as error:
            rule = f"the file cannot be written ({word_reason(error)})"
            raise refuse(rule, str(target), self._undo(kept)) from error
        except BaseException:  # an interrupt, which may come after the last, when all is done
            if os.path.lexists(last_temporary):
                self._undo(kept)
            else:
                self._settle(kept)
            raise
        self._settle(kept)

    def _settle(self, kept: Mapping[Path, Path]) -> None:
        self._made += kept.values()
        self._staged, self._folders = {}, []

    def _undo(self, kept: Mapping[Path, Path]) -> str:
        """Put back what was there before; say where it is if that cannot be."""
        lost = []
        for target, temporary in reversed(self._staged.items()):
            old = kept.get(target)
            try:
                if old is not None and os.path.lexists(old):
                    old.replace(target)
                    old.unlink(missing_ok=True)  # two names of one file, which nothing was put in the place of yet
                elif old is None and not os.path.lexists(temporary):
                    target.unlink(missing_ok=True)
            except OSError:
                if old is not None:
                    names = [show(str(path), _LONGEST_SHOWN) for path in (target, old)]
                    lost.append(f"what was in {names[0]} is in {names[1]}")
        return "; ".join(lost)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove what was not put in its place."""
        for path in self._made:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        for folder in reversed(self._folders):
            with contextlib.suppress(OSError):
                folder.rmdir()


def _look_at(target: Path) -> os.stat_result | None:
    """The file that is there already. One that may not be written is not replaced, though its folder would allow it."""
    try:
        old = target.stat()
    except FileNotFoundError:
        return None
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return old


def _name_beside(target: Path) -> Path:
    return target.with_name(f".anydml-{secrets.token_hex(8)}.tmp")


def _keep(target: Path, name: Path) -> None:
    """Give a file a second name; its only one where a file system has no links."""
    try:
        name.hardlink_to(target)
    except OSError:
        target.replace(name)


def write_atomically(target: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    with Writes() as writes:
        writes.stage(target, [data])
        writes.commit()
