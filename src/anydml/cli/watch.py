"""`anydml check --watch`: again whenever a file changes."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import click

from anydml.shown import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

_PERIOD = 0.5
"""Seconds between two looks at the files."""


def watch(find: Callable[[], Iterable[Path]], check: Callable[[], int]) -> int:
    """Check, and again after every change until an interrupt; gives the status of the last check."""
    status = 0
    try:
        while True:
            seen = _stamps(find())
            status = check()
            click.echo(
                f"Watching {counted(len(seen), 'file')} since {time.strftime('%H:%M:%S')}; Ctrl-C ends", err=True
            )
            while _stamps(find()) == seen:
                time.sleep(_PERIOD)
            click.echo()
    except KeyboardInterrupt:
        return status


def _stamps(paths: Iterable[Path]) -> dict[Path, tuple[int, int] | None]:
    """When each file was written, and its size; None for one that is not there."""
    found: dict[Path, tuple[int, int] | None] = {}
    for path in paths:
        try:
            status = os.stat(path)  # noqa: PTH116 - links are followed
            found[path] = (status.st_mtime_ns, status.st_size)
        except (OSError, ValueError):
            found[path] = None
    return found
