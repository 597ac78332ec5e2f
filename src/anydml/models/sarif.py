"""A report as SARIF 2.1.0, which code hosts show on the lines of the file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from anydml import __version__
from anydml.errors import MISSING
from anydml.models.findings import KINDS

if TYPE_CHECKING:
    from anydml.models.check import ModelReport
    from anydml.models.findings import Finding

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def as_sarif(*reports: ModelReport) -> dict[str, Any]:
    """Reports as data, to be written as JSON."""
    rules = [{"id": kind.name, "shortDescription": {"text": kind.what}} for kind in KINDS]
    driver = {"name": "anydml", "semanticVersion": __version__, "rules": rules}
    results = [_result(finding, _uri(report.path or report.file)) for report in reports for finding in report.findings]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _uri(file: str) -> str:
    """Relative to where the command runs, as hosts want it; whole for a file elsewhere."""
    path = Path(os.path.abspath(file))  # noqa: PTH100 - links stay as they are named
    if path.is_relative_to(Path.cwd()):
        return quote(os.fsencode(path.relative_to(Path.cwd()).as_posix()))  # a name need not be UTF-8
    return path.as_uri()


def _result(finding: Finding, uri: str) -> dict[str, Any]:
    fault, place = finding.fault, finding.fault.place
    said = "; ".join(part for part in (fault.rule, f"got {fault.found}" if fault.found else "", fault.way_out) if part)
    level = "note" if not finding.kind.status else "warning" if finding.kind.status == MISSING else "error"
    result: dict[str, Any] = {
        "ruleId": finding.kind.name,
        "level": level,
        "message": {"text": f"{fault.subject}: {said}" if fault.subject else said},
    }
    physical: dict[str, Any] = {"artifactLocation": {"uri": uri}}
    if place is not None:
        physical["region"] = {"startLine": place.line, "startColumn": place.column}
    location: dict[str, Any] = {"physicalLocation": physical}
    if place is not None and place.path:
        location["logicalLocations"] = [{"fullyQualifiedName": place.path}]
    return {**result, "locations": [location]}
