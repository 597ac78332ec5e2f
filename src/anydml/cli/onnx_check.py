"""`anydml check MODEL.onnx`: for each node DirectML's operators and the level that has them, or why it cannot run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.cli.console import make_console, write_json
from anydml.cli.types import printable

if TYPE_CHECKING:
    from pathlib import Path

    from anydml.cli.onnx_inputs import Given
    from anydml.enums import FeatureLevel
    from anydml.onnx import NodeReport, Report


def check_onnx(model: Path, level: FeatureLevel, given: Given, *, as_json: bool) -> int:
    """Check a model and show what was found; gives the exit status."""
    from anydml.onnx import check

    shapes, values = given.shapes(), given.arrays()
    report = check(model, level, shapes=shapes, values=values, max_memory=given.max_memory, strict=given.strict)
    if as_json:
        write_json(report.as_data())
    else:
        _show(report)
    return report.status


def _show(report: Report) -> None:
    console = make_console()

    def say(text: str, style: str = "") -> None:
        console.print(text, style=style, markup=False, emoji=False, soft_wrap=True)

    for fault in report.faults:
        say(str(fault), "red")
    for node in report.nodes:
        say(_line(node), "red" if node.error else "")
    if report.assumed:
        told = ", ".join(f"{printable(name)}={size}" for name, size in report.assumed.items())
        say(f"open sizes were taken for {told}; --shape binds them", "yellow")
    if report.hosted:
        kinds = ", ".join(f"{count} {printable(kind)}" for kind, count in report.hosted.most_common())
        say(
            f"{report.hosted.total()} of {len(report.nodes)} nodes run on the host: {kinds}; --strict refuses them",
            "yellow",
        )
    refused = sum(report.refused.values())
    if refused:
        kinds = ", ".join(f"{count} {printable(kind)}" for kind, count in report.refused.most_common())
        told = f"{report.file}: {refused} of {len(report.nodes)} nodes cannot run at level {report.level}: {kinds}"
        say(f"{told}; {_count(report.unknown)} not known" if report.unknown else told, "red")
    elif report.faults:
        say(f"{report.file}: cannot run", "red")
    else:
        count = "1 node, which runs" if len(report.nodes) == 1 else f"{len(report.nodes)} nodes, which run"
        told = f"{report.file}: {count} at feature level {report.level}, and from {report.lowest_level} on"
        unknown = f", as far as is known: {_count(report.unknown)} known at a run alone" if report.unknown else ""
        say(f"{told}{unknown}", "yellow" if unknown else "")


def _count(nodes: int) -> str:
    return "1 node is" if nodes == 1 else f"{nodes} nodes are"


def _line(node: NodeReport) -> str:
    if node.error is not None:
        return f"  {node.error}"
    found = ", ".join(dict.fromkeys(node.operators))
    times = f" ({len(node.operators)})" if len(node.operators) > 1 else ""
    since = f", from {node.lowest_level} on" if node.lowest_level else ""
    since = f"{found}{times}{since}"
    return f"  {node.label}: {'; '.join(filter(None, (since, node.note)))}"
