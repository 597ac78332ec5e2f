"""Options of DxDispatch's that say where a model runs and what shapes its tensors have."""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING, Any

import click

from anydml.engines import list_engines

if TYPE_CHECKING:
    from collections.abc import Callable

_BUILT_ON = ("anydml", "numpy", "numba", "llvmlite", "torch", "triton", "onnx", "pillow")


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
    (("--print_commands",), {"is_flag": True}, "Say when each command begins and ends."),
    (("-d", "--debug"), {"is_flag": True, "expose_value": False}, "DxDispatch's; everything is checked here anyway."),
    (("-a", "--adapter"), {"callback": _find_adapter}, "The device with this in its name: see --show_adapters."),
    (
        ("-S", "--show_dependencies"),
        {"is_flag": True, "is_eager": True, "expose_value": False, "callback": _show_dependencies},
        "Show the versions of what this is built on, and run nothing.",
    ),
    (
        ("-s", "--show_adapters"),
        {"is_flag": True, "is_eager": True, "expose_value": False, "callback": _show_adapters},
        "Show the devices, and run nothing.",
    ),
)


def dxdispatch_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command."""
    for names, how, text in _OPTIONS:
        options: dict[str, Any] = how
        command = click.option(*names, help=text, **options)(command)
    return command
