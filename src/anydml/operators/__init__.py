"""DirectML's operators: what its documents say of each, one family a file."""

from __future__ import annotations

from typing import TypeAlias

from anydml.enums import FeatureLevel
from anydml.errors import Fault, UnsupportedError
from anydml.operator_type import OperatorType
from anydml.operators.cast import Cast
from anydml.operators.cumulative import CumulativeProduct, CumulativeSummation
from anydml.operators.description import OperatorDesc, Report
from anydml.operators.fill import FillValueConstant, FillValueSequence
from anydml.operators.gather import GatherND, GatherND1
from anydml.operators.gather_along import Gather, GatherElements
from anydml.operators.identity import ElementWiseIdentity
from anydml.operators.join import Join, Split
from anydml.operators.reverse import ReverseSubsequences
from anydml.operators.scalars import ScaleBias
from anydml.operators.slice import Slice, Slice1
from anydml.operators.tables import LevelSupport, SupportTable, TensorSupport

_FAMILIES: tuple[tuple[type[OperatorDesc], ...], ...] = (
    (Slice, Slice1),
    (GatherND, GatherND1),
    (CumulativeSummation, CumulativeProduct),
    (Gather, GatherElements),
    (ElementWiseIdentity, Cast),
    (Join, Split),
    (FillValueConstant, FillValueSequence),
    (ReverseSubsequences,),
)
OPERATORS: dict[OperatorType, type[OperatorDesc]] = {cls.type: cls for family in _FAMILIES for cls in family}

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
    "Cast",
    "CumulativeProduct",
    "CumulativeSummation",
    "ElementWiseIdentity",
    "FillValueConstant",
    "FillValueSequence",
    "Gather",
    "GatherElements",
    "GatherND",
    "GatherND1",
    "Join",
    "LevelSupport",
    "OperatorDesc",
    "OperatorLike",
    "Report",
    "ReverseSubsequences",
    "ScaleBias",
    "Slice",
    "Slice1",
    "Split",
    "SupportTable",
    "TensorSupport",
    "find_operator",
    "support",
]
