"""The text of a kernel as it grows: line by line, with a name for each node that is computed."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anydml.ir.expressions import Expr


class Lines:
    """Lines of Triton, and the names of what they compute."""

    def __init__(self, indent: str = "") -> None:
        self.names: dict[Expr, str] = {}
        self.lines: list[str] = []
        self.indent = indent
        self.fresh = itertools.count()

    def say(self, *lines: str) -> None:
        """Write lines."""
        self.lines += [self.indent + line for line in lines]

    def put(self, node: Expr, text: str) -> None:
        """Compute a node, under a name of its own."""
        name = f"v{next(self.fresh)}"
        self.say(f"{name} = {text}")
        self.names[node] = name
