"""Graphs on a device: compiled step by step, with one arena for what passes between the steps."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from anydml.engines.protocol import can_replay, replayed
from anydml.enums import DataType
from anydml.errors import BindingError, DescriptionError, Fault, IndexRangeError, show
from anydml.graph.arena import lay_out
from anydml.graph.check import byte_span
from anydml.graph.description import SUBJECT, GraphDesc
from anydml.graph.lower import lower
from anydml.graph.waits import find_waits
from anydml.graph.wiring import constants, input_descs, node_names, operators, output_descs, slot_names
from anydml.ir.choosing import Scatter
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import IndexFault
from anydml.ir.views import View
from anydml.locks import cached_property
from anydml.memory import word_bytes
from anydml.runtime.constants import Constants
from anydml.runtime.dispatchable import Compiled
from anydml.runtime.launches import Steps, in_a_row, one_or_all
from anydml.runtime.layouts import Layouts
from anydml.runtime.owned import Kept
from anydml.runtime.watching import WATCHER

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from anydml.explain import GraphPicture
    from anydml.flags import ExecutionFlags
    from anydml.graph.recipe import Recipe
    from anydml.memory import Buffer
    from anydml.runtime.bound import BoundOperator
    from anydml.runtime.device import Device
    from anydml.tensor import TensorDesc


class CompiledGraph(Compiled):
    """A graph made ready for an engine: IDMLCompiledOperator, as IDMLDevice1::CompileGraph gives it.

    `model(x, y)` takes the inputs in their order or by their names, and gives one array, or a tuple where there are
    several outputs; `out=` takes as many. `model.bind(x, y, out=z)` binds once, and its `dispatch()` does nothing but
    run. What passes between operators lies in scratch memory, as much as `binding_properties` says: a bound graph has
    its own, reserved when it is bound.
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
        without: Collection[str] = (),
        max_memory: int | None = None,
    ) -> None:
        if not isinstance(desc, GraphDesc):
            rule = "desc must be a GraphDesc"
            raise DescriptionError("Device", Fault(field="desc", rule=rule, value=desc, found=show(desc)))
        from anydml.graph import optimise as optimiser  # with all rules: 10 ms of import, where they are needed

        desc.validate(device.feature_level)
        self.desc = desc
        names_in, names_out = slot_names(desc)
        inputs = {name: _known(found) for name, found in zip(names_in, input_descs(desc), strict=True)}
        outputs = {name: _known(found) for name, found in zip(names_out, output_descs(desc), strict=True)}
        super().__init__(device, flags, inputs, outputs)
        self._stores = {name: f"input{i}" for i, name in enumerate(names_in)}
        self._stores |= {name: f"output{i}" for i, name in enumerate(names_out)}
        self.lowered = lower(desc, device.engine.takes)
        """A step for every node that an output needs."""
        left_out = frozenset(without) if optimise else optimiser.every_but_layouts() | {*without}
        self.once, self.recipe, self._did = optimiser.rewrite(self.lowered, device.engine, left_out)
        """What hangs on constants alone, and was computed when the graph was compiled; the steps of a dispatch; and by
        the names of rewritings what each did."""
        self.shares = _shares(self.recipe, {store: name for name, store in self._stores.items()})
        self.arena = lay_out(self.recipe)
        self.temporary_size = self.arena.size_in_bytes
        room = sys.maxsize if max_memory is None else self._check_memory(max_memory)
        known = optimiser.laid_out(self.recipe, [self._stores[field] for field in self.owned], room, left_out)
        self._programs = [device.engine.compile(step.primitive, known) for step in self.recipe.steps]
        self._ahead = Layouts.of(self.recipe, self._programs, taken=self._stores)
        self.plan_owned(self._ahead, self._stores)
        self.once = self._ahead.once(self.once, self.recipe)
        data = {f"constant{i}": node.data for i, node in constants(desc).items()}
        try:
            self._constants = Constants(device.engine, self.name, data, self.once, self._ahead.read)
        except IndexFault as fault:
            raise _word_index_fault(desc, fault) from None
        self.word = functools.partial(_word_index_fault, desc)

    def _check_memory(self, most: int) -> int:
        """Check what scratch memory and constants that are computed take, before any is allocated; what is left."""
        made = sum(store.size_in_bytes for store in self.once.stores.values() if store.kind == "output")
        total = made + max(self.temporary_size, lay_out(self.once).size_in_bytes if self.once.steps else 0)
        if total > most:
            rule = f"scratch memory and constants that are computed must be at most {word_bytes(most)}"
            raise BindingError(self.name, Fault(field="max_memory", rule=rule, value=total, found=word_bytes(total)))
        return most - total

    @property
    def held(self) -> Mapping[int, int]:
        """By address, the bytes of the constants that every dispatch reads."""
        return self._constants.held

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is worth knowing of the graph, though it is valid: nodes that nothing uses."""
        return self.desc.check(self.device.feature_level).remarks

    # What a compiled operator does as well

    def keep(self, field: str, tensor: TensorDesc) -> Kept:
        """An owned tensor is kept as it lies, gaps and all: nodes may read it in descriptions of their own."""
        below, above = byte_span(tensor)
        size = above - below
        source = View(field, DataType.UINT8, (size,), (1,), below)
        return Kept(field, copy_of(source, View("Persistent", DataType.UINT8, (size,), (1,))), size, -below)

    def launch(self, places: Mapping[str, int], temporary: Buffer | None) -> Callable[[], Any]:
        """What runs each step in turn."""
        return in_a_row(self.bind_all(places, temporary), self._constants or None)

    def again(self, launch: Callable[[], Any]) -> Callable[[], Any]:
        """The same, in an engine's way for rows of launches; a step that has the host look at indices is in none."""
        if WATCHER.get() or not can_replay(self.device.engine):
            return launch
        is_checked = [bool(step.primitive.checks) for step in self.recipe.steps]
        if all(is_checked) or not isinstance(launch, Steps):
            return launch
        replay = functools.partial(replayed, self.device.engine)
        return launch.between(is_checked, self._waits, replay)

    def _placed(self, places: Mapping[str, int], temporary: Buffer | None) -> Mapping[str, int]:
        """The addresses of all stores."""
        bound = {self._stores.get(field, field): place for field, place in places.items()}
        return self.arena.placed({**bound, **self._constants.places}, temporary)

    def bind_steps(
        self, places: Mapping[str, int], temporary: Buffer | None, moved: Iterable[str]
    ) -> dict[int, Callable[[], Any]]:
        """What runs the steps that touch fields which moved, by number."""
        stores = self._placed(places, temporary)
        numbers = {n for field in moved for n in self._touching.get(self._stores[field], ())}
        launches = {n: self._ahead.bind_one(self._programs, n, stores) for n in numbers}
        return launches if (recorder := WATCHER.get()) is None else recorder.watch(self, launches, self.labels)

    def bind_all(self, places: Mapping[str, int], temporary: Buffer | None) -> list[Callable[[], Any]]:
        """What runs each step."""
        launches = self._ahead.bind(self._programs, self._placed(places, temporary))
        if (recorder := WATCHER.get()) is None:
            return launches
        return list(recorder.watch(self, dict(enumerate(launches)), self.labels).values())

    @cached_property
    def _waits(self) -> list[list[int]]:
        """For each step the earlier ones that it must come after."""
        return find_waits(self.recipe, self.arena.offsets)

    @cached_property
    def _touching(self) -> dict[str, set[int]]:
        """By store, the steps that read or write it."""
        found: dict[str, set[int]] = {}
        for number, step in enumerate(self.recipe.steps):
            for view in (*step.sources, *step.targets):
                found.setdefault(view.tensor, set()).add(number)
        return found

    # Arrays

    def bind(self, /, *inputs: object, out: object, **named: object) -> BoundOperator:
        """Attach arrays: inputs in their order or by name, and an array for each output."""
        given = self._collect("bind", inputs, named)
        outputs = self.several(out)
        if (bound := self.bind_plain(given, outputs, one_or_all(outputs))) is not None:
            return bound
        seen = self.look(self.free, given)
        return self.bind_views(seen, self.look_at_outputs(outputs, out), one_or_all(outputs))

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

    def explain(self) -> GraphPicture:
        """The nodes as they were described and the passes over memory that they became, with the bytes each moves.

        It prints as text; `.svg()` and `.html()` draw it, and a notebook shows it.
        """
        from anydml.explain import Recipes, explain_desc  # which nothing needs that only runs

        recipes = Recipes(self.lowered, self._ahead.told(self.recipe), self.once, self._ahead.did(self._did))
        return explain_desc(self.desc, recipes, arena_bytes=self.temporary_size)

    def _repr_html_(self) -> str:
        return self.explain()._repr_html_()

    def __repr__(self) -> str:
        inputs = ", ".join(f"{name}: {desc!r}" for name, desc in self.inputs.items())
        outputs = ", ".join(f"{name}: {desc!r}" for name, desc in self.outputs.items())
        return f"CompiledGraph({inputs} -> {outputs}, steps={len(self.recipe.steps)}, engine={self.device.name!r})"


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


def _known(desc: TensorDesc | None) -> TensorDesc:
    assert desc is not None  # noqa: S101 - for type checkers: nothing is at fault
    return desc


def _word_index_fault(desc: GraphDesc, fault: IndexFault) -> IndexRangeError:
    """Name the node that found an index outside its dimension."""
    number = node_names(desc).index(fault.node)
    node, label = operators(desc)[number], desc.label(number)
    found = node.desc.word_index_fault(fault)
    rule = f"{label}: {node.kind}: {found.rule}" if node.name else f"{label}: {found.rule}"
    worded = Fault(field=f"{label}.{found.field}", rule=rule, value=found.value, way_out=found.way_out)
    return IndexRangeError(SUBJECT, worded)
