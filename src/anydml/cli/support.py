"""`anydml support`: the support matrix, from the descriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from anydml.cli.console import print_table, write_json
from anydml.cli.types import LEVEL, OPERATOR
from anydml.operators import OPERATORS
from anydml.operators.tables import write_counts, write_types

if TYPE_CHECKING:
    from anydml.enums import FeatureLevel
    from anydml.operators import LevelSupport, OperatorDesc


@click.command()
@click.argument("operator", type=OPERATOR, required=False)
@click.option("--feature-level", "level", type=LEVEL, help="What this level has, instead of every row.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def support(operator: type[OperatorDesc] | None, level: FeatureLevel | None, as_json: bool) -> None:
    """Which types and dimension counts each operator takes, from which feature level on.

    A row holds from its level upward, until a higher row replaces it.

    \b
    Example:
      anydml support slice1 --feature-level 2_1
    """
    chosen = [operator] if operator else list(OPERATORS.values())
    found = [(cls, row) for cls in chosen for row in _rows(cls, level)]
    if as_json:
        write_json([_as_data(cls, row) for cls, row in found])
        return
    table = Table("operator", "from level", "tensor", "dimensions", "data types", box=None, header_style="bold")
    for cls, row in found:
        first = (" ".join([cls.type.name, *row.functions]), str(row.level))
        for tensor, allowed in row.tensors.items():
            table.add_row(*first, tensor, write_counts(allowed.dimension_counts), write_types(allowed.data_types))
            first = ("", "")
    missing = [cls for cls in chosen if level is not None and level < cls.introduced()]
    if found:
        print_table(table)
    for cls in missing:
        click.echo(f"{cls.type.name} needs {cls.introduced().dml_name}")


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
