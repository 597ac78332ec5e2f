"""`anydml explain`: the work of an operator as a picture: from its fields, given as options, or from a model."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anydml.cli.describe import describe
from anydml.cli.disable_passes import disable_passes_params
from anydml.cli.explain_examples import example_of
from anydml.cli.files import keep_model, write_text
from anydml.cli.onnx_inputs import INPUTS, MOST, SIZES, STRICT, Given, is_onnx, tell_assumed
from anydml.cli.options import options_of, spell_flags
from anydml.cli.showing import checked, draw, show_graph, show_picture
from anydml.cli.types import ENGINE, EXPLAINED, LEVEL, SIZE, list_names, printable
from anydml.core.enum_parsing import suggest
from anydml.core.enums import FeatureLevel
from anydml.core.errors import DmlError, Fault, ModelError, show
from anydml.core.operator_type import OperatorType
from anydml.dxdispatch import Dispatch, load_model
from anydml.dxdispatch.constants import first_array
from anydml.dxdispatch.graph import draw_graph, graph_schedules
from anydml.explain.html import page
from anydml.operators import OPERATORS, find_operator
from anydml.operators.schema.fields import bare_name, dml_name
from anydml.operators.schema.meanings import choices_of, meaning_of
from anydml.runtime.device import Device

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np

    from anydml.dxdispatch import Binding, Dispatchable, Model
    from anydml.explain import Picture
    from anydml.operators import OperatorDesc


# The dispatchables of a model, and the values that the model gives them


def choose(model: Model, name: str | None) -> list[Dispatchable]:
    """The dispatchable of a name, or all of them."""
    if not model.dispatchables:
        raise ModelError(model.file, Fault(field="dispatchables", rule="there is no dispatchable to show"))
    if name is not None and name not in model.dispatchables:
        known = ", ".join(show(other, 60) for other in list(model.dispatchables)[:8])
        rule = f"there is no dispatchable {show(name, 60)}"
        near = suggest(name, map(repr, model.dispatchables))
        fault = Fault(
            field="dispatchables",
            rule=rule,
            way_out="; ".join(filter(None, (f"there are {known}", near))),
            is_slip=True,
        )
        raise ModelError(model.file, fault)
    return [dispatchable for own, dispatchable in model.dispatchables.items() if name in (None, own)]


def first_inputs(model: Model, dispatchable: Dispatchable, desc: OperatorDesc) -> Iterator[np.ndarray[Any, Any] | None]:
    """The inputs of a dispatchable at its first dispatch, in a model that was found valid.

    None where the model does not give the values, but computes them on its way, or they pass its memory limit.
    """
    bindings: Mapping[str, tuple[Binding, ...]] = {}
    written: set[str] = set()
    for command in model.commands:
        if not isinstance(command, Dispatch):
            continue
        if command.dispatchable == dispatchable.name:
            bindings = command.bindings
            break
        other = model.dispatchables[command.dispatchable].desc
        outputs = [dml_name(name) for name in other.output_names()] if other is not None else []
        written |= {binding.resource for name in outputs for binding in command.bindings.get(name, ())}
    left = model.max_memory
    slots = [(bare_name(name), tensor.is_owned_by_dml) for name, tensor in desc.inputs().items()]
    for k, ((field, is_owned), tensor) in enumerate(zip(slots, desc.inputs().values(), strict=True)):
        # Of a field's tensors those that are owned have their bindings in the dispatchable, the others in the command.
        several = (dispatchable.bindings if is_owned else bindings).get(field, ())
        one = several[slots[:k].count(slots[k])] if len(several) == slots.count(slots[k]) else None
        size = model.resources[one.resource].size_in_bytes if one is not None else None
        if one is None or size is None or size > left or one.resource in written:
            yield None
        else:
            left -= size
            yield first_array(model, one, tensor)


# Operators: the picture of a description that options make, or of the documented example


_AS_EXAMPLE = "anydml.example"


class _OperatorCommand(click.Command):
    """A command that takes the example's options where it is given none of the operator's."""

    def __init__(self, cls: type[OperatorDesc], drawings: Sequence[click.Option], **options: Any) -> None:
        super().__init__(params=[*options_of(cls), *drawings], **options)
        self._cls, self._drawings = cls, [name for option in drawings for name in option.opts]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options; those that say where to draw go with the example too."""
        own = [arg for arg in args if arg.startswith("-") and arg.partition("=")[0] not in (*self._drawings, "-")]
        if not own and not ctx.resilient_parsing:
            ctx.meta[_AS_EXAMPLE] = True
            args = [*shlex.split(example_of(self._cls)), *args]
        return super().parse_args(ctx, spell_flags(self.params, args))


def operator_command(cls: type[OperatorDesc], drawings: Sequence[click.Option]) -> click.Command:
    """The command of an operator."""
    name = cls.type.name.lower()

    @click.pass_context
    def run(ctx: click.Context, /, **given: Any) -> None:
        level, svg, html = given.pop("feature_level"), given.pop("svg"), given.pop("html")
        desc, arrays = describe(cls, given)
        is_told = ctx.meta.get(_AS_EXAMPLE) and svg is None and html is None
        if is_told:
            click.echo(f"$ anydml explain {name} {example_of(cls)}\n")
        show_picture(partial(draw, desc, arrays, level or FeatureLevel.highest(), ""), svg, html)
        if is_told:
            click.echo(f"\n{_fields(cls)}", nl=False)

    what = cls.own_words().splitlines()[0]
    example = f"\b\nExample:\n  anydml explain {name} {example_of(cls)}"
    text = f"{what}\n\nWithout options the example is shown, and the meanings of the fields.\n\n{example}"
    return _OperatorCommand(cls, drawings, name=name, callback=run, help=text)


def _fields(cls: type[OperatorDesc]) -> str:
    """The fields with their meanings, their choices and the options that give them."""
    options = {option.name: option.opts[-1] for option in options_of(cls)}
    rows = []
    for name in cls.field_types():
        choices = choices_of(cls, name)
        parts = [meaning_of(cls, name), f"One of {', '.join(choices)}." if choices else ""]
        option = options.get(name) or options.get(f"{name}_sizes")
        parts.append(f"Given by {option}." if option else "")
        rows.append((dml_name(name), " ".join(filter(None, parts))))
    formatter = click.HelpFormatter(max_width=80)
    with formatter.section("Fields"):
        formatter.write_dl(rows)
    return formatter.getvalue()


# The command


_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_DRAWINGS = (
    click.Option(
        ["--feature-level", "feature_level"], type=LEVEL, help="The level to check at; the highest by default."
    ),
    click.Option(["--svg", "svg"], metavar="FILE", help="Draw it as SVG; - for stdout."),
    click.Option(["--html", "html"], metavar="FILE", help="Draw it as a page of its own; - for stdout."),
)


class _Explain(click.Group):
    """A command for each operator, in any spelling of its name, and one for a model's path."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The operators that are built, by both of their names."""
        return list_names()

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click gives both
        """List the names alone: `anydml explain OPERATOR` has their sentences whole."""
        with formatter.section("Operators"):
            formatter.write_text(", ".join(sorted(kind.name.lower() for kind in OPERATORS)))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of an operator, whose options are made when it is asked for, or of a model."""
        try:
            return operator_command(find_operator(OperatorType(cmd_name)), _DRAWINGS)
        except DmlError:
            if cmd_name.lower().endswith((".json", ".onnx")) or "/" in cmd_name or Path(cmd_name).is_file():
                path = Path(cmd_name)
                return _onnx_command(path) if is_onnx(path) else _model_command(path)
        try:
            return operator_command(EXPLAINED.convert(cmd_name, None, ctx), _DRAWINGS)
        except click.BadParameter:
            if ctx.resilient_parsing:  # a shell that completes: no place for an error
                return None
            raise


@click.group(cls=_Explain, options_metavar="", subcommand_metavar="OPERATOR|MODEL.json|MODEL.onnx [OPTIONS]")
def explain() -> None:
    """Show the work of an operator or a model as a picture.

    Of an operator: which elements it picks, in what order, and the arithmetic. Its name alone shows an example and the
    meanings of its fields; `anydml explain OPERATOR --help` lists its options. Without data the values are 1, 2, 3 …
    A DxDispatch model's dispatchables are shown with the values that the model gives them. With --graph its
    dispatches are shown together, as the one graph that they could be compiled as: the passes over memory that it
    takes, and the bytes that it saves. An ONNX model is shown as the graph that its nodes become.

    \b
    Examples:
      anydml explain slice1
      anydml explain slice1 --sizes 1,1,4,4 --offsets 0,0,0,1 --window 1,1,4,3 --strides 1,1,-2,2
      anydml explain examples/models/slice1.json --dispatchable crop
      anydml explain examples/models/slice1.json --graph
      anydml explain examples/models/crop.onnx --shape batch=3 --shape picks=2
    """


_SCHEDULES = (
    click.Option(
        ["--schedules"],
        is_flag=True,
        help="Print for each pass the route of the engine's decision table that it takes, and why.",
    ),
    click.Option(["--engine"], type=ENGINE, help="The engine of --schedules: cpu by default; see `anydml engines`."),
)


def _check_schedules(schedules: bool, engine: str | None, svg: str | None, html: str | None) -> None:
    if schedules and (svg is not None or html is not None):
        raise click.UsageError("--schedules prints text: leave --svg and --html out.")
    if engine is not None and not schedules:
        raise click.UsageError("--engine is for --schedules: a picture is the same for all.")


def _model_command(path: Path) -> click.Command:
    def run(
        dispatchable: str | None,
        graph: bool,
        schedules: bool,
        engine: str | None,
        allowed: tuple[Path, ...],
        max_memory: int | None,
        disable_passes: tuple[str, ...],
        feature_level: FeatureLevel | None,
        svg: str | None,
        html: str | None,
    ) -> None:
        keep_model(path, svg=svg, html=html)
        model = load_model(path, allow_files=allowed, max_memory=max_memory)
        level = feature_level or FeatureLevel.highest()
        _check_schedules(schedules, engine, svg, html)
        if graph or schedules:
            if dispatchable is not None:
                raise click.UsageError("--graph shows all dispatches together: leave --dispatchable out.")
            if schedules:
                click.echo(graph_schedules(model, Device(engine or "cpu", feature_level=level), disable_passes))
            else:
                show_graph(draw_graph(model, level, disable_passes), svg, html)
            return
        if disable_passes:
            raise click.UsageError("--disable-passes is for --graph: an operator alone is shown as it is described.")
        chosen = choose(model, dispatchable)
        if len(chosen) != 1 and svg is not None:
            names = ", ".join(printable(one.name) for one in chosen[:8])
            message = f"One SVG shows one dispatchable: choose by --dispatchable from {names}; --html shows them all."
            raise click.UsageError(message)
        report = model.check(level)
        if not report:
            click.echo(f"{model.file}: not valid at {level}, so no values are read; see `anydml check`", err=True)
        pictures: list[Picture] = []
        for i, one in enumerate(chosen):
            if i and html is None:
                click.echo()
            if one.desc is None:
                report.raise_faults()
                raise click.UsageError(f"'{printable(one.name)}' is no operator, which a picture is of.")
            values = list(first_inputs(model, one, one.desc)) if report else []
            title = f"dispatchable '{one.name}'"
            drawn = partial(draw, one.desc, values, level, title)
            if html is None or len(chosen) == 1:
                show_picture(drawn, svg, html)
            else:
                pictures.append(checked(drawn))
        if pictures and html is not None:
            write_text(html, page(*pictures), "--html")

    params: list[click.Parameter] = [
        click.Option(["--dispatchable"], metavar="NAME", help="The one to show; all of them by default."),
        click.Option(
            ["--graph"],
            is_flag=True,
            help="Show all dispatches as one compiled graph: its passes over memory, and the memory traffic saved.",
        ),
        *_SCHEDULES,
        click.Option(["--allow-files", "allowed"], type=_FOLDER, multiple=True, help="A folder the model may use too."),
        click.Option(["--max-memory"], type=SIZE, help=MOST),
        *disable_passes_params(),
        *_DRAWINGS,
    ]
    text = (
        "Show the work of a DxDispatch model's dispatchables or, with --graph, all of its dispatches as one graph, and"
        " the memory traffic that is saved."
    )
    example = (
        "\b\nExamples:\n  anydml explain examples/models/slice1.json --dispatchable crop"
        "\n  anydml explain examples/models/slice1.json --graph --svg graph.svg"
    )
    return click.Command(str(path), callback=run, params=params, help=f"{text}\n\n{example}")


def _onnx_command(path: Path) -> click.Command:
    def run(
        inputs: tuple[str, ...],
        sizes: tuple[str, ...],
        max_memory: int | None,
        strict: bool,
        schedules: bool,
        engine: str | None,
        disable_passes: tuple[str, ...],
        feature_level: FeatureLevel | None,
        svg: str | None,
        html: str | None,
    ) -> None:
        from anydml.onnx import load
        from anydml.onnx.model import NoPassesError

        keep_model(path, svg=svg, html=html)
        _check_schedules(schedules, engine, svg, html)
        name = engine or "cpu" if schedules else "reference"
        device = Device(name, feature_level=feature_level or FeatureLevel.highest())
        options: dict[str, Any] = {"max_memory": max_memory, "strict": strict, "disable_passes": disable_passes}
        given = Given(inputs, sizes)
        model = load(path, device=device, shapes=given.shapes(), **options)
        values = given.arrays(lambda: model.inputs)
        shapes, assumed = model.assume_shapes(values)
        if assumed:
            tell_assumed(assumed, shapes)
        try:
            picture = model.explain(values)
        except NoPassesError as error:
            click.echo(str(error))
            return
        if schedules:
            click.echo(model.schedules)
        else:
            show_graph(picture, svg, html)

    params: list[click.Parameter] = [
        click.Option(["--shape", "sizes"], metavar="NAME=SIZES", multiple=True, help=SIZES),
        click.Option(["--input", "inputs"], metavar="[NAME=]FILE|NUMBERS", multiple=True, help=INPUTS),
        click.Option(["--max-memory"], type=SIZE, help=MOST),
        click.Option(["--strict"], is_flag=True, help=STRICT),
        *_SCHEDULES,
        *disable_passes_params(),
        *_DRAWINGS,
    ]
    text = "Show the graph that the nodes of an ONNX model become: the passes over memory that it takes."
    example = "\b\nExample:\n  anydml explain examples/models/crop.onnx --shape batch=3 --shape picks=2"
    return click.Command(str(path), callback=run, params=params, help=f"{text}\n\n{example}")
