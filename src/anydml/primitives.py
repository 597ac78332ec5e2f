"""The verbs: what can happen to data, as small frozen values. Operators lower to them, engines carry them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from anydml.enums import DataType
    from anydml.tensor import TensorDesc


@dataclass(frozen=True, slots=True)
class View:
    """Part of a bound tensor: element i lies at offset + the sum of i[k]·strides[k], in elements."""

    tensor: str
    """The bind point whose memory this is: `InputTensor`."""
    data_type: DataType
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    """From the tensor's own first element."""

    @classmethod
    def of(cls, tensor: str, desc: TensorDesc) -> View:
        """The whole of a described tensor."""
        return cls(tensor, desc.data_type, desc.sizes, _meaningful(desc.sizes, desc.element_strides))

    def window(self, start: Sequence[int], steps: Sequence[int], sizes: Sequence[int]) -> View:
        """The elements start + steps·i for i below sizes, in each dimension."""
        offset = self.offset + sum(s * stride for s, stride in zip(start, self.strides, strict=True))
        strides = tuple(step * stride for step, stride in zip(steps, self.strides, strict=True))
        return View(self.tensor, self.data_type, tuple(sizes), _meaningful(sizes, strides), offset)

    def last(self, dimension_count: int) -> View:
        """The last dimensions alone; those before them have size 1."""
        first = len(self.sizes) - dimension_count
        return View(self.tensor, self.data_type, self.sizes[first:], self.strides[first:], self.offset)


def _meaningful(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Strides with 0 where a size of 1 leaves them without meaning: there they may be of any size."""
    return tuple(stride if size > 1 else 0 for size, stride in zip(sizes, strides, strict=True))


@dataclass(frozen=True, slots=True)
class StridedCopy:
    """target[i] = source[i]: bits are moved, whatever their type."""

    source: View
    target: View


@dataclass(frozen=True, slots=True)
class IndexedCopy:
    """target[b, t, …] = source[b, indices[b, t], …]: bits are moved.

    The first `batch_rank` dimensions are common to all three views; the last dimension of `indices` holds the
    coordinates of a tuple; what the tuple leaves of the source is copied whole. A negative index of a signed type
    counts from the end.
    """

    source: View
    indices: View
    target: View
    batch_rank: int
    clamp: bool
    """Take the nearest element for an index outside its dimension; otherwise that is an `IndexFault`."""

    @property
    def tuple_size(self) -> int:
        """The coordinates in a tuple."""
        return self.indices.sizes[-1]

    @property
    def indexed_sizes(self) -> tuple[int, ...]:
        """The sizes of the source's dimensions that a tuple chooses from."""
        return self.source.sizes[self.batch_rank : self.batch_rank + self.tuple_size]


@dataclass(frozen=True, slots=True)
class Scan:
    """target[…, i, …] = the sum or the product of source[…, j, …] for j up to i along one axis.

    `reverse` walks from the end; `exclusive` leaves out j = i. FLOAT32 and FLOAT16 accumulate in float64 and round
    once, which makes sums of FLOAT16 exact as long as no partial sum passes 2^29; integers wrap. The source and the
    target may be the same memory.
    """

    source: View
    target: View
    axis: int
    function: Literal["sum", "product"]
    reverse: bool
    exclusive: bool


Primitive: TypeAlias = StridedCopy | IndexedCopy | Scan


def views_of(primitive: Primitive) -> tuple[View, ...]:
    """The views that a primitive reads and writes, the written one last."""
    if isinstance(primitive, IndexedCopy):
        return primitive.source, primitive.indices, primitive.target
    return primitive.source, primitive.target


class IndexFault(Exception):  # noqa: N818 - not an error to a user: the runtime turns it into an IndexRangeError
    """An index outside its dimension, found before anything was written."""

    def __init__(self, position: tuple[int, ...], indices: tuple[int, ...], dimension: int, size: int) -> None:
        super().__init__(position, indices, dimension, size)
        self.position, self.indices, self.dimension, self.size = position, indices, dimension, size
        self.step = 0
        """The step of a graph that found it, by number."""
