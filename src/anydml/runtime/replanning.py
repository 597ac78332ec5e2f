"""Symbolic re-planning: a graph is planned with symbolic sizes once, and for other sizes by substitution.

What describes a graph for symbols, checks it and rewrites it, notes on a tape what it finds of them. For other sizes of
which the same is found, the rewritten graph is the same but for its numbers, which are put in: some milliseconds, where
to describe and to rewrite it takes a hundred.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from anydml.core.guards import Tape
from anydml.core.locks import make_lock
from anydml.core.symbolic_sizes import OpenSize
from anydml.ir.substitution import Rebuilt
from anydml.runtime.graph import CompiledGraph
from anydml.runtime.planning import Prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterator, Mapping

    from anydml.graph.description import GraphDesc
    from anydml.runtime.device import Device

    Sizes = Mapping[Hashable, int]

More = TypeVar("More")
"""What belongs to a graph and depends on sizes as well: an ONNX model's outline, a graph's results."""

MOST = 16
"""Symbolic plans of one graph: where sizes pass a threshold there is another. The more there are, the fewer are made:
such a plan takes three times as long as one for certain sizes."""
_FIRST_TRIES = 3
"""That are made before the first is found to hold for other sizes."""
FEWEST_SEEN = 2
"""Sizes that are planned as they are, where nobody said which are symbolic: it pays with the third that come, and many
models have two."""


class Described(NamedTuple, Generic[More]):
    """A graph for some sizes, with what belongs to it."""

    more: More
    desc: GraphDesc


class Found(NamedTuple, Generic[More]):
    """A graph for other sizes, to be compiled in so much memory."""

    more: More
    make: Callable[[int | None], CompiledGraph]


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
    ) -> None:
        """`describe` is given sizes by their names, of which some are symbols, and what else was given to `find`.

        `changes` are for what stands beside sizes in a description. Where it `are_declared` which sizes are symbolic
        they all are from the first, but for those of 1, for so they are broadcast; else those that were others before.
        """
        self._device, self._describe, self._disabled_passes = device, describe, frozenset(disabled_passes)
        self._changes = {OpenSize: _number, **(changes or {})}
        self._are_declared = are_declared
        self.plans: list[_SymbolicPlan[More]] = []
        self._seen: list[Sizes] = []
        """The last sizes that were planned as they are."""
        self._missed = self._found = 0

    def find(self, sizes: Sizes, given: Any = None, fixed: Hashable = None) -> Found[More] | None:
        """The graph for these sizes without a plan of its own; None where there is none yet.

        One that was planned for other `fixed` facts does not hold.
        """
        for plan in reversed(self.plans):
            if plan.fixed == fixed and (found := plan.at(sizes)) is not None:
                self._found += 1
                return found
        opened = self._opened(sizes)
        if opened and len(self.plans) < min(MOST, _FIRST_TRIES + self._found):
            self._missed += 1
            if self._missed > len(self.plans) // 2:
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
        if len(self._seen) < FEWEST_SEEN:
            return set()
        alike = [before for before in self._seen if before.keys() == sizes.keys()]
        return {name for name, size in sizes.items() if size > 1 and any(size != before[name] for before in alike)}

    def _plan(self, sizes: Sizes, given: Any, opened: set[Hashable], fixed: Hashable) -> _SymbolicPlan[More] | None:
        """Plan with symbols; None where that cannot be, and another will say why."""
        tape, device = Tape(), self._device
        names = [name for name in sizes if name in opened]
        symbols = {name: tape.open(sizes[name]) for name in names}
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
        return _SymbolicPlan(self, tape, names, plain, fixed, (found.more, prepared), tuple(told))

    @property
    def of(self) -> tuple[Device, frozenset[str], Mapping[type, Callable[[Any], Any]]]:
        """What its plans are made of."""
        return self._device, self._disabled_passes, self._changes


class _SymbolicPlan(Generic[More]):
    """A rewritten graph with symbols, and what holds of them."""

    def __init__(
        self,
        owner: Replans[More],
        tape: Tape,
        names: list[Hashable],
        plain: Sizes,
        fixed: Hashable,
        planned: tuple[More, Prepared],
        told: tuple[Any, ...],
    ) -> None:
        self.fixed = fixed
        self._tape, self._names, self._plain = tape, names, plain
        self._planned, self._told = planned, told
        self._device, self._disabled_passes, changes = owner.of
        self._rebuilt, self._rebuilt_told = Rebuilt(changes), Rebuilt(changes)
        self._lock = make_lock()

    def at(self, sizes: Sizes) -> Found[More] | None:
        """The graph for sizes of which the same is found."""
        if len(sizes) != len(self._names) + len(self._plain):
            return None
        if any(sizes.get(name) != size for name, size in self._plain.items()):
            return None
        given = [sizes.get(name) for name in self._names]
        numbers = None if None in given else self._tape.at(given)  # type: ignore[arg-type]  # none is None
        if numbers is None:
            return None
        with self._lock, self._tape.reading(numbers):
            if not self._tape.is_as_expected():
                return None
            more, prepared = self._rebuilt(self._planned)
        device, disabled_passes = self._device, self._disabled_passes

        def tell() -> Any:
            with self._lock, self._tape.reading(numbers):
                return self._rebuilt_told(self._told)

        def make(left: int | None) -> CompiledGraph:
            plan = prepared.plan(device.engine, disabled_passes, left, tell)
            return CompiledGraph.planned(device, plan, max_memory=left)

        return Found(more, make)


def _number(size: OpenSize) -> int | float:
    return size.tape.values[size.number]


def _plain_sizes(lowered: Any) -> Iterator[int]:
    """The sizes and strides of a recipe that are not open."""
    for step in lowered.steps:
        for view in step.primitive.views:
            yield from (one for one in (*view.sizes, *view.strides, view.offset) if type(one) is int)
