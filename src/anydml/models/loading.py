"""From a path to a model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from anydml.errors import DescriptionError, Fault, ModelFileError, UnsupportedError, printable, show
from anydml.files import Files, read_plain
from anydml.limits import default_max_output, read_max_memory
from anydml.models.findings import TooManyFaultsError, raise_findings
from anydml.models.parser import parse
from anydml.models.read import ModelReader
from anydml.parse import read_int, read_ints

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from anydml.models.model import Model
    from anydml.models.syntax import Unread

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
    max_output: int | None = None,
    shapes: Mapping[str, Sequence[int] | int] | None = None,
) -> Model:
    """Read a DxDispatch model; what is no JSON is an error, and everything else is told by `Model.check`.

    The files that it names are kept inside its own folder and those allowed. `max_memory` and `max_output`, what it may
    write, are in bytes, and half of what is free where they are not given. `shapes` are those of inputs and outputs of
    ONNX models that it runs, and open sizes of theirs, by their names: the model's own count for nothing then.
    """
    try:
        return read_model(path, allow_files, input_path, output_path, max_memory, max_output, shapes)
    except TooManyFaultsError as error:
        raise_findings(printable(str(path)), error.findings)
        raise


def read_model(
    path: str | os.PathLike[str],
    allow_files: Folders = (),
    input_path: str | os.PathLike[str] | None = None,
    output_path: str | os.PathLike[str] | None = None,
    max_memory: int | None = None,
    max_output: int | None = None,
    shapes: Mapping[str, Sequence[int] | int] | None = None,
    data: bytes | None = None,
    unread: Unread | None = None,
) -> Model:
    """`load_model`, for callers that list too many faults, have the text already, or go on after syntax errors."""
    limit = read_max_memory(max_memory, "load_model")
    faults: list[Fault] = []
    most_written = None if max_output is None else read_int(max_output, "max_output", faults, 0, 2**63 - 1)
    model = _read_path(path, "path", faults)
    reads = None if input_path is None else _read_path(input_path, "input_path", faults)
    writes = None if output_path is None else _read_path(output_path, "output_path", faults)
    allowed = _read_folders(allow_files, faults)
    if not isinstance(shapes, Mapping | None):
        faults.append(Fault(field="shapes", rule="shapes must be a mapping of names to sizes", found=show(shapes)))
    bound = {str(name): read_ints(sizes, f"shapes[{name!r}]", faults) for name, sizes in (shapes or {}).items()}
    if faults:
        raise DescriptionError("load_model", faults)
    file = printable(str(path))
    if model.suffix.lower() == ".onnx":
        rule = "the file must be a DxDispatch model, and is an ONNX model"
        raise UnsupportedError(file, Fault(field="", rule=rule, way_out="anydml.onnx.load reads it"))
    root = parse(file, read_text(model, limit) if data is None else data, unread)
    files = Files(model, input_path=reads, output_path=writes, allowed=allowed)
    if most_written is None:
        most_written = default_max_output(files.output)
    return ModelReader(root, files, bound, limit).read(file, limit, most_written)


def read_text(path: Path, limit: int) -> bytes:
    """The text of a model, as long as the memory allows."""
    try:
        return read_plain(path, min(max(limit // _TEXT_COST, _SHORT_TEXT), _LONGEST_TEXT))
    except ModelFileError as error:
        raise ModelFileError(printable(str(path)), error.faults) from None


def _read_path(value: object, field: str, faults: list[Fault]) -> Path:
    try:
        path = Path(value)  # type: ignore[arg-type]  # whether it is one is what is asked
        if b"\0" not in os.fsencode(path):
            return path
    except Exception:  # noqa: BLE001, S110 - a hostile __fspath__ may raise anything
        pass
    faults.append(Fault(field=field, rule=f"{field} must be a path", value=value, found=show(value)))
    return Path()


def _read_folders(value: object, faults: list[Fault]) -> list[Path]:
    several = (value,) if isinstance(value, (str, os.PathLike)) else value
    if isinstance(several, (list, tuple)):
        return [_read_path(folder, f"allow_files[{i}]", faults) for i, folder in enumerate(several)]
    rule = "allow_files must be a path or a list of paths"
    faults.append(Fault(field="allow_files", rule=rule, value=value, found=show(value)))
    return []
