"""Grids of cells: what is drawn of each tensor, and what belongs to what."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from anydml.explain.cut import matrix, with_gaps
from anydml.explain.picture import Cell, Element, Grid, Plane
from anydml.explain.values import write_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.explain.cut import Cut
    from anydml.explain.picture import Coordinate, Role
    from anydml.explain.tale import Landing, Tale, Window
    from anydml.explain.values import Values
    from anydml.tensor import TensorDesc

_MOST_NAMED = 3


class Scene:
    """The output elements that are drawn, and through them what becomes of every input element."""

    def __init__(self, tale: Tale, landings: Mapping[Element, Landing], *, is_whole: bool) -> None:
        self.tale, self.landings = tale, landings
        is_told = not any(landing.is_cut for landing in landings.values())
        self._unused = ("is not used" if is_whole else "goes to no element shown") if is_told else ""
        self._outputs: dict[Element, list[Element]] = defaultdict(list)
        self._chosen: dict[Element, list[Element]] = defaultdict(list)
        for element, landing in landings.items():
            for source in landing.sources:
                self._outputs[source].append(element)
            for index in landing.chosen_by:
                self._chosen[index].append(element)

    def used(self, tensor: str) -> list[Coordinate]:
        """The elements of an input that the drawn output needs, in the order in which they are needed."""
        return [element.coordinate for element in (*self._outputs, *self._chosen) if element.tensor == tensor]

    def tensors(self) -> dict[str, None]:
        """The inputs that the drawn output needs, in the order in which they are needed."""
        return dict.fromkeys(element.tensor for element in (*self._outputs, *self._chosen))

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
        )

    def input_cell(self, element: Element, values: Values) -> Cell:
        """An input element, marked by the output elements that it goes to."""
        value = write_value(values.at(element.coordinate))
        outputs, chosen = self._outputs[element], self._chosen[element]
        landings = [self.landings[one] for one in (*outputs, *chosen)]
        badges = list(dict.fromkeys(landing.badge for landing in landings if landing.badge))
        badge = ",".join(badges[:2]) + ("…" if len(badges) > 2 else "")
        hue = next((landing.hue for landing in landings if landing.hue), 0)
        verb = self.tale.verb if outputs else "helps to choose"
        named = ", ".join(map(str, (*outputs, *chosen)[:_MOST_NAMED]))
        more = len(landings) - _MOST_NAMED
        says = f"{verb} {named}{f' and {more} more' if more > 0 else ''}" if landings else self._unused
        is_fault = any(landing.is_fault for landing in landings)
        return Cell(element, value, f"{element} = {value} {says}".rstrip(), badge, hue, is_fault=is_fault)


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
