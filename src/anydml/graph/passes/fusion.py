"""Fusion, passes of the optimiser's rounds: of maps into the maps that read them (`fusion`), and of maps with the parts
of a join (`part_fusion`).
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.core.symbolic_sizes import as_long, is_open
from anydml.graph.passes.draft import Draft, joined
from anydml.graph.passes.narrowing import cut_to, packed
from anydml.graph.recipe import Step, Store, free_name
from anydml.graph.views import through
from anydml.ir.contraction import is_product, varies_along
from anydml.ir.expressions import FUNCTIONS, LEAVES, call, const, coordinate, fetch, load
from anydml.ir.fetches import match_gathered, match_reversed, nearest_to, settled
from anydml.ir.loops import loops_of, simplify
from anydml.ir.numerics import expand
from anydml.ir.patterns import is_copy, is_plain, match_lookup
from anydml.ir.trees import fetched, rewrite, walk
from anydml.ir.verbs import Computation, Map
from anydml.ir.views import IndexRange, View, trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from anydml.graph.recipe import Recipe
    from anydml.ir.expressions import Expr


# When fetches are fused: what a kernel for gathers alone would do in less time stays as it is.


ROW = 1024
"""Bytes of a row from which on a gather and a sum take no longer as one: for 4,096 rows of 3 KiB 0.87 of the time, for
128 of them 0.73, for 16,384 of 1 KiB 0.98, and of 512 bytes 1.22 (one thread of an Arm Neoverse-N1)."""
NEAR = 1024 * 1024
"""Bytes of a source up to which its elements are fetched one by one from the cache: 4 Mi out of 64 KiB and a sum take,
fused, half of the time; out of 64 MiB 1.2 times as much, because a gather alone asks for them ahead."""
FEW = 4
"""How many times more elements there must be than are taken, so that computing those alone is less in any case."""


def fetches_well(primitive: Map) -> bool:
    """Whether a map takes no longer for what it fetches when it computes more."""
    nodes = [node for node in walk(primitive.value) if node.op == "fetch"]
    return all(_is_row(primitive, node) or _is_near(primitive, node) for node in nodes)


def _is_row(primitive: Map, node: Expr) -> bool:
    """Whether long rows are fetched that lie in the source as they do in the target."""
    target, source = primitive.target, primitive.sources[int(node.value)]
    pairs = enumerate(zip(target.sizes, target.strides, strict=True))
    inner = next((k for k, (size, stride) in pairs if size > 1 and abs(stride) == 1), None)
    if inner is None or target.sizes[inner] * source.data_type.size_in_bytes < ROW:
        return False
    varying = [
        (index, stride)
        for index, stride in zip(node.args, source.strides, strict=True)
        if inner in varies_along(index, primitive.sources)
    ]
    return all(index is coordinate(inner) and abs(stride) == 1 for index, stride in varying)


def _is_near(primitive: Map, node: Expr) -> bool:
    """Whether elements are picked from a source that the cache holds; a reversal goes by the vector instead."""
    source = primitive.sources[int(node.value)]
    plain = {const(0, DataType.INT64), *(coordinate(k) for k in range(len(primitive.target.sizes)))}
    is_picked = all(index in plain or nearest_to(index) is not None for index in node.args)
    return is_picked and math.prod(source.sizes) * source.data_type.size_in_bytes <= NEAR


MOST_SOURCES = 8
"""Of a map, each of which takes an address that a loop must keep."""
MOST_WORK = 400
"""Operations of a map: some 50 ms of compiling for every hundred."""
REPEATED_WORK = 32
"""Operations, over all of its readers, of what may be computed more than once for each element."""


def fusion(recipe: Recipe) -> Recipe:
    """Fusion: a map that reads what a map wrote computes it for itself.

    A map into scratch goes if each of its readers is a map that can compute it where it reads it.

    What several readers take, or one takes repeatedly, is computed again each time: only where that is little work,
    and moves no more memory. What depends on constants alone stays, to be computed once. Checks go with their map, and
    stay in their order.
    """
    draft = Draft(recipe)
    for number in range(len(recipe.steps)):
        if draft.is_own(draft.steps[number].target) and (changed := _fused(draft, number)):
            draft.put(changed)
            draft.drop(number)
    return draft.recipe()


def _fused(draft: Draft, number: int) -> dict[int, Step] | None:
    """By number, the readers of a map with what it computes in them."""
    step = draft.steps[number]
    made = step.primitive
    if not isinstance(made, Map) or draft.is_constant(step):
        return None
    readers = draft.readers(step.target.tensor)
    maps = {i: reader.primitive for i, reader in readers.items() if isinstance(reader.primitive, Map)}
    if not readers or len(maps) < len(readers) or not _is_worth_it(made, step, list(maps.values())):
        return None
    if any(match_lookup(reader) for reader in maps.values()):
        return None  # tables are read by bytes in memory
    if made.checks and (len(maps) > 1 or draft.may_raise(number, *maps)):
        return None
    changed = {}
    for i, reader in maps.items():
        fused = inlined(made, reader)
        if fused is None:
            return None
        changed[i] = replace(readers[i], primitive=fused, nodes=joined(step.nodes, readers[i].nodes))
    return changed


def _is_worth_it(made: Map, step: Step, readers: Sequence[Map]) -> bool:
    target = made.target
    taken = [_taken(target, reader) for reader in readers]
    counts = [count for several in taken for count in several or ()]
    size = math.prod(target.sizes)
    times = sum(counts) / size
    if None in taken:
        return False
    is_fetched = any(view.tensor == target.tensor for reader in readers for view in _elsewhere(reader))
    if fetched(made.value) or is_fetched:
        if len(counts) != 1 or times > 1:
            return False
        return fetches_well(made) and (not is_fetched or times * FEW <= 1 or fetches_well(readers[0]))
    if len(counts) == 1 and times <= 1:
        return True
    written = size * target.data_type.size_in_bytes
    read = step.bytes_moved - written
    often = times if is_open(size) else as_long(sum(counts)) / size
    return work(made.value) * often <= REPEATED_WORK and read * len(counts) <= read + written * (1 + len(counts))


def _elsewhere(reader: Map) -> list[View]:
    """The views that a map fetches from."""
    return [reader.sources[slot] for slot in fetched(reader.value)]


def _taken(target: View, reader: Map) -> list[int] | None:
    """The elements of a target that a reader takes in each place; None where it needs them in memory.

    What it takes twice from the same place it computes once.
    """
    slots = [slot for slot, view in enumerate(reader.sources) if view.tensor == target.tensor]
    places = fetched(reader.value)
    loaded = dict.fromkeys(reader.sources[slot] for slot in slots if slot not in places)
    if any(check.indices.tensor == target.tensor for check in reader.checks):
        return None
    if loaded and (match_gathered(reader) or match_reversed(reader)):
        return None  # kernels for those read indices and lengths
    fetches = [node for node in walk(reader.value) if node.op == "fetch" and node.value in slots]
    return [*(math.prod(view.sizes) for view in loaded), *[math.prod(reader.target.sizes)] * len(fetches)]


@functools.lru_cache(maxsize=1024)
def work(*values: Expr) -> int:
    """The operations of trees, about."""
    return sum(map(work_of, walk(*values)))


def work_of(node: Expr) -> int:
    """The operations of a node alone."""
    return _work_of_function(node.op) if node.op in FUNCTIONS else int(node.op not in LEAVES)


@functools.cache
def _work_of_function(function: str) -> int:
    """The operations that a function is written out in."""
    args = (load(slot, DataType.FLOAT32) for slot in range(FUNCTIONS[function]))
    return work(expand(call(function, *args)))


class Sources:
    """The sources of a map in the making, each once; what is loaded is another than what is fetched from."""

    def __init__(self) -> None:
        self._slots: dict[tuple[View, bool], int] = {}

    def load(self, view: View) -> Expr:
        """An element of a view, at the current coordinates."""
        return load(self._slots.setdefault((view, False), len(self._slots)), view.data_type)

    def fetch(self, view: View, indices: Sequence[Expr]) -> Expr:
        """An element of a view, at indices."""
        return fetch(self._slots.setdefault((view, True), len(self._slots)), view.data_type, indices)

    def views(self) -> tuple[View, ...]:
        """All of them, in their order."""
        return tuple(view for view, _ in self._slots)


def inlined(made: Map, reader: Computation, most: int = MOST_SOURCES) -> Computation | None:
    """A reader that computes what it would read; None where it cannot, or would become too large."""
    sources = Sources()
    places = fetched(*reader.values)
    halves = any(
        node.op == "cast" and node.type is DataType.FLOAT16 and node.args[0].op in ("load", "fetch")
        for node in walk(*reader.values)
    )

    def stored(value: Expr) -> Expr:
        """As memory would hold it: a function's result is rounded to FLOAT16 otherwise where it is cast at once."""
        is_rounded = halves and value.op in FUNCTIONS
        return value.bits(DataType.UINT32).bits(DataType.FLOAT32) if is_rounded else value

    loads: dict[int, Expr] = {}
    for slot, view in enumerate(reader.sources):
        if slot in places:
            continue
        if view.tensor != made.target.tensor:
            loads[slot] = sources.load(view)
            continue
        seen = _seen_from(made, view)
        if seen is None:
            return None
        loads[slot] = stored(_read_by(sources, seen)).bits(view.data_type)
    indices_of = {slot: _indices_in(made.target, reader.sources[slot]) for slot in places}
    if any(reader.sources[s].tensor == made.target.tensor and find is None for s, find in indices_of.items()):
        return None

    def read(slot: int, at: Sequence[Expr]) -> Expr:
        view, find = reader.sources[slot], indices_of[slot]
        if view.tensor != made.target.tensor or find is None:
            return sources.fetch(view, at)
        return stored(_read_by(sources, made, find(at))).bits(view.data_type)

    fused = reader.computing(lambda value: with_leaves(value, loads, fetches=read if places else None))
    views = sources.views()
    if len(views) > most or work(*fused.values) > MOST_WORK:
        return None
    fused = replace(fused, sources=views, checks=(*made.checks, *reader.checks))
    return settled(fused) if places or fetched(made.value) else fused


def _read_by(sources: Sources, made: Map, at: Sequence[Expr] | None = None) -> Expr:
    """The value of a map, at the current coordinates or at indices."""
    places = fetched(made.value)
    loaded = {slot: view for slot, view in enumerate(made.sources) if slot not in places}
    loads = {slot: sources.load(view) if at is None else sources.fetch(view, at) for slot, view in loaded.items()}
    fetches = (lambda slot, indices: sources.fetch(made.sources[slot], indices)) if places else None
    return with_leaves(made.value, loads, dict(enumerate(at or ())), fetches)


def _indices_in(target: View, view: View) -> Callable[[Sequence[Expr]], list[Expr]] | None:
    """A function from the indices of a view's element to those of the target; None where that is not easily said."""
    found = None if view.tensor != target.tensor else trace(view, target)
    if found is None:
        return None
    return lambda at: [_line(first, zip(at, steps, strict=True)) for first, steps in zip(*found, strict=True)]


def _line(first: int, terms: Iterable[tuple[Expr, int]]) -> Expr:
    """first + Σ index·step."""
    value = const(first, DataType.INT64)
    for index, step in terms:
        if step:
            part = index if step == 1 else index * step
            value = part if value is const(0, DataType.INT64) else value + part
    return value


def with_leaves(
    value: Expr,
    loads: Mapping[int, Expr],
    coordinates: Mapping[int, Expr] | None = None,
    fetches: Callable[[int, Sequence[Expr]], Expr] | None = None,
) -> Expr:
    """A tree with others in the place of its loads and of coordinates, and of fetches by slot and indices."""
    instead = {"load": loads, "coordinate": coordinates or {}}
    if fetches is None and all(
        found.op == op and found.value == k for op, several in instead.items() for k, found in several.items()
    ):
        return value  # as in a long chain, whose tree is not gone through again for each link

    def change(node: Expr) -> Expr:
        if node.op == "fetch" and fetches is not None:
            return fetches(int(node.value), node.args)
        # The value of another leaf is a number, and may be infinite.
        return instead[node.op].get(int(node.value), node) if node.op in instead else node

    return rewrite(value, change)


def _seen_from(made: Map, view: View) -> Map | None:
    """A map of the elements alone that a view takes of its target, in the view's order."""
    target = made.target
    if view.data_type.size_in_bytes != target.data_type.size_in_bytes:
        return None
    if (view.sizes, view.strides, view.offset) == (target.sizes, target.strides, target.offset):
        return made
    places = fetched(made.value)
    sources = [source for slot, source in enumerate(made.sources) if slot not in places]
    counts = any(node.op == "coordinate" for node in walk(made.value))
    if not counts:  # lines that follow one another are one, so that the view may run on from one to the next
        loops = simplify(loops_of(*sources, target), len(sources))
        *sources, target = (
            replace(one, sizes=loops.sizes, strides=strides, offset=offset)
            for one, strides, offset in zip((*sources, target), loops.strides, loops.offsets, strict=True)
        )
    found = trace(view, target)
    if found is None:
        return None
    value = made.value
    if counts:
        here = [coordinate(k) for k in range(len(view.sizes))]
        lines = [_line(first, zip(here, steps, strict=True)) for first, steps in zip(*found, strict=True)]
        value = with_leaves(value, {}, dict(enumerate(lines)))
    moved = []
    for source in sources:
        rows = list(zip(source.strides, found.first, found.steps, strict=True))
        strides = tuple(sum(stride * steps[m] for stride, _, steps in rows) for m in range(len(view.sizes)))
        offset = source.offset + sum(stride * index for stride, index, _ in rows)
        moved.append(View(source.tensor, source.data_type, view.sizes, strides, offset))
    loaded = iter(moved)
    every = (source if slot in places else next(loaded) for slot, source in enumerate(made.sources))
    return Map(tuple(every), view, value)


# Part fusion: maps of joined tensors


MOST_PARTS = 4
"""Of one map, each of which is a pass unless it can be taken together with others."""


def part_fusion(recipe: Recipe) -> Recipe:
    """Part fusion: a map of what several steps put together is computed part by part, each from what made the part.

    Tensors that are joined along one dimension, and read by one map alone, are not joined: the map is cut instead.

    As in rotary positions, where halves of a head change places and one of them its sign. Its target then has several
    writers, which passes for rows and maps leave alone: so that is an output, or only products read it.
    """
    draft, instead, touched = Draft(recipe), dict[int, list[Step]](), set[int]()
    shared = recipe.shared()
    for store in (name for name in recipe.stores if name in shared):
        writers, readers = draft.writers(store), draft.readers(store)
        if not draft.is_scratch_store(store) or len(readers) != 1 or not 1 < len(writers) <= MOST_PARTS:
            continue
        ((number, step),) = readers.items()
        numbers = {number, *writers}
        if numbers & touched or max(writers) > number or not _is_last(draft, step):
            continue
        made = step.primitive
        cuts = _cuts(made, store, [one.target for one in writers.values()]) if isinstance(made, Map) else None
        if cuts is None or any(len(one.targets) > 1 for one in writers.values()):
            continue
        touched |= numbers
        instead[number] = [_part(draft, step, i, cut) for i, cut in zip(writers, cuts, strict=True)]
    if not instead:
        return recipe
    steps = (one for number, step in draft.steps.items() for one in instead.get(number, [step]))
    return replace(recipe, stores=draft.stores, steps=tuple(steps))


def _is_last(draft: Draft, step: Step) -> bool:
    """Whether a step is a map whose result no pass would make part of another step."""
    made, target = step.primitive, step.target
    if not is_plain(made) or is_copy(made) or fetched(made.value):
        return False
    readers = [one.primitive for one in draft.readers(target.tensor).values()]
    return all(not isinstance(one, Computation) or (one.depth and is_product(one)) for one in readers)


def _cuts(made: Map, store: str, targets: Sequence[View]) -> list[list[IndexRange]] | None:
    """For each part of a store the part of a map that reads it; None where they are not cut along one dimension."""
    views = [view for view in made.sources if view.tensor == store]
    if len(views) != 1:
        return None
    (view,) = views
    whole = [IndexRange(0, 1, size) for size in view.sizes]
    found = []
    for target in targets:
        place = trace(target, view)
        if place is None:
            return None
        bounds = [place.bounds(k, target.sizes) for k in range(len(view.sizes))]
        found.append([IndexRange(low, 1, high - low + 1) for low, high in bounds])
        if math.prod(cut.size for cut in found[-1]) != math.prod(target.sizes):
            return None
    along = {k for cuts in found for k, cut in enumerate(cuts) if cut != whole[k]}
    is_all = sum(math.prod(cut.size for cut in cuts) for cuts in found) == math.prod(view.sizes)
    return found if len(along) == 1 and is_all else None


def _part(draft: Draft, step: Step, writer: int, cuts: list[IndexRange]) -> Step:
    """A part of a map, and what it reads in a store of its own."""
    made, old = step.primitive, draft.steps[writer].target
    name = free_name(f"{old.tensor} part", draft.stores)
    new = packed(replace(old, tensor=name))
    draft.stores[name] = Store("scratch", math.prod(new.sizes) * new.data_type.size_in_bytes)
    draft.put({writer: draft.steps[writer].writing(new)})
    part = cut_to(made, cuts)

    def moved(view: View) -> View:
        found = through(view, old, new) if view.tensor == old.tensor else view
        assert found is not None  # noqa: S101 - for type checkers: the part is all that was written there
        return found

    return replace(step, primitive=part).reading(moved)
