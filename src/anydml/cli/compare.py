"""`anydml compare MODEL.onnx`: by anydml and by ONNX Runtime, and where the two first differ."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table
from rich.text import Text

from anydml.cli.console import make_console, print_table, write_json
from anydml.cli.disable_passes import disable_passes_option
from anydml.cli.onnx_inputs import Given, feed, input_options, is_onnx, made_up_told, memory_option, seed_option
from anydml.cli.progress import working
from anydml.cli.types import ENGINE, printable
from anydml.core.display import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from anydml.onnx import Comparison, Difference, NodeComparison

_SIDES = ("onnxruntime", "reference")


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
@disable_passes_option
@click.option("--engine", type=ENGINE, help="Instead of the best: see `anydml engines`.")
@click.option("--rtol", type=_NUMBER, default=1e-3, show_default=True, help="Floats may differ by this share.")
@click.option("--atol", type=_NUMBER, default=1e-7, show_default=True, help="And by this much.")
@click.option(
    "--against", type=click.Choice(_SIDES), default="onnxruntime", show_default=True, help="What to compare with."
)
@click.option("--all", "every", is_flag=True, help="Compare the outputs of every node.")
@click.option("--alone", is_flag=True, help="And run each node on the tensors of the other: is it off by itself?")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
@click.pass_context
def compare(
    ctx: click.Context,
    model: Path,
    max_memory: int | None,
    inputs: tuple[str, ...],
    sizes: tuple[str, ...],
    seed: int | None,
    disable_passes: tuple[str, ...],
    engine: str | None,
    rtol: float,
    atol: float,
    against: str,
    every: bool,
    alone: bool,
    as_json: bool,
) -> None:
    """Find where an ONNX model differs from ONNX Runtime.

    Both run the model, and the first node where they differ is found.

    Whole numbers must be equal. Floats must be close for their own size or for the largest of their tensor; where they
    are not, both are held against float64, and differ only where one of them is much further from that. --all shows
    how far off each node is, its nodes being run as they are, and --alone which are off by themselves: the others only
    pass an error on. Exit status: 0 they agree; 1 they do not, or the model is at fault; 2 a file cannot be used, or
    the model needs --shape or --input; 3 it needs a part that is not built or not installed.

    \b
    Example:
      anydml compare examples/models/crop.onnx --seed 7
      anydml compare examples/models/crop.onnx --all --against reference
    """
    from anydml.onnx import compare as compare_models
    from anydml.onnx import load
    from anydml.onnx.tools.compare import SIDES

    if not is_onnx(model):
        raise click.BadParameter("must be an ONNX model, *.onnx.", param_hint="'MODEL'")
    given = Given(inputs, sizes, seed, max_memory)
    options: dict[str, Any] = {"device": engine, "shapes": given.shapes(), "max_memory": max_memory}
    options["disable_passes"] = disable_passes
    with working(f"Compiling {printable(model.name)}"):
        loaded = load(model, **options)
    read = given.arrays(lambda: loaded.inputs)
    arrays = feed(loaded, given, read)
    options |= {"against": against, "every": every, "alone": alone}
    with working(f"Comparing {printable(model.name)} with {SIDES[against]}"), made_up_told(arrays, read):
        found = compare_models(model, arrays, rtol=rtol, atol=atol, **options)
    if as_json:
        write_json(_all_data(found))
    else:
        _show(found, make_console(), f"{printable(str(model))} {{}} with {SIDES[against]}")
    ctx.exit(0 if found else 1)


def _show(found: Comparison, console: Console, verdict: str) -> None:
    if found.nodes:
        print_table(_table(found.nodes))

    def say(text: str, *, is_right: bool) -> None:
        console.print(text, style="" if is_right else "red", markup=False, emoji=False, soft_wrap=True)

    for one in found.outputs:
        say(f"output {one}", is_right=one.agrees)
    if found.first is not None:
        say(f"{found.first_node} is the first that differs: {found.first}", is_right=False)
    if found.passes_at_fault:
        say(
            f"It agrees where a graph pass is disabled: --disable-passes {' or '.join(found.passes_at_fault)}",
            is_right=False,
        )
    for node in found.off:
        say(f"{node.label} is off by itself: {node.alone}", is_right=False)
    if not found and found.first is None and not found.passes_at_fault:
        say("No node differs as it is: what was made of several of them, on either side, does.", is_right=False)
    apart = sum(not node.found.agrees for node in found.nodes) if found else 0
    inside = f"; {apart} of {counted(len(found.nodes), 'tensor')} within it do not, as the table says" if apart else ""
    say(verdict.format("agrees" if found else "does not agree") + inside, is_right=not inside)


def _table(nodes: Sequence[NodeComparison]) -> Table:
    """A row for each tensor; NaNs and infinities are those of anydml and of the other."""
    heads = ["node", "makes", "type", "differ", "largest", "relative", "ulps", "NaN", "inf", "verdict"]
    has_alone = any(node.alone is not None for node in nodes)
    table = Table(*heads, *(["alone"] if has_alone else []), box=None, header_style="bold")
    for node in nodes:
        one = node.found
        cells = [node.label, printable(one.name), one.type, f"{one.differing}/{one.count}"]
        cells += ["" if number is None else f"{number:.3g}" for number in (one.largest, one.relative)]
        cells += ["" if one.ulps is None else str(one.ulps)]
        cells += ["" if pair == (0, 0) else f"{pair[0]}/{pair[1]}" for pair in (one.nans, one.infinities)]
        cells += [_verdict(one)] + ([_verdict(node.alone)] if node.alone is not None else [])
        style = "" if one.agrees and (node.alone is None or node.alone.agrees) else "red"
        table.add_row(*map(Text, cells), style=style)
    return table


def _verdict(one: Difference) -> str:
    if one.problem:
        return one.problem
    return ("agrees" if one.differing else "same") if one.agrees else f"off at {list(one.where or ())}"


def _all_data(found: Comparison) -> dict[str, Any]:
    first = None if found.first is None else _as_data(found.first)
    data: dict[str, Any] = {"agrees": bool(found), "first_node": found.first_node or None, "first": first}
    data |= {"outputs": [_as_data(one) for one in found.outputs]}
    data["passes_at_fault"] = data["rewritings"] = list(found.passes_at_fault)
    if found.nodes:
        data["nodes"] = [
            {"node": node.label, **_as_data(node.found), "alone": node.alone and _as_data(node.alone)}
            for node in found.nodes
        ]
    return data


def _as_data(one: Difference) -> dict[str, Any]:
    data = dataclasses.asdict(one)
    data["errors"] = None if one.errors is None else [_finite(error) for error in one.errors]
    return {name: _finite(value) for name, value in data.items()}


def _finite(value: Any) -> Any:
    """The value, but None for an infinity or a NaN, which JSON has not."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
