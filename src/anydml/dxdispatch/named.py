"""Values of a model that DirectML has names for: data types and flags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.core.enum_parsing import suggest
from anydml.core.enums import DataType
from anydml.core.errors import DescriptionError
from anydml.dxdispatch.findings import DESCRIPTION, FILE

if TYPE_CHECKING:
    from anydml.dxdispatch.findings import Findings, Kind
    from anydml.dxdispatch.source import Node

_DATA_TYPES = {name: t for t in DataType for name in (t.name, t.dml_name)}


def read_data_type(node: Node, name: str, findings: Findings, kind: Kind = FILE, subject: str = "") -> DataType | None:
    """A type by DirectML's name, full or short."""
    if isinstance(node.raw, str) and node.raw in _DATA_TYPES:
        return _DATA_TYPES[node.raw]
    rule = f"{name} must be one of {', '.join(DataType.__members__)}"
    way_out = suggest(node.raw, DataType.__members__, "DML_TENSOR_DATA_TYPE_")
    findings.add(kind, node, rule, field=name, way_out=way_out, subject=subject)
    return None


def read_flags(node: Node, field: str, cls: type[Any], findings: Findings, subject: str = "") -> Any:
    """Flags by name, one or a list of them."""
    given = node.plain() if node.is_list else [node.raw]
    names = [name for name in given if isinstance(name, str)]
    if len(names) < len(given):
        findings.add(FILE, node, f"{field} must be a string, or a list of strings", field=field, subject=subject)
        return None
    try:
        return cls("|".join(names) or "NONE")
    except DescriptionError as error:
        fault = error.faults[0]
        rule, way_out = f"{field} {fault.rule}", fault.way_out
        findings.add(DESCRIPTION, node, rule, field=field, found=fault.found, way_out=way_out, subject=subject)
        return None
