"""Helpers of every drawing: a window's outline among rows and columns of which some are left out, and clean text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.explain.picture import Grid

# What is no character, and what is one only to a terminal: control codes, halves of surrogates; and what turns the
# text after it around.
_UNWRITABLE = re.compile(
    "[^\t\n\u0020-\u007e\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


def clean(text: str) -> str:
    """Text that can be written anywhere: names come from files of strangers."""
    return _UNWRITABLE.sub("\ufffd", text)


class Outline(NamedTuple):
    """The positions, first and last, that a window takes among what is drawn of a dimension."""

    first: int
    last: int
    is_first_closed: bool
    """Whether the window begins there; otherwise it comes out of a part that is left out."""
    is_last_closed: bool

    def __contains__(self, position: object) -> bool:
        return isinstance(position, int) and self.first <= position <= self.last


def outline(drawn: Sequence[int | None], window: range) -> Outline | None:
    """Find a window among the rows or columns drawn; None where nothing of it is drawn."""
    inside = [position for position, index in enumerate(drawn) if index is not None and index in window]
    if not inside:
        return None
    first, last = inside[0], inside[-1]
    is_first_closed, is_last_closed = drawn[first] == window[0], drawn[last] == window[-1]
    # A window that goes on in a gap has the gap in it.
    first -= 0 if is_first_closed or first == 0 else 1
    last += 0 if is_last_closed or last == len(drawn) - 1 else 1
    return Outline(first, last, is_first_closed, is_last_closed)


def in_rows(grids: Sequence[Grid], widths: Sequence[float], between: float, most: float) -> list[list[int]]:
    """Which grids stand beside one another, by number: all of them where there is room, else outputs below inputs."""
    if sum(widths) + between * (len(widths) - 1) <= most:
        return [list(range(len(grids)))] if grids else []
    rows: list[list[int]] = []
    used = most
    for k, width in enumerate(widths):
        if used + between + width > most or has_arrow(grids, k):
            rows.append([k])
            used = width
        else:
            rows[-1].append(k)
            used += between + width
    return rows


def has_arrow(grids: Sequence[Grid], k: int) -> bool:
    """Whether a grid is the first of the outputs, to which an arrow leads from the inputs."""
    return k > 0 and grids[k].role == "output" != grids[k - 1].role
