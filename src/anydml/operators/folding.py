"""The common part of operators that fold: an operator is its fields, what it folds, and an expression with folds."""

from __future__ import annotations

import abc
import math
from dataclasses import MISSING
from typing import TYPE_CHECKING, Any, ClassVar

from anydml.core.enums import DataType
from anydml.core.errors import Fault
from anydml.ir.expressions import FOLDS, const, coordinate, fold, given, load
from anydml.ir.trees import loads, rewrite, walk
from anydml.ir.verbs import Map, Reduce
from anydml.ir.views import View
from anydml.operators.computed import Computed, wide
from anydml.operators.rules import same_data_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.ir.expressions import Expr
    from anydml.operators.fields import Input, UintArray


class Folding(Computed):
    """Computes from rows of the input: the elements that differ in the folded dimensions alone.

    A subclass has its fields, `folded` and `value`, and is made a frozen dataclass. A tensor repeats along dimensions
    in which it has a size of 1. All tensors that take the same types are of one type.
    """

    if TYPE_CHECKING:
        input_tensor: Input

    # What subclasses say

    @abc.abstractmethod
    def folded(self) -> tuple[int, ...]:
        """The dimensions of InputTensor that are folded, in rising order."""

    @abc.abstractmethod
    def value(self, *elements: Any) -> Expr | tuple[Expr, ...]:
        """The outputs' elements of the inputs', which it takes one by one: None for a tensor that is not there.

        Each is converted to its output's type. FLOAT16 comes as FLOAT32.
        """

    # What follows

    def count(self) -> int:
        """The elements of a row."""
        return math.prod(self.input_tensor.sizes[k] for k in self.folded())

    def mean(self, x: Expr) -> Expr:
        """The mean of the numbers of a row, in their type, which is a float."""
        assert x.type is not None  # noqa: S101 - for type checkers: a number
        return fold("sum", x) / given(self.count(), x.type)

    def index(self) -> Expr:
        """The number of an element within its row, INT64: the last of the folded dimensions runs fastest."""
        folded = self.folded()
        first = len(self.input_tensor.sizes) - len(folded)
        number, count = const(0, DataType.INT64), 1
        for place, k in reversed(list(enumerate(folded, first))):
            size = self.input_tensor.sizes[k]
            number = coordinate(place) * count + number if size > 1 else number
            count *= size
        return number

    def rules(self) -> Iterator[Fault]:
        """The inputs are of one type."""
        for field in self.inputs():
            yield from self._typed(field)

    def output_rules(self) -> Iterator[Fault]:
        """The outputs are of the inputs' type."""
        for field in self.outputs():
            yield from self._typed(field)

    def _typed(self, field: str) -> Iterator[Fault]:
        if other := self.typed_alike().get(field):
            yield from same_data_type(self, field, other)

    def lower(self) -> tuple[Map | Reduce, ...]:
        """A reduce for each output, or a map where nothing is folded."""
        tensors = [getattr(self, name) for name in self.input_names()]
        elements = [None if one is None else wide(load(slot, one.data_type)) for slot, one in enumerate(tensors)]
        found = self.value(*elements)
        values = found if isinstance(found, tuple) else (found,)
        fields = iter(self.inputs())
        sources = [None if one is None else View.of(next(fields), one) for one in tensors]
        return tuple(
            self._primitive(sources, View.of(field, output), value.to(output.data_type))
            for (field, output), value in zip(self.outputs().items(), values, strict=True)
        )

    def _primitive(self, sources: Sequence[View | None], target: View, value: Expr) -> Map | Reduce:
        slots = sorted({int(node.value) for node in loads(value)})
        places = {slot: place for place, slot in enumerate(slots)}
        value = rewrite(value, lambda node: load(places[int(node.value)], node.type) if node.op == "load" else node)  # type: ignore[arg-type]  # a load has a type
        used = [spread(view, self.input_tensor.sizes) for slot in slots if (view := sources[slot]) is not None]
        if not any(node.op in FOLDS for node in walk(value)):
            return Map(tuple(used), target, value)
        folded = self.folded()
        return Reduce(tuple(rows(view, folded) for view in used), rows(target, folded), value, max(len(folded), 1))


def spread(view: View, sizes: Sequence[int]) -> View:
    """A view in larger sizes, which repeats where its own are 1."""
    strides = (stride if own == size else 0 for stride, own, size in zip(view.strides, view.sizes, sizes, strict=True))
    return View(view.tensor, view.data_type, tuple(sizes), tuple(strides), view.offset)


def rows(view: View, folded: Sequence[int]) -> View:
    """A view with the folded dimensions last; where there are none, with one of a single element."""
    if not folded:
        return View(view.tensor, view.data_type, (*view.sizes, 1), (*view.strides, 0), view.offset)
    return view.pick([*(k for k in range(len(view.sizes)) if k not in folded), *folded])


class AlongAxes(Folding):
    """Folds the dimensions that Axes names."""

    usual_axes: ClassVar[Any] = MISSING
    """The axes of a function that is told nothing: None stands for all dimensions."""
    if TYPE_CHECKING:
        axes: UintArray

    @property
    def axis_count(self) -> int:
        """DirectML's AxisCount."""
        return len(self.axes)

    def folded(self) -> tuple[int, ...]:
        """The axes."""
        return tuple(sorted(self.axes))

    def rules(self) -> Iterator[Fault]:
        """The axes are the input's, and none is named twice."""
        yield from super().rules()
        count = self.input_tensor.dimension_count
        if not self.axes:
            rule = "Axes must name at least one dimension"
            yield Fault(field="Axes", rule=rule, value=self.axes, found="none")
        for i, axis in enumerate(self.axes):
            if axis >= count:
                rule = f"Axes[{i}] must be below InputTensor.DimensionCount, {count}"
                yield Fault(field=f"Axes[{i}]", rule=rule, value=axis, found=str(axis))
            elif axis in self.axes[:i]:
                rule = f"Axes[{i}] must be a dimension that Axes does not name before"
                yield Fault(field=f"Axes[{i}]", rule=rule, value=axis, found=str(axis))
