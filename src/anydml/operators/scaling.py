"""VALUE_SCALE_2D: images, scaled, with a bias for each channel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.core.errors import Fault
from anydml.ir.expressions import coordinate, fma, given, where
from anydml.operators.elementwise import Unary
from anydml.operators.fields import Float, FloatArray  # noqa: TC001 - read at run time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.ir.expressions import Expr

_CHANNELS = 1


class ValueScale2D(Unary):
    """Scale·x + Bias of the element's channel, rounded once. There are 1 or 3 channels, in the second dimension."""

    scale: Float
    bias: FloatArray

    @property
    def channel_count(self) -> int:
        """DirectML's ChannelCount."""
        return len(self.bias)

    def rules(self) -> Iterator[Fault]:
        """There is a bias for each channel."""
        yield from super().rules()
        if self.channel_count not in (1, 3):
            rule = "Bias must have 1 or 3 values, one for each channel"
            yield Fault(field="Bias", rule=rule, value=self.bias, found=str(self.channel_count))
        elif self.input_tensor.dimension_count > _CHANNELS:
            sizes = self.input_tensor.sizes
            if sizes[_CHANNELS] != self.channel_count:
                rule = (
                    f"InputTensor.Sizes[{_CHANNELS}] must be {self.channel_count}, as many channels as Bias has values"
                )
                yield Fault(field="InputTensor.Sizes", rule=rule, value=sizes, found=str(sizes))

    def value(self, x: Expr) -> Expr:
        """Scale·x + Bias[c]."""
        biases = [given(bias, DataType.FLOAT32) for bias in self.bias]
        bias = biases.pop()
        while biases:
            bias = where(coordinate(_CHANNELS).equals(len(biases) - 1), biases.pop(), bias)
        return fma(x, given(self.scale, DataType.FLOAT32), bias)
