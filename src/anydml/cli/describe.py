"""A description from the command line, made of what the options of an operator say."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from anydml.arrays.tensor import MAX_DIMENSIONS, TensorDesc
from anydml.cli.options import (
    ALONG,
    base_name,
    counted_tensor,
    follows,
    follows_axis,
    follows_first,
    has_free_type,
    has_usual_axes,
    is_optional,
    type_field,
)
from anydml.cli.values import shaped, typed
from anydml.core.enums import DataType
from anydml.core.errors import DescriptionError
from anydml.operators.schema.fields import bare_name, dml_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anydml.cli.values import Array
    from anydml.operators import OperatorDesc

_MOST_TENSORS = 100
"""Of one field: a command line has no room for more that mean anything."""


def describe(cls: type[OperatorDesc], given: Mapping[str, Any]) -> tuple[OperatorDesc, list[Array | None]]:
    """The description that the options say, and the data given for each input."""
    arrays: list[Array | None] = []
    tensors: dict[str, Any] = {}
    for name in cls.input_names():
        if is_optional(cls, name) and given[f"{name}_sizes"] is None and given[f"{name}_data"] is None:
            continue
        found = list(_tensors(cls, name, given, tensors))
        arrays += [data for _, data in found]
        described = tuple(tensor for tensor, _ in found)
        tensors[name] = described if cls.field_types()[name].is_tensor_array else described[0]
    attributes = dict(_attributes(cls, given, tensors))
    asked = {name: True for name in cls.optional_outputs() if given[f"{name}_sizes"] is not None}
    if cls.implies_output:
        told: dict[str, Any] = {}
        first = cls.output_names()[0]
        if cls.sizes_are_free and given[f"{first}_sizes"] is not None:  # nothing else may say them
            data_type = next(iter(tensors.values())).data_type
            told[first] = _described(cls, dml_name(first), data_type, given[f"{first}_sizes"])
        desc = _draft(cls, tensors, {**attributes, **asked, **told})
    else:
        desc = cls.draft(**tensors, **_outputs(cls, given, tensors, attributes), **attributes, **asked)
    for output in cls.output_names() if cls.implies_output else asked:
        if (sizes := given[f"{output}_sizes"]) is not None:
            data_type = desc.outputs()[dml_name(output)].data_type
            described_output = _described(cls, dml_name(output), data_type, sizes)
            desc = dataclasses.replace(desc, **{output: described_output})
    return desc, [_padded(data, tensor) for data, tensor in zip(arrays, desc.inputs().values(), strict=True)]


def _attributes(cls: type[OperatorDesc], given: Mapping[str, Any], tensors: Mapping[str, Any]) -> Iterator[Any]:
    for name, kind in cls.field_types().items():
        if kind.kind in ("input", "output"):
            continue
        value = given[name]
        if value is None and follows(cls, name):
            value = _following(cls, name, tensors)
        if value is not None:
            yield name, value


def _following(cls: type[OperatorDesc], name: str, tensors: Mapping[str, Any]) -> object:
    """The value of a field that was not given."""
    if name == type_field(cls):
        return next(iter(tensors.values())).data_type if tensors else DataType.FLOAT32
    counted = counted_tensor(name)
    if counted is not None:
        return tensors[counted].dimension_count
    count = next(iter(tensors.values())).dimension_count
    if has_usual_axes(cls, name):
        return tuple(range(count)) if cls.usual_axes is None else (count + cls.usual_axes,)
    return (1,) * count


# Inputs


def _tensors(
    cls: type[OperatorDesc], name: str, given: Mapping[str, Any], others: Mapping[str, Any]
) -> Iterator[tuple[TensorDesc, Array | None]]:
    """The tensors of a field, and the data given for each."""
    sizes, data = given[f"{name}_sizes"], given[f"{name}_data"]
    if not cls.field_types()[name].is_tensor_array:
        if sizes is None and follows_axis(cls, name):
            sizes = _sizes_off_axis(others, given["axis"], data)
        yield _tensor(cls, name, dml_name(name), sizes, data, given, others)
        return
    if sizes and data and len(sizes) != len(data):
        raise click.UsageError(f"give as many --sizes as --data: there are {len(sizes)} and {len(data)}")
    if max(len(sizes), len(data)) > _MOST_TENSORS:
        raise click.UsageError(f"give at most {_MOST_TENSORS} tensors")
    for i, (own, values) in enumerate(itertools.zip_longest(sizes or (None,), data or (None,))):
        yield _tensor(cls, name, f"{dml_name(name)}[{i}]", own, values, given, others)


def _sizes_off_axis(others: Mapping[str, Any], axis: int, data: Array | None) -> tuple[int, ...] | None:
    """The first input's sizes, but 1 along the axis; data of as many values takes them, and other data has its own."""
    first: TensorDesc = next(iter(others.values()))
    sizes = tuple(1 if k == axis else size for k, size in enumerate(first.sizes))
    return sizes if data is None or data.size == math.prod(sizes) else None


def _tensor(
    cls: type[OperatorDesc],
    name: str,
    field: str,
    sizes: tuple[int, ...] | None,
    data: Array | None,
    given: Mapping[str, Any],
    others: Mapping[str, Any],
) -> tuple[TensorDesc, Array | None]:
    base, is_first = base_name(cls, name), name == cls.input_names()[0]
    like = None
    if follows_first(cls, name) and others:
        like, usual = cls.usual_tensor(field, next(iter(others.values())))
        sizes = usual if sizes is None and data is None else sizes
    option = "--data" if is_first else f"--{base}"
    if sizes is None and data is None:
        raise click.UsageError(f"give {'--sizes' if is_first else f'--{base}-sizes'} or {option}")
    asked = given[f"{name}_type"]
    if asked is not None:
        data_type = _read_type(asked, "--type" if is_first else f"--{base}-type")
    elif isinstance(data, np.memmap):
        data_type = _read_type(data.dtype, option)
    elif not others or like is not None:
        data_type = _usual_type(cls, field, DataType.FLOAT32 if like is None else like)
    else:
        signed = data is not None and data.size and data.min() < 0
        data_type = DataType.INT64 if signed else DataType.UINT32
    if data is not None:
        data = typed(shaped(data, sizes, option), data_type.dtype, option)
        sizes = data.shape if sizes is None else sizes
    assert sizes is not None  # noqa: S101 - for type checkers: they are those of the data, where there are no others
    return _described(cls, field, data_type, sizes), data


def _usual_type(cls: type[OperatorDesc], field: str, wanted: DataType) -> DataType:
    """A type, or where the field takes it at no level the smallest that it takes."""
    taken = {kind for row in cls.support for kind in row.tensors[bare_name(field)].data_types}
    return wanted if wanted in taken else max(taken, key=lambda kind: (-kind.size_in_bytes, kind))


def _read_type(value: object, option: str) -> DataType:
    try:
        return DataType(value)
    except DescriptionError as error:
        raise click.BadParameter(str(error.faults[0]), param_hint=option) from error


def _described(cls: type[OperatorDesc], field: str, data_type: DataType, sizes: Sequence[int]) -> TensorDesc:
    try:
        return TensorDesc(data_type, sizes)
    except DescriptionError as error:
        raise error.within(cls.type.name, f"{field}.") from None


# Outputs


def _outputs(
    cls: type[OperatorDesc], given: Mapping[str, Any], tensors: Mapping[str, Any], attributes: Mapping[str, Any]
) -> dict[str, Any]:
    """The outputs of an operator whose other fields do not say what they are."""
    name = cls.output_names()[0]
    first: TensorDesc | None = next(iter(tensors.values()), None)
    sizes = given[f"{name}_sizes"]
    if cls.field_types()[name].is_tensor_array:
        assert first is not None  # noqa: S101 - for type checkers: what is taken apart
        return {name: _parts(cls, name, sizes, given[ALONG], first, attributes["axis"])}
    if sizes is None and first is None:
        raise click.UsageError("give --sizes")
    asked, named = given[f"{name}_type"], type_field(cls)
    if asked is None and named is None and has_free_type(cls, name):
        raise click.UsageError("give --to, the type")
    like = {dml_name(field): tensor for field, tensor in tensors.items()}.get(cls.output_like, first)
    usual = DataType.FLOAT32 if like is None else like.data_type
    data_type = _read_type(asked, "--output-type") if asked is not None else attributes.get(str(named), usual)
    return {name: _described(cls, dml_name(name), data_type, sizes if first is None else sizes or first.sizes)}


def _parts(
    cls: type[OperatorDesc],
    name: str,
    sizes: Sequence[tuple[int, ...]],
    along: tuple[int, ...] | None,
    whole: TensorDesc,
    axis: int,
) -> tuple[TensorDesc, ...]:
    """The parts of a tensor that is split, by the sizes of each part or by those along the axis alone."""
    if not sizes and along is None:
        raise click.UsageError(f"give --along or --{base_name(cls, name)}-sizes")
    if sizes and along is not None:
        raise click.UsageError(f"give one of --along and --{base_name(cls, name)}-sizes")
    if along is not None:
        sizes = [tuple(own if k == axis else size for k, size in enumerate(whole.sizes)) for own in along]
    if len(sizes) > _MOST_TENSORS:
        raise click.UsageError(f"give at most {_MOST_TENSORS} tensors")
    return tuple(_described(cls, f"{dml_name(name)}[{i}]", whole.data_type, own) for i, own in enumerate(sizes))


# Ranks


def _draft(cls: type[OperatorDesc], tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> OperatorDesc:
    """Complete the description, with leading dimensions of size 1 where tensors of different ranks need them."""
    if not any(counted_tensor(name) for name in cls.field_types()):
        return cls.draft(**tensors, **attributes)
    own = tensors[cls.input_names()[0]].dimension_count
    drafts = []
    for count in range(max(tensor.dimension_count for tensor in tensors.values()), MAX_DIMENSIONS + 1):
        moved = {"axis": attributes["axis"] + count - own} if "axis" in attributes else {}
        padded = {name: tensor.padded(count) for name, tensor in tensors.items()}
        drafts.append(cls.draft(**padded, **{**attributes, **moved}))
        if not any(drafts[-1].rules()):
            return drafts[-1]
    return drafts[0]


def _padded(array: Array | None, tensor: TensorDesc) -> Array | None:
    return None if array is None else array[(None,) * (tensor.dimension_count - array.ndim)]
