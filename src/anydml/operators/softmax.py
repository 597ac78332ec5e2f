"""The softmaxes, log-softmaxes and hardmaxes: of the last dimension, and of any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from anydml.core.enums import DataType
from anydml.core.errors import Fault
from anydml.ir.expressions import call, const, fold, where
from anydml.operators.fields import Input, Output, UintArray  # noqa: TC001 - read at run time
from anydml.operators.folding import AlongAxes, Folding
from anydml.operators.reductions import first_of, log_of_sum
from anydml.operators.rules import like_input

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.ir.expressions import Expr

SUMS = DataType.FLOAT32
"""The type that the sums of exponentials accumulate in."""


class _Rowwise(Folding):
    """An element of the output for each of the input's."""

    if TYPE_CHECKING:
        output_tensor: Output

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The input's."""
        return self.input_tensor.sizes

    def output_rules(self) -> Iterator[Fault]:
        """The output is of the input's type and sizes."""
        yield from like_input(self)


class _Last(_Rowwise):
    """Of the last dimension of a matrix."""

    input_tensor: Input
    output_tensor: Output

    def folded(self) -> tuple[int, ...]:
        """The last dimension."""
        return (self.input_tensor.dimension_count - 1,)

    def rules(self) -> Iterator[Fault]:
        """At most the last two dimensions have a size."""
        yield from super().rules()
        sizes = self.input_tensor.sizes
        if any(size > 1 for size in sizes[:-2]):
            rule = "InputTensor.Sizes must be 1 but for the last two"
            way_out = f"{self.type.name}1 takes any sizes"
            yield Fault(field="InputTensor.Sizes", rule=rule, value=sizes, found=str(sizes), way_out=way_out)


class _OfAxes(AlongAxes, _Rowwise):
    """Of the rows along some dimensions."""

    usual_axes: ClassVar[Any] = -1

    input_tensor: Input
    output_tensor: Output
    axes: UintArray


class _Softmax(Folding):
    def value(self, x: Expr) -> Expr:
        """e^(x - max)/Σe^(x - max)."""
        power = call("exp", x - fold("max", x))
        # One division for a row: 1.27 times as fast as one for each element, for one more rounding.
        return power * (1 / fold("sum", power.to(SUMS))).to(DataType.FLOAT32)


class _LogSoftmax(Folding):
    def value(self, x: Expr) -> Expr:
        """(x - max) - ln Σe^(x - max)."""
        less = x - fold("max", x)
        total = fold("sum", call("exp", less).to(SUMS))
        return less - (call("log", total) if SUMS is DataType.FLOAT32 else log_of_sum(total)).to(DataType.FLOAT32)


class _Hardmax(Folding):
    def value(self, x: Expr) -> Expr:
        """1 at the first of the largest."""
        return where(self.index().equals(first_of(self, x, "max")), const(1, x.type), 0)


class ActivationSoftmax(_Softmax, _Last):
    """The softmax of the last dimension: eˣ/Σeˣ, with the largest element taken out first.

    Every dimension before the last two has a size of 1. Sums accumulate in FLOAT32. A row with NaN or +inf, and a row
    of -inf, is NaN throughout, as PyTorch's: the documents leave it open.
    """


class ActivationSoftmax1(_Softmax, _OfAxes):
    """The softmax along Axes: eˣ/Σeˣ, with the largest element taken out first.

    Sums accumulate in FLOAT32. A row with NaN or +inf, and a row of -inf, is NaN throughout, as PyTorch's: the
    documents leave it open.
    """


class ActivationLogSoftmax(_LogSoftmax, _Last):
    """The logarithm of the softmax of the last dimension: x - ln Σeˣ, with the largest element taken out first.

    Every dimension before the last two has a size of 1. Sums accumulate in FLOAT32. A row with NaN or +inf, and a row
    of -inf, is NaN throughout, as PyTorch's: the documents leave it open.
    """


class ActivationLogSoftmax1(_LogSoftmax, _OfAxes):
    """The logarithm of the softmax along Axes: x - ln Σeˣ, with the largest element taken out first.

    Sums accumulate in FLOAT32. A row with NaN or +inf, and a row of -inf, is NaN throughout, as PyTorch's: the
    documents leave it open.
    """


class ActivationHardmax(_Hardmax, _Last):
    """1 at the first of the largest elements of the last dimension, and 0 elsewhere.

    Every dimension before the last two has a size of 1. A NaN is the largest, which the documents leave open.
    """


class ActivationHardmax1(_Hardmax, _OfAxes):
    """1 at the first of the largest elements along Axes, in row-major order, and 0 elsewhere.

    A NaN is the largest, which the documents leave open.
    """
