"""`anydml run`: a DxDispatch model, with DxDispatch's options and lines."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click

from anydml.cli.console import open_output
from anydml.cli.disable_passes import disable_passes_option
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
from anydml.cli.profile import check_profile, profile_option, tell_profile, top_option, watch_run
from anydml.cli.progress import is_shown, make_bar
from anydml.cli.run_json import JsonListener
from anydml.cli.types import ENGINE, LEVEL, SIZE, printable
from anydml.core.enums import FeatureLevel
from anydml.core.errors import show
from anydml.dxdispatch import (
    Commanded,
    Dispatched,
    Figures,
    Initialised,
    Printed,
    Progress,
    Started,
    Timing,
    Written,
    load_model,
)
from anydml.dxdispatch.onnx_programs import OnnxProgram
from anydml.engines import describe_engine, devices
from anydml.engines.common.threads import MOST_THREADS, set_num_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    from anydml.dxdispatch import Event


# DxDispatch's options: where a model runs, what shapes its tensors have; and those that mean nothing here


_BUILT_ON = ("anydml", "numpy", "llvmlite", "torch", "triton", "onnx", "pillow")


def _devices() -> list[tuple[str, str]]:
    """The name of each device that is here, and what it is."""
    return [(info.name, info.what) for info in devices()]


def _show_adapters(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:
    """Show the devices, which DxDispatch calls adapters."""
    if is_asked:
        for name, device in _devices():
            click.echo(f"{name}: {device}")
        ctx.exit()


def _show_dependencies(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked:
        for name in _BUILT_ON:
            try:
                found = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                found = "not installed"
            click.echo(f"{name:8} : {found}")
        ctx.exit()


def _find_adapter(_ctx: click.Context, _param: click.Parameter, text: str | None) -> str | None:
    """The first device that has the text in its name, or in what it is."""
    if text is None:
        return None
    known = {name: f"{name}: {device}" for name, device in _devices()}
    for name, device in known.items():
        if text.lower() in device.lower():
            return name
    raise click.BadParameter(f"{text!r} is in the name of no device; there are {'; '.join(known.values())}.")


def _as_sizes(_ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    """DxDispatch's `x:2,3` as `x=2,3`."""
    for text in texts:
        if ":" not in text:
            raise click.BadParameter(f"{text!r} has no ':' between a name and its sizes.")
    return tuple("=".join(text.rpartition(":")[::2]) for text in texts)


_OPTIONS = (
    (
        ("-b", "--binding_shape", "bound"),
        {"metavar": "NAME:SIZES", "multiple": True, "callback": _as_sizes},
        "The shape of a tensor of an ONNX model: x:2,3. May be given again.",
    ),
    (
        ("-f", "--onnx_free_dim_name_override", "overrides"),
        {"metavar": "NAME:SIZE", "multiple": True, "callback": _as_sizes},
        "An open size of an ONNX model: batch:8. May be given again.",
    ),
    (("-p", "--print_onnx_bindings", "shows_bindings"), {"is_flag": True}, "Show the tensors of an ONNX model."),
    (
        ("-m", "--model", "named"),
        {"type": click.Path(path_type=Path), "metavar": "PATH"},
        "The model, in the place of the argument.",
    ),
    (("--print_commands",), {"is_flag": True}, "Say when each command begins and ends."),
    (("-d", "--debug"), {"is_flag": True, "expose_value": False}, "DxDispatch's; everything is checked here anyway."),
    (("-a", "--adapter"), {"callback": _find_adapter}, "The device with this in its name: see --show_adapters."),
    (
        ("-S", "--show_dependencies"),
        {"is_flag": True, "is_eager": True, "expose_value": False, "callback": _show_dependencies},
        "Show the versions of the libraries that anydml uses, and run nothing.",
    ),
    (
        ("-s", "--show_adapters"),
        {"is_flag": True, "is_eager": True, "expose_value": False, "callback": _show_adapters},
        "Show the devices, and run nothing.",
    ),
)


_DIRECT3D, _RUNTIME = "Direct3D's", "ONNX Runtime's"
_WITHOUT_EFFECT = {
    # names, with a metavar where it takes a value: whose it is
    "-q --queue_type TYPE": _DIRECT3D,
    "--post_dispatch_barriers TYPE": _DIRECT3D,
    "--max_gpu_time_measurements COUNT": _DIRECT3D,
    "--disable_custom_heaps": _DIRECT3D,
    "--clear_shader_caches": _DIRECT3D,
    "--disable_gpu_timeout": _DIRECT3D,
    "--enable_dred": _DIRECT3D,
    "--disable_background_processing": _DIRECT3D,
    "--set_stable_power_state": _DIRECT3D,
    "--disable_agility_sdk": _DIRECT3D,
    "--present_separator": _DIRECT3D,
    "--xbox_allow_precompile": _DIRECT3D,
    "-e --onnx_session_config_entry KEY:VALUE": _RUNTIME,
    "-l --onnx_graph_optimization_level LEVEL": _RUNTIME,
    "-L --onnx_logging_level LEVEL": _RUNTIME,
}
"""Options that change nothing in what a model computes and prints: taken, and said to have no effect."""
_REFUSED = {
    "-c --pix_capture_type TYPE": "PIX captures the work of Direct3D, and there is none here",
    "-o --pix_capture_name NAME": "PIX captures the work of Direct3D, and there is none here",
    "--print_hlsl_disassembly": "HLSL shaders are not run",
    "-x --enable_ort_extensions": "operators of ONNX Runtime's extensions are not here",
    "--enable_onnx_profiling": "there is no profile of ONNX Runtime's; -v 2 shows every sample",
    "-F --onnx_free_dim_denotation_override NAME:SIZE": (
        "open sizes are bound by their names, with -f, and not by their denotation"
    ),
}
"""Options that ask for what would not come."""


def _foreign(names: str, told: Callable[[click.Context, str], None]) -> Callable[..., Any]:
    """An option that is not listed, with what is said where it is given."""
    *spelled, last = names.split()
    takes_value = not last.startswith("-")
    spelled = spelled if takes_value else [*spelled, last]

    def callback(ctx: click.Context, _: click.Parameter, value: object) -> None:
        if value:
            told(ctx, spelled[-1])

    how: dict[str, Any] = {"metavar": last, "multiple": True} if takes_value else {"is_flag": True}
    return click.option(*spelled, hidden=True, expose_value=False, callback=callback, **how)


def _no_effect(whose: str) -> Callable[[click.Context, str], None]:
    return lambda _ctx, name: click.echo(f"{name} is {whose}, and has no effect here", err=True)


def _refusal(reason: str) -> Callable[[click.Context, str], None]:
    def refuse(ctx: click.Context, name: str) -> None:
        raise click.UsageError(f"{name} is not supported: {reason}.", ctx)

    return refuse


def dxdispatch_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command."""
    for names, how, text in _OPTIONS:
        options: dict[str, Any] = how
        command = click.option(*names, help=text, **options)(command)
    for spelled, whose in _WITHOUT_EFFECT.items():
        command = _foreign(spelled, _no_effect(whose))(command)
    for spelled, reason in _REFUSED.items():
        command = _foreign(spelled, _refusal(reason))(command)
    return command


# Values, as DxDispatch prints them: six digits of a float, and in pieces, however many there are


_CHUNK = 1 << 14


def write_values(event: Printed) -> Iterator[str]:
    """The text after a resource's name, in pieces."""
    count, lines = 0, event.verbose
    total = len(event.types) or event.values.size
    width = len(str(total))
    for values in _chunks(event):
        texts = [f"{value:g}" if isinstance(value, float) else str(value) for value in values.tolist()]
        if lines:
            bits = values.view(f"u{values.dtype.itemsize}").tolist()
            digits = values.dtype.itemsize * 2
            rows = zip(texts, bits, strict=True)
            yield "".join(f"[{count + i:{width}}] {text} (0x{bit:0{digits}X})\n" for i, (text, bit) in enumerate(rows))
        else:
            yield (", " if count else "") + ", ".join(texts)
        count += len(texts)
    if not lines:
        yield "\n"


def _chunks(event: Printed) -> Iterator[np.ndarray[Any, Any]]:
    if event.types:
        at = 0
        for data_type in event.types:
            yield event.values[at : at + data_type.size_in_bytes].view(data_type.dtype)
            at += data_type.size_in_bytes
        return
    for at in range(0, event.values.size, _CHUNK):
        yield event.values[at : at + _CHUNK]


# Events of a run as DxDispatch's lines


class Listener:
    """Writes what happens, as it happens; on a terminal also how far a long dispatch is."""

    def __init__(self, verbosity: int, timing: Timing, *, tells_commands: bool = False) -> None:
        self._verbosity, self._timing, self._tells_commands = verbosity, timing, tells_commands
        self._bar: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_bar()

    def __call__(self, event: Event) -> None:
        """Write what happened."""
        if isinstance(event, Progress):
            self._show_progress(event)
            return
        self._stop_bar()
        if isinstance(event, Started):
            click.echo(f"Running on '{event.device.name} ({describe_engine(event.device.engine)})'")
        elif isinstance(event, Initialised):
            if self._verbosity:
                click.echo(f"Initialize {_name(event.name)}: {event.milliseconds:.4f} ms")
        elif isinstance(event, Commanded):
            if self._tells_commands:
                mark, told = ("EndCmd", "hr=0x00000000") if event.is_done else ("StartCmd", printable(event.text))
                click.echo(f"[{mark}][{event.number:04}]\t: {told}")
        elif isinstance(event, Dispatched):
            self._show_times(event)
        elif isinstance(event, Printed):
            click.echo(f"Resource {_name(event.name)}:" + ("\n" if event.verbose else " "), nl=False)
            for text in write_values(event):
                click.echo(text, nl=False)
        elif isinstance(event, Written):
            click.echo(f"Resource {_name(event.name)} written to {_name(event.text)}")

    def _show_times(self, event: Dispatched) -> None:
        samples = event.samples
        count, hot = len(samples.milliseconds), samples.hot
        if hot is None:
            return
        if self._verbosity == 0:
            click.echo(f"Dispatch {_name(event.name)}: {count} iterations, {hot.median:.4f} ms median (CPU)")
            return
        click.echo(f"Dispatch {_name(event.name)}: {count} iterations")
        for title, figures in (("Cold", samples.cold), ("Hot", hot)):
            if figures is not None:
                click.echo(f"CPU Timings {f'({title})':6} : {_figures(figures)}")
        if self._verbosity == 2:
            click.echo("The timings of each iteration:")
            for i, milliseconds in enumerate(samples.milliseconds):
                click.echo(f"iteration {i}: {milliseconds:.4f} ms (CPU)")

    def _show_progress(self, event: Progress) -> None:
        if not is_shown():
            return
        limit = self._timing.milliseconds
        total = self._timing.iterations if limit is None else limit / 1000
        if self._bar is None:
            self._bar = make_bar(f"Dispatch {_name(event.name)}", total)
        done = event.iterations if limit is None else min(event.seconds, total)
        self._bar.update(self._bar.task_ids[0], completed=done)

    def _stop_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _name(text: str) -> str:
    return f"'{printable(text)}'"


def _figures(figures: Figures) -> str:
    return (
        f"{figures.count} samples, {figures.average:.4f} ms average, {figures.least:.4f} ms min,"
        f" {figures.median:.4f} ms median, {figures.most:.4f} ms max"
    )


# The command


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
@disable_passes_option
@profile_option
@top_option
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
    disable_passes: tuple[str, ...],
    profile: str | None,
    top: int | None,
    **timing: Any,
) -> None:
    """Run a DxDispatch or ONNX model.

    Of a DxDispatch model the operators are dispatched, resources printed and files written.

    An ONNX model, *.onnx, takes its inputs from files, or makes them up from a seed; with --output_path its outputs
    are written there, an .npy each. --profile shows the time of each pass, the slowest first, the nodes that it
    carries out, and sums by node type and by route; in a file that is JSON, *.json, a line of time for
    chrome://tracing and Perfetto, *.trace.json, or the table, *.txt.

    The files that a model names are read and written inside its own folder only, unless options say otherwise, and
    are written once every command has gone well.

    \b
    Example:
      anydml run examples/models/slice.json -i 100
      anydml run examples/models/crop.onnx --shape batch=4 --seed 7 --profile --top 5
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
    check_profile(model, profile, top, as_json=as_json)
    if threads is not None:
        set_num_threads(threads)
    times, engine, sizes = Timing(**timing), engine or adapter, (*sizes, *overrides, *bound)
    if is_onnx(model):
        refuse_options(ctx, "an ONNX model", "input_path", "allowed", "max_output", "verbosity", "print_commands")
        given = Given(inputs, sizes, seed, max_memory, strict, disable_passes)
        level = level or FeatureLevel.highest()
        run_onnx(
            model,
            given,
            engine,
            level,
            times,
            output_path,
            shows=shows_bindings,
            profile=profile,
            top=top,
            as_json=as_json,
        )
        return
    refuse_options(ctx, "a DxDispatch model", "inputs", "seed", "shows_bindings", "strict", "disable_passes")
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
            tell_profile(watch_run(engine, run_all), profile, top=top, is_quiet=as_json)
