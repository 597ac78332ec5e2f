"""SCATTER and SCATTER_ND: a copy of the input in which indices say where updates go."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.core.errors import Fault
from anydml.ir.expressions import const, coordinate, fold, given, load, where
from anydml.ir.verbs import Reduce
from anydml.ir.verbs import Scatter as Scattering
from anydml.ir.views import View
from anydml.operators.computed import Computed
from anydml.operators.fields import Input, Output, Uint  # noqa: TC001 - read at run time
from anydml.operators.gather import counted_sizes, word_index
from anydml.operators.margins import walked
from anydml.operators.rules import axis_of_input, exact_sizes, same_dimension_count, same_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.arrays.tensor import TensorDesc
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import IndexFault, Primitive
    from anydml.operators.sizes import Sizes

INT64 = DataType.INT64


class _Scatter(Computed):
    """The shared part of the two: the output is like the input, and the updates are of its type."""

    typed_like = {"UpdatesTensor": "InputTensor", "OutputTensor": "InputTensor"}  # noqa: RUF012 - nobody writes to it

    input_tensor: Input
    indices_tensor: Input
    updates_tensor: Input
    output_tensor: Output

    def rules(self) -> Iterator[Fault]:
        """The updates are of the input's type, and all tensors have as many dimensions."""
        yield from self.typed_faults(self.inputs())
        counts = [
            fault for field in list(self.inputs())[1:] for fault in same_dimension_count(self, field, "InputTensor")
        ]
        yield from counts or self._size_faults()

    def _size_faults(self) -> Iterator[Fault]:
        raise NotImplementedError  # each has its own

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The input's."""
        return self.input_tensor.sizes

    def output_rules(self) -> Iterator[Fault]:
        """The output is like the input."""
        yield from self.typed_faults(self.outputs())
        yield from same_sizes(self, "OutputTensor", "InputTensor")

    def _scattering(self) -> Scattering:
        raise NotImplementedError  # each has its own

    def lower(self) -> tuple[Primitive, ...]:
        """A scatter."""
        made = self._scattering()
        return (replace(made, checks=(made.check,)),)

    def told(self) -> tuple[Primitive, ...]:
        """For each element of the output the last update that names it, if there is one."""
        made = self._scattering()
        kind, base, batch, size = made.target.data_type, made.source, made.batch_rank, made.tuple_size
        tuples = made.indices.sizes[batch:-1]
        rank, depth = len(base.sizes), len(tuples) or 1
        tuples = tuples or (1,)
        sizes = (*base.sizes, *tuples)

        def spread(view: View, own: Sequence[int], along: Sequence[int]) -> View:
            return walked(view, sizes, (*own, *(along or (0,))))

        rest = [*(0 for _ in range(size)), *made.updates.strides[len(made.indices.sizes) - 1 :]]
        across, over = made.indices.strides[:batch], made.indices.strides[batch:-1]
        parts = [
            replace(spread(made.indices, (*across, *(0,) * (rank - batch)), over), offset=k * made.indices.strides[-1])
            for k in range(size)
        ]
        news = spread(
            made.updates, (*made.updates.strides[:batch], *rest), made.updates.strides[batch : batch + len(over)]
        )
        number: Expr = const(0, INT64)
        for k, length in enumerate(tuples):
            number = number * given(length, INT64) + coordinate(rank + k)
        is_named = const(True, None)
        for k in range(size):
            index = load(2 + k, made.indices.data_type).to(INT64)
            index = where(index < 0, index + given(base.sizes[batch + k], INT64), index)
            is_named = is_named & index.equals(coordinate(batch + k))
        last = fold("max", where(is_named, number, const(-1, INT64)))
        wide = DataType.FLOAT64 if kind.is_float else kind
        taken = fold("sum", where(number.equals(last), load(1, kind).to(wide), const(0, wide)))
        value = where(last < 0, load(0, kind), taken.to(kind))
        sources = (spread(base, base.strides, ()), news, *parts)
        target = walked(made.target, (*base.sizes, *(1,) * depth), (*made.target.strides, *(0,) * depth))
        return (Reduce(sources, target, value, depth),)


class Scatter(_Scatter):
    """A copy of the input with updates along an axis: Output[…, Indices[…, i, …], …] = Updates[…, i, …].

    Of several updates of one element the last one stays. An index outside the axis is an error.
    """

    axis: Uint

    def _size_faults(self) -> Iterator[Fault]:
        """Off the axis the indices have the input's sizes, and there is an update for each."""
        faults = list(axis_of_input(self, self.axis))
        yield from faults
        pairs = zip(self.indices_tensor.sizes, self.input_tensor.sizes, strict=True)
        for i, (size, wanted) in enumerate(pairs):
            if not faults and i != self.axis and size != wanted:
                name = f"IndicesTensor.Sizes[{i}]"
                rule = f"{name} must be InputTensor.Sizes[{i}], {wanted}, as in every dimension but the axis"
                yield Fault(field=name, rule=rule, value=size, found=str(size))
        yield from same_sizes(self, "UpdatesTensor", "IndicesTensor")

    def _scattering(self) -> Scattering:
        """Every dimension but the axis is a batch."""
        rank = self.input_tensor.dimension_count
        axis_last = [*(k for k in range(rank) if k != self.axis), self.axis]
        base, indices, updates, target = (View.of(field, own).pick(axis_last) for field, own in self.tensors().items())
        indices = View(indices.tensor, indices.data_type, (*indices.sizes, 1), (*indices.strides, 0))
        return Scattering((base, indices, updates), target, rank - 1)

    def word_outside(self, fault: IndexFault) -> Fault:
        """Name the index by its place in IndicesTensor."""
        position = list(fault.position)
        position.insert(self.axis, position.pop())
        kind = self.indices_tensor.data_type
        return word_index(fault, tuple(position), kind, str(fault.indices[0]), "the axis", clamps=False)


class ScatterND(_Scatter):
    """A copy of the input with updates at tuples of indices: Output[Indices[t], …] = Updates[t, …].

    The last dimension of IndicesTensor holds the coordinates of a tuple. Of several updates of one place the last one
    stays. An index outside its dimension is an error.
    """

    input_dimension_count: Uint
    indices_dimension_count: Uint

    def _size_faults(self) -> Iterator[Fault]:
        """The counts of dimensions fit the tensors, and there is an update for each tuple."""
        faults: list[Fault] = []
        for tensor, field in (("InputTensor", "InputDimensionCount"), ("IndicesTensor", "IndicesDimensionCount")):
            count = self.input_dimension_count if tensor == "InputTensor" else self.indices_dimension_count
            faults += counted_sizes(self.tensors()[tensor], tensor, field, count)
        yield from faults
        if faults:
            return
        length = self.indices_tensor.sizes[-1]
        if length > self.input_dimension_count:
            field = f"IndicesTensor.Sizes[{self.indices_tensor.dimension_count - 1}]"
            most = self.input_dimension_count
            rule = f"{field}, the coordinates of a tuple, must lie in 1 .. {most}, InputDimensionCount"
            yield Fault(field=field, rule=rule, value=length, found=str(length))
            return
        sizes, count = self._update_sizes(), self.input_tensor.dimension_count
        if len(sizes) > count:
            rule = f"the updates {sizes} must fit the {count} dimensions of the tensors"
            way_out = f"describe all four tensors with {len(sizes)} dimensions, leading sizes of 1 added"
            found = str(len(sizes))
            yield Fault(field="UpdatesTensor.DimensionCount", rule=rule, value=count, found=found, way_out=way_out)
            return
        source = "the sizes of IndicesTensor without the last, then those of InputTensor that no tuple indexes"
        yield from exact_sizes(self, "UpdatesTensor", (*(1,) * (count - len(sizes)), *sizes), source)

    def _update_sizes(self) -> Sizes:
        """Without leading 1s."""
        count = self.indices_tensor.dimension_count
        tuples = self.indices_tensor.sizes[count - self.indices_dimension_count :]
        return (*tuples[:-1], *self.input_tensor.sizes[self._first + tuples[-1] :])

    @property
    def _first(self) -> int:
        """The input's first dimension that counts."""
        return self.input_tensor.dimension_count - self.input_dimension_count

    def _scattering(self) -> Scattering:
        """Between the dimensions that count."""
        base, target = (
            View.of(field, self.tensors()[field]).last(self.input_dimension_count)
            for field in ("InputTensor", "OutputTensor")
        )
        indices = View.of("IndicesTensor", self.indices_tensor).last(self.indices_dimension_count)
        updates = View.of("UpdatesTensor", self.updates_tensor).last(len(self._update_sizes()))
        return Scattering((base, indices, updates), target, 0)

    @classmethod
    def usual_tensor(cls, field: str, first: TensorDesc) -> tuple[DataType, Sizes]:
        """Tuples of one coordinate, and a block for each."""
        if field == "IndicesTensor":
            return DataType.UINT32, (*(1,) * first.dimension_count,)
        return first.data_type, (*(1,) * min(first.dimension_count, 1), *first.sizes[1:])

    def word_outside(self, fault: IndexFault) -> Fault:
        """Name the tuple by its place among the dimensions of IndicesTensor that count."""
        found = f"({', '.join(map(str, fault.indices))}{',' if len(fault.indices) == 1 else ''})"
        kind, what = self.indices_tensor.data_type, f"dimension {fault.dimension}"
        return word_index(fault, fault.position, kind, found, what, clamps=False)
