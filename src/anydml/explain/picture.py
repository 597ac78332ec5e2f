"""A picture of what an operator does, as frozen data: made once, drawn as text, SVG or HTML."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from anydml.core.late_imports import import_alone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.core.errors import DmlError

Coordinate: TypeAlias = tuple[int, ...]
Role: TypeAlias = Literal["input", "output"]


class Element(NamedTuple):
    """One element of one tensor, by its coordinate among the dimensions that count."""

    tensor: str
    """DirectML's name: `InputTensor`."""
    coordinate: Coordinate

    def __str__(self) -> str:
        return written(self.tensor, self.coordinate)


def written(tensor: str, coordinate: tuple[object, ...]) -> str:
    """Write a place of a tensor: `input[0,0,1,3]`, `output[1,:]`, `inputs[2][0]`.

    A tensor of no dimensions is its only element.
    """
    name = spoken(tensor)
    return f"{name}[{','.join(map(str, coordinate))}]" if coordinate else name


def spoken(tensor: str) -> str:
    """A tensor's name in a sentence: `input`, `sequence_lengths`, `inputs[2]`."""
    field, bracket, place = tensor.partition("[")
    stem, _, plural = field.rpartition("Tensor")
    name = re.sub("(?<=[a-z])(?=[A-Z])|(?<=^[AB])(?=[A-Z])", "_", stem or field).lower()
    return name + plural * bool(stem) + bracket + place


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Cell:
    """An element as it is drawn."""

    element: Element
    value: str
    says: str
    """Its destination or its origin, as a sentence."""
    badge: str = ""
    """The order in which it lands, or the number of the tuple that picks it."""
    hue: int = 0
    """Elements that belong together have the same, from 1 to 6; 0 is for those that nothing happens to."""
    sources: tuple[Element, ...] = ()
    """Of an output element: the input elements that it is computed from, in the order in which they are taken."""
    chosen_by: tuple[Element, ...] = ()
    """Of an output element: those that decide what it is computed from: indices, conditions, numbers past a limit."""
    is_fault: bool = False
    """An index outside its dimension, or an element that such an index leaves unwritten."""
    compared: tuple[Element, ...] = ()
    """Of an output element: those that were looked at and lost: another number there could have led elsewhere."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Plane:
    """Rows and columns at one place of the leading dimensions; None stands for what is left out."""

    leading: Coordinate
    name: str
    """`[0,1,:,:]`, or nothing where there is one plane and no other."""
    cells: tuple[tuple[Cell | None, ...], ...]
    window: tuple[range, range] | None = None
    """The rows and columns that the operator considers, in coordinates."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Grid:
    """A tensor, or as much of it as is drawn."""

    tensor: str
    role: Role
    data_type: str
    sizes: tuple[int, ...]
    rows: tuple[int | None, ...]
    """The rows drawn, by coordinate, None for a gap; one row for tensors of one dimension."""
    columns: tuple[int | None, ...]
    planes: tuple[Plane, ...]
    has_row_numbers: bool
    left_out: str = ""
    """The part that is not drawn: `8 of 16 rows`."""
    arrow: str = ""
    """The direction of a walk along the rows or the columns: → ← ↓ or ↑."""

    @property
    def caption(self) -> str:
        """The tensor as the documents write it: `InputTensor {1,1,4,4} FLOAT32`."""
        return f"{self.tensor} {{{','.join(map(str, self.sizes))}}} {self.data_type}"

    def cells(self) -> Iterator[Cell]:
        """Every element drawn."""
        for plane in self.planes:
            for row in plane.cells:
                yield from (cell for cell in row if cell is not None)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Picture:
    """The work of an operator on the elements of its tensors.

    `print(picture)` writes it; `.svg()` and `.html()` draw it, and a notebook shows it by itself. For a description
    that is not valid there is nothing to draw: `error` holds its faults, and every drawing says them.
    """

    operator: str
    title: str = ""
    """The owner of the description, such as a dispatchable's name."""
    fields: tuple[tuple[str, str], ...] = ()
    """The attributes, by DirectML's names."""
    summary: str = ""
    grids: tuple[Grid, ...] = ()
    """The inputs in binding order, then the outputs."""
    legend: tuple[tuple[str, str], ...] = ()
    """The meaning of the marks: kind of mark (`marked`, `window`) and words."""
    sentences: tuple[str, ...] = ()
    """The arithmetic of the first few elements."""
    notes: tuple[str, ...] = ()
    """Values that were made up, parts that were left out, and remarks."""
    error: DmlError | None = field(default=None)

    def text(self, width: int = 100) -> str:
        """The picture for a terminal, without colour; grids that do not fit beside one another stand below."""
        import_alone("anydml.explain.text")
        from anydml.explain.text import plain

        return plain(self, width)

    def svg(self, width: int = 1100) -> str:
        """The picture as a standalone SVG document, light or dark as its reader's system is.

        It is at most so wide, where its grids allow: those that do not fit beside one another stand below.
        """
        import_alone("anydml.explain.svg")
        from anydml.explain.svg import draw

        return draw(self, width)

    def html(self) -> str:
        """The picture as a page of its own, in which pointing at an element lights those that belong to it."""
        import_alone("anydml.explain.html")
        from anydml.explain.html import page

        return page(self)

    def _repr_html_(self) -> str:
        """The picture in a notebook."""
        import_alone("anydml.explain.html")
        from anydml.explain.html import fragment

        return fragment(self)

    def __str__(self) -> str:
        return self.text()
