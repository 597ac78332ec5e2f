"""The common part of operators that move elements: what they say of sizes, and views of parts of a tensor."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, ClassVar

from anydml.core.errors import Fault
from anydml.core.memory import packed_strides
from anydml.ir.expressions import fetch
from anydml.ir.patterns import copy_of, filled
from anydml.ir.verbs import Map
from anydml.ir.views import View
from anydml.operators.computed import Computed
from anydml.operators.fields import Input, Output, dml_name
from anydml.operators.rules import exact_sizes, same_data_type, same_dimension_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.core.enums import DataType, FeatureLevel
    from anydml.ir.expressions import Expr


class Moved(Computed):
    """One input, and an output of its type in sizes that the attributes imply."""

    sizes_from: ClassVar[str]
    """Where the output's sizes come from, for errors."""

    input_tensor: Input
    output_tensor: Output

    @abc.abstractmethod
    def implied_output_sizes(self) -> tuple[int, ...]:
        """The output's sizes."""

    def output_rules(self) -> Iterator[Fault]:
        """The output is of the input's type, and of the sizes that are implied."""
        yield from same_data_type(self, "OutputTensor", "InputTensor")
        counts = list(same_dimension_count(self, "OutputTensor", "InputTensor"))
        yield from counts or exact_sizes(self, "OutputTensor", self.implied_output_sizes(), self.sizes_from)

    def views(self) -> tuple[View, View]:
        """The input and the output."""
        return View.of("InputTensor", self.input_tensor), View.of("OutputTensor", self.output_tensor)

    def fetched(self, places: Sequence[Expr]) -> Map:
        """Each element of the output from a place of the input."""
        source, target = self.views()
        return Map((source,), target, fetch(0, source.data_type, places))


def at_least_1(desc: Computed, *names: str) -> Iterator[Fault]:
    """Check that every number of some attributes is at least 1."""
    for name in names:
        value: int | Sequence[int] = getattr(desc, name)
        several = isinstance(value, tuple)
        for i, number in enumerate(value if isinstance(value, tuple) else (value,)):
            if number < 1:
                field = f"{dml_name(name)}[{i}]" if several else dml_name(name)
                yield Fault(field=field, rule=f"{field} must be at least 1", value=number, found=str(number))


def needs_level(field: str, value: str, needed: FeatureLevel, level: FeatureLevel, where: str) -> Iterator[Fault]:
    """Check that a level has a value of an attribute, which came with another."""
    if level < needed:
        rule = f"a {field} of {value} needs {needed.dml_name}"
        yield Fault(field=field, rule=rule, value=value, way_out=where, level=needed)


def split(view: View, dimension: int, *sizes: int) -> View:
    """A view with a dimension made several, the last of which runs fastest."""
    inner = zip(packed_strides(sizes), sizes, strict=True)
    strides = tuple(stride * view.strides[dimension] if size > 1 else 0 for stride, size in inner)
    return View(
        view.tensor,
        view.data_type,
        (*view.sizes[:dimension], *sizes, *view.sizes[dimension + 1 :]),
        (*view.strides[:dimension], *strides, *view.strides[dimension + 1 :]),
        view.offset,
    )


MOST_PHASES = 4
"""Copies that one is made where the target's innermost dimension is short: 2 elements at a time take 3 ns each, and as
two copies of every second one 0.9 (one thread of an Arm Neoverse-N1)."""


def copies_of(source: View, target: View, dimension: int) -> tuple[Map, ...]:
    """A copy; where a dimension is short, and the target's innermost, a copy for each of its places."""
    count, steps = target.sizes[dimension], (1,) * len(target.sizes)
    is_inner = all(abs(stride) >= abs(target.strides[dimension]) for stride in target.strides if stride)
    if not 1 < count <= MOST_PHASES or not is_inner:
        return (copy_of(source, target),)
    sizes = [1 if k == dimension else size for k, size in enumerate(target.sizes)]
    starts = ([place if k == dimension else 0 for k in range(len(sizes))] for place in range(count))
    return tuple(copy_of(source.window(at, steps, sizes), target.window(at, steps, sizes)) for at in starts)


def around(whole: View, start: Sequence[int], sizes: Sequence[int], value: float) -> Iterator[Map]:
    """Maps that fill all of a view but a part of it, slab by slab: no two write to one element."""
    at, left, last = [0] * len(sizes), list(whole.sizes), len(sizes) - 1
    for k, (first, size) in enumerate(zip(start, sizes, strict=True)):
        slabs = [(first_of, count, at, left) for first_of, count in _ends(whole, k, first, size)]
        if k == last > 0 and len(slabs) == 2 and left[-2] > 1 and _follow(whole):
            # The end of a row and the beginning of the next are one: 3 elements take 10 ns, and 6 no longer.
            (_, before, *_), (begin, after, *_) = slabs
            rows, above, below = left[-2], [*at[:-2], at[-2], 0], [*at[:-2], at[-2] + left[-2] - 1, 0]
            one = [*left[:-2], 1, 0]
            slabs = [
                (begin, before + after, at, [*left[:-2], rows - 1, 0]),
                (0, before, above, one),
                (begin, after, below, one),
            ]
        for begin, count, here, counts in slabs:
            where, many = (
                [number if j == k else n for j, n in enumerate(of)] for number, of in ((begin, here), (count, counts))
            )
            yield filled(whole.window(where, (1,) * len(sizes), many), value)
        at[k], left[k] = first, size


def _ends(whole: View, k: int, first: int, size: int) -> list[tuple[int, int]]:
    """The ends before and after a part of a dimension: where each begins, and its size."""
    found = ((0, first), (first + size, whole.sizes[k] - first - size))
    return [(begin, count) for begin, count in found if count]


def _follow(view: View) -> bool:
    """Whether rows follow one another."""
    return view.strides[-2] == view.sizes[-1] * view.strides[-1]


def temporary(name: str, data_type: DataType, sizes: Sequence[int]) -> View:
    """Memory that an operator passes on to itself, packed."""
    return View(name, data_type, tuple(sizes), packed_strides(sizes))
