"""The option that disables graph passes by name; its help lists them, and imports them only then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from anydml.graph.pass_names import OLD_NAMES, graph_passes

if TYPE_CHECKING:
    from collections.abc import Callable


class _Name(click.ParamType[str]):
    """The name of a graph pass."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name itself, where there is one such."""
        known, value = graph_passes(), OLD_NAMES.get(value, value)
        if value not in known:
            self.fail(f"{value!r} is no graph pass: there are {', '.join(known)}.", param, ctx)
        return str(value)


class _Option(click.Option):
    """`--disable-passes NAME`, as often as there are names."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The names, looked up when somebody asks."""
        self.help = f"Leave out a graph pass: {', '.join(graph_passes())}. May be given again."
        return super().get_help_record(ctx)


def _keep_former(ctx: click.Context, _: click.Parameter, value: tuple[str, ...]) -> None:
    if value:
        click.echo("--without is called --disable-passes now", err=True)
    ctx.meta[__name__] = value


def _with_former(ctx: click.Context, _: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    return (*ctx.meta.get(__name__, ()), *value)


_GIVEN: dict[str, Any] = {"type": _Name(), "metavar": "NAME", "multiple": True}
_OPTIONS: tuple[tuple[type[click.Option], str, dict[str, Any]], ...] = (
    (_Option, "--disable-passes", {**_GIVEN, "callback": _with_former}),
    (
        click.Option,
        "--without",
        {**_GIVEN, "hidden": True, "is_eager": True, "expose_value": False, "callback": _keep_former},
    ),
)
"""The option and its name of the release before, which is read first, for the option to have its values too."""


def disable_passes_params() -> list[click.Parameter]:
    """The option, of a command that is made by itself."""
    return [cls([name], **options) for cls, name, options in _OPTIONS]


def disable_passes_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option to a command."""
    for cls, name, options in reversed(_OPTIONS):
        command = click.option(name, cls=cls, **options)(command)
    return command
