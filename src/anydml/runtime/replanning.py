"""Symbolic re-planning: a graph is planned with symbolic sizes once, and for other sizes by substitution.

What describes a graph for symbols, checks it and rewrites it, notes on a tape what it finds of them. For other sizes of
which the same is found, the rewritten graph is the same but for its numbers, which are put in: some milliseconds, where
to describe and to rewrite it takes a hundred. Where an engine's plans are data, passes are planned with symbols too:
a run of other sizes then needs no graph of its own, but the records of kernels with other numbers in them.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from anydml.core.guards import Tape
from anydml.core.locks import make_lock
from anydml.core.symbolic_sizes import OpenSize, value_of
from anydml.ir.bounds import are_checked
from anydml.ir.substitution import Rebuilt
from anydml.runtime.graph import CompiledGraph
from anydml.runtime.planning import Prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence

    from anydml.core.memory import Buffer
    from anydml.core.symbolic_sizes import Number
    from anydml.engines.common.program import OpenSeries
    from anydml.graph.description import GraphDesc
    from anydml.runtime.device import Device
    from anydml.runtime.pass_programs import Made
    from anydml.runtime.planning import GraphPlan, Told

    Sizes = Mapping[Hashable, int]

More = TypeVar("More")
"""What belongs to a graph and depends on sizes as well: an ONNX model's outline, a graph's results."""

MOST = 16
"""Symbolic plans of one graph: where sizes pass a threshold there is another. The more there are, the fewer are made:
such a plan takes three times as long as one for certain sizes."""
_FIRST_TRIES = 3
"""That are made before the first is found to hold for other sizes."""
_FIRST_SCHEDULES = 3
"""Plans of passes with symbols, before one is found to hold for other sizes."""
FEWEST_SEEN = 2
"""Sizes that are planned as they are, where nobody said which are symbolic: it pays with the third that come, and many
models have two."""


class Described(NamedTuple, Generic[More]):
    """A graph for some sizes, with what belongs to it."""

    more: More
    desc: GraphDesc


class Following(NamedTuple):
    """What other sizes need that run by the same kernels: numbers alone."""

    names: list[list[Hashable]]
    """Of each symbol: sizes that are equal."""
    more: Any
    """What belongs to the graph, with symbols."""
    numbers: Callable[[Sequence[int]], list[Number] | None]
    """All numbers for sizes of the symbols; None where something else is found of them."""
    series: Callable[[frozenset[str]], Callable[[Sequence[Number]], Callable[..., Any]] | None]
    """For numbers, a function of arrays that writes these outputs in place: the one before, changed."""
    scratch: Number
    """Bytes of scratch memory, with symbols."""


class Ready(NamedTuple):
    """What runs a graph for some sizes without compiling it."""

    graph: CompiledGraph
    """The same graph for other sizes, with the same constants."""
    temporary_size: int
    """Bytes of scratch memory that a run needs."""
    needs: int
    """Bytes of that and of constants that are computed."""
    series: Mapping[frozenset[str], Callable[..., Any]]
    """By the outputs that are written in place, a function of arrays: see `CompiledGraph.series`."""
    following: Following

    def reserve_scratch(self) -> Buffer | None:
        """Scratch memory for one run."""
        return self.graph.reserve(self.temporary_size, "TemporaryResource")


class Found(NamedTuple, Generic[More]):
    """A graph for other sizes, to be compiled in so much memory."""

    more: More
    make: Callable[[int | None], CompiledGraph]
    ready: Ready | None = None


class Replans(Generic[More]):
    """The symbolic plans of a graph."""

    def __init__(
        self,
        device: Device,
        describe: Callable[[Sizes, Any], Described[More] | None],
        disabled_passes: Collection[str] = (),
        changes: Mapping[type, Callable[[Any], Any]] | None = None,
        *,
        are_declared: bool = False,
        opened: Collection[Hashable] = (),
    ) -> None:
        """`describe` is given sizes by their names, of which some are symbols, and what else was given to `find`.

        `changes` are for what stands beside sizes in a description. Where it `are_declared` which sizes are symbolic
        they all are from the first, but for those of 1, for so they are broadcast; else those that were others before,
        and those `opened`.
        """
        self._device, self._describe, self._disabled_passes = device, describe, frozenset(disabled_passes)
        self._changes = {OpenSize: _number, **(changes or {})}
        self._are_declared, self._always = are_declared, frozenset(opened)
        self.plans: list[_SymbolicPlan[More]] = []
        self._seen: list[Sizes] = []
        """The last sizes that were planned as they are."""
        self._missed = self._found = 0

    def known(self, sizes: Sizes, fixed: Hashable = None) -> Found[More] | None:
        """The graph for these sizes by a plan that is there already; None where none holds.

        One that was planned for other `fixed` facts does not hold.
        """
        for plan in reversed(self.plans):
            if plan.fixed == fixed and (found := plan.at(sizes)) is not None:
                self.held()
                return found
        return None

    def find(self, sizes: Sizes, given: Any = None, fixed: Hashable = None) -> Found[More] | None:
        """The graph for these sizes without a plan of its own; None where there is none yet."""
        return self.known(sizes, fixed) or self.plan(sizes, given, fixed)

    def plan(self, sizes: Sizes, given: Any = None, fixed: Hashable = None) -> Found[More] | None:
        """The same by another plan, where it is time for one."""
        opened = self._opened(sizes)
        if opened and len(self.plans) < min(MOST, _FIRST_TRIES + self._found):
            self._missed += 1
            if self._missed > len(self.plans) // 2 or self._always:
                self._missed = 0
                if (made := self._plan(sizes, given, opened, fixed)) is not None:
                    self.plans.append(made)
                    return made.at(sizes)
        if sizes not in self._seen:
            self._seen = [*self._seen[1 - MOST :], dict(sizes)]
        return None

    def _opened(self, sizes: Sizes) -> set[Hashable]:
        """The sizes to be symbols."""
        if self._are_declared:
            return {name for name, size in sizes.items() if size > 1}
        always = {name for name, size in sizes.items() if size > 1 and name in self._always}
        if len(self._seen) < FEWEST_SEEN:
            return always
        alike = [before for before in self._seen if before.keys() == sizes.keys()]
        return always | {
            name for name, size in sizes.items() if size > 1 and any(size != before[name] for before in alike)
        }

    def _plan(self, sizes: Sizes, given: Any, opened: set[Hashable], fixed: Hashable) -> _SymbolicPlan[More] | None:
        """Plan with symbols; None where that cannot be, and another will say why."""
        tape, device = Tape(), self._device
        groups = self._grouped(sizes, opened)
        symbols = {name: one for group in groups for one in [tape.open(sizes[group[0]])] for name in group}
        try:
            with tape.recording():
                found = self._describe({**sizes, **symbols}, given)  # type: ignore[dict-item]  # as good as numbers
                if found is None:
                    return None
                found.desc.validate(device.feature_level)
                prepared, *told = Prepared.of(device.engine, found.desc, self._disabled_passes)
        except Exception:  # noqa: BLE001 - a plan for these very sizes meets with the same, or does without
            return None
        tape.keep(_plain_sizes(told[1]))
        plain = {name: size for name, size in sizes.items() if name not in opened}
        return _SymbolicPlan(self, tape, groups, plain, fixed, (found.more, prepared), tuple(told))

    def _grouped(self, sizes: Sizes, opened: set[Hashable]) -> list[list[Hashable]]:
        """The sizes to be symbols, as one those that were equal so far: a decoder's caches all have the same length."""
        alike = [before for before in self._seen if before.keys() == sizes.keys()]
        groups: dict[tuple[int, ...], list[Hashable]] = {}
        for name, size in sizes.items():
            if name in opened:
                groups.setdefault((size, *(before[name] for before in alike)), []).append(name)
        return list(groups.values())

    def held(self) -> None:
        """Count that a plan was found to hold: more may be made then."""
        self._found += 1

    @property
    def of(self) -> tuple[Device, frozenset[str], Mapping[type, Callable[[Any], Any]]]:
        """What its plans are made of."""
        return self._device, self._disabled_passes, self._changes


class _Scheduled(NamedTuple):
    """A rewritten graph whose passes were planned with symbols too, and what holds of them."""

    tape: Tape
    plan: GraphPlan
    told: Told
    rebuilt: Rebuilt
    rebuilt_told: Rebuilt
    graph: CompiledGraph | None
    """For the sizes that it was planned at, where its constants are those of all sizes."""
    series: Mapping[frozenset[str], OpenSeries]
    """By the outputs that are written in place."""


class _SymbolicPlan(Generic[More]):
    """A rewritten graph with symbols, and what holds of them.

    Its passes are planned with symbols too, where the engine's plans are data: then other sizes take arithmetic. Where
    something else is found of them while passes are planned, such as another tile, there is another such plan.
    """

    def __init__(
        self,
        owner: Replans[More],
        tape: Tape,
        names: list[list[Hashable]],
        plain: Sizes,
        fixed: Hashable,
        planned: tuple[More, Prepared],
        told: tuple[Any, ...],
    ) -> None:
        """`names` are those of each symbol: sizes that are equal."""
        self.fixed = fixed
        self._tape, self._names, self._plain = tape, names, plain
        self._count = len(plain) + sum(map(len, names))
        self._planned, self._told = planned, told
        self._owner = owner
        self._device, self._disabled_passes, self._changes = owner.of
        self._rebuilt, self._rebuilt_told = Rebuilt(self._changes), Rebuilt(self._changes)
        self._scheduled: list[_Scheduled] = []
        self._made: Made = {}
        """The programs of passes of no open size."""
        # Proofs that programs stay inside tensors are of numbers.
        can_plan = self._device.engine.has_open_programs and not are_checked()
        self._tries = _FIRST_SCHEDULES if can_plan else 0
        self._lock = make_lock()

    def at(self, sizes: Sizes) -> Found[More] | None:
        """The graph for sizes of which the same is found."""
        if len(sizes) != self._count or any(sizes.get(name) != size for name, size in self._plain.items()):
            return None
        given = [sizes.get(names[0]) for names in self._names]
        if None in given or any(
            sizes.get(name) != size for names, size in zip(self._names, given, strict=True) for name in names[1:]
        ):
            return None
        for scheduled in reversed(self._scheduled):
            if (found := self._at_scheduled(scheduled, given)) is not None:  # type: ignore[arg-type]  # none is None
                self._tries = _FIRST_SCHEDULES
                return found
        numbers = self._tape.at(given)  # type: ignore[arg-type]  # none is None, which was looked at
        if numbers is None:
            return None
        with self._lock, self._tape.reading(numbers):
            if not self._tape.is_as_expected():
                return None
            more, prepared = self._rebuilt(self._planned)
        if self._tries and len(self._scheduled) < MOST:
            self._tries -= 1
            if (made := self._schedule(numbers)) is None:
                self._tries = 0
            else:
                self._scheduled.append(made)
                return self._at_scheduled(made, given)  # type: ignore[arg-type]  # none is None, as before
        return Found(more, self._maker(prepared, numbers))

    def _maker(self, prepared: Prepared, numbers: Sequence[Number]) -> Callable[[int | None], CompiledGraph]:
        """What plans the passes for these very sizes."""
        device, disabled_passes = self._device, self._disabled_passes

        def tell() -> Any:
            with self._lock, self._tape.reading(list(numbers)):
                return self._rebuilt_told(self._told)

        def make(left: int | None) -> CompiledGraph:
            plan = prepared.plan(device.engine, disabled_passes, left, tell)
            return CompiledGraph.planned(device, plan, max_memory=left)

        return make

    def _schedule(self, numbers: Sequence[Number]) -> _Scheduled | None:
        """Plan the passes with symbols; None where that cannot be."""
        tape = self._tape.continued(numbers)
        prepared = Rebuilt({OpenSize: lambda size: OpenSize(tape, size.number)})(self._planned[1])
        made, series = self._made.copy(), {}
        try:
            with tape.recording():
                plan = prepared.plan(self._device.engine, self._disabled_passes, None, lambda: self._told, made)
                assert plan.tell is not None  # noqa: S101 - for type checkers: it was made a moment ago
                told, plan = plan.tell(), replace(plan, tell=None)
                rebuilt = Rebuilt(self._changes)
                with self._tape.reading(list(numbers)), tape.reading(tape.values):
                    there = rebuilt(plan)
                    is_fixed = there.data is plan.data and there.once is plan.once and there.ahead is plan.ahead
                    graph = CompiledGraph.planned(self._device, there) if is_fixed else None
                if graph is not None:
                    found = {own: graph.open_series(plan, own) for own in {frozenset[str](), frozenset(graph.shares)}}
                    series = {own: one for own, one in found.items() if one is not None}
        except Exception:  # noqa: BLE001 - a plan for these very sizes meets with the same, or does without
            return None
        tape.keep([*_plain_sizes(self._told[1]), *_plain_sizes(told.recipe)])
        lasting = {id(step.primitive) for step in self._planned[1].recipe.steps}
        self._made = {key: program for key, program in made.items() if key[0] in lasting}
        return _Scheduled(tape, plan, told, rebuilt, Rebuilt(self._changes), graph, series)

    def _at_scheduled(self, scheduled: _Scheduled, given: Sequence[int]) -> Found[More] | None:
        if (numbers := scheduled.tape.at(given)) is None:
            return None
        before = numbers[: len(self._tape.values)]
        with self._lock, self._tape.reading(before), scheduled.tape.reading(numbers):
            if not (self._tape.is_as_expected() and scheduled.tape.is_as_expected()):
                return None
            more = self._rebuilt(self._planned[0])
        own = scheduled.plan

        def tell() -> Told:
            with self._lock, self._tape.reading(before), scheduled.tape.reading(numbers):
                found: Told = scheduled.rebuilt_told(scheduled.told)
                return found

        def make(left: int | None) -> CompiledGraph:
            with self._lock, self._tape.reading(before), scheduled.tape.reading(numbers):
                plan = scheduled.rebuilt(own)
            if plan.fits(left):
                return CompiledGraph.planned(self._device, replace(plan, tell=tell), max_memory=left)
            with self._lock, self._tape.reading(before):
                prepared = self._rebuilt(self._planned[1])
            return self._maker(prepared, before)(left)

        is_ready = scheduled.graph is not None and bool(scheduled.series)
        return Found(more, make, self._ready(scheduled, numbers) if is_ready else None)

    def _ready(self, scheduled: _Scheduled, numbers: Sequence[Number]) -> Ready:
        own = scheduled.plan
        assert scheduled.graph is not None  # noqa: S101 - for type checkers: it was looked at
        scratch, needs = (value_of(size, numbers) for size in (own.arena.size_in_bytes, own.needs))
        series = {in_place: one.at(numbers) for in_place, one in scheduled.series.items()}
        following = Following(
            self._names,
            self._planned[0],
            functools.partial(self._numbers, scheduled),
            functools.partial(_movable, scheduled),
            own.arena.size_in_bytes,
        )
        return Ready(scheduled.graph, scratch, needs, series, following)

    def _numbers(self, scheduled: _Scheduled, given: Sequence[int]) -> list[Number] | None:
        """The numbers for sizes of which the same is found."""
        if (numbers := scheduled.tape.at(given)) is None:
            return None
        if self._tape.expects or scheduled.tape.expects:
            with self._lock, self._tape.reading(numbers[: len(self._tape.values)]), scheduled.tape.reading(numbers):
                if not (self._tape.is_as_expected() and scheduled.tape.is_as_expected()):
                    return None
        self._tries = _FIRST_SCHEDULES
        self._owner.held()
        return numbers


def _movable(
    scheduled: _Scheduled, in_place: frozenset[str]
) -> Callable[[Sequence[Number]], Callable[..., Any]] | None:
    found = scheduled.series.get(in_place)
    return None if found is None else found.movable()


def _number(size: OpenSize) -> int | float:
    return size.tape.values[size.number]


def _plain_sizes(lowered: Any) -> Iterator[int]:
    """The sizes and strides of a recipe that are not open."""
    for step in lowered.steps:
        for view in step.primitive.views:
            yield from (one for one in (*view.sizes, *view.strides, view.offset) if type(one) is int)
