"""REVERSE_SUBSEQUENCES: turn round the beginnings of lines, each as far as its length says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.core.operator_type import OperatorType
from anydml.ir.fetches import turned
from anydml.ir.views import View
from anydml.operators.description import OperatorDesc
from anydml.operators.fields import Input, Output, Uint  # noqa: TC001 - read at run time
from anydml.operators.rules import axis_of_input, exact_sizes, like_input, same_dimension_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.core.errors import Fault
    from anydml.ir.verbs import Map


class ReverseSubsequences(OperatorDesc):
    """Reverses the first so many elements along an axis, and copies the rest.

    SequenceLengthsTensor has the input's sizes, but 1 along the axis. A length past the axis's size is that size.
    """

    type = OperatorType.REVERSE_SUBSEQUENCES

    input_tensor: Input
    sequence_lengths_tensor: Input
    output_tensor: Output
    axis: Uint

    def rules(self) -> Iterator[Fault]:
        """The axis is one of the input's, and there is a length for every line along it."""
        faults = [*same_dimension_count(self, "SequenceLengthsTensor", "InputTensor"), *axis_of_input(self, self.axis)]
        yield from faults
        if not faults:
            sizes = [1 if k == self.axis else size for k, size in enumerate(self.input_tensor.sizes)]
            source = "the sizes of InputTensor, but 1 along the axis"
            yield from exact_sizes(self, "SequenceLengthsTensor", sizes, source)

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The input's."""
        return self.input_tensor.sizes

    def output_rules(self) -> Iterator[Fault]:
        """The output is of the input's type and sizes."""
        yield from like_input(self)

    def lower(self) -> tuple[Map]:
        """A map that fetches from the other end of each line's beginning."""
        reverse = turned(
            source=View.of("InputTensor", self.input_tensor),
            lengths=View.of("SequenceLengthsTensor", self.sequence_lengths_tensor),
            target=View.of("OutputTensor", self.output_tensor),
            axis=self.axis,
        )
        return (reverse,)
