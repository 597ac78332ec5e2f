"""The rules of `anydml check`: which findings are told, by their codes, and how a code host is told."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from anydml.core.errors import FAULT
from anydml.dxdispatch.findings import KINDS, Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from anydml.dxdispatch.findings import Kind


def read_codes(option: str, given: Iterable[str]) -> tuple[str, ...]:
    """Codes and beginnings of codes, several at a time after commas: `E2,R101`."""
    codes = tuple(code.strip().upper() for text in given for code in text.split(","))
    for code in codes:
        if not code or not (code == "ALL" or any(kind.code.startswith(code) for kind in KINDS)):
            known = ", ".join(kind.code for kind in KINDS)
            raise click.BadParameter(
                f"{code!r} is no code and no beginning of one: there are {known}, and ALL.", param_hint=f"'{option}'"
            )
    return codes


@dataclass(frozen=True, slots=True)
class Rules:
    """The findings that are asked for."""

    select: tuple[str, ...] = ()
    """Codes and their beginnings; all where there are none."""
    ignore: tuple[str, ...] = ()
    are_remarks_errors: bool = False

    def takes(self, kind: Kind) -> bool:
        """Whether findings of a kind are told: the longer of the beginnings that fit decides, as ruff has it."""
        return _fit(kind.code, self.select or ("ALL",)) > _fit(kind.code, self.ignore)

    def apply(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Those that are told, remarks as faults where those are asked for."""
        return tuple(
            replace(one, kind=replace(one.kind, status=FAULT))
            if self.are_remarks_errors and not one.kind.status
            else one
            for one in findings
            if self.takes(one.kind)
        )

    def silence(self, findings: Iterable[Finding]) -> tuple[str, ...]:
        """The codes of faults that are not told, one for each."""
        return tuple(one.kind.code for one in findings if one.kind.status and not self.takes(one.kind))


def _fit(code: str, given: Iterable[str]) -> int:
    """The length of the longest beginning of a code among these; -1 for none."""
    return max(
        (0 if each == "ALL" else len(each) for each in given if each == "ALL" or code.startswith(each)), default=-1
    )


def rule_table() -> Iterator[tuple[str, str, str]]:
    """A row for each rule: its code, whether it is a fault, and what it says."""
    words = {0: "remark", 1: "fault", 2: "unusable", 3: "not here"}
    for kind in KINDS:
        yield kind.code, words[kind.status], kind.what


def as_github(finding: Finding, file: str) -> str:
    """A finding as GitHub's workflows have it, which show it beside the line."""
    place = finding.fault.place
    where = f",line={place.line},col={place.column}" if place is not None else ""
    level = "error" if finding.kind.status in (1, 2) else "warning"
    text = str(replace(finding.fault, place=None)).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return f"::{level} title=anydml ({finding.kind.code}),file={_escaped(file)}{where}::{finding.kind.code} {text}"


def _escaped(text: str) -> str:
    for letter, code in {"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"}.items():
        text = text.replace(letter, code)
    return text
