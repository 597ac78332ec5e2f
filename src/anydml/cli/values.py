"""Lists and data on the command line: `1,1,4,4`, `[[1],[0]]`, `FILE.npy`."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import click
import numpy as np

from anydml.core.errors import show
from anydml.operators.schema.fields import FIELD_TYPES, FieldType, Int, OptionalScaleBias, Transform, Uint

Array = np.ndarray[Any, Any]
_FRACTIONS = ("FLOAT", "SCALAR_UNION")
"""The types of fields whose numbers may have a fraction."""


_SPECIAL = re.compile(r"(?<![\w.])([+-]?)(nan|inf(?:inity)?)(?![\w.])", re.IGNORECASE)


def parse_numbers(text: str) -> Any:
    """JSON, in which NaN and infinities may be spelt as NumPy, Python and C print them: nan, inf, -Inf."""

    def spell(found: re.Match[str]) -> str:
        return "NaN" if found[2].lower() == "nan" else f"{found[1].strip('+')}Infinity"

    return json.loads(_SPECIAL.sub(spell, text))


def parse_truth(value: Any) -> bool | None:
    """A truth value in any of click's spellings and cases: true, yes, on, 1; None for what is none."""
    try:
        return bool(click.BOOL.convert(value, None, None))
    except click.BadParameter:
        return None


class IntsType(click.ParamType):  # type: ignore[type-arg]  # generic in the newest click only
    """Whole numbers: `1,1,4,4`, or as the documents have them, `{1,1,4,4}`."""

    name = "n,n,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Read them; what they must be is for the description to say."""
        if isinstance(value, tuple):
            return value
        text = str(value).strip().strip("{}[]()")
        try:
            return tuple(int(part) for part in text.split(","))
        except ValueError:
            self.fail(f"{show(value)} is no list of whole numbers such as 1,1,4,4", param, ctx)


class FloatsType(click.ParamType):  # type: ignore[type-arg]  # generic in the newest click only
    """Numbers: `0.5,1,2`."""

    name = "x,x,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        """Read them; what they must be is for the description to say."""
        if isinstance(value, tuple):
            return value
        text = str(value).strip().strip("{}[]()")
        try:
            return tuple(float(part) for part in text.split(","))
        except ValueError:
            self.fail(f"{show(value)} is no list of numbers such as 0.5,1,2", param, ctx)


class FieldValue(click.ParamType):  # type: ignore[type-arg]  # generic in the newest click only
    """A value that a description's field reads by itself, such as an enumeration's."""

    def __init__(self, field: str, kind: FieldType) -> None:
        self.field, self.kind = field, kind
        names = {
            "SCALE_BIAS": "scale,bias",
            "OPERATOR_DESC": "activation",
            "OPERATOR_DESC_ARRAY": "activation,…",
            **dict.fromkeys(_FRACTIONS, "number"),
        }
        self.name = "number" if kind in (FIELD_TYPES[Uint], FIELD_TYPES[Int]) else names.get(kind.type, "name")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read it as the field does, in any spelling."""
        faults: list[Any] = []
        read = self.kind.read(self._parse(value), self.field, faults)
        if faults:
            self.fail(str(faults[0]), param, ctx)
        return read

    def _parse(self, value: Any) -> Any:
        if self.kind is FIELD_TYPES[OptionalScaleBias] and isinstance(value, str):
            return [_number_or(part, is_whole=False) for part in value.strip().strip("{}[]()").split(",")]
        if self.kind.type.startswith("OPERATOR_DESC") and isinstance(value, str):
            if value.strip().startswith(("{", "[")):
                try:
                    return json.loads(value)
                except (ValueError, RecursionError):
                    return value
            if self.kind.type == "OPERATOR_DESC_ARRAY":
                return [name.strip() for name in value.split(",")]
        if self.kind is FIELD_TYPES[Transform] and (truth := parse_truth(value)) is not None:
            return truth
        return _number_or(value, is_whole=self.kind.type not in _FRACTIONS)


def _number_or(value: Any, *, is_whole: bool) -> Any:
    """A number, or what is none as it is: the field says what it must be."""
    for kind in (int,) if is_whole else (int, float):
        try:
            return kind(value)
        except (TypeError, ValueError, OverflowError):
            continue
    return value


class DataValue(click.ParamType):  # type: ignore[type-arg]  # generic in the newest click only
    """Values: `1,2,3`, `[[1],[0]]`, or the name of a `.npy` file, which is read where it is needed."""

    name = "values|file.npy"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Array:
        """Read them into an array of whatever type they have."""
        if isinstance(value, np.ndarray):
            return value
        text = str(value).strip()
        if text.endswith(".npy"):
            return self._read_file(text, param, ctx)
        try:
            values = parse_numbers(text if text.startswith("[") else f"[{text}]")
            found = np.array(values)
            is_float = found.dtype.kind == "f" and found.size
            if is_float and all(isinstance(value, int) for value in np.array(values, "O").flat):
                found = np.array(values, np.uint64)  # 1 and 2**64 - 1, of which NumPy makes floats
        except (ValueError, RecursionError, OverflowError) as error:
            self.fail(f"{show(text, 60)} is neither a list of numbers nor a .npy file ({show(error)})", param, ctx)
        if found.dtype.kind not in "iuf":
            self.fail(f"{show(text, 60)} must be numbers alone, none beyond 64 bits", param, ctx)
        return found

    def _read_file(self, path: str, param: click.Parameter | None, ctx: click.Context | None) -> Array:
        if Path(path).exists() and not Path(path).is_file():  # opening a pipe would wait for a writer
            self.fail(f"{path} is not a file", param, ctx)
        try:
            # Never more than is shown is read, no pickled object is, and a size beyond the file's is refused.
            found: Array = np.lib.format.open_memmap(path, mode="r")  # type: ignore[no-untyped-call]  # NumPy has no type for it
        except OSError as error:
            self.fail(f"{path} could not be read ({error.strerror or show(error)})", param, ctx)
        except Exception as error:  # noqa: BLE001 - a hostile file; NumPy's reader of headers raises many things
            self.fail(f"{path} is no .npy file that can be read ({show(error)})", param, ctx)
        return found


def shaped(data: Array, sizes: tuple[int, ...] | None, option: str) -> Array:
    """Give data the sizes asked for."""
    if sizes is None or data.shape == sizes:
        return data
    if data.size != math.prod(sizes):
        hint = f"{option} has {data.size} values, and sizes {sizes} need {math.prod(sizes)}"
        raise click.BadParameter(hint, param_hint=option)
    return data.reshape(sizes)


def typed(data: Array, dtype: np.dtype[Any], option: str) -> Array:
    """Give data typed by hand the type asked for; a file has its own."""
    if isinstance(data, np.memmap) or data.dtype == dtype:
        return data
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        whole = data.dtype.kind in "iu" or bool(np.all(np.isfinite(data) & (np.floor(data) == data)))
        if not whole or (data.size and not limits.min <= data.min() <= data.max() <= limits.max):
            raise click.BadParameter(f"{option} has values that {dtype.name} does not hold", param_hint=option)
    with np.errstate(over="ignore"):
        return data.astype(dtype)


INTS, FLOATS, DATA = IntsType(), FloatsType(), DataValue()
