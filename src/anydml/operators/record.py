"""The fields of a description: frozen, parsed once, and which of them are tensors."""

from __future__ import annotations

import functools
import inspect
import sys
from dataclasses import MISSING, FrozenInstanceError, dataclass, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, dataclass_transform

from anydml.errors import DescriptionError, Fault
from anydml.ir.verbs import Exact
from anydml.locks import cached_property
from anydml.operator_type import OperatorType, function_name
from anydml.operators.fields import FIELD_TYPES, FieldType, dml_name
from anydml.spelling import suggest

if TYPE_CHECKING:
    from collections.abc import Callable, KeysView, Mapping, Sequence

    from anydml.tensor import TensorDesc

_FIELDS = "__dataclass_fields__"


class _Signature:
    """That of a class, made where somebody asks for it."""

    def __get__(self, instance: object, cls: type[Record]) -> inspect.Signature:
        if not hasattr(cls, _FIELDS):
            raise AttributeError(f"{cls.__name__} describes no operator of its own")
        return inspect.Signature(
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if field.default is MISSING else field.default,
                annotation=field.type,
            )
            for field in fields(cls)  # type: ignore[arg-type]  # every subclass is a dataclass
        )


class _Fields:
    """Those of a class, as a dataclass has them, found when somebody asks for them: for all classes it takes 50 ms."""

    def __init__(self, owner: type[Record]) -> None:
        self.owner = owner

    def __get__(self, instance: object, cls: type[Record]) -> Mapping[str, Any]:
        # The methods that it would write for each class take 0.5 ms, and are the same: below.
        dataclass(init=False, kw_only=True, eq=False, repr=False)(self.owner)
        found: Mapping[str, Any] = self.owner.__dict__[_FIELDS]
        return found


def _why_not(cls: type[Record], names: KeysView[str], given: Mapping[str, Any], *, has_places: bool) -> str:
    """The fault of a description's arguments, as Python says it, and the field or the function that may be meant."""
    function = cls.__name__
    arrays = f"; arrays go to anydml.{function_name(cls.type)}()"
    if has_places:
        return f"{function}() takes its fields by name: {', '.join(f'{name}=' for name in names)}{arrays}"
    if unknown := [name for name in given if name not in names]:
        hint = suggest(unknown[0], [name for name in names if name not in given])
        told = hint or f"its fields are {', '.join(names)}"
        return f"{function}() got an unexpected keyword argument {unknown[0]!r}; {told}"
    missing = [repr(name) for name in names if name not in given]
    arguments = f"{len(missing)} required keyword-only argument{'s' * (len(missing) > 1)}"
    told = arrays if any(hasattr(value, "shape") for value in given.values()) else ""
    return f"{function}() missing {arguments}: {' and '.join(missing)}{told}"


@functools.cache
def _field_type(module: str, annotation: object) -> FieldType:
    """The field type of a module's annotation: `typing` takes 1 ms for those of a class, and there are 177."""
    found = annotation
    if isinstance(annotation, str):
        found = eval(annotation, vars(sys.modules[module]))  # noqa: S307 - of a class in view
    return FIELD_TYPES[found]


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=False)
class Record(Exact):
    """The fields of a frozen dataclass whose annotations say what each of them is."""

    type: ClassVar[OperatorType]

    def __init_subclass__(cls) -> None:
        if inspect.get_annotations(cls):  # without fields of its own it is one by inheritance
            setattr(cls, _FIELDS, _Fields(cls))

    if not TYPE_CHECKING:
        __signature__ = _Signature()

        def __init__(self, *places: Any, **given: Any) -> None:
            names, defaults = self._arguments()
            found = defaults | given
            if found.keys() != names or places:
                raise TypeError(_why_not(type(self), names, found, has_places=bool(places)))
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
        found = {
            name: (base.__module__, text)
            for base in reversed(cls.__mro__)
            for name, text in inspect.get_annotations(base).items()
        }
        return {field.name: _field_type(*found[field.name]) for field in fields(cls)}  # type: ignore[arg-type]  # each subclass is a dataclass

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

    def completed(self, tensors: Mapping[str, TensorDesc]) -> Self:
        """The same with other tensors; nothing else is read again."""
        made = object.__new__(type(self))
        made.__dict__.update({name: self.__dict__[name] for name in self.field_types()}, **tensors)
        return made

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
