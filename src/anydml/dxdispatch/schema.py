"""A JSON schema of DxDispatch's models for editors: completion, meanings and slips, derived from the operators."""

from __future__ import annotations

import dataclasses
import enum
import typing
from typing import TYPE_CHECKING, Any

from anydml.core.enums import DataType, ExecutionFlags, TensorFlags
from anydml.core.parse import INT32_MAX, UINT32_MAX
from anydml.operators import OPERATORS
from anydml.operators.fused import FUSED, attributes_of
from anydml.operators.schema.fields import dml_name
from anydml.operators.schema.meanings import meaning_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from anydml.operators import OperatorDesc
    from anydml.operators.schema.fields import FieldType

_DIALECT = "http://json-schema.org/draft-07/schema#"
"""The one that editors know best."""
_ANY, _TEXT = {"type": "object"}, {"type": "string"}
_UINT = {"type": "integer", "minimum": 0, "maximum": UINT32_MAX}
_INT = {"type": "integer", "minimum": -INT32_MAX - 1, "maximum": INT32_MAX}
_SIZE = {"type": "integer", "minimum": 0}
_FLOAT = {"anyOf": [{"type": "number"}, {"enum": ["nan", "inf", "-inf"]}]}
_KINDS: dict[str, dict[str, Any]] = {
    "UINT": _UINT,
    "INT": _INT,
    "FLOAT": _FLOAT,
    "UINT_ARRAY": {"type": "array", "items": _UINT},
    "INT_ARRAY": {"type": "array", "items": _INT},
    "FLOAT_ARRAY": {"type": "array", "items": _FLOAT},
    "SCALAR_UNION": {"anyOf": [_FLOAT, _ANY]},
    "SIZE_2D": {
        "type": "object",
        "properties": {"Width": _UINT, "Height": _UINT},
        "required": ["Width", "Height"],
    },
    "SCALE_BIAS": {
        "type": "object",
        "properties": {"Scale": _FLOAT, "Bias": _FLOAT},
        "required": ["Scale", "Bias"],
    },
    "OPERATOR_DESC": {"$ref": "#/definitions/activation"},
    "OPERATOR_DESC_ARRAY": {"type": "array", "items": {"$ref": "#/definitions/activation"}},
}


def model_schema() -> dict[str, Any]:
    """The schema, to be written as JSON."""
    return {
        "$schema": _DIALECT,
        "title": "A DxDispatch model",
        "type": "object",
        "required": ["resources", "dispatchables", "commands"],
        "properties": {
            "resources": {"type": "object", "additionalProperties": {"$ref": "#/definitions/resource"}},
            "dispatchables": {"type": "object", "additionalProperties": {"$ref": "#/definitions/dispatchable"}},
            "commands": {"type": "array", "items": {"$ref": "#/definitions/command"}},
        },
        "definitions": {
            "resource": _resource(),
            "dispatchable": _dispatchable(),
            "command": _command(),
            "tensor": _tensor(),
            "activation": _activation(),
            "binding": _binding(),
            "bindings": {
                "type": "object",
                "additionalProperties": {
                    "anyOf": [
                        {"$ref": "#/definitions/binding"},
                        {"type": "array", "items": {"$ref": "#/definitions/binding"}, "minItems": 1},
                    ]
                },
            },
            **{cls.type.name: _desc(cls) for cls in OPERATORS.values()},
        },
    }


def _names(members: Iterable[Any]) -> list[str]:
    """Both of DirectML's spellings, the short ones first."""
    several = list(members)
    return [one.name for one in several] + [one.dml_name for one in several if hasattr(one, "dml_name")]


def _flags(cls: type[enum.IntFlag]) -> dict[str, Any]:
    one = {"type": "string", "description": ", ".join(cls.__members__)}
    return {"anyOf": [one, {"type": "array", "items": one}]}


def _resource() -> dict[str, Any]:
    generated = {"valueCount": _SIZE, "value": {}, "valueStart": {}, "valueDelta": {}, "sourcePath": _TEXT}
    return {
        "type": "object",
        "required": ["initialValues"],
        "properties": {
            "initialValuesDataType": {"enum": ["UNKNOWN", *_names(DataType)]},
            "initialValues": {
                "anyOf": [
                    {"type": "array", "minItems": 1},
                    {"type": "object", "properties": generated},
                    {"const": "deferred"},
                ]
            },
            "sizeInBytes": _SIZE,
            "initialValuesOffsetInBytes": _SIZE,
            "resampleSize": {"type": "array", "items": _SIZE},
            "resampleMode": {"const": "scale"},
        },
    }


def _dispatchable() -> dict[str, Any]:
    kinds = list(OPERATORS)
    others = ["onnx", "dmlSerializedGraph", "hlsl"]
    return {
        "type": "object",
        "properties": {
            "type": {"enum": [*_names(kinds), *others]},
            "Type": {"enum": _names(kinds)},
            "desc": _ANY,
            "bindings": {"$ref": "#/definitions/bindings"},
            "executionFlags": _flags(ExecutionFlags),
            "dmlCompileType": {"enum": ["DmlCompileOp", "DmlCompileGraph"]},
            "sourcePath": _TEXT,
        },
        "allOf": [
            {
                "if": {"properties": {"type": {"enum": [kind.name, kind.dml_name]}}, "required": ["type", "desc"]},
                "then": {"properties": {"desc": {"$ref": f"#/definitions/{kind.name}"}}},
            }
            for kind in kinds
        ],
    }


def _command() -> dict[str, Any]:
    dispatch = {"type": {"const": "dispatch"}, "dispatchable": _TEXT, "bindings": {"$ref": "#/definitions/bindings"}}
    count = {"type": "array", "items": _UINT}
    shown = {"type": {"const": "print"}, "resource": _TEXT, "verbose": {"type": "boolean"}}
    written = {"type": {"enum": ["writeFile", "writefile"]}, "resource": _TEXT, "targetPath": _TEXT}
    sizes = {"dimensions": {"type": "array", "items": _UINT}}
    return {
        "type": "object",
        "required": ["type"],
        "anyOf": [
            {"properties": {**dispatch, "threadGroupCount": count}, "required": ["dispatchable", "bindings"]},
            {"properties": shown, "required": ["resource"]},
            {"properties": {**written, **sizes}, "required": ["resource", "targetPath"]},
        ],
    }


def _binding() -> dict[str, Any]:
    numbers = dict.fromkeys(("elementCount", "elementSizeInBytes", "elementOffset", "counterOffsetBytes"), _SIZE)
    others = {"format": _TEXT, "shape": {"type": "array", "items": _SIZE}, "counter": _TEXT}
    whole = {"type": "object", "properties": {"name": _TEXT, **numbers, **others}, "required": ["name"]}
    return {"anyOf": [_TEXT, whole]}


def _tensor() -> dict[str, Any]:
    fields = {
        "DataType": {"enum": _names(DataType)},
        "DimensionCount": _UINT,
        "Sizes": {"type": "array", "items": {**_UINT, "minimum": 1}, "minItems": 1},
        "Strides": {"type": "array", "items": _UINT},
        "TotalTensorSizeInBytes": _SIZE,
        "GuaranteedBaseOffsetAlignment": _SIZE,
        "Flags": _flags(TensorFlags),
        "Type": {"enum": ["BUFFER", "DML_TENSOR_TYPE_BUFFER"]},
    }
    plain = {"type": "object", "properties": fields, "required": ["DataType", "Sizes"]}
    return {"if": {"required": ["Desc"]}, "then": {"properties": {"Desc": plain}}, "else": plain}


def _activation() -> dict[str, Any]:
    kinds = sorted(FUSED, key=lambda kind: kind.name)
    numbers = {dml_name(name): _FLOAT for kind in kinds for name in attributes_of(OPERATORS[kind])}
    shown = ", ".join(kind.name for kind in kinds)
    kind = {"type": "string", "description": f"One of {shown}."}
    whole = {"type": "object", "properties": {"Type": kind, "Desc": _ANY, **numbers}, "required": ["Type"]}
    return {"anyOf": [whole, {"type": "null"}]}


def _desc(cls: type[OperatorDesc]) -> dict[str, Any]:
    kinds = {name: kind for name, kind in cls.field_types().items() if kind.kind != "addition"}
    defaults = {f.name: f.default for f in dataclasses.fields(cls)}
    needed = [dml_name(name) for name in kinds if defaults[name] is dataclasses.MISSING]
    properties = {
        dml_name(name): _field(cls, name, kind, may_be_null=defaults[name] is None) for name, kind in kinds.items()
    }
    what = cls.own_words().partition("\n")[0]
    return {"type": "object", "description": what, "properties": properties, "required": needed}


def _field(cls: type[OperatorDesc], name: str, kind: FieldType, *, may_be_null: bool) -> dict[str, Any]:
    hint = typing.get_type_hints(cls)[name]
    members = [one for one in typing.get_args(hint) or [hint] if isinstance(one, enum.EnumMeta)]
    if kind.type.startswith("TENSOR_DESC"):
        found: dict[str, Any] = {"allOf": [{"$ref": "#/definitions/tensor"}, _types(cls, name)]}
        found = {"type": "array", "items": found} if kind.is_tensor_array else found
    elif members:
        found = {"enum": _names(member for one in members for member in typing.cast("type[enum.Enum]", one))}
    elif hint is bool:
        found = {"anyOf": [{"type": "boolean"}, {"enum": [0, 1]}]}
    else:
        found = dict(_KINDS[kind.type])
    found = {"anyOf": [found, {"type": "null"}]} if may_be_null else found
    if "$ref" in found:  # beside which nothing else is read
        found = {"allOf": [found]}
    meaning = meaning_of(cls, name)
    return {"description": meaning, **found} if meaning else found


def _types(cls: type[OperatorDesc], name: str) -> dict[str, Any]:
    """The data types that a tensor may have at any level."""
    field = dml_name(name)
    taken = {one for row in cls.support if field in row.tensors for one in row.tensors[field].data_types}
    return {"properties": {"DataType": {"enum": _names(one for one in DataType if one in taken)}}}
