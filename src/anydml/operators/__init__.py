"""DirectML's operators: what its documents say of each, one family a file."""

from __future__ import annotations

from typing import TypeAlias

from anydml.enums import FeatureLevel
from anydml.errors import Fault, UnsupportedError
from anydml.operator_type import OperatorType
from anydml.operators.cumulative import CumulativeProduct, CumulativeSummation
from anydml.operators.description import OperatorDesc, Report
from anydml.operators.gather import GatherND, GatherND1
from anydml.operators.slice import Slice, Slice1
from anydml.operators.tables import LevelSupport, SupportTable, TensorSupport

OPERATORS: dict[OperatorType, type[OperatorDesc]] = {
    cls.type: cls for cls in (Slice, Slice1, GatherND, GatherND1, CumulativeSummation, CumulativeProduct)
}

OperatorLike: TypeAlias = "type[OperatorDesc] | OperatorDesc | OperatorType | str | int"


def find_operator(operator: OperatorLike) -> type[OperatorDesc]:
    """The description class of an operator, by class, description, type or name."""
    if isinstance(operator, OperatorDesc):
        return type(operator)
    if isinstance(operator, type) and issubclass(operator, OperatorDesc) and operator is not OperatorDesc:
        return operator
    kind = OperatorType(operator)
    if kind not in OPERATORS:
        rule = f"the operator is not built yet; there are {', '.join(t.name for t in OPERATORS)}"
        raise UnsupportedError(kind.name, Fault(field="OperatorType", rule=rule, value=operator))
    return OPERATORS[kind]


def support(
    operator: OperatorLike,
    feature_level: FeatureLevel | str = FeatureLevel.highest(),  # noqa: B008 - a constant
) -> LevelSupport | None:
    """What an operator takes at a feature level, tensor by tensor; None where the level does not have it.

    The whole table, highest level first, is `Slice1.support`.
    """
    return find_operator(operator).support.at(FeatureLevel(feature_level))


__all__ = [
    "OPERATORS",
    "CumulativeProduct",
    "CumulativeSummation",
    "GatherND",
    "GatherND1",
    "LevelSupport",
    "OperatorDesc",
    "OperatorLike",
    "Report",
    "Slice",
    "Slice1",
    "SupportTable",
    "TensorSupport",
    "find_operator",
    "support",
]
