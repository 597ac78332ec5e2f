"""Remarks on a model that is taken: names that mean nothing, and values that DxDispatch would refuse."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from anydml.core.enum_parsing import suggest
from anydml.dxdispatch.findings import REMARK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from anydml.core.enums import AxisDirection
    from anydml.core.operator_type import OperatorType
    from anydml.dxdispatch.findings import Findings
    from anydml.dxdispatch.source import Node

_MOST_REMARKS = 20
_NOTES = {"name", "comment", "comments", "description"}


def remark_unknown(node: Node, known: Iterable[str], findings: Findings) -> None:
    """Remark on members that mean nothing here: a misspelt option is ignored without a word otherwise."""
    if not findings.takes_remarks:
        return
    names = list(known)
    unknown = (
        (name, child)
        for name, child in node.members()
        if name not in names and name[:1] not in ("$", "_", "/", "") and name.lower() not in _NOTES
    )
    for name, child in itertools.islice(unknown, _MOST_REMARKS):
        rule = "nothing here has this name, so it is ignored"
        findings.add(REMARK, child, rule, found="", way_out=suggest(name, names))


def remark_spelling(node: Node, value: bool | AxisDirection | OperatorType, findings: Findings, subject: str) -> None:
    """Remark on a value that was understood and that DxDispatch would refuse: it takes names as they are written."""
    if isinstance(value, bool):
        is_taken, words = isinstance(node.raw, bool), [str(value).lower()]
    else:
        words = [value.dml_name, value.name]
        is_taken = node.raw in words
    if not is_taken:
        findings.add(REMARK, node, f"DxDispatch takes {' or '.join(words)} alone", subject=subject)
