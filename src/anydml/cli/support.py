"""`anydml support`: the support matrix, from the descriptions."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from anydml.cli.console import print_table, write_json
from anydml.cli.types import LEVEL, OPERATOR
from anydml.core.display import counted
from anydml.core.enum_parsing import suggest
from anydml.core.errors import show
from anydml.operators import OPERATORS
from anydml.operators.schema.facts import write_counts, write_types

if TYPE_CHECKING:
    from anydml.core.enums import FeatureLevel
    from anydml.operators import LevelSupport, OperatorDesc


@click.command()
@click.argument("name", metavar="[OPERATOR]", required=False, shell_complete=OPERATOR.shell_complete)
@click.option("--feature-level", "level", type=LEVEL, help="Show only the row that holds at this level.")
@click.option(
    "--onnx",
    is_flag=True,
    help="List the ONNX node types that run on these operators; with a word, those that have it in their name.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
@click.pass_context
def support(ctx: click.Context, name: str | None, level: FeatureLevel | None, onnx: bool, as_json: bool) -> None:
    """List the operators, and the types and dimensions that each takes.

    Without an operator there is a line for each: the level that it appeared at, its dimension counts and the data
    types of its first tensor at the highest level. With one there are all of its rows: a row holds from its level
    upward, until a higher row replaces it.

    \b
    Examples:
      anydml support
      anydml support slice1 --feature-level 2_1
      anydml support --onnx gather
    """
    if onnx:
        _show_nodes(name, as_json=as_json)
        return
    operator = None if name is None else OPERATOR(name, ctx.command.params[0], ctx)
    chosen = [operator] if operator else list(OPERATORS.values())
    found = [(cls, row) for cls in chosen for row in _rows(cls, level)]
    if as_json:
        write_json([_as_data(cls, row) for cls, row in found])
        return
    missing = [cls for cls in chosen if level is not None and level < cls.introduced()]
    if operator is None:
        _show_all([cls for cls in chosen if cls not in missing], level)
        if missing:
            click.echo(f"{len(missing)} operators need a higher feature level than {level}")
        return
    table = Table("operator", "from level", "tensor", "dimensions", "data types", box=None, header_style="bold")
    for cls, row in found:
        first = (" ".join([cls.type.name, *row.functions]), str(row.level))
        for tensor, allowed in row.tensors.items():
            table.add_row(*first, tensor, write_counts(allowed.dimension_counts), write_types(allowed.data_types))
            first = ("", "")
    if found:
        print_table(table)
    for cls in missing:
        click.echo(f"{cls.type.name} needs {cls.introduced().dml_name}")


def _show_all(chosen: list[type[OperatorDesc]], level: FeatureLevel | None) -> None:
    """A line an operator, within 80 columns."""
    table = Table("operator", "since", "dimensions", "types", box=None, header_style="bold", pad_edge=False)
    for cls in sorted(chosen, key=lambda cls: cls.type.name):
        rows = _rows(cls, level)
        last = [row for row in rows if row.level == max(row.level for row in rows)]
        tensors = [next(iter(row.tensors.values())) for row in last]
        counts = sorted({count for one in tensors for count in one.dimension_counts})
        types = {one for tensor in tensors for one in tensor.data_types}
        word = f"{len(types)} types" if len(types) > 2 else write_types(frozenset(types))
        table.add_row(cls.type.name, str(cls.introduced()), write_counts(tuple(counts)), word)
    print_table(table)
    click.echo(f"{len(chosen)} operators; `anydml support NAME` has all rows of one")


def _show_nodes(word: str | None, *, as_json: bool) -> None:
    """The types of ONNX nodes that have a word in their name, within 80 columns."""
    from anydml.onnx.lower.registry import lowered_kinds

    known = lowered_kinds()
    names = sorted((name for name in known if (word or "").lower() in name.lower()), key=str.lower)
    if not names:
        way_out = suggest(word, known) or "one that ONNX defines may run on the host: see `anydml check MODEL.onnx`"
        message = f"none of the {len(known)} types of nodes has {show(word)} in its name; {way_out}"
        raise click.BadParameter(message, param_hint="'--onnx'")
    if as_json:
        write_json(names)
        return
    click.echo(textwrap.fill(", ".join(names), 80))
    click.echo(f"{counted(len(names), 'type')} of nodes; `anydml check MODEL.onnx` says which of its nodes run")


def _rows(cls: type[OperatorDesc], level: FeatureLevel | None) -> list[LevelSupport]:
    if level is None:
        return sorted(cls.support, key=lambda row: (row.functions, row.level))
    return cls.support.rows_at(level) if level >= cls.introduced() else []


def _as_data(cls: type[OperatorDesc], row: LevelSupport) -> dict[str, Any]:
    tensors = {
        name: {
            "dimension_counts": list(allowed.dimension_counts),
            "data_types": sorted(t.name for t in allowed.data_types),
        }
        for name, allowed in row.tensors.items()
    }
    functions = {"functions": list(row.functions)} if row.functions else {}
    return {"operator": cls.type.dml_name, **functions, "feature_level": str(row.level), "tensors": tensors}
