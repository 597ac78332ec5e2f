"""The models that a command is about: files, those of folders, or standard input."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from anydml.cli.onnx_inputs import is_onnx
from anydml.core.errors import DmlError, ModelFileError
from anydml.core.limits import default_max_memory
from anydml.dxdispatch.loading import read_text
from anydml.dxdispatch.parser import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STDIN = "-"
_SECTIONS = ("resources", "dispatchables", "commands")
_SECTION = re.compile(rb'"(%s)"\s*:' % "|".join(_SECTIONS).encode())
_LEFT_OUT = ("node_modules", "__pycache__")


@dataclass(slots=True)
class Models:
    """The models, and the files of folders that are none."""

    paths: list[Path] = field(default_factory=list)
    passed_over: list[Path] = field(default_factory=list)
    data: bytes | None = None
    """The text of the only one, where it comes from standard input."""
    is_one: bool = False
    """Whether a single file was asked for, and no folder."""


def find_models(paths: Sequence[Path], stdin_name: Path | None) -> Models:
    """Every file as it is named, and of folders those that are models."""
    if Path(STDIN) in paths:
        if len(paths) > 1:
            raise click.UsageError("- is standard input, and stands alone.")
        data = sys.stdin.buffer.read()
        return Models([stdin_name or Path("<stdin>")], data=data, is_one=True)
    if stdin_name is not None:
        raise click.UsageError("--stdin-filename is the name of standard input: give - as the path.")
    found = Models(is_one=len(paths) == 1 and not paths[0].is_dir())
    for path in paths:
        if not path.is_dir():
            found.paths.append(path)
            continue
        before = len(found.paths)
        for one in _files(path):
            (found.paths if is_onnx(one) or _is_model(one) else found.passed_over).append(one)
        if len(found.paths) == before and len(paths) == 1:
            rule = "has no DxDispatch model and no ONNX model in it."
            raise click.BadParameter(f"{str(path)!r} {rule}", param_hint="'[PATHS]...'")
    found.paths = list(dict.fromkeys(found.paths))
    return found


def _files(folder: Path) -> Iterator[Path]:
    """The files of a folder and those within it that may be models, in the order of their names."""
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _LEFT_OUT)
        for name in sorted(files):
            path = Path(here, name)
            if path.suffix.lower() in (".json", ".onnx") and not name.startswith("."):
                yield path


def _is_model(path: Path) -> bool:
    """Whether a file of JSON has the sections of a DxDispatch model.

    One that cannot be read is told as a model, and one that does not parse where it has any section: what was cut short
    has only the first of them.
    """
    try:
        data = read_text(path, default_max_memory())
    except DmlError:
        return True
    if not _SECTION.search(data):
        return False
    try:
        root = parse(str(path), data)
    except ModelFileError:
        return True
    return sum(root.get(name) is not None for name in _SECTIONS) > 1
