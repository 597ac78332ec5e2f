"""Compiled kernels on disk: a folder that nobody else can write to, and in it one file a kernel, whole or passed over.

What is read here is run. So folder and files are looked at as OpenSSH looks at its own: they belong to this user or to
root, and neither group nor others may write to them, nor to any folder above, up to the user's home.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import re
import stat
import sys
import tempfile
import time
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PATIENCE = 20.0
"""Seconds to wait for a kernel that another process compiles, which takes about one; then it is compiled here too."""
LARGEST = 16 * 2**20
"""Bytes of a file that is read at all; kernels have 2 to 20 KiB."""
_ROOM = 2**16
_DIGEST = 32
# No link is followed, nothing waits for the other end of a pipe, no child process has it; as far as a system has these.
_FLAGS = 0
for _name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY", "O_NOINHERIT"):
    _FLAGS |= getattr(os, _name, 0)
_said: set[str] = set()
_MARK = b"anydml kernel: "
UNFINISHED = ".new-"
"""The start of the names of files that are being written."""
PLANS = "plans"
"""The folder of plans, within that of kernels."""


class Entry:
    """The place of one kernel's code, for one version of it and one CPU."""

    def __init__(self, name: str, version: str, cpu: str, *, within: str = "") -> None:
        """`within` is a folder of the cache's, for what is not a kernel."""
        self.folder = _folder(within)
        self._file = f"{name.replace(' ', '-')}-{version}.o"
        self._header = _MARK + f"{name}, version {version}, CPU {cpu}\n".encode()

    def read(self) -> bytes | None:
        """The code, where it is there, whole, and this very kernel's."""
        if self.folder is None:
            return None
        try:
            data = _read_plain(self.folder / self._file)
        except OSError:
            return None
        is_whole = hashlib.sha256(data[_DIGEST:]).digest() == data[:_DIGEST]
        return data[_DIGEST + len(self._header) :] if is_whole and data.startswith(self._header, _DIGEST) else None

    def write(self, code: bytes) -> None:
        """Keep the code, in one step; where that fails the next process compiles it again, no more."""
        data = self._header + code
        if self.folder is None or _DIGEST + len(data) > LARGEST:
            return
        with contextlib.suppress(OSError):
            handle, name = tempfile.mkstemp(dir=self.folder, prefix=UNFINISHED)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(hashlib.sha256(data).digest() + data)
                Path(name).replace(self.folder / self._file)
            except OSError:
                Path(name).unlink(missing_ok=True)

    @contextlib.contextmanager
    def claim(self) -> Iterator[Path | None]:
        """The folder that the code can be kept in, or None; meanwhile no other process compiles it.

        All kernels share one lock file, of which each locks one byte. The system frees it when a process dies.
        """
        if self.folder is None or not _has_room(self.folder):
            yield None
            return
        handle = None
        with contextlib.suppress(OSError):  # a file system without locks: kernels are compiled more than once there
            handle = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
            byte = int.from_bytes(hashlib.sha256(self._file.encode()).digest()[:4], "little") >> 1
            deadline = time.monotonic() + PATIENCE
            while not _lock(handle, byte) and time.monotonic() < deadline:
                time.sleep(0.02)
        try:
            yield self.folder
        finally:
            if handle is not None:
                os.close(handle)


if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int, byte: int) -> bool:
        os.lseek(handle, byte, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True
else:
    import fcntl

    def _lock(handle: int, byte: int) -> bool:
        # Unlike flock's, it is not a child's as well after a fork: who dies leaves nobody behind that has it.
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except (BlockingIOError, PermissionError):  # POSIX leaves open which of the two says that another has it
            return False
        return True


# The version of what is kept: a digest of the source that it was made by.


class SourceDigests(NamedTuple):
    """Digests of source: what either covers is another where a file of it is."""

    kernels: str
    """Of whatever code of the engines can be made of: the engines, and all that they import."""
    package: str
    """Of everything."""

    @classmethod
    def of(cls, files: Mapping[str, bytes]) -> SourceDigests:
        """The digests of a package's files, by their paths in it."""
        return cls(*(_digest(several) for several in (reached_by("engines", files), files)))


def reached_by(name: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of a part of a package, a folder or a module, and of all the parts that it names, and those name."""
    parts: dict[str, dict[str, bytes]] = {}
    for path, data in files.items():
        parts.setdefault(re.split(r"[/.]", path)[0], {})[path] = data
    found, pending = dict[str, bytes](), [name]
    while pending:
        part = parts.pop(pending.pop(), {})
        found |= part
        for data in part.values():
            pending += {word.decode() for words in re.findall(_NAMED, data) for word in re.findall(rb"\w+", words)}
    return found


_NAMED = rb"(?:from |import |[\"'])anydml(?:\.| import )([\w, ]+)"
"""The parts that a line of source imports, or has a string of for a later import; prose names parts too."""


@functools.cache
def source_digests() -> SourceDigests:
    """The digests of this package's source.

    To read all of it takes 30 ms, once: what a system says of a file, whose status changes with its content, tells
    whether it is the same.
    """
    folder = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))  # noqa: PTH120 - the walk below is by os.scandir, whose paths are text
    paths, stamps = _source_files(folder)
    entry = Entry("version", _digest({"\n".join(paths): stamps}), "any")
    if (known := entry.read()) is not None:
        return SourceDigests(*known.decode().split())
    found = SourceDigests.of({path[len(folder) + 1 :].replace(os.sep, "/"): Path(path).read_bytes() for path in paths})
    entry.write(" ".join(found).encode())
    return found


def _source_files(folder: str) -> tuple[list[str], bytes]:
    """The paths of a package's files, and what changes with their content."""
    found, stamps, pending = list[str](), array("q"), [folder]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for one in entries:
                if one.name.endswith((".py", ".json", ".pyc")):
                    status = one.stat()
                    found.append(one.path)
                    stamps.extend((status.st_size, status.st_mtime_ns, status.st_ctime_ns))
                elif "." not in one.name and one.name != "__pycache__" and one.is_dir():
                    pending.append(one.path)
    return found, stamps.tobytes()


def _digest(parts: Mapping[str, bytes]) -> str:
    made = hashlib.sha256()
    for name in sorted(parts):
        made.update(f"{name} {len(parts[name])} ".encode())
        made.update(parts[name])
    return made.hexdigest()[:16]


def find_folder() -> Path | None:
    """The folder that everything is kept in, where it is there and may be used."""
    return _folder("")


def is_kept(path: Path) -> bool:
    """Whether a file is one that was kept, or is being written: the folder may have others, not to be touched."""
    if path.name.startswith(UNFINISHED):
        return path.is_file()
    try:
        return path.suffix == ".o" and _read_plain(path, _DIGEST + len(_MARK)).endswith(_MARK)
    except OSError:
        return False


def _read_plain(path: Path, most: int = LARGEST) -> bytes:
    handle = os.open(path, os.O_RDONLY | _FLAGS)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or _is_foreign(status) or status.st_size > LARGEST:
            raise OSError(f"{path} is not a file of this user's alone")
        # One that has changed meanwhile is not whole, as its digest says.
        return os.read(handle, min(status.st_size, most))
    finally:
        os.close(handle)


def _is_foreign(status: os.stat_result) -> bool:
    """Whether somebody else, root aside, can have written to it; Windows has neither owners nor modes to ask for."""
    if sys.platform == "win32":
        return False
    return status.st_uid not in (0, os.geteuid()) or bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _has_room(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_ROOM))
    except OSError:
        return False
    return True


def _folder(within: str) -> Path | None:
    """The folder that kernels are kept in, or one within it; None where they cannot be."""
    given = os.environ.get("ANYDML_CACHE_DIR")
    try:
        path = _path(within, given, *map(os.environ.get, ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME")))
    except (OSError, RuntimeError):  # the user has no home
        if given:
            _refuse(f"ANYDML_CACHE_DIR is {given!r}, and no such home is known")
        return None
    return None if path is None else _prepare(path)


@functools.cache  # it takes 0.1 ms, and to load a kernel 0.2
def _path(within: str, given: str | None, caches: str | None, local: str | None, _home: str | None) -> Path | None:
    """Where that folder is to be, by variables of the environment."""
    if given:
        return Path(given).expanduser() / within
    if sys.platform == "win32":
        root = Path(local or tempfile.gettempdir())
    elif sys.platform == "darwin":
        root = Path("~/Library/Caches").expanduser()
    else:
        root = Path(caches or "")  # XDG: one that is not absolute does not count
        root = root if root.is_absolute() else Path("~/.cache").expanduser()
    return root / "anydml" / within if root.is_absolute() else None


@functools.cache
def _prepare(path: Path) -> Path | None:
    """Make the folder, and any above it that are missing, for this user alone; look at it once a process."""
    try:
        folder = Path(os.path.realpath(path))
        above = [folder, *folder.parents]
        missing = [place for place in above if not os.path.lexists(place)]
        fault = _find_fault(above[len(missing)], is_last=not missing)
        for place in [] if fault else reversed(missing):
            place.mkdir(mode=0o700, exist_ok=True)
        fault = fault or _find_fault(folder, is_last=True)
    except OSError:  # a disk that is read-only or full, or a folder of somebody else's
        return None
    if fault:
        _refuse(fault)
        return None
    return folder


def _find_fault(folder: Path, *, is_last: bool) -> str:
    """The reason why a folder cannot be used: others can change its files, or put another in its place."""
    home = Path(os.path.realpath(Path("~").expanduser())) if "HOME" in os.environ else None
    for place in (folder, *folder.parents):
        status = place.stat()
        if not stat.S_ISDIR(status.st_mode):
            return f"{place} is not a folder"
        # In a sticky folder, such as /tmp, nobody renames what is another's.
        is_sticky = (place != folder or not is_last) and status.st_mode & stat.S_ISVTX
        if sys.platform != "win32" and status.st_uid not in (0, os.geteuid()):
            return f"{place} belongs to another user (uid {status.st_uid})"
        if _is_foreign(status) and not is_sticky:
            return f"others can write to {place} (chmod go-w '{place}')"
        if place == home:
            break
    return ""


def _refuse(fault: str) -> None:
    if fault not in _said:
        _said.add(fault)
        way_out = "mend that, or set ANYDML_CACHE_DIR to a folder that is yours alone"
        logging.getLogger("anydml").warning("compiled kernels are not kept: %s; %s", fault, way_out)
