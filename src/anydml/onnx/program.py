"""A traced model, compiled: inputs of fixed shapes in, outputs of fixed shapes out."""

from __future__ import annotations

import functools
import itertools
import sys
import weakref
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import numpy as np

from anydml.arrays import DeviceArray, on_host, send
from anydml.arrays.cuda import load_torch
from anydml.arrays.fingerprints import as_plain, described_key, plain_key, plain_maker
from anydml.core.device_memory import memories
from anydml.core.enums import ExecutionFlags
from anydml.core.errors import BindingError, DmlError, Fault, ModelError, show
from anydml.core.late_imports import import_alone
from anydml.core.memory import HOST, numpy_address, packed_strides, word_bytes
from anydml.ir.verbs import IndexFault
from anydml.onnx.lower.trace import of_node
from anydml.onnx.steps import Steps
from anydml.runtime.binding_pool import Arenas, Rebounds
from anydml.runtime.buffer_pool import LARGE, SpareMemory
from anydml.runtime.call_cache import CallCache
from anydml.runtime.graph import CompiledGraph
from anydml.runtime.launches import in_a_row
from anydml.runtime.plan_cache import STEP_BYTES
from anydml.runtime.profiler_hook import WATCHER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from anydml.core.limits import MemoryLimit
    from anydml.onnx.lower.trace import Trace
    from anydml.onnx.lower.values import Value
    from anydml.onnx.tensors import Beside
    from anydml.runtime.device import Device
    from anydml.runtime.replanning import Ready

    Maker: TypeAlias = Callable[[int | None], CompiledGraph]
    from collections.abc import Collection, Iterable

    from anydml.api.expression import Expression


class OutsideError(DmlError):
    """Values of a run that a program does not hold for: one for those very values computes them.

    An exception stops a row of launches, compiled ones among them, as any kernel's fault does. `Program.run` and
    `run_into` give None for it; who launches what is bound by itself catches it, and runs it as any other.
    """


def not_exact(name: str) -> ModelError:
    """The error of a run whose very values a program was made for, and still does not hold for."""
    rule = "a program for the very values of a run must hold for them"
    return ModelError(name, Fault(field="", rule=rule, way_out="this is a fault of anydml: please report it"))


_MOST_LAUNCHES = 64
_READY_BYTES = 1024
"""Of a program that is not compiled, for each of its passes: their records, and half as much beside."""

T = TypeVar("T")


class Program:
    """The program for inputs of certain shapes, and of certain values where shapes depend on those.

    Arrays given are plain and packed: NumPy's, or those of the device's memory. They are given in a dict of the
    run's own, which keeps them until it has ended: their addresses are all that is looked at, so that shapes which
    DirectML has not, such as that of a scalar, cost nothing.
    """

    def __init__(
        self,
        outline: Outline,
        device: Device,
        spares: Spares,
        beside: Beside,
        make: Maker | None,
        ready: Ready | None = None,
    ) -> None:
        """`make` compiles the graph, where there is one, in so many bytes of memory beside the results.

        It is not compiled before somebody asks for it where something `ready` runs it.
        """
        self.outline = outline
        self._spares, self._model = spares, beside.model
        self._labels, self._rules, self._assumed = outline.labels, outline.rules, outline.assumed
        self.names = list(outline.outputs)
        self.values = list(outline.outputs.values())
        self.memory = device.engine.memory
        limit = beside.limit if self.memory == HOST or beside.limit.is_given else None
        self.result_size = size = sum(value.count * value.element.dtype.itemsize for value in self.values)
        if limit is not None:
            limit.check(size, "results", self._model)
        self._graph_made, self._copied, self._reads = outline.made, outline.copied, outline.reads
        self._states, self._numbers = outline.states, itertools.count()
        self.missed = 0
        """Runs, the last ones, with values that it does not hold for."""
        self.shares: Mapping[str, str] = {}
        """By output, the input whose very memory it may be written to."""
        self._is_simple = len(outline.made) == len(self.values)
        self._makers = [self._maker(value) for value in self.values]
        self._launches: CallCache[Callable[[], Any]] = CallCache(_MOST_LAUNCHES)
        """Launches on earlier runs' arrays, by their addresses."""
        self._series: Callable[..., Any] | None = None
        self._series_in_place: dict[frozenset[str], Callable[..., Any]] = {}
        """By the outputs that are written where the inputs lie that they share memory with."""
        self._bare: Callable[..., Any] | None = None
        """The same where it takes arrays and gives results alone."""
        self._is_new, self._is_looked_at = True, False
        self._compiled: CompiledGraph | None = None
        self._make, self._limit = make, limit
        if ready is not None and limit is not None and ready.needs > limit.left - size:
            ready = None  # whose constants may not be laid out: the graph says what there is room for
        self._ready = ready
        if make is not None:
            graph = self.compiled if ready is None else ready.graph
            assert graph is not None  # noqa: S101 - for type checkers: there is one to make
            scratch = graph.temporary_size if ready is None else ready.temporary_size
            if limit is not None:  # of which tensors beside the model, read for the graph, have taken their part
                limit.check(size + scratch, "results and scratch memory", self._model)
            self._fields = [*graph.free, *graph.outputs]
            read = dict(zip(graph.free, self._reads, strict=True))
            made = dict(zip(graph.outputs, (self.names[i] for i in self._graph_made), strict=True))
            self.shares = {made[output]: read[given] for output, given in graph.shares.items()}
        if ready is not None:
            self._is_new, self._is_looked_at, self._series = False, True, ready.series.get(frozenset())
            if self._is_simple and not (self._states or ready.temporary_size):
                self._bare = self._series
        spares.programs.add(self)

    @property
    def compiled(self) -> CompiledGraph | None:
        """The graph; None where there is nothing to run."""
        if self._compiled is None and self._make is not None:
            graph = self._compile(self._make, self._limit, self.result_size)
            graph.labels = self._labels
            self._rebounds = Rebounds(graph, self._spares.arenas)
            self._compiled = graph
        return self._compiled

    @property
    def held(self) -> Mapping[int, int]:
        """By address, the bytes of the constants that every run reads."""
        graph = self.compiled if self._ready is None else self._ready.graph
        return {} if graph is None else graph.held

    @property
    def temporary_size(self) -> int:
        """Bytes of scratch memory that a run needs."""
        found = self.compiled if self._ready is None else self._ready
        return 0 if found is None else found.temporary_size

    @property
    def weight(self) -> int:
        """Bytes, about, that it holds for itself beside constants."""
        if self._ready is not None and self._compiled is None:
            return _READY_BYTES * len(self._ready.graph.plan.programs)
        return 0 if self.compiled is None else STEP_BYTES * len(self.compiled.plan.programs)

    @classmethod
    def of(cls, found: Trace, spares: Spares, beside: Beside, disabled_passes: frozenset[str] = frozenset()) -> Self:
        """The program of a trace, with some passes disabled."""
        outline, made = outline_of(found)
        graph = found.tracer.graph

        def make(left: int | None) -> CompiledGraph:
            options: dict[str, Any] = {"disabled_passes": disabled_passes, "max_memory": left}
            return CompiledGraph(graph.device, graph.desc(made), ExecutionFlags.NONE, **options)

        return cls(outline, graph.device, spares, beside, make if made else None)

    def _compile(self, make: Maker, limit: MemoryLimit | None, results: int) -> CompiledGraph:
        """Compile the graph, unless it takes more than the results leave of a limit."""
        try:
            return make(None if limit is None else limit.left - results).initialize()
        except DmlError as error:
            if limit is not None and error.field == "max_memory" and isinstance(error.value, int):
                limit.check(error.value + results, "results, scratch memory and constants", self._model)
            raise self._of_node(error) from None

    def results(self) -> Iterator[tuple[str, Value]]:
        """Its results, by name."""
        return zip(self.names, self.values, strict=True)

    def _maker(self, value: Value) -> Callable[[], Any]:
        """A function that makes an array for a result, each time anew."""
        if self.memory == HOST:
            dtype = value.element.dtype
            if (size := value.count * dtype.itemsize) >= LARGE:
                return functools.partial(self._spares.results.make, value.shape, dtype, size)
            return functools.partial(np.empty, value.shape, dtype)
        if not value.element.is_bool:
            return plain_maker(value.element.data_type, value.shape, self.memory)
        if self.memory in memories:
            return DeviceArray.maker(value.element.dtype, value.shape, self.memory)
        torch = load_torch()
        return functools.partial(torch.empty, value.shape, dtype=torch.bool, device=self.memory)

    def run(self, arrays: dict[str, Any]) -> list[Any] | None:
        """Run on inputs by name; the outputs are new arrays, in the model's order.

        None for values that it does not hold for.
        """
        try:
            results = [make() for make in self._makers]
        except DmlError:  # a device that is lost, or another process's
            raise
        except Exception as error:
            shapes = ", ".join(str(value.shape) for value in self.values)
            rule = f"results of {shapes} could not be allocated ({show(error)})"
            raise BindingError("model", Fault(field="outputs", rule=rule)) from error
        bare = self._bare if WATCHER.get() is None else None  # the same as below, by three calls fewer
        if bare is not None and bare(*[arrays[name] for name in self._reads], *results) is None:
            self.missed = 0
            return results
        try:
            self._run(arrays, results)
        except OutsideError:
            return None
        if not self._is_simple:
            self._complete(arrays, results)
        return results

    def run_into(self, arrays: dict[str, Any], outs: Sequence[Any]) -> list[Any] | None:
        """Run into arrays that the caller has; None among them stands for one to be made."""
        results = [make() if out is None else out for out, make in zip(outs, self._makers, strict=True)]
        try:
            self._run(arrays, results)
        except OutsideError:
            return None
        self._complete(arrays, results)
        return results

    def fits(self, value: Value, array: Any) -> bool:
        """Whether an array is packed memory for a result."""
        if self.memory != HOST:
            kind = value.element.data_type
            is_known = array is not None and type(array) is not np.ndarray and as_plain(array) is array
            return is_known and plain_key(array) == described_key(
                kind, value.shape, packed_strides(value.shape), self.memory
            )
        is_array = type(array) is np.ndarray and array.flags.c_contiguous and array.flags.writeable
        return is_array and array.shape == value.shape and array.dtype == value.element.dtype

    def bound(self, arrays: Mapping[str, Any], results: list[Any], fixed: frozenset[str]) -> Callable[[], Any] | None:
        """A function that runs on these very arrays, at each call as they are then; None where that cannot be bound.

        The inputs `fixed` stay as they are, so that a result which repeats one is written now. It is to be called
        within `guard`, once or many times, and to be held with the arrays.
        """
        if self._states:
            return None
        if self.memory != HOST:
            return self._bound_on_device(arrays, results)
        self._complete(dict(arrays), results)
        copies = []
        for i, other in self._copied.items():
            if other not in fixed:
                source = arrays[other] if isinstance(other, str) else results[other]
                copies.append((results[i].reshape(-1), source.reshape(-1).view(results[i].dtype)))
        launches: list[Callable[[], Any]] = [functools.partial(np.copyto, *pair) for pair in copies]
        if self._series is not None and self._ready is not None:  # which takes less to be given arrays than to bind
            launches.insert(0, functools.partial(self._run_on_host, dict(arrays), results))
            return in_a_row(launches)
        compiled, scratch = self.compiled, None
        if compiled is not None:
            made = [results[i] for i in self._graph_made]
            addresses = [numpy_address(array) for array in (*(arrays[name] for name in self._reads), *made)]
            scratch = compiled.reserve_scratch() if compiled.temporary_size else None
            launches.insert(0, compiled.launch(dict(zip(self._fields, addresses, strict=True)), scratch))
        return in_a_row(launches, scratch)

    def _bound_on_device(self, arrays: Mapping[str, Any], results: Sequence[Any]) -> Callable[[], Any] | None:
        """The same on a device, which may replay the launches."""
        compiled = self.compiled
        if compiled is None or not self._is_simple:
            return None
        bound = compiled.bind_known([*(arrays[name] for name in self._reads), *results], None)
        if bound is None:
            return None

        def launch() -> None:
            try:
                bound.dispatch()
            except DmlError as error:
                raise self._of_node(error) from None

        return launch

    def follow(self, arrays: Mapping[str, Any], outs: Mapping[str, Any]) -> Steps | None:
        """What runs on arrays of other sizes, if they come in the stead of these, by numbers alone; None without it.

        Outputs without an array are made at each run.
        """
        ready, is_here = self._ready, self.memory == HOST
        if ready is None or not is_here or not self._is_simple or self._states:
            return None
        results = [outs.get(name) for name in self.names]
        pairs = zip(self.values, results, strict=True)
        if not all(array is None or self.fits(value, array) for value, array in pairs):
            return None
        return Steps(self, ready, dict(arrays), results)

    def fields_in_place(self, arrays: dict[str, Any], results: Sequence[Any]) -> frozenset[str]:
        """The graph's outputs that are written where the inputs lie that they share memory with."""
        shared = self._shared(arrays, results) if self.shares else frozenset()
        fields = dict(zip((self.names[i] for i in self._graph_made), self._fields[len(self._reads) :], strict=True))
        return frozenset(fields[name] for name in shared)

    @property
    def reads(self) -> list[str]:
        """The inputs that the graph takes, in its order."""
        return self._reads

    @property
    def arenas(self) -> Arenas:
        """The scratch memory of the model's programs."""
        return self._spares.arenas

    def _run(self, arrays: dict[str, Any], results: Sequence[Any]) -> None:
        """Run the graph where there is one; the number of the run is the higher half of a generator's counter."""
        if self._make is None:
            return
        if self._states:
            number = next(self._numbers)
            for name, key in self._states.items():
                state = np.array([0, 0, number & 0xFFFFFFFF, number >> 32, *key], np.uint32)
                arrays[name] = state if self.memory == HOST else send(state, self.memory)
        if self.memory == HOST:
            self._run_on_host(arrays, results)
        else:
            self._run_on_device(arrays, results)

    def _addresses(self, arrays: dict[str, Any], results: Sequence[Any]) -> tuple[int, ...]:
        if self._is_simple:
            return tuple([numpy_address(arrays[name]) for name in self._reads] + [numpy_address(r) for r in results])
        made = [results[i] for i in self._graph_made]
        return tuple([numpy_address(arrays[name]) for name in self._reads] + [numpy_address(r) for r in made])

    def _run_on_host(self, arrays: dict[str, Any], results: Sequence[Any]) -> None:
        """Run by one call, from the second run on; what has no such call is bound, and so is one that finds a fault."""
        if WATCHER.get() is None:
            if (series := self._series) is not None:
                if self.shares and (shared := self._shared(arrays, results)):
                    series = self._series_of(shared)
                if series is not None and self._run_series(series, arrays, results) is None:
                    self.missed = 0
                    return
            elif self._is_new:
                self._is_new = False
            elif not self._is_looked_at:
                assert self.compiled is not None  # noqa: S101 - for type checkers: it was looked at
                self._is_looked_at, self._series = True, self.compiled.series()
                if self._is_simple and not (self._states or self.compiled.temporary_size):
                    self._bare = self._series
        self._run_bound(arrays, results)

    def _shared(self, arrays: dict[str, Any], results: Sequence[Any]) -> frozenset[str]:
        """The outputs that are the very memory of the input that they may share."""
        made = dict(zip(self.names, results, strict=True))
        pairs = [(out, made[out], arrays[given]) for out, given in self.shares.items() if made[out] is not None]
        return frozenset(out for out, one, other in pairs if numpy_address(one) == numpy_address(other))

    def _series_of(self, shared: frozenset[str]) -> Callable[..., Any] | None:
        """The series that writes some outputs in place: what is scattered into is not copied there."""
        if (found := self._series_in_place.get(shared)) is None:
            fields = dict(zip((self.names[i] for i in self._graph_made), self._fields[len(self._reads) :], strict=True))
            own = frozenset(fields[name] for name in shared)
            if self._ready is not None:
                found = self._ready.series.get(own)
            else:
                assert self.compiled is not None  # noqa: S101 - for type checkers: it shares
                found = self.compiled.series(own)
            if found is not None:
                self._series_in_place[shared] = found
        return found

    def _run_series(self, series: Callable[..., Any], arrays: dict[str, Any], results: Sequence[Any]) -> Any:
        """None, where all of it ran."""
        given = [arrays[name] for name in self._reads]
        made = results if self._is_simple else [results[i] for i in self._graph_made]
        graph = self.compiled if self._ready is None else self._ready
        assert graph is not None  # noqa: S101 - for type checkers: it was looked at
        if not graph.temporary_size:
            return series(*given, *made)
        arena = self._spares.arenas.take(graph)
        try:
            return series(*given, *made, arena.owner)
        finally:
            self._spares.arenas.give_back(arena)

    def _run_bound(self, arrays: dict[str, Any], results: Sequence[Any]) -> None:
        """Find what was bound to these addresses before: of two threads at once no two write to the same scratch."""
        addresses = self._addresses(arrays, results)
        compiled, launch = self.compiled, self._launches.get(addresses)
        assert compiled is not None  # noqa: S101 - for type checkers: it was looked at
        if launch is None:
            places = dict(zip(self._fields, addresses, strict=True))
            if compiled.temporary_size:
                launch = functools.partial(self._rebounds.run, places)
            else:
                launch = compiled.launch(places, None)
                self._launches.keep(addresses, launch)
        self.guard(launch)

    def guard(self, launch: Callable[..., T], *args: Any) -> T:
        """Launch, and tell of what goes wrong by the model's names."""
        try:
            found = launch(*args)
            if self.missed:
                self.missed = 0
            return found
        except IndexFault as fault:
            assert self.compiled is not None  # noqa: S101 - as above
            raise self._of_node(self.compiled.word(fault)) from None
        except MemoryError as error:
            rule = f"memory ran out while the model ran ({show(error)})"
            raise BindingError("model", Fault(field="", rule=rule)) from error

    def _run_on_device(self, arrays: dict[str, Any], results: Sequence[Any]) -> None:
        assert self.compiled is not None  # noqa: S101 - as above
        bound = [*(arrays[name] for name in self._reads), *(results[i] for i in self._graph_made)]
        try:
            self.compiled.run_known(bound, None, is_fresh=True)  # what is fresh needs no closer look
        except DmlError as error:
            raise self._of_node(error) from None

    def _complete(self, arrays: dict[str, Any], results: list[Any]) -> None:
        """Fill what the graph does not make: constants, and what repeats an input or another output."""
        for i, value in enumerate(self.values):
            if i in self._copied:
                other = self._copied[i]
                _copy(arrays[other] if isinstance(other, str) else results[other], results[i])
            elif value.known is not None and value.count:
                _copy(value.known.flat(), results[i])

    def _of_node(self, error: DmlError) -> DmlError:
        """An error of the graph, told of the node of the model that it is about."""
        for name, label in self._labels.items():
            mark = f"] {name!r}: "
            if any(mark in fault.rule for fault in error.faults):
                if name in self._assumed:
                    self.missed += 1
                    return OutsideError(label, error.faults)
                if name in self._rules and error.value:
                    return _broken(label, *self._rules[name], error.value)
                faults = [
                    replace(f, rule=f.rule.partition(mark)[2] or f.rule, field=f.field.rpartition("'.")[2])
                    for f in error.faults
                ]
                return of_node(type(error)(label, faults), label)
        return error


def _broken(label: str, field: str, rule: str, bits: int, most: int, indices: Any) -> ModelError:
    """The fault that a gather with checked lengths found, which read them without their sign; a rule may name it."""
    rule = rule.replace("{most}", str(most))
    (found,) = (int(index) for index in indices[:1])
    found -= 2**bits if found >= 2 ** (bits - 1) else 0
    if "{}" in rule:
        return ModelError(label, Fault(field=field, rule=rule.replace("{}", str(found)), value=found))
    return ModelError(label, Fault(field=field, rule=rule, value=found, found=str(found)))


def _copy(given: Any, result: Any) -> None:
    """Copy elements as they lie, whatever shape or type they are seen in."""
    if isinstance(result, np.ndarray):
        result.reshape(-1)[...] = given.reshape(-1).view(result.dtype)
        return
    if isinstance(result, DeviceArray):
        result.reshape(-1).copy_from(on_host(given).reshape(-1).view(result.dtype))
        return
    if isinstance(given, np.ndarray):
        given = load_torch().from_numpy(given.copy())
    result.view(-1).copy_(given.reshape(-1).view(result.dtype))


# The inputs and outputs of a program, apart from its graph: found by a trace, and kept with a plan of the graph.


@dataclass(frozen=True, slots=True)
class Outline:
    """The inputs and outputs of a model for certain shapes, and where the outputs come from."""

    outputs: dict[str, Value]
    """By name, apart from any graph."""
    reads: list[str]
    """The inputs that the graph takes, in its order."""
    made: list[int]
    """By the graph's output, the number of the model's."""
    copied: dict[int, str | int]
    """By the number of an output of the model's, the input or the other output that it repeats."""
    labels: Mapping[str, str]
    """By the name that a node has in the graph, what errors call it."""
    rules: Mapping[str, tuple[str, str, int, int]]
    """By the name of a gather that is there to check its indices, the field and the rule that they break."""
    assumed: Collection[str]
    """The names of those that find outside what the program does not hold for."""
    states: Mapping[str, np.ndarray[Any, Any]]
    """By the name among the inputs, the key of a generator whose state each run gives."""


def outline_of(found: Trace) -> tuple[Outline, list[Expression]]:
    """Look at what a trace found; the second part are the outputs of its graph."""
    tracer = found.tracer
    values = {name: value for name, value in found.outputs.items() if value is not None}
    reads = list(tracer.inputs)
    numbers: dict[tuple[int, int], int] = {}
    made: list[int] = []
    copied: dict[int, str | int] = {}
    expressions: list[Expression] = []
    for i, value in enumerate(values.values()):
        if value.is_known:
            continue
        source = None if value.expression is None else value.expression.source
        if source is None or source.is_input:
            copied[i] = value.source if source is None else reads[source.number]
            continue
        assert value.expression is not None  # noqa: S101 - for type checkers: it has a source
        place = (source.number, value.expression.slot)
        if place in numbers:
            copied[i] = numbers[place]
        else:
            numbers[place] = i
            made.append(i)
            expressions.append(value.expression)
    outputs = {name: value.for_next_graph() for name, value in values.items()}
    return Outline(
        outputs, reads, made, copied, tracer.labels, tracer.rules, tracer.assumed, tracer.states
    ), expressions


# How much memory a model takes: what its programs hold and a run needs, and what the system counted.


class Footprint(NamedTuple):
    """Bytes of the device's memory, as they were planned."""

    weights: int
    """Constants as programs read them, each once: packed where an engine wants them so, and then not as they were."""
    arena: int
    """Memory between operators, of the program that needs most: runs share it, one at a time."""
    results: int
    """The outputs of that program, which are the caller's."""

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self)

    def __str__(self) -> str:
        parts = zip(self._fields, self, strict=True)
        return f"{word_bytes(self.total)} ({', '.join(f'{name} {word_bytes(size)}' for name, size in parts)})"


def footprint(programs: Iterable[Program]) -> Footprint:
    """The memory of some programs of a model, which may share their constants."""
    weights: dict[int, int] = {}
    most = (0, 0)
    for program in programs:
        weights |= program.held
        most = max(most, (program.temporary_size, program.result_size))
    return Footprint(sum(weights.values()), *most)


def peak_of_process() -> int | None:
    """The most bytes of memory that this process has had; None where the system does not say."""
    try:
        import_alone("resource")
        import resource
    except ImportError:  # Windows
        return None
    found: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found if sys.platform == "darwin" else found * 1024


# Memory that the programs of a model share: of large results, and scratch memory.


class Spares:
    """The memory of the last two large results, and scratch memory."""

    def __init__(self) -> None:
        self.arenas = Arenas()
        """The scratch memory of all programs."""
        self.programs: weakref.WeakSet[Program] = weakref.WeakSet()
        """Those of a model, of its parts and of their bodies."""
        self.results = SpareMemory()
