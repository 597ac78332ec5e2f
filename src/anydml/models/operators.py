"""Descriptions from JSON, by their own annotations: a field's name, kind and default say how it is read."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from anydml.errors import DescriptionError
from anydml.flags import TensorFlags
from anydml.models.findings import DESCRIPTION, FILE, REMARK, UNSUPPORTED
from anydml.models.named import read_data_type, read_flags
from anydml.models.partial import PartialDesc
from anydml.models.remarks import remark_spelling, remark_unknown
from anydml.models.scalars import NumberReader
from anydml.models.source import Items, locate
from anydml.operators.fields import FIELD_TYPES, ValueType, dml_name
from anydml.operators.fused import FusedActivation, attributes_of, find_activation
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from anydml.enums import DataType
    from anydml.errors import Fault
    from anydml.models.findings import Findings
    from anydml.models.source import Node
    from anydml.operators import OperatorDesc
    from anydml.operators.fields import FieldType

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
