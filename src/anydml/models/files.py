"""The files that a model names: kept inside the folders it may use, read only where they are plain files."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Self

from anydml.errors import Fault, ModelFileError, show

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from io import BufferedReader

# Opening a pipe would wait for its writer; a link put in place of a resolved path is not followed.
_READ = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_LONGEST_PATH = 4096


def _refuse(rule: str, text: str, way_out: str = "") -> ModelFileError:
    return ModelFileError("files", Fault(field="", rule=rule, value=text, found=show(text), way_out=way_out))


def word_reason(error: OSError | ValueError) -> str:
    """Why the system would not have a file, as a message has it."""
    if isinstance(error, OSError):
        return (error.strerror or type(error).__name__).lower()
    return "not a path"


class Files:
    """Where a model may read and write: its own folder, and the folders that its user allows."""

    def __init__(
        self,
        model: Path,
        *,
        input_path: Path | None = None,
        output_path: Path | None = None,
        allowed: Sequence[Path] = (),
    ) -> None:
        self.model = model.resolve()
        self._allowed = [folder.resolve() for folder in allowed]
        self._input = (input_path or model.parent).resolve()
        self._output = (output_path or model.parent).resolve()

    def find_source(self, text: str) -> Path:
        """The file that a model reads: in its folder, else in an allowed one."""
        refusal: ModelFileError | None = None
        for base in (self._input, *self._allowed):
            try:
                path = self._resolve(base, text, self._input)
                _check_plain(path, text)
            except ModelFileError as error:
                refusal = refusal or error
            else:
                return path
        assert refusal  # noqa: S101 - for type checkers: there is one folder at least
        raise refusal

    def find_target(self, text: str) -> Path:
        """The file that a model writes: in its folder, else where an allowed one has it."""
        path = self._resolve(self._output, text, self._output)
        if path == self.model or _is_same(path, self.model):
            raise _refuse("a model must not write over itself", text)
        roots = (self._output, *self._allowed)
        root = next(root for root in roots if path.is_relative_to(root))
        if any(part.startswith(".") for part in path.relative_to(root).parts):
            # In a home folder that would be the settings of other programs.
            raise _refuse("a model must not write hidden files", text)
        if _is_there(path, text):
            _check_plain(path, text)
        elif path.name in ("", ".") or not _is_folder(path.parent):
            raise _refuse("the path must be one of a file in a folder", text)
        return path

    def _resolve(self, base: Path, text: str, home: Path) -> Path:
        """Where a path leads, links followed; it must end up in a folder that may be used."""
        if not text or len(text) > _LONGEST_PATH or "\0" in text:
            raise _refuse("the path must be one of a file", text)
        given = PureWindowsPath(text)  # takes both separators, and knows C: for what it is
        way_out = "the model's user may allow another folder with --allow-files"
        if not self._allowed:
            if given.drive or given.root:
                raise _refuse("the path must not be absolute", text, way_out)
            if ".." in given.parts:
                raise _refuse('the path must not have ".."', text, way_out)
        if any(":" in part for part in given.parts[1 if given.anchor else 0 :]):
            raise _refuse('the path must not have ":"', text)  # what follows would name a stream of a file, on Windows
        try:
            path = Path(os.path.realpath(base / text.replace("\\", "/")))
        except (OSError, ValueError) as error:
            raise _refuse("the path must be one of a file", text) from error
        if not any(path.is_relative_to(root) for root in (home, *self._allowed)):
            raise _refuse("the path must not lead out of the model's folder", text, way_out)
        return path


def _is_same(one: Path, other: Path) -> bool:
    """Whether two names are one file's, as `a` and `A` are on some systems."""
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return False


def _is_there(path: Path, text: str) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:  # too long a name, which would be found out when other files are in place
        raise _refuse(f"the file cannot be written ({word_reason(error)})", text) from error
    return True


def _is_folder(path: Path) -> bool:
    """Whether a folder is there, or could be made."""
    while not os.path.lexists(path):
        path = path.parent
    return os.path.isdir(path)  # noqa: PTH112 - never raises


def _check_plain(path: Path, text: str) -> None:
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        raise _refuse(f"the file cannot be read ({word_reason(error)})", text) from error
    if not stat.S_ISREG(mode):
        raise _refuse("the path must be one of a plain file", text)


def open_plain(path: Path, text: str) -> BufferedReader:
    """Open a plain file, and nothing that waits or never ends."""
    _check_plain(path, text)
    try:
        file = open(os.open(path, _READ), "rb")  # noqa: SIM115, PTH123 - the caller closes it; flags need a descriptor
    except (OSError, ValueError) as error:
        raise _refuse(f"the file cannot be read ({word_reason(error)})", text) from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise _refuse("the path must be one of a plain file", text)
    return file


def read_plain(path: Path, limit: int) -> bytes:
    """The bytes of a file of at most so many."""
    with open_plain(path.resolve(), str(path)) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            rule = f"the file must have at most {limit} bytes, to be read in the memory allowed"
            fault = Fault(field="", rule=rule, value=size, found=str(size), way_out="see --max-memory")
            raise ModelFileError(str(path), fault)
        return file.read(size)  # which makes room for as much as it is asked for, so not for the limit


class Writes:
    """Files written beside their places, and put there all together once everything has gone well."""

    def __init__(self) -> None:
        self._staged: dict[Path, Path] = {}
        """By its place, the file that is to be put there."""
        self._folders: list[Path] = []

    def stage(self, target: Path, chunks: Iterable[bytes | memoryview]) -> None:
        """Write a file under a name of its own in the target's folder."""
        if target.is_dir() or any(folder in self._staged for folder in target.parents):
            raise _refuse("a path must not be that of a file and of a folder", str(target))
        try:
            for folder in reversed([folder for folder in target.parents if not folder.exists()]):
                folder.mkdir()
                self._folders.append(folder)
            temporary = target.with_name(f".anydml-{secrets.token_hex(8)}.tmp")
            with open(os.open(temporary, _CREATE, 0o666), "wb") as file:  # noqa: PTH123 - as above
                before, self._staged[target] = self._staged.get(target), temporary
                if before is not None:
                    before.unlink(missing_ok=True)
                for chunk in chunks:
                    file.write(chunk)
        except OSError as error:
            raise _refuse(f"the file cannot be written ({word_reason(error)})", str(target)) from error

    def commit(self) -> None:
        """Put every file in its place."""
        try:
            for target, temporary in self._staged.items():
                temporary.replace(target)
        except OSError as error:
            raise _refuse(f"the file cannot be written ({word_reason(error)})", str(target)) from error
        self._staged, self._folders = {}, []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove what was not put in its place."""
        for temporary in self._staged.values():
            temporary.unlink(missing_ok=True)
        for folder in reversed(self._folders):
            with contextlib.suppress(OSError):
                folder.rmdir()


def write_atomically(target: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    with Writes() as writes:
        writes.stage(target, [data])
        writes.commit()
