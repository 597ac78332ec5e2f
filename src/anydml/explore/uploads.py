"""Files that somebody opens or drops in the page: each set in a folder of its own, which goes with the server."""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
from pathlib import Path

from anydml.core.errors import Fault, ModelError, show
from anydml.core.memory import word_bytes

_MOST_FILES = 64
"""Of a model: it, and the files of its weights."""
_MOST_LETTERS = 200
_RESERVED = frozenset('<>:"/\\|?*')


class Uploads:
    """Folders of files by number; those that nobody took go when the next begins."""

    def __init__(self) -> None:
        self._root: Path | None = None
        self._number = 0
        self._left = 0

    def place(self, batch: str, name: str) -> tuple[int, Path]:
        """Where a file of a set goes, which is begun where it has no number."""
        if len(name) > _MOST_LETTERS or name.strip(". ") == "" or not name.isprintable() or _RESERVED & set(name):
            raise _refused(f"{show(name, 60)} is not the name of a file")
        if not batch:
            self._begin()
        elif batch != str(self._number) or self._root is None:
            raise _refused("another set of files was begun since: open them again")
        folder = self._folder(self._number)
        if len(list(folder.iterdir())) >= _MOST_FILES:
            raise _refused(f"a model has at most {_MOST_FILES} files")
        return self._number, folder / name

    def count(self, size: int) -> None:
        """Take room for bytes that came; no more than half of what is free is taken."""
        self._left -= size
        if self._left < 0:
            raise _refused("the files are larger than half of the free space for temporary files")

    def take(self, batch: object) -> list[Path]:
        """The files of a set."""
        if batch != self._number or self._root is None:
            raise _refused("there are no such files: open them again")
        return sorted(self._folder(self._number).iterdir())

    def forget(self, path: Path) -> None:
        """Remove the folder of a file that is no longer open, if it is one of these."""
        if self._root is not None and self._root in path.parents and path.parent != self._folder(self._number):
            shutil.rmtree(path.parent, ignore_errors=True)

    def told(self, text: str) -> str:
        """A message without the folders, which nobody knows, and without the name of the command that made the page."""
        text = text.removeprefix("explore: ")
        return text if self._root is None else re.sub(rf"{re.escape(str(self._root))}[/\\\\]\d+[/\\\\]", "", text)

    def close(self) -> None:
        """Remove everything."""
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
            self._root = None

    def _begin(self) -> None:
        if self._root is None:
            self._root = Path(tempfile.mkdtemp(prefix="anydml-explore-"))
        self._number += 1
        self._folder(self._number).mkdir()
        self._left = shutil.disk_usage(self._root).free // 2

    def _folder(self, number: int) -> Path:
        assert self._root is not None  # noqa: S101 - for type checkers: a set was begun
        return self._root / str(number)


def find_model(files: list[Path]) -> Path:
    """The model among files that were opened together: the others are its weights."""
    for endings in ((".onnx",), (".json",)):
        found = [path for path in files if path.suffix.lower() in endings]
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(path.name for path in found[:3])
            raise _refused(f"open one model at a time, with the files of its weights; got {names}")
    got = ", ".join(f"{show(path.name, 60)} ({word_bytes(path.stat().st_size)})" for path in files[:3])
    raise _refused(f"a model is an .onnx or a .json file; got {got or 'no file'}")


def discard(path: Path) -> None:
    """Remove a file that did not come whole."""
    with contextlib.suppress(OSError):
        path.unlink()


def _refused(rule: str) -> ModelError:
    return ModelError("explore", Fault(field="file", rule=rule))
