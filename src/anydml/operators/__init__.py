"""DirectML's operators: what its documents say of each, one family a file."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from inspect import isfunction
from typing import TYPE_CHECKING, TypeAlias, overload

from anydml.core.enum_parsing import suggest
from anydml.core.enums import FeatureLevel
from anydml.core.errors import DescriptionError, Fault, UnsupportedError
from anydml.core.operator_type import OperatorType, function_name
from anydml.operators.fused import FusedActivation
from anydml.operators.schema.facts import LevelSupport, SupportTable, TensorSupport
from anydml.operators.schema.fields import ScaleBias
from anydml.operators.schema.records import OPERATORS, OperatorDesc
from anydml.operators.schema.reports import Report

_FAMILIES = (
    "slice", "gather", "elementwise", "manipulation", "fill", "arithmetic", "logic", "activations", "reductions",
    "normalization", "quantization", "products", "convolution", "pooling", "resampling", "regions", "select",
    "optimizer", "attention", "recurrent",
)  # fmt: skip
for _family in _FAMILIES:  # each class enters itself in OPERATORS
    import_module(f"anydml.operators.{_family}")

OperatorLike: TypeAlias = "type[OperatorDesc] | OperatorDesc | OperatorType | Callable[..., object] | str | int"


def find_operator(operator: OperatorLike) -> type[OperatorDesc]:
    """The description class of an operator, by class, description, type, name or function."""
    if isinstance(operator, OperatorDesc):
        return type(operator)
    if isinstance(operator, type) and issubclass(operator, OperatorDesc) and operator is not OperatorDesc:
        return operator
    name = operator.__name__ if isfunction(operator) else operator
    if isinstance(name, str):  # models write DirectML's names, and read them by OperatorType
        short = name.strip().lower()
        name = next((kind for kind in OPERATORS if function_name(kind) == short), name)
    try:
        kind = OperatorType(name)
    except DescriptionError as error:
        near = suggest(name, [*(kind.name for kind in OPERATORS), *map(function_name, OPERATORS)], "DML_OPERATOR_")
        raise DescriptionError("OperatorType", replace(error.faults[0], way_out=near)) from None
    if kind not in OPERATORS:
        all_of_them = len(OperatorType) - 1  # INVALID is none
        rule = f"the operator is not built yet; there are {len(OPERATORS)} of DirectML's {all_of_them}"
        way_out = "`anydml support` lists them"
        raise UnsupportedError(kind.name, Fault(field="OperatorType", rule=rule, value=operator, way_out=way_out))
    return OPERATORS[kind]


@overload
def support(operator: OperatorLike, feature_level: FeatureLevel | LevelName | str = ...) -> LevelSupport | None: ...
@overload
def support(
    operator: None = None, feature_level: FeatureLevel | LevelName | str = ...
) -> dict[str, LevelSupport | None]: ...
def support(
    operator: OperatorLike | None = None,
    feature_level: FeatureLevel | LevelName | str = FeatureLevel.highest(),  # noqa: B008 - a constant
) -> LevelSupport | dict[str, LevelSupport | None] | None:
    """The types and dimension counts of an operator at a feature level, for each tensor; None where the level lacks it.

    Without an operator the same of each of the 177, by its name. An operator's whole table, highest level first, is
    `Slice1.support`.
    """
    level = FeatureLevel(feature_level)
    if operator is None:
        return {kind.name: cls.support.at(level) for kind, cls in OPERATORS.items()}
    return find_operator(operator).support.at(level)


_BUILT = {cls.__name__: cls for cls in OPERATORS.values()}
if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.core.enums import LevelName

    def __getattr__(name: str) -> type[OperatorDesc]:
        """Each operator's class."""
else:
    globals().update(_BUILT)
__all__ = [
    "OPERATORS",
    "FusedActivation",
    "LevelSupport",
    "OperatorDesc",
    "OperatorLike",
    "Report",
    "ScaleBias",
    "SupportTable",
    "TensorSupport",
    "find_operator",
    "support",
    *_BUILT,
]
