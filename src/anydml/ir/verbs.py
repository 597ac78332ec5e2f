"""The verbs: what can happen to data, as small frozen values. Operators lower to them, engines carry them out."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from anydml.ir.expressions import Expr
    from anydml.ir.views import View


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
class Check:
    """Before anything is written, each tuple of indices must lie in its dimensions, else it is an `IndexFault`.

    A negative index of a signed type counts from the end. A check is apart from a map's walk: whatever becomes of that,
    all tuples are looked at.
    """

    indices: View
    """The last dimension holds the coordinates of a tuple."""
    sizes: tuple[int, ...]
    """Of the dimensions that a tuple chooses from."""
    dimension: int = 0
    """The number of the first of them, as a fault names it."""
    node: str = field(default="", compare=False)
    """What asks for it, in a graph."""


class Write(NamedTuple):
    """A target beside the first, and what it holds."""

    target: View
    value: Expr


@dataclass(frozen=True, slots=True)
class Map:
    """target[i] = value, an expression of source[i] for each source, and of i: all views have the same sizes.

    But for sources that the expression fetches from, at indices that it computes: those have sizes of their own. A map
    that fetches writes over none of its sources. `checks` come first.

    Conversions in it are Direct3D's. A float becomes the nearest of a narrower type, ties to even, and an infinity
    past the largest; NaN stays NaN. To an integer type a float loses its fraction, what lies outside takes the nearest
    end of the range, and NaN is 0. Between integer types bits are cut off, or the sign continued; from an integer a
    float is the nearest, rounded once. A load alone moves bits, whatever they mean. The target may be the very memory
    of a source whose elements lie alike and are equally wide.

    A map may have several targets, each with a value of its own, in one walk. No two of them share memory, and each may
    be the memory of a source: all values of an element are computed before one of them is written.
    """

    sources: tuple[View, ...]
    target: View
    value: Expr
    checks: tuple[Check, ...] = ()
    also: tuple[Write, ...] = ()
    """The targets beside the first."""

    @property
    def source(self) -> View:
        """The first."""
        return self.sources[0]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the walk."""
        return self.target.sizes


@dataclass(frozen=True, slots=True)
class Reduce:
    """target[i] = value, an expression with folds over the last `depth` dimensions: the rows.

    All views have the same sizes, but for the target, which may have sizes of 1 in the dimensions that are folded: then
    it holds a value for each row, and what stands outside of the folds does not vary along the row. Otherwise it holds
    one for each element, as a softmax does. The order in which a fold goes through a row is the schedule's, and the
    same for any number of threads. With a value for each element the target may be the very memory of a source whose
    elements lie alike and are equally wide. Fetches and checks are as in a `Map`, and so are several targets: each has
    a value for each row, or for each element.
    """

    sources: tuple[View, ...]
    target: View
    value: Expr
    depth: int
    checks: tuple[Check, ...] = ()
    rows: tuple[int, ...] = ()
    """The sizes of the dimensions that are folded. Left out, they are the first source's, which is then loaded from."""
    also: tuple[Write, ...] = ()
    """The targets beside the first."""

    def __post_init__(self) -> None:
        if not self.rows:
            whole = (*self.sources, self.target)[0].sizes
            object.__setattr__(self, "rows", whole[len(whole) - self.depth :])

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the walk: the rows' places, then those within a row."""
        return (*self.target.sizes[: len(self.target.sizes) - self.depth], *self.rows)

    @property
    def is_by_row(self) -> bool:
        """Whether there is one value for each row, in every target."""
        return all(map(self.has_rows, targets_of(self)))

    def has_rows(self, target: View) -> bool:
        """Whether a target has one value for each row."""
        return target.sizes[len(target.sizes) - self.depth :] != self.rows


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


@dataclass(frozen=True, slots=True)
class Repeat:
    """Steps again and again: the first dimension of all their views is time, and all steps are run at one time after
    another.

    So a step may read what a later one wrote the time before, from a view that begins one time earlier. What is the
    same at every time, or is written over each time, has a stride of 0 there. Steps fold nothing along time, and have
    neither coordinates, nor fetches, nor checks. No rule looks inside: engines run it as one program.
    """

    steps: tuple[Map | Reduce, ...]

    @property
    def target(self) -> View:
        """The first."""
        return self.steps[0].target

    @property
    def times(self) -> int:
        """How often."""
        return self.steps[0].sizes[0]


Primitive: TypeAlias = Map | Reduce | Scan | Repeat
Computed = TypeVar("Computed", bound=Map | Reduce)
AnyVerb = TypeVar("AnyVerb", bound=Primitive)


def sources_of(primitive: Primitive) -> tuple[View, ...]:
    """The views that a primitive reads, those of its checks last."""
    if isinstance(primitive, Repeat):
        return tuple(view for step in primitive.steps for view in step.sources)
    if isinstance(primitive, Scan):
        return (primitive.source,)
    return (*primitive.sources, *(check.indices for check in primitive.checks))


def checks_of(primitive: Primitive) -> tuple[Check, ...]:
    """What is checked before a primitive writes."""
    return () if isinstance(primitive, (Scan, Repeat)) else primitive.checks


def targets_of(primitive: Primitive) -> tuple[View, ...]:
    """The views that a primitive writes."""
    if isinstance(primitive, Repeat):
        return tuple(view for step in primitive.steps for view in targets_of(step))
    also = () if isinstance(primitive, Scan) else primitive.also
    return (primitive.target, *(write.target for write in also)) if also else (primitive.target,)


def values_of(primitive: Map | Reduce) -> tuple[Expr, ...]:
    """What is computed for each target."""
    return (primitive.value, *(write.value for write in primitive.also))


def views_of(primitive: Primitive) -> tuple[View, ...]:
    """The views that a primitive reads and writes, those written last."""
    return (*sources_of(primitive), *targets_of(primitive))


def writing(primitive: AnyVerb, change: Callable[[View], View]) -> AnyVerb:
    """The same primitive with the views that it writes changed."""
    if isinstance(primitive, Repeat):
        return replace(primitive, steps=tuple(writing(step, change) for step in primitive.steps))
    if isinstance(primitive, Scan) or not primitive.also:
        return replace(primitive, target=change(primitive.target))
    also = tuple(write._replace(target=change(write.target)) for write in primitive.also)
    return replace(primitive, target=change(primitive.target), also=also)


def computing(primitive: Computed, change: Callable[[Expr], Expr]) -> Computed:
    """The same verb with its values changed."""
    also = tuple(write._replace(value=change(write.value)) for write in primitive.also)
    return replace(primitive, value=change(primitive.value), also=also)


def reading(primitive: AnyVerb, change: Callable[[View], View]) -> AnyVerb:
    """The same primitive with the views that it reads changed."""
    if isinstance(primitive, Repeat):
        return replace(primitive, steps=tuple(reading(step, change) for step in primitive.steps))
    if isinstance(primitive, Scan):
        return replace(primitive, source=change(primitive.source))
    sources = tuple(map(change, primitive.sources))
    checks = tuple(replace(check, indices=change(check.indices)) for check in primitive.checks)
    return replace(primitive, sources=sources, checks=checks)


class IndexFault(Exception):  # noqa: N818 - not an error to a user: the runtime turns it into an IndexRangeError
    """An index outside its dimension, found before anything was written.

    Without `indices` there was one, and there is none any more: somebody writes to them.
    """

    def __init__(
        self, position: tuple[int, ...], indices: tuple[int, ...], dimension: int, size: int, node: str = ""
    ) -> None:
        super().__init__(position, indices, dimension, size)
        self.position, self.indices, self.dimension, self.size = position, indices, dimension, size
        self.node = node
        """What asked for the check, in a graph."""
