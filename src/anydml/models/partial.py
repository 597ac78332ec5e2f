"""A description of which a field could not be read: the faults of the other fields are told nevertheless."""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anydml.enums import DataType
from anydml.errors import DmlError, Fault
from anydml.operators.fields import dml_name
from anydml.operators.scalars import ScaleBias
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.enums import FeatureLevel
    from anydml.operators import OperatorDesc
    from anydml.operators.fields import FieldType

_VARIANTS = range(3)
_NUMBERS = {"FLOAT", "SCALAR_UNION"}


@dataclass(frozen=True, slots=True)
class PartialDesc:
    """The fields that were read, and the names of those that were not."""

    cls: type[OperatorDesc]
    values: Mapping[str, Any]
    unread: frozenset[str]

    def faults(self, level: FeatureLevel) -> list[Fault]:
        """The faults that hold whatever the missing fields are: those that several stand-ins have in common."""
        found: list[dict[tuple[str, str, str], Fault]] = []
        for variant in _VARIANTS:
            others = {name: self._stand_in(name, variant) for name in self.unread}
            try:
                faults = self.cls(**{**self.values, **others}).check(level).faults
            except (DmlError, ArithmeticError, LookupError, TypeError, ValueError):
                return []  # no rule was made for a description with such a hole
            found.append({(fault.field, fault.rule, fault.found): fault for fault in faults})
        named = [dml_name(name) for name in self.unread]
        first, *others_found = found
        return [
            fault
            for key, fault in first.items()
            if all(key in other for other in others_found) and not any(name in fault.field for name in named)
        ]

    def _stand_in(self, name: str, variant: int) -> Any:
        """A value that a field may have, another one for each variant."""
        kind = self.cls.field_types()[name]
        default = next(f.default for f in dataclasses.fields(self.cls) if f.name == name)
        if default is not dataclasses.MISSING and variant == 0:
            return default
        if kind.type == "TENSOR_DESC":
            return self._tensor(variant)
        if kind.is_tensor_array:
            return (self._tensor(variant),) * (variant + 1)
        if kind.type in ("UINT", "INT"):
            return _member(kind, name, variant)
        if kind.type == "SIZE_2D":
            return (variant + 1, variant + 1)
        if kind.type in ("UINT_ARRAY", "INT_ARRAY", "FLOAT_ARRAY"):
            return (variant + 1,) * self._tensor(0).dimension_count
        if kind.type == "SCALE_BIAS":
            return ScaleBias(variant, variant)
        return variant if kind.type in _NUMBERS else None

    def _tensor(self, variant: int) -> TensorDesc:
        """A tensor like one that was read, of other sizes or another type."""
        like = next((one for one in self.values.values() if isinstance(one, TensorDesc)), None)
        like = like or TensorDesc(DataType.FLOAT32, (1, 1, 1, 1))
        if variant == 0:
            return like
        data_type = DataType.UINT8 if like.data_type is not DataType.UINT8 else DataType.FLOAT32
        return TensorDesc(data_type, [size % 7 + variant for size in like.sizes])


def _member(kind: FieldType, name: str, variant: int) -> Any:
    """A number, or a member of the enumeration that the field is of."""
    stand_in = kind.read(object(), name, [])
    members: list[Any] = list(type(stand_in)) if isinstance(stand_in, enum.Enum) else [0, 1, 2]
    members = [False, True] if isinstance(stand_in, bool) else members
    return members[variant % len(members)]
