"""Descriptions that are their fields and what follows from them: subclasses are made frozen dataclasses."""

from __future__ import annotations

import inspect
from collections.abc import Mapping  # noqa: TC003 - read at run time
from dataclasses import dataclass
from typing import ClassVar, dataclass_transform

from anydml.ir.verbs import Exact
from anydml.operators.description import OperatorDesc


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=False)
class Declared(Exact, OperatorDesc):
    """A description whose subclasses are made dataclasses by their annotations."""

    typed_like: ClassVar[Mapping[str, str]] = {}
    """The tensors that must be of another one's type, where that is there."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if inspect.get_annotations(cls):  # without fields of its own it is one by inheritance: 0.5 ms of import each
            dataclass(frozen=True, kw_only=True, eq=False, repr=False)(cls)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.field_types())})"
