"""LOCAL_RESPONSE_NORMALIZATION and its gradient: each element beside the squares of its neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.core.errors import Fault
from anydml.ir.expressions import call, fold, given, load
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map, Reduce
from anydml.ir.views import View
from anydml.operators.computed import Computed, wide
from anydml.operators.fields import Float, Input, Output, Uint  # noqa: TC001 - read at run time
from anydml.operators.margins import around, store, zeros
from anydml.operators.rules import same_data_type, same_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.arrays.tensor import TensorDesc
    from anydml.ir.expressions import Expr

SUMS = DataType.FLOAT64
"""The type that the sums of neighbours accumulate in."""


class _LocalResponse(Computed):
    """The shared part of the operator and its gradient."""

    if TYPE_CHECKING:
        input_tensor: Input
        cross_channel: bool
        local_size: Uint
        alpha: Float
        beta: Float
        bias: Float

    def rules(self) -> Iterator[Fault]:
        """The tensors are alike, and a region has an element."""
        for field in list(self.inputs())[1:]:
            yield from self._like_input(field)
        if self.local_size < 1:
            rule = "LocalSize must be at least 1"
            yield Fault(field="LocalSize", rule=rule, value=self.local_size, found=str(self.local_size))

    def output_rules(self) -> Iterator[Fault]:
        """The output is like the input."""
        for field in self.outputs():
            yield from self._like_input(field)

    def _like_input(self, field: str) -> Iterator[Fault]:
        yield from same_data_type(self, field, "InputTensor")
        yield from same_sizes(self, field, "InputTensor")

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The input's."""
        return self.input_tensor.sizes

    # How it is computed

    def _reach(self) -> tuple[tuple[int, int], ...]:
        """How far a region reaches before and after its element, in each dimension; never past all others."""
        before = (self.local_size - 1) // 2
        wanted = (before, self.local_size - 1 - before)
        inside = (1,) if self.cross_channel else (2, 3)
        sizes = self.input_tensor.sizes
        return tuple(
            (min(wanted[0], size - 1), min(wanted[1], size - 1)) if k in inside else (0, 0)
            for k, size in enumerate(sizes)
        )

    def _base(self, squares: Expr) -> Expr:
        """Bias + Alpha/LocalSize·Σx², of the sum of the squares."""
        return (given(self.alpha / self.local_size, SUMS) * squares + given(self.bias, SUMS)).to(DataType.FLOAT32)

    def _power(self, base: Expr, exponent: float) -> Expr:
        return call("pow", base, given(exponent, DataType.FLOAT32))


def _margins(inner: View, reach: Sequence[tuple[int, int]], name: str) -> tuple[View, list[Map]]:
    """A temporary that holds `inner` with room before and after, and what fills the room with 0."""
    whole = store(name, inner.data_type, [low + n + high for n, (low, high) in zip(inner.sizes, reach, strict=True)])
    return whole, around(whole, [low for low, _ in reach], (1,) * len(reach), inner.sizes, zeros)


def _inside(whole: View, reach: Sequence[tuple[int, int]], sizes: Sequence[int]) -> View:
    return whole.window([low for low, _ in reach], (1,) * len(sizes), sizes)


def _regions(whole: View, reach: Sequence[tuple[int, int]], sizes: Sequence[int]) -> View:
    """[…, i, … | …, j, …]: for each element its region, which overlaps those of others."""
    counts = tuple(low + 1 + high for low, high in reach)
    return View(whole.tensor, whole.data_type, (*sizes, *counts), (*whole.strides, *whole.strides), whole.offset)


def _beside(field: str, tensor: TensorDesc | View, regions: View) -> View:
    """A tensor that repeats along each region."""
    view = tensor if isinstance(tensor, View) else View.of(field, tensor)
    added = len(regions.sizes) - len(view.sizes)
    return View(view.tensor, view.data_type, regions.sizes, (*view.strides, *(0,) * added), view.offset)


def _by_row(view: View) -> View:
    """A target of an element for each region."""
    none = (0,) * len(view.sizes)
    return View(view.tensor, view.data_type, (*view.sizes, *(1,) * len(none)), (*view.strides, *none), view.offset)


class LocalResponseNormalization(_LocalResponse):
    """Divides by what the neighbours are: x/(Bias + Alpha/LocalSize·Σx²)^Beta, the sum being of a region around x.

    The region has LocalSize channels with CrossChannel, and else LocalSize rows and columns; what of it lies outside
    the tensor counts as 0. Of an even LocalSize there is one more after the element than before it. Sums accumulate in
    FLOAT64.
    """

    input_tensor: Input
    output_tensor: Output
    cross_channel: bool = True
    local_size: Uint
    alpha: Float = 1e-4
    beta: Float = 0.75
    bias: Float = 1.0

    def lower(self) -> tuple[Map | Reduce, ...]:
        """The input with margins of 0, then a reduce over the regions."""
        x, reach = View.of("InputTensor", self.input_tensor), self._reach()
        whole, filling = _margins(x, reach, "padded")
        regions = _regions(whole, reach, x.sizes)
        own, near = (wide(load(slot, x.data_type)) for slot in (0, 1))
        squares = fold("sum", near.to(SUMS) * near.to(SUMS))
        value = (own / self._power(self._base(squares), self.beta)).to(x.data_type)
        target = _by_row(View.of("OutputTensor", self.output_tensor))
        sources = (_beside("InputTensor", x, regions), regions)
        return (*filling, copy_of(x, _inside(whole, reach, x.sizes)), Reduce(sources, target, value, len(x.sizes)))


class LocalResponseNormalizationGrad(_LocalResponse):
    """The gradient of LOCAL_RESPONSE_NORMALIZATION with respect to its input.

    dy/D^Beta - 2·Alpha·Beta/LocalSize·x·Σdy·x/D^(Beta + 1), D being Bias + Alpha/LocalSize·Σx² around each element,
    and the first sum being of the elements whose region x is in. Sums accumulate in FLOAT64.
    """

    input_tensor: Input
    input_gradient_tensor: Input
    output_gradient_tensor: Output
    cross_channel: bool = True
    local_size: Uint
    alpha: Float = 1e-4
    beta: Float = 0.75
    bias: Float = 1.0

    def lower(self) -> tuple[Map | Reduce, ...]:
        """Each region's sum, each element's part in its neighbours, and a reduce over those."""
        x, dy = View.of("InputTensor", self.input_tensor), View.of("InputGradientTensor", self.input_gradient_tensor)
        reach, kind = self._reach(), DataType.FLOAT32
        whole, filling = _margins(x, reach, "padded")
        regions = _regions(whole, reach, x.sizes)
        near = wide(load(0, x.data_type)).to(SUMS)
        base = store("base", kind, x.sizes)
        bases = Reduce((regions,), _by_row(base), self._base(fold("sum", near * near)), len(x.sizes))
        back = tuple((high, low) for low, high in reach)
        parts = store("parts", kind, x.sizes)
        around, more = _margins(parts, back, "parts")
        loads = [wide(load(slot, view.data_type)) for slot, view in enumerate((x, dy, base))]
        part = loads[0] * loads[1] * self._power(loads[2], -self.beta - 1)
        spread = Map((x, dy, base), _inside(around, back, x.sizes), part)
        total = fold("sum", load(3, kind).to(SUMS))
        factor = given(-2 * self.alpha * self.beta / self.local_size, SUMS)
        value = (loads[1] * self._power(loads[2], -self.beta)).to(SUMS) + factor * loads[0].to(SUMS) * total
        near_parts = _regions(around, back, x.sizes)
        sources = (*(_beside("", view, near_parts) for view in (x, dy, base)), near_parts)
        target = _by_row(View.of("OutputGradientTensor", self.output_gradient_tensor))
        result = Reduce(sources, target, value.to(target.data_type), len(x.sizes))
        return (*filling, copy_of(x, _inside(whole, reach, x.sizes)), bases, *more, spread, result)
