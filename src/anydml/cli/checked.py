"""The findings of `anydml check` in one file, for people, machines and code hosts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anydml.cli.types import printable
from anydml.models.excerpt import excerpt
from anydml.models.findings import UNSUPPORTED

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.models import Finding, ModelReport

    Say = Callable[..., None]


@dataclass(frozen=True, slots=True)
class CheckedModel:
    """A DxDispatch model, or a file that could not be read."""

    report: ModelReport

    @property
    def status(self) -> int:
        """The exit status."""
        return self.report.status

    @property
    def faults(self) -> int:
        """How many there are."""
        return len(self.report.faults)

    def as_data(self) -> dict[str, Any]:
        """For `--json`."""
        return self.report.as_data()

    def as_report(self) -> ModelReport:
        """For SARIF."""
        return self.report

    def show(self, say: Say, *, details: bool, concise: bool) -> None:
        """Say what was found: each fault with its line, then the verdict."""
        report = self.report
        for finding in report.findings:
            style = "red" if finding.kind.status else "yellow"
            say(_line(finding), style)
            lines = [] if concise or finding.fault.place is None else excerpt(report.text, finding.fault.place)
            for line in lines[:1]:
                say(line)
            for line in lines[1:]:
                say(line, style)
        say(f"{report.file}: {_verdict(report)} at feature level {report.level}")
        for found in report.dispatchables if details else ():
            since = "valid at no level" if found.lowest_level is None else f"valid from {found.lowest_level} on"
            say(f"  '{printable(found.name)}': {found.operator}, {since}")


def _line(finding: Finding) -> str:
    text = str(finding)
    if finding.kind.status:
        return text
    place = str(finding.fault.place or "")
    return f"{place}: remark{text[len(place) :]}"


def _verdict(report: ModelReport) -> str:
    missing = sum(finding.kind is UNSUPPORTED for finding in report.faults)
    faults = len(report.faults) - missing
    told = count(faults, "fault") if faults else "" if missing else "valid"
    if missing:
        verb = "is" if missing == 1 else "are"
        rest = f"{missing} of its parts {verb} not built here (see docs/guides/dxdispatch.md)"
        told = f"{told}, and {rest}" if told else rest
    return told


def count(number: int, what: str) -> str:
    """`1 fault`, `2 faults`."""
    return f"{number} {what}{'' if number == 1 else 's'}"
