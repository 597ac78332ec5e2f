"""TOP_K and NONZERO_COORDINATES: elements that are chosen by what they are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from anydml.arrays.tensor import TensorDesc
from anydml.core.enums import AxisDirection, DataType
from anydml.core.errors import Fault
from anydml.ir.expressions import const, coordinate, fetch, fold, given, load, where
from anydml.ir.fetches import gathered
from anydml.ir.verbs import Map, Reduce, Scan, Scatter, Sort
from anydml.ir.views import View
from anydml.operators.lowering import temporary, walked, zeros
from anydml.operators.schema.fields import Direction, Input, Output, Uint
from anydml.operators.schema.records import Computed
from anydml.operators.schema.rules import (
    axis_of_input,
    exact_sizes,
    fault,
    same_data_type,
    same_dimension_count,
    same_sizes_off_axis,
    sized_as,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Primitive
    from anydml.operators.schema.sizes import Sizes


INT64, UINT32 = DataType.INT64, DataType.UINT32


class TopK(Computed):
    """The K largest elements along an axis, the largest first, and their places along it.

    Of equal elements the one that lies first comes first. NaN is larger than all numbers, and zeros are equal.
    """

    # The page says that K must be less than the size of the axis; ONNX's TopK may have as many, and so may this.

    input_tensor: Input
    output_value_tensor: Output
    output_index_tensor: Output
    axis: Uint
    k: Uint

    @property
    def _takes_largest(self) -> bool:
        return True

    def rules(self) -> Iterator[Fault]:
        """The axis is one of the input's, and has K elements."""
        faults = list(axis_of_input(self, self.axis))
        yield from faults
        size = 1 if faults else self.input_tensor.sizes[self.axis]
        if not faults and not 1 <= self.k <= size:
            yield fault("K", f"must lie in 1 .. {size}, the size of the axis", self.k)

    def implied_outputs(self) -> tuple[TensorDesc, ...]:
        """The values, and their places."""
        return TensorDesc(self.input_tensor.data_type, self._sizes), TensorDesc(UINT32, self._sizes)

    @property
    def _sizes(self) -> Sizes:
        sizes = self.input_tensor.sizes
        return (*sizes[: self.axis], self.k, *sizes[self.axis + 1 :])

    def output_rules(self) -> Iterator[Fault]:
        """The values are of the input's type, and both outputs have K along the axis."""
        yield from same_data_type(self, "OutputValueTensor", "InputTensor")
        for field in self.outputs():
            yield from sized_as(self, field, self._sizes, "InputTensor.Sizes with K along the axis")

    def lower(self) -> tuple[Primitive, ...]:
        """The places in their order, then what lies there."""
        source, values, places = (View.of(field, own) for field, own in self.tensors().items())
        axis_last = [*(k for k in range(len(source.sizes)) if k != self.axis), self.axis]
        found = Sort((source,), places, self.axis, self._takes_largest)
        source, values, places = (view.pick(axis_last) for view in (source, values, places))
        tuples = View(places.tensor, places.data_type, (*places.sizes, 1), (*places.strides, 0), places.offset)
        return (found, gathered(source, tuples, values, len(axis_last) - 1, clamp=True))

    def told(self) -> tuple[Primitive, ...]:
        """Of each place the only element that as many come before."""
        kind, size, rank = self.input_tensor.data_type, self.input_tensor.sizes[self.axis], len(self._sizes)
        whole = (*self.input_tensor.sizes, size)
        source = View.of("InputTensor", self.input_tensor)
        along = source.strides[self.axis]
        others = tuple(0 if k == self.axis else stride for k, stride in enumerate(source.strides))
        own, beside = load(0, kind), load(1, kind)
        comes = (own < beside) if self._takes_largest else (beside < own)
        same = own.equals(beside)
        if kind.is_float:
            more, less = (beside, own) if self._takes_largest else (own, beside)
            comes = comes | (more.is_nan & ~less.is_nan)
            same = same | (own.is_nan & beside.is_nan)
        comes = comes | (same & (coordinate(rank) < coordinate(self.axis)))
        ranks = temporary("ranks", INT64, source.sizes)
        by_row = walked(ranks, (*source.sizes, 1), (*ranks.strides, 0))
        count = Reduce(
            (walked(source, whole, (*source.strides, 0)), walked(source, whole, (*others, along))),
            by_row,
            fold("sum", comes.to(INT64)),
            1,
        )
        sizes, step = (*self._sizes, size), ranks.strides[self.axis]
        off = tuple(0 if k == self.axis else stride for k, stride in enumerate(ranks.strides))
        found = fold(
            "sum",
            where(load(0, INT64).equals(coordinate(self.axis)), coordinate(rank), const(0, INT64)),
        )
        at = [coordinate(k) for k in range(rank)]
        values, places = (View.of(field, own) for field, own in self.outputs().items())
        chosen = temporary("places", INT64, self._sizes)
        index = Reduce(
            (walked(ranks, sizes, (*off, step)),), walked(chosen, (*self._sizes, 1), (*chosen.strides, 0)), found, 1
        )
        at[self.axis] = load(1, INT64)
        return (
            count,
            index,
            Map((source, chosen), values, fetch(0, kind, at)),
            Map((chosen,), places, load(0, INT64).to(places.data_type)),
        )


class TopK1(TopK):
    """The K largest or smallest elements along an axis in their order, and their places along it.

    INCREASING takes the smallest, the smallest first, and DECREASING the largest, the largest first. Of equal elements
    the one that lies first comes first. NaN is larger than all numbers, and zeros are equal.
    """

    axis_direction: Direction = AxisDirection.DECREASING

    @property
    def _takes_largest(self) -> bool:
        return self.axis_direction is AxisDirection.DECREASING


class NonzeroCoordinates(Computed):
    """How many elements are not 0, and their coordinates, a row for each in the elements' order.

    A row has a coordinate for each of the input's last dimensions, as many as OutputCoordinatesTensor has columns. Rows
    past the count are 0. NaN is not 0, and -0 is.
    """

    result_type = UINT32

    input_tensor: Input
    output_count_tensor: Output
    output_coordinates_tensor: Output

    def rules(self) -> Iterator[Fault]:
        """Every input will do."""
        yield from ()

    @property
    def _count(self) -> int:
        return self.input_tensor.element_count

    def implied_outputs(self) -> tuple[TensorDesc, ...]:
        """A number, and a row for each element."""
        rank = self.input_tensor.dimension_count
        wide = max(rank, 2)
        return TensorDesc(UINT32, (1,) * rank), TensorDesc(UINT32, (*(1,) * (wide - 2), self._count, rank))

    def output_rules(self) -> Iterator[Fault]:
        """The count is one number; there is a row for each element, and a column for each dimension that is needed."""
        rank = self.input_tensor.dimension_count
        yield from exact_sizes(self, "OutputCountTensor", (1,) * rank, "a single number")
        field, own = "OutputCoordinatesTensor", self.output_coordinates_tensor
        if own.dimension_count != max(rank, 2):
            found = str(own.dimension_count)
            yield fault(
                f"{field}.DimensionCount",
                f"must be InputTensor.DimensionCount, {max(rank, 2)}",
                own.dimension_count,
                found,
            )
            return
        needed = rank - next((k for k, size in enumerate(self.input_tensor.sizes) if size > 1), rank)
        *lead, rows, columns = own.sizes
        if any(size != 1 for size in lead) or rows != self._count or not max(needed, 1) <= columns <= rank:
            sizes = ", ".join(["1"] * len(lead) + [str(self._count), "N"])
            yield fault(
                f"{field}.Sizes",
                f"must be ({sizes}), a row for each element, with N in {max(needed, 1)} .. {rank}",
                own.sizes,
            )

    def lower(self) -> tuple[Primitive, ...]:
        """Elements that are not 0 are counted; each one's number goes where the count before it says."""
        n, (find, flags, before, order, *ends) = self._count, self._parts()
        scan = Scan((flags,), before, 0, "sum", reverse=False, exclusive=True)
        names, numbers, none = (temporary(name, INT64, (n,)) for name in ("names", "numbers", "none"))
        name = Map((flags, before), names, where(load(0, INT64).equals(0), const(-n - 1, INT64), load(1, INT64)))
        number = Map((), numbers, coordinate(0))
        put = Scatter((none, walked(names, (n, 1), (1, 0)), numbers), order, 0)
        return (find, scan, name, number, zeros(none), put, *ends)

    def told(self) -> tuple[Primitive, ...]:
        """The same by sums alone: of what lies before an element, and of the only one that as many lie before."""
        n, (find, flags, before, order, *ends) = self._count, self._parts()
        square, along, zero = (n, n), (0, 1), const(0, INT64)
        flag, is_before = load(0, INT64), coordinate(1) < coordinate(0)
        own = ~flag.equals(0) & load(1, INT64).equals(coordinate(0))
        rows = [walked(view, square, along) for view in (flags, before)]
        by_row = [walked(view, (n, 1), (1, 0)) for view in (before, order)]
        return (
            find,
            Reduce((rows[0],), by_row[0], fold("sum", where(is_before, flag, zero)), 1),
            Reduce(tuple(rows), by_row[1], fold("sum", where(own, coordinate(1), zero)), 1),
            *ends,
        )

    def _parts(self) -> tuple[Any, ...]:
        """The flags of elements that are not 0, the stores of flags, counts before and order, and the outputs."""
        source, total, rows = (View.of(field, own) for field, own in self.tensors().items())
        kind, sizes, n = source.data_type, self.input_tensor.sizes, self._count
        flags, before, order = (temporary(name, INT64, (n,)) for name in ("flags", "before", "order"))
        shaped = walked(flags, sizes, temporary("", INT64, sizes).strides)
        find = Map((source,), shaped, (~load(0, kind).equals(0)).to(INT64))
        last = walked(total, (1,) * len(total.sizes), (0,) * len(total.sizes))
        count = Map(
            (walked(flags, last.sizes, last.strides, n - 1), walked(before, last.sizes, last.strides, n - 1)),
            last,
            (load(0, INT64) + load(1, INT64)).to(UINT32),
        )
        return find, flags, before, order, count, self._rows(rows, order, flags, before)

    def _rows(self, rows: View, order: View, flags: View, before: View) -> Map:
        """The coordinates of each row's element; 0 past the count."""
        n, sizes, columns = self._count, self.input_tensor.sizes, rows.sizes[-1]
        flat = View(rows.tensor, rows.data_type, rows.sizes[-2:], rows.strides[-2:], rows.offset)
        none = (0, 0)
        number, value = load(0, INT64), const(0, INT64)
        for column in range(columns):
            k = len(sizes) - columns + column
            inner = math.prod(sizes[k + 1 :])
            own: Expr = number / given(inner, INT64) % given(sizes[k], INT64)
            value = where(coordinate(1).equals(column), own, value)
        total = load(1, INT64) + load(2, INT64)
        sources = (
            walked(order, flat.sizes, (1, 0)),
            walked(flags, flat.sizes, none, n - 1),
            walked(before, flat.sizes, none, n - 1),
        )
        return Map(sources, flat, where(coordinate(0) < total, value, const(0, INT64)).to(UINT32))


# ONE_HOT


class OneHot(Computed):
    """Lines along an axis that have Values[1] at an index and Values[0] elsewhere.

    An index of a signed type counts from the end where it is negative; a line whose index lies outside has Values[0]
    alone. Values[1] is the second along the last dimension of ValuesTensor that has two.
    """

    implies_output = False
    output_like = "ValuesTensor"
    shares_rank = True
    typed_like = {"OutputTensor": "ValuesTensor"}

    indices_tensor: Input
    values_tensor: Input
    output_tensor: Output
    axis: Uint

    def rules(self) -> Iterator[Fault]:
        """There is one index for each line, and two values at least."""
        yield from same_dimension_count(self, "ValuesTensor", "IndicesTensor")
        if self.values_tensor.element_count < 2:
            rule = "ValuesTensor must have at least 2 elements"
            found = str(self.values_tensor.element_count)
            yield Fault(field="ValuesTensor.Sizes", rule=rule, value=self.values_tensor.sizes, found=found)
        faults = list(axis_of_input(self, self.axis, "IndicesTensor"))
        yield from faults
        if not faults and (size := self.indices_tensor.sizes[self.axis]) != 1:
            field = f"IndicesTensor.Sizes[{self.axis}]"
            rule = f"{field}, along the axis, must be 1"
            yield Fault(field=field, rule=rule, value=size, found=str(size))

    def output_rules(self) -> Iterator[Fault]:
        """The output is of the values' type, and has the indices' sizes but for the axis."""
        yield from same_data_type(self, "OutputTensor", "ValuesTensor")
        faults = list(same_dimension_count(self, "OutputTensor", "IndicesTensor"))
        yield from faults or same_sizes_off_axis(self, "OutputTensor", "IndicesTensor", self.axis)

    @classmethod
    def usual_tensor(cls, field: str, first: TensorDesc) -> tuple[DataType, Sizes]:  # noqa: ARG003 - as others
        """Two values."""
        return DataType.FLOAT32, (*(1,) * (first.dimension_count - 1), 2)

    def lower(self) -> tuple[Map]:
        """A map of the coordinate along the axis."""
        target, indices = View.of("OutputTensor", self.output_tensor), View.of("IndicesTensor", self.indices_tensor)
        index, kind = load(0, indices.data_type), indices.data_type
        if kind.is_signed:
            index = index.to(INT64)
            index = where(index < 0, index + given(target.sizes[self.axis], INT64), index)
            is_on = index.equals(coordinate(self.axis))
        else:  # compared in its own type: 2^64 - 1 must not turn into -1
            is_on = index.equals(coordinate(self.axis).to(kind))
        values = View.of("ValuesTensor", self.values_tensor)
        step = next(stride for size, stride in reversed([*zip(values.sizes, values.strides, strict=True)]) if size > 1)
        none = (0,) * len(target.sizes)
        off, on = (walked(values, target.sizes, none, offset) for offset in (0, step))
        sources = (walked(indices, target.sizes, indices.strides), off, on)
        own = values.data_type
        return (Map(sources, target, where(is_on, load(2, own), load(1, own))),)
