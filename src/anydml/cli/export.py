"""`anydml export MODEL --html page.html`: an ONNX model as a page that runs in any browser with WebGPU."""

from __future__ import annotations

from pathlib import Path

import click

from anydml.cli.files import write_bytes, write_text
from anydml.cli.onnx_inputs import SIZES, Given, is_onnx, tell_assumed


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--html", metavar="FILE", required=True, help="The page to write; - is stdout.")
@click.option(
    "--beside", metavar="FILE", help="Write the weights to a file beside the page, which loads them from there."
)
@click.option("--shape", "sizes", metavar="NAME=SIZES", multiple=True, help=SIZES)
@click.option("--title", metavar="TEXT", default="", help="The page's title; the file's name by default.")
def export(model: Path, html: str, beside: str | None, sizes: tuple[str, ...], title: str) -> None:
    """Write an ONNX model as a page that runs it in any browser with WebGPU.

    It has weights and kernels inside, and loads nothing from elsewhere. The page takes .npy files or random numbers for
    the inputs, shows the time of each run, and has the outputs as .npy files; in a script `await model.run({x: array})`
    runs it. With --beside it needs a server, such as `python -m http.server`; without, it is opened as a file.

    \b
    Example:
      anydml export examples/models/crop.onnx --html -
    """
    from anydml.onnx.tools.export import export_page

    if not is_onnx(model):
        raise click.BadParameter(f"{str(model)!r} is no .onnx file.", param_hint="'MODEL'")

    page = export_page(model, title=title or model.stem, shapes=Given(sizes=sizes).shapes(), told=tell_assumed)
    if beside is not None:
        write_bytes(beside, page.weights, "--beside")
    write_text(html, page.html("" if beside is None else Path(beside).name), "--html")
