"""Models that read and write files, and what is said when they may not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelling import DISPATCH, ZEROS, lines, model, run

if TYPE_CHECKING:
    from pathlib import Path


WAY_OUT = "the model's user may allow another folder with --allow-files"


def reading(source: str) -> dict[str, Any]:
    resource = {"initialValuesDataType": "FLOAT32", "initialValues": {"sourcePath": source}}
    return model(resources={"in": resource, "out": ZEROS})


def writing(target: str, **command: Any) -> dict[str, Any]:
    return model(commands=[DISPATCH, {"type": "writeFile", "resource": "out", "targetPath": target, **command}])


def refused(path: Path, *options: object) -> str:
    result = run(path, *options)
    assert result.exit_code == 2, result.output
    (line,) = lines(result, path)
    return line.split(": ", 3)[-1]


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file() and not p.is_symlink()}
