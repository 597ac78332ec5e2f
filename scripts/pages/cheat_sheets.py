"""The tables of the pages "coming from ...": names of other libraries, from the operators' own data.

A page asks for one by `<!-- table: numpy -->`, `<!-- table: names relu6 conv2d -->` or `<!-- table: onnx -->`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

import anydml as dml
from anydml.api.unknown import instead_of
from anydml.operators import OPERATORS
from scripts.pages.families import page_of
from scripts.pages.operator import link_to_node, names_of
from scripts.pages.running import function_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

_TABLE = re.compile(r"^<!-- table: (\w+)([\w ]*) -->$", re.MULTILINE)


def fill_tables(markdown: str) -> str:
    """A page with its tables in their places."""
    return _TABLE.sub(lambda found: "\n".join(_table(found[1], found[2].split())), markdown)


def same_names(module: ModuleType) -> list[str]:
    """The functions that a library and anydml have by the same name."""
    ours = (name for name in dml.__all__ if name.islower() and callable(getattr(dml, name)))
    return sorted(name for name in ours if _is_function(module, name))


def other_names(module: ModuleType) -> list[str]:
    """The functions of a library that anydml has by another name."""
    others = (name for name in dir(module) if not hasattr(dml, name) and instead_of(name))
    return sorted(name for name in others if _is_function(module, name))


def _is_function(module: ModuleType, name: str) -> bool:
    found = getattr(module, name, None)
    is_public = not name.startswith("_") and not name.endswith("_")  # relu_ is relu in place
    return is_public and callable(found) and not isinstance(found, type) and not hasattr(dml.DataType, name.upper())


def _table(kind: str, names: list[str]) -> Iterator[str]:
    if kind == "onnx":
        yield from _nodes()
        return
    yield "| there | here |\n| --- | --- |"
    for name in other_names(np) if kind == "numpy" else names:
        way_out = instead_of(name).removeprefix("use ")
        yield f"| `{name}` | {_shown(way_out)} |"


def _shown(way_out: str) -> str:
    """Code as code, and words as words."""
    return way_out if re.search(r"\w, | of |, or | as ", re.sub(r"\(.*\)", "", way_out)) else f"`{way_out}`"


def _nodes() -> Iterator[str]:
    """Every ONNX node type that is an operator of DirectML's, and which one."""
    found: dict[str, list[str]] = {}
    for cls in OPERATORS.values():
        for node in names_of(cls)["onnx"]:
            page = f"[{cls.type.name}](../operators/{page_of(cls)})"
            found.setdefault(node, []).append(f"{page} `{function_of(cls).__name__}`")
    yield "| node | operators |\n| --- | --- |"
    for node, operators in sorted(found.items(), key=lambda one: one[0].lower()):
        yield f"| {link_to_node(node)} | {', '.join(operators)} |"
