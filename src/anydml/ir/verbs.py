"""The verbs: what can happen to data, as small frozen values. Operators lower to them, engines carry them out."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from anydml.ir.expressions import Expr
from anydml.ir.loops import Loops, merge, order, simplify, squeeze
from anydml.ir.trees import fetched, rewrite, walk
from anydml.ir.views import IndexRange

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Literal, Self

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
    sizes: tuple[int, ...] = field(hash=False)
    """Of the dimensions that a tuple chooses from."""
    dimension: int = 0
    """The number of the first of them, as a fault names it."""
    node: str = field(default="", compare=False)
    """The node that asks for it, in a graph."""


class Write(NamedTuple):
    """A target beside the first, and what it holds."""

    target: View
    value: Expr


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)  # verbs have methods of their own
class Primitive:
    """Every layer's questions to a verb: a verb has these fields, others of its own, and answers where it differs."""

    sources: tuple[View, ...]
    """The views that it reads, the indices that it checks aside."""
    target: View
    """The view that it writes, or the first one."""
    checks: tuple[Check, ...] = field(default=(), kw_only=True)
    """Checks before anything is written."""

    @property
    def source(self) -> View:
        """The first."""
        return self.sources[0]

    @property
    def targets(self) -> tuple[View, ...]:
        """The views that it writes."""
        return (self.target,)

    @property
    def reads(self) -> tuple[View, ...]:
        """The views that it reads, those of its checks last."""
        return (*self.sources, *(check.indices for check in self.checks)) if self.checks else self.sources

    @property
    def views(self) -> tuple[View, ...]:
        """The views that it reads and writes, those written last."""
        return (*self.reads, *self.targets)

    @property
    def values(self) -> tuple[Expr, ...]:
        """The expressions that it computes."""
        return ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the walk."""
        return self.target.sizes

    @property
    def depth(self) -> int:
        """The last dimensions of the walk that are folded."""
        return 0

    def has_rows(self, target: View) -> bool:
        """Whether a target has one value for each row."""
        kept = len(target.sizes) - self.depth
        return target.sizes[kept:] != self.sizes[kept:]

    def may_overwrite(self, target: View) -> bool:
        """Whether a target may be the very memory of a source whose elements lie alike and are equally wide."""
        return not self.has_rows(target) and not fetched(*self.values)

    def needed(self, cuts: Sequence[IndexRange]) -> list[IndexRange]:
        """The part of the target that must be computed for the sake of another: rows are whole."""
        kept = len(cuts) - self.depth
        return [*cuts[:kept], *(IndexRange(0, 1, size) for size in self.target.sizes[kept:])]

    def reading(self, change: Callable[[View], View]) -> Self:
        """The same with the views that it reads changed."""
        checks = tuple(replace(check, indices=change(check.indices)) for check in self.checks)
        return replace(self, sources=tuple(map(change, self.sources)), checks=checks)

    def writing(self, change: Callable[[View], View]) -> Self:
        """The same with the views that it writes changed."""
        return replace(self, target=change(self.target))

    def computing(self, change: Callable[[Expr], Expr]) -> Self:  # noqa: ARG002 - for those that compute
        """The same with its expressions changed."""
        return self

    def apart(self) -> tuple[Self, ...]:
        """For each target a verb of its own."""
        return (self,)

    def spelled(self) -> tuple[Primitive, ...]:
        """The verbs for engines without a way for it, through memory that it names: most are the plainest there is."""
        return (self,)

    def taken(self) -> tuple[Primitive, ...]:
        """The verbs for engines that have a way for it."""
        return (self,)


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Computation(Primitive):
    """A verb whose targets each hold an expression of the sources' elements."""

    value: Expr
    also: tuple[Write, ...] = field(default=(), kw_only=True)
    """The targets beside the first."""

    @property
    def targets(self) -> tuple[View, ...]:
        """The views that it writes."""
        return (self.target, *(write.target for write in self.also)) if self.also else (self.target,)

    @property
    def values(self) -> tuple[Expr, ...]:
        """The value of each target."""
        return (self.value, *(write.value for write in self.also))

    @property
    def is_by_row(self) -> bool:
        """Whether there is one value for each row, in every target."""
        return all(map(self.has_rows, self.targets))

    def writing(self, change: Callable[[View], View]) -> Self:
        """The same with the views that it writes changed."""
        also = tuple(write._replace(target=change(write.target)) for write in self.also)
        return replace(self, target=change(self.target), also=also)

    def computing(self, change: Callable[[Expr], Expr]) -> Self:
        """The same with its values changed."""
        also = tuple(write._replace(value=change(write.value)) for write in self.also)
        return replace(self, value=change(self.value), also=also)

    def without_unread(self) -> Self:
        """The same without sources that no value reads, as an index is not whose element was found to be constant."""
        nodes = [node for node in walk(*self.values) if node.op in ("load", "fetch")]
        slots = sorted({int(node.value) for node in nodes})
        if len(slots) == len(self.sources):
            return self
        places = {slot: place for place, slot in enumerate(slots)}

        def change(node: Expr) -> Expr:
            is_read = node.op in ("load", "fetch")
            return Expr(node.op, node.type, node.args, places[int(node.value)]) if is_read else node

        sources = tuple(self.sources[slot] for slot in slots)
        return replace(self, sources=sources).computing(lambda value: rewrite(value, change))

    def apart(self) -> tuple[Self, ...]:
        """For each target a verb of its own."""
        pairs = zip(self.targets, self.values, strict=True)
        return tuple(replace(self, target=target, value=value, also=()) for target, value in pairs)


@dataclass(frozen=True, slots=True)
class Map(Computation):
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


@dataclass(frozen=True, slots=True)
class Reduce(Computation):
    """target[i] = value, an expression with folds over the last `depth` dimensions: the rows.

    All views have the same sizes, but for the target, which may have sizes of 1 in the dimensions that are folded: then
    it holds a value for each row, and what stands outside of the folds does not vary along the row. Otherwise it holds
    one for each element, as a softmax does. The order in which a fold goes through a row is the schedule's, and the
    same for any number of threads. With a value for each element the target may be the very memory of a source whose
    elements lie alike and are equally wide; that of a product of matrices may be the memory of what is added to it.
    Fetches and checks are as in a `Map`, and so are several targets: each has a value for each row, or for each
    element.
    """

    depth: int = field()
    rows: tuple[int, ...] = field(default=(), hash=False)
    """The sizes of the dimensions that are folded. Left out, they are the first source's, which is then loaded from."""

    def __post_init__(self) -> None:
        if not self.rows:
            whole = (*self.sources, self.target)[0].sizes
            object.__setattr__(self, "rows", whole[len(whole) - self.depth :])

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the walk: the rows' places, then those within a row."""
        return (*self.target.sizes[: len(self.target.sizes) - self.depth], *self.rows)


@dataclass(frozen=True, slots=True)
class Scan(Primitive):
    """target[…, i, …] = the sum or the product of source[…, j, …] for j up to i along one axis.

    `reverse` walks from the end; `exclusive` leaves out j = i. FLOAT32 and FLOAT16 accumulate in float64 and round
    once, which makes sums of FLOAT16 exact as long as no partial sum passes 2^29; integers wrap. The source and the
    target may be the same memory.

    A scan of a block has its tallies handed on: a second source holds one for each line, to go on from, and `after` the
    ones to go on with. They are float64 for floats, and of the integers' own type, lie alike, and are memory of their
    own. Without that source the block is the first of its lines.
    """

    axis: int
    function: Literal["sum", "product"]
    reverse: bool
    exclusive: bool
    after: View | None = None
    """Where the tallies of whole lines go, of the target's sizes but for 1 along the axis."""
    in_turn: bool = False
    """Whether floats of a long row are added up one after the other too, where the schedule can; rows of others are."""

    @property
    def targets(self) -> tuple[View, ...]:
        """The target, and where tallies go."""
        return (self.target,) if self.after is None else (self.target, self.after)

    @property
    def before(self) -> View | None:
        """The tallies to go on from."""
        return self.sources[1] if len(self.sources) > 1 else None

    def writing(self, change: Callable[[View], View]) -> Scan:
        """The same with the views that it writes changed."""
        return replace(self, target=change(self.target), after=self.after and change(self.after))

    def needed(self, cuts: Sequence[IndexRange]) -> list[IndexRange]:
        """The part that must be computed for the sake of another: along the axis all from where the walk starts."""
        start, step, size = cuts[self.axis]
        end = start + (size - 1) * step + 1
        along = IndexRange(start, 1, self.sizes[self.axis] - start) if self.reverse else IndexRange(0, 1, end)
        return [*cuts[: self.axis], along, *cuts[self.axis + 1 :]]


@dataclass(frozen=True, slots=True)
class Repeat(Primitive):
    """Steps again and again: the first dimension of their views is time, and all are run at one time after another.

    So a step may read what a later one wrote the time before, from a view that begins one time earlier. What is the
    same at every time, or is written over each time, has a stride of 0 there. Steps fold nothing along time, and have
    neither coordinates, nor fetches, nor checks. Engines run it as one program, and no rule takes it apart.
    """

    steps: tuple[Computation, ...]

    @classmethod
    def of(cls, steps: Sequence[Computation]) -> Repeat:
        """Of steps, whose views are its own."""
        return cls(tuple(view for step in steps for view in step.sources), steps[0].target, tuple(steps))

    @property
    def targets(self) -> tuple[View, ...]:
        """The views that the steps write."""
        return tuple(view for step in self.steps for view in step.targets)

    def may_overwrite(self, target: View) -> bool:  # noqa: ARG002 - as others
        """A step may read at a later time what another would write over."""
        return False

    def needed(self, cuts: Sequence[IndexRange]) -> list[IndexRange]:  # noqa: ARG002 - as others
        """All of it."""
        return [IndexRange(0, 1, size) for size in self.target.sizes]

    def reading(self, change: Callable[[View], View]) -> Repeat:
        """The same with the views that it reads changed."""
        return Repeat.of([step.reading(change) for step in self.steps])

    def writing(self, change: Callable[[View], View]) -> Repeat:
        """The same with the views that it writes changed."""
        return Repeat.of([step.writing(change) for step in self.steps])


@dataclass(frozen=True, slots=True)
class Joined(Primitive):
    """Verbs that an engine carries out as one program, which writes the last one's target alone.

    Such are maps that pad a tensor, and the reduce that alone reads it. It is made when passes are planned, after all
    rules: what passes between its verbs has no memory.
    """

    verbs: tuple[Primitive, ...]

    @classmethod
    def of(cls, verbs: Sequence[Primitive]) -> Joined:
        """Of verbs, whose views are its own but for what passes between them."""
        *before, last = verbs
        between = {view.tensor for verb in before for view in verb.targets} - {last.target.tensor}
        read = (view for verb in verbs for view in verb.reads if view.tensor not in between)
        return cls(tuple(read), last.target, tuple(verbs))

    @property
    def targets(self) -> tuple[View, ...]:
        """The views that are written: of all verbs where they write parts of one tensor."""
        return tuple(view for verb in self.verbs for view in verb.targets if view.tensor == self.target.tensor)

    def may_overwrite(self, target: View) -> bool:  # noqa: ARG002 - as others
        """A source is read until the last element is written."""
        return False

    def reading(self, change: Callable[[View], View]) -> Joined:
        """The same with the views that it reads changed."""
        return Joined.of([verb.reading(change) for verb in self.verbs])

    def writing(self, change: Callable[[View], View]) -> Joined:
        """The same with the views that it writes changed."""
        return Joined.of([verb.writing(change) for verb in self.verbs])


def verbs_of(primitive: Primitive) -> tuple[Primitive, ...]:
    """The verbs of a pass: several where they are one program."""
    return primitive.verbs if isinstance(primitive, Joined) else (primitive,)


Verb = TypeVar("Verb", bound=Primitive)


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
        """The node that asked for the check, in a graph."""


# The verbs that choose where elements go: scatters, and the order of elements.


def _whole(target: View) -> list[IndexRange]:
    return [IndexRange(0, 1, size) for size in target.sizes]


class Walks(NamedTuple):
    """How a scatter is walked: for every batch all tuples, in their order, and the block of each."""

    batches: Loops
    """Over the indices, the updates and the target, from where the first batch's first block begins in each."""
    tuples: Loops
    """Over the indices and the updates, in the order of the coordinates."""
    block: Loops
    """Over the updates and the target."""


@dataclass(frozen=True, slots=True)
class Scatter(Primitive):
    """target = base, and then target[b, indices[b, t], …] = updates[b, t, …] for one tuple t after another.

    The sources are the base, which has the target's sizes, the indices and the updates. The first `batch_rank`
    dimensions are common to all; the last dimension of the indices holds the coordinates of a tuple; what a tuple
    leaves of the target is copied whole. A negative index of a signed type counts from the end. A tuple with an index
    outside its dimension is left out, where no check raises. Of equal tuples the last one stays. The target may be the
    very memory of the base.
    """

    batch_rank: int

    @property
    def indices(self) -> View:
        """Where the updates go."""
        return self.sources[1]

    @property
    def updates(self) -> View:
        """The elements that are written there."""
        return self.sources[2]

    @property
    def tuple_size(self) -> int:
        """The coordinates in a tuple."""
        return self.indices.sizes[-1]

    @property
    def indexed(self) -> slice:
        """The target's dimensions that a tuple chooses from."""
        return slice(self.batch_rank, self.batch_rank + self.tuple_size)

    @property
    def check(self) -> Check:
        """That every index is inside its dimension."""
        return Check(self.indices, self.target.sizes[self.indexed], self.batch_rank)

    def may_overwrite(self, target: View) -> bool:
        """The base may be written over, unless it is told from the others by nothing."""
        return all((view.sizes, view.strides) != (target.sizes, target.strides) for view in self.sources[1:])

    def is_in_place(self, places: Mapping[str, int]) -> bool:
        """Whether the base lies where the target does, by the addresses of their tensors: it need not be copied."""
        source, target = self.source, self.target
        begins = [places[view.tensor] + view.offset * view.data_type.size_in_bytes for view in (source, target)]
        return begins[0] == begins[1] and source.strides == target.strides

    def needed(self, cuts: Sequence[IndexRange]) -> list[IndexRange]:  # noqa: ARG002 - as others
        """All of it: what a tuple names may lie anywhere."""
        return _whole(self.target)

    def walks(self) -> Walks:
        """Its loops, simplified."""
        indices, updates, target, batch = self.indices, self.updates, self.target, self.batch_rank
        rank = len(indices.sizes) - 1
        strides = (indices.strides[batch:rank], updates.strides[batch:rank])
        tuples = Loops(indices.sizes[batch:rank], strides, (0, 0))
        rest = (updates.strides[rank:], target.strides[batch + self.tuple_size :])
        # A block that runs backwards in the target is walked from its other end: that is where every tuple leads to.
        block = simplify(Loops(updates.sizes[rank:], rest, (updates.offset, target.offset)), 1)
        outer = tuple(view.strides[:batch] for view in (indices, updates, target))
        batches = Loops(indices.sizes[:batch], outer, (indices.offset, *block.offsets))
        return Walks(merge(order(squeeze(batches), 2)), merge(squeeze(tuples)), block)

    def begins(self) -> tuple[int, int, int]:
        """Where its walks begin in the updates, the indices and the target, in bytes from the tensors' addresses."""
        indices, updates, target = self.walks().batches.offsets
        width = self.target.data_type.size_in_bytes
        return updates * width, indices * self.indices.data_type.size_in_bytes, target * width


@dataclass(frozen=True, slots=True)
class Sort(Primitive):
    """target[…, r, …] = the place along an axis of the source's element that comes r-th, for as many as there is room.

    The smallest comes first, or the largest; of equal elements the one that lies first. NaN is larger than all numbers,
    and zeros are equal.
    """

    axis: int
    largest: bool

    def may_overwrite(self, target: View) -> bool:  # noqa: ARG002 - as others
        """Places are none of the elements."""
        return False

    def needed(self, cuts: Sequence[IndexRange]) -> list[IndexRange]:  # noqa: ARG002 - as others
        """All of it."""
        return _whole(self.target)
