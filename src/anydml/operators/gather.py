"""GATHER and SCATTER in all their forms: elements or blocks read, or written, where indices say."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.core.enums import DataType, IndexMode
from anydml.core.errors import Fault
from anydml.core.operator_type import OperatorType
from anydml.ir.expressions import const, coordinate, fold, given, load, where
from anydml.ir.fetches import gathered
from anydml.ir.verbs import Reduce
from anydml.ir.verbs import Scatter as Scattering
from anydml.ir.views import View
from anydml.operators.lowering import by_row, walked
from anydml.operators.schema.fields import Input, Output, OutsideIndex, Uint
from anydml.operators.schema.records import Computed, OperatorDesc
from anydml.operators.schema.rules import (
    axis_of_input,
    exact_sizes,
    fault,
    same_data_type,
    same_dimension_count,
    same_sizes,
    same_sizes_off_axis,
    sized_as,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.arrays.tensor import TensorDesc
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import IndexFault, Map, Primitive
    from anydml.operators.schema.sizes import Sizes


# GATHER_ND and GATHER_ND1: tuples of indices


def word_index(
    fault: IndexFault, position: tuple[int, ...], index_type: DataType, found: str, what: str, *, clamps: bool = True
) -> Fault:
    """Word an index, found at a position among the indices, that is outside what it is to lie in."""
    place = f"indices[{', '.join(map(str, position))}]" if position else "indices"
    low = -fault.size if index_type.is_signed else 0
    rule = f"{place} = {found} is outside {what} of size {fault.size}"
    way_out = f"take {low} .. {fault.size - 1}"
    way_out += ', or index_mode="clamp" for the nearest element' if clamps else ""
    return Fault(field="IndicesTensor", rule=rule, value=fault.indices, way_out=way_out)


def counted_sizes(desc: TensorDesc, tensor: str, field: str, count: int) -> Iterator[Fault]:
    """Check that a field counts the last dimensions of a tensor, and that those before them have size 1."""
    if not 1 <= count <= desc.dimension_count:
        yield fault(field, f"must lie in 1 .. {desc.dimension_count}, the dimensions of {tensor}", count)
        return
    for i, size in enumerate(desc.sizes[: desc.dimension_count - count]):
        if size != 1:
            name = f"{tensor}.Sizes[{i}]"
            yield fault(name, f"must be 1, because only the last {field} = {count} dimensions count", size)


class _GatherDesc(OperatorDesc):
    """The shared part of the two versions; GATHER_ND is GATHER_ND1 with no batch dimensions."""

    input_tensor: Input
    indices_tensor: Input
    output_tensor: Output
    input_dimension_count: Uint
    indices_dimension_count: Uint
    index_mode: OutsideIndex = IndexMode.RAISE

    @property
    def _batch_rank(self) -> int:
        return 0

    @property
    def _input_sizes(self) -> tuple[int, ...]:
        return self.input_tensor.sizes[self.input_tensor.dimension_count - self.input_dimension_count :]

    @property
    def _indices_sizes(self) -> tuple[int, ...]:
        return self.indices_tensor.sizes[self.indices_tensor.dimension_count - self.indices_dimension_count :]

    def rules(self) -> Iterator[Fault]:
        """The counts of dimensions fit the tensors; a tuple has no more coordinates than there are to index."""
        counts = list(same_dimension_count(self, "IndicesTensor", "InputTensor"))
        counts += counted_sizes(self.input_tensor, "InputTensor", "InputDimensionCount", self.input_dimension_count)
        own = self.indices_dimension_count
        counts += counted_sizes(self.indices_tensor, "IndicesTensor", "IndicesDimensionCount", own)
        yield from counts
        if counts:
            return
        batch = list(self._batch_rules())
        yield from batch
        if batch:
            return
        size, most = self._indices_sizes[-1], self.input_dimension_count - self._batch_rank
        if size > most:
            field = f"IndicesTensor.Sizes[{self.indices_tensor.dimension_count - 1}]"
            less = " less BatchDimensionCount" if self._batch_rank else ""
            rule = f"{field}, the coordinates of a tuple, must lie in 1 .. {most}, InputDimensionCount{less}"
            yield Fault(field=field, rule=rule, value=size, found=str(size))
            return
        needed, count = len(self._gathered_sizes()), self.input_tensor.dimension_count
        if needed > count:
            rule = f"the result {self._gathered_sizes()} must fit the {count} dimensions of the tensors"
            way_out = f"describe all three tensors with {needed} dimensions, leading sizes of 1 added"
            yield Fault(
                field="OutputTensor.DimensionCount",
                rule=rule,
                value=count,
                found=str(needed),
                way_out=way_out,
            )

    def _batch_rules(self) -> Iterator[Fault]:
        yield from ()

    def _gathered_sizes(self) -> tuple[int, ...]:
        indices = self._indices_sizes
        return indices[:-1] + self._input_sizes[self._batch_rank + indices[-1] :]

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The indices' sizes without the last, then the input's that no tuple indexes; 1s in front."""
        sizes = self._gathered_sizes()
        return (1,) * (self.input_tensor.dimension_count - len(sizes)) + sizes

    def output_rules(self) -> Iterator[Fault]:
        """The output is of the input's type and of the implied sizes."""
        yield from same_data_type(self, "OutputTensor", "InputTensor")
        source = "the sizes of IndicesTensor without the last, then those of InputTensor that no tuple indexes"
        yield from sized_as(self, "OutputTensor", self.implied_output_sizes(), source)

    def lower(self) -> tuple[Map]:
        """A gather between the dimensions that count."""
        gather = gathered(
            source=View.of("InputTensor", self.input_tensor).last(self.input_dimension_count),
            indices=View.of("IndicesTensor", self.indices_tensor).last(self.indices_dimension_count),
            target=View.of("OutputTensor", self.output_tensor).last(len(self._gathered_sizes())),
            batch_rank=self._batch_rank,
            clamp=self.index_mode is IndexMode.CLAMP,
        )
        return (gather,)

    def word_outside(self, fault: IndexFault) -> Fault:
        """Name the tuple by its place among the dimensions of IndicesTensor that count."""
        tuple_text = f"({', '.join(map(str, fault.indices))}{',' if len(fault.indices) == 1 else ''})"
        what = f"dimension {fault.dimension}"
        return word_index(fault, fault.position, self.indices_tensor.data_type, tuple_text, what)


class GatherND(_GatherDesc):
    """Copies blocks of the input by tuples of indices: Output[t, …] = Input[Indices[t], …].

    The last size of IndicesTensor is the number of coordinates in a tuple. The two counts say how many dimensions
    of each tensor are meant, after leading 1s.
    """

    type = OperatorType.GATHER_ND


class GatherND1(_GatherDesc):
    """GATHER_ND within batches: Output[b, t, …] = Input[b, Indices[b, t], …].

    The first BatchDimensionCount dimensions that count are common to all three tensors.
    """

    type = OperatorType.GATHER_ND1

    batch_dimension_count: Uint

    @property
    def _batch_rank(self) -> int:
        return self.batch_dimension_count

    def _batch_rules(self) -> Iterator[Fault]:
        count = self.batch_dimension_count
        limits = {
            "InputDimensionCount": self.input_dimension_count,
            "IndicesDimensionCount": self.indices_dimension_count,
        }
        for field, limit in limits.items():
            if count >= limit:
                yield fault("BatchDimensionCount", f"must be below {field}, {limit}", count)
        if count >= min(limits.values()):
            return
        pairs = zip(self._input_sizes[:count], self._indices_sizes[:count], strict=True)
        for i, (size, index_size) in enumerate(pairs):
            if size != index_size:
                at = self.indices_tensor.dimension_count - self.indices_dimension_count + i
                rule = f"IndicesTensor.Sizes[{at}], batch dimension {i}, must be the input's, {size}"
                yield Fault(field=f"IndicesTensor.Sizes[{at}]", rule=rule, value=index_size, found=str(index_size))


# GATHER and GATHER_ELEMENTS: along one axis


def _word_outside_axis(fault: IndexFault, position: tuple[int, ...], index_type: DataType) -> Fault:
    """Word an index outside the axis, which has no number: leading 1s that the caller did not write count in it."""
    return word_index(fault, position, index_type, str(fault.indices[0]), "the axis")


class Gather(OperatorDesc):
    """Copies blocks of the input by indices along an axis: Output[…, i, …] = Input[…, Indices[i], …].

    The last IndexDimensions dimensions of IndicesTensor are meant, after leading 1s; they stand in the output in the
    place of the axis. Leading 1s that the output has no room for are left away.
    """

    type = OperatorType.GATHER
    # The reference says that IndexDimensions lies below IndicesTensor.DimensionCount, which its own examples reach;
    # and its third example has 2 where 1 gives the sizes that it writes.

    input_tensor: Input
    indices_tensor: Input
    output_tensor: Output
    axis: Uint
    index_dimensions: Uint
    index_mode: OutsideIndex = IndexMode.RAISE

    @property
    def _index_sizes(self) -> tuple[int, ...]:
        return self.indices_tensor.sizes[self.indices_tensor.dimension_count - self.index_dimensions :]

    def rules(self) -> Iterator[Fault]:
        """The axis and the dimensions of indices are there, and what is gathered fits the tensors' dimensions."""
        faults = [*same_dimension_count(self, "IndicesTensor", "InputTensor"), *axis_of_input(self, self.axis)]
        count, given = self.indices_tensor.dimension_count, self.index_dimensions
        if given > count:
            faults.append(fault("IndexDimensions", f"must lie in 0 .. {count}, the dimensions of IndicesTensor", given))
        else:
            for i, size in enumerate(self.indices_tensor.sizes[: count - given]):
                if size != 1:
                    name = f"IndicesTensor.Sizes[{i}]"
                    faults.append(
                        fault(
                            name, f"must be 1, because only the last IndexDimensions = {given} dimensions count", size
                        )
                    )
        yield from faults
        if faults:
            return
        gathered = self._gathered_sizes()
        lead = gathered[: max(len(gathered) - count, 0)]
        if any(size != 1 for size in lead):
            rule = f"the result {gathered} must fit the {count} dimensions of the tensors, without leading 1s"
            way_out = f"describe all three tensors with {len(gathered)} dimensions, leading sizes of 1 added"
            yield Fault(
                field="OutputTensor.DimensionCount", rule=rule, value=count, found=str(len(gathered)), way_out=way_out
            )

    def _gathered_sizes(self) -> tuple[int, ...]:
        sizes = self.input_tensor.sizes
        return (*sizes[: self.axis], *self._index_sizes, *sizes[self.axis + 1 :])

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The input's sizes with those of the indices in the place of the axis; 1s in front, or fewer of them."""
        sizes, count = self._gathered_sizes(), self.input_tensor.dimension_count
        return (1,) * (count - len(sizes)) + sizes[max(len(sizes) - count, 0) :]

    def output_rules(self) -> Iterator[Fault]:
        """The output is of the input's type and of the implied sizes."""
        yield from same_data_type(self, "OutputTensor", "InputTensor")
        source = "the sizes of InputTensor with those of the indices in the place of the axis"
        yield from sized_as(self, "OutputTensor", self.implied_output_sizes(), source)

    def lower(self) -> tuple[Map]:
        """A gather in which the dimensions before the axis are batches that share the indices."""
        before, sizes = self.input_tensor.sizes[: self.axis], self._gathered_sizes()
        indices = View.of("IndicesTensor", self.indices_tensor).last(self.index_dimensions)
        target = View.of("OutputTensor", self.output_tensor)
        strides = (0,) * (len(sizes) - len(target.sizes)) + target.strides[max(len(target.sizes) - len(sizes), 0) :]
        gather = gathered(
            source=View.of("InputTensor", self.input_tensor),
            indices=View(
                indices.tensor,
                indices.data_type,
                (*before, *indices.sizes, 1),
                ((0,) * len(before)) + indices.strides + (0,),
            ),
            target=View(target.tensor, target.data_type, sizes, strides),
            batch_rank=self.axis,
            clamp=self.index_mode is IndexMode.CLAMP,
        )
        return (gather,)

    def word_outside(self, fault: IndexFault) -> Fault:
        """Name the index by its place among the dimensions of IndicesTensor that count."""
        return _word_outside_axis(fault, fault.position[self.axis :], self.indices_tensor.data_type)


class GatherElements(OperatorDesc):
    """Copies single elements by an index each: Output[…, i, …] = Input[…, Indices[…, i, …], …]."""

    type = OperatorType.GATHER_ELEMENTS

    input_tensor: Input
    indices_tensor: Input
    output_tensor: Output
    axis: Uint
    index_mode: OutsideIndex = IndexMode.RAISE

    def rules(self) -> Iterator[Fault]:
        """The axis is one of the input's, and off it the indices have the input's sizes."""
        faults = [*same_dimension_count(self, "IndicesTensor", "InputTensor"), *axis_of_input(self, self.axis)]
        yield from faults
        if faults:
            return
        yield from same_sizes_off_axis(self, "IndicesTensor", "InputTensor", self.axis)

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The indices'."""
        return self.indices_tensor.sizes

    def output_rules(self) -> Iterator[Fault]:
        """The output is of the input's type and of the indices' sizes."""
        yield from same_data_type(self, "OutputTensor", "InputTensor")
        yield from same_sizes(self, "OutputTensor", "IndicesTensor")

    def lower(self) -> tuple[Map]:
        """A gather in which every dimension but the axis is a batch."""
        order = self._order()
        indices = View.of("IndicesTensor", self.indices_tensor).pick(order)
        gather = gathered(
            source=View.of("InputTensor", self.input_tensor).pick(order),
            indices=View(indices.tensor, indices.data_type, (*indices.sizes, 1), (*indices.strides, 0)),
            target=View.of("OutputTensor", self.output_tensor).pick(order),
            batch_rank=len(order) - 1,
            clamp=self.index_mode is IndexMode.CLAMP,
        )
        return (gather,)

    def _order(self) -> Sequence[int]:
        """The dimensions with the axis last."""
        return [*(k for k in range(self.input_tensor.dimension_count) if k != self.axis), self.axis]

    def word_outside(self, fault: IndexFault) -> Fault:
        """Name the index by its place in IndicesTensor."""
        position = dict(zip(self._order(), fault.position, strict=True))
        return _word_outside_axis(fault, tuple(position[k] for k in sorted(position)), self.indices_tensor.data_type)


# SCATTER and SCATTER_ND


INT64 = DataType.INT64


class _Scatter(Computed):
    """The shared part of the two: the output is like the input, and the updates are of its type."""

    typed_like = {"UpdatesTensor": "InputTensor", "OutputTensor": "InputTensor"}

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
        return (Reduce(sources, by_row(made.target, depth), value, depth),)


class Scatter(_Scatter):
    """A copy of the input with updates along an axis: Output[…, Indices[…, i, …], …] = Updates[…, i, …].

    Of several updates of one element the last one stays. An index outside the axis is an error.
    """

    axis: Uint

    def _size_faults(self) -> Iterator[Fault]:
        """Off the axis the indices have the input's sizes, and there is an update for each."""
        faults = list(axis_of_input(self, self.axis))
        yield from faults or same_sizes_off_axis(self, "IndicesTensor", "InputTensor", self.axis)
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
