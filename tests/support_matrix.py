"""README's table of what is supported, written from the descriptions."""

from __future__ import annotations

from pathlib import Path

import anydml as dml
from anydml.operators.tables import write_counts, write_types

README = Path(__file__).parent.parent / "README.md"
BEGIN, END = "<!-- support: begin -->\n", "<!-- support: end -->"


def table() -> str:
    """One line for each operator and level."""
    lines = ["| operator | from level | dimensions | data types |", "| --- | --- | --- | --- |"]
    for kind, cls in dml.OPERATORS.items():
        for row in sorted(cls.support, key=lambda row: row.level):
            types = {name: support.data_types for name, support in row.tensors.items()}
            text = write_types(types.pop("InputTensor"))
            text += "".join(f"; indices {write_types(t)}" for name, t in types.items() if name == "IndicesTensor")
            counts = write_counts(row.tensors["InputTensor"].dimension_counts)
            lines.append(f"| {kind.name} | {row.level} | {counts} | {text} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":  # writes the table into README
    before, rest = README.read_text().split(BEGIN)
    README.write_text(before + BEGIN + table() + END + rest.split(END)[1])
