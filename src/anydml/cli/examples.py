"""`anydml examples`: the example models that travel in the package, copied to where they can be run and changed."""

from __future__ import annotations

from pathlib import Path

import click

import anydml
from anydml.cli.files import write_bytes
from anydml.cli.types import printable
from anydml.core.display import counted

MODELS = Path(anydml.__file__).parent / "examples"


@click.command()
@click.argument("folder", default="examples/models", type=click.Path(file_okay=False))
def examples(folder: str) -> None:
    """Write the example models into a folder, by default examples/models.

    They are the models that the help of every command names: DxDispatch's (.json) and an ONNX model (.onnx). A file of
    yours that differs from the example of its name is kept.

    \b
    Examples:
      anydml examples
      anydml examples build/models
    """
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.BadParameter(
            f"{printable(folder)} cannot be made ({error.strerror})", param_hint="'FOLDER'"
        ) from error
    written, kept = [], []
    for source in sorted(path for path in MODELS.iterdir() if path.suffix in (".json", ".onnx")):
        mine, content = target / source.name, source.read_bytes()
        if mine.exists() and mine.read_bytes() != content:
            kept.append(source.name)
            continue
        if not mine.exists():
            write_bytes(str(mine), content, "FOLDER")
        written.append(source.name)
    if written:
        click.echo(f"{counted(len(written), 'model')} in {printable(folder)}: {', '.join(written)}")
    for name in kept:
        click.echo(f"{printable(str(target / name))} differs from the example and was kept")
