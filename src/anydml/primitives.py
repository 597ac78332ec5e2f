"""The verbs: what can happen to data, as small frozen values. Operators lower to them, engines carry them out."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
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

    def pick(self, dimensions: Sequence[int]) -> View:
        """The same elements with the dimensions in another order."""
        sizes, strides = ([of[k] for k in dimensions] for of in (self.sizes, self.strides))
        return View(self.tensor, self.data_type, tuple(sizes), tuple(strides), self.offset)

    def last(self, dimension_count: int) -> View:
        """The last dimensions alone; those before them have size 1."""
        first = len(self.sizes) - dimension_count
        return View(self.tensor, self.data_type, self.sizes[first:], self.strides[first:], self.offset)


def _meaningful(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Strides with 0 where a size of 1 leaves them without meaning: there they may be of any size."""
    return tuple(stride if size > 1 else 0 for size, stride in zip(sizes, strides, strict=True))


class Exact:
    """For dataclasses with numbers in them: 0.0 and -0.0 are equal, and do not compute the same."""

    __slots__ = ()

    def _key(self) -> tuple[Any, ...]:
        values = (getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]  # a dataclass
        return tuple(repr(value) if isinstance(value, float) else value for value in values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Exact) and type(other) is type(self) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


@dataclass(frozen=True, slots=True)
class StridedCopy:
    """target[i] = source[i]: bits are moved, whatever their type."""

    reads: ClassVar[tuple[str, ...]] = ("source",)
    """The fields that are views it reads, in binding order: the one it writes is `target`."""

    source: View
    target: View


@dataclass(frozen=True, slots=True)
class IndexedCopy:
    """target[b, t, …] = source[b, indices[b, t], …]: bits are moved.

    The first `batch_rank` dimensions are common to all three views; the last dimension of `indices` holds the
    coordinates of a tuple; what the tuple leaves of the source is copied whole. A negative index of a signed type
    counts from the end.
    """

    reads: ClassVar[tuple[str, ...]] = ("source", "indices")

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

    reads: ClassVar[tuple[str, ...]] = ("source",)

    source: View
    target: View
    axis: int
    function: Literal["sum", "product"]
    reverse: bool
    exclusive: bool


@dataclass(frozen=True, slots=True, eq=False)
class Map(Exact):
    """target[i] = source[i]·scale + bias, made a number of the target's type.

    With a scale of 1 and a bias of 0 nothing is computed: the number alone is converted. Otherwise it is computed in
    float64, a product and then a sum, each rounded for itself. A float becomes the nearest of a narrower type, ties
    to even, and an infinity past the largest; NaN stays NaN. To an integer type a float loses its fraction, what lies
    outside takes the nearest end of the range, and NaN is 0, as Direct3D has it. Between integer types bits are cut
    off, or the sign continued; from an integer a float is the nearest, rounded once. The source and the target may be
    the same memory where their elements are equally wide.
    """

    reads: ClassVar[tuple[str, ...]] = ("source",)

    source: View
    target: View
    scale: float = 1.0
    bias: float = 0.0

    @property
    def is_conversion(self) -> bool:
        """Whether numbers are converted alone."""
        return self.scale == 1.0 and self.bias == 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Fill(Exact):
    """target[i] = start + n·delta, where n counts the elements in the coordinates' order, the last running fastest.

    FLOAT types compute in float64, a product and then a sum, each rounded for itself, and round once more when an
    element is written; integers wrap. A delta of 0 leaves `start` as it is, -0.0 and NaN included.
    """

    reads: ClassVar[tuple[str, ...]] = ()

    target: View
    start: int | float
    """A number of the target's type: an int for an integer type, a float otherwise."""
    delta: int | float


@dataclass(frozen=True, slots=True)
class Reverse:
    """target[…, i, …] = source[…, n - 1 - i, …] for i below n, and source[…, i, …] from there on: bits are moved.

    n is lengths[…, 0, …], at most the size of the axis: `lengths` has the source's sizes, but 1 along the axis, and
    is of an unsigned type.
    """

    reads: ClassVar[tuple[str, ...]] = ("source", "lengths")

    source: View
    lengths: View
    target: View
    axis: int


Primitive: TypeAlias = StridedCopy | IndexedCopy | Scan | Map | Fill | Reverse


def views_of(primitive: Primitive) -> tuple[View, ...]:
    """The views that a primitive reads and writes, the written one last."""
    return (*(getattr(primitive, name) for name in primitive.reads), primitive.target)


def reading(primitive: Primitive, change: Callable[[View], View]) -> Primitive:
    """The same primitive with the views that it reads changed."""
    changed: dict[str, Any] = {name: change(getattr(primitive, name)) for name in primitive.reads}
    return replace(primitive, **changed)


class IndexFault(Exception):  # noqa: N818 - not an error to a user: the runtime turns it into an IndexRangeError
    """An index outside its dimension, found before anything was written.

    Without `indices` there was one, and there is none any more: somebody writes to them.
    """

    def __init__(self, position: tuple[int, ...], indices: tuple[int, ...], dimension: int, size: int) -> None:
        super().__init__(position, indices, dimension, size)
        self.position, self.indices, self.dimension, self.size = position, indices, dimension, size
        self.step = 0
        """The step of a graph that found it, by number."""
