"""CONVOLUTION, and those of integers, which are summed exactly and may be scaled.

Transposed convolutions with strides go phase by phase: outputs of each are a dense convolution of the input.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from anydml.arrays.tensor import TensorDesc
from anydml.core.display import counted
from anydml.core.enums import ConvolutionDirection, ConvolutionMode, DataType, FeatureLevel
from anydml.core.errors import Fault
from anydml.ir.expressions import const, coordinate, fetch, fetch_or, fold, given, load, maximum, minimum, where
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map, Reduce
from anydml.ir.views import View
from anydml.operators.fused import CLIP, FUSED, OptionalActivation, activation_faults, fused_level_faults
from anydml.operators.lowering import (
    around,
    by_row,
    framed,
    in_one_piece,
    repeated,
    slabs_around,
    split,
    temporary,
    walked,
    zeros,
)
from anydml.operators.quantization import difference, quantised, sum_type
from anydml.operators.schema.fields import (
    FIELD_TYPES,
    Convolving,
    ConvolvingWay,
    Input,
    OptionalInput,
    Output,
    PerDimension,
    SizeArray,
    Uint,
    dml_name,
)
from anydml.operators.schema.records import Computed
from anydml.operators.schema.rules import at_least_1, exact_sizes, fault, same_data_type, same_dimension_count
from anydml.operators.schema.sizes import pad

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Primitive
    from anydml.operators.schema.sizes import Sizes, Spread


# Windows: their geometry, and its rules


_LEAST = {"window_size": 1, "strides": 1, "dilations": 1}
"""Of each number, where that is not 0; also what is usual."""


class Windowed(Computed):
    """An operator with a number for each spatial dimension in some fields: see `PerDimension`."""

    def __post_init__(self) -> None:
        """A number for all spatial dimensions is written out first."""
        first: Any = getattr(self, self.input_names()[0])
        for name in self.spatial_fields() if isinstance(first, TensorDesc) else ():
            value = getattr(self, name)
            if type(value) is int:
                object.__setattr__(self, name, (value,) * (first.dimension_count - 2))
        super().__post_init__()

    @classmethod
    @functools.cache
    def spatial_fields(cls) -> list[str]:
        """The fields with a number for each spatial dimension."""
        return [name for name, kind in cls.field_types().items() if kind is FIELD_TYPES[PerDimension]]

    def each(self, name: str) -> Sizes:
        """The numbers of a field; the usual ones where the operator does not have it."""
        found: Sizes | None = getattr(self, name, None)
        return (_LEAST.get(name, 0),) * self.dimension_count if found is None else found

    @property
    def dimension_count(self) -> int:
        """DirectML's DimensionCount: the spatial ones."""
        return len(getattr(self, self.spatial_fields()[0]))

    def spatial_faults(self) -> Iterator[Fault]:
        """Check that each field has a number for each spatial dimension, of at least 1 where 0 has no meaning."""
        first, tensor = next(iter(self.inputs().items()))
        count = tensor.dimension_count - 2
        for name in self.spatial_fields():
            field, values = dml_name(name), getattr(self, name)
            if len(values) != count:
                yield fault(
                    field,
                    f"must have {counted(max(count, 0), 'value')}, one for each spatial dimension of {first}",
                    values,
                    len(values),
                )
            for i, value in enumerate(values):
                if value < _LEAST.get(name, 0):
                    yield fault(f"{field}[{i}]", "must be at least 1", value)

    def reaches(self, window: Sizes) -> Sizes:
        """How far a window of some sizes reaches, its dilations included."""
        return tuple((size - 1) * step + 1 for size, step in zip(window, self.each("dilations"), strict=True))

    def padded_sizes(self, sizes: Sizes) -> Sizes:
        """The spatial sizes of a tensor with its padding."""
        pads = zip(sizes[2:], self.each("start_padding"), self.each("end_padding"), strict=True)
        return tuple(size + before + after for size, before, after in pads)

    def counts(self, sizes: Sizes, window: Sizes) -> Sizes:
        """How many windows of some sizes fit into a tensor with its padding: of each spatial dimension."""
        fits = zip(self.padded_sizes(sizes), self.reaches(window), self.each("strides"), strict=True)
        return tuple((size - reach) // step + 1 for size, reach, step in fits)

    def fitting_faults(self, field: str, window: Sizes, source: str, first: int = 0) -> Iterator[Fault]:
        """Check that a window fits into a tensor with its padding; `source` names its sizes, numbered from `first`."""
        padded, reaches = self.padded_sizes(self.tensors()[field].sizes), self.reaches(window)
        for i, (size, reach) in enumerate(zip(padded, reaches, strict=True)):
            if reach > size:
                named, has = source.format(i + first), f"{size} that {field} has with its padding"
                rule = f"{named}, which reaches over {reach} elements, must fit into the {has}"
                way_out = "larger padding makes room"
                yield Fault(field=named, rule=rule, value=window[i], found=str(window[i]), way_out=way_out)


# Phases of transposed convolutions: an output o has the taps k for which o + start - k·dilation is a multiple of the
# stride: that many times the stride is the input's element. Those of one phase, outputs a stride apart, have the same
# taps.


class Walk(NamedTuple):
    """How windows walk over an input, in its elements."""

    across: Sequence[int]
    """From a window to the next, in each spatial dimension."""
    within: Sequence[int]
    """From a tap to the next."""
    offset: int
    """Where the first window's first tap is."""


class Phase(NamedTuple):
    """Outputs of one dimension that have the same taps."""

    start: int
    """The first output; others are strides apart."""
    outputs: int
    tap: int
    """The first tap."""
    step: int
    """From a tap to the next."""
    taps: int
    first: int
    """The input's element of the first output and tap."""
    by: int
    """How many elements before it that of the next tap is."""


def phases_of(size: int, window: int, stride: int, dilation: int, start: int) -> list[Phase]:
    """The phases of a dimension; one has no taps where those that would reach it lie outside of the window."""
    shared = math.gcd(stride, dilation)
    step, found = stride // shared, []
    for at in range(min(stride, size)):
        taps = [k for k in range(window) if (at + start - k * dilation) % stride == 0]
        tap = taps[0] if taps else 0
        first = (at + start - tap * dilation) // stride
        found.append(Phase(at, -(-(size - at) // stride), tap, step, len(taps), first, dilation // shared))
    return found


class Frame(NamedTuple):
    """The part of an input, or of what is around it, that all phases read."""

    starts: tuple[int, ...]
    """Of its first element, below 0 before the input's."""
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, phases: Sequence[Sequence[Phase]]) -> Frame:
        """The smallest one."""
        starts = tuple(min(one.first - (one.taps - 1) * one.by for one in several) for several in phases)
        ends = [max(one.first + one.outputs for one in several) for several in phases]
        return cls(starts, tuple(end - start for start, end in zip(starts, ends, strict=True)))


def cut(
    phases: Sequence[Sequence[Phase]], frame: Frame, x: View, filters: View, target: View, *, turned: bool
) -> Iterator[tuple[View, View, Walk]]:
    """For each phase of all dimensions its filters, its part of the target, and how its windows walk over a frame.

    The last dimensions are spatial, of the filters all but three.
    """
    places, sizes = x.strides[2:], filters.sizes[3:]
    for several in itertools.product(*phases):
        ahead = -1 if turned else 1
        taps = [size - 1 - one.tap if turned else one.tap for size, one in zip(sizes, several, strict=True)]
        some = filters.window(
            (0, 0, 0, *taps), (1, 1, 1, *(ahead * one.step for one in several)),
            (*filters.sizes[:3], *(one.taps for one in several)),
        )  # fmt: skip
        strides = (len(one) for one in phases)
        part = target.window(
            (0, 0, *(one.start for one in several)), (1, 1, *strides),
            (*target.sizes[:2], *(one.outputs for one in several)),
        )  # fmt: skip
        within = [-one.by * stride for one, stride in zip(several, places, strict=True)]
        offset = sum((one.first - at) * by for one, at, by in zip(several, frame.starts, places, strict=True))
        yield some, part, Walk(places, within, offset)


# The common part: what fits, how a function sees its inputs, and the contraction over windows


MOST_PHASES = 16
"""Of all dimensions together: each is a step of its own. With more of them the input is spread, zeros in between."""


class Filtered(Windowed):
    """Each output is the sum of a window of the input times a filter, over the channels of a group.

    A subclass has its fields, its `factors` and its `value`.
    """

    broadcasts = True
    leads = False
    by_channel: ClassVar[tuple[str, ...]] = ()
    """The tensors with a number for each channel of the output, or in the lists of `for_all` one alone."""
    for_all: ClassVar[tuple[str, ...]] = ()
    """The tensors that may have a single number."""

    if TYPE_CHECKING:
        input_tensor: Input
        filter_tensor: Input
        output_tensor: Output
        strides: PerDimension
        start_padding: PerDimension
        end_padding: PerDimension
        dilations: PerDimension
        group_count: Uint

    # What subclasses say

    def factors(self, elements: Mapping[str, Expr]) -> tuple[Expr, Expr]:
        """The factors to multiply and sum, of the elements of the inputs by their fields."""
        raise NotImplementedError

    def value(self, total: Expr, elements: Mapping[str, Expr]) -> Expr:
        """The output's element, of the sum and the elements of the inputs."""
        raise NotImplementedError

    def fill(self, target: View) -> Map:
        """The filling of the padding: 0."""
        return zeros(target)

    def is_backward(self) -> bool:
        """Whether the input is spread by the strides, instead of the windows."""
        return False

    def is_turned(self) -> bool:
        """Whether the filter is turned around."""
        return False

    # Sizes

    def _window(self) -> Sizes:
        return self.filter_tensor.sizes[2:]

    def _channels(self) -> tuple[int, int]:
        """The channels of a group, of the input and of the output."""
        first, second = self.filter_tensor.sizes[:2]
        return (first // self.group_count, second) if self.is_backward() else (second, first // self.group_count)

    def _natural_sizes(self) -> Sizes:
        """The spatial sizes that the others imply, the smallest where several do."""
        sizes, window = self.input_tensor.sizes, self._window()
        if not self.is_backward():
            return self.counts(sizes, window)
        pads = zip(self.each("start_padding"), self.each("end_padding"), strict=True)
        spread = zip(sizes[2:], self.each("strides"), self.reaches(window), pads, strict=True)
        return tuple((size - 1) * step + reach - before - after for size, step, reach, (before, after) in spread)

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The windows that fit; backward the smallest sizes into which they do, before padding at least one element."""
        natural = self._natural_sizes()
        least = [max(size, 1) for size in natural] if self.is_backward() else natural
        padded = [a + b for a, b in zip(least, self.each("output_padding"), strict=True)]
        return (self.input_tensor.sizes[0], self._channels()[1] * self.group_count, *padded)

    @classmethod
    def spread(cls, sizes: Mapping[str, Sizes], **attributes: Any) -> Spread:  # noqa: ARG003 - of others
        """How a function sees its inputs: a list of numbers has one for each channel."""
        rank = len(sizes["InputTensor"])
        found = {}
        for field, own in sizes.items():
            seen = own
            if field in (*cls.by_channel, *cls.for_all):
                seen = (1, *own, *(1,) * (rank - 2)) if len(own) == 1 and rank > 1 else pad(own, rank)
            found[field] = (seen, seen)
        return found

    @classmethod
    def usual_tensor(cls, field: str, first: TensorDesc) -> tuple[DataType, Sizes]:
        """A filter of one channel and two elements a dimension; numbers for all."""
        if field == "FilterTensor" and first.dimension_count > 2:
            return first.data_type, (1, first.sizes[1], *(min(size, 2) for size in first.sizes[2:]))
        taken = cls.support.row_at(FeatureLevel.highest()).tensors[field].data_types
        return first.data_type if first.data_type in taken else min(taken), (1,) * first.dimension_count

    # Rules

    def rules(self) -> Iterator[Fault]:
        """The filter fits the input, and what scales it has a number for all, or one for each channel."""
        yield from self.typed_faults(self.inputs())
        faults = [*same_dimension_count(self, "FilterTensor", "InputTensor"), *self.spatial_faults()]
        if self.input_tensor.dimension_count < 3:
            sizes, rule = self.input_tensor.sizes, "InputTensor must have at least 3 dimensions, the last ones spatial"
            faults.append(Fault(field="InputTensor.Sizes", rule=rule, value=sizes, found=str(sizes)))
        faults = faults or [*self._grouped()]
        yield from faults
        if not faults:
            yield from self._fitting()
            for field in dict.fromkeys((*self.by_channel, *self.for_all)):
                if field in self.inputs():
                    yield from self._by_channel(field)

    def _grouped(self) -> Iterator[Fault]:
        """The channels of the input and those of the filter are in groups."""
        groups, own, (first, second, *_) = self.group_count, self.input_tensor.sizes[1], self.filter_tensor.sizes
        if groups < 1:
            yield fault("GroupCount", "must be at least 1", groups)
            return
        if first % groups:
            yield fault("FilterTensor.Sizes[0]", f"must be a multiple of GroupCount, {groups}", first)
        if self.is_backward() and first != own:
            yield fault(
                "FilterTensor.Sizes[0]", f"must be InputTensor.Sizes[1], {own}, as Direction is BACKWARD", first
            )
        if not self.is_backward() and second * groups != own:
            way_out = (
                f"GroupCount {own // second} would fit" if own % second == 0 and first % (own // second) == 0 else ""
            )
            yield fault(
                "FilterTensor.Sizes[1]",
                f"times GroupCount, {groups}, must be InputTensor.Sizes[1], {own}",
                second,
                way_out=way_out,
            )

    def _fitting(self) -> Iterator[Fault]:
        if not self.is_backward():
            yield from self.fitting_faults("InputTensor", self._window(), "FilterTensor.Sizes[{}]", 2)
            return
        for i, size in enumerate(self._natural_sizes()):
            if size + self.each("strides")[i] - 1 < 1:
                field = f"StartPadding[{i}]"
                rule = f"StartPadding[{i}] and EndPadding[{i}] must leave an element of the output"
                yield Fault(field=field, rule=rule, value=self.each("start_padding")[i], found=f"{size} left")

    def _by_channel(self, field: str) -> Iterator[Fault]:
        sizes, channels = self.tensors()[field].sizes, self._channels()[1] * self.group_count
        place = min(1, len(sizes) - 1)
        counts = {*([1] if field in self.for_all else []), *([channels] if field in self.by_channel else [])}
        wanted = [tuple(count if k == place else 1 for k in range(len(sizes))) for count in sorted(counts)]
        if sizes not in wanted:
            either = " or ".join(map(str, wanted))
            what = " or ".join(
                ["a number for all"] * (field in self.for_all)
                + ["one for each channel of the output"] * (field in self.by_channel)
            )
            yield fault(f"{field}.Sizes", f"must be {either}, {what}", sizes)

    def output_rules(self) -> Iterator[Fault]:
        """The output has the sizes that the windows give; backward, those from which they give the input's."""
        yield from self.typed_faults(self.outputs())
        counts = list(same_dimension_count(self, "OutputTensor", "InputTensor"))
        yield from counts
        if counts:
            return
        wanted, own = self.implied_output_sizes(), self.output_tensor.sizes
        if not self.is_backward():
            yield from exact_sizes(self, "OutputTensor", wanted, "of the windows that fit into InputTensor")
            return
        natural, paddings = ((*wanted[:2], *self._natural_sizes()), (0, 0, *self.each("output_padding")))
        for k, (size, least) in enumerate(zip(own, wanted, strict=True)):
            most = natural[k] + paddings[k] + (self.each("strides")[k - 2] - 1 if k > 1 else 0)
            if not least <= size <= most:
                to = f" .. {most}" if most > least else ""
                yield fault(
                    f"OutputTensor.Sizes[{k}]",
                    f"must be {least}{to}, from which InputTensor.Sizes[{k}] follows",
                    own,
                    size,
                )

    # How it is computed

    def lower(self) -> tuple[Primitive, ...]:
        """The input with its padding, a contraction over its windows, and zeros where the output is padded."""
        output = View.of("OutputTensor", self.output_tensor)
        ends = (0, 0, *self.each("output_padding"))
        sizes = tuple(size - end for size, end in zip(output.sizes, ends, strict=True))
        zero, one = (0,) * len(sizes), (1,) * len(sizes)
        beside = around(output, zero, one, sizes, zeros) if sizes != output.sizes else []
        return (*self._convolved(output.window(zero, one, sizes)), *beside)

    def _convolved(self, target: View) -> list[Primitive]:
        filters, window = self._filters(), self._window()
        if self.is_backward() and (phases := self._phases(target.sizes[2:])):
            x, frame = View.of("InputTensor", self.input_tensor), Frame.of(phases)
            starts, sizes = (0, 0, *(-at for at in frame.starts)), (*x.sizes[:2], *frame.sizes)
            whole, filling = framed(x, starts, (1,) * len(sizes), sizes, "padded", self.fill)
            parts = list(cut(phases, frame, whole, filters, target, turned=self.is_turned()))
        else:
            whole, filling = self._framed(target.sizes[2:])
            steps = (1,) * len(window) if self.is_backward() else self.each("strides")
            across, within = (
                [stride * step for stride, step in zip(whole.strides[2:], by, strict=True)]
                for by in (steps, self.each("dilations"))
            )
            offset = 0
            if self.is_turned() != self.is_backward():  # windows are walked from their ends: filters stay as they lie
                offset = sum((size - 1) * stride for size, stride in zip(window, within, strict=True))
                within = [-stride for stride in within]
            parts = [(filters, target, Walk(across, within, offset))]
        found: list[Primitive] = [*filling]
        for number, (some, part, walk) in enumerate(parts):
            own, laid_out = in_one_piece(some, 2, f"filters {number}")
            found += [*laid_out, self._contraction(whole, own, part, walk)]
        return found

    def _phases(self, sizes: Sizes) -> list[list[Phase]]:
        """The phases of each spatial dimension; none where there is one alone, or one without a tap.

        Nor of a channel at a time: its few products cost less than results that lie apart (1.5 ms with zeros between
        the elements of the input, 96 channels of 28 x 28 and a batch of 8; 4.9 by phases).
        """
        if self._channels() == (1, 1):
            return []
        fields = ("strides", "dilations", "start_padding")
        geometry = zip(sizes, self._window(), *map(self.each, fields), strict=True)
        found = [phases_of(*one) for one in geometry]
        is_ours = all(one.taps for several in found for one in several)
        is_cut = 1 < math.prod(map(len, found)) <= MOST_PHASES
        # A phase that there is not has its stride in the places of the others.
        is_whole = all(len(one) == step for one, step in zip(found, self.each("strides"), strict=True))
        return found if is_ours and is_cut and is_whole else []

    def _framed(self, convolved: Sizes) -> tuple[View, list[Map]]:
        """The input as windows walk over it: with padding, and backward with room between its elements."""
        x, reaches, starts = (
            View.of("InputTensor", self.input_tensor),
            self.reaches(self._window()),
            self.each("start_padding"),
        )
        steps: Sizes = (1,) * len(reaches)
        if self.is_backward():
            steps = self.each("strides")
            starts = tuple(reach - 1 - start for reach, start in zip(reaches, starts, strict=True))
            sizes = [size + reach - 1 for size, reach in zip(convolved, reaches, strict=True)]
        else:
            walk = zip(convolved, self.each("strides"), reaches, strict=True)
            sizes = [(size - 1) * step + reach for size, step, reach in walk]
        return framed(x, (0, 0, *starts), (1, 1, *steps), (*x.sizes[:2], *sizes), "padded", self.fill)

    def _contraction(self, x: View, filters: View, target: View, walk: Walk) -> Reduce:
        """Over batch, group, channel of the output and place; of the channels of the input and the window's places."""
        window, groups, (inner, outer) = filters.sizes[3:], self.group_count, self._channels()
        kept = (target.sizes[0], groups, outer, *target.sizes[2:])
        sizes, none = (*kept, inner, *window), (0,) * len(window)
        batch, channel, *_ = x.strides
        strides = (batch, channel * inner, 0, *walk.across, channel, *walk.within)
        views = {"InputTensor": walked(x, sizes, strides, walk.offset)}
        views["FilterTensor"] = walked(filters, sizes, (0, *filters.strides[:2], *none, *filters.strides[2:]))
        for field in self.inputs():
            if field not in views:
                step = sum(View.of(field, self.tensors()[field]).strides)  # of the one dimension that is not of size 1
                views[field] = walked(
                    View.of(field, self.tensors()[field]), sizes, (0, step * outer, step, *none, 0, *none)
                )
        elements = {field: load(slot, view.data_type) for slot, (field, view) in enumerate(views.items())}
        left, right = self.factors(elements)
        value = self.value(fold("sum", left * right), elements).to(target.data_type)
        (batch, channel, *places), ones = target.strides, (1,) * (len(window) + 1)
        ending = walked(target, (*kept, *ones), (batch, channel * outer, channel, *places, *(0 for _ in ones)))
        return Reduce(tuple(views.values()), ending, value, len(ones))

    def _filters(self) -> View:
        """The filters of each group and channel of the output."""
        view, (inner, outer) = View.of("FilterTensor", self.filter_tensor), self._channels()
        first, second, *within = view.strides
        sizes = (self.group_count, outer, inner, *view.sizes[2:])
        group, kept, summed = (inner, second, first) if self.is_backward() else (outer, first, second)
        return walked(view, sizes, (first * group, kept, summed, *within))


# The operators


F32 = DataType.FLOAT32


class Convolution(Filtered):
    """Lays a filter over every window of the input: the sum of their products over the channels of a group, plus bias.

    FilterTensor is {output channels, input channels/GroupCount, window}. Mode CONVOLUTION turns the filter around
    first. Direction BACKWARD is the transposed convolution, whose FilterTensor is {input channels, output
    channels/GroupCount, window}: each element is spread over a window, and the output may have any sizes from which a
    forward convolution gives the input's. OutputPadding adds zeros at the end of each dimension of the result.

    Sums are of FLOAT32 or better, in an order that does not depend on threads, for FLOAT16 too.
    """

    typed_like = dict.fromkeys(("FilterTensor", "BiasTensor", "OutputTensor"), "InputTensor")
    by_channel = ("BiasTensor",)
    sizes_are_free = True

    input_tensor: Input
    filter_tensor: Input
    bias_tensor: OptionalInput = None
    output_tensor: Output
    mode: Convolving = ConvolutionMode.CROSS_CORRELATION
    direction: ConvolvingWay = ConvolutionDirection.FORWARD
    strides: PerDimension = 1
    dilations: PerDimension = 1
    start_padding: PerDimension = 0
    end_padding: PerDimension = 0
    output_padding: PerDimension = 0
    group_count: Uint = 1
    fused_activation: OptionalActivation = None

    def is_backward(self) -> bool:
        """As Direction says."""
        return self.direction is ConvolutionDirection.BACKWARD

    def is_turned(self) -> bool:
        """As Mode says."""
        return self.mode is ConvolutionMode.CONVOLUTION

    def rules(self) -> Iterator[Fault]:
        """The filter fits, and the activation is one that can be fused."""
        yield from super().rules()
        yield from activation_faults(self.fused_activation, FUSED | CLIP)

    def attribute_level_faults(self, level: FeatureLevel, where: str) -> Iterator[Fault]:
        """CLIP is fused from 6_0 on."""
        yield from super().attribute_level_faults(level, where)
        yield from fused_level_faults(self.fused_activation, CLIP, FeatureLevel.LEVEL_6_0, level, where)

    def factors(self, elements: Mapping[str, Expr]) -> tuple[Expr, Expr]:
        """Elements in FLOAT32."""
        return elements["InputTensor"].to(F32), elements["FilterTensor"].to(F32)

    def value(self, total: Expr, elements: Mapping[str, Expr]) -> Expr:
        found = total + elements["BiasTensor"].to(F32) if "BiasTensor" in elements else total
        return found if self.fused_activation is None else self.fused_activation.apply(found)


class _Whole(Filtered):
    """A convolution of integers less their zero points; padding is the input's."""

    typed_like = {"InputZeroPointTensor": "InputTensor", "FilterZeroPointTensor": "FilterTensor"}
    by_channel = ("FilterScaleTensor", "FilterZeroPointTensor", "BiasTensor")
    for_all = (
        "InputScaleTensor", "InputZeroPointTensor", "FilterScaleTensor", "FilterZeroPointTensor", "OutputScaleTensor",
        "OutputZeroPointTensor",
    )  # fmt: skip

    def fill(self, target: View) -> Map:
        """The filling of the padding: the input's zero point, so that differences are 0."""
        zero = self.inputs().get("InputZeroPointTensor")
        return super().fill(target) if zero is None else repeated("InputZeroPointTensor", zero, target)

    def _sum_type(self) -> DataType:
        """The type that holds every sum."""
        return sum_type(math.prod(self._window()) * self._channels()[0])

    def factors(self, elements: Mapping[str, Expr]) -> tuple[Expr, Expr]:
        """The input less its zero point, and the filter less its."""
        kind = self._sum_type()
        names = ("Input", "Filter")
        left, right = (difference(elements[f"{x}Tensor"], elements.get(f"{x}ZeroPointTensor"), kind) for x in names)
        return left, right


class ConvolutionInteger(_Whole):
    """The convolution of bytes, each less its zero point: Σ(x - zx)·(w - zw), exactly, wrapped to INT32.

    FilterTensor is {output channels, input channels/GroupCount, window}; padding is the input's zero point.
    """

    result_type = DataType.INT32

    input_tensor: Input
    input_zero_point_tensor: OptionalInput = None
    filter_tensor: Input
    filter_zero_point_tensor: OptionalInput = None
    output_tensor: Output
    strides: PerDimension = 1
    dilations: PerDimension = 1
    start_padding: PerDimension = 0
    end_padding: PerDimension = 0
    group_count: Uint = 1

    def _sum_type(self) -> DataType:
        return DataType.INT32

    def implied_output_type(self) -> DataType:
        return DataType.INT32

    def value(self, total: Expr, elements: Mapping[str, Expr]) -> Expr:  # noqa: ARG002 - as others
        return total


class QuantizedLinearConvolution(_Whole):
    """The convolution of quantised numbers, quantised: sx·sw·(Σ(x - zx)·(w - zw) + bias)/s, rounded, plus z.

    Sums are exact, and the bias, of INT32, is one of their numbers; halves are rounded to even, and what lies outside
    the type's range takes its nearest end. Padding is the input's zero point.
    """

    result_type = None
    typed_like = {**_Whole.typed_like, "OutputTensor": "OutputZeroPointTensor"}

    input_tensor: Input
    input_scale_tensor: Input
    input_zero_point_tensor: OptionalInput = None
    filter_tensor: Input
    filter_scale_tensor: Input
    filter_zero_point_tensor: OptionalInput = None
    bias_tensor: OptionalInput = None
    output_scale_tensor: Input
    output_zero_point_tensor: OptionalInput = None
    output_tensor: Output
    strides: PerDimension = 1
    dilations: PerDimension = 1
    start_padding: PerDimension = 0
    end_padding: PerDimension = 0
    group_count: Uint = 1

    def implied_output_type(self) -> DataType:
        """The output's zero point's, or the input's."""
        return (self.output_zero_point_tensor or self.input_tensor).data_type

    def value(self, total: Expr, elements: Mapping[str, Expr]) -> Expr:
        if "BiasTensor" in elements:
            kind = total.type or DataType.INT64
            total = total + elements["BiasTensor"].to(kind)
        scale = elements["InputScaleTensor"] * elements["FilterScaleTensor"] / elements["OutputScaleTensor"]
        return quantised(total.to(F32) * scale, elements.get("OutputZeroPointTensor"))


# FOLD and UNFOLD: windows of a tensor as columns, and columns summed into a tensor


INT64 = DataType.INT64
_COLUMNS = 3
"""The dimensions of a tensor of columns: batch, what a window holds, and windows."""
_ARRAYS = ("window_sizes", "strides", "dilations", "start_padding", "end_padding")


class _Windows(Computed):
    """The shared part of the two: windows over all dimensions but the first two."""

    if TYPE_CHECKING:
        window_sizes: SizeArray
        strides: PerDimension
        dilations: PerDimension
        start_padding: PerDimension
        end_padding: PerDimension

    def __post_init__(self) -> None:
        """One number for all dimensions is written out first."""
        count = len(self.window_sizes) if isinstance(self.window_sizes, (list, tuple)) else 1
        for name in _ARRAYS[1:]:
            value = getattr(self, name)
            if type(value) is int:
                object.__setattr__(self, name, (value,) * count)
        super().__post_init__()

    def each(self, name: str) -> tuple[int, ...]:
        """The numbers of a field."""
        found: tuple[int, ...] = getattr(self, name)
        return found

    @property
    def dimension_count(self) -> int:
        """DirectML's DimensionCount, the length of the arrays."""
        return len(self.window_sizes)

    def _array_rules(self) -> Iterator[Fault]:
        """The arrays are as long as one another, and sizes at least 1."""
        for name in _ARRAYS[1:]:
            mine, count = self.each(name), len(self.window_sizes)
            if len(mine) != count:
                field = "".join(word.capitalize() for word in name.split("_"))
                yield fault(field, f"must have {counted(count, 'value')}, as many as WindowSizes", mine, len(mine))
        yield from at_least_1(self, "window_sizes", "strides", "dilations")

    def _image_rules(self, field: str, image: TensorDesc) -> Iterator[Fault]:
        """A window fits into each dimension."""
        sizes = image.sizes
        if len(sizes) != self.dimension_count + 2:
            yield fault(
                f"{field}.DimensionCount",
                f"must be {self.dimension_count + 2}, two more than WindowSizes has values",
                len(sizes),
            )
            return
        for k, count in enumerate(self._blocks(image)):
            if count < 1:
                yield fault(
                    f"{field}.Sizes[{k + 2}]", "with its padding must be at least as large as a window", sizes[k + 2]
                )

    def _blocks(self, image: TensorDesc) -> tuple[int, ...]:
        """How many windows there are in each dimension."""
        every = zip(image.sizes[2:], *map(self.each, _ARRAYS), strict=True)
        return tuple(
            (size + low + high - dilation * (window - 1) - 1) // stride + 1
            for size, window, stride, dilation, low, high in every
        )

    def _column_sizes(self, image: TensorDesc) -> tuple[int, int, int]:
        channels = image.sizes[1] * math.prod(self.window_sizes)
        return image.sizes[0], channels, math.prod(self._blocks(image))

    def _columns(self, view: View, image: TensorDesc) -> View:
        """{batch, channel, place in a window …, window …}."""
        view = split(view, 1, image.sizes[1], *self.window_sizes)
        return split(view, len(view.sizes) - 1, *self._blocks(image))


class Unfold(_Windows):
    """The windows of a tensor {N, C, …}, each as a column of the output {N, C·window, windows}.

    Windows begin Strides apart, and their elements are Dilations apart; StartPadding and EndPadding are zeros around.
    """

    result_rank: ClassVar[int | None] = _COLUMNS

    input_tensor: Input
    output_tensor: Output
    window_sizes: SizeArray
    strides: PerDimension = 1
    dilations: PerDimension = 1
    start_padding: PerDimension = 0
    end_padding: PerDimension = 0

    def rules(self) -> Iterator[Fault]:
        """The arrays fit the input, and a window does."""
        faults = list(self._array_rules())
        yield from faults or self._image_rules("InputTensor", self.input_tensor)

    def implied_output_sizes(self) -> tuple[int, ...]:
        """Batch, what a window holds, and windows."""
        return self._column_sizes(self.input_tensor)

    def output_rules(self) -> Iterator[Fault]:
        """The output is of the input's type, and of the columns' sizes."""
        yield from same_data_type(self, "OutputTensor", "InputTensor")
        yield from exact_sizes(self, "OutputTensor", self.implied_output_sizes(), "{N, C·window, windows}")

    def lower(self) -> tuple[Map, ...]:
        """A copy from a view in which windows overlap, of the input with zeros around it."""
        source, steps = View.of("InputTensor", self.input_tensor), []
        start, end = ((0, 0, *self.each(name)) for name in ("start_padding", "end_padding"))
        if any((*start, *end)):
            sizes = [low + size + high for low, size, high in zip(start, source.sizes, end, strict=True)]
            padded = temporary("padded", source.data_type, sizes)
            inside = padded.window(start, (1,) * len(sizes), source.sizes)
            steps = [copy_of(source, inside), *slabs_around(padded, start, source.sizes, 0)]
            source = padded
        along = source.strides[2:]
        within = (stride * dilation for stride, dilation in zip(along, self.each("dilations"), strict=True))
        between = (stride * step for stride, step in zip(along, self.each("strides"), strict=True))
        sizes = [*source.sizes[:2], *self.window_sizes, *self._blocks(self.input_tensor)]
        strides = (*source.strides[:2], *within, *between)
        windows = View(source.tensor, source.data_type, tuple(sizes), strides, source.offset)
        columns = self._columns(View.of("OutputTensor", self.output_tensor), self.input_tensor)
        return (*steps, copy_of(windows, columns))

    def told(self) -> tuple[Map]:
        """Each element with the place that it comes from, where there is one."""
        source, target = View.of("InputTensor", self.input_tensor), View.of("OutputTensor", self.output_tensor)
        rest, block = coordinate(1), coordinate(2)
        at: list[Expr] = []
        numbers = zip(*map(self.each, _ARRAYS[:4]), self._blocks(self.input_tensor), strict=True)
        for window, stride, dilation, padding, blocks in reversed(list(numbers)):
            size, count = given(window, INT64), given(blocks, INT64)
            place = block % count * given(stride, INT64) + rest % size * given(dilation, INT64)
            at.insert(0, place - given(padding, INT64))
            rest, block = rest / size, block / count
        kind = source.data_type
        value = fetch_or(0, kind, [coordinate(0), rest, *at], source.sizes, given(0, kind))
        return (Map((source,), target, value),)


class Fold(_Windows):
    """Sums columns {N, C·window, windows} into a tensor {N, C, …}: each is a window, and windows overlap.

    Windows begin Strides apart, and their elements are Dilations apart; what falls on StartPadding and EndPadding is
    left out. Sums of floats accumulate in FLOAT64, those of integers wrap.
    """

    implies_output = False

    input_tensor: Input
    output_tensor: Output
    window_sizes: SizeArray
    strides: PerDimension = 1
    dilations: PerDimension = 1
    start_padding: PerDimension = 0
    end_padding: PerDimension = 0

    def rules(self) -> Iterator[Fault]:
        """The arrays fit one another."""
        yield from self._array_rules()

    def output_rules(self) -> Iterator[Fault]:
        """The output's windows are the input's columns."""
        yield from same_data_type(self, "OutputTensor", "InputTensor")
        faults = list(self._image_rules("OutputTensor", self.output_tensor))
        yield from faults
        if not faults:
            wanted = self._column_sizes(self.output_tensor)
            yield from exact_sizes(self, "InputTensor", wanted, "{N, C·window, windows} of OutputTensor")

    def lower(self) -> tuple[Reduce]:
        """For each element the sum over the places that it has in windows."""
        columns = self._columns(View.of("InputTensor", self.input_tensor), self.output_tensor)
        target, count = View.of("OutputTensor", self.output_tensor), self.dimension_count
        is_there, places, blocks = const(True, None), [], []
        numbers = zip(*map(self.each, ("start_padding", "dilations", "strides")), strict=True)
        every = zip(self._blocks(self.output_tensor), numbers, strict=True)
        for k, (windows, (padding, dilation, stride)) in enumerate(every):
            place, by = coordinate(count + 2 + k), given(stride, INT64)
            begin = coordinate(2 + k) + given(padding, INT64) - place * given(dilation, INT64)
            # Cut toward 0, what lies before the first has a remainder or is below 0.
            number = begin / by
            is_there = is_there & (begin >= 0) & (number * by).equals(begin) & (number < given(windows, INT64))
            places.append(place)
            blocks.append(minimum(maximum(number, 0), given(windows - 1, INT64)))
        kind = columns.data_type
        element = where(is_there, fetch(0, kind, [coordinate(0), coordinate(1), *places, *blocks]), given(0, kind))
        sums = DataType.FLOAT64 if kind.is_float else kind
        value = fold("sum", element.to(sums)).to(kind)
        return (Reduce((columns,), by_row(target, count), value, count, rows=tuple(self.window_sizes)),)
