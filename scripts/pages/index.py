"""The index of all operators: by family, with the function, a sentence, and the names and words to find it by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.operators import OPERATORS
from scripts.pages.families import families, page_of
from scripts.pages.operator import escape, names_of
from scripts.pages.running import function_of
from scripts.pages.wording import summary

if TYPE_CHECKING:
    from scripts.pages.families import Operator


def index_page(*, is_linked: bool) -> str:
    """The page; with links to the operators' own pages, which a site alone has."""
    lines = [
        "# Operators",
        "",
        f"All {len(OPERATORS)} operators of DirectML, by family. Each has a class, which is its description, and a",
        "function on arrays. `anydml support NAME` lists the types and dimension counts of each feature level, and",
        "`anydml explain NAME` draws an example.",
    ]
    if not is_linked:
        lines += ["", "Written by `python -m scripts.write_operators` from the descriptions themselves."]
    for title, classes in families().items():
        lines += ["", f"## {title}", "", "| operator | does | elsewhere |"]
        lines += ["| --- | --- | --- |", *(_row(cls, is_linked=is_linked) for cls in classes)]
    return "\n".join(lines) + "\n"


def _row(cls: Operator, *, is_linked: bool) -> str:
    names = names_of(cls)
    name = f"[{cls.type.name}]({page_of(cls)})" if is_linked else cls.type.name
    others = sorted({*names["words"], *names["webnn"]}, key=str.lower)
    nodes = f"ONNX {', '.join(names['onnx'])}; " if names["onnx"] else ""
    cells = (f"{name}<br>`{function_of(cls).__name__}`", escape(summary(cls)), escape(nodes + ", ".join(others)))
    return f"| {' | '.join(cells)} |".replace(";  |", " |")
