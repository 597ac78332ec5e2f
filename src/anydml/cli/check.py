"""`anydml check`: every fault of models at once, each with its line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

from anydml.cli.check_files import Models, find_models
from anydml.cli.checked import CheckedModel, count
from anydml.cli.console import make_console, write_json
from anydml.cli.files import keep_model, write_text
from anydml.cli.onnx_check import CheckedOnnx, check_onnx
from anydml.cli.onnx_inputs import Given, input_options, is_onnx, memory_option, refuse_options, strict_option
from anydml.cli.progress import each
from anydml.cli.status import status_of, worst
from anydml.cli.types import LEVEL, printable
from anydml.cli.watch import watch
from anydml.enums import FeatureLevel
from anydml.errors import MISSING as NOT_HERE
from anydml.errors import UNUSABLE, DmlError
from anydml.models import Finding, ModelReport, as_sarif, check_file
from anydml.models.findings import DESCRIPTION, FILE, UNSUPPORTED

if TYPE_CHECKING:
    from collections.abc import Sequence

Checked: TypeAlias = CheckedModel | CheckedOnnx
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--dml_feature_level", "--feature-level", "level", type=LEVEL, help="Check for this level.")
@click.option("-v", "--verbose", is_flag=True, help="Show each node, dispatchable and file that is no model.")
@click.option("--concise", is_flag=True, help="One line a fault, without excerpts of the file.")
@click.option("--json", "as_json", is_flag=True, help="For machines: an object, or a list where there are several.")
@click.option("--sarif", metavar="FILE", help="Write SARIF 2.1.0 for a code host; - is stdout, and nothing else then.")
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
    concise: bool,
    as_json: bool,
    sarif: str | None,
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

    Exit status: 0 valid; 1 a description, a binding, an index or a name is at fault; 2 a file cannot be used; 3 it
    needs a part that is not built or not installed.

    \b
    Examples:
      anydml check examples/models
      anydml check examples/models/gather_nd.json --feature-level 2_1
      anydml check examples/models/crop.onnx --shape batch=8 -v
    """
    if as_json and sarif == "-":
        raise click.UsageError("--json and --sarif - both write to stdout; give --sarif a file.")
    given = Given(inputs, sizes, max_memory=max_memory, strict=strict)
    checker = _Checker(level or FeatureLevel.highest(), given, allowed, verbose, concise, as_json, sarif)
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
        refuse_options(ctx, "a DxDispatch model", "inputs", "sizes", "max_memory", "strict")
    for path in models.paths:
        keep_model(path, sarif=sarif)


@dataclass(frozen=True, slots=True)
class _Checker:
    """Checks models, and shows what was found as the options say."""

    level: FeatureLevel
    given: Given
    allowed: tuple[Path, ...]
    verbose: bool
    concise: bool
    as_json: bool
    sarif: str | None

    def check(self, models: Models) -> int:
        """Check all of them; gives the exit status."""
        with each(models.paths, lambda path: f"Checking {printable(path.name)}") as paths:
            found = [self._check_one(path, models) for path in paths]
        if self.sarif is not None:
            text = json.dumps(as_sarif(*(one.as_report() for one in found)), indent=2) + "\n"
            write_text(self.sarif, text, "--sarif")
        if self.as_json:
            write_json(found[0].as_data() if models.is_one else [one.as_data() for one in found])
        elif self.sarif != "-":
            self._show(found, models)
        return worst({one.status for one in found})

    def _check_one(self, path: Path, models: Models) -> Checked:
        if not is_onnx(path):
            return CheckedModel(check_file(path, self.level, allow_files=self.allowed, data=models.data))
        try:
            return check_onnx(path, self.level, self.given, models.data)
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
                one.show(say, details=self.verbose or is_dxdispatch, concise=self.concise)
            elif one.faults or (is_dxdispatch and one.as_report().findings):
                one.show(say, details=False, concise=self.concise)
            else:
                continue
            if not models.is_one and not self.concise:
                say()
        if not models.is_one:
            faulty = [one for one in found if one.status]
            told = f"{count(len(found), 'model')}: {len(found) - len(faulty)} valid"
            rest = f", {len(faulty)} not ({count(sum(one.faults for one in faulty), 'fault')})" if faulty else ""
            say(f"{told}{rest} at feature level {self.level}", "red" if faulty else "")
