"""The element-wise operators' common part: an operator is its fields and the expression of one element."""

from __future__ import annotations

import abc
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from anydml.core.enums import DataType
from anydml.ir.expressions import call, given, load
from anydml.ir.verbs import Map
from anydml.ir.views import View
from anydml.operators.lowering import wide
from anydml.operators.schema.fields import Input, OptionalScaleBias, Output, dml_name, saturated
from anydml.operators.schema.records import Computed
from anydml.operators.schema.rules import repeats_along, same_data_type, same_sizes
from anydml.operators.schema.sizes import common_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anydml.core.errors import Fault
    from anydml.ir.expressions import Expr
    from anydml.operators.schema.fields import ScaleBias
    from anydml.operators.schema.sizes import Sizes, Spread


class ElementWise(Computed):
    """Computes each element of the output from the inputs' elements of the same coordinates.

    A subclass has its fields and `value`, and is made a frozen dataclass. All tensors have the same sizes, which
    strides of 0 make of smaller ones. Those that take the same types at the highest level are of one type.

    Where `ScaleBias` is given, the first input's elements are x·Scale + Bias, computed in FLOAT64 and converted back.
    """

    broadcasts = True
    keeps_type: ClassVar[bool] = False
    """Whether `value` takes elements of FLOAT16 as they are: otherwise they come as FLOAT32."""
    repeated: ClassVar[tuple[str, ...]] = ()
    """The tensors that may have a size of 1 in any dimension."""
    onnx: ClassVar[str] = ""
    """The ONNX node type that it is, where that has another name than the function."""
    onnx_names: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Attributes of that node type and the fields that they are, where the names differ."""

    # What subclasses say

    @abc.abstractmethod
    def value(self, *elements: Any, **none: Any) -> Expr:
        """The output's element of the inputs', which it takes one by one, None for what is not there.

        It is converted to the output's type.
        """

    # What follows

    def rules(self) -> Iterator[Fault]:
        """The inputs are alike."""
        fields = list(self.inputs())
        for field in fields[1:]:
            yield from self._like_others(field, fields[0])

    def output_rules(self) -> Iterator[Fault]:
        """The output is like the inputs."""
        (field,) = self.outputs()
        yield from self._like_others(field, next(iter(self.inputs())))

    def _like_others(self, field: str, first: str) -> Iterator[Fault]:
        if (other := self.typed_alike().get(field)) in self.tensors():
            yield from same_data_type(self, field, str(other))
        yield from (repeats_along if field in self.repeated else same_sizes)(self, field, first)

    def implied_output_type(self) -> DataType:
        """The inputs', or UINT8 for what is true or false, and for counts."""
        (field,) = self.outputs()
        other = self.inputs().get(self.typed_alike().get(field, ""))
        return other.data_type if other else DataType.UINT8

    @classmethod
    def spread(cls, sizes: Mapping[str, Sizes], **attributes: Any) -> Spread:  # noqa: ARG003 - of others
        """How a function sees its inputs: in the sizes that they have together."""
        common = common_sizes(cls.type.name, list(sizes), list(sizes.values()))
        return {field: (own, common) for field, own in sizes.items()}

    @property
    def gives_truths(self) -> bool:
        """Whether every element of the output is 1 or 0."""
        (made,) = self.lower()
        value = made.value
        return value.op == "where" and [(arg.op, arg.value) for arg in value.args[1:]] == [("const", 1), ("const", 0)]

    def lower(self) -> tuple[Map]:
        """A map."""
        ((field, target),) = self.outputs().items()
        tensors = self.inputs()
        sources: list[View] = []
        elements: list[Expr | None] = []
        for name in map(dml_name, self.input_names()):
            if name not in tensors:
                elements.append(None)
                continue
            source = View.of(name, tensors[name])
            element = load(len(sources), source.data_type)
            elements.append(element if self.keeps_type else wide(element))
            sources.append(source if source.sizes == target.sizes else replace(source, sizes=target.sizes))
        scale_bias: ScaleBias | None = getattr(self, "scale_bias", None)
        if scale_bias is not None and elements[0] is not None:
            elements[0] = scaled(elements[0], scale_bias)
        return (Map(tuple(sources), View.of(field, target), self.value(*elements).to(target.data_type)),)


def scaled(x: Expr, scale_bias: ScaleBias) -> Expr:
    """x·Scale + Bias, computed in FLOAT64 and converted back."""
    if scale_bias.scale == 1.0 and scale_bias.bias == 0.0:
        return x  # and -0.0, which + 0.0 would make 0.0, stays
    wide = x.to(DataType.FLOAT64) * given(scale_bias.scale, DataType.FLOAT64) + given(scale_bias.bias, DataType.FLOAT64)
    return wide.to(type_of(x))


def type_of(x: Expr) -> DataType:
    """The type of a number, which is no truth value."""
    assert x.type is not None  # noqa: S101 - for type checkers
    return x.type


def is_float(x: Expr) -> bool:
    """Whether an element is a float."""
    return type_of(x).is_float


def number(value: float, x: Expr, data_type: DataType | None = None) -> Expr:
    """A number of the user's to compute with an element; of a tensor's type, where it must be a number of that."""
    return given(saturated(value if data_type is None else saturated(value, data_type), type_of(x)), type_of(x))


class Unary(ElementWise):
    """One input."""

    input_tensor: Input
    output_tensor: Output


class Scaled(Unary):
    """One input, with a scale and a bias."""

    scale_bias: OptionalScaleBias = None


class Function(Unary):
    """One of the functions that expressions have, by the operator's name."""

    def value(self, *elements: Expr) -> Expr:
        return call(self.type.name.rpartition("_")[2].lower(), *elements)


class Binary(ElementWise):
    """Two inputs."""

    a_tensor: Input
    b_tensor: Input
    output_tensor: Output


# Copies and conversions


class ElementWiseIdentity(Scaled):
    """Copies every element: Output = Input, or Input·Scale + Bias where ScaleBias is given.

    Of integers the scaled number is what is left without its fraction.
    """

    keeps_type = True

    def value(self, x: Expr) -> Expr:
        return x


class ActivationIdentity(Unary):
    """Copies every element."""

    keeps_type = True

    def value(self, x: Expr) -> Expr:
        return x


class Cast(Unary):
    """Converts every element to the output's type.

    The documents leave open what becomes of a number that the type does not have. Here a float loses its fraction and
    takes the nearest end of an integer's range, NaN being 0, as Direct3D converts; integers wrap; and floats are
    rounded to the nearest, ties to even.
    """

    free_types = ("OutputTensor",)
    implies_output = False
    keeps_type = True

    def value(self, x: Expr) -> Expr:
        return x
