"""Where the elements of a resampled dimension come from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from anydml.core.enums import AxisDirection, DataType
from anydml.core.late_imports import import_alone
from anydml.ir.expressions import ceil, const, floor, fma, given, maximum, minimum, rint

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from anydml.ir.expressions import Expr

INT64, F64, F32 = DataType.INT64, DataType.FLOAT64, DataType.FLOAT32
MOST_PHASES = 4
"""Elements of the output after which it goes on as before, for which each has a walk of its own."""
MOST_IN_TURN = 5
"""Such elements that one walk has together."""
MOST_AT_ENDS = 16
"""Elements of the output before the first group of them and after the last."""
_LARGEST = 2048
"""Of whole numbers whose ratio a scale is: 24 binary digits tell all of these apart."""


class Term(NamedTuple):
    """An element of the input that goes into one of the output: its place, and its part."""

    place: Expr
    part: Expr


class Walk(NamedTuple):
    """Elements of the output a step apart, which come from elements of the input that are too, with the same parts."""

    start: int
    step: int
    number: int
    sources: tuple[tuple[int, int, float], ...]
    """Of each the first, the step, and the part."""


class Phase(NamedTuple):
    """An element of the output, and those that follow a stretch's step apart."""

    start: int
    sources: tuple[tuple[int, int, float], ...]
    """As a walk has them."""


class Stretch(NamedTuple):
    """Elements of the output, so many times some that follow one another."""

    number: int
    step: int
    phases: tuple[Phase, ...]


def _fraction(number: float) -> Fraction:
    """A number exactly."""
    import_alone("fractions")
    from fractions import Fraction  # with decimal: 4 ms of import

    return Fraction(number)


def ratio_of(number: float) -> tuple[float, float]:
    """A FLOAT as a numerator and a denominator: a ratio of small whole numbers that it is the FLOAT of, or it and 1."""
    near = _fraction(number).limit_denominator(_LARGEST)
    is_near = abs(near.numerator) <= _LARGEST and float(np.float32(float(near))) == number
    return (near.numerator, near.denominator) if is_near else (number, 1)


@dataclass(frozen=True, slots=True)
class Axis:
    """A dimension: the element o of the output stands at (o - output_offset)/scale - input_offset of the input."""

    size: int
    length: int
    """Of the output."""
    scale: float
    input_offset: float
    output_offset: float
    rounding: AxisDirection | None = None
    """Of a place between two elements; None for the nearest, halves up."""

    @property
    def ratio(self) -> tuple[float, float]:
        """The scale as a numerator and a denominator."""
        return ratio_of(self.scale)

    @property
    def is_kept(self) -> bool:
        """Whether each element stands in its own place."""
        return self.scale == 1 and self.input_offset == -self.output_offset and self.length <= self.size

    def position(self, at: Expr) -> Expr:
        """Where an element of the output stands, FLOAT64."""
        over, under = self.ratio
        return (at.to(F64) - given(self.output_offset, F64)) * given(under, F64) / given(over, F64) - given(
            self.input_offset, F64
        )

    def positions(self) -> np.ndarray[Any, Any]:
        """Where every element of the output stands."""
        over, under = self.ratio
        return (np.arange(self.length) - self.output_offset) * under / over - self.input_offset

    def nearest(self, at: Expr) -> Expr:
        """The place of the one element that is taken."""
        x = self.position(at)
        if self.rounding is None:
            return self._inside(floor(x + const(0.5, F64))).to(INT64)
        return self._inside((ceil if self.rounding is AxisDirection.INCREASING else floor)(x)).to(INT64)

    def between(self, at: Expr) -> tuple[Term, Term]:
        """The two elements around a place, with the part of each; past the ends the last."""
        x = self._inside(self.position(at))
        low = floor(x)
        part, place = (x - low).to(F32), low.to(INT64)
        return Term(place, 1 - part), Term(minimum(place + 1, given(self.size - 1, INT64)), part)

    def _inside(self, x: Expr) -> Expr:
        return minimum(maximum(x, 0), given(self.size - 1, F64))

    def phases(self, *, is_linear: bool, most: int = MOST_PHASES) -> list[tuple[int, float]]:
        """Of the first elements, after which it goes on as before: the element at or before each, and the next's part.

        None where there are too many of them, or the scale is no small ratio.
        """
        over, under = self.ratio
        if not (isinstance(over, int) and isinstance(under, int)) or over > most:
            return []
        places = [self._exact(phase) for phase in range(over)]
        if not is_linear:
            return [(self._rounded(x), 0.0) for x in places]
        return [(math.floor(x), float(np.float32(float(x - math.floor(x))))) for x in places]

    def walks(self, *, is_linear: bool) -> list[Walk]:
        """The elements in walks; none where there are too many of them, or the scale is no small ratio."""
        return self._walks(self.phases(is_linear=is_linear))

    def _walks(self, phases: Sequence[tuple[int, float]]) -> list[Walk]:
        """A walk for each phase, and for its ends."""
        over, under = (int(number) for number in self.ratio)
        found = []
        for phase, (low, part) in enumerate(phases[: self.length]):
            count = -(-(self.length - phase) // over)
            last = self.size - 1 - bool(part)
            # Before the first element, among them, and past the last.
            begin = min(max(-(low // under), 0), count)
            end = min(max((last - low) // under + 1, begin), count)
            first = low + begin * under
            inside = [(first, under, 1.0)] if not part else [(first, under, 1 - part), (first + 1, under, part)]
            for start, stop, sources in ((0, begin, [(0, 0, 1.0)]), (begin, end, inside), (end, count, None)):
                if stop > start:
                    found.append(
                        Walk(phase + start * over, over, stop - start, tuple(sources or [(self.size - 1, 0, 1.0)]))
                    )
        return found

    def stretches(self, *, is_linear: bool) -> list[Stretch]:
        """The elements between the ends, in groups after which it goes on as before, and those left at both ends.

        None where there are too many of them, the scale is no small ratio, or makes the dimension smaller.
        """
        if self.is_kept:
            return [Stretch(self.length, 1, (Phase(0, ((0, 1, 1.0),)),))]
        phases = self.phases(is_linear=is_linear, most=MOST_IN_TURN)
        over, under = (int(number) for number in self.ratio)
        found = [walk for walk in self._walks(phases) if walk.sources[0][1]]
        if not found or over < under:
            return []
        first = min(walk.start for walk in found)
        number = (max(walk.start + (walk.number - 1) * over for walk in found) + 1 - first) // over
        ends = [*range(first), *range(first + number * over, self.length)]
        if not number or len(ends) > MOST_AT_ENDS:
            return []
        groups = Stretch(number, over, tuple(self._phase(phases, first + k, under) for k in range(over)))
        return [groups, Stretch(1, 1, tuple(self._phase(phases, at, 0) for at in ends))][: 1 + bool(ends)]

    def _phase(self, phases: Sequence[tuple[int, float]], at: int, step: int) -> Phase:
        """An element of the output, past the ends the last, the next ones from so many elements on."""
        low, part = phases[at % len(phases)]
        low += at // len(phases) * int(self.ratio[1])
        if low < 0 or low + bool(part) >= self.size:
            return Phase(at, ((min(max(low, 0), self.size - 1), 0, 1.0),))
        return Phase(at, ((low, step, 1 - part), (low + 1, step, part)) if part else ((low, step, 1.0),))

    @property
    def repeats(self) -> int:
        """How often each element follows itself, where the nearest ones are those alone; 0 otherwise."""
        over, under = self.ratio
        if under != 1 or not isinstance(over, int) or self.length != self.size * over:
            return 0
        is_each = all(self._rounded(self._exact(phase)) == 0 for phase in range(over))
        return over if is_each else 0

    def _exact(self, at: int) -> Fraction:
        """Where an element of the output stands."""
        over, under = self.ratio
        return (at - _fraction(self.output_offset)) * _fraction(under) / _fraction(over) - _fraction(self.input_offset)

    def _rounded(self, x: Fraction) -> int:
        """The place that is taken."""
        if self.rounding is None:
            return (math.floor(2 * x) + 1) // 2
        return math.ceil(x) if self.rounding is AxisDirection.INCREASING else math.floor(x)


def wide32(element: Expr, *, is_linear: bool) -> Expr:
    """An element to be weighted, as FLOAT32; one that is moved stays as it is."""
    return element.to(F32) if is_linear else element


def finished(value: Expr, kind: DataType) -> Expr:
    """A weighted element as the output has it: of integers the nearest."""
    return (value if kind.is_float or value.type is kind else rint(value)).to(kind)


def lerp(elements: Sequence[Expr], parts: Sequence[Expr]) -> Expr:
    """Two elements weighted: the sum is rounded once."""
    return fma(elements[1], parts[1], elements[0] * parts[0])
