"""Rows: what is computed along the same rows, step by step, becomes one pass over them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeGuard

from anydml.enums import DataType
from anydml.graph.recipe import distinct_sizes
from anydml.graph.rules.fuse import MOST_SOURCES, MOST_WORK, REPEATED_WORK, inlined, with_leaves, work
from anydml.graph.rules.passes import reads_in_passes, work_in_passes
from anydml.graph.rules.steps import Draft, joined
from anydml.graph.views import trace
from anydml.ir.expressions import const, coordinate, load
from anydml.ir.patterns import match_contraction
from anydml.ir.trees import fetched
from anydml.ir.verbs import Map, Reduce, checks_of
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.graph.recipe import Recipe
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Primitive

Computed: TypeAlias = Map | Reduce

WORK_IN_ROWS = 128
"""Operations, over all passes along a row, of what is computed again in each: a row stays in the cache meanwhile.

Without a limit ten softmaxes on end, which are 20 passes, took 12 times as long as one after the other.
"""


def rows(recipe: Recipe) -> Recipe:
    """A step takes in the steps before it that only it, and what it took in already, reads the results of.

    Reduces along the same rows and maps over their elements become one: a softmax of five nodes, or a layer norm of
    nine, reads its input once. What follows a product of matrices element by element is computed as it is written.
    """
    draft = Draft(recipe)
    makers = {
        step.target.tensor: number
        for number, step in draft.steps.items()
        if _is_plain(step.primitive) and draft.is_own(step.target)
        if not draft.is_constant(step) or _unpacks(step.primitive)
    }
    if any(isinstance(step.primitive, Reduce) for step in recipe.steps):  # maps alone are fused
        for number in reversed(range(len(recipe.steps))):
            if number in draft.steps:
                _take_in(draft, number, makers)
    return draft.recipe()


def _take_in(draft: Draft, number: int, makers: Mapping[str, int]) -> None:
    step = draft.steps[number]
    current = step.primitive
    if not _is_plain(current):
        return
    nodes, taken, reduces = step.nodes, {number}, isinstance(current, Reduce)
    apart = work_in_passes(current)
    """The work of the steps so far, each for itself."""
    pending = {makers[view.tensor] for view in current.sources if view.tensor in makers}
    while pending:
        before = max(pending)  # whoever reads its result comes after it, and is part of the step already, or stays
        pending.discard(before)
        other = draft.steps[before]
        made = other.primitive
        assert isinstance(made, (Map, Reduce))  # noqa: S101 - for type checkers
        is_product = isinstance(current, Reduce) and match_contraction(current) is not None
        may = draft.readers(other.target.tensor).keys() <= taken and (is_product or not draft.is_constant(other))
        merged = _merged(made, current) if may else None
        if merged is None or len(merged.sources) > MOST_SOURCES or work(merged.value) > MOST_WORK:
            continue
        if work_in_passes(merged) > apart + work_in_passes(made) + WORK_IN_ROWS:
            continue
        apart += work_in_passes(made)
        current, nodes = merged, joined(other.nodes, nodes)
        reduces |= isinstance(made, Reduce)
        taken.add(before)
        pending |= {makers[view.tensor] for view in made.sources if view.tensor in makers}
    if len(taken) > 1 and reduces:
        draft.put({number: replace(step, primitive=current, nodes=nodes)})
        for one in taken - {number}:
            draft.drop(one)


def _is_plain(primitive: Primitive) -> TypeGuard[Computed]:
    """Whether it is a map or a reduce that neither fetches nor checks, which rows do not."""
    if not isinstance(primitive, (Map, Reduce)):
        return False
    return not checks_of(primitive) and not fetched(primitive.value)


def _merged(made: Computed, reader: Computed) -> Computed | None:
    if isinstance(made, Reduce):
        return _along_rows(made, reader)
    if isinstance(reader, Reduce) and match_contraction(reader):
        return inlined(made, reader) if _unpacks(made) else None
    slots = [slot for slot, view in enumerate(reader.sources) if view.tensor == made.target.tensor]
    times = sum(math.prod(reader.sources[slot].sizes) for slot in slots) / math.prod(made.target.sizes)
    again = sum(any(slot in slots for slot in read) for read in reads_in_passes(reader))
    is_little = work(made.value) * times * again <= REPEATED_WORK
    is_in_cache = times <= 1 and work(made.value) * again <= WORK_IN_ROWS
    return inlined(made, reader) if is_little or is_in_cache else None


def _unpacks(primitive: Computed) -> bool:
    """Whether a map writes at least twice what it reads: numbers of few bits, which a product takes as they lie.

    Other maps are better computed where their sources are, as part of what makes those.
    """
    if isinstance(primitive, Reduce):
        return False
    read, written = (
        sum(math.prod(distinct_sizes(view)) * view.data_type.size_in_bytes for view in views)
        for views in (primitive.sources, (primitive.target,))
    )
    return bool(primitive.sources) and 2 * read <= written


class _Home(NamedTuple):
    """Where the dimensions of one walk are in another."""

    kept: dict[int, int]
    rows: dict[int, int]

    @property
    def both(self) -> dict[int, int]:
        return {**self.kept, **self.rows}


def _along_rows(made: Reduce, reader: Computed) -> Reduce | None:
    """A reader of a reduce that goes along the same rows, or takes one value after the other, with the reduce in it."""
    (view, *others) = dict.fromkeys(view for view in reader.sources if view.tensor == made.target.tensor)
    made = _split(made, view)
    home = None if others else _home(made, reader, view)
    if home is None:
        return None
    sizes = walk_sizes(reader)
    inner = [home.rows[k] for k in sorted(home.rows)]
    """The reader's dimensions that are the rows."""
    outer = [m for m in range(len(sizes)) if m not in inner]
    order, added = [*outer, *inner], 0
    if not inner:  # one value after the other: rows are where the reduce has them, the reader knows nothing of them
        added = made.depth
    place = {m: position for position, m in enumerate(order)}
    kept = len(made.sizes) - made.depth
    to = {k: place[m] for k, m in home.both.items()}
    if added:
        to |= {k: len(order) + k - kept for k in range(kept, len(made.sizes))}
    rows_of = made.sizes[kept:] if added else ()
    walk_of = (*(sizes[m] for m in order), *rows_of)

    def turned(one: View) -> View:
        moved = one.pick(order)
        return replace(moved, sizes=walk_of, strides=(*moved.strides, *(0,) * added))

    def placed(one: View) -> View:
        strides = [0] * len(walk_of)
        for k, stride in enumerate(one.strides):
            if k in to:
                strides[to[k]] = stride
        return View(one.tensor, one.data_type, walk_of, tuple(strides), one.offset)

    sources: dict[View, int] = {}
    own = [sources.setdefault(placed(one), len(sources)) for one in made.sources]
    value = with_leaves(
        made.value,
        {slot: load(new, made.sources[slot].data_type) for slot, new in enumerate(own)},
        {k: coordinate(to[k]) if k in to else const(0, DataType.INT64) for k in range(len(made.sizes))},
    ).bits(view.data_type)
    instead = {
        slot: value
        if one is view or one == view
        else load(sources.setdefault(turned(one), len(sources)), one.data_type)
        for slot, one in enumerate(reader.sources)
    }
    target = reader.target.pick(order)
    if added:
        target = replace(target, sizes=(*target.sizes, *(1,) * added), strides=(*target.strides, *(0,) * added))
    whole = with_leaves(reader.value, instead, {m: coordinate(position) for m, position in place.items()})
    return Reduce(tuple(sources), target, whole, added or len(inner))


def _split(made: Reduce, view: View) -> Reduce:
    """A reduce whose dimensions are cut where a reader has several for one, as behind a change of shape."""
    found = trace(view, made.target)
    kept, parts = len(made.sizes) - made.depth, [[size] for size in made.sizes]
    for k, steps in enumerate(found.steps[:kept] if found else ()):
        along = sorted(
            ((step, view.sizes[m]) for m, step in enumerate(steps) if step and view.sizes[m] > 1), reverse=True
        )
        reach = [step * size for step, size in along]
        if len(along) > 1 and reach == [made.sizes[k], *(step for step, _ in along[:-1])] and along[-1][0] == 1:
            parts[k] = [size for _, size in along]
    if all(len(part) == 1 for part in parts):
        return made
    places = [sum(map(len, parts[:k])) for k in range(len(parts))]

    def cut(one: View) -> View:
        strides = [
            stride * math.prod(part[i + 1 :])
            for stride, part in zip(one.strides, parts, strict=True)
            for i in range(len(part))
        ]
        sizes = [n if one.sizes[k] > 1 else 1 for k, part in enumerate(parts) for n in part]
        return replace(one, sizes=tuple(sizes), strides=tuple(strides))

    def index(k: int) -> Expr:
        whole = coordinate(places[k])
        for i, size in enumerate(parts[k][1:], start=1):
            whole = whole * size + coordinate(places[k] + i)
        return whole

    value = with_leaves(made.value, {}, {k: index(k) for k in range(len(parts))})
    return Reduce(tuple(map(cut, made.sources)), cut(made.target), value, made.depth)


def walk_sizes(primitive: Computed) -> tuple[int, ...]:
    """The sizes that a map or a reduce goes through."""
    return primitive.sizes if isinstance(primitive, Reduce) else primitive.target.sizes


def _home(made: Reduce, reader: Computed, view: View) -> _Home | None:
    """Where a reader has the dimensions of a reduce that it reads, each whole; None where it does not have them so."""
    found = trace(view, made.target) if view.data_type.size_in_bytes == made.target.data_type.size_in_bytes else None
    if found is None or any(found.first):
        return None
    sizes, kept = walk_sizes(reader), len(made.sizes) - made.depth
    home = _Home({}, {})
    for k, steps in enumerate(found.steps):
        along = [m for m, step in enumerate(steps) if step and sizes[m] > 1]
        if made.target.sizes[k] == 1:
            continue
        if len(along) != 1 or steps[along[0]] != 1 or sizes[along[0]] != made.target.sizes[k]:
            return None
        (home.kept if k < kept else home.rows)[k] = along[0]
    if len(set(home.both.values())) < len(home.both):  # as along a diagonal
        return None
    wide = [m for m, size in enumerate(sizes) if size > 1]
    rest = [m for m in wide if m not in home.both.values()]
    rows = [k for k in range(kept, len(made.sizes)) if made.sizes[k] > 1]
    if made.is_by_row and rest:
        home.rows.update(_rows(made, reader, home.kept, rows, rest))
        rest = [m for m in rest if m not in home.rows.values()]
    if rest or (home.rows and len(home.rows) < len(rows)):
        return None
    if isinstance(reader, Reduce):
        folded = {m for m in wide if m >= len(sizes) - reader.depth}
        if not folded or set(home.rows.values()) != folded:
            return None
    return home


def _rows(
    made: Reduce, reader: Computed, kept: dict[int, int], folded: Sequence[int], rest: Sequence[int]
) -> dict[int, int]:
    """Where a reader has the rows, told by a source that both read alike: what is read anyway is read once."""
    for one in made.sources:
        for other in reader.sources:
            if (one.tensor, one.data_type, one.offset) != (other.tensor, other.data_type, other.offset):
                continue
            if any(one.strides[k] != other.strides[m] for k, m in kept.items()):
                continue
            free, found = list(rest), {}
            for k in folded:
                alike = [m for m in free if other.strides[m] == one.strides[k] and other.sizes[m] == one.sizes[k]]
                if not alike or not one.strides[k]:
                    break
                found[k] = alike[0]
                free.remove(alike[0])
            if len(found) == len(folded) and not free:
                return found
    return {}
