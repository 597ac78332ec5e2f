"""The common part of operators that walk windows over an input: their geometry, and the rules of it.

The first two dimensions are the batch and the channels; windows reach over the others, which are called spatial.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from anydml.arrays.tensor import TensorDesc
from anydml.core.errors import Fault
from anydml.operators.computed import Computed
from anydml.operators.fields import FIELD_TYPES, PerDimension, dml_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.operators.sizes import Sizes

_LEAST = {"window_size": 1, "strides": 1, "dilations": 1}
"""Of each number, where that is not 0; also what is usual."""


class Windowed(Computed):
    """An operator with a number for each spatial dimension in some fields: see `PerDimension`."""

    def __post_init__(self) -> None:
        """A number for all spatial dimensions is written out first."""
        first: Any = getattr(self, self.input_names()[0])
        for name in self.spatial_fields() if isinstance(first, TensorDesc) else ():
            value = getattr(self, name)
            if type(value) is int:
                object.__setattr__(self, name, (value,) * (first.dimension_count - 2))
        super().__post_init__()

    @classmethod
    @functools.cache
    def spatial_fields(cls) -> list[str]:
        """The fields with a number for each spatial dimension."""
        return [name for name, kind in cls.field_types().items() if kind is FIELD_TYPES[PerDimension]]

    def each(self, name: str) -> Sizes:
        """The numbers of a field; the usual ones where the operator does not have it."""
        found: Sizes | None = getattr(self, name, None)
        return (_LEAST.get(name, 0),) * self.dimension_count if found is None else found

    @property
    def dimension_count(self) -> int:
        """DirectML's DimensionCount: the spatial ones."""
        return len(getattr(self, self.spatial_fields()[0]))

    def spatial_faults(self) -> Iterator[Fault]:
        """Check that each field has a number for each spatial dimension, of at least 1 where 0 has no meaning."""
        first, tensor = next(iter(self.inputs().items()))
        count = tensor.dimension_count - 2
        for name in self.spatial_fields():
            field, values = dml_name(name), getattr(self, name)
            if len(values) != count:
                rule = f"{field} must have {max(count, 0)} values, one for each spatial dimension of {first}"
                yield Fault(field=field, rule=rule, value=values, found=str(len(values)))
            for i, value in enumerate(values):
                if value < _LEAST.get(name, 0):
                    rule = f"{field}[{i}] must be at least 1"
                    yield Fault(field=f"{field}[{i}]", rule=rule, value=value, found=str(value))

    def reaches(self, window: Sizes) -> Sizes:
        """How far a window of some sizes reaches, its dilations included."""
        return tuple((size - 1) * step + 1 for size, step in zip(window, self.each("dilations"), strict=True))

    def padded_sizes(self, sizes: Sizes) -> Sizes:
        """The spatial sizes of a tensor with its padding."""
        pads = zip(sizes[2:], self.each("start_padding"), self.each("end_padding"), strict=True)
        return tuple(size + before + after for size, before, after in pads)

    def counts(self, sizes: Sizes, window: Sizes) -> Sizes:
        """How many windows of some sizes fit into a tensor with its padding: of each spatial dimension."""
        fits = zip(self.padded_sizes(sizes), self.reaches(window), self.each("strides"), strict=True)
        return tuple((size - reach) // step + 1 for size, reach, step in fits)

    def fitting_faults(self, field: str, window: Sizes, source: str, first: int = 0) -> Iterator[Fault]:
        """Check that a window fits into a tensor with its padding; `source` names its sizes, numbered from `first`."""
        padded, reaches = self.padded_sizes(self.tensors()[field].sizes), self.reaches(window)
        for i, (size, reach) in enumerate(zip(padded, reaches, strict=True)):
            if reach > size:
                named, has = source.format(i + first), f"{size} that {field} has with its padding"
                rule = f"{named}, which reaches over {reach} elements, must fit into the {has}"
                way_out = "larger padding makes room"
                yield Fault(field=named, rule=rule, value=window[i], found=str(window[i]), way_out=way_out)
