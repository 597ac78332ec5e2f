"""The poolings: each window of the input made one number, its mean, its norm or its largest; and the ways back.

Gradients and MAX_UNPOOLING take numbers back to the places that they came from.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anydml.arrays.tensor import TensorDesc
from anydml.core.enums import DataType
from anydml.core.errors import Fault
from anydml.ir.expressions import absolute, call, const, coordinate, fold, given, load, maximum, minimum, sqrt, where
from anydml.ir.patterns import copy_of, filled
from anydml.ir.verbs import Map, Reduce, Scatter
from anydml.ir.views import View
from anydml.operators.convolution import Windowed
from anydml.operators.gather import word_index
from anydml.operators.lowering import by_row, framed, repeated, temporary, walked, wide
from anydml.operators.quantization import difference, quantised
from anydml.operators.reductions import is_extreme
from anydml.operators.schema.fields import Input, OptionalInput, OptionalOutput, Output, PerDimension, Uint
from anydml.operators.schema.records import Computed
from anydml.operators.schema.rules import exact_sizes, fault, same_data_type, same_dimension_count, same_sizes, sized_as
from anydml.operators.schema.sizes import pad

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import IndexFault, Primitive
    from anydml.operators.schema.sizes import Sizes, Spread


# The common part: windows of the input, with its padding, each made one number by a reduce


class Pooling(Windowed):
    """Makes each window one number. A subclass has its fields and its `value`."""

    typed_like = {"OutputTensor": "InputTensor"}

    if TYPE_CHECKING:
        input_tensor: Input
        output_tensor: Output
        strides: PerDimension
        window_size: PerDimension
        start_padding: PerDimension
        end_padding: PerDimension

    # What subclasses say

    def value(self, elements: Mapping[str, Expr]) -> Expr:
        """The output's element of those of a window, with folds; the inputs by their fields."""
        raise NotImplementedError

    def fill(self, target: View) -> Map:
        """The filling of the padding: 0."""
        return filled(target, 0)

    # Sizes and rules

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The windows that fit into each dimension."""
        found = self.counts(self.input_tensor.sizes, self.each("window_size"))
        return (*self.input_tensor.sizes[:2], *(max(count, 1) for count in found))

    def rules(self) -> Iterator[Fault]:
        """The windows fit."""
        yield from self.typed_faults(self.inputs())
        faults = list(self.spatial_faults())
        yield from faults or self.fitting_faults("InputTensor", self.each("window_size"), "WindowSize[{}]")

    def output_rules(self) -> Iterator[Fault]:
        """The output has an element for each window."""
        yield from self.typed_faults(self.outputs())
        source = "of the windows that fit into InputTensor"
        yield from sized_as(self, "OutputTensor", self.implied_output_sizes(), source)

    # How it is computed

    def lower(self) -> tuple[Primitive, ...]:
        """The input with its padding, then a reduce over its windows for each output."""
        whole, filling = self.framed_input()
        output = next(iter(self.outputs().values()))
        return (*filling, self.reduced(whole, "OutputTensor", output, self.value(self.elements())))

    def framed_input(self) -> tuple[View, list[Map]]:
        """The input as windows walk over it, with padding as far as they reach."""
        x, counts = View.of("InputTensor", self.input_tensor), self.implied_output_sizes()[2:]
        walk = zip(counts, self.each("strides"), self.reaches(self.each("window_size")), strict=True)
        sizes = (*x.sizes[:2], *((count - 1) * step + reach for count, step, reach in walk))
        return framed(x, (0, 0, *self.each("start_padding")), (1,) * len(sizes), sizes, "padded", self.fill)

    def elements(self) -> dict[str, Expr]:
        """The elements of the inputs, by their fields: FLOAT16 as FLOAT32."""
        return {field: wide(load(slot, one.data_type)) for slot, (field, one) in enumerate(self.inputs().items())}

    def reduced(self, whole: View, field: str, output: TensorDesc, value: Expr) -> Reduce:
        """A reduce over the windows of a view; the other inputs are single numbers."""
        (batch, channel, *places), window = whole.strides, self.each("window_size")
        sizes = (*self.implied_output_sizes(), *window)
        across, within = (
            [stride * step for stride, step in zip(places, self.each(name), strict=True)]
            for name in ("strides", "dilations")
        )
        views = [walked(whole, sizes, (batch, channel, *across, *within))]
        others = list(self.inputs().items())[1:]
        views += [walked(View.of(other, tensor), sizes, (0,) * len(sizes)) for other, tensor in others]
        return Reduce(
            tuple(views), by_row(View.of(field, output), len(window)), value.to(output.data_type), len(window)
        )

    def places(self) -> list[Expr]:
        """Where an element of a window lies in the input, in each spatial dimension."""
        rank = self.dimension_count
        return [
            coordinate(2 + i) * given(step, INT64) + coordinate(2 + rank + i) * given(by, INT64) - given(start, INT64)
            for i, (step, by, start) in enumerate(
                zip(self.each("strides"), self.each("dilations"), self.each("start_padding"), strict=True)
            )
        ]

    def real_count(self) -> Expr:
        """How many elements of a window are not padding; 1 where all of them are.

        CPUs take vectors of INT32, not of INT64, and divide whole numbers one by one: 64 planes of 56 x 56 take 0.7 ms
        so, and 8 otherwise.
        """
        window = self.each("window_size")
        reach = [
            size + far
            for size, far in zip(self.padded_sizes(self.input_tensor.sizes), self.reaches(window), strict=True)
        ]
        kind = DataType.INT32 if max(*reach, math.prod(window)) < 2**30 else INT64
        found = const(1, kind)
        for i, (size, count, step, by, start) in enumerate(
            zip(
                self.input_tensor.sizes[2:], window, self.each("strides"), self.each("dilations"),
                self.each("start_padding"), strict=True,
            )
        ):  # fmt: skip
            first = given(start, kind) - coordinate(2 + i).to(kind) * given(step, kind)  # elements before the input's
            last = first + given(size - 1, kind)
            before, until = maximum(first, 0), maximum(last, given(-by, kind)) + given(by, kind)
            if by > 1:
                before, until = (before + given(by - 1, kind)) / given(by, kind), until / given(by, kind)
            found = found * maximum(minimum(until, count) - before, 0)
        return maximum(found, 1)

    def has_padding(self) -> bool:
        """Whether a window reaches into padding."""
        reach = self.padded_sizes(self.input_tensor.sizes) != self.input_tensor.sizes[2:]
        return reach or not self._fits()

    def _fits(self) -> bool:
        pairs = zip(self.padded_sizes(self.input_tensor.sizes), self.reaches(self.each("window_size")), strict=True)
        return all(reach <= size for size, reach in pairs)

    def mean_divisor(self, *, include_padding: bool) -> Expr:
        """The divisor of the sum of a window, a whole number."""
        if include_padding or not self.has_padding():
            return given(math.prod(self.each("window_size")), INT64)
        return self.real_count()


# Poolings


F32, SUMS, INT64 = DataType.FLOAT32, DataType.FLOAT64, DataType.INT64


class _Plain(Pooling):
    input_tensor: Input
    output_tensor: Output
    strides: PerDimension = 1
    window_size: PerDimension
    start_padding: PerDimension = 0
    end_padding: PerDimension = 0


class _Dilated(_Plain):
    dilations: PerDimension = 1


class _Average(Pooling):
    if TYPE_CHECKING:
        include_padding: bool

    def value(self, elements: Mapping[str, Expr]) -> Expr:
        return fold("sum", elements["InputTensor"]) / self.mean_divisor(include_padding=self.include_padding).to(F32)


class AveragePooling(_Plain, _Average):
    """The mean of each window.

    Padding counts as 0 with IncludePadding; otherwise the mean is of the elements that are not padding, and 0 where
    there are none. Sums are of FLOAT32.
    """

    include_padding: bool = False


class AveragePooling1(_Dilated, _Average):
    """The mean of each window, whose elements are Dilations apart.

    Padding counts as 0 with IncludePadding; otherwise the mean is of the elements that are not padding, and 0 where
    there are none. Sums are of FLOAT32.
    """

    include_padding: bool = False


class QuantizedLinearAveragePooling(_Average):
    """The mean of each window of quantised numbers, quantised: round(s·Σ(x - z)/count/sy) + zy, halves to even.

    Elements of a window are Dilations apart. Padding is the input's zero point with IncludePadding, and is not counted
    otherwise. What lies outside the type's range takes its nearest end. Scales and zero points are single numbers.
    """

    broadcasts = True
    result_type = None
    typed_like = {"InputZeroPointTensor": "InputTensor", "OutputTensor": "OutputZeroPointTensor"}

    input_tensor: Input
    input_scale_tensor: Input
    input_zero_point_tensor: OptionalInput = None
    output_scale_tensor: Input
    output_zero_point_tensor: OptionalInput = None
    output_tensor: Output
    strides: PerDimension = 1
    window_size: PerDimension
    start_padding: PerDimension = 0
    end_padding: PerDimension = 0
    dilations: PerDimension = 1
    include_padding: bool = False

    @classmethod
    def spread(cls, sizes: Mapping[str, Sizes], **attributes: Any) -> Spread:  # noqa: ARG003 - of others
        """How a function sees its inputs: numbers have as many dimensions as the input."""
        rank = len(sizes["InputTensor"])
        seen = {field: own if field == "InputTensor" else pad(own, rank) for field, own in sizes.items()}
        return {field: (own, own) for field, own in seen.items()}

    @classmethod
    def usual_tensor(cls, field: str, first: TensorDesc) -> tuple[DataType, Sizes]:
        """One number."""
        return F32 if "Scale" in field else first.data_type, (1,) * first.dimension_count

    def implied_output_type(self) -> DataType:
        """The output's zero point's, or the input's."""
        return (self.output_zero_point_tensor or self.input_tensor).data_type

    def rules(self) -> Iterator[Fault]:
        """The windows fit, and scales and zero points are single numbers."""
        yield from super().rules()
        for field in list(self.inputs())[1:]:
            sizes = self.tensors()[field].sizes
            if math.prod(sizes) != 1:
                yield fault(f"{field}.Sizes", f"must be {(1,) * len(sizes)}, a number for all", sizes)

    def fill(self, target: View) -> Map:
        """The filling of the padding: the input's zero point, so that differences are 0."""
        zero = self.input_zero_point_tensor
        return super().fill(target) if zero is None else repeated("InputZeroPointTensor", zero, target)

    def value(self, elements: Mapping[str, Expr]) -> Expr:
        total = fold("sum", difference(elements["InputTensor"], elements.get("InputZeroPointTensor"), INT64))
        count = self.mean_divisor(include_padding=self.include_padding).to(F32)
        mean = total.to(F32) * elements["InputScaleTensor"] / count
        return quantised(mean / elements["OutputScaleTensor"], elements.get("OutputZeroPointTensor"))


class _Lp(Pooling):
    if TYPE_CHECKING:
        p: Uint

    def rules(self) -> Iterator[Fault]:
        """The windows fit, and P is a power."""
        yield from super().rules()
        if self.p < 1:
            yield fault("P", "must be at least 1", self.p)

    def value(self, elements: Mapping[str, Expr]) -> Expr:
        """(Σ|x|ᵖ)^(1/p), of which powers are summed in FLOAT64."""
        x = absolute(elements["InputTensor"])
        if self.p == 1:
            return fold("sum", x)
        if self.p == 2:
            return sqrt(fold("sum", x.to(SUMS) * x.to(SUMS)))
        total = fold("sum", call("pow", x, given(self.p, F32)).to(SUMS)).to(F32)
        return call("pow", total, given(1 / self.p, F32))


class LpPooling(_Plain, _Lp):
    """The norm of each window: (Σ|x|ᵖ)^(1/p), of P. Padding counts as 0."""

    p: Uint = 2


class LpPooling1(_Dilated, _Lp):
    """The norm of each window, whose elements are Dilations apart: (Σ|x|ᵖ)^(1/p), of P. Padding counts as 0."""

    p: Uint = 2


class _Largest(Pooling):
    def fill(self, target: View) -> Map:
        """The filling of the padding: the least value of the type."""
        return filled(target, -math.inf if target.data_type.is_float else target.data_type.limits[0])

    def value(self, elements: Mapping[str, Expr]) -> Expr:
        return fold("max", elements["InputTensor"])


class MaxPooling(_Plain, _Largest):
    """The largest of each window, NaN where one is. Padding is below all numbers."""


class _WithIndices(_Largest):
    input_tensor: Input
    output_tensor: Output
    output_indices_tensor: OptionalOutput = None
    strides: PerDimension = 1
    window_size: PerDimension
    start_padding: PerDimension = 0
    end_padding: PerDimension = 0

    def implied_outputs(self) -> tuple[TensorDesc, ...]:
        """The largest, and indices of UINT32."""
        (output,) = super().implied_outputs()
        return output, TensorDesc(DataType.UINT32, output.sizes)

    def output_rules(self) -> Iterator[Fault]:
        """The outputs have an element for each window."""
        yield from super().output_rules()
        if self.output_indices_tensor is not None:
            yield from same_sizes(self, "OutputIndicesTensor", "OutputTensor")

    def lower(self) -> tuple[Primitive, ...]:
        """The input with its padding, then a reduce over its windows for each output."""
        found = super().lower()
        if self.output_indices_tensor is None:
            return found
        whole, index = self.framed_input()[0], self.first_largest(self.elements()["InputTensor"])
        return (*found, self.reduced(whole, "OutputIndicesTensor", self.output_indices_tensor, index))

    def first_largest(self, x: Expr) -> Expr:
        """Where the first largest of a window lies in the input, counted from its very first element; INT64."""
        sizes, places = self.input_tensor.sizes, self.places()
        index = coordinate(0) * given(sizes[1], INT64) + coordinate(1)
        is_found = is_extreme(x, "max")
        for size, place in zip(sizes[2:], places, strict=True):
            index = index * given(size, INT64) + place
            if self.has_padding():
                is_found = is_found & (place >= 0) & (place <= given(size - 1, INT64))
        return fold("min", where(is_found, index, given(math.prod(sizes) - 1, INT64)))


class MaxPooling1(_WithIndices):
    """The largest of each window, NaN where one is, and where it lies. Padding is below all numbers.

    An index is that of the first of equals, a NaN being the largest, in the input as one row.
    """


class MaxPooling2(_WithIndices):
    """The largest of each window, whose elements are Dilations apart, NaN where one is, and where it lies.

    Padding is below all numbers. An index is that of the first of equals, a NaN being the largest, in the input as one
    row. A window that is larger than the input with its padding is there once, as DirectMLX has it.
    """

    dilations: PerDimension = 1

    def rules(self) -> Iterator[Fault]:
        """The fields have a number for each spatial dimension."""
        yield from self.spatial_faults()


# Gradients and MAX_UNPOOLING


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
        target = View.of("OutputGradientTensor", self.output_gradient_tensor)
        return [*before, Reduce(tuple(views), by_row(target, len(window)), value.to(target.data_type), len(window))]


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
                yield fault(
                    f"OutputGradientTensor.Sizes[{k}]",
                    f"must be {max(least[k], 1)}{to}, into which the windows fit",
                    size,
                )

    def lower(self) -> tuple[Primitive, ...]:
        """Each number divided, then the sum of those of the windows that an element is in."""
        pooled = AveragePooling1.infer(
            input_tensor=self.output_gradient_tensor,
            **{name: self.each(name) for name in self.spatial_fields()},
        )
        dy = View.of("InputGradientTensor", self.input_gradient_tensor)
        shares = temporary("shares", F32, dy.sizes)
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
    typed_like = {"OutputTensor": "InputTensor"}

    input_tensor: Input
    indices_tensor: Input
    output_tensor: Output

    def rules(self) -> Iterator[Fault]:
        """There is an index for each element."""
        yield from same_sizes(self, "IndicesTensor", "InputTensor")

    def output_rules(self) -> Iterator[Fault]:
        """The output has the input's type, batch and channels."""
        yield from self.typed_faults(self.outputs())
        counts = list(same_dimension_count(self, "OutputTensor", "InputTensor"))
        yield from counts
        for k in (0, 1) if not counts else ():
            own, size = self.output_tensor.sizes[k], self.input_tensor.sizes[k]
            if own != size:
                yield fault(f"OutputTensor.Sizes[{k}]", f"must be InputTensor.Sizes[{k}], {size}", own)

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

    def told(self) -> tuple[Primitive, ...]:
        """The same as one sum, of the element that is taken and zeros."""
        number, taken = self._taken()
        value = fold("sum", where(number.equals(taken), wide(load(1, self.input_tensor.data_type)), 0))
        target = by_row(View.of("OutputTensor", self.output_tensor), self.input_tensor.dimension_count)
        sources = (self._over("IndicesTensor"), self._over("InputTensor"))
        return (Reduce(sources, target, value.to(target.data_type), self.input_tensor.dimension_count),)

    def lower(self) -> tuple[Primitive, ...]:
        """Zeros, and the elements scattered into the output as one row; one that lies apart takes a copy of that."""
        x, output = View.of("InputTensor", self.input_tensor), self.output_tensor
        indices, zero = View.of("IndicesTensor", self.indices_tensor), temporary("zero", x.data_type, [1])
        tuples = replace(indices, sizes=(*indices.sizes, 1), strides=(*indices.strides, 0))
        count, whole = output.element_count, View.of("OutputTensor", output)
        packed = temporary("OutputTensor", x.data_type, output.sizes)
        is_packed = whole == packed.window((0,) * len(output.sizes), (1,) * len(output.sizes), output.sizes)
        row = temporary("OutputTensor" if is_packed else "row", x.data_type, [count])
        base = replace(zero, sizes=(count,), strides=(0,))
        put = Scatter((base, tuples, x), row, 0)
        steps: list[Primitive] = [filled(zero, 0), replace(put, checks=(put.check,))]
        return (*steps, *([] if is_packed else [copy_of(replace(packed, tensor="row"), whole)]))

    def word_outside(self, fault: IndexFault) -> Fault:
        """Name the index by its place in IndicesTensor."""
        kind, found = self.indices_tensor.data_type, str(fault.indices[0])
        return word_index(fault, fault.position, kind, found, "the row of OutputTensor's elements,", clamps=False)
