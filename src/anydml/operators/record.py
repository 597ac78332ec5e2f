"""The fields of a description: frozen, parsed once, and which of them are tensors."""

from __future__ import annotations

import functools
from dataclasses import fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_type_hints

from anydml.errors import DescriptionError, Fault
from anydml.locks import cached_property
from anydml.operator_type import OperatorType  # noqa: TC001 - read at run time
from anydml.operators.fields import FIELD_TYPES, FieldType, dml_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.tensor import TensorDesc


class Record:
    """The fields of a frozen dataclass whose annotations say what each of them is."""

    type: ClassVar[OperatorType]

    def __post_init__(self) -> None:
        """Parse every field, and report all that cannot be parsed."""
        faults: list[Fault] = []
        for name, field_type in self.field_types().items():
            value = field_type.read(getattr(self, name), dml_name(name), faults)
            object.__setattr__(self, name, value)
        if faults:
            raise DescriptionError(self.type.name, faults)

    @classmethod
    @functools.cache
    def field_types(cls) -> Mapping[str, FieldType]:
        """The kind of each field, by its Python name, in DirectML's order."""
        hints = get_type_hints(cls, include_extras=True)
        return {field.name: FIELD_TYPES[hints[field.name]] for field in fields(cls)}  # type: ignore[arg-type]  # each subclass is a dataclass

    @classmethod
    @functools.cache
    def input_names(cls) -> tuple[str, ...]:
        """The input tensors' fields, in binding order."""
        return tuple(name for name, kind in cls.field_types().items() if kind.kind == "input")

    @classmethod
    @functools.cache
    def optional_inputs(cls) -> frozenset[str]:
        """The input tensors' fields that may be None."""
        optional = {field.name for field in fields(cls) if field.default is None}  # type: ignore[arg-type]  # each subclass is a dataclass
        return frozenset(optional.intersection(cls.input_names()))

    @classmethod
    @functools.cache
    def output_names(cls) -> tuple[str, ...]:
        """The output tensors' fields, in binding order."""
        return tuple(name for name, kind in cls.field_types().items() if kind.kind == "output")

    @classmethod
    @functools.cache
    def optional_outputs(cls) -> tuple[str, ...]:
        """The output tensors' fields that may be None."""
        optional = {field.name for field in fields(cls) if field.default is None}  # type: ignore[arg-type]  # each subclass is a dataclass
        return tuple(name for name in cls.output_names() if name in optional)

    @classmethod
    @functools.cache
    def usual_outputs(cls) -> tuple[str, ...]:
        """The output tensors' fields that are never None."""
        return tuple(name for name in cls.output_names() if name not in cls.optional_outputs())

    @classmethod
    @functools.cache
    def gives_several(cls) -> bool:
        """Whether several tensors come out, or a list of them, if only of one; those that are optional aside."""
        names = cls.usual_outputs()
        return len(names) > 1 or any(cls.field_types()[name].is_tensor_array for name in names)

    def inputs(self) -> dict[str, TensorDesc]:
        """The input tensors by DirectML's name, in binding order; one of several is `InputTensors[0]`."""
        return dict(self._inputs)

    def input_slots(self) -> dict[str, TensorDesc | None]:
        """The input tensors with those that are not there, None: as graphs' edges and binding tables count them."""
        return self._slots(self.input_names())

    def output_slots(self) -> dict[str, TensorDesc | None]:
        """The output tensors with those that are not there, None."""
        return self._slots(self.output_names())

    def _slots(self, names: Sequence[str]) -> dict[str, TensorDesc | None]:
        found: dict[str, TensorDesc | None] = {}
        for name in names:
            own: Mapping[str, TensorDesc | None] = self._named([name])
            found.update(own or {dml_name(name): None})
        return found

    def outputs(self) -> dict[str, TensorDesc]:
        """The output tensors by DirectML's name, in binding order; one of several is `OutputTensors[0]`."""
        return dict(self._outputs)

    def tensors(self) -> Mapping[str, TensorDesc]:
        """The tensors by DirectML's name, inputs first."""
        return MappingProxyType(self._tensors)

    # Kept, because the rules ask for each tensor of hundreds by its name.

    @cached_property
    def _inputs(self) -> dict[str, TensorDesc]:
        return self._named(self.input_names())

    @cached_property
    def _outputs(self) -> dict[str, TensorDesc]:
        return self._named(self.output_names())

    @cached_property
    def _tensors(self) -> dict[str, TensorDesc]:
        return self._inputs | self._outputs

    def _named(self, names: Sequence[str]) -> dict[str, TensorDesc]:
        found: dict[str, TensorDesc] = {}
        for name in names:
            value = getattr(self, name)
            if self.field_types()[name].is_tensor_array:
                found |= {f"{dml_name(name)}[{i}]": tensor for i, tensor in enumerate(value)}
            elif value is not None:
                found[dml_name(name)] = value
        return found

    def with_tensors(self, change: Callable[[str, TensorDesc], TensorDesc], **others: Any) -> Self:
        """The same with each tensor changed, given by DirectML's name, and other fields."""
        changes: dict[str, Any] = dict(others)
        for name in (*self.input_names(), *self.output_names()):
            changed = tuple(change(field, tensor) for field, tensor in self._named([name]).items())
            if self.field_types()[name].is_tensor_array:
                changes[name] = changed
            elif changed:  # an optional tensor that is not there stays away
                changes[name] = changed[0]
        return replace(self, **changes)  # type: ignore[type-var]  # every subclass is a dataclass
