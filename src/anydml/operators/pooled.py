"""The common part of poolings: windows of the input, with its padding, each made one number by a reduce."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.ir.expressions import const, coordinate, given, load, maximum, minimum
from anydml.ir.patterns import filled
from anydml.ir.verbs import Reduce
from anydml.ir.views import View
from anydml.operators.computed import wide
from anydml.operators.margins import framed, walked
from anydml.operators.rules import exact_sizes, same_dimension_count
from anydml.operators.windows import Windowed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anydml.arrays.tensor import TensorDesc
    from anydml.core.errors import Fault
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Map, Primitive
    from anydml.operators.fields import Input, Output, PerDimension

INT64 = DataType.INT64


class Pooling(Windowed):
    """Makes each window one number. A subclass has its fields and its `value`."""

    typed_like = {"OutputTensor": "InputTensor"}  # noqa: RUF012 - a table that nobody writes to

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
        counts = list(same_dimension_count(self, "OutputTensor", "InputTensor"))
        source = "of the windows that fit into InputTensor"
        yield from counts or exact_sizes(self, "OutputTensor", self.implied_output_sizes(), source)

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
        sizes, none = (*self.implied_output_sizes(), *window), (0,) * len(window)
        across, within = (
            [stride * step for stride, step in zip(places, self.each(name), strict=True)]
            for name in ("strides", "dilations")
        )
        views = [walked(whole, sizes, (batch, channel, *across, *within))]
        others = list(self.inputs().items())[1:]
        views += [walked(View.of(other, tensor), sizes, (0,) * len(sizes)) for other, tensor in others]
        target = View.of(field, output)
        ending = walked(target, (*target.sizes, *(1 for _ in none)), (*target.strides, *none))
        return Reduce(tuple(views), ending, value.to(output.data_type), len(window))

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
