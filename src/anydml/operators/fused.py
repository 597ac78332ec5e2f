"""Fused activations: an activation that an operator applies to its result, as a value and as a kind of field."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from anydml.arrays.tensor import TensorDesc
from anydml.core.enum_parsing import suggest
from anydml.core.enums import DataType, FeatureLevel
from anydml.core.errors import DescriptionError, Fault, show
from anydml.core.operator_type import OperatorType
from anydml.ir.views import View
from anydml.operators.elementwise import ElementWise, scaled
from anydml.operators.schema.fields import FIELD_TYPES, FieldType, dml_name
from anydml.operators.schema.records import OPERATORS, OperatorDesc
from anydml.operators.schema.rules import fault

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Primitive


FUSED = frozenset(
    OperatorType[f"ACTIVATION_{name}"]
    for name in (
        "LINEAR", "SIGMOID", "HARD_SIGMOID", "TANH", "SCALED_TANH", "RELU", "LEAKY_RELU", "THRESHOLDED_RELU", "ELU",
        "CELU", "SCALED_ELU", "SOFTPLUS", "PARAMETRIC_SOFTPLUS", "SOFTSIGN", "IDENTITY", "SHRINK", "GELU",
    )
)  # fmt: skip
"""The activations that every operator with a fused activation takes."""
CLIP = frozenset([OperatorType.ELEMENT_WISE_CLIP])
"""Activations that convolutions and GEMM take besides."""
SOFTMAXES = frozenset([OperatorType.ACTIVATION_SOFTMAX, OperatorType.ACTIVATION_SOFTMAX1])
"""Activations that GEMM takes besides: a step over the rows of the result, where the others are of one element."""
_ALL = FUSED | CLIP | SOFTMAXES
_STAND_IN = TensorDesc(DataType.FLOAT32, (1,))


@dataclass(frozen=True, slots=True, weakref_slot=True, init=False, repr=False)
class FusedActivation:
    """An activation with its attributes: `FusedActivation("ACTIVATION_ELU", alpha=0.5)`.

    It is named by its class, its type, or its name, with or without ACTIVATION_.
    """

    desc: OperatorDesc
    """The activation, of tensors that stand in for those that it is fused with."""

    def __init__(self, activation: type[OperatorDesc] | OperatorType | str | int, **attributes: Any) -> None:
        cls = find_activation(activation)
        own = attributes_of(cls)
        faults = []
        for name, value in attributes.items():
            if name not in own:
                has = f"has {', '.join(map(dml_name, own))}" if own else "has none"
                rule = f"{dml_name(name)} is not an attribute of {cls.type.name}, which {has}"
                faults.append(Fault(field=dml_name(name), rule=rule, value=value))
        for name, default in own.items():
            if default is MISSING and name not in attributes:
                faults.append(Fault(field=dml_name(name), rule=f"{dml_name(name)} must be given", value=None))
        if faults:
            raise DescriptionError(cls.type.name, faults)
        tensors = dict.fromkeys((*cls.input_names(), *cls.output_names()), _STAND_IN)
        object.__setattr__(self, "desc", cls(**tensors, **attributes))

    @property
    def type(self) -> OperatorType:
        """The activation's."""
        return self.desc.type

    @property
    def attributes(self) -> dict[str, Any]:
        """Its attributes by name."""
        return {name: getattr(self.desc, name) for name in attributes_of(type(self.desc))}

    def __repr__(self) -> str:
        numbers = (f"{name}={value!r}" for name, value in self.attributes.items())
        return f"FusedActivation({', '.join([repr(self.type.name), *numbers])})"

    def apply(self, x: Expr) -> Expr:
        """The activation of a number of FLOAT32."""
        desc: Any = self.desc
        scale_bias = getattr(desc, "scale_bias", None)
        found: Expr = desc.value(x if scale_bias is None else scaled(x, scale_bias))
        return found

    def steps(self, name: str, output: TensorDesc) -> tuple[View, *tuple[Primitive, ...]]:
        """Where an operator puts its result, in FLOAT32, and the steps of the activation that make its output of it."""
        before = TensorDesc(DataType.FLOAT32, output.sizes)
        desc: Any = self.desc
        steps = replace(desc, input_tensor=before, output_tensor=output).lower()

        def renamed(view: View) -> View:
            return replace(view, tensor=name) if view.tensor == "InputTensor" else view

        return View.of(name, before), *(step.reading(renamed) for step in steps)

    def step_faults(self, sizes: tuple[int, ...]) -> Iterator[Fault]:
        """Check the activation against the sizes that it is of."""
        like = TensorDesc(DataType.FLOAT32, sizes)
        desc: Any = self.desc
        for one in replace(desc, input_tensor=like, output_tensor=like).rules():
            yield replace(one, field=f"FusedActivation.{one.field}", rule=f"FusedActivation.{one.rule}")

    def level_faults(self, level: FeatureLevel, where: str, field: str = "FusedActivation") -> Iterator[Fault]:
        """Find what the level does not have."""
        first = self.desc.introduced()
        if level < first:
            rule = f"{field} of {self.type.name} needs {first.dml_name}"
            yield Fault(field=field, rule=rule, value=self.type, way_out=where, level=first)
        for one in self.desc.attribute_level_faults(level, where):
            yield replace(one, field=f"{field}.{one.field}", rule=f"{field}.{one.rule}")


def attributes_of(cls: type[OperatorDesc]) -> dict[str, Any]:
    """The attributes of an operator with their defaults, MISSING for those without."""
    defaults = {field.name: field.default for field in fields(cls)}
    return {name: defaults[name] for name, kind in cls.field_types().items() if kind.kind == "attribute"}


def find_activation(activation: object) -> type[OperatorDesc]:
    """The description class of an activation, by class, type or name."""
    if isinstance(activation, type) and issubclass(activation, OperatorDesc):
        return activation
    kind = None
    if isinstance(activation, str):
        names = (f"{family}_{activation.strip().upper()}" for family in ("ACTIVATION", "ELEMENT_WISE"))
        kind = next((OperatorType[name] for name in names if OperatorType.__members__.get(name) in _ALL), None)
    try:
        cls = OPERATORS.get(OperatorType(activation) if kind is None else kind)
    except DescriptionError:
        cls = None
    if cls is None or not (issubclass(cls, ElementWise) or cls.type in SOFTMAXES):
        known = sorted(kind.name for kind in FUSED)
        short = [name.removeprefix("ACTIVATION_") for name in known]
        near = suggest(activation, known, "DML_OPERATOR_") or suggest(activation, short)
        fault = Fault(
            field="Type", rule=f"Type {_must_be(FUSED)}", value=activation, found=show(activation), way_out=near
        )
        raise DescriptionError("FusedActivation", fault)
    return cls


def _must_be(allowed: Collection[OperatorType]) -> str:
    return f"must be one of {', '.join(sorted(kind.name for kind in allowed))}"


def activation_faults(
    activation: FusedActivation | None, allowed: Collection[OperatorType] = FUSED, field: str = "FusedActivation"
) -> Iterator[Fault]:
    """Check that an activation is one of those that an operator takes."""
    if activation is not None and activation.type not in allowed:
        yield fault(f"{field}.Type", f"{_must_be(allowed)}", activation, activation.type.name)


def fused_level_faults(
    activation: FusedActivation | None,
    kinds: Collection[OperatorType],
    first: FeatureLevel,
    level: FeatureLevel,
    where: str,
) -> Iterator[Fault]:
    """Check that a level is one that fuses some activations, where it is one of those."""
    if activation is not None and activation.type in kinds and level < first:
        rule = f"FusedActivation of {activation.type.name} needs {first.dml_name}"
        yield Fault(field="FusedActivation", rule=rule, value=activation.type, way_out=where, level=first)


def read_activation(value: object, field: str, faults: list[Fault]) -> FusedActivation | None:
    """Read an activation: None, one with its attributes, one by name, or DxDispatch's object with a `Type`."""
    if value is None or isinstance(value, FusedActivation):
        return value
    attributes: dict[str, Any] = {}
    activation: Any = value
    try:
        if isinstance(value, dict):
            attributes = {_snake(str(name)): number for name, number in value.items() if name != "Type"}
            activation = value.get("Type")
        if isinstance(activation, (str, int, type)):
            return FusedActivation(activation, **attributes)
    except DescriptionError as error:
        faults += error.within("", f"{field}.").faults
        return None
    faults.append(fault(field, "must be a FusedActivation, the name of an activation, or None", value, show(value)))
    return None


def _snake(name: str) -> str:
    return re.sub("(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def read_activations(value: object, field: str, faults: list[Fault]) -> tuple[FusedActivation, ...]:
    """Read a list of activations, each as a fused one; None is none of them."""
    if not isinstance(value, (list, tuple)):
        faults.append(fault(field, "must be a list of activations", value, show(value)))
        return ()
    found = []
    for i, one in enumerate(value):
        if one is None:
            faults.append(
                fault(f"{field}[{i}]", "must be a FusedActivation or the name of an activation", one, show(one))
            )
        found.append(read_activation(one, f"{field}[{i}]", faults))
    return tuple(one for one in found if one is not None)


Activations: TypeAlias = Annotated[Sequence[FusedActivation], "OPERATOR_DESC_ARRAY"]
FIELD_TYPES[Activations] = FieldType("attribute", "OPERATOR_DESC_ARRAY", read_activations)
OptionalActivation: TypeAlias = Annotated[FusedActivation | None, "OPERATOR_DESC"]
FIELD_TYPES[OptionalActivation] = FieldType("attribute", "OPERATOR_DESC", read_activation)
