"""`anydml engines`: the engines of this machine."""

from __future__ import annotations

import click
from rich.table import Table
from rich.text import Text

from anydml.cli.console import print_table, write_json
from anydml.cli.wording import as_options
from anydml.engines import list_engines


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def engines(as_json: bool) -> None:
    """List the engines and devices of this machine, and the packages that a missing one needs.

    \b
    Example:
      anydml engines
    """
    found = list_engines()
    if as_json:
        fields = ("name", "is_present", "devices", "what", "way_out")
        write_json([{field: getattr(engine, field) for field in fields} for engine in found])
        return
    table = Table("engine", "here", "device", "what it is", box=None, header_style="bold")
    for engine in found:
        here = "[green]yes[/]" if engine.is_present else "[red]no[/]"
        about = [
            Text("\n".join(engine.devices) or "-"),
            Text(as_options(engine.way_out) or engine.what),
        ]  # anydml[cuda] is no style
        table.add_row(engine.name, here, *about)
    print_table(table)
