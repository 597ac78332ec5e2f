"""`anydml check`: every fault of models at once, each with its line; of an ONNX model, what each type of node needs."""

from __future__ import annotations

import json
import os
import re
import time
import unicodedata
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from anydml.cli.check_files import Models, find_models
from anydml.cli.check_rules import Rules, as_github, read_codes, rule_table
from anydml.cli.console import make_console, write_json
from anydml.cli.files import keep_model, write_text
from anydml.cli.onnx_inputs import Given, input_options, is_onnx, memory_option, refuse_options, strict_option
from anydml.cli.progress import each
from anydml.cli.status import status_of, worst
from anydml.cli.types import LEVEL, printable
from anydml.cli.wording import as_options
from anydml.core.display import counted
from anydml.core.enums import FeatureLevel
from anydml.core.errors import FAULT, UNUSABLE, VERDICTS, DmlError, Fault, UnsupportedError
from anydml.core.errors import MISSING as NOT_HERE
from anydml.core.errors import UNDETERMINED as IN_DOUBT
from anydml.dxdispatch import Finding, ModelReport, as_sarif, check_file
from anydml.dxdispatch.findings import (
    DESCRIPTION,
    FILE,
    HOST_ONLY,
    HOSTED,
    NODE_TYPE,
    ON_CPU,
    UNDETERMINED,
    UNSUPPORTED,
)
from anydml.dxdispatch.findings import LEVEL as AT_LEVEL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from anydml.core.errors import Place
    from anydml.dxdispatch.findings import Kind
    from anydml.onnx import NodeReport, Report
    from anydml.onnx.tools.providers import Forecast

    Say = Callable[..., None]

_IGNORED = "with faults that are ignored"
_VERDICTS = ("valid", IN_DOUBT, _IGNORED, *(word for status, word in VERDICTS.items() if status))
"""The words for models, in the order in which they are counted."""


# The line that a finding is about, with a caret under what is meant


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[-+\w.]+')
_WIDEST = 100
"""Columns of a line that are shown: a list of numbers may be a megabyte."""
_BEFORE = 40


def excerpt(text: str, place: Place) -> list[str]:
    """The line with its number, and below it the caret; nothing where the text has no such line."""
    lines = re.split(r"\r\n|\r|\n", text)
    if not text or place.line > len(lines):
        return []
    line = lines[place.line - 1]
    at = min(place.column - 1, len(line))
    token = _TOKEN.match(line, at)
    length = len(token[0]) if token else 1
    start = max(at - _BEFORE, 0) if len(line) > _WIDEST else len(line) - len(line.lstrip())
    start = min(start, at)
    shown = "".join(c if c.isprintable() else " " for c in line[start : start + _WIDEST])
    head, tail = "…" if start and line[:start].strip() else "", "…" if len(line) > start + _WIDEST else ""
    margin = " " * (len(head) + sum(map(_width, shown[: at - start])))
    number = f"{place.line:5}"
    carets = "^" * max(1, min(length, _WIDEST - (at - start)))
    return [f"{number} | {head}{shown}{tail}", f"{' ' * len(number)} | {margin}{carets}"]


def _width(character: str) -> int:
    """The columns that a terminal gives a character."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


# DxDispatch models


@dataclass(frozen=True, slots=True)
class CheckedModel:
    """A DxDispatch model, or a file that could not be read."""

    report: ModelReport
    silenced: tuple[str, ...] = ()
    """The codes of its faults that are not told, one for each."""

    @property
    def status(self) -> int:
        """The exit status."""
        return self.report.status

    @property
    def faults(self) -> int:
        """How many there are."""
        return len(self.report.faults)

    @property
    def verdict(self) -> str:
        """What the model is, in a word."""
        return _IGNORED if self.silenced and not self.status else VERDICTS[self.status]

    def only(self, rules: Rules) -> CheckedModel:
        """The same with the findings that are asked for."""
        found = self.report.findings
        report = replace(self.report, findings=rules.apply(found))
        return replace(self, report=report, silenced=rules.silence(found))

    def as_data(self) -> dict[str, Any]:
        """For `--json`."""
        return _without_verdict(self.report.as_data(), self.silenced)

    def as_report(self) -> ModelReport:
        """For SARIF."""
        return self.report

    def show(self, say: Say, *, details: bool, concise: bool) -> None:
        """Say what was found: each fault with its line, then the verdict."""
        report = self.report
        for finding in report.findings:
            style = "red" if finding.kind.status else "yellow"
            say(_coded(_line(finding), finding, report.file), style)
            lines = [] if concise or finding.fault.place is None else excerpt(report.text, finding.fault.place)
            for line in lines[:1]:
                say(line)
            for line in lines[1:]:
                say(line, style)
        say(f"{report.file}: {_verdict(report, self.silenced)} at feature level {report.level}")
        for found in report.dispatchables if details else ():
            since = "valid at no level" if found.lowest_level is None else f"valid from {found.lowest_level} on"
            say(f"  '{printable(found.name)}': {found.operator}, {since}")


def _coded(text: str, finding: Finding, file: str) -> str:
    """A line for people and machines, as compilers and linters have it: the place, the code, what is wrong."""
    place = str(finding.fault.place or file)
    return f"{place}: {finding.kind.code} {text.removeprefix(place).lstrip(': ')}"


def _line(finding: Finding) -> str:
    text = str(finding)
    if finding.kind.status:
        return text
    place = str(finding.fault.place or "")
    return f"{place}: remark{text[len(place) :]}"


def _without_verdict(data: dict[str, Any], silenced: Sequence[str]) -> dict[str, Any]:
    """A model is not valid whose faults are left out."""
    if not silenced:
        return data
    return {**data, "valid": False, "verdict": VERDICTS[FAULT], "ignored": sorted(set(silenced))}


def _ignored(silenced: Sequence[str]) -> str:
    return f"({', '.join(sorted(set(silenced)))}, ignored)"


def _verdict(report: ModelReport, silenced: Sequence[str]) -> str:
    missing = sum(finding.kind is UNSUPPORTED for finding in report.faults)
    faults = len(report.faults) - missing
    told = counted(faults, "fault") if faults else ""
    if silenced:
        rest = f"{counted(len(silenced), 'fault')} {_ignored(silenced)}"
        told = f"{told}, and {rest}" if told else rest
    if missing:
        verb = "is" if missing == 1 else "are"
        rest = f"{missing} of its parts {verb} not built here (see docs/guides/dxdispatch.md)"
        told = f"{told}, and {rest}" if told else rest
    word = "" if silenced and not report.status else VERDICTS[report.status]
    return ": ".join(filter(None, (word, told)))


# ONNX models: for each type of node DirectML's operators and the level that has them, or why not


def check_onnx(model: Path, level: FeatureLevel, given: Given, data: bytes | None = None) -> CheckedOnnx:
    """Check a model, of a file or of bytes."""
    from anydml.onnx import check
    from anydml.onnx.tools.report import inputs_of

    shapes, values = given.shapes(), given.arrays(lambda: inputs_of(model if data is None else data))
    options: dict[str, Any] = {"max_memory": given.max_memory, "strict": given.strict}
    report = check(model if data is None else data, level, shapes=shapes, values=values, **options)
    return CheckedOnnx(report if data is None else replace(report, file=printable(str(model))), str(model))


@dataclass(frozen=True, slots=True)
class CheckedOnnx:
    """An ONNX model."""

    report: Report
    path: str
    forecast: Forecast | None = None
    told: tuple[Finding, ...] | None = None
    """The findings that are asked for; all of them where nobody asked."""
    ignored: int = 0
    """How many are not."""
    silenced: tuple[str, ...] = ()
    """The codes of its faults among those, one for each."""
    silenced_nodes: int = 0
    """The nodes that cannot run because of them."""

    def foretold(self, provider: str, data: bytes | None) -> CheckedOnnx:
        """The same with what a provider of ONNX Runtime's takes."""
        from anydml.onnx.tools.providers import forecast

        return replace(self, forecast=forecast(self.path if data is None else data, provider))

    @property
    def status(self) -> int:
        """The exit status."""
        return self.as_report().status

    @property
    def faults(self) -> int:
        """How many there are."""
        return len(self.report.faults) + self.report.refused.total()

    @property
    def verdict(self) -> str:
        """What the model is, in a word: remarks may be errors."""
        if self.silenced and not self.status:
            return _IGNORED
        return VERDICTS[self.status] if self.status else self.report.verdict

    def only(self, rules: Rules) -> CheckedOnnx:
        """The same with the findings that are asked for: what is ignored of a node is a note of it."""
        faults = tuple(error for error in self.report.faults if rules.takes(_kind_of(error, self.report)))
        nodes = tuple(
            replace(node, error=None, note=f"{_kind_of(node.error, self.report).code} is ignored: {node.error}")
            if node.error is not None and not rules.takes(_kind_of(node.error, self.report))
            else node
            for node in self.report.nodes
        )
        report = replace(self.report, faults=faults, nodes=nodes)
        found = self._findings()
        told = rules.apply(found)
        silenced_nodes = self.report.refused.total() - report.refused.total()
        return replace(
            self,
            report=report,
            told=told,
            ignored=len(found) - len(told),
            silenced=rules.silence(found),
            silenced_nodes=silenced_nodes,
        )

    def _findings(self) -> list[Finding]:
        """All of them: those of the report, and a remark for each node that stays on the CPU."""
        nodes = () if self.forecast is None else self.forecast.nodes
        left = [
            Fault(field="", rule=node.why.text, way_out=node.why.way_out, subject=node.label)
            for node in nodes
            if node.why is not None
        ]
        return [*_findings(self.report), *(Finding(ON_CPU, each) for each in left)]

    def as_data(self) -> dict[str, Any]:
        """For `--json`."""
        data = _without_verdict(self.report.as_data(), self.silenced)
        data["findings"] = [finding.as_data() for finding in self.as_report().findings]
        if self.forecast is None:
            return data
        told = self.forecast.as_data()
        return {**data, "provider": {**told, "on_cpu": [{"code": ON_CPU.code, **node} for node in told["on_cpu"]]}}

    def as_report(self) -> ModelReport:
        """For SARIF, in the form of a model of DxDispatch's."""
        findings = self._findings() if self.told is None else self.told
        return ModelReport(self.report.file, self.report.level, tuple(findings), path=self.path)

    def show(self, say: Say, *, details: bool, concise: bool) -> None:
        """Say what was found: a line for each type of node, or for each node, then the verdict."""
        from anydml.onnx.example_sizes import told

        report = self.report
        for fault in report.faults:
            say(_in_file(fault, report), "red")
        if details:
            for node in report.nodes:
                say(_node_line(node, report), "red" if node.error else "")
        elif concise:
            for node in report.nodes:
                if node.error is not None:
                    say(_in_file(node.error, report), "red")
        else:
            for kind in dict.fromkeys(node.kind for node in report.nodes):
                _show_kind(kind, [node for node in report.nodes if node.kind == kind], report, say)
        if report.assumed and report.doubt is None:
            say(told(report.assumed, report.shapes), "yellow")
        if report.hosted:
            hosted = (
                f"{report.hosted.total()} of {counted(report.count, 'node')} run on the host: {_kinds(report.hosted)}"
            )
            rest = "DirectML has no operator or type for them, and --strict refuses them"
            say(f"{HOSTED.code} {hosted}; {rest}", "yellow")
        self._show_verdict(say, concise=concise)
        if self.ignored:
            say(f"{counted(self.ignored, 'finding')} not told, as --select and --ignore have it", "yellow")
        if self.forecast is not None:
            self._show_forecast(self.forecast, say, concise=concise)

    def _show_verdict(self, say: Say, *, concise: bool) -> None:
        """Never that a model runs whose faults are left out."""
        report = self.report
        if report.refused or report.faults or not self.silenced:
            _show_verdict(report, say, concise=concise)
        if self.silenced:
            who = f"{counted(self.silenced_nodes, 'node')} cannot run" if self.silenced_nodes else "cannot run"
            told = f"{report.file}: {who} {_ignored(self.silenced)}"
            say(f"{told}; {_count(report.unknown)} not known" if report.unknown else told, "yellow")

    def _show_forecast(self, forecast: Forecast, say: Say, *, concise: bool) -> None:
        """Say what stays on the CPU, as far as that is asked for."""
        left = [finding for finding in self.as_report().findings if finding.kind.code == ON_CPU.code]
        if concise:
            for finding in left:
                where = f"{finding.fault.subject}: " if finding.fault.subject else ""
                say(f"{self.report.file}: {finding.kind.code} remark: {where}{finding.fault.rule}", "yellow")
        summary = str(forecast)
        say(
            summary.partition("\n")[0].rstrip(":")
            if concise or (forecast.on_gpu < len(forecast.nodes) and not left)
            else summary
        )
        if any(finding.kind.status for finding in left):
            say(f"{counted(len(left), 'remark')} {ON_CPU.code}, an error as --remarks-as-errors has it", "red")


def _in_file(error: DmlError, report: Report) -> str:
    """An error as one line, with the file's name in front."""
    text = " ".join(as_options(str(error)).split())
    file = report.file
    return f"{file}: {_kind_of(error, report).code} {text.removeprefix(f'{file}: ')}"


def _findings(report: Report) -> list[Finding]:
    """The faults of a model and of its nodes; then what is remarked."""
    errors: list[DmlError] = [*report.faults, *(node.error for node in report.nodes if node.error)]
    found = [
        Finding(_kind(error, fault.level, report), replace(fault, subject=error.subject))
        for error in errors
        for fault in error.faults
    ]
    hosted = [Fault(field="", rule=node.note, subject=node.label) for node in report.nodes if node.is_hosted]
    doubts = [] if report.doubt is None else report.doubt.faults
    return [*found, *(Finding(HOSTED, each) for each in hosted), *(Finding(UNDETERMINED, each) for each in doubts)]


def _kind_of(error: DmlError, report: Report) -> Kind:
    return _kind(error, error.faults[0].level, report)


def _kind(error: DmlError, level: FeatureLevel | None, report: Report) -> Kind:
    if error in report.blames:
        return next(kind for kind in (HOST_ONLY, NODE_TYPE) if kind.name == report.blames[error])
    if isinstance(error, UnsupportedError):
        return UNSUPPORTED
    return DESCRIPTION if level is None else AT_LEVEL


def _show_kind(kind: str, nodes: Sequence[NodeReport], report: Report, say: Say) -> None:
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
        say(f"{_node_line(node, report)}{more}", "red")


def _show_verdict(report: Report, say: Say, *, concise: bool) -> None:
    from anydml.onnx.tools.random_inputs import word_needed

    total, level = report.count, report.level
    if report.refused:
        told = f"{report.file}: {report.verdict}: {report.refused.total()} of {counted(total, 'node')} cannot run"
        told = f"{told} at feature level {level}: {_kinds(report.refused)}"
        say(f"{told}; {_count(report.unknown)} not known" if report.unknown else told, "red")
        missing = sum(isinstance(node.error, UnsupportedError) for node in report.nodes)
        if missing and not concise:
            one = missing == 1
            told = f"{_count(missing)} not at fault: {'it is' if one else 'they are'} not built here"
            say(f"{told}; `anydml support --onnx` lists the types of nodes that are", "yellow")
    elif report.faults:
        say(f"{report.file}: {report.verdict}: it cannot run", "red")
    elif report.doubt is not None:
        say(f"{report.file}: {UNDETERMINED.code} {report.verdict}: {report.doubt.faults[0]}", "yellow")
    else:
        nodes = "1 node, which runs" if total == 1 else f"{total} nodes, which run"
        told = f"{report.file}: {report.verdict}: {nodes} at feature level {level}, and from {report.lowest_level} on"
        if hosted := report.hosted.total():
            own = total - hosted - report.unknown
            since = f", from {report.lowest_level} on" if own else ""
            rest = f"{counted(own, 'node')} by DirectML's operators{since}, and {hosted} on the host"
            told = f"{report.file}: {report.verdict}: {rest}"
        if report.unknown:
            unknown = f"{report.unknown} of {counted(total, 'node')} {_is(report.unknown)} known at a run alone"
            told = f"{report.file}: {report.verdict}, as far as is known: {unknown}"
            if hosted:
                told = f"{told}; {rest}"
            elif total > report.unknown:
                told = f"{told}; the rest run at feature level {level}, and from {report.lowest_level} on"
            told = f"{told}; {as_options(word_needed(report.needs))}" if report.needs else told
        say(told, "yellow" if report.unknown else "")


def _kinds(counted: Counter[str]) -> str:
    return ", ".join(f"{count} {printable(kind)}" for kind, count in counted.most_common())


def _count(nodes: int) -> str:
    return f"{counted(nodes, 'node')} {_is(nodes)}"


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def _node_line(node: NodeReport, report: Report) -> str:
    if node.error is not None:
        return f"  {_kind_of(node.error, report).code} {as_options(str(node.error))}"
    found = ", ".join(dict.fromkeys(node.operators))
    times = f" ({len(node.operators)})" if len(node.operators) > 1 else ""
    since = f", from {node.lowest_level} on" if node.lowest_level else ""
    since = f"{found}{times}{since}"
    return f"  {node.label}: {'; '.join(filter(None, (since, node.note)))}"


# Again whenever a file changes


_PERIOD = 0.5
"""Seconds between two looks at the files."""


def watch(find: Callable[[], Iterable[Path]], check: Callable[[], int]) -> int:
    """Check, and again after every change until an interrupt; gives the status of the last check."""
    status = 0
    try:
        while True:
            seen = _stamps(find())
            status = check()
            click.echo(
                f"Watching {counted(len(seen), 'file')} since {time.strftime('%H:%M:%S')}; Ctrl-C ends", err=True
            )
            while _stamps(find()) == seen:
                time.sleep(_PERIOD)
            click.echo()
    except KeyboardInterrupt:
        return status


def _stamps(paths: Iterable[Path]) -> dict[Path, tuple[int, int] | None]:
    """When each file was written, and its size; None for one that is not there."""
    found: dict[Path, tuple[int, int] | None] = {}
    for path in paths:
        try:
            status = os.stat(path)  # noqa: PTH116 - links are followed
            found[path] = (status.st_mtime_ns, status.st_size)
        except (OSError, ValueError):
            found[path] = None
    return found


# The command


Checked: TypeAlias = CheckedModel | CheckedOnnx
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


def _print_rules(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        for code, what, text in rule_table():
            click.echo(f"{code}  {what:9} {text}")
        ctx.exit()


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--dml_feature_level", "--feature-level", "level", type=LEVEL, help="Check for this level.")
@click.option("-v", "--verbose", is_flag=True, help="Show each node, dispatchable and file that is no model.")
@click.option(
    "--select", multiple=True, metavar="CODES", help="Tell these findings alone, by codes or their beginnings: E2,R101."
)
@click.option("--ignore", multiple=True, metavar="CODES", help="Do not tell these; a longer beginning goes before.")
@click.option("--remarks-as-errors", is_flag=True, help="Fail on remarks too.")
@click.option("--rules", is_flag=True, expose_value=False, is_eager=True, callback=_print_rules, help="List the codes.")
@click.option(
    "--output-format",
    type=click.Choice(["text", "concise", "json", "github"]),
    help="Text with excerpts by default; concise: a line a fault; github: beside the lines in its workflows.",
)
@click.option("--concise", is_flag=True, help="The same as --output-format concise.")
@click.option(
    "--json", "as_json", is_flag=True, help="The same as --output-format json: an object, or a list of several."
)
@click.option("--sarif", metavar="FILE", help="Write SARIF 2.1.0 for a code host; - is stdout, and nothing else then.")
@click.option(
    "--provider",
    type=click.Choice(["dml", "webgpu", "cuda"]),
    help="Foretell which nodes of an ONNX model that provider of ONNX Runtime's takes, and which stay on the CPU.",
)
@click.option("-W", "--watch", "watches", is_flag=True, help="Check again whenever a file changes, until Ctrl-C.")
@click.option("--stdin-filename", type=click.Path(path_type=Path), help="The name of the model that comes from stdin.")
@click.option("--allow-files", "allowed", type=_FOLDER, multiple=True, help="A folder the model may use too.")
@memory_option
@strict_option
@input_options
@click.pass_context
def check(
    ctx: click.Context,
    paths: tuple[Path, ...],
    level: FeatureLevel | None,
    verbose: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    remarks_as_errors: bool,
    output_format: str | None,
    concise: bool,
    as_json: bool,
    sarif: str | None,
    provider: str | None,
    watches: bool,
    stdin_filename: Path | None,
    allowed: tuple[Path, ...],
    max_memory: int | None,
    strict: bool,
    inputs: tuple[str, ...],
    sizes: tuple[str, ...],
) -> None:
    """Find every fault of DxDispatch and ONNX models.

    PATHS are models, folders of them, or - for stdin; the folder here by default. A DxDispatch model is told with the
    lines at fault and the lowest feature level of each dispatchable; an ONNX model with DirectML's operators for each
    type of node, or why it cannot run. Nothing runs, and no memory is taken for resources. Of a folder every *.onnx
    and every *.json that is a DxDispatch model is checked.

    Sizes that an ONNX model leaves open and nobody gives are assumed: of several the first with which its nodes fit
    together. Where none does, the model is undetermined, which is no fault.

    A finding begins with its code, which --select and --ignore take; --rules lists them.

    Exit status: 0 valid or undetermined; 1 invalid: a description, a binding, an index or a name is at fault, a node
    type is none of ONNX's, or --strict refuses a node; 2 unusable: a file cannot be read; 3 unsupported: it needs a
    part that is not built or not installed. `anydml run`, `explain` and `compare` end with the same status.

    \b
    Examples:
      anydml check examples/models
      anydml check examples/models/gather_nd.json --feature-level 2_1
      anydml check examples/models/crop.onnx --shape batch=8 -v
      anydml check examples/models/crop.onnx --provider dml
      anydml check examples/models --ignore R --output-format github
    """
    asked_for = {form for form, is_so in (("concise", concise), ("json", as_json)) if is_so} | {output_format} - {None}
    if len(asked_for) > 1:
        raise click.UsageError(f"{' and '.join(sorted(map(str, asked_for)))} are two formats: choose one.")
    form = next(iter(asked_for), None) or "text"
    if form in ("json", "github") and sarif == "-":
        raise click.UsageError(f"--{form} and --sarif - both write to stdout; give --sarif a file.")
    rules = Rules(read_codes("--select", select), read_codes("--ignore", ignore), remarks_as_errors)
    given = Given(inputs, sizes, max_memory=max_memory, strict=strict)
    checker = _Checker(level or FeatureLevel.highest(), given, allowed, verbose, form, sarif, provider, rules)
    asked = paths or (Path(),)
    models = find_models(asked, stdin_filename)
    _refuse_odd(ctx, models, sarif)
    if not watches:
        ctx.exit(checker.check(models))
    if models.data is not None:
        raise click.UsageError("--watch is for files: stdin does not change.")
    ctx.exit(watch(lambda: _find_again(asked).paths, lambda: checker.check(_find_again(asked))))


def _find_again(asked: Sequence[Path]) -> Models:
    """The models while they are watched; a folder may be empty for a while."""
    try:
        return find_models(asked, None)
    except click.BadParameter:
        return Models()


def _refuse_odd(ctx: click.Context, models: Models, sarif: str | None) -> None:
    """Refuse options that none of the models is for, and a report in the place of a model."""
    kinds = {is_onnx(path) for path in models.paths}
    if kinds == {True}:
        refuse_options(ctx, "an ONNX model", "allowed")
    elif kinds == {False}:
        refuse_options(ctx, "a DxDispatch model", "inputs", "sizes", "max_memory", "strict", "provider")
    for path in models.paths:
        keep_model(path, sarif=sarif)


@dataclass(frozen=True, slots=True)
class _Checker:
    """Checks models, and shows what was found as the options say."""

    level: FeatureLevel
    given: Given
    allowed: tuple[Path, ...]
    verbose: bool
    form: str
    sarif: str | None
    provider: str | None
    rules: Rules

    def check(self, models: Models) -> int:
        """Check all of them; gives the exit status."""
        with each(models.paths, lambda path: f"Checking {printable(path.name)}") as paths:
            found: list[Checked] = [self._check_one(path, models).only(self.rules) for path in paths]
        if self.sarif is not None:
            text = json.dumps(as_sarif(*(one.as_report() for one in found)), indent=2) + "\n"
            write_text(self.sarif, text, "--sarif")
        if self.form == "github":
            for one in found:
                report = one.as_report()
                for finding in report.findings:
                    click.echo(as_github(finding, report.path or report.file))
        elif self.form == "json":
            write_json(found[0].as_data() if models.is_one else [one.as_data() for one in found])
        elif self.sarif != "-":
            self._show(found, models)
        return worst({one.status for one in found})

    def _check_one(self, path: Path, models: Models) -> Checked:
        if not is_onnx(path):
            return CheckedModel(check_file(path, self.level, allow_files=self.allowed, data=models.data))
        try:
            found = check_onnx(path, self.level, self.given, models.data)
            return found if self.provider is None else found.foretold(self.provider, models.data)
        except DmlError as error:
            if models.is_one:
                raise
            kind = {UNUSABLE: FILE, NOT_HERE: UNSUPPORTED}.get(status_of(error), DESCRIPTION)
            findings = tuple(Finding(kind, fault) for fault in error.faults)
            return CheckedModel(ModelReport(printable(str(path)), self.level, findings, path=str(path)))

    def _show(self, found: Sequence[Checked], models: Models) -> None:
        console = make_console()

        def say(text: str = "", style: str = "") -> None:
            console.print(text, style=style, markup=False, emoji=False, soft_wrap=True)

        for path in models.passed_over if self.verbose else ():
            say(f"{printable(str(path))}: no DxDispatch model, passed over")
        for one in found:
            is_dxdispatch = isinstance(one, CheckedModel)
            if models.is_one or self.verbose:
                one.show(say, details=self.verbose or is_dxdispatch, concise=self.form == "concise")
            elif self.provider is not None or one.faults or (is_dxdispatch and one.as_report().findings):
                one.show(say, details=False, concise=self.form == "concise")
            else:
                continue
            if not models.is_one and self.form != "concise":
                say()
        if not models.is_one:
            faults = sum(one.faults for one in found if one.status)
            words = Counter(one.verdict for one in found)
            told = ", ".join(f"{words[word]} {word}" for word in _VERDICTS if words[word] or word == _VERDICTS[0])
            rest = f" ({counted(faults, 'fault')})" if faults else ""
            told = f"{counted(len(found), 'model')}: {told}{rest} at feature level {self.level}"
            say(told, "red" if any(one.status for one in found) else "")
