"""A loaded model: run on arrays, compiled once for each set of shapes."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from anydml.arrays import send
from anydml.core.display import Shown
from anydml.core.errors import (
    BindingError,
    DescriptionError,
    DmlError,
    Fault,
    ModelError,
    UnsupportedError,
    printable,
    show,
)
from anydml.core.late_imports import import_alone
from anydml.core.locks import cached_property, make_lock
from anydml.core.memory import HOST
from anydml.core.parse import read_int
from anydml.core.results import gathering
from anydml.graph.pass_names import read_disabled
from anydml.onnx.arguments import (
    find_overlapping,
    first_of,
    hand_over,
    hold,
    memory_told,
    out_of_memory,
    refuse_out,
    run_into,
)
from anydml.onnx.checks import TensorInfo, check_graph, describe, ends_table
from anydml.onnx.element_types import ELEMENT_TYPES, ForeignType
from anydml.onnx.example_sizes import find_example, refuse_doubtful
from anydml.onnx.ir import nodes_within
from anydml.onnx.lower.lowering_cache import Kept
from anydml.onnx.lower.refusals import Refusal, Why
from anydml.onnx.lower.trace import count_nodes, trace_all
from anydml.onnx.partition.partitioned_model import Divided, graphs_of, hosts, picture_of, run_parts, take_value
from anydml.onnx.partition.segment import looks_at
from anydml.onnx.program import Footprint, Program, Spares, footprint, not_exact
from anydml.onnx.program_cache import Programs
from anydml.onnx.read import read_model
from anydml.onnx.shapes import Binder, assumed_told, refuse_large
from anydml.onnx.signatures import result_types
from anydml.onnx.tools.random_inputs import index_limits, make_up, refuse_made_up
from anydml.runtime.call_cache import NamedCalls
from anydml.runtime.device import Device, device_named
from anydml.runtime.schedules import Schedules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from anydml.core.display import Table
    from anydml.explain import GraphPicture
    from anydml.onnx.ir import Size
    from anydml.onnx.lower.values import Value
    from anydml.onnx.partition.partitioned_graph import Parts
    from anydml.onnx.read import Given, Source
    from anydml.onnx.steps import Steps
    from anydml.runtime.graph import CompiledGraph
    from anydml.runtime.profile import Profile

# Facts on outputs before a run: as they are declared, or as nodes show for sizes made up


_PROBES = (101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167, 173, 179, 181, 191, 193, 197, 199)
"""Primes: what is put together of several open sizes is none of them."""
_LARGE = (
    *(8009, 8011, 8017, 8039, 8053, 8059, 8069, 8081, 8087, 8089, 8093),
    *(8101, 8111, 8117, 8123, 8147, 8161, 8167, 8171, 8179, 8191),
)
"""Sizes for a trace: a limit of 512 or 4,096 on an open size leaves smaller ones as they are."""


def declared_outputs(
    source: Source, inputs: Mapping[str, TensorInfo], binder: Binder, *, is_strict: bool
) -> dict[str, TensorInfo]:
    """The outputs of a model whose shapes are open, as they are declared; types are the nodes' where none is."""
    graph = source.model.graph
    types = {name: info.element for name, info in inputs.items()}
    types |= {t.name: ELEMENT_TYPES[t.data_type] for t in graph.initializer if t.data_type in ELEMENT_TYPES}
    made = result_types(graph, source.opset, types)
    found: dict[str, TensorInfo] = {}
    for info in graph.output:
        is_typed = info.type.element or info.type.kind not in ("", "tensor")
        element = None if is_typed else made.get(info.name)
        # Without a type of its own, and of a node whose types say nothing, it has none: describe() says so.
        if element is not None:
            known = TensorInfo(info.name, element, info.type.shape)
        else:
            known = describe(info, source, "output", may_be_foreign=not is_strict)
        found[info.name] = replace(known, shape=binder.resolve(known.shape))
    return found


def with_shapes(
    outputs: dict[str, TensorInfo],
    source: Source,
    inputs: Mapping[str, TensorInfo],
    kept: Kept,
    device: Device,
) -> dict[str, TensorInfo]:
    """The same, and of shapes that are not declared as much as the nodes show: four traces, 1 ms a node."""
    if all(info.shape is not None for info in outputs.values()):
        return outputs
    inferred = _infer(source, inputs, kept, device)
    return {name: replace(o, shape=inferred.get(name)) if o.shape is None else o for name, o in outputs.items()}


def _infer(
    source: Source, inputs: Mapping[str, TensorInfo], kept: Kept, device: Device
) -> dict[str, tuple[Size, ...] | None]:
    """The shapes of outputs: a size that traces agree on, by its number or by the name of an open size."""
    if any(info.shape is None and not info.is_optional for info in inputs.values()):
        return {}
    found: list[dict[str, list[tuple[Size, ...]]]] = []
    for numbers in (_PROBES, (1,), (2,), _LARGE):
        sizes = _open_sizes(inputs, numbers)
        shapes = {
            name: tuple(n if isinstance(n, int) else sizes[n or (name, i)] for i, n in enumerate(info.shape or ()))
            for name, info in inputs.items()
            if not info.is_optional
        }
        try:
            made = trace_all(source, shapes, {}, device, kept=kept).outputs
        except DmlError:  # told when the model is run
            if numbers is _LARGE:
                break
            return {}
        times = Counter(sizes.values())
        names = {n: name for name, n in sizes.items() if isinstance(name, str) and times[n] == 1 < len(numbers)}
        found.append({name: _named(value, names) for name, value in made.items()})
    return {name: _agree([shape for each in found for shape in each[name]]) for name in found[0]}


def _open_sizes(inputs: Mapping[str, TensorInfo], numbers: Sequence[int]) -> dict[str | tuple[str, int], int]:
    """A number for each open size, by its name or its place."""
    places = (
        size or (name, i)
        for name, info in inputs.items()
        for i, size in enumerate(info.shape or ())
        if not isinstance(size, int) and not info.is_optional
    )
    return dict(zip(dict.fromkeys(places), itertools.cycle(numbers), strict=False))


def _named(value: Value | None, names: Mapping[int, str]) -> list[tuple[Size, ...]]:
    """The shape of a value that is there, with the names of open sizes."""
    return [] if value is None else [tuple(names.get(size, size) for size in value.shape)]


def _agree(shapes: list[tuple[Size, ...]]) -> tuple[Size, ...] | None:
    """The common part of the shapes of several traces, that of sizes with names first."""
    if not shapes or len({len(shape) for shape in shapes}) > 1:
        return None
    return tuple(_common(sizes) if len(shapes) > 1 else None for sizes in zip(*shapes, strict=True))


def _common(sizes: Sequence[Size]) -> Size:
    first, *others = sizes
    if isinstance(first, str):  # a size that has a name is 1 and 2 in two of the other traces
        return first if all(n in (1, 2, first) for n in others) and len(set(others)) == len(others) else None
    return first if all(n == first for n in others) else None


# Runs, watched


_MOST_RUNS = 1_000_000


class NoPassesError(ModelError):
    """A model that takes no pass over memory: it is sound, and there is nothing to show."""


def profile_model(make: Callable[[], Model], inputs: Mapping[str, Any], runs: int) -> Profile:
    """Run a model of one's own so often, after a first run that does not count, and tell what the runs took."""
    import_alone("anydml.runtime.profile", "anydml.runtime.profiler_hook")
    from anydml.runtime.profile import Profile  # which nothing needs that only runs
    from anydml.runtime.profiler_hook import Recorder, watching

    faults: list[Fault] = []
    read_int(runs, "runs", faults, 1, _MOST_RUNS)
    if faults:
        raise DescriptionError("profile", faults)
    model = make()
    recorder = Recorder(model.device.engine.memory)
    with watching(recorder):
        model.run(inputs)
        for _ in range(runs):
            with recorder.run():
                model.run(inputs)
    return Profile.of(recorder, model.device)


# The model


class Model(Shown):
    """An ONNX model on a device: `model.run({"x": array})` gives its outputs by name.

    A program is compiled for each set of shapes, and of the values of those inputs that a shape depends on; some
    hundreds, those used last, are kept. Several threads may run a model at once. The memory of two large results is
    kept as well, and serves the next ones when nobody has them any more.
    """

    def __init__(
        self,
        source: Source,
        device: Device,
        shapes: Mapping[str, int | Sequence[int]],
        *,
        is_strict: bool = True,
        is_whole: bool = True,
    ) -> None:
        """`is_whole` says that every node has a lowering, and every input and output a type of DirectML's."""
        self.device = device
        self._is_strict = is_strict
        self._source = source
        graph = source.model.graph
        own = graph.constants
        self._declared: dict[str, TensorInfo] = {
            info.name: describe(info, source, "input", is_optional=info.name in own, may_be_foreign=True)
            for info in graph.input
        }
        self._binder = Binder(source.name, self._declared, shapes)
        self._given = dict(shapes)
        self._example: tuple[dict[str, tuple[int, ...]], dict[str, int]] | None = None
        """Shapes for all inputs, once somebody asked for them, and the sizes assumed in them."""
        self.inputs: dict[str, TensorInfo] = {
            name: replace(info, shape=self._binder.shown(name)) for name, info in self._declared.items()
        }
        """By name, in the model's order; those that have a value of the model's own may be left out."""
        self._kept = Kept()
        """The model's own tensors, and what nodes make of them alone: each once, for all programs."""
        self._calls = NamedCalls[Program](device.engine.memory)
        self._spares = Spares()
        look = None if is_strict else looks_at
        self._programs = Programs(source, device, self._kept, self._spares, self._calls.forget, look)
        self._divided: Divided | None = None
        """The parts that run the model where it is not one program."""
        if not is_whole:
            self._divided = Divided(source, device, self._spares, is_strict=is_strict)
        self._lock = make_lock()
        self._names = list(self.inputs)
        self._required = [name for name, info in self.inputs.items() if not info.is_optional]
        known = self._binder.known(self._required)
        try:
            found = None if known is None else self._compile_early(known)
        except ModelError as error:
            self._blame_sizes(error, known or {})
            raise
        self._outputs = (
            {name: TensorInfo(name, value.element, value.shape) for name, value in found.results()}
            if found is not None
            else declared_outputs(source, self._declared, self._binder, is_strict=is_strict and is_whole)
        )

    @cached_property
    def outputs(self) -> dict[str, TensorInfo]:
        """By name, in the model's order. What the model does not declare is found when somebody first asks for it."""
        with self._lock:
            return with_shapes(self._outputs, self._source, self.inputs, self._kept, self.device)

    @property
    def compile_seconds(self) -> float:
        """The seconds of compiling so far, programs made for a run included."""
        return self._programs.seconds + (0.0 if self._divided is None else self._divided.compile_seconds)

    @property
    def max_memory(self) -> int:
        """The most bytes that it may take."""
        return self._source.beside.limit.most

    @property
    def memory(self) -> Footprint:
        """The memory of its programs, and the need of a run: of those compiled so far, its parts' among them."""
        return footprint(list(self._spares.programs))

    @property
    def name(self) -> str:
        """The name in errors: its file, where it has one."""
        return self._source.name

    # For those who make inputs up

    def index_limits(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
        """For those who make inputs up: those that nodes take for indices, and numbers that they are to lie below."""
        return index_limits(self.inputs, self._source, shapes, self.device, self._kept)

    def assume_shapes(self, given: Mapping[str, Any]) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
        """For those who make inputs up: a shape for each that must be given, and the sizes assumed in them.

        `given` are the arrays that there are. Of several sizes it is the first with which the nodes fit together
        (`DynamicSizesError` where none was found).
        """
        if not given and self._example is not None:
            return self._example
        known = self._binder.bind({name: array.shape for name, array in given.items()})
        binder = Binder(self.name, self._declared, {**self._given, **known})
        names = list(dict.fromkeys([*self._required, *given]))
        examples = binder.examples(names, self._source.model.metadata_props)
        if not (first := next(examples.assignments())):
            return examples.fill(first), first
        values = {
            name: take_value(array, self.inputs[name], HOST)
            for name, array in given.items()
            if refuse_large(name, array.shape) is None
        }
        foreign = {name for name, info in self._declared.items() if isinstance(info.element, ForeignType)}
        example = find_example(
            examples,
            lambda shapes: trace_all(
                self._source,
                {name: shape for name, shape in shapes.items() if name not in foreign},
                {name: value for name, value in values.items() if name not in foreign},
                self.device,
                kept=self._kept,
            ),
        )
        if example.doubtful:
            raise refuse_doubtful(self.name, example)
        if not given:
            self._example = example.shapes, example.assumed
        return example.shapes, example.assumed

    def values_needed(self, shapes: dict[str, tuple[int, ...]], arrays: Mapping[str, Any]) -> set[str]:
        """For those who make inputs up: those whose values a shape depends on, and that are not among these arrays."""
        taken = {name: take_value(array, self.inputs[name], HOST) for name, array in arrays.items()}
        found = self._find_or_divide(shapes, taken)
        if isinstance(found, Refusal) and found.why is not Why.VALUES:
            raise self._told(found)
        return set(found.inputs) - arrays.keys() if isinstance(found, Refusal) else set()

    @property
    def schedules(self) -> Schedules:
        """For each pass the route of the engine's decision table that it takes; dynamic sizes are assumed.

        Of a model in parts, those of all parts that are compiled.
        """
        return Schedules(itertools.chain.from_iterable(graph.schedules for graph in self._compiled()))

    def explain(self, values: Mapping[str, Any] | None = None) -> GraphPicture:
        """The nodes as DirectML's operators, and the passes over memory that they become; dynamic sizes are assumed.

        `values` are arrays of those inputs that shapes or branches depend on. Of a model in parts it has each of them,
        and what runs on the host between them. It prints as text; `.svg()` and `.html()` draw it, and a notebook shows
        it.
        """
        given = {} if values is None else hold(values, self.name)
        compiled = self._compiled(given)
        if self._divided is not None:
            return picture_of(self._divided.parts(), self.name)
        arrays = {name: take_value(array, self.inputs[name], HOST) for name, array in given.items()}
        records = trace_all(self._source, self.assume_shapes(given)[0], arrays, self.device, kept=self._kept).records
        return replace(compiled[0].explain(), made_of=count_nodes(record.kind for record in records))

    def _compiled(self, given: Mapping[str, Any] = MappingProxyType({})) -> list[CompiledGraph]:
        """The graph, or those of the parts that are compiled, for assumed sizes where none is there yet.

        What has run whole is not divided because assumed sizes do not fit together.
        """
        shapes, assumed = self.assume_shapes(given)
        values = {name: take_value(array, self.inputs[name], HOST) for name, array in given.items()}
        if self._divided is None:
            with self._lock:
                ready = [own.compiled for _, own in self._programs.items() if own.compiled is not None]
                if ready and isinstance(self._programs.find(shapes, values), Refusal):
                    return ready[-1:]
        if needed := self.values_needed(shapes, given):
            raise refuse_made_up(self.name, needed)
        try:
            program = self._program(shapes, values)
        except ModelError as error:
            raise assumed_told(error, assumed, shapes) from error
        if isinstance(program, Divided):
            if not program.has_run:
                with contextlib.suppress(DmlError):  # the parts are told whatever they make of numbers made up
                    infos = {name: self.inputs[name] for name in self._required if name not in given}
                    self.run({**make_up(infos, shapes, self.index_limits(shapes), 0, self.max_memory), **given})
            return list(graphs_of(program.parts()))
        if program.compiled is None:
            rule = "there is nothing to show: every output is known, or is an input"
            raise NoPassesError(self.name, Fault(field="", rule=rule))
        return [program.compiled]

    def profile(self, inputs: Mapping[str, Any], *, runs: int = 10) -> Profile:
        """Time, bytes and arithmetic of each pass of a run on these inputs; the model is compiled once more for it.

        It prints as a table; `.json()` is for machines, `.trace()` for chrome://tracing and Perfetto.
        """
        options = {"is_strict": self._is_strict, "is_whole": self._divided is None}
        return profile_model(lambda: Model(self._source, self.device, self._given, **options), inputs, runs)

    def run(self, inputs: Mapping[str, Any], *, out: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Run on arrays by the names of the inputs; the outputs by theirs, in the library of the first input.

        A call, `model(x)`, takes arrays by their places and gives one array, or a named tuple of several. `out` gives
        arrays to be written for some or all of the outputs.
        """
        if out is None and type(inputs) is dict and (found := self.run_again(inputs)) is not None:
            return found
        # Read once: an entry may be a new array at each access, or be another thread's to replace.
        return self._run_closely(hold(inputs, self._source.name), out)

    def run_bound(self, inputs: Mapping[str, Any], out: Mapping[str, Any]) -> dict[str, Any]:
        """The same into arrays that may overlap inputs: where one is read until the end, it is copied to."""
        return self._run_closely(hold(inputs, self._source.name), out, may_overlap=True)

    def run_again(self, inputs: dict[str, Any]) -> dict[str, Any] | None:
        """Run on arrays like those of an earlier run, which need no closer look; None for others."""
        held = inputs.copy()  # as above
        if (divided := self._divided) is not None:
            parts = divided.recall(held)
            return None if parts is None else self._run_parts(parts, held)
        if (program := self._calls.find(held)) is None:
            return None
        # What a program does not hold for is found once more by the closer look.
        return None if (found := program.run(held)) is None else dict(zip(program.names, found, strict=True))

    def bound(self, inputs: Mapping[str, Any], outs: Mapping[str, Any]) -> Callable[[], object] | None:
        """A function that runs on these very arrays of NumPy's, into those, at each call as they are then.

        They have been run on before. None where that cannot be bound, as where outputs overlap inputs that they may not
        share the memory of: a run does it.
        """
        program = None if self._programs.valued else self._calls.find(dict(inputs))
        results = [] if program is None else [outs.get(name) for name in program.names]
        if program is None or not all(map(program.fits, program.values, results)):
            return None
        if find_overlapping(outs, inputs, program.shares):
            return None
        launch = program.bound(inputs, results, frozenset())
        return None if launch is None else functools.partial(program.guard, launch)

    def steps(self, inputs: Mapping[str, Any], outs: Mapping[str, Any]) -> Steps | None:
        """What runs on these very arrays, and on others in the stead of some of them, of other sizes too.

        They have been run on before. None where such runs need a closer look.
        """
        program = None if self._programs.valued else self._calls.find(dict(inputs))
        if program is None or find_overlapping(outs, inputs, program.shares):
            return None
        return program.follow(inputs, outs)

    def __call__(self, /, *arrays: Any, **named: Any) -> Any:
        """Run on arrays in the order of the inputs, or by name; gives one array, or a named tuple of several."""
        if len(arrays) > len(self._names):
            rule = f"a call takes {len(self._names)} arrays, for {', '.join(map(printable, self._names)) or 'none'}"
            raise BindingError(self._source.name, Fault(field="inputs", rule=rule, found=str(len(arrays))))
        given = dict(zip(self._names, arrays, strict=False))
        if twice := [name for name in named if name in given]:
            rule = f"input {printable(twice[0])!r} was given by its place already"
            raise BindingError(self._source.name, Fault(field=twice[0], rule=rule))
        results = self.run({**given, **named})
        several = tuple(results.values())
        return several[0] if len(several) == 1 else gathering("Results", tuple(results))(several)

    def _run_closely(
        self, inputs: dict[str, Any], out: Mapping[str, Any] | None, *, may_overlap: bool = False
    ) -> dict[str, Any]:
        self._check_names(inputs)
        with memory_told(self.name):
            return self._run_checked(inputs, out, may_overlap=may_overlap)

    def _run_checked(
        self, inputs: dict[str, Any], out: Mapping[str, Any] | None, *, may_overlap: bool
    ) -> dict[str, Any]:
        if out is not None and not isinstance(out, Mapping):
            raise refuse_out(out, self._source.name, next(iter(self.outputs)))
        memory = self.device.engine.memory
        taken = {name: take_value(inputs[name], info, memory) for name, info in self.inputs.items() if name in inputs}
        shapes = self._binder.bind({name: tuple(x.shape) for name, x in taken.items() if hasattr(x, "shape")})
        try:
            return self._run_taken(inputs, shapes, taken, out, may_overlap=may_overlap)
        except ModelError as error:
            self._blame_sizes(error, shapes)
            raise

    def _run_parts(self, parts: Parts, inputs: dict[str, Any]) -> dict[str, Any]:
        """Run on arrays like those of an earlier run."""
        try:
            return run_parts(parts, inputs)
        except ModelError as error:
            self._blame_sizes(error, {name: array.shape for name, array in inputs.items()})
            raise
        except MemoryError as error:
            raise out_of_memory(error, self.name) from error

    def _blame_sizes(self, error: ModelError, shapes: Mapping[str, tuple[int, ...]]) -> None:
        if faults := self._binder.differing(shapes):
            raise BindingError(self.name, [*faults, *error.faults]) from error

    def _run_taken(
        self,
        inputs: dict[str, Any],
        shapes: dict[str, tuple[int, ...]],
        taken: dict[str, Any],
        out: Any,
        *,
        may_overlap: bool,
    ) -> dict[str, Any]:
        memory = self.device.engine.memory
        like = first_of(inputs, self._names, memory)
        for is_exact in (False, True):
            program = self._program(shapes, taken, is_exact=is_exact)
            if isinstance(program, Divided):
                return self._run_divided(program, inputs, taken, out, like, may_overlap=may_overlap)
            given = taken if memory == HOST else {name: send(array, memory) for name, array in taken.items()}
            if out:
                found = run_into(program, given, out, like, memory, self._source.name, may_overlap=may_overlap)
            else:
                found = None
                if (results := program.run(given)) is not None:
                    elements = [value.element for value in program.values]
                    found = dict(zip(program.names, hand_over(results, elements, memory, like), strict=True))
            if found is None:
                continue
            if not is_exact:
                with self._lock:
                    self._calls.keep(inputs, program, self._programs.valued)
            return found
        raise not_exact(self.name)

    def _run_divided(
        self,
        divided: Divided,
        inputs: dict[str, Any],
        taken: dict[str, Any],
        out: Any,
        like: Any,
        *,
        may_overlap: bool,
    ) -> dict[str, Any]:
        # Parts tell types by their arrays: a number of 4 bits, which lies in a byte, is one again.
        halves = {name for name, info in self.inputs.items() if info.element.is_half}
        typed = {n: x.view(self.inputs[n].element.dtype) if n in halves else x for n, x in taken.items()}
        found = divided.run(typed if halves else taken, out or {}, like, may_overlap=may_overlap)
        if not out:
            with self._lock:
                divided.remember(inputs, taken)
        return found

    def _check_names(self, inputs: Mapping[str, Any]) -> None:
        takes = f"the model takes {', '.join(repr(printable(name)) for name in self._names) or 'none'}"
        for name in inputs:
            if name not in self.inputs:
                fault = Fault(
                    field="inputs", rule=f"there is no input {show(name)}", value=name, way_out=takes, is_slip=True
                )
                raise BindingError(self._source.name, fault)
        for name in self._required:
            if name not in inputs:
                rule = f"input {printable(name)!r} must be given"
                raise BindingError(self._source.name, Fault(field=name, rule=rule, way_out=takes))

    # Programs

    def _told(self, found: Refusal) -> DmlError:
        """A refusal's error; of a node that `strict` keeps from the host as what no version takes."""
        if self._is_strict and found.why is Why.DEVICE and isinstance(found.error, UnsupportedError):
            nodes = nodes_within(self._source.model.graph.node)
            if any(map(hosts(self._source), (node for node in nodes if node.kind == found.kind))):
                faults = [replace(one, is_final=True) for one in found.error.faults]
                return UnsupportedError(found.error.subject, faults)
        return found.error

    def _compile_early(self, shapes: dict[str, tuple[int, ...]]) -> Program | None:
        found = self._find_or_divide(shapes, {})
        if isinstance(found, Refusal) and found.why is not Why.VALUES:
            raise self._told(found)
        return found if isinstance(found, Program) else None

    def _program(
        self, shapes: dict[str, tuple[int, ...]], arrays: Mapping[str, Any], *, is_exact: bool = False
    ) -> Program | Divided:
        """The program, `is_exact` for these very values, or the parts that run the model, be it from now on."""
        found = self._find_or_divide(shapes, arrays, is_exact=is_exact)
        if isinstance(found, Refusal):
            raise self._told(found)
        return found

    def _find_or_divide(
        self, shapes: dict[str, tuple[int, ...]], arrays: Mapping[str, Any], *, is_exact: bool = False
    ) -> Program | Divided | Refusal:
        """The same, or why there is neither."""
        if self._divided is not None:
            return self._divided
        with self._lock:
            found = (self._programs.exact() if is_exact else self._programs).find(shapes, arrays)
        if not isinstance(found, Refusal) or self._is_strict:
            return found
        if found.why is Why.VALUES and looks_at(found, shapes):
            return found
        self._divided = divided = Divided(self._source, self.device, self._spares, is_strict=self._is_strict)
        return divided

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        message = f"{self.name}: a loaded model cannot be pickled; pickle its path or its bytes, and load that"
        raise TypeError(message)

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, infos.values())) for infos in (self.inputs, self.outputs))
        return f"Model({self._source.name!r}: {inputs} -> {outputs}, device={self.device.name!r})"

    def _shown(self) -> Iterator[str | Table]:
        yield f"{self._source.name}, on {self.device.name}"
        yield ends_table(self.inputs, self.outputs)


# Reading an ONNX model, to be run on a device.


def load(
    model: Given,
    *,
    device: Device | str | None = None,
    shapes: Mapping[str, int | Sequence[int]] | None = None,
    max_memory: int | None = None,
    max_steps: int | None = None,
    strict: bool = False,
    disable_passes: Iterable[str] = (),
    without: Iterable[str] | None = None,
) -> Model:
    """Read an ONNX model, and compile it where every shape is known.

    `shapes` binds the model's open sizes: by the name of an input, to a shape, or by the name of a size, to a number.
    Whatever is left open is bound by the arrays of a run. `max_memory` is in bytes, and half of what is free where it
    is not given: the model, its results and what passes between its operators must fit. `max_steps` is how many steps
    a Loop or a Scan may take in a run, those of loops within it included: a million where it is not given.

    A node without a DirectML operator, or of types that DirectML lacks, runs on the host: by ONNX Runtime where that is
    installed, else by onnx's reference evaluator. With `strict` it is refused. `disable_passes` names graph passes to
    leave out: `dml.graph_passes()` has them all, and `explain()` says what each did.
    """
    if not isinstance(device, Device):
        device = device_named(device) if device is None or isinstance(device, str) else Device(device)
    disabled = read_disabled(disable_passes, "load", without=without)
    with memory_told("load"):
        source = read_model(model, max_memory=max_memory, max_steps=max_steps, is_kept=True)
        source = replace(source, disabled_passes=disabled) if disabled else source
        host = hosts(source, is_strict=bool(strict))
        is_whole = check_graph(source, host, is_strict=bool(strict), takes=hosts(source))
        return Model(source, device, {} if shapes is None else shapes, is_strict=bool(strict), is_whole=is_whole)
