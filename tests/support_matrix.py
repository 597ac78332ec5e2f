"""README's table of what is supported, written from the descriptions."""

from __future__ import annotations

from pathlib import Path

import anydml as dml
from anydml.operators.fields import dml_name
from anydml.operators.tables import write_counts, write_types

README = Path(__file__).parent.parent / "README.md"
OTHERS = {"IndicesTensor": "indices", "SequenceLengthsTensor": "lengths"}
"""Tensors that have types of their own."""
BEGIN, END = "<!-- support: begin -->\n", "<!-- support: end -->"


def table() -> str:
    """One line for each operator and level."""
    lines = ["| operator | from level | dimensions | data types |", "| --- | --- | --- | --- |"]
    for kind, cls in dml.OPERATORS.items():
        for row in sorted(cls.support, key=lambda row: row.level):
            target = next(row.tensors[dml_name(name)] for name in cls.output_names())
            text = write_types(target.data_types)
            text += "".join(
                f"; {what} {write_types(row.tensors[t].data_types)}" for t, what in OTHERS.items() if t in row.tensors
            )
            counts = write_counts(target.dimension_counts)
            lines.append(f"| {kind.name} | {row.level} | {counts} | {text} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":  # writes the table into README
    before, rest = README.read_text().split(BEGIN)
    README.write_text(before + BEGIN + table() + END + rest.split(END)[1])
