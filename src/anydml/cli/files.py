"""Files that a command writes: whole or not at all."""

from __future__ import annotations

from pathlib import Path

import click

from anydml.core.errors import Fault, ModelFileError, show
from anydml.core.files import real_path, word_reason
from anydml.dxdispatch.writes import write_atomically


def keep_model(model: Path, **outputs: str | None) -> None:
    """Refuse to write over the model that is read, however its path is spelled; nothing is written before."""
    for option, path in outputs.items():
        if path is None or path == "-":
            continue
        try:
            is_model = model.is_file() and model.samefile(path)
        except (OSError, ValueError):  # one that is not there, and one that no file can have, is for others to tell
            continue
        if is_model:
            message = f"{show(path)} is the model itself, which would be lost: name another file."
            raise click.BadParameter(message, param_hint=f"'--{option}'")


def write_text(path: str, text: str, option: str) -> None:
    """Write a text to a file; `-` is stdout."""
    if path == "-":
        click.echo(text, nl=False)
    else:
        write_bytes(path, text.encode(), option)


def write_bytes(path: str, data: bytes, option: str) -> None:
    """Write a file, by way of one beside it that takes its place when it is complete."""
    try:
        target = real_path(Path(path))  # a link stays, and what it leads to is written
        if target.exists() and not target.is_file():
            target.write_bytes(data)  # a pipe or a device, which nothing may take the place of
        else:
            target.parent.stat()  # a folder that is not there is a slip, and is not made
            write_atomically(target, data)
    except ModelFileError as error:
        raise ModelFileError(option, error.faults) from None
    except (OSError, ValueError) as error:
        fault = Fault(
            field=option, rule=f"the file cannot be written ({word_reason(error)})", value=path, found=show(path)
        )
        raise ModelFileError(option, fault) from error
