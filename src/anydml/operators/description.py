"""What every description is: frozen fields, parsed once, checked against a feature level, lowered to a verb."""

from __future__ import annotations

import abc
import functools
from collections.abc import Mapping  # noqa: TC003 - read at run time
from dataclasses import fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_type_hints

from anydml.enums import DataType, FeatureLevel
from anydml.errors import DescriptionError, Fault, raise_description_faults
from anydml.locks import cached_property
from anydml.operator_type import OperatorType
from anydml.operators.facts import runs_in_place, support_of
from anydml.operators.fields import FIELD_TYPES, FieldType, dml_name
from anydml.operators.reports import Report, level_faults, own_faults
from anydml.operators.tables import SupportTable  # noqa: TC001 - read at run time
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from anydml.enums import LevelName
    from anydml.ir.verbs import IndexFault, Primitive
    from anydml.operators.sizes import Sizes, Spread

OPERATORS: dict[OperatorType, type[OperatorDesc]] = {}
"""The description class of each operator that is built: a subclass of `OperatorDesc` enters itself."""
_KINDS = {kind.name.replace("_", ""): kind for kind in OperatorType}


class OperatorDesc(abc.ABC):
    """The common part of the operators' descriptions.

    A subclass is a frozen, keyword-only dataclass with DirectML's fields in snake case. Its annotations say what
    each field is; bind points, parsing and DirectML's names follow from them. One that is called as an operator
    (`ElementWiseAtanYX` as ELEMENT_WISE_ATAN_YX), or says its `type`, describes that operator from then on.
    """

    type: ClassVar[OperatorType]
    support: ClassVar[SupportTable]
    """What it takes at each level, as the reference has it."""
    other_types: ClassVar[tuple[DataType, ...]] = ()
    """Types that it takes besides, at every level."""
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

    fills: ClassVar[Mapping[str, float]] = MappingProxyType({})
    """The arrays of a value for each dimension, and the value for leading dimensions that a function adds."""
    shares_rank: ClassVar[bool] = False
    """Whether a function adds leading sizes of 1, so that all inputs have as many dimensions as the first."""
    result_rank: ClassVar[int | None] = None
    """The dimensions of a function's result, where they are not as many as the first input has."""

    if TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None:
            """Each operator has its own fields."""

    def __init_subclass__(cls) -> None:
        kind = cls.__dict__.get("type") or _KINDS.get(cls.__name__.upper())
        if kind is not None:
            cls.type = kind
            cls.support, cls.in_place = support_of(kind, cls.other_types), runs_in_place(kind)
            OPERATORS.setdefault(kind, cls)

    def __post_init__(self) -> None:
        """Parse every field, and report all that cannot be parsed."""
        faults: list[Fault] = []
        for name, field_type in self.field_types().items():
            value = field_type.read(getattr(self, name), dml_name(name), faults)
            object.__setattr__(self, name, value)
        if faults:
            raise DescriptionError(self.type.name, faults)

    # What the fields are

    @classmethod
    @functools.cache
    def field_types(cls) -> Mapping[str, FieldType]:
        """The kind of each field, by its Python name, in DirectML's order."""
        hints = get_type_hints(cls, include_extras=True)
        return {field.name: FIELD_TYPES[hints[field.name]] for field in fields(cls)}  # type: ignore[arg-type]

    @classmethod
    @functools.cache
    def input_names(cls) -> tuple[str, ...]:
        """The input tensors' fields, in binding order."""
        return tuple(name for name, kind in cls.field_types().items() if kind.kind == "input")

    @classmethod
    @functools.cache
    def optional_inputs(cls) -> frozenset[str]:
        """The input tensors' fields that may be None."""
        optional = {field.name for field in fields(cls) if field.default is None}  # type: ignore[arg-type]
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
        optional = {field.name for field in fields(cls) if field.default is None}  # type: ignore[arg-type]
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

    # What subclasses say

    @abc.abstractmethod
    def rules(self) -> Iterator[Fault]:
        """Check everything that does not concern the output."""

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The output's sizes as the other fields imply them; the largest, where the operator leaves a choice.

        Holds only where `rules()` finds no fault. An operator that implies no output has none.
        """
        raise NotImplementedError  # those that imply one say it

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
        """The verbs as a picture tells them, with an element of its own for each number."""
        return self.lower()

    def input_window(self) -> tuple[Sequence[int], Sequence[int]] | None:
        """The start and sizes of the part of the input that is considered, for operators that speak of a window."""
        return None

    def remarks(self) -> Iterator[str]:
        """What is worth knowing of this description, though it is valid."""
        if self._has_added_type:
            yield f"FLOAT64 is an addition to DirectML, which has it at no level for {self.type.name}"

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
        if not cls.implies_output:
            return cls(**others)
        given = next((others[name] for name in cls.input_names() if others.get(name) is not None), None)
        if isinstance(given, (list, tuple)) and given:
            given = given[0]
        stand_in = TensorDesc(given.data_type, (1,) * given.dimension_count) if isinstance(given, TensorDesc) else None
        names = [name for name in cls.output_names() if name in cls.usual_outputs() or others.get(name) is True]
        others = {name: value for name, value in others.items() if name not in names or value is not True}
        draft = cls(**{**dict.fromkeys(names, stand_in), **others})
        if stand_in is None or all(name in others for name in names) or any(draft.rules()):
            return draft
        try:
            outputs = draft.implied_outputs()
        except DescriptionError as error:
            raise error.within(cls.type.name, f"{dml_name(names[0])}.") from None
        implied = {name: output for name, output in zip(cls.output_names(), outputs, strict=True) if name in names}
        implied = {name: output for name, output in implied.items() if name not in others}
        return replace(draft, **implied)  # type: ignore[type-var]  # every subclass is a dataclass

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
        from anydml.explain import explain

        html: str = explain(self)._repr_html_()
        return html

    def own_faults(self) -> Iterator[Fault]:
        """Find what is wrong at any level."""
        return own_faults(self)

    def level_faults(self, level: FeatureLevel, where: str) -> Iterator[Fault]:
        """Find what the level does not have; `where` says whose level it is."""
        yield from level_faults(self, level, where, adds_float64=self._has_added_type)
        yield from self.attribute_level_faults(level, where)

    def attribute_level_faults(self, level: FeatureLevel, where: str) -> Iterator[Fault]:
        """Find the attributes that the level does not have: fused activations; operators may have others."""
        for name, kind in self.field_types().items():
            if kind.type == "OPERATOR_DESC" and (nested := getattr(self, name)) is not None:
                yield from nested.level_faults(level, where)
