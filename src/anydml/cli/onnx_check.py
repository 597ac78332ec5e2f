"""`anydml check MODEL.onnx`: for each type of node DirectML's operators and the level that has them, or why not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from anydml.cli.types import printable
from anydml.errors import UnsupportedError
from anydml.models import Finding, ModelReport
from anydml.models.findings import DESCRIPTION, LEVEL, UNSUPPORTED

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence
    from pathlib import Path

    from anydml.cli.checked import Say
    from anydml.cli.onnx_inputs import Given
    from anydml.enums import FeatureLevel
    from anydml.errors import DmlError
    from anydml.onnx import NodeReport, Report


def check_onnx(model: Path, level: FeatureLevel, given: Given, data: bytes | None = None) -> CheckedOnnx:
    """Check a model, of a file or of bytes."""
    from anydml.onnx import check

    shapes, values = given.shapes(), given.arrays()
    options: dict[str, Any] = {"max_memory": given.max_memory, "strict": given.strict}
    report = check(model if data is None else data, level, shapes=shapes, values=values, **options)
    return CheckedOnnx(report if data is None else replace(report, file=printable(str(model))), str(model))


@dataclass(frozen=True, slots=True)
class CheckedOnnx:
    """An ONNX model."""

    report: Report
    path: str

    @property
    def status(self) -> int:
        """The exit status."""
        return self.report.status

    @property
    def faults(self) -> int:
        """How many there are."""
        return len(self.report.faults) + self.report.refused.total()

    def as_data(self) -> dict[str, Any]:
        """For `--json`."""
        return self.report.as_data()

    def as_report(self) -> ModelReport:
        """For SARIF, in the form of a model of DxDispatch's."""
        errors: list[DmlError] = [*self.report.faults, *(node.error for node in self.report.nodes if node.error)]
        findings = [
            Finding(_kind(error, fault.level), replace(fault, subject=error.subject))
            for error in errors
            for fault in error.faults
        ]
        return ModelReport(self.report.file, self.report.level, tuple(findings), path=self.path)

    def show(self, say: Say, *, details: bool, concise: bool) -> None:
        """Say what was found: a line for each type of node, or for each node, then the verdict."""
        report = self.report
        for fault in report.faults:
            say(_in_file(fault, report.file) if concise else str(fault), "red")
        if details:
            for node in report.nodes:
                say(_node_line(node), "red" if node.error else "")
        elif concise:
            for node in report.nodes:
                if node.error is not None:
                    say(_in_file(node.error, report.file), "red")
        else:
            for kind in dict.fromkeys(node.kind for node in report.nodes):
                _show_kind(kind, [node for node in report.nodes if node.kind == kind], say)
        if report.assumed:
            told = ", ".join(f"{printable(name)}={size}" for name, size in report.assumed.items())
            say(f"open sizes were taken for {told}; --shape binds them", "yellow")
        if report.hosted:
            told = f"{report.hosted.total()} of {len(report.nodes)} nodes run on the host: {_kinds(report.hosted)}"
            say(f"{told}; DirectML has no operator or type for them, and --strict refuses them", "yellow")
        _show_verdict(report, say, concise=concise)


def _in_file(error: DmlError, file: str) -> str:
    """An error as one line, with the file's name in front."""
    text = " ".join(str(error).split())
    return text if text.startswith(f"{file}:") else f"{file}: {text}"


def _kind(error: DmlError, level: FeatureLevel | None) -> Any:
    if isinstance(error, UnsupportedError):
        return UNSUPPORTED
    return DESCRIPTION if level is None else LEVEL


def _show_kind(kind: str, nodes: Sequence[NodeReport], say: Say) -> None:
    """A line for the nodes of a type that are well, and one for those that are not."""
    well = [node for node in nodes if node.error is None]
    if well:
        operators = ", ".join(dict.fromkeys(name for node in well for name in node.operators))
        since = max((node.lowest_level for node in well if node.lowest_level), default=None)
        notes = list(dict.fromkeys(node.note for node in well if node.note))
        note = notes[0] + (f"; {len(notes) - 1} more notes, with -v" if len(notes) > 1 else "") if notes else ""
        told = f"{operators}, from {since} on" if operators and since else operators
        say(f"  {len(well)} {printable(kind)}: {'; '.join(filter(None, (told, note)))}")
    wrong = [node for node in nodes if node.error is not None]
    for node in wrong[:1]:
        more = f" ({len(wrong) - 1} more, with -v)" if len(wrong) > 1 else ""
        say(f"  {node.error}{more}", "red")


def _show_verdict(report: Report, say: Say, *, concise: bool) -> None:
    total, level = len(report.nodes), report.level
    if report.refused:
        told = f"{report.file}: {report.refused.total()} of {total} nodes cannot run at level {level}"
        told = f"{told}: {_kinds(report.refused)}"
        say(f"{told}; {_count(report.unknown)} not known" if report.unknown else told, "red")
        missing = sum(isinstance(node.error, UnsupportedError) for node in report.nodes)
        if missing and not concise:
            one = missing == 1
            told = f"{_count(missing)} not at fault: {'it is' if one else 'they are'} not built here"
            say(f"{told}; `anydml support --onnx` lists the types of nodes that are", "yellow")
    elif report.faults:
        say(f"{report.file}: cannot run", "red")
    else:
        counted = "1 node, which runs" if total == 1 else f"{total} nodes, which run"
        told = f"{report.file}: {counted} at feature level {level}, and from {report.lowest_level} on"
        unknown = f", as far as is known: {_count(report.unknown)} known at a run alone" if report.unknown else ""
        say(f"{told}{unknown}", "yellow" if unknown else "")


def _kinds(counted: Counter[str]) -> str:
    return ", ".join(f"{count} {printable(kind)}" for kind, count in counted.most_common())


def _count(nodes: int) -> str:
    return "1 node is" if nodes == 1 else f"{nodes} nodes are"


def _node_line(node: NodeReport) -> str:
    if node.error is not None:
        return f"  {node.error}"
    found = ", ".join(dict.fromkeys(node.operators))
    times = f" ({len(node.operators)})" if len(node.operators) > 1 else ""
    since = f", from {node.lowest_level} on" if node.lowest_level else ""
    since = f"{found}{times}{since}"
    return f"  {node.label}: {'; '.join(filter(None, (since, node.note)))}"
