"""A description from the command line: the options of an operator follow from its fields."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from anydml.cli.values import DATA, INTS, FieldValue, shaped, typed
from anydml.enums import DataType
from anydml.errors import DescriptionError
from anydml.operators.fields import FIELD_TYPES, dml_name
from anydml.tensor import MAX_DIMENSIONS, TensorDesc

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anydml.cli.values import Array
    from anydml.operators import OperatorDesc

_ARRAYS = ("UINT_ARRAY", "INT_ARRAY")


def options_of(cls: type[OperatorDesc]) -> list[click.Option]:
    """The options of an operator: its tensors first, then its attributes by their full names and shorter ones."""
    taken: set[str] = set()
    found = [option for name in cls.input_names() for option in _tensor_options(cls, name)]
    output = cls.output_names()[0]
    names = _names(output, "sizes", "output-sizes")
    found.append(
        click.Option([f"{output}_sizes", *names], type=INTS, help="The output's sizes; the largest by default.")
    )
    for option in found:
        taken.update(option.opts)
    for name, kind in cls.field_types().items():
        if kind.kind not in ("input", "output"):
            option = _attribute_option(cls, name, taken)
            taken.update(option.opts)
            found.append(option)
    return found


def _names(field: str, *parts: str) -> list[str]:
    """`--input-tensor-sizes` and shorter."""
    return [f"--{field.replace('_', '-')}-{parts[0]}", *[f"--{part}" for part in parts[1:]]]


def _tensor_options(cls: type[OperatorDesc], name: str) -> Iterator[click.Option]:
    base = name.removesuffix("_tensor")
    is_first = name == cls.input_names()[0]
    short = [[part] if is_first else [] for part in ("sizes", "type", "data")]
    what = "input's" if is_first else base + "'"
    yield click.Option(
        [f"{name}_sizes", *_names(name, "sizes", f"{base}-sizes", *short[0])], type=INTS, help=f"The {what} sizes."
    )
    default = "float32" if is_first else "uint32, or a signed type for negative ones"
    yield click.Option(
        [f"{name}_type", *_names(name, "type", f"{base}-type", *short[1])],
        metavar="TYPE",
        help=f"The {what} data type; by default that of the data, or {default}.",
    )
    names = _names(name, "data", f"{base}-data", *(short[2] or [base]))
    yield click.Option([f"{name}_data", *names], type=DATA, help=f"The {what} values; made up by default.")


def _short_name(field: str) -> str:
    """What people say: `input_window_offsets` are the offsets, `has_exclusive_sum` is exclusive."""
    words = field.split("_")
    if words[-1] == "sizes":
        return "window"  # the sizes are the input's
    if words[0] == "has":
        return words[1]
    return words[0] if words[-2:] == ["dimension", "count"] else words[-1]


def _attribute_option(cls: type[OperatorDesc], name: str, taken: set[str]) -> click.Option:
    kind = cls.field_types()[name]
    full = f"--{name.replace('_', '-')}"
    if full in taken:
        full = f"--{cls.type.name.lower().replace('_', '-')}-{name}"
    names = [n for n in dict.fromkeys((full, f"--{_short_name(name)}")) if n not in taken]
    label = [name, *names]
    if kind is FIELD_TYPES[bool]:
        return click.Option(label, is_flag=True, help=f"{dml_name(name)}.")
    has_default = _default(cls, name) is not dataclasses.MISSING or _follows(name)
    is_array = kind.type in _ARRAYS
    return click.Option(
        label,
        type=INTS if is_array else FieldValue(dml_name(name), kind),
        required=not has_default,
        help=f"{dml_name(name)}.",
    )


def _default(cls: type[OperatorDesc], name: str) -> object:
    return next(f.default for f in dataclasses.fields(cls) if f.name == name)  # type: ignore[arg-type]  # a dataclass


def _follows(name: str) -> bool:
    """Whether a value follows from others where none is given: a stride of 1, the dimensions of the data."""
    return name.endswith("strides") or name in ("input_dimension_count", "indices_dimension_count")


def describe(cls: type[OperatorDesc], given: Mapping[str, Any]) -> tuple[OperatorDesc, list[Array | None]]:
    """The description that the options say, and the data given for each input."""
    arrays: dict[str, Array | None] = {}
    tensors: dict[str, TensorDesc] = {}
    for name in cls.input_names():
        tensors[name], arrays[name] = _tensor(cls, name, given)
    attributes = {}
    for name, kind in cls.field_types().items():
        if kind.kind in ("input", "output"):
            continue
        value = given[name]
        if value is None and _follows(name):
            counted = tensors.get(name.replace("dimension_count", "tensor"))
            rank = next(iter(tensors.values())).dimension_count
            value = (1,) * rank if counted is None else counted.dimension_count
        if value is not None:
            attributes[name] = value
    desc = _draft(cls, tensors, attributes)
    sizes = given[f"{cls.output_names()[0]}_sizes"]
    if sizes is not None:
        data_type = next(iter(tensors.values())).data_type
        output = _described(cls, cls.output_names()[0], data_type, sizes)
        desc = dataclasses.replace(desc, **{cls.output_names()[0]: output})  # type: ignore[type-var]  # a dataclass
    return desc, [_padded(arrays[name], getattr(desc, name)) for name in cls.input_names()]


def _tensor(cls: type[OperatorDesc], name: str, given: Mapping[str, Any]) -> tuple[TensorDesc, Array | None]:
    sizes, data, asked = (given[f"{name}_{part}"] for part in ("sizes", "data", "type"))
    base = name.removesuffix("_tensor")
    is_first = name == cls.input_names()[0]
    option = "--data" if is_first else f"--{base}"
    if sizes is None and data is None:
        raise click.UsageError(f"give {'--sizes' if is_first else f'--{base}-sizes'} or {option}")
    if asked is not None:
        data_type = _read_type(asked, "--type" if is_first else f"--{base}-type")
    elif isinstance(data, np.memmap):
        data_type = _read_type(data.dtype, option)
    elif is_first:
        data_type = DataType.FLOAT32
    else:
        signed = data is not None and data.size and data.min() < 0
        data_type = DataType.INT64 if signed else DataType.UINT32
    if data is not None:
        data = typed(shaped(data, sizes, option), data_type.dtype, option)
    return _described(cls, name, data_type, data.shape if sizes is None else sizes), data


def _read_type(value: object, option: str) -> DataType:
    try:
        return DataType(value)
    except DescriptionError as error:
        raise click.BadParameter(str(error.faults[0]), param_hint=option) from error


def _described(cls: type[OperatorDesc], name: str, data_type: DataType, sizes: tuple[int, ...]) -> TensorDesc:
    try:
        return TensorDesc(data_type, sizes)
    except DescriptionError as error:
        raise error.within(cls.type.name, f"{dml_name(name)}.") from None


def _draft(cls: type[OperatorDesc], tensors: Mapping[str, TensorDesc], attributes: Mapping[str, Any]) -> OperatorDesc:
    """Complete the description, with leading dimensions of size 1 where tensors of different ranks need them."""
    rank = max(tensor.dimension_count for tensor in tensors.values())
    first = None
    for count in range(rank, MAX_DIMENSIONS + 1 if len(tensors) > 1 else rank + 1):
        draft = cls.draft(**{name: tensor.padded(count) for name, tensor in tensors.items()}, **attributes)
        first = first or draft
        if not any(draft.rules()):
            return draft
    assert first is not None  # noqa: S101 - a tensor has at most 8 dimensions
    return first


def _padded(array: Array | None, tensor: TensorDesc) -> Array | None:
    return None if array is None else array[(None,) * (tensor.dimension_count - array.ndim)]
