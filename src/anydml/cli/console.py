"""Where commands write: in colour on a terminal, plain when piped; machines get JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import click
from rich.console import Console


def make_console() -> Console:
    """A console for stdout. Piped output is never cut or wrapped to a width."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=10_000, force_terminal=False)


def write_json(value: Any) -> None:
    """A value as indented JSON on stdout."""
    click.echo(json.dumps(value, indent=2))
