"""What a derived function may be given: inputs by place, then attributes by place or name, of a family of operators."""

from __future__ import annotations

import functools
import inspect
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

from anydml.api.describing import argument_name
from anydml.core.enum_parsing import squeeze
from anydml.core.enums import FeatureLevel
from anydml.core.operator_type import function_name, versions_of
from anydml.operators import OPERATORS
from anydml.operators.reductions import AlongAxes
from anydml.operators.schema.fields import FIELD_TYPES, ValueType

if TYPE_CHECKING:
    from anydml.operators import OperatorDesc
    from anydml.operators.schema.fields import FieldType

RENAMED = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan_yx", "arctanh": "atanh", "atan2": "atan_yx", "bitwise_and": "bit_and", "bitwise_not": "bit_not",
    "bitwise_or": "bit_or", "bitwise_xor": "bit_xor", "clamp": "clip", "div": "divide", "fmod": "modulus_truncate",
    "invert": "bit_not", "left_shift": "bit_shift_left", "maximum": "max", "minimum": "min", "mod": "modulus_floor",
    "mul": "multiply", "neg": "negate", "negative": "negate", "power": "pow", "prelu": "parameterized_relu",
    "reciprocal": "recip", "remainder": "modulus_floor", "right_shift": "bit_shift_right", "selu": "scaled_elu",
    "silu": "swish", "sub": "subtract", "true_divide": "divide",
}  # fmt: skip
"""Names that are another's for an operator's function."""
OUTPUT_SIZES = "output_sizes"
"""The argument for the sizes of a result that nothing else, or not all else, implies."""


def parameters_of(cls: type[OperatorDesc]) -> dict[str, Any]:
    """The attributes by name, with their defaults, MISSING for none: those without one first.

    A data type is the first input's where it is not said, axes are those that the class calls usual, and where the
    output's sizes are free they may be given besides. Where nothing implies them they come first. Optional outputs
    are asked for.
    """
    kinds, inputs = cls.field_types(), cls.input_names()
    given = {field.name: field.default for field in fields(cls)}
    names = [name for name, kind in kinds.items() if kind.kind not in ("input", "output")]
    defaults = {name: None if inputs and is_type(kinds[name]) else given[name] for name in names}
    if issubclass(cls, AlongAxes):
        defaults["axes"] = cls.usual_axes
    if not cls.implies_output:
        defaults = {OUTPUT_SIZES: MISSING, **defaults}
    elif cls.sizes_are_free:
        defaults[OUTPUT_SIZES] = None
    defaults |= dict.fromkeys(map(argument_name, cls.optional_outputs()), False)
    return dict(sorted(defaults.items(), key=lambda item: item[1] is not MISSING))


def is_type(kind: FieldType) -> bool:
    """Whether a field is a data type."""
    return kind is FIELD_TYPES[ValueType]


@functools.cache
def family_of(cls: type[OperatorDesc]) -> tuple[type[OperatorDesc], ...]:
    """An operator, and the newer ones of its name that take every call of it: SOFTMAX and SOFTMAX1.

    Not SLICE1, whose sizes are a window's and not the result's, ADD1, which has no integers, nor CLIP1, whose bounds
    are of the tensor's type, where CLIP has floats for all.
    """
    newer = (OPERATORS[kind] for kind in versions_of(cls.type)[1:] if kind in OPERATORS)
    return (cls, *(one for one in newer if _takes_calls_of(cls, one)))


def _takes_calls_of(first: type[OperatorDesc], newer: type[OperatorDesc]) -> bool:
    names, latest = parameters_of(first).keys(), parameters_of(newer)
    needed = {key for key, default in latest.items() if default is MISSING}
    if not newer.continues or first.input_names() != newer.input_names() or not needed <= names <= latest.keys():
        return False
    kinds = newer.field_types()
    if any(kinds.get(key, kind) != kind for key, kind in first.field_types().items()):
        return False
    own, theirs = (one.support.row_at(FeatureLevel.highest()).tensors for one in (first, newer))
    return all(set(tensor.data_types) <= set(theirs[field].data_types) for field, tensor in own.items())


@functools.cache
def choices_of(family: tuple[type[OperatorDesc], ...]) -> dict[str, Any]:
    """The attributes of a family's function: those of the first operator in their order, then what newer ones add.

    Added axes are `axis`, as NumPy and PyTorch have it. No added output can be asked for: the function's result stays
    what it is.
    """
    first, newest = family[0], family[-1]
    if first is newest:
        return parameters_of(first)
    latest, names = parameters_of(newest), parameters_of(first)
    found = {key: latest[key] for key in names}
    outputs = set(map(argument_name, newest.optional_outputs()))
    added = {key: default for key, default in latest.items() if key not in names and key not in outputs}
    return found | {"axis" if key == "axes" else key: default for key, default in added.items()}


def arguments_of(*family: type[OperatorDesc]) -> dict[str, Any]:
    """Inputs and attributes by the function's names, with their defaults: what must be given first, inputs first."""
    given = {field.name: field.default for field in fields(family[0])}
    tensors = {argument_name(name): given[name] for name in family[0].input_names()}
    return dict(sorted({**tensors, **choices_of(family)}.items(), key=lambda item: item[1] is not MISSING))


def signature_of(*family: type[OperatorDesc]) -> inspect.Signature:
    """Inputs and attributes by place or name, `out` and `device` by name."""
    place, name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    arguments = [
        inspect.Parameter(key, place, default=inspect.Parameter.empty if default is MISSING else default)
        for key, default in arguments_of(*family).items()
    ]
    options = [inspect.Parameter(key, name, default=None) for key in ("out", "device")]
    return inspect.Signature([*arguments, *options])


def exact_name(cls: type[OperatorDesc]) -> str:
    """The name of the function of exactly this operator: `activation_softmax`, where `softmax` takes a newer one."""
    name = function_name(cls.type)
    return cls.type.name.lower() if len(family_of(cls)) > 1 and name != cls.type.name.lower() else name


def operator_of_function(name: str) -> type[OperatorDesc] | None:
    """The operator that a function computes, by the function's name in any spelling: the newest of the family.

    None for an operator's own name, which is that operator's alone, and for what is no function of one operator.
    """
    renamed = {squeeze(other): known for other, known in RENAMED.items()}
    word = squeeze(renamed.get(squeeze(name), name))
    kind = next((kind for kind in OPERATORS if squeeze(function_name(kind)) == word != squeeze(kind.name)), None)
    return None if kind is None else family_of(OPERATORS[kind])[-1]
