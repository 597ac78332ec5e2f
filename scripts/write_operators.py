"""Write `docs/operators.md`: every operator, what it does, its function, and what it takes at each feature level.

python -m scripts.write_operators
"""

from __future__ import annotations

import inspect
from pathlib import Path

import anydml as dml
from anydml.functions import function_names
from anydml.functions.derived import function_name
from anydml.operators import OPERATORS
from anydml.operators.tables import write_counts, write_types

PAGE = Path(__file__).parent.parent / "docs" / "operators.md"


def page() -> str:
    """The page, as the descriptions have it."""
    lines = [
        "# Operators",
        "",
        f"The {len(OPERATORS)} operators of this version. A row holds from its level upward, until a higher one",
        "replaces it; tensors without a line of their own take the types of the first.",
        "",
        "Written by `python -m scripts.write_operators` from the descriptions themselves.",
    ]
    for kind in sorted(OPERATORS, key=lambda kind: kind.name):
        lines += ["", f"## {kind.name}", "", *_operator(OPERATORS[kind])]
    return "\n".join(lines) + "\n"


def _operator(cls: type[dml.OperatorDesc]) -> list[str]:
    text = inspect.cleandoc(cls.__doc__ or "").replace("|", "\\|").split("\n\n")
    name = function_name(cls.type)
    function = getattr(dml, name) if name in function_names() else None
    arguments = ", ".join(inspect.signature(function).parameters) if function else ""
    call = f"`dml.{name}({arguments})`" if function else ""
    rows = ["| from level | dimensions | data types |", "| --- | --- | --- |"]
    for row in sorted(cls.support, key=lambda row: (row.functions, row.level)):
        tensors: dict[str, list[str]] = {}
        for name, tensor in row.tensors.items():
            tensors.setdefault(write_types(tensor.data_types), []).append(name)
        first, *others = tensors
        types = "; ".join([first, *(f"{', '.join(tensors[text])}: {text}" for text in others)])
        counts = write_counts(next(iter(row.tensors.values())).dimension_counts)
        level = f"{row.level}, {', '.join(row.functions)}" if row.functions else str(row.level)
        rows.append(f"| {level} | {counts} | {types} |")
    head = [f"`dml.{cls.__name__}`{' · ' + call if call else ''}{' · in place' if cls.in_place else ''}"]
    return [*head, "", *[part for one in text for part in (one, "")], *rows]


if __name__ == "__main__":
    PAGE.write_text(page())
