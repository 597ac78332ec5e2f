"""CAST: every element as a number of another type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anydml.ir.patterns import copy_of, scaled
from anydml.ir.views import View
from anydml.operator_type import OperatorType
from anydml.operators.description import OperatorDesc
from anydml.operators.fields import Input, Output  # noqa: TC001 - read at run time
from anydml.operators.rules import same_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.errors import Fault
    from anydml.ir.verbs import Map


@dataclass(frozen=True, kw_only=True)
class Cast(OperatorDesc):
    """Converts every element to the output's type.

    The documents leave open what becomes of a number that the type does not have. Here a float loses its fraction and
    takes the nearest end of an integer's range, NaN being 0, as Direct3D converts; integers wrap; and floats are
    rounded to the nearest, ties to even.
    """

    type = OperatorType.CAST
    implies_output = False

    input_tensor: Input
    output_tensor: Output

    def rules(self) -> Iterator[Fault]:
        """There is nothing that an input must be."""
        yield from ()

    def output_rules(self) -> Iterator[Fault]:
        """The output is of the input's sizes."""
        yield from same_sizes(self, "OutputTensor", "InputTensor")

    def lower(self) -> tuple[Map]:
        """A map, or between equal types a copy."""
        source, target = View.of("InputTensor", self.input_tensor), View.of("OutputTensor", self.output_tensor)
        if source.data_type == target.data_type:
            return (copy_of(source, target),)
        return (scaled(source, target),)
