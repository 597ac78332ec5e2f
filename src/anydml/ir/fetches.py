"""Maps that fetch: gathers and reversals, made and recognised, and views that say what indices need not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from anydml.core.enums import DataType
from anydml.ir.expressions import const, coordinate, fetch, given, load, maximum, minimum, where
from anydml.ir.trees import fetched, loads, rewrite, walk
from anydml.ir.verbs import Check, Map
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Verb

INT64 = DataType.INT64


class Gathered(NamedTuple):
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
    """Whether nothing is checked: for an index outside its dimension the nearest element is taken."""

    @property
    def tuple_size(self) -> int:
        """The coordinates in a tuple."""
        return self.indices.sizes[-1]

    @property
    def indexed_sizes(self) -> tuple[int, ...]:
        """The sizes of the source's dimensions that a tuple chooses from."""
        return self.source.sizes[self.batch_rank : self.batch_rank + self.tuple_size]

    @property
    def check(self) -> Check:
        """That every index is inside its dimension."""
        return Check(self.indices, self.indexed_sizes, self.batch_rank)


class Reversed(NamedTuple):
    """target[…, i, …] = source[…, n - 1 - i, …] for i below n, and source[…, i, …] from there on: bits are moved.

    n is lengths[…, 0, …], at most the size of the axis: `lengths` has the source's sizes, but 1 along the axis, and
    is of an unsigned type.
    """

    source: View
    lengths: View
    target: View
    axis: int


def nearest(index: Expr, size: int) -> Expr:
    """An index as one of 0 .. size - 1: one below 0 counts from the end, and one outside is the nearest inside."""
    assert index.type is not None  # noqa: S101 - for type checkers: indices are numbers
    if not index.type.is_signed:  # clamped in its own type: 2^64 - 1 must not turn into -1
        return minimum(index, given(size - 1, index.type)).to(INT64)
    return _inside(index.to(INT64), given(size, INT64), given(size - 1, INT64))


def _inside(index: Expr, size: Expr, last: Expr) -> Expr:
    return minimum(maximum(where(index < 0, index + size, index), 0), last)


def nearest_to(node: Expr) -> Expr | None:
    """The index that a node is the nearest inside to; None for what `nearest` did not make. Sizes may be open."""
    near = node.args[0] if node.op == "cast" else node
    if near.op != "where" or near.args[2].op != "given" or near.type is None or near.type.is_float:
        return None
    index, last = near.args[1:]
    if node.op == "cast":
        is_made = not near.type.is_signed and minimum(index, last).to(INT64) is node
        return index if is_made else None
    for place in (1, 2):  # as one above 0, and as one that may count from the end
        if index.op != "where":
            return None
        below, index = index.args[1], index.args[place]
    size = below.args[-1] if below.args else below
    if size.op != "given" or not size.type is index.type is INT64 or size.value != last.value + 1:
        return None
    return index if _inside(index, size, last) is node else None


def gathered(source: View, indices: View, target: View, batch_rank: int, *, clamp: bool) -> Map:
    """The map of a `Gathered`; without `clamp` an index outside its dimension is an `IndexFault`."""
    rank = len(indices.sizes) - 1
    strides = (*indices.strides[:-1], *[0] * (len(target.sizes) - rank))
    made = Gathered(source, indices, target, batch_rank, clamp)
    coordinates = [
        View(indices.tensor, indices.data_type, target.sizes, strides, indices.offset + k * indices.strides[-1])
        for k in range(made.tuple_size)
    ]
    chosen = [nearest(load(1 + k, indices.data_type), size) for k, size in enumerate(made.indexed_sizes)]
    at = [*map(coordinate, range(batch_rank)), *chosen, *map(coordinate, range(rank, len(target.sizes)))]
    value = fetch(0, source.data_type, at)
    return Map((source, *coordinates), target, value, checks=() if clamp else (made.check,))


def match_gathered(primitive: Map) -> Gathered | None:
    """The `Gathered` of a map that `gathered` made, narrowed or not; None for other maps. The checks may be any."""
    value, target = primitive.value, primitive.target
    if value.op != "fetch" or primitive.also:
        return None
    source = primitive.sources[int(value.value)]
    slots = [_chosen_by(index, size) for index, size in zip(value.args, source.sizes, strict=True)]
    places = [k for k, slot in enumerate(slots) if slot is not None]
    if not places or places != list(range(places[0], places[-1] + 1)):
        return None
    batch, depth = places[0], len(places)
    rest = len(source.sizes) - batch - depth
    rank = len(target.sizes) - rest
    along = [*range(batch), *places, *range(rank, rank + rest)]
    if rank < batch or any(slot is None and not _is_at(value.args[k], along[k]) for k, slot in enumerate(slots)):
        return None
    indices = _tuples([primitive.sources[slot] for slot in slots if slot is not None], rank)
    if indices is None:
        return None
    sizes = [None if slot is not None else target.sizes[along[k]] for k, slot in enumerate(slots)]
    return Gathered(_spread(source, value, sizes), indices, target, batch, not primitive.checks)


def reversal(source: View, lengths: View, target: View, axis: int) -> Map:
    """The map of a `Reversed`."""
    counts = replace(lengths, sizes=source.sizes, strides=_without(lengths.strides, axis))
    at = [coordinate(k) for k in range(len(source.sizes))]
    at[axis] = _turn(at[axis], load(1, lengths.data_type), source.sizes[axis])
    return Map((source, counts), target, fetch(0, source.data_type, at))


def match_reversed(primitive: Map) -> Reversed | None:
    """The `Reversed` of a map that `reversal` made, narrowed or not, but not along the axis; None for other maps."""
    value, target = primitive.value, primitive.target
    if value.op != "fetch" or primitive.checks or primitive.also:
        return None
    source = primitive.sources[int(value.value)]
    others = [k for k, index in enumerate(value.args) if not _is_at(index, k)]
    if len(others) != 1 or len(source.sizes) != len(target.sizes):
        return None
    (axis,) = others
    found, size = loads(value.args[axis]), source.sizes[axis]
    if len(found) != 1 or size != target.sizes[axis] or _turn(coordinate(axis), found[0], size) is not value.args[axis]:
        return None
    lengths = primitive.sources[int(found[0].value)]
    if lengths.strides[axis] and size > 1:
        return None
    counts = replace(lengths, sizes=(*lengths.sizes[:axis], 1, *lengths.sizes[axis + 1 :]))
    sizes = [None if k == axis else size for k, size in enumerate(target.sizes)]
    return Reversed(_spread(source, value, sizes), counts, target, axis)


def settled(primitive: Verb) -> Verb:
    """The same verb, which fetches at i what it fetched at start + step·i: from a window of the source."""
    values, sources, sizes = primitive.values, list(primitive.sources), primitive.sizes
    lines: dict[tuple[int, int], Line] = {}
    for slot in fetched(*values):
        nodes = [node for node in walk(*values) if node.op == "fetch" and node.value == slot]
        start, steps, kept = [0] * len(sources[slot].sizes), [1] * len(sources[slot].sizes), list(sources[slot].sizes)
        for k in range(len(kept)):
            found = {line_of(node.args[k]) for node in nodes}
            line = found.pop()
            if line is None or found or len(line.steps) > 1:
                continue
            lines[slot, k] = line
            ((dimension, step),) = line.steps or ((None, 0),)
            start[k], steps[k] = line.start, step
            kept[k] = 1 if dimension is None else sizes[dimension]
        sources[slot] = sources[slot].window(start, steps, kept)
    if not lines:
        return primitive

    def change(node: Expr) -> Expr:
        if node.op != "fetch":
            return node
        slot = int(node.value)
        assert node.type is not None  # noqa: S101 - for type checkers: what is fetched has a type
        args = [lines[slot, k].inside if (slot, k) in lines else index for k, index in enumerate(node.args)]
        return fetch(slot, node.type, args)

    return replace(primitive, sources=tuple(sources)).computing(lambda value: rewrite(value, change))


class Line(NamedTuple):
    """The indices start + Σ step·coordinate, for steps along some dimensions of a map."""

    start: int
    steps: tuple[tuple[int, int], ...] = ()
    """Each dimension with its step, which is not 0."""

    @property
    def inside(self) -> Expr:
        """Where a window that has these indices alone, along one dimension, has them."""
        return coordinate(self.steps[0][0]) if self.steps else const(0, INT64)

    @property
    def value(self) -> Expr:
        """The indices as an expression."""
        found = const(self.start, INT64)
        for dimension, step in self.steps:
            part = coordinate(dimension) if step == 1 else coordinate(dimension) * step
            found = part if found is const(0, INT64) else found + part
        return found


def line_of(node: Expr) -> Line | None:
    """An index as a line; None for what is not one."""
    if node.op in ("const", "given"):
        return Line(int(node.value))
    if node.op == "coordinate":
        return Line(0, ((int(node.value), 1),))
    if node.op not in ("add", "sub", "mul"):
        return None
    a, b = map(line_of, node.args)
    if a is None or b is None or (node.op == "mul" and a.steps and b.steps):
        return None
    if node.op == "mul":
        line, times = (b, a.start) if b.steps else (a, b.start)
        return _summed((line, times))
    return _summed((a, 1), (b, -1 if node.op == "sub" else 1))


def _summed(*terms: tuple[Line, int]) -> Line:
    """Σ line·times."""
    steps: Counter[int] = Counter()
    for line, times in terms:
        steps.update({dimension: step * times for dimension, step in line.steps})
    kept = tuple((dimension, step) for dimension, step in sorted(steps.items()) if step)
    return Line(sum(line.start * times for line, times in terms), kept)


def _is_at(index: Expr, dimension: int) -> bool:
    """Whether an index is the coordinate itself, or the only one that there is."""
    return index is coordinate(dimension) or index is const(0, INT64)


def _chosen_by(index: Expr, size: int) -> int | None:
    """The source whose elements an index is the nearest to."""
    found = loads(index)
    return int(found[0].value) if len(found) == 1 and nearest(found[0], size) is index else None


def _turn(place: Expr, length: Expr, size: int) -> Expr:
    """The place that an element comes from."""
    assert length.type is not None  # noqa: S101 - for type checkers: lengths are numbers
    count = minimum(length, given(size, length.type)).to(INT64)
    return where(place < count, count - 1 - place, place)


def _tuples(coordinates: Sequence[View], rank: int) -> View | None:
    """The view of tuples whose coordinates some views are, in as many dimensions; None where there is none."""
    first = coordinates[0]
    step = coordinates[1].offset - first.offset if len(coordinates) > 1 else 0
    if any(stride and size > 1 for size, stride in zip(first.sizes[rank:], first.strides[rank:], strict=True)):
        return None
    if any(view != replace(first, offset=first.offset + k * step) for k, view in enumerate(coordinates)):
        return None
    sizes, strides = (*first.sizes[:rank], len(coordinates)), (*first.strides[:rank], step)
    return View(first.tensor, first.data_type, sizes, strides, first.offset)


def _spread(source: View, value: Expr, sizes: Sequence[int | None]) -> View:
    """A source with the sizes of the target, its only element repeated where an index is 0; None leaves a size."""
    kept = [size if wanted is None else wanted for size, wanted in zip(source.sizes, sizes, strict=True)]
    steps = [int(index is not const(0, INT64)) for index in value.args]
    return source.window([0] * len(kept), steps, kept)


def _without(strides: Sequence[int], axis: int) -> tuple[int, ...]:
    return tuple(0 if k == axis else stride for k, stride in enumerate(strides))
