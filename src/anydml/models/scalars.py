"""Numbers of descriptions from JSON: DML_SCALAR_UNION, by the type that stands beside it, and DML_SCALE_BIAS."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from anydml.enums import DataType
from anydml.models.findings import DESCRIPTION, FILE, REMARK
from anydml.models.initialise import WORDS, to_float
from anydml.models.remarks import remark_unknown
from anydml.operators.scalars import ScaleBias, as_type

if TYPE_CHECKING:
    from anydml.models.findings import Findings
    from anydml.models.source import Node

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
