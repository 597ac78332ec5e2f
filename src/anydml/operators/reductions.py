"""REDUCE, ARGMIN and ARGMAX: rows made one number each; and the scans, CUMULATIVE_SUMMATION and CUMULATIVE_PRODUCT."""

from __future__ import annotations

import abc
import math
from dataclasses import MISSING
from typing import TYPE_CHECKING, Any, ClassVar

from anydml.core.enums import AxisDirection, DataType, ReduceFunction
from anydml.core.errors import Fault
from anydml.core.operator_type import OperatorType
from anydml.ir.expressions import FOLDS, absolute, call, const, coordinate, fold, given, load, sqrt, where
from anydml.ir.trees import loads, rewrite, walk
from anydml.ir.verbs import Map, Scan
from anydml.ir.verbs import Reduce as Reducing
from anydml.ir.views import View
from anydml.operators.elementwise import is_float, type_of
from anydml.operators.lowering import wide
from anydml.operators.schema.fields import Direction, Input, Output, Reduction, Uint, UintArray, WithFloat64
from anydml.operators.schema.records import Computed, OperatorDesc
from anydml.operators.schema.rules import (
    axis_of_input,
    fault,
    like_input,
    same_data_type,
    sized_as,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Literal

    from anydml.ir.expressions import Expr
    from anydml.operators.schema.facts import SupportTable


# The common part: an operator is its fields, what it folds, and an expression with folds


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

    def lower(self) -> tuple[Map | Reducing, ...]:
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

    def _primitive(self, sources: Sequence[View | None], target: View, value: Expr) -> Map | Reducing:
        slots = sorted({int(node.value) for node in loads(value)})
        places = {slot: place for place, slot in enumerate(slots)}
        value = rewrite(value, lambda node: load(places[int(node.value)], node.type) if node.op == "load" else node)  # type: ignore[arg-type]  # a load has a type
        used = [spread(view, self.input_tensor.sizes) for slot in slots if (view := sources[slot]) is not None]
        if not any(node.op in FOLDS for node in walk(value)):
            return Map(tuple(used), target, value)
        folded = self.folded()
        return Reducing(tuple(rows(view, folded) for view in used), rows(target, folded), value, max(len(folded), 1))


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
            yield fault("Axes", "must name at least one dimension", self.axes, "none")
        for i, axis in enumerate(self.axes):
            if axis >= count:
                yield fault(f"Axes[{i}]", f"must be below InputTensor.DimensionCount, {count}", axis)
            elif axis in self.axes[:i]:
                yield fault(f"Axes[{i}]", "must not repeat an earlier dimension of Axes", axis)


# REDUCE, ARGMIN and ARGMAX


SUMS = DataType.FLOAT64
"""The type that products, squares and exponentials of floats accumulate in. Plain sums keep their own: in FLOAT64 they
take 2.4 times as long in the cache, and in a tree FLOAT32's error is below that of one sum after the other."""
INDEX = DataType.INT64
"""The type of indices, where nothing else is asked for: NumPy's and PyTorch's."""


class _Reducing(AlongAxes):
    """The output has the input's sizes, but 1 along the axes."""

    if TYPE_CHECKING:
        output_tensor: Output
    result_type: ClassVar[DataType | None] = INDEX
    usual_axes: ClassVar[Any] = None

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The input's, but 1 along the axes."""
        return tuple(1 if k in self.axes else size for k, size in enumerate(self.input_tensor.sizes))

    def output_rules(self) -> Iterator[Fault]:
        """The output has those sizes."""
        yield from super().output_rules()
        source = "those of InputTensor, but 1 along Axes"
        yield from sized_as(self, "OutputTensor", self.implied_output_sizes(), source)


class Reduce(_Reducing):
    """Makes each row along Axes one number. The output keeps the dimensions, which have a size of 1 there.

    Function is SUM, AVERAGE, MULTIPLY, SUM_SQUARE (Σx²), L1 (Σ|x|), L2 (√Σx²), LOG_SUM (ln Σx), LOG_SUM_EXP (ln Σeˣ),
    MAX, MIN, ARGMAX or ARGMIN (the row-major index, within the axes, of the first largest or smallest; INT64 where
    nothing else is asked for).

    SUM, AVERAGE and L1 of floats accumulate in FLOAT32, in a tree that does not depend on threads; squares, products
    and exponentials in FLOAT64; integers wrap. MAX and MIN are NaN where one element is, and for ARGMAX and ARGMIN the
    first NaN is the largest and the smallest, as for NumPy. LOG_SUM_EXP takes the largest
    element out first, and is -inf for a row of -inf, as PyTorch's. The documents leave all of this open.
    """

    result_type = None

    function: Reduction
    input_tensor: Input
    output_tensor: Output
    axes: UintArray

    free_types: ClassVar[tuple[str, ...]] = ("OutputTensor",)

    def own_support(self) -> SupportTable:
        """The rows of the function."""
        return self.support.of(ReduceFunction(self.function).name)

    def _is_index(self) -> bool:
        return self.function in (ReduceFunction.ARGMAX, ReduceFunction.ARGMIN)

    def implied_output_type(self) -> DataType:
        """The input's; for indices INT64."""
        return INDEX if self._is_index() else self.input_tensor.data_type

    def output_rules(self) -> Iterator[Fault]:
        """The output is of the input's type, but for indices."""
        if not self._is_index():
            yield from same_data_type(self, "OutputTensor", "InputTensor")
        yield from super().output_rules()

    def value(self, x: Expr) -> Expr:
        return _FUNCTIONS[ReduceFunction(self.function)](self, x)


def _precise(x: Expr) -> Expr:
    return x.to(SUMS) if is_float(x) else x


def _square(x: Expr) -> Expr:
    return _precise(x) * _precise(x)


def _magnitude(x: Expr) -> Expr:
    return absolute(x) if is_float(x) or type_of(x).is_signed else x


def log_of_sum(total: Expr) -> Expr:
    """The logarithm of a number of FLOAT64, of which FLOAT32's logarithm loses what is near 1."""
    near = total.to(DataType.FLOAT32)
    wide = near.to(DataType.FLOAT64)
    log, rest = call("log", near).to(DataType.FLOAT64), (total - wide) / wide
    return where(rest < 1, log + rest, log)  # 0/0 and inf/inf are no rest


def _log_sum_exp(x: Expr) -> Expr:
    """An infinity is the result by itself: taken out, it would leave NaN."""
    largest = fold("max", x)
    found = log_of_sum(fold("sum", call("exp", x - largest).to(SUMS))) + largest.to(SUMS)
    return where(absolute(largest).equals(math.inf), largest.to(SUMS), found)


def is_extreme(x: Expr, function: str) -> Expr:
    """Whether an element is its row's `max` or `min`: a NaN is, where there is one."""
    found = x.equals(fold(function, x))
    return found | x.is_nan if is_float(x) else found


def first_of(row: Folding, x: Expr, function: str) -> Expr:
    """The number within the row of the first element that is its `max` or `min`."""
    return fold("min", where(is_extreme(x, function), row.index(), row.count()))


def last_of(row: Folding, x: Expr, function: str) -> Expr:
    """The number within the row of the last element that is its `max` or `min`."""
    return fold("max", where(is_extreme(x, function), row.index(), -1))


_FUNCTIONS: dict[ReduceFunction, Callable[[Reduce, Expr], Expr]] = {
    ReduceFunction.ARGMAX: lambda row, x: first_of(row, x, "max"),
    ReduceFunction.ARGMIN: lambda row, x: first_of(row, x, "min"),
    ReduceFunction.AVERAGE: lambda row, x: row.mean(x),
    ReduceFunction.L1: lambda _, x: fold("sum", _magnitude(x)),
    ReduceFunction.L2: lambda _, x: sqrt(fold("sum", _square(x))),
    ReduceFunction.LOG_SUM: lambda _, x: log_of_sum(fold("sum", _precise(x))),
    ReduceFunction.LOG_SUM_EXP: lambda _, x: _log_sum_exp(x),
    ReduceFunction.MAX: lambda _, x: fold("max", x),
    ReduceFunction.MIN: lambda _, x: fold("min", x),
    ReduceFunction.MULTIPLY: lambda _, x: fold("product", _precise(x)),
    ReduceFunction.SUM: lambda _, x: fold("sum", x),
    ReduceFunction.SUM_SQUARE: lambda _, x: fold("sum", _square(x)),
}


class _Arg(_Reducing):
    """The index of an element of each row."""

    input_tensor: Input
    output_tensor: Output
    axes: UintArray
    axis_direction: Direction = AxisDirection.INCREASING

    def implied_output_type(self) -> DataType:
        return INDEX

    def _index(self, x: Expr, function: str) -> Expr:
        find = first_of if self.axis_direction is AxisDirection.INCREASING else last_of
        return find(self, x, function)


class Argmax(_Arg):
    """The index of each row's largest element: row-major, within the axes. INT64 where nothing else is asked for.

    Of equals AxisDirection takes the first, or the last for DECREASING. A NaN is the largest, as for NumPy: the
    documents leave it open. The output keeps the dimensions, which have a size of 1 along Axes.
    """

    def value(self, x: Expr) -> Expr:
        return self._index(x, "max")


class Argmin(_Arg):
    """The index of each row's smallest element: row-major, within the axes. INT64 where nothing else is asked for.

    Of equals AxisDirection takes the first, or the last for DECREASING. A NaN is the smallest, as for NumPy: the
    documents leave it open. The output keeps the dimensions, which have a size of 1 along Axes.
    """

    def value(self, x: Expr) -> Expr:
        return self._index(x, "min")


# Running sums and products along an axis


class _CumulativeDesc(OperatorDesc):
    """The shared part of the sum and the product."""

    input_tensor: Input
    output_tensor: Output
    axis: Uint
    axis_direction: Direction = AxisDirection.INCREASING
    allow_float64: WithFloat64 = False

    def rules(self) -> Iterator[Fault]:
        """The axis is one of the input's."""
        yield from axis_of_input(self, self.axis)

    def output_rules(self) -> Iterator[Fault]:
        """The output is of the input's type and sizes."""
        yield from like_input(self)

    def _scan(self, function: Literal["sum", "product"], exclusive: bool) -> Scan:
        return Scan(
            sources=(View.of("InputTensor", self.input_tensor),),
            target=View.of("OutputTensor", self.output_tensor),
            axis=self.axis,
            function=function,
            reverse=self.axis_direction is AxisDirection.DECREASING,
            exclusive=exclusive,
        )


class CumulativeSummation(_CumulativeDesc):
    """Adds up elements along an axis, and writes the tally at each; exclusive, before the element is added."""

    type = OperatorType.CUMULATIVE_SUMMATION
    other_types = (DataType.UINT16,)
    # UINT16 stands in the edition of 2021 and no longer in the present one; what either lists is accepted.

    has_exclusive_sum: bool = False

    def lower(self) -> tuple[Scan]:
        """A scan that adds."""
        return (self._scan("sum", self.has_exclusive_sum),)

    def remarks(self) -> Iterator[str]:
        """UINT16 is in one edition only."""
        yield from super().remarks()
        if self.input_tensor.data_type is DataType.UINT16:
            yield "UINT16 is listed for CUMULATIVE_SUMMATION by the documents' edition of 2021 only"


class CumulativeProduct(_CumulativeDesc):
    """Multiplies elements along an axis, and writes the tally at each; exclusive, before the element is taken in."""

    type = OperatorType.CUMULATIVE_PRODUCT

    has_exclusive_product: bool = False

    def lower(self) -> tuple[Scan]:
        """A scan that multiplies."""
        return (self._scan("product", self.has_exclusive_product),)
