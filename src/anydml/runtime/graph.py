"""Graphs on a device: compiled step by step, with one arena for what passes between the steps."""

from __future__ import annotations

import functools
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from anydml.core.enums import DataType, ExecutionFlags
from anydml.core.errors import BindingError, DescriptionError, Fault, IndexRangeError, show
from anydml.core.late_imports import import_alone
from anydml.core.locks import cached_property
from anydml.core.memory import HOST, Buffer, has_fast_address
from anydml.core.results import gathering
from anydml.engines.common.program import Checking, Place
from anydml.graph.check import byte_span
from anydml.graph.description import SUBJECT, GraphDesc
from anydml.graph.wiring import node_names, operators
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import IndexFault, verbs_of
from anydml.ir.views import View
from anydml.runtime.binding import MINIMUM_BUFFER_TENSOR_ALIGNMENT
from anydml.runtime.constants import Constants
from anydml.runtime.dispatchable import Compiled
from anydml.runtime.launches import CheckedSteps, Steps, in_a_row
from anydml.runtime.persistent_resource import Kept
from anydml.runtime.planning import plan_graph
from anydml.runtime.profiler_hook import WATCHER
from anydml.runtime.schedules import Schedules, schedules_of
from anydml.runtime.staging import kept_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from anydml.arrays.tensor import TensorDesc
    from anydml.engines.common.program import OpenSeries
    from anydml.explain import GraphPicture
    from anydml.graph.arena import Arena
    from anydml.graph.recipe import Recipe
    from anydml.runtime.bound import BoundOperator
    from anydml.runtime.device import Device
    from anydml.runtime.planning import GraphPlan, Told

_MOST_STEPS = 64
"""Of a graph that is run as one function: to make it takes about as long as binding each step."""


class CompiledGraph(Compiled):
    """A graph made ready for an engine: IDMLCompiledOperator, as IDMLDevice1::CompileGraph gives it.

    `model(x, y)` takes the inputs in their order or by their names, and gives one array, or where there are several
    outputs a tuple that has them by their names too; `out=` takes as many. `model.bind(x, y, out=z)` binds once, and
    its `dispatch()` does nothing but run. What passes between operators lies in scratch memory, as much as
    `binding_properties` says: a bound graph has its own, reserved when it is bound.
    """

    name = SUBJECT
    labels: Mapping[str, str] = MappingProxyType({})
    """By the name of a node, what its owner calls it, where that is something else."""

    def __init__(
        self,
        device: Device,
        desc: GraphDesc,
        flags: ExecutionFlags,
        *,
        optimise: bool = True,
        disabled_passes: Collection[str] = (),
        max_memory: int | None = None,
    ) -> None:
        if not isinstance(desc, GraphDesc):
            rule = "desc must be a GraphDesc"
            raise DescriptionError("Device", Fault(field="desc", rule=rule, value=desc, found=show(desc)))
        desc.validate(device.feature_level)
        disabled = all_disabled(disabled_passes, optimise=optimise)
        self._follow(device, flags, plan_graph(device, desc, disabled, max_memory), max_memory)

    @classmethod
    def planned(cls, device: Device, plan: GraphPlan, *, max_memory: int | None = None) -> Self:
        """A graph of which there is a plan already."""
        found = cls.__new__(cls)
        found._follow(device, ExecutionFlags.NONE, plan, max_memory)  # noqa: SLF001 - of its own class
        return found

    def _follow(self, device: Device, flags: ExecutionFlags, plan: GraphPlan, max_memory: int | None) -> None:
        """Have constants in memory, and what runs."""
        super().__init__(device, flags, plan.inputs, plan.outputs)
        plan.check_memory(max_memory)
        self.plan = plan
        self.shares = plan.shares
        self.temporary_size = plan.arena.size_in_bytes
        self.plan_owned(plan.ahead, plan.stores)
        self.word = functools.partial(_word_index_fault, plan)
        try:
            self._constants = Constants(device.engine, self.name, plan.data, plan.once, plan.ahead.read)
        except IndexFault as fault:
            raise self.word(fault) from None

    @cached_property
    def kept(self) -> Collection[str]:
        """The outputs that are read before they are written."""
        return kept_of(self.recipe.steps, {field: self.plan.stores.get(field, field) for field in self.outputs})

    # What it was and became

    @cached_property
    def told(self) -> Told:
        """The facts to tell of it; of a plan that was kept on disk they are read when first asked for."""
        assert self.plan.tell is not None  # noqa: S101 - for type checkers: whoever loads a plan says how
        return self.plan.tell()

    @property
    def desc(self) -> GraphDesc:
        """The graph as it was described."""
        return self.told.desc

    @property
    def lowered(self) -> Recipe:
        """A step for every node that an output needs."""
        return self.told.lowered

    @property
    def once(self) -> Recipe:
        """The steps that depend on constants alone, and ran when the graph was compiled."""
        return self.told.once

    @property
    def recipe(self) -> Recipe:
        """The steps of a dispatch."""
        return self.told.recipe

    @property
    def arena(self) -> Arena:
        """Where what passes between steps lies in scratch memory."""
        return self.plan.arena

    @property
    def held(self) -> Mapping[int, int]:
        """By address, the bytes of the constants that every dispatch reads."""
        return self._constants.held

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks on a valid graph: nodes that nothing uses."""
        return self.desc.check(self.device.feature_level).remarks

    # What a compiled operator does as well

    def gatherer(self) -> Callable[[Sequence[Any]], Any]:
        """What hands results over: one alone, several by the outputs' names."""
        return gathering("Results", tuple(self.outputs))

    def keep(self, field: str, tensor: TensorDesc) -> Kept:
        """An owned tensor is kept as it lies, gaps and all: nodes may read it in descriptions of their own."""
        below, above = byte_span(tensor)
        size = above - below
        source = View(field, DataType.UINT8, (size,), (1,), below)
        more = below % MINIMUM_BUFFER_TENSOR_ALIGNMENT  # that the first element is aligned, of what runs backwards
        target = View("Persistent", DataType.UINT8, (size,), (1,), more)
        return Kept(field, copy_of(source, target), size + more, more - below)

    def launch(self, places: Mapping[str, int], temporary: Buffer | None) -> Callable[[], Any]:
        """A function that runs each step in turn."""
        launches = self.bind_all(places, temporary)
        if self.plan.has_checks and any(isinstance(launch, Checking) for launch in launches):
            return CheckedSteps(launches, self._constants or None, self._settles)
        return in_a_row(launches, self._constants or None)

    @cached_property
    def _settles(self) -> list[bool]:
        """The steps before which earlier checks must have passed: they write what others see, or over the indices."""
        found, scratch, keeps = list[bool](), self.arena.offsets, self.device.engine.traits.replays_checks
        is_pending = is_hurried = False
        for step in self.recipe.steps:
            checks = step.primitive.checks
            settles = is_pending and (is_hurried or any(view.tensor not in scratch for view in step.primitive.targets))
            found.append(settles)
            is_pending = bool(checks) or (is_pending and not settles)
            is_hurried = not keeps and any(check.indices.tensor in scratch for check in checks)
        return found

    def again(self, launch: Callable[[], Any]) -> Callable[[], Any]:
        """The same, in an engine's way for rows of launches; a step that has the host wait for indices is in none."""
        if WATCHER.get():
            return launch
        replay, may = self.device.engine.replayed, self.device.engine.traits.replays_checks
        if not self.plan.has_checks:
            return replay(launch)
        if not isinstance(launch, Steps):
            return launch
        waits = [
            bool(step.primitive.checks) and not (may and isinstance(one, Checking))
            for step, one in zip(self.recipe.steps, launch.launches, strict=True)
        ]
        return launch.between(waits, replay)

    def _placed(self, places: Mapping[str, int], temporary: Buffer | None) -> Mapping[str, int]:
        """The addresses of all stores."""
        bound = {self.plan.stores.get(field, field): place for field, place in places.items()}
        return self.arena.placed({**bound, **self._constants.places}, temporary)

    def bind_steps(
        self, places: Mapping[str, int], temporary: Buffer | None, moved: Iterable[str]
    ) -> dict[int, Callable[[], Any]]:
        """Functions that run the steps that touch fields which moved, by number."""
        stores = self._placed(places, temporary)
        numbers = {n for field in moved for n in self.plan.touching.get(self.plan.stores[field], ())}
        launches = {n: self.plan.ahead.bind_one(self.plan.programs, n, stores) for n in numbers}
        return launches if (recorder := WATCHER.get()) is None else recorder.watch(self, launches, self.labels)

    def bind_all(self, places: Mapping[str, int], temporary: Buffer | None) -> list[Callable[[], Any]]:
        """Functions that run each step."""
        launches = self.plan.ahead.bind(self.plan.programs, self._placed(places, temporary))
        if (recorder := WATCHER.get()) is None:
            return launches
        return list(recorder.watch(self, dict(enumerate(launches)), self.labels).values())

    def series(self, in_place: Collection[str] = ()) -> Callable[..., Any] | None:
        """A function that runs it on NumPy arrays exactly as described, in the order of the fields, the outputs last.

        The outputs `in_place` are the very memory of the inputs that they may share. Where it needs scratch memory,
        that follows as an array. It gives None, and something else where a binding raises an error. There is no such
        function for a long graph, for which binding is little, nor where steps depend on more than addresses. Nobody
        watches it.
        """
        if len(self.plan.programs) > _MOST_STEPS or not self._has_series:
            return None
        return self.device.engine.series(self.plan.programs, self._series_places(self.plan, in_place))

    def open_series(self, plan: GraphPlan, in_place: Collection[str] = ()) -> OpenSeries | None:
        """The same of the same graph planned with open sizes, for all of these, however many steps there are."""
        if not self._has_series:
            return None
        return self.device.engine.open_series(plan.programs, self._series_places(plan, in_place))

    @property
    def _has_series(self) -> bool:
        return self.memory == HOST and has_fast_address and not self.owned

    def _series_places(self, plan: GraphPlan, in_place: Collection[str]) -> list[Mapping[str, Place]]:
        """Where the tensors of each program lie."""
        stores, count = plan.stores, len(self._bound_fields)
        places = {stores.get(field, field): Place(number, 0) for number, field in enumerate(self._bound_fields)}
        places |= {stores[field]: places[stores[self.shares[field]]] for field in in_place}
        places |= {name: Place(None, address) for name, address in self._constants.places.items()}
        if plan.arena.size_in_bytes:
            places |= {name: Place(count, offset) for name, offset in plan.arena.offsets.items()}
        return [plan.ahead.places(number, places) for number in range(len(plan.programs))]

    # Arrays

    def bind(self, /, *inputs: object, out: object, **named: object) -> BoundOperator:
        """Attach arrays: inputs in their order or by name, and an array for each output."""
        given = self._collect("bind", inputs, named)
        outputs = self.several(out)
        if (bound := self.bind_plain(given, outputs, self.handed_back(outputs))) is not None:
            return bound
        seen = self.look(self.free, given)
        return self.bind_views(seen, self.look_at_outputs(outputs, out), self.handed_back(outputs))

    def __call__(self, /, *inputs: object, out: object = None, **named: object) -> Any:
        """Run on arrays; without `out` the results are new arrays of the first input's library."""
        if out is not None:
            return self.bind(*inputs, out=out, **named).dispatch()
        return self.run_anew(self._collect("call", inputs, named))

    def _collect(self, call: str, inputs: Sequence[object], named: Mapping[str, object]) -> Sequence[object]:
        """The inputs in their order, wherever they were given."""
        if not named and len(inputs) == len(self.free):
            return inputs
        for name in named:
            wrong = "" if name in self.free else f"there is no input {name!r} to give"
            if name in self.free[: len(inputs)]:
                wrong = f"{name} was given by its place already"
            if wrong:
                way_out = f"{call}() takes {', '.join(self.free) or 'none'}"
                raise BindingError(self.name, Fault(field=name, rule=wrong, way_out=way_out))
        rest = self.free[len(inputs) :]
        given = [*inputs, *(named[name] for name in rest if name in named)]
        self.check_count(call, self.free, given, "the inputs")
        return given

    def map_blocks(self, *arrays: Any) -> Any:
        """Lazily on every block of dask arrays, in blocks of the inputs' sizes: see `anydml.dask.map_blocks`."""
        return import_alone("anydml.dask").map_blocks(self, *arrays)  # a layer above, as the arrays are

    @property
    def schedules(self) -> Schedules:
        """For each pass the route of the engine's decision table that it takes, and the condition that chose it."""
        told = self.told
        passes = ((step.nodes, verbs_of(step.primitive)) for step in told.recipe.steps)
        return schedules_of(self.device.engine, passes, told.constants)

    def explain(self) -> GraphPicture:
        """The nodes as they were described and the passes over memory that they became, with the bytes each moves.

        It prints as text; `.svg()` and `.html()` draw it, and a notebook shows it.
        """
        import_alone("anydml.explain")
        from anydml.explain import Recipes, explain_desc  # which nothing needs that only runs

        told, ahead = self.told, self.plan.ahead
        recipes = Recipes(told.lowered, ahead.told(told.recipe), told.once, ahead.did(told.did))
        return explain_desc(told.desc, recipes, arena_bytes=self.temporary_size)

    def _repr_html_(self) -> str:
        return self.explain()._repr_html_()

    def __repr__(self) -> str:
        inputs = ", ".join(f"{name}: {desc!r}" for name, desc in self.inputs.items())
        outputs = ", ".join(f"{name}: {desc!r}" for name, desc in self.outputs.items())
        return f"CompiledGraph({inputs} -> {outputs}, steps={len(self.plan.programs)}, engine={self.device.name!r})"


def all_disabled(disabled_passes: Collection[str], *, optimise: bool) -> frozenset[str]:
    """The graph passes that are left out: those named, and without optimisation nearly all."""
    if optimise:
        return frozenset(disabled_passes)
    import_alone("anydml.graph.optimise")
    from anydml.graph.optimise import every_but_layouts  # with all rules: 10 ms of import, where they are needed

    return every_but_layouts() | {*disabled_passes}


def _word_index_fault(plan: GraphPlan, fault: IndexFault) -> IndexRangeError:
    """Name the node that found an index outside its dimension."""
    assert plan.tell is not None  # noqa: S101 - for type checkers: as above
    desc = plan.tell().desc
    number = node_names(desc).index(fault.node)
    node, label = operators(desc)[number], desc.label(number)
    found = node.desc.word_index_fault(fault)
    rule = f"{label}: {node.kind}: {found.rule}" if node.name else f"{label}: {found.rule}"
    worded = Fault(field=f"{label}.{found.field}", rule=rule, value=found.value, way_out=found.way_out)
    return IndexRangeError(SUBJECT, worded)
