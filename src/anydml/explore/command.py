"""`anydml explore`: the page, served on this machine or written to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from anydml.cli.files import keep_model, write_text
from anydml.cli.types import OPERATOR
from anydml.explore import model, operator, page


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("subject", metavar="[MODEL|OPERATOR [OPTIONS]]", required=False)
@click.argument("rest", nargs=-1, type=click.UNPROCESSED, metavar="")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port of 127.0.0.1; a free one by default.")
@click.option("--no-browser", is_flag=True, help="Print the address, and open no browser.")
@click.option("--html", metavar="FILE", help="Write a page of its own instead, which needs no server; - for stdout.")
@click.pass_context
def explore(
    ctx: click.Context, subject: str | None, rest: tuple[str, ...], port: int, no_browser: bool, html: str | None
) -> None:
    """Explore operators and models on a page of a local server.

    Change a field, and see its faults, the picture and the answer follow. The page is served to this machine alone,
    and its address has a token. A MODEL is a DxDispatch or an ONNX model. An OPERATOR takes the options of
    `anydml explain OPERATOR`; without them the page starts with an example.

    \b
    Examples:
      anydml explore
      anydml explore slice1 --sizes 4,4 --offsets 0,1 --window 4,3 --strides -2,2
      anydml explore examples/models/slice1.json --port 8000 --no-browser
      anydml explore gather --html gather.html
    """
    opened, start = None, ""
    if subject is not None and _is_model(subject):
        path = Path(subject)
        keep_model(path, html=html)
        opened = model.open_model(path, _read(ctx, subject, model.options(), rest))
        start = "model"
    else:
        cls = OPERATOR.convert(subject or "slice1", None, ctx)
        state = operator.read_command(cls, rest, ctx)
        start = operator.link(cls, state) if subject is not None else ""
    if html is not None:
        parts = operator.standalone(cls, state) if opened is None else model.standalone(opened)
        write_text(html, page.standalone(*parts), "--html")
        return
    from anydml.explore.server import serve

    def say(address: str) -> None:
        click.echo(f"{address}\nThe page is there until you press Ctrl-C.")

    serve(opened, start, port, say, opens=not no_browser)


def _is_model(subject: str) -> bool:
    return subject.lower().endswith((".json", ".onnx")) or "/" in subject or Path(subject).is_file()


def _read(ctx: click.Context, name: str, options: list[click.Option], rest: tuple[str, ...]) -> dict[str, Any]:
    """The rest of a command line, read with the options of its subject."""
    command = click.Command(name, params=[*options])
    with command.make_context(name, list(rest), parent=ctx) as own:
        return dict(own.params)
