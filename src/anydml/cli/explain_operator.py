"""`anydml explain OPERATOR`: the picture of a description that options make, or of the documented example."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from anydml.cli.describe import describe
from anydml.cli.explain_examples import example_of
from anydml.cli.options import options_of
from anydml.cli.showing import draw, show_picture
from anydml.enums import FeatureLevel
from anydml.operators.fields import dml_name
from anydml.operators.meanings import choices_of, meaning_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.operators import OperatorDesc

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
        return super().parse_args(ctx, args)


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

    what = (cls.__doc__ or "").strip().splitlines()[0]
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
