"""Inputs of one size, as NumPy broadcasts them: strides of 0, and numbers in the type of the arrays beside them."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from anydml.api.describing import argument_of
from anydml.arrays import DeviceArray, upload, view
from anydml.arrays.host import has_type
from anydml.arrays.view import ArrayView, is_tensor
from anydml.core.enums import DataType
from anydml.core.errors import DescriptionError, Fault, show
from anydml.core.memory import HOST, packed_strides
from anydml.operators.schema.fields import bare_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.core.enums import FeatureLevel
    from anydml.operators import OperatorDesc
    from anydml.operators.schema.sizes import Sizes

NUMBERS = (int, float, np.integer, np.floating, np.bool_)
"""Types with a value and no array's type: Python's numbers and NumPy's."""
_WHOLE = (DataType.INT64, DataType.INT32, DataType.UINT32, DataType.UINT8)


def is_number(given: object) -> TypeGuard[float]:
    """Whether an input is a number."""
    return isinstance(given, NUMBERS)


def numbers_of(given: object) -> np.ndarray[Any, Any] | None:
    """A list of Python's numbers, or a range, as an array; None for anything else, and for a list of nothing."""
    if not isinstance(given, (list, tuple, range)) or has_type(given):
        return None
    try:
        found = np.asarray(given)
        whole = None
        if found.dtype.kind in "fO":
            whole = np.array(given, "O")
            if all(isinstance(number, int) for number in whole.flat):  # 2**63 and -1 have no type in common
                found = whole
    except Exception:  # noqa: BLE001 - what it is instead is told by whoever takes arrays
        return None
    return found if found.size and (found.dtype.kind in "biuf" or found is whole) else None


def one_of(numbers: np.ndarray[Any, Any]) -> float:
    """One that tells the type of all: Python's floats have none of their own, nor have its integers."""
    first = numbers.ravel()[0]
    return first.item() if isinstance(first, (np.floating, np.int64)) else first


def spread(own: Sizes, strides: Sequence[int], seen: Sizes, sizes: Sizes) -> tuple[int, ...]:
    """The strides of a tensor that is seen with other sizes of 1, in larger sizes: 0 where it repeats."""
    steps = iter(stride for size, stride in zip(own, strides, strict=True) if size != 1)
    kept = [0 if size == 1 else next(steps) for size in seen]
    return (0,) * (len(sizes) - len(seen)) + tuple(kept)


def spread_views(
    cls: type[OperatorDesc], fields: Sequence[str], seen: Sequence[ArrayView], attributes: dict[str, Any]
) -> list[ArrayView]:
    """Arrays in sizes that fit: the same memory."""
    wanted = cls.spread({field: x.sizes for field, x in zip(fields, seen, strict=True)}, **attributes)
    return [
        x
        if x.sizes == wanted[field][1]
        else replace(x, sizes=wanted[field][1], strides=spread(x.sizes, x.strides, *wanted[field]))
        for field, x in zip(fields, seen, strict=True)
    ]


def without_truths(array: Any) -> Any:
    """An array of booleans as UINT8, which DirectML has in their place: the same bytes."""
    if isinstance(array, np.ndarray):
        return array.view(np.uint8) if array.dtype == np.bool_ else array
    if is_tensor(array) and str(array.dtype) == "torch.bool":
        return array.view(sys.modules["torch"].uint8)
    return array.view(np.uint8) if type(array) is DeviceArray and array.dtype == np.bool_ else array


def number_types(
    cls: type[OperatorDesc],
    level: FeatureLevel,
    fields: Sequence[str],
    given: Sequence[float | None],
    types: Sequence[DataType | None],
    weak: Sequence[bool] | None = None,
) -> list[tuple[DataType, str]]:
    """The type that each number is taken in, and the field it comes from: an array's whose field takes the same types.

    `given` has the numbers, or one of a list's, and None for arrays; `types` the arrays' types; `weak` which arrays
    give way to others. An operator may say itself which tensors are of one type. An integer that decides the output's
    type, as zero points do, is of its own.
    """
    row = cls.support.row_at(max(level, cls.introduced()))
    said = getattr(cls, "typed_like", {})
    allowed = [row.tensors[bare_name(field)].data_types for field in fields]
    found = []
    for k, (field, own) in enumerate(zip(fields, allowed, strict=True)):
        if said.get("OutputTensor") == field and (kind := types[k] or _said_type(given[k])) and not kind.is_float:
            found.append((kind, ""))  # the output's too, which is not for others to choose
            continue
        beside = [
            i
            for i, (other, types_of_other) in enumerate(zip(fields, allowed, strict=True))
            if (other in (field, said[field]) if field in said else own == types_of_other and other not in said)
        ]
        arrays = [i for i in beside if types[i] is not None]
        like = next((i for i in arrays if not (weak and weak[i])), arrays[0] if arrays else None)
        kind = None if like is None else types[like]
        # An array of a type that it may not have is told of, and the number beside it is not at fault too.
        if like is not None and kind and (kind in own or not (kind in allowed[like] or kind.is_half_byte)):
            found.append((kind, fields[like]))
            continue
        alone = {_own_type(number) for i in beside if (number := given[i]) is not None}
        kind = alone.pop() if len(alone) == 1 else DataType.FLOAT32 if any(t.is_float for t in alone) else _WHOLE[0]
        found.append((kind if kind in own else next((t for t in _WHOLE if t in own), min(own)), ""))
    return found


def _said_type(number: float | None) -> DataType | None:
    """The type of a number that has one: NumPy's, and no truth."""
    return _own_type(number) if isinstance(number, np.generic) and not isinstance(number, np.bool_) else None


def _own_type(number: float) -> DataType:
    """The type of a number alone: NumPy's own, FLOAT32 and INT64 for Python's."""
    if isinstance(number, (bool, np.bool_)):
        return DataType.UINT8
    if isinstance(number, np.generic):
        return DataType(number.dtype)
    return DataType.FLOAT32 if isinstance(number, float) else DataType.INT64


def read_as(
    number: Any, data_type: DataType, cls: type[OperatorDesc], field: str, like: str, *, in_graph: bool = False
) -> np.ndarray[Any, Any]:
    """A number in the type of an array, whose field is named, as NumPy 2 has it: none that the type has not."""
    if not like and data_type is _own_type(number) and not isinstance(number, (bool, np.bool_)):
        return view(number, cls.type.name, field).numpy()
    return _converted(number, data_type, cls, field, like, in_graph)


def _converted(
    number: Any, data_type: DataType, cls: type[OperatorDesc], field: str, like: str, in_graph: bool
) -> np.ndarray[Any, Any]:
    def refuse(rule: str, way_out: str) -> DescriptionError:
        fault = Fault(field=field, rule=rule, value=number, found=show(number), way_out=way_out)
        return DescriptionError(cls.type.name, fault)

    fits = f"{data_type.name}, the type of {like}" if like else data_type.name
    if data_type.is_float:
        with np.errstate(over="ignore"):
            try:
                made = np.array(float(number), data_type.dtype)
            except OverflowError:
                made = np.array(math.inf, data_type.dtype)
        if np.isinf(made) and not (isinstance(number, (float, np.floating)) and math.isinf(number)):
            raise refuse(f"{field} must be a number that fits {fits}", "convert the array first")
        return made
    if isinstance(number, (float, np.floating)):
        rule = f"{field} must be a whole number for {fits}"
        x = argument_of(cls, like)
        convert = f'cast({x}, "float32")' if in_graph else f'{x}.astype("float32")'
        raise refuse(rule, f"pass {convert} to compute with floats" if like else "")
    limits = np.iinfo(data_type.dtype)
    if not limits.min <= int(number) <= limits.max:
        way_out = "convert the array first" if like else ""
        raise refuse(f"{field} must lie in {limits.min} .. {limits.max} for {fits}", way_out)
    return np.array(int(number), data_type.dtype)


def read_list_as(
    numbers: np.ndarray[Any, Any],
    data_type: DataType,
    cls: type[OperatorDesc],
    field: str,
    like: str,
    *,
    in_graph: bool = False,
) -> np.ndarray[Any, Any]:
    """A list of numbers in the type of an array, as one number is: if it has the least and the largest, it has all."""
    if not like and data_type is DataType.FLOAT32 and numbers.dtype.kind == "f":
        return view(numbers.tolist(), cls.type.name, field).numpy()
    finite = numbers[np.isfinite(numbers)] if numbers.dtype.kind == "f" else numbers
    ends = np.array([finite.min(), finite.max()], numbers.dtype) if finite.size else numbers.ravel()[:1]
    for number in ends.tolist():
        _converted(number, data_type, cls, field, like, in_graph)
    with np.errstate(under="ignore"):
        return numbers.astype(data_type.dtype)


def read_plain(
    cls: type[OperatorDesc],
    level: FeatureLevel,
    fields: Sequence[str],
    given: Sequence[object],
    *,
    in_graph: bool = False,
) -> dict[int, np.ndarray[Any, Any]]:
    """The numbers and lists among the inputs, by place, in types that their fields take: integers for indices."""
    lists = {i: found for i, x in enumerate(given) if (found := numbers_of(x)) is not None}
    numbers = {i: x for i, x in enumerate(given) if is_number(x)}
    if not lists and not numbers:
        return {}
    values = [one_of(lists[i]) if i in lists else numbers.get(i) for i in range(len(given))]
    types = [None if i in lists or i in numbers else type_of(x) for i, x in enumerate(given)]
    kinds = number_types(cls, level, fields, values, types)
    read = {i: read_list_as(x, kinds[i][0], cls, fields[i], kinds[i][1], in_graph=in_graph) for i, x in lists.items()}
    return read | {
        i: read_as(x, kinds[i][0], cls, fields[i], kinds[i][1], in_graph=in_graph) for i, x in numbers.items()
    }


def type_of(array: Any) -> DataType | None:
    """The type of an array or an expression; None where it has none of DirectML's."""
    try:
        return array.data_type if hasattr(array, "data_type") else DataType(array.dtype)
    except Exception:  # noqa: BLE001 - what it is instead is told by whoever looks at the array
        return None


def view_number(number: np.ndarray[Any, Any], memory: str, subject: str, field: str) -> ArrayView:
    """A number, or an array of them, in the memory that a device works in."""
    if memory == HOST:
        return view(number, subject, field)
    buffer = upload(number.reshape(-1).view(np.uint8), memory)
    return ArrayView(buffer.owner, buffer, 0, DataType(number.dtype), number.shape, packed_strides(number.shape))
