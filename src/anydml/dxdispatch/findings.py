"""Findings of reading and checking a model: faults with their places, parts that are not built, and remarks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from anydml.core.errors import FAULT, MISSING, UNUSABLE, Fault, ModelError, ModelFileError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from anydml.core.errors import DmlError
    from anydml.dxdispatch.source import Node


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Kind:
    """A kind of finding: what a code host calls a rule."""

    code: str
    """By which `anydml check` selects and ignores it: E for faults, R for remarks."""
    name: str
    status: int
    what: str


FILE = Kind("E101", "file", UNUSABLE, "The model, or a file that it names, cannot be used")
DESCRIPTION = Kind("E201", "description", FAULT, "A field of an operator's description breaks a rule")
LEVEL = Kind("E202", "feature-level", FAULT, "A description needs a higher feature level")
HOST_ONLY = Kind(
    "E203", "host-only", FAULT, "DirectML has no operator or type for a node, and --strict refuses the host"
)
NODE_TYPE = Kind("E204", "node-type", FAULT, "ONNX has no such node type")
BINDING = Kind("E301", "binding", FAULT, "A resource does not fit the tensor that it is bound to")
NAME = Kind("E302", "name", FAULT, "A name stands for nothing in the model")
COMMAND = Kind("E303", "command", FAULT, "A command asks for what a resource does not give")
INDEX = Kind("E304", "index", FAULT, "An index lies outside its dimension")
UNSUPPORTED = Kind(
    "E401",
    "unsupported",
    MISSING,
    "Not built in this version: an operator of DirectML, or a node type of another domain",
)
REMARK = Kind("R101", "remark", 0, "Worth knowing, though nothing is wrong")
HOSTED = Kind("R201", "host", 0, "A node of an ONNX model runs on the host: DirectML has no operator or type for it")
UNDETERMINED = Kind("R202", "undetermined", 0, "No sizes were found with which an ONNX model's nodes fit together")
ON_CPU = Kind("R203", "provider", 0, "A node stays on the CPU with ONNX Runtime's provider that --provider names")
KINDS = (
    FILE,
    DESCRIPTION,
    LEVEL,
    HOST_ONLY,
    NODE_TYPE,
    BINDING,
    NAME,
    COMMAND,
    INDEX,
    UNSUPPORTED,
    REMARK,
    HOSTED,
    UNDETERMINED,
    ON_CPU,
)

MOST_FAULTS, MOST_REMARKS = 1000, 200
"""The most that are kept of each: one takes a hundred times the memory of the text that it is about."""
_SERIOUS_FIRST = (UNUSABLE, FAULT, MISSING)
_ERRORS: dict[int, type[DmlError]] = {UNUSABLE: ModelFileError, FAULT: ModelError, MISSING: UnsupportedError}


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Finding:
    """One thing that was found."""

    kind: Kind
    fault: Fault

    def __str__(self) -> str:
        return str(self.fault)

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        fault, place = self.fault, self.fault.place
        data = {
            "code": self.kind.code,
            "kind": self.kind.name,
            "line": place.line if place else None,
            "column": place.column if place else None,
            "path": place.path if place else None,
            "operator": fault.subject or None,
            "field": fault.field or None,
            "rule": fault.rule,
            "found": fault.found or None,
            "way_out": fault.way_out or None,
            "needs_feature_level": None if fault.level is None else str(fault.level),
        }
        return {key: value for key, value in data.items() if value is not None}


class TooManyFaultsError(Exception):
    """There are more faults than are told."""

    def __init__(self, findings: Findings) -> None:
        super().__init__()
        self.findings = findings


def word_stop() -> str:
    """Say that there is more."""
    return f"only the first {MOST_FAULTS} faults are reported, and nothing further is read"


class Findings(list[Finding]):
    """A list to add to while reading on."""

    def __init__(self, found: Iterable[Finding] = ()) -> None:
        super().__init__(found)
        self._remarks = sum(not finding.kind.status for finding in self)

    @property
    def takes_remarks(self) -> bool:
        """Whether a remark would be kept."""
        return self._remarks < MOST_REMARKS

    def append(self, finding: Finding) -> None:
        """Add one; of remarks only the first are kept, and too many faults end it all."""
        if not finding.kind.status:
            if not self.takes_remarks:
                return
            self._remarks += 1
        elif len(self) - self._remarks >= MOST_FAULTS:
            super().append(Finding(FILE, Fault(field="", rule=word_stop(), place=finding.fault.place)))
            raise TooManyFaultsError(self)
        super().append(finding)

    def add(
        self,
        kind: Kind,
        node: Node,
        rule: str,
        *,
        field: str = "",
        found: str | None = None,
        way_out: str = "",
        subject: str = "",
    ) -> None:
        """Add what a value breaks; without `found` the value itself is quoted."""
        value = None if found == "" else node.plain()
        text = node.word() if found is None else found
        fault = Fault(
            field=field, rule=rule, value=value, found=text, way_out=way_out, place=node.place, subject=subject
        )
        self.append(Finding(kind, fault))

    def put(self, kind: Kind, node: Node, fault: Fault, subject: str = "") -> None:
        """Add a fault that was found elsewhere, with its place."""
        self.append(Finding(kind, replace(fault, place=node.place, subject=subject)))


def status_of(findings: Iterable[Finding]) -> int:
    """The exit status: what the file's author can mend comes before what is not here yet."""
    found = {finding.kind.status for finding in findings}
    return next((status for status in _SERIOUS_FIRST if status in found), 0)


def raise_findings(file: str, findings: Iterable[Finding]) -> None:
    """Raise where there is more than remarks: everything at once, as the error of the most serious."""
    faults = [finding for finding in findings if finding.kind.status]
    if faults:
        raise _ERRORS[status_of(faults)](file, [finding.fault for finding in faults])
