"""`anydml explain`: what an operator does, as a picture: from its fields, given as options, or from a model."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anydml.cli.describe import describe
from anydml.cli.explain_graph import draw_graph
from anydml.cli.explain_model import choose, first_inputs
from anydml.cli.files import keep_model
from anydml.cli.onnx_inputs import MOST, SIZES, STRICT, Given, is_onnx
from anydml.cli.options import options_of
from anydml.cli.showing import show_graph, show_picture
from anydml.cli.types import LEVEL, OPERATOR, SIZE, printable
from anydml.cli.without import WithoutOption
from anydml.enums import FeatureLevel
from anydml.errors import DmlError
from anydml.explain import explain as make_picture
from anydml.models import load_model
from anydml.operator_type import OperatorType
from anydml.operators import OPERATORS, find_operator
from anydml.operators.fields import FIELD_TYPES, PerDimension
from anydml.runtime.device import Device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.explain import Limits, Picture
    from anydml.operators import OperatorDesc

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_DRAWINGS = (
    click.Option(
        ["--feature-level", "feature_level"], type=LEVEL, help="The level to check at; the highest by default."
    ),
    click.Option(["--svg", "svg"], metavar="FILE", help="Draw it as SVG; - for stdout."),
    click.Option(["--html", "html"], metavar="FILE", help="Draw it as a page of its own; - for stdout."),
)
_EXAMPLES = {
    "slice": "--sizes 1,1,4,4 --offsets 0,0,1,2 --window 1,1,3,2 --strides 1,1,1,1",
    "slice1": "--sizes 1,1,4,4 --offsets 0,0,0,1 --window 1,1,4,3 --strides 1,1,-2,2",
    "gather_nd": '--data "[[0,1],[2,3]]" --indices "[[1],[0]]"',
    "gather_nd1": '--sizes 3,2,2 --indices "[[[0,0]],[[1,1]],[[0,1]]]" --batch 1',
    "cumulative_summation": '--data "[[2,1,3,5],[3,8,7,3]]" --axis 1 --direction decreasing --exclusive',
    "cumulative_product": '--data "[[2,1,3,5],[3,8,7,3]]" --axis 1',
    "gather": "--sizes 3,4 --indices 3,3,0 --axis 1",
    "gather_elements": '--sizes 3,3 --indices "[[2,0,1]]" --axis 0',
    "element_wise_identity": '--data "[[1,2],[3,4]]" --scale-bias 2,0.5',
    "reduce": '--data "[[2,1,3],[3,8,7]]" --function sum --axes 1',
    "gemm": '--a-data "[[1,2],[3,4]]" --b-data "[[5,6],[7,8]]"',
    "convolution": "--sizes 1,1,3,4 --filter-data [[[[1,0],[0,1]]]] --strides 1,2",
    "cast": "--data 1.5,-2,300 --to uint8",
    "join": '--data "[[1,2],[3,4]]" --data "[[5],[6]]" --axis 1',
    "split": "--sizes 2,6 --axis 1 --along 3,2,1",
    "fill_value_constant": "--sizes 2,3 --value 7 --type int32",
    "fill_value_sequence": "--sizes 2,3 --start 10 --delta 20 --type uint8",
    "scatter": "--data [[1,2,3],[4,5,6]] --indices [[1,0,1]] --updates [[7,8,9]] --axis 0",
    "scatter_nd": "--data [[1,2],[3,4],[5,6]] --indices [[2],[0]] --updates [[7,8],[9,10]]",
    "top_k": "--data 3,9,4,9 --axis 0 --k 2",
    "top_k1": "--data 3,9,4,9 --axis 0 --k 3 --direction increasing",
    "random_generator": "--data 0,0,0,0,7,0 --output-sizes 2,3",
    "one_hot": '--data "[[1],[3]]" --type int64 --values [[0,5]] --output-sizes 2,4 --axis 1',
    "adam_optimizer": "--sizes 1,1,1,3 --step [[[[1]]]] --learning-rate 0.5",
    "padding": "--sizes 2,3 --start-padding 0,1 --end-padding 1,2 --mode edge",
    "padding1": "--sizes 2,3 --start-padding 0,1 --end-padding 1,2 --value 9 --type int32",
    "tile": "--sizes 2,3 --repeats 2,2",
    "depth_to_space": "--sizes 1,4,1,2 --block-size 2",
    "depth_to_space1": "--sizes 1,4,1,2 --block-size 2 --order column_row_depth",
    "space_to_depth": "--sizes 1,1,2,4 --block-size 2",
    "space_to_depth1": "--sizes 1,2,2,2 --block-size 2 --order column_row_depth",
    "diagonal_matrix": "--sizes 3,4 --offset 1 --value 7",
    "diagonal_matrix1": "--sizes 3,4 --diagonal-fill-begin 0 --diagonal-fill-end 2 --value 9",
    "slice_grad": "--sizes 2,2 --output-sizes 3,4 --offsets 0,1 --window 3,3 --strides 2,-2",
    "roi_pooling": "--sizes 1,1,4,4 --roi [[[[0,0,0,3,3]]]] --pooled-size 2,2",
    "roi_align": "--sizes 1,1,4,4 --roi [[0,0,4,4]] --indices [0] --output-sizes 1,1,2,2",
    "roi_align1": "--sizes 1,1,4,4 --roi [[0,0,4,4]] --indices [0] --output-sizes 1,1,2,2",
    "roi_align_grad": ("--gradient-data [[[[1,2]]]] --roi [[0,0,4,2]] --indices [0] --output-gradient-sizes 1,1,2,4"),
    "resample": "--data 4,8,16 --scales 2 --mode linear",
    "resample1": "--data 4,8,16 --scales 2 --input-pixel-offsets 0.5 --output-pixel-offsets 0",
    "resample2": "--data 4,8,16 --scales 2 --input-pixel-offsets 0.5 --output-pixel-offsets 0 --direction decreasing",
    "resample3": "--data 4,8,16 --scales 2 --input-pixel-offsets 0.5 --output-pixel-offsets 0 --mode linear",
    "upsample_2d": "--sizes 1,1,2,2 --scale-size 2,2 --mode linear",
    "resample_grad": "--data 1,2,3,4 --output-sizes 2 --scales 2 --input-pixel-offsets 0.5 --output-pixel-offsets 0",
    "resample_grad1": "--data 1,2,3,4 --output-sizes 2 --scales 2 --input-pixel-offsets 0.5 --output-pixel-offsets 0",
    "rnn": "--sizes 1,2,1,2 --weight-sizes 1,1,2,2 --recurrence-sizes 1,1,2,2 --activation-descs relu",
    "lstm": "--sizes 1,2,1,1 --weight-sizes 1,1,4,1 --recurrence-sizes 1,1,4,1 --activation-descs sigmoid,tanh,tanh",
    "gru": "--sizes 1,2,1,1 --weight-sizes 1,1,3,1 --recurrence-sizes 1,1,3,1 --activation-descs sigmoid,tanh",
    "unfold": "--sizes 1,1,4 --window-sizes 3",
    "fold": "--sizes 1,3,2 --output-sizes 1,1,4 --window-sizes 3",
    "multihead_attention": "--query-data [[[9,0],[0,9]]] --key-data [[[9,0],[0,9]]] --value-data [[[1,2],[3,4]]]",
    "multihead_attention1": (
        "--query-data [[[9,0,0,9]]] --key-data [[[9,0],[0,9]]] --value-data [[[1,2],[3,4]]] --query-head-count 2"
    ),
    "reverse_subsequences": "--sizes 3,4 --lengths 3,2,4 --axis 1",
}


class _Explain(click.Group):
    """A command for each operator, in any spelling of its name, and one for a model's path."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The operators that are built."""
        return [kind.name.lower() for kind in OPERATORS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of an operator, whose options are made when it is asked for, or of a model."""
        try:
            return _command(find_operator(OperatorType(cmd_name)))
        except DmlError:
            if cmd_name.lower().endswith((".json", ".onnx")) or "/" in cmd_name or Path(cmd_name).is_file():
                path = Path(cmd_name)
                return _onnx_command(path) if is_onnx(path) else _model_command(path)
        if ctx.resilient_parsing:  # a shell that completes: no place for an error
            return None
        return _command(OPERATOR.convert(cmd_name, None, ctx))


@click.group(cls=_Explain, options_metavar="", subcommand_metavar="OPERATOR|MODEL.json|MODEL.onnx [OPTIONS]")
def explain() -> None:
    """What an operator does: which elements it picks, in what order, and the arithmetic.

    `anydml explain OPERATOR --help` lists its options. Without data the values are 1, 2, 3 … A DxDispatch model's
    dispatchables are shown with the values that the model gives them. With --graph its dispatches are shown together,
    as the one graph that they could be compiled as: the passes over memory that it takes, and the bytes that it saves.
    An ONNX model is shown as the graph that its nodes become.

    \b
    Examples:
      anydml explain slice1 --sizes 1,1,4,4 --offsets 0,0,0,1 --window 1,1,4,3 --strides 1,1,-2,2
      anydml explain examples/models/slice1.json --dispatchable crop
      anydml explain examples/models/slice1.json --graph
      anydml explain examples/models/crop.onnx --shape batch=3 --shape picks=2
    """


def _command(cls: type[OperatorDesc]) -> click.Command:
    name = cls.type.name.lower()

    def run(**given: Any) -> None:
        level, svg, html = given.pop("feature_level"), given.pop("svg"), given.pop("html")
        desc, arrays = describe(cls, given)

        show_picture(partial(_draw, desc, arrays, level or FeatureLevel.highest(), ""), svg, html)

    what = (cls.__doc__ or "").strip().splitlines()[0]
    example = f"\b\nExample:\n  anydml explain {name} {_EXAMPLES.get(name) or _example(cls)}"
    return click.Command(name, callback=run, params=[*options_of(cls), *_DRAWINGS], help=f"{what}\n\n{example}")


def _example(cls: type[OperatorDesc]) -> str:
    """Options that say enough: sizes, and a number for each attribute that must be given."""
    needed = [option for option in options_of(cls) if option.required]
    several = [name for name, kind in cls.field_types().items() if kind is FIELD_TYPES[PerDimension]]
    usual = {**dict.fromkeys(several, "1,1"), "axes": "3"}
    numbers = (f"{option.opts[-1]} {usual.get(option.name or '', 1)}" for option in needed)
    return " ".join(["--sizes 1,1,2,3", *numbers])


def _model_command(path: Path) -> click.Command:
    def run(
        dispatchable: str | None,
        graph: bool,
        allowed: tuple[Path, ...],
        max_memory: int | None,
        without: tuple[str, ...],
        feature_level: FeatureLevel | None,
        svg: str | None,
        html: str | None,
    ) -> None:
        keep_model(path, svg=svg, html=html)
        model = load_model(path, allow_files=allowed, max_memory=max_memory)
        level = feature_level or FeatureLevel.highest()
        if graph:
            if dispatchable is not None:
                raise click.UsageError("--graph shows all dispatches together: leave --dispatchable out.")
            show_graph(draw_graph(model, level, without), svg, html)
            return
        if without:
            raise click.UsageError("--without is for --graph: an operator alone is shown as it is described.")
        chosen = choose(model, dispatchable)
        if len(chosen) != 1 and (svg is not None or html is not None):
            names = ", ".join(printable(one.name) for one in chosen[:8])
            raise click.UsageError(f"One picture shows one dispatchable: choose by --dispatchable from {names}.")
        report = model.check(level)
        if not report:
            click.echo(f"{model.file}: not valid at {level}, so no values are read; see `anydml check`", err=True)
        for i, one in enumerate(chosen):
            if i:
                click.echo()
            if one.desc is None:
                report.raise_faults()
                raise click.UsageError(f"'{printable(one.name)}' is no operator, which a picture is of.")
            values = list(first_inputs(model, one, one.desc)) if report else []
            title = f"dispatchable '{one.name}'"
            show_picture(partial(_draw, one.desc, values, level, title), svg, html)

    params: list[click.Parameter] = [
        click.Option(["--dispatchable"], metavar="NAME", help="The one to show; all of them by default."),
        click.Option(
            ["--graph"],
            is_flag=True,
            help="Show all dispatches as one compiled graph: the passes over memory that it takes, and what it saves.",
        ),
        click.Option(["--allow-files", "allowed"], type=_FOLDER, multiple=True, help="A folder the model may use too."),
        click.Option(["--max-memory"], type=SIZE, help=MOST),
        WithoutOption(),
        *_DRAWINGS,
    ]
    text = (
        "Show what the dispatchables of a DxDispatch model do or, with --graph, what its dispatches would be as one"
        " graph, and what that saves."
    )
    example = (
        "\b\nExamples:\n  anydml explain examples/models/slice1.json --dispatchable crop"
        "\n  anydml explain examples/models/slice1.json --graph --svg graph.svg"
    )
    return click.Command(str(path), callback=run, params=params, help=f"{text}\n\n{example}")


def _onnx_command(path: Path) -> click.Command:
    def run(
        sizes: tuple[str, ...],
        max_memory: int | None,
        strict: bool,
        without: tuple[str, ...],
        feature_level: FeatureLevel | None,
        svg: str | None,
        html: str | None,
    ) -> None:
        from anydml.onnx import load

        keep_model(path, svg=svg, html=html)
        device = Device("reference", feature_level=feature_level or FeatureLevel.highest())
        options: dict[str, Any] = {"max_memory": max_memory, "strict": strict, "without": without}
        model = load(path, device=device, shapes=Given(sizes=sizes).shapes(), **options)
        show_graph(model.explain(), svg, html)

    params: list[click.Parameter] = [
        click.Option(["--shape", "sizes"], metavar="NAME=SIZES", multiple=True, help=SIZES),
        click.Option(["--max-memory"], type=SIZE, help=MOST),
        click.Option(["--strict"], is_flag=True, help=STRICT),
        WithoutOption(),
        *_DRAWINGS,
    ]
    text = "Show the graph that the nodes of an ONNX model become: the passes over memory that it takes."
    example = "\b\nExample:\n  anydml explain examples/models/crop.onnx --shape batch=3 --shape picks=2"
    return click.Command(str(path), callback=run, params=params, help=f"{text}\n\n{example}")


def _draw(desc: OperatorDesc, values: Sequence[object], level: FeatureLevel, title: str, limits: Limits) -> Picture:
    return make_picture(desc, *values, feature_level=level, title=title, limits=limits)
