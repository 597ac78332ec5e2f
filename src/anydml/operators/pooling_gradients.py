"""The gradients of poolings, and MAX_UNPOOLING: numbers go back to the places that they came from."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.enums import DataType
from anydml.errors import Fault
from anydml.ir.expressions import const, coordinate, fold, given, load, where
from anydml.ir.patterns import copy_of, filled
from anydml.ir.verbs import Map, Reduce, Scatter
from anydml.ir.views import View
from anydml.operators.computed import Computed, wide
from anydml.operators.fields import Input, Output, PerDimension  # noqa: TC001 - read at run time
from anydml.operators.gather import word_index
from anydml.operators.margins import framed, store, walked
from anydml.operators.pooling import AveragePooling1, MaxPooling2
from anydml.operators.rules import exact_sizes, same_data_type, same_dimension_count, same_sizes
from anydml.operators.windows import Windowed
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import IndexFault, Primitive
    from anydml.operators.pooled import Pooling
    from anydml.operators.sizes import Sizes

F32, INT64 = DataType.FLOAT32, DataType.INT64


class _Gradient(Windowed):
    """The gradient of a pooling with respect to its input."""

    if TYPE_CHECKING:
        input_gradient_tensor: Input
        output_gradient_tensor: Output
        strides: PerDimension
        window_size: PerDimension
        start_padding: PerDimension
        end_padding: PerDimension

    def gathered(self, sources: Sequence[View], values: Sequence[float], value: Expr, sizes: Sizes) -> list[Primitive]:
        """A reduce over the windows that an element is in, of what each of them has; others have `values`.

        What windows have is spread by the strides, with room around: then the windows that an element is in lie
        around it.
        """
        window, reaches = self.each("window_size"), self.reaches(self.each("window_size"))
        starts = [reach - 1 - start for reach, start in zip(reaches, self.each("start_padding"), strict=True)]
        wholes = [size + reach - 1 for size, reach in zip(sizes[2:], reaches, strict=True)]
        steps, views, before = (1, 1, *self.each("strides")), [], []
        for k, (source, outside) in enumerate(zip(sources, values, strict=True)):
            fill = lambda target, outside=outside: filled(target, outside)  # noqa: E731 - of this source
            whole, filling = framed(source, (0, 0, *starts), steps, (*sizes[:2], *wholes), f"spread{k}", fill)
            batch, channel, *places = whole.strides
            within = [stride * by for stride, by in zip(places, self.each("dilations"), strict=True)]
            views.append(walked(whole, (*sizes, *window), (batch, channel, *places, *within)))
            before += filling
        none = (0,) * len(window)
        target = View.of("OutputGradientTensor", self.output_gradient_tensor)
        ending = walked(target, (*sizes, *(1 for _ in none)), (*target.strides, *none))
        return [*before, Reduce(tuple(views), ending, value.to(target.data_type), len(window))]


class AveragePoolingGrad(_Gradient):
    """The gradient of AVERAGE_POOLING: each number, over as many as its window's mean is of, is added to all of those.

    The output may have any sizes into which as many windows fit; the smallest, where they are not given.
    """

    sizes_are_free = True

    input_gradient_tensor: Input
    output_gradient_tensor: Output
    strides: PerDimension = 1
    window_size: PerDimension
    start_padding: PerDimension = 0
    end_padding: PerDimension = 0
    include_padding: bool = False

    def rules(self) -> Iterator[Fault]:
        """The numbers are those of windows."""
        faults = list(self.spatial_faults())
        yield from faults
        for i, size in enumerate(self.implied_output_sizes()[2:] if not faults else ()):
            if size + self.each("strides")[i] - 1 < 1:
                rule = f"StartPadding[{i}] and EndPadding[{i}] must leave an element of the output"
                field = f"StartPadding[{i}]"
                yield Fault(field=field, rule=rule, value=self.each("start_padding")[i], found=f"{size} left")

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The smallest into which as many windows fit."""
        own = zip(
            self.input_gradient_tensor.sizes[2:], self.each("strides"), self.each("window_size"),
            self.each("start_padding"), self.each("end_padding"), strict=True,
        )  # fmt: skip
        found = ((n - 1) * step + size - before - after for n, step, size, before, after in own)
        return (*self.input_gradient_tensor.sizes[:2], *found)

    def output_rules(self) -> Iterator[Fault]:
        """As many windows fit into the output."""
        yield from same_data_type(self, "OutputGradientTensor", "InputGradientTensor")
        counts = list(same_dimension_count(self, "OutputGradientTensor", "InputGradientTensor"))
        yield from counts
        least = self.implied_output_sizes()
        for k, size in enumerate(self.output_gradient_tensor.sizes if not counts else ()):
            most = least[k] + (self.each("strides")[k - 2] - 1 if k > 1 else 0)
            if not max(least[k], 1) <= size <= most:
                to = f" .. {most}" if most > max(least[k], 1) else ""
                rule = f"OutputGradientTensor.Sizes[{k}] must be {max(least[k], 1)}{to}, into which the windows fit"
                yield Fault(field=f"OutputGradientTensor.Sizes[{k}]", rule=rule, value=size, found=str(size))

    def lower(self) -> tuple[Primitive, ...]:
        """Each number divided, then the sum of those of the windows that an element is in."""
        pooled = AveragePooling1.infer(
            input_tensor=self.output_gradient_tensor,
            **{name: self.each(name) for name in self.spatial_fields()},
        )
        dy = View.of("InputGradientTensor", self.input_gradient_tensor)
        shares = store("shares", F32, dy.sizes)
        divisor = pooled.mean_divisor(include_padding=self.include_padding).to(F32)
        divided = Map((dy,), shares, wide(load(0, dy.data_type)) / divisor)
        total = fold("sum", load(0, F32))
        return (divided, *self.gathered([shares], [0], total, self.output_gradient_tensor.sizes))


class MaxPoolingGrad(_Gradient):
    """The gradient of MAX_POOLING2: each number is added to the first of the largest of its window.

    A NaN is the largest. Padding is below all numbers, and takes nothing. Sums are of FLOAT32.
    """

    input_tensor: Input
    input_gradient_tensor: Input
    output_gradient_tensor: Output
    strides: PerDimension = 1
    window_size: PerDimension
    start_padding: PerDimension = 0
    end_padding: PerDimension = 0
    dilations: PerDimension = 1

    def _pooling(self) -> Pooling:
        return MaxPooling2.draft(
            input_tensor=self.input_tensor, **{name: self.each(name) for name in self.spatial_fields()}
        )

    def rules(self) -> Iterator[Fault]:
        """There is a number for each window of the input."""
        yield from same_data_type(self, "InputGradientTensor", "InputTensor")
        faults = [*self.spatial_faults(), *same_dimension_count(self, "InputGradientTensor", "InputTensor")]
        yield from faults
        if not faults:
            sizes = self._pooling().implied_output_sizes()
            yield from exact_sizes(self, "InputGradientTensor", sizes, "of the windows that fit into InputTensor")

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The input's."""
        return self.input_tensor.sizes

    def output_rules(self) -> Iterator[Fault]:
        """The output is like the input."""
        yield from same_data_type(self, "OutputGradientTensor", "InputTensor")
        yield from same_sizes(self, "OutputGradientTensor", "InputTensor")

    @classmethod
    def usual_tensor(cls, field: str, first: TensorDesc) -> tuple[DataType, Sizes]:  # noqa: ARG003 - as others
        """A number for each window of one element, and strides of 1."""
        return first.data_type, first.sizes

    def lower(self) -> tuple[Primitive, ...]:
        """Where each window's largest lies, then the sum of the numbers of those that lie at an element."""
        pooling, kind = self._pooling(), self.input_tensor.data_type
        assert isinstance(pooling, MaxPooling2)  # noqa: S101 - for type checkers
        whole, filling = pooling.framed_input()
        indices = TensorDesc(INT64, self.input_gradient_tensor.sizes)
        index = pooling.first_largest(wide(load(0, kind)))
        found = pooling.reduced(whole, "indices", indices, index)
        own = const(0, INT64)
        for k, size in enumerate(self.input_tensor.sizes):
            own = own * given(size, INT64) + coordinate(k)
        dy = View.of("InputGradientTensor", self.input_gradient_tensor)
        total = fold("sum", where(load(0, INT64).equals(own), wide(load(1, kind)), const(0, F32)))
        sources = [View.of("indices", indices), dy]
        return (*filling, found, *self.gathered(sources, [-1, 0], total, self.input_tensor.sizes))


class MaxUnpooling(Computed):
    """Zeros, but for the elements that indices name, which have the input's numbers: out[index] = x.

    An index counts the output's elements as one row; one outside of it is an error. Of several with one index the last
    is taken. The output's sizes are those of the input, where they are not given.
    """

    sizes_are_free = True
    typed_like = {"OutputTensor": "InputTensor"}  # noqa: RUF012 - a table that nobody writes to

    input_tensor: Input
    indices_tensor: Input
    output_tensor: Output

    def rules(self) -> Iterator[Fault]:
        """There is an index for each element."""
        yield from same_sizes(self, "IndicesTensor", "InputTensor")

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The input's: an index may be any below their product."""
        return self.input_tensor.sizes

    def output_rules(self) -> Iterator[Fault]:
        """The output has the input's type, batch and channels."""
        yield from self.typed_faults(self.outputs())
        counts = list(same_dimension_count(self, "OutputTensor", "InputTensor"))
        yield from counts
        for k in (0, 1) if not counts else ():
            own, size = self.output_tensor.sizes[k], self.input_tensor.sizes[k]
            if own != size:
                rule = f"OutputTensor.Sizes[{k}] must be InputTensor.Sizes[{k}], {size}"
                yield Fault(field=f"OutputTensor.Sizes[{k}]", rule=rule, value=own, found=str(own))

    def _taken(self) -> tuple[Expr, Expr]:
        """The number of an element of the input, and that of the last that names the output's; -1 where none does."""
        own = number = const(0, INT64)
        for k, (size, other) in enumerate(zip(self.output_tensor.sizes, self.input_tensor.sizes, strict=True)):
            own = own * given(size, INT64) + coordinate(k)
            number = number * given(other, INT64) + coordinate(self.input_tensor.dimension_count + k)
        is_named = load(0, self.indices_tensor.data_type).to(INT64).equals(own)
        return number, fold("max", where(is_named, number, const(-1, INT64)))

    def _over(self, field: str) -> View:
        """An input, whole, for each element of the output."""
        view, rank = View.of(field, self.tensors()[field]), self.input_tensor.dimension_count
        return walked(view, (*self.output_tensor.sizes, *view.sizes), (*(0,) * rank, *view.strides))

    def _by_row(self, target: View) -> View:
        ones = (1,) * len(target.sizes)
        return walked(target, (*target.sizes, *ones), (*target.strides, *(0 for _ in ones)))

    def told(self) -> tuple[Primitive, ...]:
        """The same as one sum, of the element that is taken and zeros."""
        number, taken = self._taken()
        value = fold("sum", where(number.equals(taken), wide(load(1, self.input_tensor.data_type)), 0))
        target = self._by_row(View.of("OutputTensor", self.output_tensor))
        sources = (self._over("IndicesTensor"), self._over("InputTensor"))
        return (Reduce(sources, target, value.to(target.data_type), self.input_tensor.dimension_count),)

    def lower(self) -> tuple[Primitive, ...]:
        """Zeros, and the elements scattered into the output as one row; one that lies apart takes a copy of that."""
        x, output = View.of("InputTensor", self.input_tensor), self.output_tensor
        indices, zero = View.of("IndicesTensor", self.indices_tensor), store("zero", x.data_type, [1])
        tuples = replace(indices, sizes=(*indices.sizes, 1), strides=(*indices.strides, 0))
        count, whole = output.element_count, View.of("OutputTensor", output)
        packed = store("OutputTensor", x.data_type, output.sizes)
        is_packed = whole == packed.window((0,) * len(output.sizes), (1,) * len(output.sizes), output.sizes)
        row = store("OutputTensor" if is_packed else "row", x.data_type, [count])
        base = replace(zero, sizes=(count,), strides=(0,))
        put = Scatter((base, tuples, x), row, 0)
        steps: list[Primitive] = [filled(zero, 0), replace(put, checks=(put.check,))]
        return (*steps, *([] if is_packed else [copy_of(replace(packed, tensor="row"), whole)]))

    def word_outside(self, fault: IndexFault) -> Fault:
        """Name the index by its place in IndicesTensor."""
        kind, found = self.indices_tensor.data_type, str(fault.indices[0])
        return word_index(fault, fault.position, kind, found, "the row of OutputTensor's elements,", clamps=False)
