"""The plan of a graph: all that compiling finds out, but for the constants in memory. It can be kept on disk."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from anydml.core.errors import BindingError, Fault
from anydml.core.late_imports import import_alone
from anydml.core.memory import word_bytes
from anydml.graph.arena import check_bounds, lay_out
from anydml.graph.description import SUBJECT
from anydml.graph.lower import lower
from anydml.graph.wiring import constants, input_descs, output_descs, slot_names
from anydml.ir.bounds import are_checked
from anydml.ir.verbs import Scatter
from anydml.runtime.constant_program import Once
from anydml.runtime.pass_programs import compile_steps, join_steps
from anydml.runtime.prepacked import Layouts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from anydml.arrays.tensor import TensorDesc
    from anydml.engines.common.engine import Engine, Plans
    from anydml.engines.common.program import Program
    from anydml.graph.arena import Arena
    from anydml.graph.description import GraphDesc
    from anydml.graph.recipe import Recipe
    from anydml.runtime.constants import Data
    from anydml.runtime.device import Device
    from anydml.runtime.pass_programs import Made


@dataclass(frozen=True, slots=True)
class Told:
    """A graph before and after: for those who look at it, and for errors."""

    desc: GraphDesc
    lowered: Recipe
    """A step for every node that an output needs."""
    once: Recipe
    """The steps that depend on constants alone, and run when the graph is compiled."""
    recipe: Recipe
    """The steps of a dispatch."""
    did: Mapping[str, str]
    """By the names of passes, what each did."""
    constants: frozenset[str]
    """The stores that routes may have packed ahead."""


@dataclass(frozen=True, slots=True)
class GraphPlan:
    """The needs of a compiled graph, to bind and to run."""

    tell: Callable[[], Told] | None
    inputs: dict[str, TensorDesc]
    outputs: dict[str, TensorDesc]
    stores: dict[str, str]
    """By the names of inputs and outputs, what programs call them."""
    shares: dict[str, str]
    """By output, the input whose very memory it may be bound to."""
    arena: Arena
    programs: Sequence[Program]
    """One a step."""
    ahead: Layouts
    once: Once
    data: Mapping[str, Data]
    """The constants that the graph was given, by store."""
    touching: Mapping[str, tuple[int, ...]]
    """By store that is bound, the steps that read or write it."""
    has_checks: bool
    """Whether the host looks at indices during a dispatch."""
    needs: int
    """Bytes of scratch memory and of what is computed once."""
    room: int
    """Bytes of memory beside that, without which constants would not be laid out; -1 where they are not."""

    def check_memory(self, most: int | None) -> None:
        """Check what scratch memory and constants that are computed take, before any is allocated."""
        _check_memory(self.needs, most)

    def fits(self, most: int | None) -> bool:
        """Whether the same graph would be planned the same where there is so much memory."""
        return most is None or 0 <= self.room <= most - self.needs

    def with_told(self, tell: Callable[[], Told]) -> GraphPlan:
        """The same with what is told, as it was dumped."""
        return replace(self, tell=tell)

    def dump(self, plans: Plans, name: Callable[[Any], Any]) -> tuple[GraphPlan, bytes]:
        """The plan without what is told, and that: few ask for it, and it takes three times as long to load."""
        assert self.tell is not None  # noqa: S101 - for type checkers: it is dumped by whoever made it
        return replace(self, tell=None), plans.dump(self.tell(), name)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A graph that was checked and rewritten for an engine, before its passes are planned."""

    inputs: dict[str, TensorDesc]
    outputs: dict[str, TensorDesc]
    stores: dict[str, str]
    """By the names of inputs and outputs, what programs call them."""
    once: Recipe
    """The steps that depend on constants alone, without the layouts that the passes want."""
    recipe: Recipe
    """The steps of a dispatch."""
    data: dict[str, Data]
    """The constants that the graph was given, by store."""

    @classmethod
    def of(cls, engine: Engine, desc: GraphDesc, disabled: Collection[str]) -> tuple[Prepared, GraphDesc, Recipe, Any]:
        """Rewrite a graph by the passes that are not disabled; the rest is what there is to tell of it."""
        import_alone("anydml.graph.optimise")
        from anydml.graph import optimise as optimiser  # with all rules: 10 ms of import, where they are needed

        names_in, names_out = slot_names(desc)
        inputs = {name: _known(found) for name, found in zip(names_in, input_descs(desc), strict=True)}
        outputs = {name: _known(found) for name, found in zip(names_out, output_descs(desc), strict=True)}
        stores = {name: f"input{i}" for i, name in enumerate(names_in)}
        stores |= {name: f"output{i}" for i, name in enumerate(names_out)}
        lowered = lower(desc, engine.takes)
        once, recipe, did = optimiser.rewrite(lowered, engine, disabled)
        data = {f"constant{i}": node.data for i, node in constants(desc).items()}
        return cls(inputs, outputs, stores, once, recipe, data), desc, lowered, did

    def plan(
        self,
        engine: Engine,
        disabled: Collection[str],
        max_memory: int | None,
        tell: Callable[[], tuple[GraphDesc, Recipe, Mapping[str, str]]],
        before: Made | None = None,
    ) -> GraphPlan:
        """Plan the passes; `tell` gives the graph as it was described and lowered, and what passes of the graph did.

        `before` are the programs of verbs that were planned before, and are held meanwhile.
        """
        import_alone("anydml.graph.optimise")
        from anydml.graph import optimise as optimiser  # as above

        recipe, once, inputs, stores = self.recipe, self.once, self.inputs, self.stores
        arena = lay_out(recipe)
        made = sum(store.size_in_bytes for store in once.stores.values() if store.kind == "output")
        needs = made + max(arena.size_in_bytes, lay_out(once).size_in_bytes if once.steps else 0)
        _check_memory(needs, max_memory)
        room = sys.maxsize if max_memory is None else max_memory - needs
        owned = [stores[field] for field, tensor in inputs.items() if tensor.is_owned_by_dml]
        known = optimiser.laid_out(recipe, owned, room, disabled)
        recipe, ready = join_steps(engine, recipe, known)
        arena = lay_out(recipe) if ready else arena
        programs = compile_steps(engine, recipe, ready, known, before)
        ahead = Layouts.of(recipe, programs, taken=stores)
        once = ahead.once(once, recipe)
        if are_checked():
            bound = {stores[name]: tensor for name, tensor in {**inputs, **self.outputs}.items()}
            check_bounds(recipe, arena, bound)
            check_bounds(once, lay_out(once), {})

        def told() -> Told:
            desc, lowered, did = tell()
            return Told(desc, lowered, once, recipe, did, known)

        return GraphPlan(
            told,
            inputs,
            self.outputs,
            stores,
            _shares(recipe, {store: name for name, store in stores.items()}),
            arena,
            programs,
            ahead,
            Once.of(once),
            self.data,
            _touching(recipe, {*stores.values()}),
            any(step.primitive.checks for step in recipe.steps),
            needs,
            optimiser.room_needed(recipe, known, disabled),
        )


def plan_graph(device: Device, desc: GraphDesc, disabled: Collection[str], max_memory: int | None) -> GraphPlan:
    """Plan a graph that was checked, without the passes that are disabled."""
    prepared, *told = Prepared.of(device.engine, desc, disabled)
    return prepared.plan(device.engine, disabled, max_memory, lambda: (told[0], told[1], told[2]))


def _check_memory(needs: int, most: int | None) -> None:
    if most is not None and needs > most:
        rule = f"scratch memory and constants that are computed must be at most {word_bytes(most)}"
        raise BindingError(SUBJECT, Fault(field="max_memory", rule=rule, value=needs, found=word_bytes(needs)))


def _shares(recipe: Recipe, names: Mapping[str, str]) -> dict[str, str]:
    """By output, the input that it is but for what is scattered into it, where nothing else reads that."""
    found: dict[str, str] = {}
    read = Counter(view.tensor for step in recipe.steps for view in step.sources)
    for step in recipe.steps:
        primitive = step.primitive
        if isinstance(primitive, Scatter) and primitive.source.named(primitive.target.tensor) == primitive.target:
            base, target = primitive.source.tensor, primitive.target.tensor
            if read[base] == 1 and recipe.stores[base].kind == "input" and recipe.stores[target].kind == "output":
                found[names[target]] = names[base]
    return found


def _touching(recipe: Recipe, bound: Collection[str]) -> dict[str, tuple[int, ...]]:
    found: dict[str, dict[int, None]] = {}
    for number, step in enumerate(recipe.steps):
        for view in (*step.sources, *step.targets):
            if view.tensor in bound:
                found.setdefault(view.tensor, {})[number] = None
    return {store: tuple(numbers) for store, numbers in found.items()}


def _known(desc: TensorDesc | None) -> TensorDesc:
    assert desc is not None  # noqa: S101 - for type checkers: nothing is at fault
    return desc
