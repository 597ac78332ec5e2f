"""Options of DxDispatch's: where a model runs, what shapes its tensors have; and those that mean nothing here."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anydml.engines import list_engines

if TYPE_CHECKING:
    from collections.abc import Callable

_BUILT_ON = ("anydml", "numpy", "llvmlite", "torch", "triton", "onnx", "pillow")


def _devices() -> list[tuple[str, str]]:
    """The name of each device that is here, and what it is."""
    found = [(engine.name, device) for engine in list_engines() for device in engine.devices]
    return [(name, device) if name != "cuda" else tuple(device.split(": ", 1)) for name, device in found]  # type: ignore[misc]  # a pair


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
