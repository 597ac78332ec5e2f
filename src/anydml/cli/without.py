"""The option that leaves out rewritings of a graph by name; its help lists them, and imports them only then."""

from __future__ import annotations

from typing import Any

import click

from anydml.graph.without import OLD_NAMES, rewritings


class _Name(click.ParamType[str]):
    """The name of a rewriting."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name itself, where there is one such."""
        known, value = rewritings(), OLD_NAMES.get(value, value)
        if value not in known:
            self.fail(f"{value!r} is no rewriting: there are {', '.join(known)}.", param, ctx)
        return str(value)


class WithoutOption(click.Option):
    """`--without NAME`, as often as there are names."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__(["--without", "without"], type=_Name(), metavar="NAME", multiple=True)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The names, looked up when somebody asks."""
        self.help = f"Leave out a rewriting of the graph: {', '.join(rewritings())}. May be given again."
        return super().get_help_record(ctx)


without_option = click.option("--without", cls=WithoutOption)
