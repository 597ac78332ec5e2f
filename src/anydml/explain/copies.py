"""The tale of a strided copy: every output element is one input element, found by start and step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anydml.explain.picture import written
from anydml.explain.tale import Landing, Tale, Window, element_at, first_few
from anydml.explain.values import number_of, write_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anydml.explain.picture import Coordinate, Element
    from anydml.explain.values import Values
    from anydml.ir.verbs import Map
    from anydml.operators import OperatorDesc


class StridedTale(Tale):
    """Which element is copied where, and how its coordinate is computed."""

    def __init__(self, desc: OperatorDesc, primitive: Map, values: Mapping[str, Values]) -> None:
        self._primitive = primitive
        self._values = values[primitive.source.tensor]
        self._sizes = desc.tensors()[primitive.source.tensor].sizes
        target = primitive.target.sizes
        self._start = self._source((0,) * len(target)).coordinate
        self._steps = [self._step(k) for k in range(len(target))]
        given = desc.input_window()
        self._is_given = given is not None
        self._is_whole = not given and self._sizes == target and self._is_in_place()
        self.legend = (("marked", "copied, with the order in which it lands"),)
        count = math.prod(target)
        if self._is_whole:
            self.summary = f"copies every one of {count} elements to its own place"
            return
        start, sizes = given or self._reach()
        self.window = Window(primitive.source.tensor, tuple(start), tuple(sizes))
        self.summary = f"copies {count} of {math.prod(self._sizes)} elements"
        outline = "the input window" if given else "from the first to the last element copied"
        self.legend += (("window", outline),)

    def _is_in_place(self) -> bool:
        sizes = self._primitive.target.sizes
        return not any(self._start) and self._steps == [int(size > 1) for size in sizes]

    def _source(self, coordinate: Coordinate) -> Element:
        return element_at(self._primitive.source, coordinate, self._sizes)

    def _step(self, dimension: int) -> int | None:
        """How far one step leads in the same dimension of the source; None where it leads elsewhere, as it may."""
        size = self._primitive.target.sizes[dimension]
        if len(self._start) != len(self._primitive.target.sizes):
            return None
        if size == 1:
            return 0
        at = [0] * len(self._primitive.target.sizes)
        at[dimension] = 1
        moved = [a - b for a, b in zip(self._source(tuple(at)).coordinate, self._start, strict=True)]
        step = moved.pop(dimension)
        return None if any(moved) else step

    def _reach(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The smallest box around everything copied."""
        ends = self._source(tuple(size - 1 for size in self._primitive.target.sizes)).coordinate
        pairs = [(min(a, b), max(a, b)) for a, b in zip(self._start, ends, strict=True)]
        return tuple(low for low, _ in pairs), tuple(high - low + 1 for low, high in pairs)

    def landing(self, element: Element) -> Landing:
        """One element, moved."""
        coordinate = element.coordinate
        source = self._source(coordinate)
        value = write_value(self._values.at(source.coordinate))
        parts = [str(element), self._arithmetic(coordinate), str(source), value]
        number = number_of(coordinate, self._primitive.target.sizes) + 1
        return Landing(value, " = ".join(filter(None, parts)), (source,), badge=str(number), hue=1)

    def _arithmetic(self, coordinate: Coordinate) -> str:
        if self._is_whole or None in self._steps or not any(self._steps):
            return ""
        terms = [
            f"{start} {'-' if step < 0 else '+'} {abs(step)}*{i}" if step else str(start)
            for start, step, i in zip(self._start, self._steps, coordinate, strict=True)
            if step is not None
        ]
        return written(self._primitive.source.tensor, ()) + f"[{', '.join(terms)}]"

    def sentences(self, landings: Mapping[Element, Landing]) -> list[str]:
        """Where a walk from the end starts, then the first elements."""
        backwards = [
            f"dimension {k} is walked from the window's end, {start} + {size} - 1 = {self._start[k]}"
            for k, (start, size) in enumerate(self._spans())
            if start != self._start[k] == start + size - 1
        ]
        shown = [landing.says for landing in landings.values()]
        return backwards + first_few(shown, math.prod(self._primitive.target.sizes), "elements")

    def _spans(self) -> Iterator[tuple[int, int]]:
        if self._is_given and self.window is not None:
            yield from zip(self.window.start, self.window.sizes, strict=True)
