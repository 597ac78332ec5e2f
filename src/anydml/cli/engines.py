"""`anydml engines`: the engines of this machine."""

from __future__ import annotations

from dataclasses import asdict

import click
from rich.table import Table
from rich.text import Text

from anydml.cli.console import print_table, write_json
from anydml.cli.wording import as_options
from anydml.core.memory import word_bytes
from anydml.engines import DeviceInfo, list_engines


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def engines(as_json: bool) -> None:
    """List the engines and devices of this machine, and the packages that a missing one needs.

    \b
    Example:
      anydml engines
    """
    found = list_engines()
    if as_json:
        fields = ("name", "is_present", "devices", "what", "way_out")
        rows = [{field: getattr(engine, field) for field in fields} for engine in found]
        for row, engine in zip(rows, found, strict=True):
            row["details"] = [asdict(info) for info in engine.infos]
        write_json(rows)
        return
    table = Table("engine", "here", "device", "what it is", box=None, header_style="bold")
    for engine in found:
        here = "[green]yes[/]" if engine.is_present else "[red]no[/]"
        about = [
            Text("\n".join(map(_told, engine.infos)) or "-"),
            Text(as_options(engine.way_out) or engine.what),
        ]  # anydml[cuda] is no style
        table.add_row(engine.name, here, *about)
    print_table(table)


def _told(info: DeviceInfo) -> str:
    """A device with its memory; a CPU's is the machine's, and WebGPU tells of the largest buffer alone."""
    size = "buffers up to " * (info.engine == "webgpu") + word_bytes(info.memory)
    return f"{info}, {size}" if info.memory and info.name != info.engine else str(info)
