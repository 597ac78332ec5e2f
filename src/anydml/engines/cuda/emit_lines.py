"""The text of a kernel as it grows: line by line, with a name for each node that is computed."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.ir.expressions import Expr


class Lines:
    """Lines of Triton, and the names of what they compute."""

    def __init__(self, indent: str = "", *, is_turned: bool = False) -> None:
        self.names: dict[Expr, str] = {}
        self.lines: list[str] = []
        self.indent = indent
        self.fresh = itertools.count()
        # Of a tile of words the compiler gives neighbouring threads what lies along its first coordinate: where columns
        # do, the largest of 3 x 3 takes 45 us instead of 111.
        self.down, self.beside = ("[None, :]", "[:, None]") if is_turned else ("[:, None]", "[None, :]")
        self.sizes = "TILE.columns, TILE.rows" if is_turned else "TILE.rows, TILE.columns"

    def say(self, *lines: str) -> None:
        """Write lines."""
        self.lines += [self.indent + line for line in lines]

    def put(self, node: Expr, text: str) -> None:
        """Compute a node, under a name of its own."""
        name = f"v{next(self.fresh)}"
        self.say(f"{name} = {text}")
        self.names[node] = name

    def line(self, text: str) -> str:
        """A line, and the name of what it computes."""
        name = f"v{next(self.fresh)}"
        self.say(f"{name} = {text}")
        return name

    def taken_apart(self, name: str, count: int) -> list[str]:
        """The elements of words of so many, a power of two: a tile for each."""
        parts = {0: name}
        half = count
        while half > 1:  # into those at even places and at odd ones
            half //= 2
            last = f"{half}, 2" if half > 1 else "2"
            found = dict[int, str]()
            for place, part in parts.items():
                even, odd = (f"v{next(self.fresh)}" for _ in range(2))
                self.say(f"{even}, {odd} = tl.split(tl.reshape({part}, ({self.sizes}, {last})))")
                found |= {place: even, place + count // half // 2: odd}
            parts = found
        return [parts[place] for place in range(count)]


def put_together(results: Sequence[str]) -> str:
    """Tiles as one of words, whose last coordinates count from the one joined last on."""
    if len(results) == 1:
        return results[0]
    return f"tl.join({put_together(results[::2])}, {put_together(results[1::2])})"
