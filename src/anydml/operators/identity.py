"""ELEMENT_WISE_IDENTITY: copy a tensor, into another layout as well, and scale it on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anydml.ir.patterns import copy_of, scaled
from anydml.ir.views import View
from anydml.operator_type import OperatorType
from anydml.operators.description import OperatorDesc
from anydml.operators.fields import Input, OptionalScaleBias, Output  # noqa: TC001 - read at run time
from anydml.operators.rules import like_input

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.errors import Fault
    from anydml.ir.verbs import Map


@dataclass(frozen=True, kw_only=True)
class ElementWiseIdentity(OperatorDesc):
    """Copies every element: Output = Input, or Input·Scale + Bias where ScaleBias is given.

    Of integers the scaled number is what is left without its fraction.
    """

    type = OperatorType.ELEMENT_WISE_IDENTITY
    input_tensor: Input
    output_tensor: Output
    scale_bias: OptionalScaleBias = None

    def rules(self) -> Iterator[Fault]:
        """There is nothing that an input must be."""
        yield from ()

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The input's."""
        return self.input_tensor.sizes

    def output_rules(self) -> Iterator[Fault]:
        """The output is of the input's type and sizes."""
        yield from like_input(self)

    def lower(self) -> tuple[Map]:
        """A copy, or where there is a scale a map."""
        source, target = View.of("InputTensor", self.input_tensor), View.of("OutputTensor", self.output_tensor)
        if self.scale_bias is None:
            return (copy_of(source, target),)
        return (scaled(source, target, self.scale_bias.scale, self.scale_bias.bias),)
