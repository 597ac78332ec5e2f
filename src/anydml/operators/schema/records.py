"""The parts of every description: fields, checked against a feature level and lowered to verbs."""

from __future__ import annotations

import abc
import enum
import functools
import inspect
import sys
from collections.abc import Mapping
from dataclasses import MISSING, FrozenInstanceError, dataclass, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, dataclass_transform

from anydml.arrays.tensor import TensorDesc
from anydml.core.enum_parsing import suggest
from anydml.core.enums import DataType, FeatureLevel
from anydml.core.errors import DescriptionError, Fault, raise_description_faults
from anydml.core.late_imports import import_alone
from anydml.core.locks import cached_property
from anydml.core.operator_type import OperatorType, function_name
from anydml.core.results import gathering, result_name
from anydml.ir.verbs import Exact
from anydml.operators.schema.facts import SupportTable, runs_in_place, support_of
from anydml.operators.schema.fields import FIELD_TYPES, FieldType, dml_name
from anydml.operators.schema.reports import Report, has_odd_input, level_faults, own_faults
from anydml.operators.schema.rules import same_data_type

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, KeysView, Sequence

    from anydml.core.enums import LevelName
    from anydml.ir.verbs import IndexFault, Primitive
    from anydml.operators.schema.sizes import Sizes, Spread


# Fields: frozen, parsed once, and which of them are tensors


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
        _being_made.add(self.owner)
        try:
            dataclass(init=False, kw_only=True, eq=False, repr=False)(self.owner)
        finally:
            _being_made.discard(self.owner)
        found: Mapping[str, Any] = self.owner.__dict__[_FIELDS]
        return found


_being_made: set[type] = set()
"""Classes whose fields are being found: a dataclass asks whether there is a docstring, and not for what fields mean."""


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

    @classmethod
    @functools.cache
    def gatherer(cls, given: tuple[str, ...]) -> Callable[[Sequence[Any]], Any]:
        """What hands these outputs over: one alone, several by their names, parts in a tuple."""
        if any(cls.field_types()[name].is_tensor_array for name in given):
            return tuple
        return gathering(f"{cls.__name__}Results", tuple(map(result_name, given)))

    def own_gatherer(self) -> Callable[[Sequence[Any]], Any]:
        """What hands the outputs over that are there."""
        return self.gatherer(tuple(name for name in self.output_names() if getattr(self, name) is not None))

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


# Descriptions


OPERATORS: dict[OperatorType, type[OperatorDesc]] = {}
"""The description class of each operator that is built: a subclass of `OperatorDesc` enters itself."""
_KINDS = {kind.name.replace("_", ""): kind for kind in OperatorType}
_FACTS: dict[str, Callable[[type[OperatorDesc]], object]] = {
    "support": lambda cls: support_of(cls.type, cls.other_types),
    "in_place": lambda cls: runs_in_place(cls.type),
}


class _Fact:
    """The reference's facts on an operator, read when somebody asks for them: for all of them it takes 20 ms."""

    def __init__(self, owner: type[OperatorDesc], name: str, find: Callable[[type[OperatorDesc]], object]) -> None:
        self.owner, self.name, self.find = owner, name, find

    def __get__(self, instance: object, cls: type[OperatorDesc]) -> object:
        found = self.find(self.owner)
        setattr(self.owner, self.name, found)
        return found


class DescriptionType(abc.ABCMeta):
    """The type of the descriptions' classes: what `help` and `dir` tell of one is what users ask of it."""

    _FOR_USERS = frozenset(
        ["check", "in_place", "infer", "inputs", "introduced", "outputs", "support", "type", "validate"]
    )
    """The rest is what an operator says of itself to the layers above."""

    def __dir__(cls) -> list[str]:
        if not cls._describes_an_operator:
            return list(super().__dir__())
        own = {name for base in cls.__mro__ for name, value in vars(base).items() if isinstance(value, property)}
        return sorted(["__doc__", "__module__", *cls._FOR_USERS, *(name for name in own if name[0] != "_")])

    @property
    def _describes_an_operator(cls) -> bool:
        return hasattr(cls, "type")

    def own_words(cls) -> str:
        """What the class says of its operator, without what follows from its fields and facts."""
        return inspect.cleandoc(cls.__dict__.get("__doc__") or "")

    if not TYPE_CHECKING:

        @property
        def __doc__(cls) -> str | None:
            """The class's own words, then its fields with their meanings, types and choices."""
            own = cls.__dict__.get("__doc__")
            if cls in _being_made or not cls._describes_an_operator:
                return own or (cls.__name__ if cls in _being_made else None)
            import_alone("anydml.operators.schema.meanings")
            from anydml.operators.schema.meanings import write_docstring  # for help alone

            return write_docstring(cls)


class OperatorDesc(Record, metaclass=DescriptionType):
    """The common part of the operators' descriptions.

    A subclass is a frozen, keyword-only dataclass with DirectML's fields in snake case. Its annotations say what
    each field is; bind points, parsing and DirectML's names follow from them. One that is called as an operator
    (`ElementWiseAtanYX` as ELEMENT_WISE_ATAN_YX), or says its `type`, describes that operator from then on.
    """

    support: ClassVar[SupportTable]
    """The tensors that it takes at each level, as the reference has it."""
    other_types: ClassVar[tuple[DataType, ...]] = ()
    """Types that it takes besides, at every level."""
    continues: ClassVar[bool] = True
    """Whether it gives, for what both can be asked, what the operator of its name without a number gives."""
    in_place: ClassVar[bool]
    """Whether the output may be bound to the very memory of the input."""
    broadcasts: ClassVar[bool] = False
    """Whether its function takes numbers for inputs, and arrays of sizes that `spread` makes fit."""
    leads: ClassVar[bool] = True
    """Whether a function may add dimensions of size 1 before the others, where a level asks for more."""
    sizes_are_free: ClassVar[bool] = False
    """Whether the other fields leave a choice of the output's sizes: its function takes `output_sizes`."""
    implies_output: ClassVar[bool] = True
    """Whether the other fields say what the output is: its type is the first input's."""
    output_like: ClassVar[str] = ""
    """The input whose type the output has, where only its sizes are told: the first, if not said."""

    fills: ClassVar[Mapping[str, float]] = MappingProxyType({})
    """The arrays of a value for each dimension, and the value for leading dimensions that a function adds."""
    choices: ClassVar[Mapping[str, tuple[enum.Enum, ...]]] = MappingProxyType({})
    """For fields of an enumeration that do not take all of it, what they take."""
    shares_rank: ClassVar[bool] = False
    """Whether a function adds leading sizes of 1, so that all inputs have as many dimensions as the first."""
    result_rank: ClassVar[int | None] = None
    """The dimensions of a function's result, where they are not as many as the first input has."""
    result_ranks: ClassVar[Mapping[str, int]] = MappingProxyType({})
    """The same of single outputs, by DirectML's names."""
    rules_hold: ClassVar[bool] = False
    """Whether a description was made of fields whose rules hold."""
    _sound: ClassVar[frozenset[FeatureLevel]] = frozenset()
    """The levels at which nothing is wrong with a description, as far as was looked."""

    if TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None:
            """Each operator has its own fields."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        kind = cls.__dict__.get("type") or _KINDS.get(cls.__name__.upper())
        if kind is not None:
            cls.type = kind
            for name, find in _FACTS.items():
                setattr(cls, name, _Fact(cls, name, find))
            OPERATORS.setdefault(kind, cls)

    # What subclasses say

    def shares(self) -> Mapping[str, str]:
        """By output, the input whose very memory it may be bound to, where an operator runs in place in part alone."""
        return {}

    @abc.abstractmethod
    def rules(self) -> Iterator[Fault]:
        """Check everything that does not concern the output."""

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The output's sizes as the other fields imply them; the largest, where the operator leaves a choice.

        Holds only where `rules()` finds no fault. The first input's, where a class does not say others.
        """
        return next(iter(self.inputs().values())).sizes

    def implied_output_type(self) -> DataType:
        """The output's type, or the usual one where there is a choice: the first input's."""
        return next(iter(self.inputs().values())).data_type

    def implied_outputs(self) -> tuple[TensorDesc, ...]:
        """The outputs as the other fields imply them, packed, optional ones too: of most operators one."""
        return (TensorDesc(self.implied_output_type(), self.implied_output_sizes()),)

    @abc.abstractmethod
    def output_rules(self) -> Iterator[Fault]:
        """Check the output against the other fields, in which no fault was found."""

    @abc.abstractmethod
    def lower(self) -> tuple[Primitive, ...]:
        """The verbs that carry this operator out: most operators need one."""

    def told(self) -> tuple[Primitive, ...]:
        """The verbs as a picture tells them, spelled out, with an element of its own for each number."""
        return tuple(part for one in self.lower() for part in one.spelled())

    def input_window(self) -> tuple[Sequence[int], Sequence[int]] | None:
        """The start and sizes of the part of the input that is considered, for operators that speak of a window."""
        return None

    def remarks(self) -> Iterator[str]:
        """Remarks on this description, which may be valid all the same."""
        if self._has_added_type:
            yield f"FLOAT64 is an extension of DirectML, which has it at no level for {self.type.name}"

    @property
    def _has_added_type(self) -> bool:
        """Whether a tensor has a type that DirectML has not for the operator, and that the description allows."""
        is_float64 = any(tensor.data_type is DataType.FLOAT64 for tensor in self.tensors().values())
        return is_float64 and getattr(self, "allow_float64", False)

    def word_index_fault(self, fault: IndexFault) -> Fault:
        """Word an index outside its dimension, for operators that take indices."""
        if fault.indices:
            return self.word_outside(fault)
        rule, way_out = "the indices changed while they were read", "let nothing write to them during a dispatch"
        return Fault(field="IndicesTensor", rule=rule, way_out=way_out)

    def word_outside(self, fault: IndexFault) -> Fault:
        """Name the index, its place and its dimension."""
        raise NotImplementedError  # only gathers

    @classmethod
    def spread(cls, sizes: Mapping[str, Sizes], **attributes: Any) -> Spread:  # noqa: ARG003 - of others
        """How a function sees its inputs, given by DirectML's names, and what sizes they are repeated to."""
        return {field: (own, own) for field, own in sizes.items()}

    def own_support(self) -> SupportTable:
        """The rows of `support` that this description is of: an operator of several functions has some for each."""
        return self.support

    @classmethod
    def usual_tensor(cls, field: str, first: TensorDesc) -> tuple[DataType, Sizes]:  # noqa: ARG003 - for subclasses
        """The type and the sizes of an input that nobody said, beside the first: most are like that."""
        return first.data_type, first.sizes

    # What follows

    @classmethod
    def introduced(cls) -> FeatureLevel:
        """The feature level at which the operator appeared."""
        return cls.support.introduced

    @classmethod
    def draft(cls, **others: Any) -> Self:
        """Complete a description with the outputs that the other fields imply, packed.

        Where they break a rule, and so imply nothing, the output is a stand-in; a check tells what is wrong. An
        operator that implies no output must be given one. True asks for an output that is optional.
        """
        implied_names = cls.usual_outputs() if cls.implies_output else ()
        names = [name for name in cls.output_names() if name in implied_names or others.get(name) is True]
        if not names:
            return cls(**others)
        given = next((others[name] for name in cls.input_names() if others.get(name) is not None), None)
        if isinstance(given, (list, tuple)) and given:
            given = given[0]
        stand_in = TensorDesc(given.data_type, (1,) * given.dimension_count) if isinstance(given, TensorDesc) else None
        others = {name: value for name, value in others.items() if name not in names or value is not True}
        draft = cls(**{**dict.fromkeys(names, stand_in), **others})
        if stand_in is None or all(name in others for name in names) or has_odd_input(draft):
            return draft
        if any(draft.rules()):
            return draft
        try:
            outputs = draft.implied_outputs()
        except DescriptionError as error:
            raise error.within(cls.type.name, f"{dml_name(names[0])}.") from None
        implied = {name: output for name, output in zip(cls.output_names(), outputs, strict=True) if name in names}
        implied = {name: output for name, output in implied.items() if name not in others}
        made = draft.completed(implied)
        made.__dict__["rules_hold"] = True  # which the outputs are no part of
        return made

    @classmethod
    def infer(cls, **others: Any) -> Self:
        """Complete a description with the output that the other fields imply, or say which rules they break."""
        draft = cls.draft(**others)
        raise_description_faults(cls.type.name, list(draft.rules()))
        return draft

    def check(self, feature_level: FeatureLevel | LevelName | str = FeatureLevel.highest()) -> Report:  # noqa: B008 - a constant
        """Check everything at a feature level, and report rather than raise."""
        level = FeatureLevel(feature_level)
        own = tuple(self.own_faults())
        lowest = None
        if not own:
            lowest = next((lv for lv in FeatureLevel if not any(self.level_faults(lv, ""))), None)
        faults = (*self.level_faults(level, f"this check is for {level}"), *own)
        return Report(self.type.name, level, faults, tuple(self.remarks()), lowest)

    def validate(self, feature_level: FeatureLevel | LevelName | str) -> None:
        """Raise where the description is not valid on a device of this level."""
        level = FeatureLevel(feature_level)
        raise_description_faults(
            self.type.name, [*self.level_faults(level, f"this device is {level}"), *self.own_faults()]
        )

    def _repr_html_(self) -> str:
        """A picture of what the operator does, in a notebook; for a description that is not valid, its faults."""
        import_alone("anydml.explain")
        from anydml.explain import explain

        html: str = explain(self)._repr_html_()
        return html

    def own_faults(self) -> Iterator[Fault]:
        """Find what is wrong at any level."""
        return own_faults(self)

    def faults_at(self, level: FeatureLevel, where: str) -> list[Fault]:
        """All that is wrong at a level; where that is nothing, it is not looked for again: models repeat theirs."""
        if level in self._sound:
            return []
        found = [*self.level_faults(level, where), *self.own_faults()]
        if not found:
            self.found_sound(level)
        return found

    def found_sound(self, level: FeatureLevel) -> None:
        """Remember that nothing is wrong at a level."""
        self.__dict__["_sound"] = self._sound | {level}

    def level_faults(self, level: FeatureLevel, where: str) -> Iterator[Fault]:
        """Find what the level does not have; `where` says whose level it is."""
        yield from level_faults(self, level, where, adds_float64=self._has_added_type)
        yield from self.attribute_level_faults(level, where)

    def attribute_level_faults(self, level: FeatureLevel, where: str) -> Iterator[Fault]:
        """Find the attributes that the level does not have: fused activations; operators may have others."""
        for name, kind in self.field_types().items():
            if kind.type == "OPERATOR_DESC" and (nested := getattr(self, name)) is not None:
                yield from nested.level_faults(level, where)
            for i, one in enumerate(getattr(self, name) if kind.type == "OPERATOR_DESC_ARRAY" else ()):
                yield from one.level_faults(level, where, f"{dml_name(name)}[{i}]")


# Operators that compute


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
