"""`anydml schema`: a JSON schema of DxDispatch's models, for editors."""

from __future__ import annotations

import json

import click

from anydml.cli.files import write_text


@click.command()
@click.option("-o", "--output", metavar="FILE", default="-", help="Write it to a file; to stdout by default.")
def schema(output: str) -> None:
    """Write a JSON schema of DxDispatch models, so that editors complete and check them.

    It has every operator with its fields, their meanings, types and choices. In Visual Studio Code name the file in
    the setting json.schemas, or begin a model with "$schema": "./dxdispatch.schema.json".

    \b
    Example:
      anydml schema
    """
    from anydml.dxdispatch.schema import model_schema

    write_text(output, json.dumps(model_schema(), indent=1) + "\n", "--output")
