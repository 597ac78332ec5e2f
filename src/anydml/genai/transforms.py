"""The JSON of onnxruntime-extensions' processors: a list of operations, each with a type and attributes."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any

from anydml.core.enum_parsing import suggest
from anydml.core.errors import Fault, UnsupportedError, show
from anydml.genai.config import read_json
from anydml.onnxruntime.ort_errors import InvalidGraph, renamed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True)
class Transform(ABC):
    """One operation, with its attributes."""

    @abstractmethod
    def __call__(self, value: Any) -> Any:
        """What it makes of an array, or of a file's bytes."""


def read_transforms(path: Path, root: str, listed: str, known: Mapping[str, type[Transform]]) -> list[Transform]:
    """The operations that a processor's file lists under `root.listed`, in their order."""
    data = read_json(path)
    section = data.get(root) if isinstance(data, dict) else None
    sequence = section.get(listed) if isinstance(section, dict) else None
    if not isinstance(sequence, list) or not sequence:
        raise _wrong(path, f"{root}.{listed}", f"{root}.{listed} must be a list of operations")
    found = []
    for place, entry in enumerate(sequence):
        field = f"{root}.{listed}[{place}].operation"
        own = entry.get("operation") if isinstance(entry, dict) else None
        if not isinstance(own, dict) or not isinstance(kind := own.get("type"), str):
            raise _wrong(path, field, f"{field} must be an object with a type")
        if kind not in known:
            rule = f"operation {show(kind)} is not done here"
            way_out = suggest(kind, known) or f"there are {', '.join(known)}"
            raise renamed(UnsupportedError(str(path), Fault(field=f"{field}.type", rule=rule, way_out=way_out)))
        attributes = own.get("attrs", {})
        if not isinstance(attributes, dict):
            raise _wrong(path, f"{field}.attrs", f"{field}.attrs must be an object")
        found.append(_made(path, field, known[kind], attributes))
    return found


def _made(path: Path, field: str, kind: type[Transform], attributes: dict[str, Any]) -> Transform:
    known = {one.name: one for one in fields(kind)}
    given = {}
    for name, value in attributes.items():
        if name.startswith("_"):  # a comment
            continue
        if name not in known:
            way_out = suggest(name, known) or f"there are {', '.join(known)}"
            raise _wrong(path, f"{field}.attrs", f"{kind.__name__} has no attribute {show(name)}", way_out=way_out)
        given[name] = _read(path, f"{field}.attrs.{name}", str(known[name].type), value)
    for name, own in known.items():
        if name not in given and own.default is MISSING:
            raise _wrong(path, f"{field}.attrs", f"{kind.__name__} must have attribute {show(name)}")
    return kind(**given)


def _read(path: Path, field: str, kind: str, value: Any) -> Any:
    """An attribute, by the annotation of its field."""
    if kind.startswith("tuple["):
        inner = kind[len("tuple[") :].partition(",")[0].rstrip("]")
        if isinstance(value, list):
            return tuple(_read(path, f"{field}[{place}]", inner, one) for place, one in enumerate(value))
        raise _wrong(path, field, f"{field} must be a list", found=value)
    try:
        if kind == "str" and isinstance(value, str):
            return value
        if kind == "float" and isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        if kind == "int":
            return int(value) if isinstance(value, float) and value.is_integer() else operator.index(value)
    except TypeError:
        pass
    words = {"str": "a string", "float": "a number", "int": "a whole number"}
    raise _wrong(path, field, f"{field} must be {words[kind]}", found=value)


def _wrong(path: Path, field: str, rule: str, way_out: str = "", found: object = None) -> InvalidGraph:
    shown = "" if found is None else show(found)
    return InvalidGraph(str(path), Fault(field=field, rule=rule, found=shown, way_out=way_out))
