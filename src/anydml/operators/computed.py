"""The common part of operators that compute: a class of a few lines says its fields and its expression."""

from __future__ import annotations

import functools
from collections.abc import Mapping  # noqa: TC003 - read at run time
from typing import TYPE_CHECKING, ClassVar

from anydml.core.enums import DataType, FeatureLevel
from anydml.operators.description import OperatorDesc
from anydml.operators.rules import same_data_type

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from anydml.core.errors import Fault
    from anydml.ir.expressions import Expr


class Computed(OperatorDesc):
    """An operator whose fields are annotations, and whose tensors are of one type where the documents list the same."""

    free_types: ClassVar[tuple[str, ...]] = ()
    """The tensors whose type is their own although they take the same types as others."""
    typed_like: ClassVar[Mapping[str, str]] = {}
    """The tensors that are of another one's type, where the types that they take do not say it."""
    result_type: ClassVar[DataType | None] = DataType.UINT8
    """The output's type where that is no input's; None where it depends on attributes."""

    @classmethod
    @functools.cache
    def typed_alike(cls) -> Mapping[str, str]:
        """The tensors that must be of another one's type, which stands before them."""
        if cls.typed_like:
            return cls.typed_like
        taken = cls.support.row_at(FeatureLevel.highest()).tensors
        firsts: dict[frozenset[DataType], str] = {}
        for field, support in taken.items():
            if field not in cls.free_types:
                firsts.setdefault(support.data_types, field)
        pairs = {field: firsts.get(support.data_types, field) for field, support in taken.items()}
        return {field: first for field, first in pairs.items() if field not in (first, *cls.free_types)}

    def typed_faults(self, fields: Collection[str]) -> Iterator[Fault]:
        """Check that some tensors have the types that `typed_like` says."""
        for field, other in self.typed_like.items():
            if field in fields and other in self.tensors():
                yield from same_data_type(self, field, other)


def wide(element: Expr) -> Expr:
    """An element as it is computed with: FLOAT16 as FLOAT32."""
    return element.to(DataType.FLOAT32) if element.type is DataType.FLOAT16 else element
