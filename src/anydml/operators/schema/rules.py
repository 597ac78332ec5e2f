"""Checks that several operators share: each gives the faults of one rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from anydml.core.display import counted
from anydml.core.enums import DataType
from anydml.core.errors import Fault, show
from anydml.operators.schema.fields import dml_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.core.enums import FeatureLevel
    from anydml.operators.schema.records import OperatorDesc


def fault(field: str, must: str, value: object, found: object = None, *, way_out: str = "") -> Fault:
    """A field that breaks a rule: `Axis must be below 4; got 7`. The value is told as it is, or as `found`."""
    told = str(value if found is None else found)
    return Fault(field=field, rule=f"{field} {must}", value=value, found=told, way_out=way_out)


def same_data_type(desc: OperatorDesc, field: str, other: str) -> Iterator[Fault]:
    """Check that a tensor has the type of another."""
    mine, theirs = (desc.tensors()[name].data_type for name in (field, other))
    if mine != theirs:
        yield fault(f"{field}.DataType", f"must be {other}.DataType, {theirs.name}", mine, mine.name)


def same_dimension_count(desc: OperatorDesc, field: str, other: str) -> Iterator[Fault]:
    """Check that a tensor has as many dimensions as another."""
    mine, theirs = (desc.tensors()[name].dimension_count for name in (field, other))
    if mine != theirs:
        yield fault(f"{field}.DimensionCount", f"must be {other}.DimensionCount, {theirs}", mine)


def exact_sizes(desc: OperatorDesc, field: str, sizes: Sequence[int], source: str) -> Iterator[Fault]:
    """Check that a tensor has the sizes that its source gives."""
    mine = desc.tensors()[field].sizes
    if mine != tuple(sizes):
        yield fault(f"{field}.Sizes", f"must be {tuple(sizes)}, {source}", mine)


def sized_as(desc: OperatorDesc, field: str, sizes: Sequence[int], source: str) -> Iterator[Fault]:
    """Check that a tensor has InputTensor's dimension count, and then the sizes that a source gives."""
    yield from list(same_dimension_count(desc, field, "InputTensor")) or exact_sizes(desc, field, sizes, source)


def same_sizes_off_axis(desc: OperatorDesc, field: str, other: str, axis: int) -> Iterator[Fault]:
    """Check that two tensors of one dimension count differ along an axis at most."""
    mine, theirs = desc.tensors()[field].sizes, desc.tensors()[other].sizes
    for k, (size, wanted) in enumerate(zip(mine, theirs, strict=True)):
        if k != axis and size != wanted:
            must = f"must be {other}.Sizes[{k}], {wanted}, as in every dimension but the axis"
            yield fault(f"{field}.Sizes[{k}]", must, size)


def names_type_of(desc: OperatorDesc, name: str, field: str) -> Iterator[Fault]:
    """Check that an attribute names the type of a tensor."""
    mine, theirs = DataType(getattr(desc, name)), desc.tensors()[field].data_type
    if mine != theirs:
        yield fault(dml_name(name), f"must be {field}.DataType, {theirs.name}", mine, mine.name)


def axis_of_input(desc: OperatorDesc, axis: int, field: str = "InputTensor") -> Iterator[Fault]:
    """Check that Axis is a dimension of a tensor."""
    count = desc.tensors()[field].dimension_count
    if axis >= count:
        yield fault("Axis", f"must be below {field}.DimensionCount, {count}", axis)


def like_input(desc: OperatorDesc) -> Iterator[Fault]:
    """Check that the output has the type and the sizes of the input."""
    yield from same_data_type(desc, "OutputTensor", "InputTensor")
    yield from same_sizes(desc, "OutputTensor", "InputTensor")


def same_sizes(desc: OperatorDesc, field: str, other: str) -> Iterator[Fault]:
    """Check that a tensor has the dimension count and the sizes of another."""
    counts = list(same_dimension_count(desc, field, other))
    yield from counts or exact_sizes(desc, field, desc.tensors()[other].sizes, f"{other}.Sizes")


def one_value_per_dimension(desc: OperatorDesc, *names: str) -> Iterator[Fault]:
    """Check that attribute arrays have DimensionCount values."""
    yield from values_for_each(desc, "InputTensor", *names)


def values_for_each(desc: OperatorDesc, tensor: str, *names: str) -> Iterator[Fault]:
    """Check that attribute arrays have a value for each dimension of a tensor."""
    count = desc.tensors()[tensor].dimension_count
    for name in names:
        values: Sequence[float] = getattr(desc, name)
        if len(values) != count:
            field = dml_name(name)
            yield fault(
                field, f"must have {counted(count, 'value')}, one for each dimension of {tensor}", values, len(values)
            )


def repeats_along(desc: OperatorDesc, field: str, other: str) -> Iterator[Fault]:
    """Check that a tensor has the sizes of another, or 1 where it repeats."""
    counts = list(same_dimension_count(desc, field, other))
    yield from counts
    mine, theirs = (desc.tensors()[name].sizes for name in (field, other))
    for k, (own, size) in enumerate(zip(mine, theirs, strict=False) if not counts else ()):
        if own not in (1, size):
            rule = f"{field}.Sizes[{k}] must be {size} as {other}.Sizes[{k}] is, or 1"
            channels = (1, own, *(1,) * (len(theirs) - 2))  # a vector is taken for a row: other libraries have them so
            is_vector = set(mine[:-1]) == {1} and k == len(theirs) - 1 > 1 and theirs[1] == own
            way_out = f"sizes of {channels} are along the channels" if is_vector else ""
            yield Fault(field=f"{field}.Sizes[{k}]", rule=rule, value=own, found=str(own), way_out=way_out)


def not_negative(desc: OperatorDesc, name: str) -> Iterator[Fault]:
    """Check that a number is at least 0; NaN is not."""
    value: float = getattr(desc, name)
    if not value >= 0:
        field = dml_name(name)
        written = str(np.float32(value))  # -1e-05, and not the digits of a float64 that no caller wrote
        yield fault(field, "must be at least 0", value, written)


def type_faults(number: float, data_type: DataType, field: str, *, is_step: bool = False) -> Iterator[Fault]:
    """Check that a type has a number: an integer type has whole ones of its range, a float type every one.

    A step may go down where the type has no sign: the documents count 10, 8, 6 in UINT8.
    """
    if data_type.is_float:
        return
    limits = np.iinfo(data_type.dtype)
    low = -int(limits.max) if is_step else int(limits.min)
    if isinstance(number, float) and not number.is_integer():
        yield fault(field, f"must be a whole number for {data_type.name}", number, show(number))
    elif not low <= number <= limits.max:
        yield fault(field, f"must lie in {low} .. {limits.max} for {data_type.name}", number, show(number))


def at_least_1(desc: OperatorDesc, *names: str) -> Iterator[Fault]:
    """Check that every number of some attributes is at least 1."""
    for name in names:
        value: int | Sequence[int] = getattr(desc, name)
        several = isinstance(value, tuple)
        for i, number in enumerate(value if isinstance(value, tuple) else (value,)):
            if number < 1:
                yield fault(f"{dml_name(name)}[{i}]" if several else dml_name(name), "must be at least 1", number)


def needs_level(field: str, value: str, needed: FeatureLevel, level: FeatureLevel, where: str) -> Iterator[Fault]:
    """Check that a level has a value of an attribute, which came with another."""
    if level < needed:
        rule = f"a {field} of {value} needs {needed.dml_name}"
        yield Fault(field=field, rule=rule, value=value, way_out=where, level=needed)
