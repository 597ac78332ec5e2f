"""Grids of cells: which parts of a tensor are drawn, everything where it is small, and what belongs to what."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import TYPE_CHECKING

from anydml.core.errors import DescriptionError
from anydml.core.parse import read_int
from anydml.explain.picture import Cell, Element, Grid, Plane
from anydml.explain.values import coordinate_of, write_value
from anydml.operators.schema.fields import bare_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from anydml.arrays.tensor import TensorDesc
    from anydml.core.errors import Fault
    from anydml.explain.picture import Coordinate, Role
    from anydml.explain.tale import Landing, Tale, Window
    from anydml.explain.values import Values


# The parts that are drawn


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Limits:
    """The most that is drawn of a tensor. A picture takes as much memory as these say, whatever the tensor's size.

    Of what is too large less is drawn than of what just fits: of an output half of the most, of an input the elements
    that this half is made of and what is around them.
    """

    planes: int = 4
    rows: int = 8
    columns: int = 12
    tensors: int = 8
    """Of a field that holds several."""

    def __post_init__(self) -> None:
        faults: list[Fault] = []
        for one in fields(self):
            read_int(getattr(self, one.name), one.name, faults, low=1)
        if faults:
            raise DescriptionError("Limits", faults)


@dataclass(frozen=True, slots=True)
class Cut:
    """The planes, rows and columns of a tensor that are drawn."""

    sizes: tuple[int, ...]
    planes: tuple[Coordinate, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]

    def coordinate(self, plane: Coordinate, row: int, column: int) -> Coordinate:
        """The coordinate of a place in the drawing; tensors of fewer than two dimensions have one row or column."""
        last = (row, column)
        return plane + last[2 - min(len(self.sizes), 2) :] if self.sizes else ()

    def coordinates(self) -> list[Coordinate]:
        """Everything drawn, in order."""
        return [self.coordinate(*at) for at in itertools.product(self.planes, self.rows, self.columns)]

    @property
    def left_out(self) -> str:
        """The parts that are not drawn, in words; nothing where all are."""
        leading, rows, columns = matrix(self.sizes)
        parts = [
            f"{whole - drawn} of {whole} {what}"
            for what, whole, drawn in (
                ("planes", math.prod(leading), len(self.planes)),
                ("rows", rows, len(self.rows)),
                ("columns" if len(self.sizes) > 1 else "elements", columns, len(self.columns)),
            )
            if drawn < whole
        ]
        return ", ".join(parts)


def matrix(sizes: Sequence[int]) -> tuple[tuple[int, ...], int, int]:
    """Sizes as planes, rows and columns."""
    padded = (1, 1, *sizes)
    return tuple(sizes[:-2]), padded[-2], padded[-1]


def with_gaps(drawn: Sequence[int], size: int) -> tuple[int | None, ...]:
    """The rows or columns drawn, with None wherever some are left out."""
    found: list[int | None] = []
    expected = 0
    for index in drawn:
        found += [None, index] if index != expected else [index]
        expected = index + 1
    return (*found, None) if expected != size else tuple(found)


def _first(wanted: Iterable[int], size: int, most: int, chosen: Iterable[int] = ()) -> tuple[int, ...]:
    """The first of these that lie in a dimension, after those chosen already, up to a number of them."""
    found = dict.fromkeys(chosen)
    for index in wanted:
        if len(found) >= most:
            break
        if 0 <= index < size:
            found[index] = None
    return tuple(sorted(found))


_NO_MARKS: Mapping[int, Sequence[int]] = MappingProxyType({})


def cut_output(
    sizes: Sequence[int],
    limits: Limits,
    axis: int | None,
    reverse: bool,
    marks: Mapping[int, Sequence[int]] = _NO_MARKS,
) -> Cut:
    """The beginning of an output, and the end where it is made by copying; of some dimensions, what is marked there.

    A running sum is shown from where its walk along the axis begins: every element then has few parts.
    """

    def choose(dimension: int, size: int, most: int) -> tuple[int, ...]:
        if size <= most:
            return tuple(range(size))
        part = max(1, most // 2)
        if axis == dimension:
            return tuple(range(size - part, size)) if reverse else tuple(range(part))
        if dimension in marks:
            return _first((*marks[dimension], *range(part)), size, part)
        return (*range(part - 1), size - 1) if axis is None and part > 1 else tuple(range(part))

    leading, rows, columns = matrix(sizes)
    rank = len(sizes)
    planes = _first_planes(leading, limits.planes, axis if axis is not None and axis < rank - 2 else None, reverse)
    for dimension, places in marks.items():
        if dimension < len(leading) and len(planes) < math.prod(leading):
            along = _first(places, leading[dimension], len(planes))
            planes = tuple(tuple(at if k == dimension else 0 for k in range(len(leading))) for at in along)
    return Cut(tuple(sizes), planes, choose(rank - 2, rows, limits.rows), choose(rank - 1, columns, limits.columns))


def _first_planes(leading: tuple[int, ...], most: int, axis: int | None, reverse: bool) -> tuple[Coordinate, ...]:
    """The first planes, those along the axis of a walk before others."""
    whole = math.prod(leading)
    count = whole if whole <= most else max(1, most // 2)
    if axis is None or count == whole:
        return tuple(coordinate_of(n, leading) for n in range(count))
    turned = (*leading[:axis], *leading[axis + 1 :], leading[axis])
    found = []
    for n in range(count):
        *others, along = coordinate_of(n, turned)
        along = leading[axis] - 1 - along if reverse else along
        found.append((*others[:axis], along, *others[axis:]))
    return tuple(sorted(found))


def cut_input(sizes: Sequence[int], limits: Limits, used: Sequence[Coordinate], corners: Sequence[Coordinate]) -> Cut:
    """The elements that the drawn output is made of, then the corners of the window, then what is around them."""
    leading, rows, columns = matrix(sizes)

    def choose(place: int, size: int, most: int) -> tuple[int, ...]:
        if size <= most:
            return tuple(range(size))
        own = [(0, 0, *c)[place] for c in used]
        edges = [(0, 0, *c)[place] for c in corners]
        first = own[:1] or [0]
        around = (first[0] - 1, first[0] + 1, 0, size - 1, *range(first[0] + 2, first[0] + 2 + most), *range(most))
        return _first(around, size, max(1, most * 3 // 4), _first((*own, *edges), size, most))

    if math.prod(leading) <= limits.planes:
        planes: Iterable[Coordinate] = (coordinate_of(n, leading) for n in range(math.prod(leading)))
    else:
        ordered = dict.fromkeys(c[:-2] for c in used) or {coordinate_of(0, leading): None}
        planes = sorted(itertools.islice(ordered, limits.planes))
    return Cut(tuple(sizes), tuple(planes), choose(-2, rows, limits.rows), choose(-1, columns, limits.columns))


def choose_outputs(names: Sequence[str], limits: Limits) -> list[str]:
    """The first of several outputs, and the last."""
    if len(names) <= limits.tensors:
        return list(names)
    part = max(1, limits.tensors // 2)
    return [*names[: part - 1], names[-1]] if part > 1 else list(names[:1])


def choose_inputs(names: Sequence[str], used: Sequence[str], limits: Limits) -> list[str]:
    """Of a field with more tensors than are drawn, those that the drawn output is made of."""
    counts = Counter(map(bare_name, names))
    chosen: dict[str, list[str]] = {field: [] for field in counts}
    for name in used if max(counts.values(), default=0) > limits.tensors else names:
        if len(chosen[bare_name(name)]) < limits.tensors:
            chosen[bare_name(name)].append(name)
    return [name for name in names if name in chosen[bare_name(name)]]


# The grids


_MOST_NAMED = 3


class Scene:
    """The output elements that are drawn, and through them what becomes of every input element."""

    def __init__(self, tale: Tale, landings: Mapping[Element, Landing], *, is_whole: bool) -> None:
        self.tale, self.landings = tale, landings
        is_told = not any(landing.is_cut for landing in landings.values())
        self._unused = ("is not used" if is_whole else "goes to no element shown") if is_told else ""
        self._outputs: dict[Element, list[Element]] = defaultdict(list)
        self._chosen: dict[Element, list[Element]] = defaultdict(list)
        self._compared: dict[Element, list[Element]] = defaultdict(list)
        for element, landing in landings.items():
            for found, used in (
                (self._outputs, landing.sources),
                (self._chosen, landing.chosen_by),
                (self._compared, landing.compared),
            ):
                for source in used:
                    found[source].append(element)

    def used(self, tensor: str) -> list[Coordinate]:
        """The elements of an input that the drawn output needs, in the order in which they are needed."""
        return [element.coordinate for element in self._all() if element.tensor == tensor]

    def tensors(self) -> dict[str, None]:
        """The inputs that the drawn output needs, in the order in which they are needed."""
        return dict.fromkeys(element.tensor for element in self._all())

    def _all(self) -> Iterator[Element]:
        return itertools.chain(self._outputs, self._chosen, self._compared)

    def output_cell(self, element: Element) -> Cell:
        """An output element."""
        landing = self.landings[element]
        return Cell(
            element,
            landing.value,
            landing.says,
            landing.badge,
            landing.hue,
            landing.sources,
            landing.chosen_by,
            landing.is_fault,
            landing.compared,
        )

    def input_cell(self, element: Element, values: Values) -> Cell:
        """An input element, marked by the output elements that it goes to."""
        value = write_value(values.at(element.coordinate))
        outputs, chosen = self._outputs[element], self._chosen[element]
        landings = [self.landings[one] for one in (*outputs, *chosen)]
        is_fault = any(landing.is_fault for landing in landings)
        landings = [self.landings[one] for one in outputs]
        landings += [landing for one in chosen if (landing := self.landings[one]).marks_chosen]
        landings = [landing for landing in landings if landing.marked in (None, element)]
        badges = list(dict.fromkeys(landing.badge for landing in landings if landing.badge))
        badge = ",".join(badges[:2]) + ("…" if len(badges) > 2 else "")
        hue = next((landing.hue for landing in landings if landing.hue), 0)
        ways = (
            (self.tale.verb, outputs),
            ("leaves unwritten" if is_fault else self.tale.decides, chosen),
            ("is compared for", self._compared[element]),
        )
        says = "; ".join(f"{verb} {_few(several)}" for verb, several in ways if several) or self._unused
        return Cell(element, value, f"{element} = {value} {says}".rstrip(), badge, hue, is_fault=is_fault)


def _few(elements: Sequence[Element]) -> str:
    more = len(elements) - _MOST_NAMED
    named = ", ".join(map(str, elements[:_MOST_NAMED]))
    return f"{named} and {more} more" if more > 0 else named


def draw_grid(tensor: str, desc: TensorDesc, role: Role, cut: Cut, tale: Tale, cell: Callable[[Element], Cell]) -> Grid:
    """Lay a tensor out in planes."""
    leading, row_count, column_count = matrix(cut.sizes)
    rows, columns = with_gaps(cut.rows, row_count), with_gaps(cut.columns, column_count)
    planes = tuple(
        Plane(
            plane,
            f"[{','.join(map(str, plane))},:,:]" if leading else "",
            tuple(
                tuple(
                    None if r is None or c is None else cell(Element(tensor, cut.coordinate(plane, r, c)))
                    for c in columns
                )
                for r in rows
            ),
            window_in(tale.window, tensor, plane),
        )
        for plane in cut.planes
    )
    rank = len(cut.sizes)
    return Grid(
        tensor,
        role,
        desc.data_type.name,
        desc.sizes,
        rows,
        columns,
        planes,
        has_row_numbers=rank > 1,
        left_out=cut.left_out,
        arrow=arrow_of(tale, rank),
    )


def window_in(window: Window | None, tensor: str, plane: Coordinate) -> tuple[range, range] | None:
    """The window's rows and columns, where it reaches a plane."""
    if window is None or window.tensor != tensor:
        return None
    spans = [range(start, start + size) for start, size in zip(window.start, window.sizes, strict=True)]
    if not all(c in span for c, span in zip(plane, spans, strict=False)):
        return None
    rows, columns = [range(1), range(1), *spans][-2:]
    return rows, columns


def arrow_of(tale: Tale, rank: int) -> str:
    """The direction of a walk within a plane."""
    if tale.axis == rank - 1:
        return "←" if tale.reverse else "→"
    if tale.axis == rank - 2:
        return "↑" if tale.reverse else "↓"
    return ""
