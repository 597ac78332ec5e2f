"""Expressions: what stands for a tensor in a graph that is being built, and how a function makes one of others."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np

from anydml.core.errors import DescriptionError, Fault
from anydml.core.operator_type import OperatorType as AllTypes
from anydml.operators import find_operator, fused
from anydml.operators.schema.fields import dml_name
from anydml.pydirectml.arguments import ArgumentError, an, as_argument_error, refuse, several
from anydml.pydirectml.enums import ENUMS, OperatorType
from anydml.pydirectml.tensors import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.api import expression
    from anydml.operators import OperatorDesc

_MEMBERS = tuple(ENUMS.values())
Number: TypeAlias = "float | np.number[Any]"
Operand: TypeAlias = "Expression | float | np.number[Any]"
_ScaleBias: TypeAlias = "Callable[[np.float32], tuple[Any, Any]]"


def _divisor(x: np.float32) -> tuple[Any, Any]:
    return np.float32(1) / x, 0


class Expression:
    """A tensor in a graph that is being built. `Expression()` is none: what an operator does not give."""

    __slots__ = ("__weakref__", "_inner")
    __array_ufunc__: ClassVar[None] = None  # so that NumPy leaves `number * expression` to the expression

    def __init__(self) -> None:
        self._inner: expression.Expression | None = None

    @classmethod
    def of(cls, inner: expression.Expression) -> Self:
        """One of anydml's as one of PyDirectML's."""
        made = cls()
        made._inner = inner
        return made

    def inner(self, subject: str, field: str) -> expression.Expression:
        """Its expression in anydml's graph."""
        if self._inner is None:
            rule = f"{field} must not be an empty Expression, which stands for no tensor"
            raise ArgumentError(subject, Fault(field=field, rule=rule))
        return self._inner

    def get_output_desc(self) -> TensorDesc:
        """The description of the tensor."""
        return TensorDesc.of(self.inner("Expression", "get_output_desc").desc)

    def _with(self, kind: str, other: object, scale_bias: _ScaleBias | None = None) -> Expression:
        """An operator of two expressions, or of an expression and a number that is its scale or its bias."""
        if isinstance(other, Expression):
            return make_one(f"ELEMENT_WISE_{kind}", {"a": self, "b": other})
        return NotImplemented if scale_bias is None else self._scaled(other, scale_bias)

    def _scaled(self, number: object, scale_bias: _ScaleBias) -> Expression:
        if not isinstance(number, numbers.Real):
            return NotImplemented  # type: ignore[no-any-return]  # Python asks the other operand
        with np.errstate(all="ignore"):
            scale, bias = map(float, scale_bias(np.float32(float(number))))
        return make_one("ELEMENT_WISE_IDENTITY", {"input": self, "scale_bias": (scale, bias)})

    # fmt: off
    def __add__(self, other: Operand) -> Expression: return self._with("ADD", other, lambda x: (1, x))
    def __radd__(self, other: Number) -> Expression: return self._scaled(other, lambda x: (1, x))
    def __sub__(self, other: Operand) -> Expression: return self._with("SUBTRACT", other, lambda x: (1, -x))
    def __rsub__(self, other: Number) -> Expression: return self._scaled(other, lambda x: (-1, x))
    def __mul__(self, other: Operand) -> Expression: return self._with("MULTIPLY", other, lambda x: (x, 0))
    def __rmul__(self, other: Number) -> Expression: return self._scaled(other, lambda x: (x, 0))
    def __truediv__(self, other: Operand) -> Expression: return self._with("DIVIDE", other, _divisor)
    def __rtruediv__(self, other: Number) -> Expression: return make_one("ELEMENT_WISE_RECIP", {"input": self}) * other
    def __mod__(self, other: Expression) -> Expression: return self._with("MODULUS_TRUNCATE", other)
    def __neg__(self) -> Expression: return make_one("ELEMENT_WISE_NEGATE", {"input": self})
    def __iadd__(self, other: Operand) -> Self: return self._become(self + other)
    def __isub__(self, other: Operand) -> Self: return self._become(self - other)
    def __imul__(self, other: Operand) -> Self: return self._become(self * other)
    def __itruediv__(self, other: Operand) -> Self: return self._become(self / other)
    def __imod__(self, other: Expression) -> Self: return self._become(self % other)
    # fmt: on

    def _become(self, other: Expression) -> Self:
        """The object itself changes, as C++'s does."""
        self._inner = other._inner
        return self

    def __repr__(self) -> str:
        return "Expression()" if self._inner is None else f"Expression({self.get_output_desc()!r})"


class FusedActivation:
    """An activation that an operator applies to its result, with up to two parameters: those that it has, in order."""

    def __init__(self, activation: OperatorType, param_1: float = 0.0, param_2: float = 0.0) -> None:
        kind = AllTypes[an("FusedActivation", "activation", OperatorType, activation).name]
        self.inner: fused.FusedActivation | None = None
        if kind is not AllTypes.INVALID:
            cls = fused.find_activation(kind)
            kinds = cls.field_types()
            names = [name for name in fused.attributes_of(cls) if kinds[name].type == "FLOAT"]
            try:
                self.inner = fused.FusedActivation(cls, **dict(zip(names, (param_1, param_2), strict=False)))
            except DescriptionError as error:
                raise as_argument_error(error) from None

    def __repr__(self) -> str:
        return f"dml.{self.inner!r}" if self.inner else "dml.FusedActivation of none"


class MaxPoolingOutputs:
    """The outputs of max pooling: the largest elements, and their indices, or an empty expression."""

    def __init__(self, values: Expression, indices: Expression) -> None:
        self.values, self.indices = values, indices

    def __repr__(self) -> str:
        return f"dml.MaxPoolingOutputs(values={self.values!r}, indices={self.indices!r})"


class GRUOutputs:
    """The outputs of a GRU: every step's state, and the last, each of which may be an empty expression."""

    def __init__(self, sequence: Expression, single: Expression) -> None:
        self.sequence, self.single = sequence, single

    def __repr__(self) -> str:
        return f"dml.GRUOutputs(sequence={self.sequence!r}, single={self.single!r})"


def make_one(kind: str, arguments: Mapping[str, Any]) -> Expression:
    """The output of a node."""
    return make(kind, arguments)["OutputTensor"]


def make(kind: str, arguments: Mapping[str, Any]) -> dict[str, Expression]:
    """Add a node, and give its outputs by DirectML's names.

    Arguments are the operator's fields by their names, `_tensor` left out. Outputs that are not given are those that
    the operator implies.
    """
    cls = find_operator(kind)
    fields: dict[str, Any] = {}
    inputs: dict[str, list[expression.Expression]] = {}
    for name, value in arguments.items():
        field = _field(cls, name)
        if cls.field_types()[field].kind != "input":
            fields[field] = _attribute(value)
        elif value is not None or field not in cls.optional_inputs():
            is_list = cls.field_types()[field].is_tensor_array
            given = several(kind, name, Expression, value) if is_list else [an(kind, name, Expression, value)]
            inputs[field] = [x.inner(kind, name) for x in given]
            descs = tuple(x.desc for x in inputs[field])
            fields[field] = descs if is_list else descs[0]
    in_order = tuple(x for field in cls.input_names() for x in inputs.get(field, ()))
    graph = in_order[0].graph if in_order else refuse(kind, "input", "a list of Expression, not an empty one", [])
    if any(x.graph is not graph for x in in_order):
        rule = f"{', '.join(map(dml_name, inputs))} must be of one GraphBuilder"
        raise ArgumentError(kind, Fault(field=dml_name(next(iter(inputs))), rule=rule))
    try:
        desc = cls.draft(**fields)
    except DescriptionError as error:
        raise as_argument_error(error) from None
    desc.validate(graph.device.feature_level)
    made = graph.add(desc, in_order, list(desc.outputs().values()))
    return dict(zip(desc.outputs(), map(Expression.of, made), strict=True))


def _field(cls: type[OperatorDesc], name: str) -> str:
    """The field of an argument: `window_sizes` is WindowSize, and the `input` of a join InputTensors."""
    names = (name, f"{name}_tensor", f"{name}_tensors", name.removesuffix("s"))
    return next(field for field in names if field in cls.field_types())


def _attribute(value: Any) -> Any:
    """An attribute as anydml's descriptions read it."""
    if isinstance(value, _MEMBERS):
        return value.name
    if isinstance(value, FusedActivation):
        return value.inner
    if isinstance(value, (list, tuple)):
        return [_attribute(item) for item in value]
    return value
