"""The files that a model names: kept inside the folders it may use, read only where they are plain files."""

from __future__ import annotations

import os
import stat
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING

from anydml.core.errors import Fault, ModelFileError, show

if TYPE_CHECKING:
    from collections.abc import Sequence
    from io import BufferedReader

# Opening a pipe would wait for its writer; a link put in place of a resolved path is not followed.
_READ = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_LONGEST_PATH = 4096


def refuse(rule: str, text: str, way_out: str = "") -> ModelFileError:
    """The error of a file that cannot be used."""
    return ModelFileError("files", Fault(field="", rule=rule, value=text, found=show(text), way_out=way_out))


def word_reason(error: OSError | ValueError) -> str:
    """Why the system would not have a file, as a message has it."""
    if isinstance(error, OSError):
        return (error.strerror or type(error).__name__).lower()
    return "not a path"


def real_path(path: Path) -> Path:
    """Where a path leads. A link to itself stays as it is: Path.resolve() would raise a RuntimeError."""
    return Path(os.path.realpath(path))


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
        self.model = real_path(model)
        self._allowed = [real_path(folder) for folder in allowed]
        self._input = real_path(input_path or model.parent)
        self.output = real_path(output_path or model.parent)

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
        path = self._resolve(self.output, text, self.output)
        if path == self.model or _is_same(path, self.model):
            raise refuse("a model must not write over itself", text)
        roots = (self.output, *self._allowed)
        root = next(root for root in roots if path.is_relative_to(root))
        if any(part.startswith(".") for part in path.relative_to(root).parts):
            # In a home folder that would be the settings of other programs.
            raise refuse("a model must not write hidden files", text)
        if _is_there(path, text):
            _check_plain(path, text)
        elif path.name in ("", ".") or not _is_folder(path.parent):
            raise refuse("the path must name a file in a folder", text)
        return path

    def _resolve(self, base: Path, text: str, home: Path) -> Path:
        """Where a path leads, links followed; it must end up in a folder that may be used."""
        if not text or len(text) > _LONGEST_PATH or "\0" in text:
            raise refuse("the path must name a file", text)
        given = PureWindowsPath(text)  # takes both separators, and knows C: for what it is
        way_out = "the model's user may allow another folder with --allow-files"
        if not self._allowed:
            if given.drive or given.root:
                raise refuse("the path must not be absolute", text, way_out)
            if ".." in given.parts:
                raise refuse('the path must not have ".."', text, way_out)
        if any(":" in part for part in given.parts[1 if given.anchor else 0 :]):
            raise refuse('the path must not have ":"', text)  # what follows would name a stream of a file, on Windows
        try:
            path = Path(os.path.realpath(base / text.replace("\\", "/")))
        except (OSError, ValueError) as error:
            raise refuse("the path must name a file", text) from error
        if not any(path.is_relative_to(root) for root in (home, *self._allowed)):
            raise refuse("the path must not lead out of the model's folder", text, way_out)
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
        raise refuse(f"the file cannot be written ({word_reason(error)})", text) from error
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
        raise refuse(f"the file cannot be read ({word_reason(error)})", text) from error
    if not stat.S_ISREG(mode):
        kind = ", not a folder" if stat.S_ISDIR(mode) else ""
        raise refuse(f"the path must name a plain file{kind}", text)


def open_plain(path: Path, text: str) -> BufferedReader:
    """Open a plain file, and nothing that waits or never ends."""
    _check_plain(path, text)
    try:
        file = open(os.open(path, _READ), "rb")  # noqa: SIM115, PTH123 - the caller closes it; flags need a descriptor
    except (OSError, ValueError) as error:
        raise refuse(f"the file cannot be read ({word_reason(error)})", text) from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise refuse("the path must name a plain file", text)
    return file


def read_plain(path: Path, limit: int) -> bytes:
    """The bytes of a file of at most so many."""
    with open_plain(real_path(path), str(path)) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            rule = f"the file must have at most {limit} bytes, to be read in the memory allowed"
            fault = Fault(field="", rule=rule, value=size, found=str(size), way_out="see --max-memory")
            raise ModelFileError(str(path), fault)
        return file.read(size)  # which makes room for as much as it is asked for, so not for the limit
