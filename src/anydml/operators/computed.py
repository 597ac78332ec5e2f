"""The common part of operators that compute: a class of a few lines is a frozen dataclass, and says its expression."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping  # noqa: TC003 - read at run time
from dataclasses import MISSING, FrozenInstanceError, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, dataclass_transform

from anydml.enums import DataType, FeatureLevel
from anydml.ir.verbs import Exact
from anydml.operators.description import OperatorDesc
from anydml.operators.rules import same_data_type

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, KeysView

    from anydml.errors import Fault
    from anydml.ir.expressions import Expr


class _Signature:
    """That of a class, made where somebody asks for it."""

    def __get__(self, instance: object, cls: type[Computed]) -> inspect.Signature:
        return inspect.Signature(
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if field.default is MISSING else field.default,
                annotation=field.type,
            )
            for field in fields(cls)  # type: ignore[arg-type]  # every subclass is a dataclass
        )


def _why_not(function: str, names: KeysView[str], given: Mapping[str, Any]) -> str:
    """What is wrong with keyword arguments, as Python says it."""
    if missing := [repr(name) for name in names if name not in given]:
        arguments = f"{len(missing)} required keyword-only argument{'s' * (len(missing) > 1)}"
        return f"{function}() missing {arguments}: {' and '.join(missing)}"
    return f"{function}() got an unexpected keyword argument {next(name for name in given if name not in names)!r}"


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=False)
class Computed(Exact, OperatorDesc):
    """An operator whose fields are annotations, and whose tensors are of one type where the documents list the same."""

    free_types: ClassVar[tuple[str, ...]] = ()
    """The tensors whose type is their own although they take the same types as others."""
    typed_like: ClassVar[Mapping[str, str]] = {}
    """The tensors that are of another one's type, where the types that they take do not say it."""
    result_type: ClassVar[DataType | None] = DataType.UINT8
    """The output's type where that is no input's; None where it depends on attributes."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if inspect.get_annotations(cls):  # without fields of its own it is one by inheritance
            # The methods that it would write for each class take 0.5 ms of import, and are the same: below.
            dataclass(init=False, kw_only=True, eq=False, repr=False)(cls)

    if not TYPE_CHECKING:
        __signature__ = _Signature()

        def __init__(self, **given: Any) -> None:
            names, defaults = self._arguments()
            found = defaults | given
            if found.keys() != names:
                raise TypeError(_why_not(type(self).__name__, names, found))
            self.__dict__.update(found)
            self.__post_init__()

        def __setattr__(self, name: str, value: object) -> NoReturn:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")

        def __delattr__(self, name: str) -> NoReturn:
            raise FrozenInstanceError(f"cannot delete field {name!r}")

    @classmethod
    @functools.cache
    def _arguments(cls) -> tuple[KeysView[str], dict[str, Any]]:
        """The names of all fields, and the defaults of some."""
        defaults = {field.name: field.default for field in fields(cls)}  # type: ignore[arg-type]  # a dataclass
        return defaults.keys(), {name: value for name, value in defaults.items() if value is not MISSING}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.field_types())})"

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
