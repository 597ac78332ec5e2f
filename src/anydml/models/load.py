"""From a path to a model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from anydml.errors import Fault, ModelFileError, UnsupportedError, printable
from anydml.models.files import Files, read_plain
from anydml.models.findings import TooManyFaultsError, raise_findings
from anydml.models.limits import read_max_memory
from anydml.models.parser import parse
from anydml.models.read import ModelReader

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from anydml.models.model import Model

    Folders: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

_TEXT_COST = 64
"""Bytes of memory that a byte of JSON may take once it is read: `[],` is the dearest."""
_SHORT_TEXT, _LONGEST_TEXT = 2**16, 2**28
"""Texts that are read whatever the limit, and none that is longer."""


def load_model(
    path: str | os.PathLike[str],
    *,
    allow_files: Folders = (),
    input_path: str | os.PathLike[str] | None = None,
    output_path: str | os.PathLike[str] | None = None,
    max_memory: int | None = None,
) -> Model:
    """Read a DxDispatch model; what is no JSON is an error, and everything else is told by `Model.check`.

    The files that it names are kept inside its own folder and those allowed; `max_memory` is in bytes, and half of
    what is free where it is not given.
    """
    try:
        return read_model(path, allow_files, input_path, output_path, max_memory)
    except TooManyFaultsError as error:
        raise_findings(printable(str(path)), error.findings)
        raise


def read_model(
    path: str | os.PathLike[str],
    allow_files: Folders = (),
    input_path: str | os.PathLike[str] | None = None,
    output_path: str | os.PathLike[str] | None = None,
    max_memory: int | None = None,
) -> Model:
    """`load_model`, for those who take too many faults for what they are."""
    limit = read_max_memory(max_memory, "load_model")
    file = printable(str(path))
    model = Path(path)
    if model.suffix.lower() == ".onnx":
        rule = "the file must be a DxDispatch model, and is an ONNX model"
        raise UnsupportedError(file, Fault(field="", rule=rule, way_out="anydml.onnx.load reads it"))
    try:
        data = read_plain(model, min(max(limit // _TEXT_COST, _SHORT_TEXT), _LONGEST_TEXT))
    except ModelFileError as error:
        raise ModelFileError(file, error.faults) from None
    root = parse(file, data)
    several = [allow_files] if isinstance(allow_files, (str, os.PathLike)) else allow_files
    files = Files(
        model,
        input_path=None if input_path is None else Path(input_path),
        output_path=None if output_path is None else Path(output_path),
        allowed=[Path(folder) for folder in several],
    )
    return ModelReader(root, files).read(file, limit)
