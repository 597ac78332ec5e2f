"""Descriptions from JSON, by their own annotations: a field's name, kind and default say how it is read.

Of a description of which a field could not be read, the faults of the other fields are told nevertheless.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays.tensor import TensorDesc
from anydml.core.enums import DataType, TensorFlags
from anydml.core.errors import DescriptionError, DmlError, Fault
from anydml.dxdispatch.findings import DESCRIPTION, FILE, REMARK, UNSUPPORTED
from anydml.dxdispatch.initialise import WORDS, to_float
from anydml.dxdispatch.named import read_data_type, read_flags
from anydml.dxdispatch.remarks import remark_spelling, remark_unknown
from anydml.dxdispatch.source import Items, locate
from anydml.operators.fused import FusedActivation, attributes_of, find_activation
from anydml.operators.schema.fields import FIELD_TYPES, ScaleBias, ValueType, as_type, dml_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from anydml.core.enums import FeatureLevel
    from anydml.dxdispatch.findings import Findings
    from anydml.dxdispatch.source import Node
    from anydml.operators import OperatorDesc
    from anydml.operators.schema.fields import FieldType


# Numbers: DML_SCALAR_UNION, by the type that stands beside it, and DML_SCALE_BIAS


_MOST_BITS = 0xFFFF


class NumberReader:
    """Reads the numbers of one description; each is None where it was added to the findings."""

    def __init__(self, findings: Findings, subject: str) -> None:
        self._findings, self._subject = findings, subject

    def read_scalar(self, node: Node, field: str, data_type: DataType | None) -> int | float | None:
        """A number as DxDispatch has it: plain, or as the union's member for the type, `{"Float32": "inf"}`.

        The type is None where it is at fault itself: then anything that may be a number will do.
        """
        if data_type is None:
            self._check_kind(node, field)
            return None
        if node.is_object:
            return self._read_member(node, field, data_type)
        number = self._read_number(node, field, data_type)
        if number is not None and isinstance(node.raw, str):
            self._remark(node, _as_member(node.raw, number, data_type))
        return number

    def read_float(self, node: Node, field: str) -> int | float | None:
        """A FLOAT."""
        return self._read_number(node, field, DataType.FLOAT32)

    def read_floats(self, node: Node, field: str) -> list[int | float] | None:
        """A list of FLOAT."""
        if not node.is_list:
            self._wrong_type(node, field, "a list of numbers")
            return None
        numbers = [self.read_float(element, f"{field}[{i}]") for i, element in enumerate(node.elements())]
        found = [number for number in numbers if number is not None]
        return found if len(found) == len(numbers) else None

    def read_scale_bias(self, node: Node, field: str) -> ScaleBias | None:
        """A scale and a bias."""
        if not node.is_object:
            self._wrong_type(node, field, "an object with Scale and Bias, or null")
            return None
        remark_unknown(node, ("Scale", "Bias"), self._findings)
        scale, bias = (self._read_part(node, f"{field}.{name}", name) for name in ("Scale", "Bias"))
        return None if scale is None or bias is None else ScaleBias(scale, bias)

    def _read_part(self, node: Node, field: str, name: str) -> int | float | None:
        child = node.get(name)
        if child is not None:
            return self._read_number(child, field, DataType.FLOAT32)
        self._findings.add(DESCRIPTION, node, f"{field} must be given", field=field, found="", subject=self._subject)
        return None

    def _read_member(self, node: Node, field: str, data_type: DataType) -> int | float | None:
        name = _member_name(data_type)
        child = node.get(name)
        if child is None:
            rule = f"{field}.{name} must be given, for {data_type.name}"
            self._findings.add(DESCRIPTION, node, rule, field=f"{field}.{name}", found="", subject=self._subject)
            return None
        remark_unknown(node, [name], self._findings)
        if data_type is not DataType.FLOAT16:
            return self._read_number(child, f"{field}.{name}", data_type)
        if type(child.raw) is not int or not 0 <= child.raw <= _MOST_BITS:
            self._wrong_type(child, f"{field}.{name}", f"a whole number in 0 .. {_MOST_BITS}, the bits of a FLOAT16")
            return None
        return float(np.uint16(child.raw).view(np.float16))

    def _read_number(self, node: Node, field: str, data_type: DataType) -> int | float | None:
        read = self._read_float if data_type.is_float else self._read_whole
        return read(node, field, data_type)

    def _read_float(self, node: Node, field: str, data_type: DataType) -> int | float | None:
        number = WORDS.get(node.raw.lower()) if isinstance(node.raw, str) else node.raw
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            self._wrong_type(node, field, f'a number, "nan", "inf" or "-inf", for {data_type.name}')
            return None
        rounded = float(to_float(np.array(number, np.float64), data_type))
        if np.isinf(rounded) and not np.isinf(number):
            rule, way_out = f"{field} must fit {data_type.name}", 'write "inf" or "-inf" for infinity'
            self._findings.add(DESCRIPTION, node, rule, field=field, way_out=way_out, subject=self._subject)
            return None
        # DxDispatch's way to FLOAT16 leads by FLOAT32, and now and then elsewhere than the nearest.
        return number if np.isnan(number) or as_type(number, data_type) == rounded else rounded

    def _read_whole(self, node: Node, field: str, data_type: DataType) -> int | float | None:
        """A number that ought to be whole and in the type's range, which is for the operator's rules to say."""
        number = node.raw
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            self._wrong_type(node, field, f"a whole number, for {data_type.name}")
            return None
        if isinstance(number, float):
            if not number.is_integer():
                return number
            number = int(number)
            self._remark(node, str(number))
        elif number < 0 and data_type.name.startswith("U") and field.startswith("ValueDelta"):
            self._remark(node, f"{number % 2 ** (8 * data_type.size_in_bytes)}, which wraps to the same,")
        return number

    def _check_kind(self, node: Node, field: str) -> None:
        if not node.is_object and (isinstance(node.raw, bool) or not isinstance(node.raw, (int, float, str))):
            self._wrong_type(node, field, "a number")

    def _wrong_type(self, node: Node, field: str, what: str) -> None:
        self._findings.add(FILE, node, f"{field} must be {what}", field=field, subject=self._subject)

    def _remark(self, node: Node, words: str) -> None:
        self._findings.add(REMARK, node, f"DxDispatch takes {words} alone", subject=self._subject)


def _member_name(data_type: DataType) -> str:
    """The union's member that holds a type; a FLOAT16 is its bits."""
    return "UInt16" if data_type is DataType.FLOAT16 else data_type.name.capitalize().replace("Uint", "UInt")


def _as_member(word: str, number: float, data_type: DataType) -> str:
    """`"inf"` as DxDispatch takes it."""
    value: object = word if data_type is not DataType.FLOAT16 else int(np.float16(number).view(np.uint16))
    return json.dumps({_member_name(data_type): value})


# Descriptions that lack a field


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


# Descriptions


_TENSOR_FIELDS = {dml_name(f.name): f.name for f in dataclasses.fields(TensorDesc) if f.name != "signed_strides"}
MOST_TENSORS = 1000
"""In one field; each may have to be held against each of the others."""


class DescReader:
    """Reads one description."""

    def __init__(self, cls: type[OperatorDesc], node: Node, findings: Findings, ignored: Iterable[str] = ()) -> None:
        self._cls, self._node, self._findings = cls, node, findings
        self._operator = cls.type.name
        self._ignored = ignored
        self._numbers = NumberReader(findings, self._operator)
        self._value_type: DataType | None = None
        """The type of the numbers, which stands before them."""
        self.partial: PartialDesc | None = None
        """The fields that were read, where one could not be."""

    def read(self) -> OperatorDesc | None:
        """The description; None where a field could not be read, which was added to the findings."""
        cls, node = self._cls, self._node
        if not node.is_object:
            self._findings.add(FILE, node, "the description must be an object", subject=self._operator)
            return None
        before = len(self._findings)
        unread: set[str] = set()
        values = self._read_fields(cls, cls.field_types(), node, unread=unread)
        counts = {dml_name(n): n for n in dir(cls) if isinstance(getattr(cls, n), property) and n[0] != "_"}
        known = [*map(dml_name, cls.field_types()), *counts, *self._ignored]
        remark_unknown(node, known, self._findings)
        if any(found.kind is not REMARK for found in self._findings[before:]):
            read = {name: value for name, value in values.items() if name not in unread}
            self.partial = PartialDesc(cls, read, frozenset(unread)) if unread else None
            return None
        desc = cls(**values)
        for field, name in counts.items():
            if child := node.get(field):
                self._check_count(child, field, getattr(desc, name))
        self._remark_owned(desc)
        return desc

    def _read_fields(
        self,
        cls: type[OperatorDesc],
        kinds: Mapping[str, FieldType],
        node: Node,
        prefix: str = "",
        unread: set[str] | None = None,
    ) -> dict[str, Any]:
        """The fields that are there, by their Python names; those that are at fault are added to `unread`."""
        defaults = {f.name: f.default for f in dataclasses.fields(cls)}
        values: dict[str, Any] = {}
        for name, kind in kinds.items():
            child, field, before = node.get(dml_name(name)), prefix + dml_name(name), len(self._findings)
            if child is not None and child.raw is None and defaults[name] is None:
                self._remark(child, field, f"{field} is null, and there is none; DxDispatch asks for it to be left out")
            elif child is not None:
                values[name] = self._read_field(child, field, kind)
            elif defaults[name] is dataclasses.MISSING:
                self._add(node, field, f"{field} must be given")
            elif kind.kind != "extension" and defaults[name] is not None:  # None is what DirectML has as optional
                default = getattr(defaults[name], "name", str(defaults[name]).lower())
                self._remark(node, field, f"{field} is not given, and is {default}; DxDispatch asks for it")
            if unread is not None and any(found.kind is not REMARK for found in self._findings[before:]):
                unread.add(name)
        return values

    def _remark(self, node: Node, field: str, rule: str) -> None:
        self._findings.add(REMARK, node, rule, field=field, found="", subject=self._operator)

    def _remark_owned(self, desc: OperatorDesc) -> None:
        for name in desc.input_names():
            tensors = getattr(desc, name) if desc.field_types()[name].is_tensor_array else ()
            if any(t.is_owned_by_dml for t in tensors) and not all(t.is_owned_by_dml for t in tensors):
                field = dml_name(name)
                rule = f"DxDispatch has all of {field} OWNED_BY_DML or none of them: it binds them together"
                self._remark(locate(self._node, field), field, rule)

    def _add(self, node: Node, field: str, rule: str, found: str | None = "") -> None:
        self._findings.add(DESCRIPTION, node, rule, field=field, found=found, subject=self._operator)

    def _put(self, fault: Fault) -> None:
        self._findings.put(DESCRIPTION, locate(self._node, fault.field), fault, self._operator)

    def _check_count(self, node: Node, field: str, count: int) -> None:
        if type(node.raw) is not int:
            self._wrong_type(node, field, "a whole number")
        elif node.raw != count:
            is_of_tensors = any(kind.is_tensor_array for kind in self._cls.field_types().values())
            what = "tensors" if is_of_tensors and "." not in field else "values"
            self._add(node, field, f"{field} must be {count}, as many {what} as are given", found=None)

    def _wrong_type(self, node: Node, field: str, what: str) -> None:
        self._findings.add(FILE, node, f"{field} must be {what}", field=field, subject=self._operator)

    def _read_field(self, node: Node, field: str, kind: FieldType) -> Any:
        if kind.type == "TENSOR_DESC":
            return self._read_tensor(node, field)
        if kind.is_tensor_array:
            return self._read_tensors(node, field, kind)
        if kind.type == "SCALE_BIAS":
            return self._numbers.read_scale_bias(node, field)
        if kind.type == "SCALAR_UNION":
            return self._numbers.read_scalar(node, field, self._value_type)
        if kind.type == "FLOAT":
            return self._numbers.read_float(node, field)
        if kind.type == "FLOAT_ARRAY":
            return self._numbers.read_floats(node, field)
        if kind.type == "SIZE_2D":
            return self._read_size(node, field, kind)
        if kind.type == "OPERATOR_DESC":
            return self._read_activation(node, field)
        if kind.type == "OPERATOR_DESC_ARRAY":
            return self._read_activations(node, field)
        if kind is FIELD_TYPES[ValueType]:
            self._value_type = self._read_data_type(node, field)
            return self._value_type
        if kind.type.endswith("_ARRAY"):
            if not self._is_ints(node, field):
                return None
        elif node.raw is None or isinstance(node.raw, Items):
            self._wrong_type(node, field, "a number, a string, true or false")
            return None
        value, faults = self._read_plain(node.plain(), field, kind)
        if not faults and (isinstance(value, bool) or hasattr(value, "dml_name")):
            remark_spelling(node, value, self._findings, self._operator)
        return value

    def _read_plain(self, plain: Any, field: str, kind: FieldType) -> tuple[Any, list[Fault]]:
        faults: list[Fault] = []
        value = kind.read(plain, field, faults)
        for fault in faults:
            self._put(fault)
        return value, faults

    def _read_size(self, node: Node, field: str, kind: FieldType) -> Any:
        """A width and a height."""
        if not node.is_object:
            self._wrong_type(node, field, "an object with Width and Height")
            return None
        remark_unknown(node, ("Width", "Height"), self._findings)
        sizes = [node.get(name) for name in ("Width", "Height")]
        if any(size is None or type(size.raw) is not int for size in sizes):
            self._wrong_type(node, field, "an object with Width and Height, whole numbers")
            return None
        return self._read_plain([size.raw for size in sizes if size is not None], field, kind)[0]

    def _read_activation(self, outer: Node, field: str) -> FusedActivation | None:
        """An activation: `{"Type": "ACTIVATION_ELU", "Alpha": 0.5}`, or with its attributes in a `Desc`."""
        kind = outer.get("Type") if outer.is_object else None
        if kind is None or not isinstance(kind.raw, str):
            self._wrong_type(outer, field, "an object with a Type, a string")
            return None
        node = outer.get("Desc") or outer
        before = len(self._findings)
        try:
            cls = find_activation(kind.raw)
        except DescriptionError as error:
            for fault in error.within(self._operator, f"{field}.").faults:
                self._put(fault)
            return None
        kinds = {name: cls.field_types()[name] for name in attributes_of(cls)}
        values = self._read_fields(cls, kinds, node, f"{field}.")
        remark_unknown(node, ["Type", "Desc", *map(dml_name, cls.field_types())], self._findings)
        if any(found.kind is not REMARK for found in self._findings[before:]):
            return None
        return FusedActivation(cls, **values)

    def _read_activations(self, node: Node, field: str) -> list[FusedActivation | None] | None:
        if not node.is_list:
            self._wrong_type(node, field, "a list of objects, each with a Type")
            return None
        return [self._read_activation(one, f"{field}[{i}]") for i, one in enumerate(node.elements())]

    def _is_ints(self, node: Node, field: str) -> bool:
        if not node.is_list:
            self._wrong_type(node, field, "a list of whole numbers")
            return False
        for i, value in enumerate(node.plain()):
            if type(value) is not int:
                self._wrong_type(node.element(i), f"{field}[{i}]", "a whole number")
                return False
        return True

    def _read_data_type(self, node: Node, field: str) -> DataType | None:
        # A string is of the right type: then the description is at fault, not the file.
        kind = DESCRIPTION if isinstance(node.raw, str) else FILE
        return read_data_type(node, field, self._findings, kind, self._operator)

    def _read_tensors(self, node: Node, field: str, kind: FieldType) -> Any:
        if not node.is_list:
            self._wrong_type(node, field, "a list of objects")
            return None
        if len(node) > MOST_TENSORS:
            rule = f"{field} must have at most {MOST_TENSORS} tensors"
            found = str(len(node))
            self._findings.add(UNSUPPORTED, node, rule, field=field, found=found, subject=self._operator)
            return None
        tensors = [self._read_tensor(element, f"{field}[{i}]") for i, element in enumerate(node.elements())]
        if any(tensor is None for tensor in tensors):
            return None
        return self._read_plain(tensors, field, kind)[0]

    def _read_tensor(self, outer: Node, field: str) -> TensorDesc | None:
        if not outer.is_object:
            self._wrong_type(outer, field, "an object")
            return None
        kind = outer.get("Type")
        if kind is not None and kind.raw not in ("BUFFER", "DML_TENSOR_TYPE_BUFFER"):
            self._add(kind, f"{field}.Type", f"{field}.Type must be BUFFER", found=None)
        node = outer.get("Desc") or outer
        if not node.is_object:
            self._wrong_type(node, f"{field}.Desc", "an object")
            return None
        remark_unknown(node, [*_TENSOR_FIELDS, "DimensionCount", "Type"], self._findings)
        values = {
            name: value
            for dml, name in _TENSOR_FIELDS.items()
            if (child := node.get(dml)) and (value := self._read_part(child, f"{field}.{dml}", name)) is not None
        }
        missing = [dml for dml in ("DataType", "Sizes") if node.get(dml) is None]
        for dml in missing:
            self._add(node, f"{field}.{dml}", f"{field}.{dml} must be given")
        if "sizes" not in values:
            return None
        count = node.get("DimensionCount")
        if count is not None:
            self._check_count(count, f"{field}.DimensionCount", len(values["sizes"]))
        if "data_type" not in values:  # the sizes may be at fault as well: any type will do to find out
            values = {"data_type": "UINT8", "sizes": values["sizes"], "strides": values.get("strides")}
        try:
            return TensorDesc(**values)
        except DescriptionError as error:
            for fault in error.within(self._operator, f"{field}.").faults:
                self._put(fault)
            return None

    def _read_part(self, node: Node, field: str, name: str) -> Any:
        """A field of a tensor; None for what means that it is not given, or was added to the findings."""
        if name == "data_type":
            return self._read_data_type(node, field)
        if name in ("sizes", "strides"):
            # DxDispatch takes an empty list of strides for none.
            return (node.plain() or None if name == "strides" else node.plain()) if self._is_ints(node, field) else None
        if name == "flags":
            return read_flags(node, field, TensorFlags, self._findings, self._operator)
        if type(node.raw) is not int:
            self._wrong_type(node, field, "a whole number")
            return None
        return node.raw or None  # 0 is the default of both sizes
