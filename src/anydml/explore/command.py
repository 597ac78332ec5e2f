"""`anydml explore`: the page, served on this machine or written to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from anydml.cli.files import keep_model, write_text
from anydml.cli.types import EXPLAINED
from anydml.explore import model, operator, page


class _Explore(click.Command):
    """The command, whose help has the options of a model, though they are read once it is known that there is one."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write its own options, then those of a model."""
        super().format_options(ctx, formatter)
        with formatter.section("Options of a MODEL"):
            formatter.write_dl([told for one in model.options() if (told := one.get_help_record(ctx)) is not None])


@click.command(cls=_Explore, context_settings={"ignore_unknown_options": True})
@click.argument("subject", metavar="[MODEL [MODEL] | OPERATOR] [OPTIONS]", required=False)
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
    and its address has a token. A MODEL is a DxDispatch or an ONNX model; of two the differences are shown. Models
    are opened or dropped in the page as well. An OPERATOR takes the options of `anydml explain OPERATOR`; without
    them the page starts with an example.

    \b
    Examples:
      anydml explore
      anydml explore slice1 --sizes 4,4 --offsets 0,1 --window 4,3 --strides -2,2
      anydml explore examples/models/slice1.json --port 8000 --no-browser
      anydml explore model.onnx --shape images=1,3,320,320
      anydml explore model.onnx model_int8.onnx
      anydml explore gather --html gather.html
    """
    opened: list[model.Opened] = []
    start, options = "", {}
    if subject is not None and _is_model(subject):
        options = _read(ctx, subject, [*model.options(), *_second()], rest)
        other = options.pop("other")
        for path in map(Path, (subject, *([other] if other else []))):
            keep_model(path, html=html)
            opened.append(model.open_model(path, options | ({"profile": None} if opened else {})))
        start = "compare" if other else "model"
    else:
        cls = EXPLAINED.convert(subject or "slice1", None, ctx)
        state = operator.read_command(cls, rest, ctx)
        start = operator.link(cls, state) if subject is not None else ""
    if html is not None:
        if len(opened) > 1:
            raise click.UsageError("--html writes a page of one model.", ctx)
        parts = model.standalone(opened[0]) if opened else operator.standalone(cls, state)
        write_text(html, page.standalone(*parts), "--html")
        return
    from anydml.explore.server import serve

    def say(address: str) -> None:
        click.echo(f"{address}\nThe page is there until you press Ctrl-C.")

    own = {name: value for name, value in options.items() if name not in ("sizes", "inputs", "profile")}
    serve(model.Workspace(opened, own), start, port, say, opens=not no_browser)


def _is_model(subject: str) -> bool:
    return subject.lower().endswith((".json", ".onnx")) or "/" in subject or Path(subject).is_file()


def _second() -> list[click.Parameter]:
    return [click.Argument(["other"], required=False)]


def _read(ctx: click.Context, name: str, options: list[click.Parameter], rest: tuple[str, ...]) -> dict[str, Any]:
    """The rest of a command line, read with the options of its subject."""
    command = click.Command(name, params=[*options])
    with command.make_context(name, list(rest), parent=ctx) as own:
        return dict(own.params)
