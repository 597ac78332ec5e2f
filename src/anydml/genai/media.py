"""Images and Audios: files of pictures and sounds, as they lie on a disk; a model's processor decodes them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

from anydml.core.errors import Fault, ModelFileError, show
from anydml.core.files import read_plain
from anydml.onnxruntime.ort_errors import NoSuchFile, refuse, refuse_type

LARGEST = 2**29
"""Bytes of a file."""


class _Files:
    """Files of one kind."""

    _one, _several = "file", "files"

    def __init__(self, held: list[bytes]) -> None:
        self.held = held
        """What is in each file."""

    @classmethod
    def open(cls, *paths: str | os.PathLike[str]) -> Self:
        """Read files."""
        cls._check(paths)
        for path in paths:
            if not isinstance(path, (str, os.PathLike)):
                raise refuse_type(cls.__name__, "path", "the path of a file", path)
        return cls([cls._read(Path(path)) for path in paths])

    @classmethod
    def open_bytes(cls, *contents: bytes) -> Self:
        """Take what is in files."""
        cls._check(contents)
        for place, content in enumerate(contents):
            if not isinstance(content, (bytes, bytearray, memoryview)):
                raise refuse_type(cls.__name__, cls._one, "bytes", content)
            if not len(content):
                raise refuse(cls.__name__, cls._one, f"{cls._one} {place} must not be empty", "0 bytes")
        return cls([bytes(content) for content in contents])

    @classmethod
    def _check(cls, given: tuple[Any, ...]) -> None:
        if not given:
            raise refuse(cls.__name__, cls._several, f"there must be one of the {cls._several} at least", "none")

    @classmethod
    def _read(cls, path: Path) -> bytes:
        try:
            return read_plain(path, LARGEST)
        except ModelFileError as error:
            if path.exists():
                raise
            rule = f"there is no file {show(str(path))}"
            raise NoSuchFile(cls.__name__, [Fault(field=cls._one, rule=rule)]) from error

    def __len__(self) -> int:
        return len(self.held)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.held)})"


class Images(_Files):
    """Pictures: `Images.open("a.png", "b.jpg")`."""

    _one, _several = "image", "images"


class Audios(_Files):
    """Sounds: `Audios.open("a.wav")`."""

    _one, _several = "audio", "audios"
