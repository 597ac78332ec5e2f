"""The feature level that an operator asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.enums import DataType, FeatureLevel
from anydml.operators.fields import bare_name

if TYPE_CHECKING:
    from anydml.operators import OperatorDesc


def is_added(desc: OperatorDesc) -> bool:
    """Whether an operator has a FLOAT64 that it is allowed beyond what DirectML has."""
    is_allowed = bool(getattr(desc, "allow_float64", False))
    return is_allowed and any(tensor.data_type is DataType.FLOAT64 for tensor in desc.tensors().values())


def lowest_level(desc: OperatorDesc) -> FeatureLevel | None:
    """The lowest level that takes an operator with such tensors, leading dimensions of size 1 added where it asks.

    A FLOAT64 that is an extension of DirectML asks for no level: the operator's and its dimensions' is given.
    """
    may_be_double = is_added(desc)
    for level in FeatureLevel:
        row = desc.own_support().at(level)
        if row is not None and all(
            (tensor.data_type in support.data_types or (may_be_double and tensor.data_type is DataType.FLOAT64))
            and tensor.dimension_count <= max(support.dimension_counts)
            for tensor, support in ((tensor, row.tensors[bare_name(name)]) for name, tensor in desc.tensors().items())
        ):
            return level
    return None
