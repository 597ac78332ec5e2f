"""Where commands write: in colour on a terminal, plain when piped; machines get JSON."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

if TYPE_CHECKING:
    from rich.table import Table


def open_output() -> None:
    """Let stdout take any character: one that its encoding does not have is written as an escape, not as a crash."""
    # Where the shell closed stdout there is none, and other programs' streams cannot be set.
    with contextlib.suppress(AttributeError, ValueError):
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # both are caught


def make_console() -> Console:
    """A console for stdout. Piped output is never cut or wrapped to a width."""
    open_output()
    if sys.stdout is not None and sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=10_000, force_terminal=False)


def print_table(table: Table) -> None:
    """A table, without the blanks that fill its last column where it is piped."""
    console = make_console()
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


def write_json(value: Any) -> None:
    """A value as indented JSON on stdout."""
    click.echo(json.dumps(value, indent=2))
