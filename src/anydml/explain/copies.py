"""Tales of copies: a strided one, by start and step, and several, which join tensors or split one."""

from __future__ import annotations

import bisect
import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

from anydml.explain.picture import Element, written
from anydml.explain.tale import HUES, MOST_SENTENCES, Landing, Tale, Window, element_at, first_few
from anydml.explain.values import coordinate_of, number_of, write_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anydml.explain.picture import Coordinate
    from anydml.explain.values import Values
    from anydml.ir.verbs import Map
    from anydml.operators import OperatorDesc


class CopyTale(Tale):
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


# Joins and splits


class _Part(NamedTuple):
    """One copy: as many elements of a tensor as another has, from a place of each on."""

    source: str
    source_start: Coordinate
    target: str
    target_start: Coordinate
    sizes: tuple[int, ...]


class JoinTale(Tale):
    """Which tensor is which part."""

    def __init__(self, desc: OperatorDesc, primitives: Sequence[Map], values: Mapping[str, Values]) -> None:
        self._values = values
        self._tensors = {name: tensor.sizes for name, tensor in desc.tensors().items()}
        self._parts = [
            _Part(
                one.source.tensor,
                coordinate_of(one.source.offset, self._tensors[one.source.tensor]),
                one.target.tensor,
                coordinate_of(one.target.offset, self._tensors[one.target.tensor]),
                one.target.sizes,
            )
            for one in primitives
        ]
        last = self._parts[-1]
        self._joins = last.source != self._parts[0].source
        starts = [part.target_start if self._joins else part.source_start for part in self._parts]
        self._axis = next(k for k, start in enumerate(starts[1]) if start)
        self._starts = [start[self._axis] for start in starts]
        self._by_target = {part.target: number for number, part in enumerate(self._parts)}
        sizes = [part.sizes[self._axis] for part in self._parts]
        if self._joins:
            self.marks = {self._axis: _around(self._starts, sizes)}
        self.summary = self._summary(sizes)
        field = (self._parts[0].source if self._joins else self._parts[0].target).partition("[")[0]
        self.legend = (("marked", f"copied, with the number of its tensor among {field}"),)

    def _summary(self, sizes: Sequence[int]) -> str:
        few = sizes if len(sizes) <= MOST_SENTENCES else [*sizes[: MOST_SENTENCES - 1], "…"]
        terms, total = " + ".join(map(str, few)), sum(sizes)
        if self._joins:
            return f"puts {len(sizes)} tensors one after the other along dimension {self._axis}: {terms} = {total}"
        return f"takes a tensor apart along dimension {self._axis} into {len(sizes)}: {total} = {terms}"

    def landing(self, element: Element) -> Landing:
        """One element, moved."""
        number, at = self._by_target[element.tensor], element.coordinate
        if self._joins:
            number = bisect.bisect_right(self._starts, at[self._axis]) - 1
        part = self._parts[number]
        moves = [a - b for a, b in zip(part.source_start, part.target_start, strict=True)]
        source = Element(part.source, tuple(c + move for c, move in zip(at, moves, strict=True)))
        value = write_value(self._values[part.source].at(source.coordinate))
        terms = [f"{c} {'-' if m < 0 else '+'} {abs(m)}" if m else str(c) for c, m in zip(at, moves, strict=True)]
        computed = f"{written(part.source, ())}[{', '.join(terms)}]" if any(moves) else ""
        says = " = ".join(filter(None, (str(element), computed, str(source), value)))
        return Landing(value, says, (source,), badge=str(number), hue=1 + number % HUES)

    def sentences(self, landings: Mapping[Element, Landing]) -> list[str]:  # noqa: ARG002 - parts are told whole
        """One for each part."""
        few = itertools.islice(self._parts, MOST_SENTENCES)
        said = [
            f"{self._slice(part.source, part.source_start, part)} lands in"
            f" {self._slice(part.target, part.target_start, part)}"
            for part in few
        ]
        return first_few(said, len(self._parts), "tensors")

    def _slice(self, tensor: str, start: Coordinate, part: _Part) -> str:
        sizes = self._tensors[tensor]
        dimensions = zip(start, part.sizes, sizes, strict=True)
        return written(tensor, tuple(":" if own == size else f"{at}:{at + own}" for at, own, size in dimensions))


def _around(starts: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """The places along the axis of a join that are worth seeing: where tensors begin and end, then what follows."""
    ends = [start + size - 1 for start, size in zip(starts, sizes, strict=True)]
    few = 64  # no picture has room for more
    first = [place for pair in zip(starts[:few], ends[:few], strict=True) for place in pair]
    return [0, ends[-1], *first, *(start + 1 for start in starts[:few])]
