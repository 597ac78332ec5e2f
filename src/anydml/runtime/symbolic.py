"""Graphs with symbolic sizes: compiled for the sizes of the arrays that come, but for the first by substitution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Self

from anydml.arrays import view
from anydml.core.display import counted
from anydml.core.errors import BindingError, DescriptionError, DmlError, Fault, show
from anydml.core.graph_sizes import SUBJECT, told_sizes
from anydml.core.locks import make_lock
from anydml.core.parse import UINT32_MAX, read_int
from anydml.runtime.call_cache import CallCache
from anydml.runtime.graph import CompiledGraph
from anydml.runtime.plan_cache import STEP_BYTES, PlanCache
from anydml.runtime.replanning import Described, Replans

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from anydml.core.enums import DataType, ExecutionFlags
    from anydml.explain import GraphPicture
    from anydml.runtime.bound import BoundOperator
    from anydml.runtime.device import Device
    from anydml.runtime.schedules import Schedules

    Results = Mapping[int, tuple[Any, ...]]

_MOST_SHAPES = 4096
"""Of calls that are found at once."""


class SymbolicInput(NamedTuple):
    """An input: its name, its type, and its sizes: numbers, names, and None for what is computed of others."""

    name: str
    data_type: DataType
    sizes: tuple[int | str | None, ...]
    shown: str


class _Compiled(NamedTuple):
    compiled: CompiledGraph

    @property
    def weight(self) -> int:
        """As plan caches ask."""
        return STEP_BYTES * len(self.compiled.plan.programs)

    @property
    def held(self) -> Mapping[int, int]:
        """As plan caches ask."""
        return self.compiled.held


class SymbolicGraph:
    """A graph made ready for an engine for all sizes: what `Graph.compile` gives where inputs have symbolic sizes.

    It is called, and bound, as a `CompiledGraph` is. Each new size takes milliseconds: the graph is planned with its
    sizes as symbols, and for others of which the same was found, the numbers are put into that plan. Where something
    else is found of them, being 1, or small, it is planned anew; `plans` says how often. `model.at(batch=8)` is the
    graph for certain sizes, ready before the first call, to be explained, and with schedules of its own.
    """

    name = SUBJECT

    def __init__(
        self,
        device: Device,
        describe: Callable[[Mapping[str, Any]], Described[Results]],
        inputs: Sequence[SymbolicInput],
        examples: Mapping[str, int],
        outputs: str,
        flags: ExecutionFlags,
        disabled_passes: Collection[str],
    ) -> None:
        self.device, self.flags = device, flags
        self._describe, self._inputs, self._examples, self._outputs = describe, tuple(inputs), dict(examples), outputs
        self._disabled_passes = disabled_passes
        self._names = [one.name for one in inputs]
        self._lock = make_lock()
        self._known = known = CallCache[CompiledGraph](_MOST_SHAPES)
        """By the shapes of a call's arrays, in front of the plan cache."""
        self._ready: PlanCache[_Compiled] = PlanCache(lambda gone: known.forget(gone.compiled))
        self._replans: Replans[Results] = Replans(
            device, lambda sizes, _: describe(sizes), disabled_passes, are_declared=True  # type: ignore[arg-type]
        )  # fmt: skip
        self._plain = 0
        self._last: CompiledGraph | None = None

    # Sizes

    @property
    def sizes(self) -> tuple[str, ...]:
        """The names of the symbolic sizes."""
        return tuple(self._examples)

    @property
    def plans(self) -> int:
        """How often it was planned: once for all sizes of which the same is found."""
        return len(self._replans.plans) + self._plain

    def at(self, **sizes: int) -> CompiledGraph:
        """The graph for certain sizes, each by its name."""
        told = ", ".join(f"{name}=" for name in self._examples)
        missing, unknown = sorted(self._examples.keys() - sizes), sorted(sizes.keys() - self._examples)
        faults = [Fault(field=name, rule=f"{name} must be given", way_out=f"at() takes {told}") for name in missing]
        for name in unknown:
            rule = f"{name} must be the name of a symbolic size"
            faults.append(Fault(field=name, rule=rule, value=name, found=show(name), way_out=f"there are {told}"))
        read = {name: read_int(sizes[name], name, faults, 1, UINT32_MAX) for name in self._examples if name in sizes}
        if faults:
            raise DescriptionError(SUBJECT, faults)
        return self._at(read)

    def _at(self, sizes: dict[str, int]) -> CompiledGraph:
        with self._lock:
            key = tuple(sizes.values())
            if (known := self._ready.use(key)) is None:
                try:
                    known = _Compiled(self._compile(sizes))
                except DmlError as error:
                    raise told_sizes(error, "compiled for {}", sizes) from error.__cause__
                self._ready.add(key, known)
            self._last = known.compiled
            return known.compiled

    def _compile(self, sizes: dict[str, int]) -> CompiledGraph:
        if (found := self._replans.find(sizes)) is not None:  # type: ignore[arg-type]  # names are hashable
            results, compiled = found.more, found.make(None)
        else:
            results, desc = self._describe(sizes)
            compiled = CompiledGraph(self.device, desc, self.flags, disabled_passes=self._disabled_passes)
            self._plain += 1
        for number, result in results.items():
            compiled.results[number] = result
        return compiled.initialize()

    # Calls

    def __call__(self, /, *inputs: Any, out: object = None, **named: object) -> Any:
        """Run on arrays, of the sizes that they have; without `out` the results are new arrays."""
        return self._graph_of(inputs, named)(*inputs, out=out, **named)

    def bind(self, /, *inputs: Any, out: object, **named: object) -> BoundOperator:
        """Attach arrays of some sizes: inputs in their order or by name, and an array for each output."""
        return self._graph_of(inputs, named).bind(*inputs, out=out, **named)

    def _graph_of(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> CompiledGraph:
        """The graph for the sizes of arrays."""
        if not named:
            try:
                return self._known[tuple([array.shape for array in inputs])]
            except (AttributeError, KeyError, TypeError):
                pass
        given = dict(zip(self._names, inputs, strict=False))
        given |= {name: array for name, array in named.items() if name in self._names}
        shapes = {name: tuple(view(array, SUBJECT, name, memory=None).sizes) for name, array in given.items()}
        compiled = self._at(self._sizes_of(shapes))
        if not named:
            self._known.keep(tuple(shapes.values()), compiled)
        return compiled

    def _sizes_of(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
        """The symbolic sizes, as arrays have them."""
        sizes: dict[str, int] = {}
        first: dict[str, str] = {}
        faults: list[Fault] = []
        for one in self._inputs:
            if one.name not in shapes:
                rule = f"{one.name} must be given"
                faults.append(Fault(field=one.name, rule=rule, way_out=f"call() takes {', '.join(self._names)}"))
                continue
            shape = shapes[one.name]
            more = len(shape) - len(one.sizes)
            if any(size != 1 for size in shape[: max(more, 0)]):
                rule = f"{one.name} must be an array of sizes {one.shown}, as described"
                faults.append(Fault(field=one.name, rule=rule, value=shape, found=str(shape)))
                continue
            shape = shape[more:] if more >= 0 else (1,) * -more + shape
            for k, (name, size) in enumerate(zip(one.sizes, shape, strict=True)):
                place = f"{one.name}.Sizes[{k}]"
                if type(name) is int and name != size:
                    rule = f"{one.name} must be an array of sizes {one.shown}, as described"
                    faults.append(Fault(field=one.name, rule=rule, value=shape, found=str(shape)))
                    break
                if not isinstance(name, str):
                    continue
                if size < 1:
                    rule = f"{place}, {name}, must be at least 1: no tensor is empty"
                    faults.append(Fault(field=place, rule=rule, value=size, found=show(size)))
                elif sizes.setdefault(name, size) != size:
                    rule = f"{place} must be {sizes[name]}: {name} is {sizes[name]} in {first[name]}"
                    way_out = "sizes that may differ have names of their own"
                    faults.append(Fault(field=place, rule=rule, value=size, found=show(size), way_out=way_out))
                first.setdefault(name, place)
        if faults:
            raise BindingError(SUBJECT, faults)
        return {name: sizes[name] for name in self._examples}

    # What it is

    @property
    def _shown_graph(self) -> CompiledGraph:
        return self._at(dict(self._examples)) if self._last is None else self._last

    @property
    def schedules(self) -> Schedules:
        """Those of the sizes used last, or of the examples where none was: `model.at(batch=8).schedules` has others."""
        return self._shown_graph.schedules

    def explain(self) -> GraphPicture:
        """The passes for the sizes used last, or for the examples."""
        return self._shown_graph.explain()

    def _repr_html_(self) -> str:
        return self._shown_graph._repr_html_()

    def __deepcopy__(self, _memo: object) -> Self:
        return self

    def __copy__(self) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        message = f"{self.name}: what is compiled cannot be pickled; pickle its Graph, and compile that"
        raise TypeError(message)

    def __repr__(self) -> str:
        inputs = ", ".join(f"{one.name}: {one.data_type.name.lower()} {one.shown}" for one in self._inputs)
        done = f"{counted(self.plans, 'plan')} for {len(self._ready)} of its sizes"
        return f"SymbolicGraph({inputs} -> {self._outputs}, {done}, engine={self.device.name!r})"
