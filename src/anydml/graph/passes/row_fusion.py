"""Row fusion, a pass of the optimiser's rounds: reduces along the same rows, and maps around them, become one step."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from anydml.core.enums import DataType
from anydml.core.symbolic_sizes import as_long, is_open
from anydml.graph.passes.draft import Draft, joined
from anydml.graph.passes.fusion import (
    MOST_SOURCES,
    MOST_WORK,
    REPEATED_WORK,
    Sources,
    fetches_well,
    inlined,
    with_leaves,
    work,
    work_of,
)
from anydml.graph.passes.prologue_fusion import factor, size_of, unpacks
from anydml.graph.passes.splitting import cut_for
from anydml.ir.blocked_weights import match_weights
from anydml.ir.contraction import is_product, match_contraction
from anydml.ir.expressions import FOLDS, const, coordinate
from anydml.ir.fetches import match_gathered
from anydml.ir.patterns import match_lookup
from anydml.ir.trees import fetched, walk
from anydml.ir.verbs import Computation, Map, Reduce, Write
from anydml.ir.views import View, trace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.graph.recipe import Recipe
    from anydml.ir.expressions import Expr

# Passes: how often a step goes along its rows, a time for each fold and one more, and what it does each time.


def reads_in_passes(reader: Computation) -> list[set[int]]:
    """The reads in each fold, and outside of all of them."""
    read: dict[Expr | None, set[int]] = {None: set()}
    for node, around in _homes(reader.values).items():
        if node.op == "load":
            for one in around:
                read.setdefault(one, set()).add(int(node.value))
    return list(read.values())


@functools.lru_cache(maxsize=512)
def _homes(values: tuple[Expr, ...]) -> dict[Expr, set[Expr | None]]:
    """The folds that each node is computed in; None stands for outside of all."""
    homes: dict[Expr, set[Expr | None]] = {value: {None} for value in values}
    for node in reversed(list(walk(*values))):
        around = {node} if node.op in FOLDS else homes[node]
        for arg in node.args:
            homes.setdefault(arg, set()).update(around)
    return homes


def work_in_passes(primitive: Computation) -> int:
    """The operations for an element, over all passes along its row; what is the same along the row is none."""
    kept = len(primitive.sizes) - primitive.depth if primitive.depth else 0
    return _work_in_passes(primitive.values, kept, tuple(any(view.strides[kept:]) for view in primitive.sources))


@functools.lru_cache(maxsize=1024)
def _work_in_passes(values: tuple[Expr, ...], kept: int, moves: tuple[bool, ...]) -> int:
    """Where the rows' dimensions begin at `kept`, and sources vary along them or not."""
    homes, varying, total = _homes(values), set(), 0
    for node in walk(*values):
        if node.op == "load":
            varies = moves[int(node.value)]
        elif node.op == "coordinate":
            varies = int(node.value) >= kept
        else:
            varies = node.op not in FOLDS and any(arg in varying for arg in node.args)
        if varies:
            varying.add(node)
            total += work_of(node) * len(homes[node])
    return total


WORK_IN_ROWS = 128
"""Operations, over all passes along a row, of what is computed again in each: a row stays in the cache meanwhile.

Without a limit ten softmaxes on end, which are 20 passes, took 12 times as long as one after the other.
"""


FAR = 4 * 1024 * 1024
"""Bytes from which on rows are gathered by themselves, far ahead: normalised at once 1.5 MiB take 0.9 of the time, and
12 MiB 1.14 (one thread of an Arm Neoverse-N1)."""


def row_fusion(recipe: Recipe) -> Recipe:
    """Row fusion: what is computed along the same rows, step by step, becomes one pass over them.

    A step takes in the steps before it that only it, and what it took in already, reads the results of.

    Reduces along the same rows and maps over their elements become one: a softmax of five nodes, or a layer norm of
    nine, reads its input once. What follows a product of matrices element by element is computed as it is written.
    """
    if not any(step.primitive.depth for step in recipe.steps):  # maps alone are fused
        return recipe
    draft = Draft(recipe)
    makers = {
        step.target.tensor: number
        for number, step in draft.steps.items()
        if isinstance(step.primitive, Computation) and draft.is_own(step.target)
        if not draft.is_constant(step) or unpacks(step.primitive)
    }
    for number in reversed(range(len(recipe.steps))):
        if number in draft.steps:
            _take_in(draft, number, makers)
    return draft.recipe()


def _take_in(draft: Draft, number: int, makers: Mapping[str, int]) -> None:
    step = draft.steps[number]
    current = step.primitive
    if not isinstance(current, Computation):
        return
    nodes, taken, reduces = step.nodes, {number}, bool(current.depth)
    apart = work_in_passes(current)
    """The work of the steps so far, each for itself."""
    pending = {makers[view.tensor] for view in current.sources if view.tensor in makers}
    while pending:
        before = max(pending)  # whoever reads its result comes after it, and is part of the step already, or stays
        pending.discard(before)
        other = draft.steps[before]
        made = other.primitive
        assert isinstance(made, Computation)  # noqa: S101 - for type checkers: as all makers are
        is_product = match_contraction(current) is not None
        may = taken.issuperset(draft.who_reads(other.target.tensor)) and (is_product or not draft.is_constant(other))
        if may and made.checks:  # which stay in their order
            may = not draft.may_raise(before, number, but=taken)
        before_it = (draft.steps[makers[view.tensor]].primitive for view in made.sources if view.tensor in makers)
        is_first = not any(one.depth for one in before_it)
        merged = merged_with(made, current, is_first=is_first) if may else None
        if merged is None or len(merged.sources) > MOST_SOURCES or work(*merged.values) > MOST_WORK:
            continue
        if work_in_passes(merged) > apart + work_in_passes(made) + WORK_IN_ROWS:
            continue
        apart += work_in_passes(made)
        current, nodes = merged, joined(other.nodes, nodes)
        reduces |= bool(made.depth)
        taken.add(before)
        pending |= {makers[view.tensor] for view in made.sources if view.tensor in makers}
    if len(taken) > 1 and reduces:
        draft.put({number: replace(step, primitive=current, nodes=nodes)})
        for one in taken - {number}:
            draft.drop(one)


def merged_with(made: Computation, reader: Computation, *, is_first: bool) -> Computation | None:
    """A reader that computes what it would read along its rows; None where that is none of them, or too much work."""
    if any(view.tensor == made.target.tensor for view in _needed_in_memory(reader)):
        return None
    if not isinstance(made, Map):
        merged = _along_rows(made, reader)
        # Two products in one pass are none that an engine knows: a gated layer took 4 times as long, and one of 4-bit
        # weights (gate and up projections of a decoder) 80 times.
        is_lost = merged is not None and (
            match_weights(merged) is None
            if isinstance(made, Reduce) and match_weights(made)
            else is_product(made) and not match_contraction(merged)
        )
        return None if is_lost else merged
    fetches = fetched(made.value)
    if match_contraction(reader):
        return None if fetches else factor(made, reader, is_first=is_first)
    if fetches and (not fetches_well(made) or (match_gathered(made) and size_of(made.target) >= FAR)):
        return None
    slots = [slot for slot, view in enumerate(reader.sources) if view.tensor == made.target.tensor]
    passes, count = reads_in_passes(reader), math.prod(made.target.sizes)
    inside = set().union(*passes[1:]) if reader.is_by_row else {*slots}
    rows = math.prod(reader.sizes[: len(reader.sizes) - reader.depth])
    wanted = sum(math.prod(reader.sources[slot].sizes) if slot in inside else rows for slot in slots)
    times = (wanted if is_open(count) else as_long(wanted)) / count
    again = sum(any(slot in slots for slot in read) for read in passes)
    is_little = work(made.value) * times * again <= REPEATED_WORK
    is_in_cache = times <= 1 and work(made.value) * again <= WORK_IN_ROWS
    return inlined(made, reader) if is_little or is_in_cache else None


def _needed_in_memory(reader: Computation) -> list[View]:
    """The views that a step fetches from, and the indices that it checks; bytes looked up, or whose product changes."""
    if isinstance(reader, Map) and match_lookup(reader):
        return [*reader.sources]
    weights = match_weights(reader) if isinstance(reader, Reduce) else None
    rounded = weights.rounded if weights is not None else None
    return [
        *(reader.sources[int(leaf.value)] for leaf in ((rounded.byte, rounded.scale) if rounded else ())),
        *(reader.sources[slot] for slot in fetched(*reader.values)),
        *(check.indices for check in reader.checks),
    ]


class _Home(NamedTuple):
    """Where the dimensions of one walk are in another."""

    kept: dict[int, int]
    rows: dict[int, int]

    @property
    def both(self) -> dict[int, int]:
        return {**self.kept, **self.rows}


def _along_rows(made: Computation, reader: Computation) -> Reduce | None:
    """A reader of a reduce that goes along the same rows, or takes one value after the other, with the reduce in it."""
    (view, *others) = dict.fromkeys(view for view in reader.sources if view.tensor == made.target.tensor)
    made = cut_for(made, view)
    home = None if others else _home(made, reader, view)
    if home is None:
        return None
    sizes = reader.sizes
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
    walk_of = (*(sizes[m] for m in order), *(made.sizes[kept:] if added else ()))

    def turned(one: View) -> View:
        moved = one.pick(order)
        return replace(moved, sizes=walk_of, strides=(*moved.strides, *(0,) * added))

    def placed(one: View) -> View:
        strides = [0] * len(walk_of)
        for k, stride in enumerate(one.strides):
            if k in to:
                strides[to[k]] = stride
        return View(one.tensor, one.data_type, walk_of, tuple(strides), one.offset)

    sources = Sources()

    def fetches_of(primitive: Computation) -> Callable[[int, Sequence[Expr]], Expr] | None:
        places = fetched(*primitive.values)
        return (lambda slot, indices: sources.fetch(primitive.sources[slot], indices)) if places else None

    value = with_leaves(
        made.value,
        {slot: sources.load(placed(made.sources[slot])) for slot in _loaded(made)},
        {k: coordinate(to[k]) if k in to else const(0, DataType.INT64) for k in range(len(made.sizes))},
        fetches_of(made),
    ).bits(view.data_type)
    instead = {
        slot: value if reader.sources[slot] == view else sources.load(turned(reader.sources[slot]))
        for slot in _loaded(reader)
    }
    moved = {m: coordinate(position) for m, position in place.items()}

    def picked(one: View) -> View:
        target = one.pick(order)
        return replace(target, sizes=(*target.sizes, *(1,) * added), strides=(*target.strides, *(0,) * added))

    depth, fetches = added or len(inner), fetches_of(reader)
    (target, whole), *also = (
        Write(picked(one), with_leaves(root, instead, moved, fetches))
        for one, root in zip(reader.targets, reader.values, strict=True)
    )
    rows_of, checks = walk_of[len(walk_of) - depth :], (*made.checks, *reader.checks)
    return Reduce(sources.views(), target, whole, depth, rows_of, checks=checks, also=tuple(also))


def _loaded(primitive: Computation) -> list[int]:
    """The sources that are not fetched from, by position."""
    places = fetched(*primitive.values)
    return [slot for slot in range(len(primitive.sources)) if slot not in places]


def _home(made: Computation, reader: Computation, view: View) -> _Home | None:
    """Where a reader has the dimensions of a reduce that it reads, each whole; None where it does not have them so."""
    found = trace(view, made.target) if view.data_type.size_in_bytes == made.target.data_type.size_in_bytes else None
    if found is None or any(found.first):
        return None
    sizes, kept = reader.sizes, len(made.sizes) - made.depth
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
    if reader.depth:
        folded = {m for m in wide if m >= len(sizes) - reader.depth}
        if not folded or set(home.rows.values()) != folded:
            return None
    return home


def _rows(
    made: Computation, reader: Computation, kept: dict[int, int], folded: Sequence[int], rest: Sequence[int]
) -> dict[int, int]:
    """Where a reader has the rows, told by a source that both read alike: what is read anyway is read once."""
    for one in (made.sources[slot] for slot in _loaded(made)):
        for other in (reader.sources[slot] for slot in _loaded(reader)):
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
