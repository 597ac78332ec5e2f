"""Files that a command writes: whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import click

from anydml.errors import Fault, ModelFileError


def write_text(path: str, text: str, option: str) -> None:
    """Write a text, by way of a file beside it that takes its place when it is complete; `-` is stdout."""
    if path == "-":
        click.echo(text, nl=False)
        return
    target = Path(path)
    try:
        if target.exists() and not target.is_file():
            target.write_text(text, "utf-8")  # a pipe or a device, which nothing may take the place of
            return
        _replace(target, text)
    except (OSError, ValueError) as error:
        rule = f"{path} could not be written ({getattr(error, 'strerror', None) or error})"
        raise ModelFileError(option, Fault(field=option, rule=rule, value=path)) from error


def _replace(target: Path, text: str) -> None:
    draft = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666), "w", encoding="utf-8") as file:
            file.write(text)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
