"""`anydml run`: a DxDispatch model, with DxDispatch's options and lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from anydml.cli.console import open_output
from anydml.cli.dxdispatch import dxdispatch_options
from anydml.cli.listening import Listener
from anydml.cli.onnx_inputs import (
    Given,
    input_options,
    is_onnx,
    memory_option,
    refuse_options,
    seed_option,
    strict_option,
)
from anydml.cli.onnx_run import run_onnx
from anydml.cli.profile import check_profile, profile_option, tell_profile, watch_run
from anydml.cli.run_json import JsonListener
from anydml.cli.types import ENGINE, LEVEL, SIZE
from anydml.cli.without import without_option
from anydml.engines.common.threads import MOST_THREADS, set_num_threads
from anydml.enums import FeatureLevel
from anydml.errors import show
from anydml.models import Timing, load_model
from anydml.models.onnx_programs import OnnxProgram

_UINT32 = click.IntRange(0, 2**32 - 1)
_COUNT = click.IntRange(1, 2**32 - 1)
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_TARGET = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.argument("model", type=click.Path(path_type=Path), required=False)
@dxdispatch_options
@click.option("-i", "--dispatch_iterations", "iterations", type=_COUNT, default=1, help="Samples for each dispatch.")
@click.option("-r", "--dispatch_repeat", "repeat", type=_COUNT, default=1, help="Dispatches in each sample.")
@click.option("-t", "--milliseconds_to_run", "milliseconds", type=_UINT32, help="Run for so long instead of -i.")
@click.option("-I", "--dispatch_interval", "interval", type=_UINT32, default=0, help="Milliseconds between samples.")
@click.option("-w", "--warmup_samples", "warmup", type=_UINT32, default=1, help="First samples to leave out.")
@click.option(
    "-v",
    "--timing_verbosity",
    "verbosity",
    type=click.IntRange(0, 2),
    default=0,
    help="0 one line, 1 cold and hot times, 2 every sample.",
)
@click.option("--dml_feature_level", "--feature-level", "level", type=LEVEL, help="The level of the device.")
@click.option("--engine", type=ENGINE, help="Instead of the best: see `anydml engines`.")
@click.option("--threads", type=click.IntRange(1, MOST_THREADS), help="Threads that a dispatch may run on.")
@click.option("--input_path", type=_FOLDER, help="Read files from here instead of the model's folder.")
@click.option("--output_path", type=_TARGET, help="Write files here instead of in the model's folder; it is made.")
@click.option("--json", "as_json", is_flag=True, help="For machines: device, times, resources and outputs as JSON.")
@click.option("--allow-files", "allowed", type=_FOLDER, multiple=True, help="A folder the model may use too.")
@memory_option
@strict_option
@click.option("--max-output", type=SIZE, help="The most its files may take; half of the free disk by default.")
@input_options
@seed_option
@without_option
@profile_option
@click.pass_context
def run(
    ctx: click.Context,
    /,
    model: Path | None,
    named: Path | None,
    verbosity: int,
    level: FeatureLevel | None,
    engine: str | None,
    threads: int | None,
    allowed: tuple[Path, ...],
    input_path: Path | None,
    output_path: Path | None,
    as_json: bool,
    max_memory: int | None,
    max_output: int | None,
    strict: bool,
    inputs: tuple[str, ...],
    sizes: tuple[str, ...],
    overrides: tuple[str, ...],
    bound: tuple[str, ...],
    adapter: str | None,
    print_commands: bool,
    shows_bindings: bool,
    seed: int | None,
    without: tuple[str, ...],
    profile: str | None,
    **timing: Any,
) -> None:
    """Run a DxDispatch or ONNX model.

    Of a DxDispatch model the operators are dispatched, resources printed and files written.

    An ONNX model, *.onnx, takes its inputs from files, or makes them up from a seed; with --output_path its outputs
    are written there, an .npy each. --profile shows the time of each pass, and the nodes that it carries out; in a file
    that is JSON, *.json, a line of time for chrome://tracing and Perfetto, *.trace.json, or the table, *.txt.

    The files that a model names are read and written inside its own folder only, unless options say otherwise, and
    are written once every command has gone well.

    \b
    Example:
      anydml run examples/models/slice.json -i 100
      anydml run examples/models/crop.onnx --shape batch=4 --seed 7 --profile
    """
    open_output()
    if (model is None) == (named is None):
        raise click.UsageError("Missing argument 'MODEL'." if model is None else "a model is given twice.", ctx)
    model = model or named
    assert model is not None  # noqa: S101 - for type checkers: one of the two is
    if str(model) == "-" or model.is_dir():
        what = "stdin has no folder to read and write in" if str(model) == "-" else f"{show(str(model))} is a folder"
        message = f"{what}: run takes the file of one model. `anydml check` takes stdin and folders."
        raise click.BadParameter(message, param_hint="'MODEL'")
    if profile is not None:
        check_profile(model, profile, as_json=as_json)
    if threads is not None:
        set_num_threads(threads)
    times, engine, sizes = Timing(**timing), engine or adapter, (*sizes, *overrides, *bound)
    if is_onnx(model):
        refuse_options(ctx, "an ONNX model", "input_path", "allowed", "max_output", "verbosity", "print_commands")
        given = Given(inputs, sizes, seed, max_memory, strict, without)
        level = level or FeatureLevel.highest()
        run_onnx(
            model, given, engine, level, times, output_path, shows=shows_bindings, profile=profile, as_json=as_json
        )
        return
    refuse_options(ctx, "a DxDispatch model", "inputs", "seed", "shows_bindings", "strict", "without")
    loaded = load_model(
        model,
        allow_files=allowed,
        input_path=input_path,
        output_path=output_path,
        max_memory=max_memory,
        max_output=max_output,
        shapes=Given(sizes=sizes).shapes(),
    )
    if not any(isinstance(found.program, OnnxProgram) for found in loaded.dispatchables.values()):
        refuse_options(ctx, "a DxDispatch model without an ONNX model", "sizes", "overrides", "bound")
    told = JsonListener(str(model)) if as_json else Listener(verbosity, times, tells_commands=print_commands)
    with told as listener:

        def run_all() -> None:
            loaded.run(engine, feature_level=level or FeatureLevel.highest(), timing=times, on_event=listener)

        if profile is None:
            run_all()
        else:
            tell_profile(watch_run(engine, run_all), profile, is_quiet=as_json)
