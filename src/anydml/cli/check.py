"""`anydml check`: every fault of a model at once, each with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from anydml.cli.console import make_console, write_json
from anydml.cli.files import keep_model, write_text
from anydml.cli.onnx_check import check_onnx
from anydml.cli.onnx_inputs import Given, input_options, is_onnx, memory_option, refuse_options, strict_option
from anydml.cli.types import LEVEL, printable
from anydml.enums import FeatureLevel
from anydml.models import as_sarif, check_file

if TYPE_CHECKING:
    from anydml.models import ModelReport

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--dml_feature_level", "--feature-level", "level", type=LEVEL, help="Check for this level.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
@click.option("--sarif", metavar="FILE", help="Write SARIF 2.1.0 for a code host; - is stdout, and nothing else then.")
@click.option("--allow-files", "allowed", type=_FOLDER, multiple=True, help="A folder the model may use too.")
@memory_option
@strict_option
@input_options
@click.pass_context
def check(
    ctx: click.Context,
    model: Path,
    level: FeatureLevel | None,
    as_json: bool,
    sarif: str | None,
    allowed: tuple[Path, ...],
    max_memory: int | None,
    strict: bool,
    inputs: tuple[str, ...],
    sizes: tuple[str, ...],
) -> None:
    """Find every fault of a DxDispatch model, and the lowest feature level at which each dispatchable is valid.

    Of an ONNX model, *.onnx: for each node DirectML's operators and the lowest level that has them, or why it cannot
    run. Nothing runs, and no memory is taken for the resources. Exit status: 0 valid; 1 a description, a binding or a
    name is at fault; 2 the file, or one that it names, cannot be used; 3 it needs what is not here.

    \b
    Example:
      anydml check examples/models/gather_nd.json --feature-level 2_1
      anydml check examples/models/crop.onnx --shape batch=8
    """
    given = Given(inputs, sizes, max_memory=max_memory, strict=strict)
    if is_onnx(model):
        refuse_options(ctx, "an ONNX model", "sarif", "allowed")
        ctx.exit(check_onnx(model, level or FeatureLevel.highest(), given, as_json=as_json))
    refuse_options(ctx, "a DxDispatch model", "inputs", "sizes", "max_memory", "strict")
    if as_json and sarif == "-":
        raise click.UsageError("--json and --sarif - both write to stdout; give --sarif a file.")
    keep_model(model, sarif=sarif)
    report = check_file(model, level or FeatureLevel.highest(), allow_files=allowed)
    if sarif is not None:
        text = json.dumps(as_sarif(report), indent=2) + "\n"
        write_text(sarif, text, "--sarif")
    if as_json:
        write_json(report.as_data())
    elif sarif != "-":
        _show(report)
    ctx.exit(report.status)


def _show(report: ModelReport) -> None:
    console = make_console()

    def say(text: str, style: str = "") -> None:
        console.print(text, style=style, markup=False, emoji=False, soft_wrap=True)

    for finding in report.findings:
        text = str(finding)
        if not finding.kind.status:
            place = str(finding.fault.place or "")
            text = f"{place}: remark{text[len(place) :]}"
        say(text, "red" if finding.kind.status else "yellow")
    count = len(report.faults)
    verdict = "valid" if not count else f"{count} fault{'s' if count > 1 else ''}"
    say(f"{report.file}: {verdict} at feature level {report.level}")
    for found in report.dispatchables:
        since = "valid at no level" if found.lowest_level is None else f"valid from {found.lowest_level} on"
        say(f"  '{printable(found.name)}': {found.operator}, {since}")
