"""A dask array as an operator sees it: in the dimensions of the description, repeated where it broadcasts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np

from anydml.arrays.view import describe
from anydml.core.enums import DataType
from anydml.core.errors import DescriptionError, Fault, show
from anydml.dask.arrays import Chunks, Key, is_known, rechunked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.dask.blocks import Seen
    from anydml.operators.schema.sizes import Sizes

_SMALL = 2**24
"""Bytes of an array in memory that stays one block."""


@dataclass(frozen=True)
class Layout:
    """How the blocks of an array stand in the dimensions of a description."""

    axes: tuple[int | None, ...]
    """By dimension the array's axis, None for one that was added or is repeated."""
    rank: int
    """The array's own dimensions."""

    def key(self, name: str, at: Sequence[int]) -> Key:
        """The key of the block at a place, where the array has that name."""
        found = dict(zip(self.axes, at, strict=True))
        return (name, *(found.get(axis, 0) for axis in range(self.rank)))

    def local(self, sizes: Sequence[int]) -> Seen:
        """How a block is seen that stands for these sizes."""
        return tuple(1 if axis is None else size for size, axis in zip(sizes, self.axes, strict=True)), tuple(sizes)


@dataclass(frozen=True, eq=False)
class Tensor:
    """A dask array in the dimensions of a description."""

    array: Any
    data_type: DataType
    sizes: tuple[int, ...]
    axes: tuple[int | None, ...]
    """As a layout has them."""
    held: Any = None
    """The array in memory that it was given as."""

    @classmethod
    def of(cls, array: Any, data_type: DataType) -> Tensor:
        """An array as it is."""
        return cls(array, data_type, tuple(map(int, array.shape)), tuple(range(array.ndim)))

    @property
    def strides(self) -> tuple[int, ...]:
        """None that matter: the calls that describe arrays ask for them."""
        return ()

    @property
    def chunks(self) -> Chunks:
        """The blocks along each dimension; along one that is repeated there is one."""
        return tuple(
            (size,) if axis is None else self.array.chunks[axis]
            for size, axis in zip(self.sizes, self.axes, strict=True)
        )

    @property
    def layout(self) -> Layout:
        """The facts that a layer knows of it."""
        return Layout(self.axes, self.array.ndim)

    def spread(self, seen: Sizes, sizes: Sizes) -> Tensor:
        """The same seen with other sizes of 1, and repeated to larger sizes."""
        if self.sizes == sizes:
            return self
        own = iter([axis for axis in self.axes if axis is not None and self.array.shape[axis] != 1])
        kept = [None if size == 1 else next(own) for size in seen]
        return replace(self, sizes=tuple(sizes), axes=(*(None,) * (len(sizes) - len(seen)), *kept))

    def padded(self, rank: int) -> Tensor:
        """The same with leading dimensions of size 1."""
        added = rank - len(self.sizes)
        return replace(self, sizes=(*(1,) * added, *self.sizes), axes=(*(None,) * added, *self.axes))

    def rechunked(self, chunks: dict[int, tuple[int, ...]]) -> Tensor:
        """The same in other blocks, given by dimension."""
        wanted = {axis: sizes for d, sizes in chunks.items() if (axis := self.axes[d]) is not None}
        return replace(self, array=rechunked(self.array, wanted))


def as_tensor(given: Any, subject: str, field: str) -> Tensor:
    """A dask array, or an array beside one, as a tensor."""
    held = None if isinstance(given, da.Array) else _in_memory(given, subject, field)
    array = given if held is None else _made_lazy(held)
    if not is_known(array):
        rule, way_out = f"{field} must have blocks of known sizes", "call its compute_chunk_sizes() first"
        raise DescriptionError(subject, Fault(field=field, rule=rule, found=str(array.chunks), way_out=way_out))
    try:
        kind = DataType.UINT8 if array.dtype == np.bool_ else DataType(array.dtype)
    except ValueError:
        rule = f"{field} must have a type that DirectML has"
        raise DescriptionError(subject, Fault(field=field, rule=rule, found=str(array.dtype))) from None
    return replace(Tensor.of(array, kind), held=held)


def _in_memory(given: Any, subject: str, field: str) -> Any:
    """A host array, or a GPU's that Dask knows."""
    if not hasattr(given, "dtype") or not hasattr(given, "shape") or type(given).__module__.startswith("torch"):
        try:
            given = np.asarray(given)
        except Exception as error:
            rule = f"{field} must be an array, beside a dask array"
            fault = Fault(field=field, rule=rule, value=given, found=describe(given), way_out=show(error))
            raise DescriptionError(subject, fault) from error
    return given


def _made_lazy(given: Any) -> Any:
    """An array in memory as a dask array: one block where it is small."""
    is_small = given.dtype.itemsize * int(np.prod(given.shape, dtype=object)) <= _SMALL
    return da.from_array(given, chunks=-1 if is_small or not given.shape else "auto")
