"""`anydml compare MODEL.onnx`: here and on ONNX Runtime, and where the two first differ."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anydml.cli.console import make_console, write_json
from anydml.cli.onnx_inputs import Given, feed, input_options, is_onnx, memory_option, seed_option
from anydml.cli.types import ENGINE, printable
from anydml.cli.without import without_option

if TYPE_CHECKING:
    from anydml.onnx import Difference

_FIELDS = ("name", "count", "differing", "agrees", "where", "here", "there", "largest", "problem")


class _Tolerance(click.FloatRange):
    """A number that something may be off by."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no number to compare with.", param, ctx)
        return number


_NUMBER = _Tolerance(0)


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@memory_option
@input_options
@seed_option
@without_option
@click.option("--engine", type=ENGINE, help="Instead of the best: see `anydml engines`.")
@click.option("--rtol", type=_NUMBER, default=1e-3, show_default=True, help="Floats may differ by this share.")
@click.option("--atol", type=_NUMBER, default=1e-7, show_default=True, help="And by this much.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
@click.pass_context
def compare(
    ctx: click.Context,
    model: Path,
    max_memory: int | None,
    inputs: tuple[str, ...],
    sizes: tuple[str, ...],
    seed: int | None,
    without: tuple[str, ...],
    engine: str | None,
    rtol: float,
    atol: float,
    as_json: bool,
) -> None:
    """Run an ONNX model here and on ONNX Runtime, and find the first node where they differ.

    Whole numbers must be equal, floats close. Exit status: 0 they agree; 1 they do not, or the model is at fault;
    2 a file cannot be used; 3 it needs what is not here.

    \b
    Example:
      anydml compare examples/models/crop.onnx --seed 7
    """
    from anydml.onnx import compare as compare_models
    from anydml.onnx import load

    if not is_onnx(model):
        raise click.BadParameter("must be an ONNX model, *.onnx.", param_hint="'MODEL'")
    given = Given(inputs, sizes, seed, max_memory)
    options: dict[str, Any] = {"device": engine, "shapes": given.shapes(), "max_memory": max_memory}
    options["without"] = without
    arrays = feed(load(model, **options), given, given.arrays())
    found = compare_models(model, arrays, rtol=rtol, atol=atol, **options)
    if as_json:
        outputs = [_as_data(one) for one in found.outputs]
        first = None if found.first is None else _as_data(found.first)
        write_json({"agrees": bool(found), "first_node": found.first_node or None, "first": first, "outputs": outputs})
    else:
        console = make_console()
        for one in found.outputs:
            style = "" if one.agrees else "red"
            console.print(f"output {one}", style=style, markup=False, emoji=False, soft_wrap=True)
        if found.first is not None:
            text = f"{found.first_node} is the first that differs: {found.first}"
            console.print(text, style="red", markup=False, emoji=False, soft_wrap=True)
        verdict = "agrees with ONNX Runtime" if found else "does not agree with ONNX Runtime"
        console.print(f"{printable(str(model))} {verdict}", markup=False, emoji=False, soft_wrap=True)
    ctx.exit(0 if found else 1)


def _as_data(one: Difference) -> dict[str, Any]:
    data = {field: getattr(one, field) for field in _FIELDS}
    return data if one.largest is None or math.isfinite(one.largest) else {**data, "largest": None}  # JSON has no inf
