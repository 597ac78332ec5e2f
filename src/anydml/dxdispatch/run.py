"""Running a model: its resources as raw buffers, its dispatchables through the DirectML objects, its commands.

For a GPU the resources are copied there first, and what a dispatch wrote is copied back.
"""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml import BufferBinding, Device
from anydml.arrays.nibbles import numbers_in
from anydml.core.display import Shown, Table
from anydml.core.enums import DataType
from anydml.core.errors import DescriptionError, DmlError, Fault, ModelFileError, show
from anydml.core.limits import too_large
from anydml.core.memory import word_bytes
from anydml.dxdispatch.bind import by_slot, byte_offset, reword
from anydml.dxdispatch.check import check_model
from anydml.dxdispatch.events import Commanded, Dispatched, Event, Initialised, Printed, Progress, Started, Written
from anydml.dxdispatch.memory import Memory
from anydml.dxdispatch.model import Dispatch, Print
from anydml.dxdispatch.onnx_programs import OnnxProgram, feed, hand_out
from anydml.dxdispatch.output import file_chunks, files_of
from anydml.dxdispatch.serialized import GraphProgram
from anydml.dxdispatch.timing import Samples, Timing
from anydml.dxdispatch.writes import Writes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anydml import CompiledGraph, CompiledOperator, onnx
    from anydml.core.enums import FeatureLevel
    from anydml.dxdispatch.model import Binding, Command, Dispatchable, Model, Resource
    from anydml.dxdispatch.source import Node

_BETWEEN_REPORTS = 0.1


@dataclass(slots=True, weakref_slot=True, repr=False)
class RunResult(Shown):
    """The result of a run."""

    resources: dict[str, np.ndarray[Any, Any]]
    """The values of each resource in the type of its first ones; bytes, for one that has several."""
    dispatches: list[Dispatched] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)

    def __str__(self) -> str:
        done = f"dispatches: {len(self.dispatches)}; files written: {len(self.written)}"
        return "\n".join([done, *(f"  {name}: {show(array)}" for name, array in self.resources.items())])

    def _shown(self) -> Iterator[str | Table]:
        yield str(self).partition("\n")[0]
        kinds = [(name, f"{array.dtype}[{array.size}]", _first(array)) for name, array in self.resources.items()]
        yield Table("resources", ("name", "type", "values"), kinds)
        times = [(one.name, float(one.samples.hot.median)) for one in self.dispatches if one.samples.hot is not None]
        yield Table("dispatches", ("name", "median in ms"), times)
        yield Table("files", ("resource", "path"), [(one.name, str(one.path)) for one in self.written])


def _first(array: np.ndarray[Any, Any], most: int = 8) -> str:
    told = [f"{value:.6g}" if array.dtype.kind == "f" else str(value) for value in array.flat[:most]]
    return ", ".join([*told, "…"] if array.size > most else told)


def run_model(
    model: Model,
    engine: str | None,
    level: FeatureLevel,
    timing: Timing | None,
    on_event: Callable[[Event], None] | None,
) -> RunResult:
    """Run a model in which nothing is at fault, or raise what is."""
    for name, given, is_right, what in (
        ("timing", timing, isinstance(timing, Timing), "a Timing"),
        ("on_event", on_event, callable(on_event), "a function"),
    ):
        if given is not None and not is_right:
            fault = Fault(field=name, rule=f"{name} must be {what}", value=given, found=show(given))
            raise DescriptionError("run", fault)
    report = check_model(model, level)
    report.raise_faults()
    if report.memory_in_bytes > model.max_memory:
        raise _takes_too_much_memory(model, report.memory_in_bytes)
    if report.output_in_bytes > model.max_output:
        raise _writes_too_much(model, report.output_in_bytes)
    device = Device(engine, feature_level=level)
    return _Runner(model, device, timing or Timing(), on_event or _ignore).run()


def _ignore(_: Event) -> None:
    """Nobody listens."""


def _takes_too_much_memory(model: Model, total: int) -> ModelFileError:
    largest = max(model.resources.values(), key=lambda resource: resource.size_in_bytes or 0)
    found = f"{word_bytes(total)}, of which {word_bytes(largest.size_in_bytes or 0)} are this resource"
    return too_large(model.file, model.max_memory, total, found, largest.node.place)


def _writes_too_much(model: Model, total: int) -> ModelFileError:
    room, largest = max(files_of(model).values(), key=lambda found: found[0])
    rule = f"the files that a model writes must take at most {word_bytes(model.max_output)}"
    found = f"{word_bytes(total)}, of which {word_bytes(room)} are this file"
    way_out, place = "--max-output, or max_output=, allows more", largest.node.place
    return ModelFileError(
        model.file, Fault(field="", rule=rule, value=total, found=found, way_out=way_out, place=place)
    )


class _Runner:
    def __init__(self, model: Model, device: Device, timing: Timing, on_event: Callable[[Event], None]) -> None:
        self._model, self._device, self._timing, self._tell = model, device, timing, on_event
        self._recorder = device.create_command_recorder()
        self._memory = Memory(device.engine.memory)
        self._compiled: dict[str, tuple[CompiledOperator | CompiledGraph, Any]] = {}
        self._onnx: dict[str, onnx.Model] = {}
        self._deferred = {name: resource for name, resource in model.resources.items() if resource.is_deferred}

    def run(self) -> RunResult:
        self._tell(Started(self._device))
        for resource in self._model.resources.values():
            with _at(resource.node, self._model.file):
                self._memory.make(resource)
        for dispatchable in self._model.dispatchables.values():
            start = time.perf_counter()
            with _at(dispatchable.node, self._model.file):
                if isinstance(dispatchable.program, OnnxProgram):
                    self._onnx[dispatchable.name] = dispatchable.program.load(self._device)
                else:
                    self._compiled[dispatchable.name] = self._initialise(dispatchable)
            self._tell(Initialised(dispatchable.name, (time.perf_counter() - start) * 1000))
        result = RunResult({name: self._values(self._model.resources[name]) for name in self._memory.buffers})
        with Writes() as writes:
            for number, command in enumerate(self._model.commands):
                self._tell(Commanded(number, command.text, is_done=False))
                with _at(command.node, self._model.file):
                    self._run_command(command, result, writes)
                self._tell(Commanded(number, command.text, is_done=True))
            writes.commit()
        for written in result.written:
            self._tell(written)
        return result

    def _binding(self, binding: Binding | None) -> BufferBinding | None:
        if binding is None:
            return None
        return BufferBinding(self._memory.bound[binding.resource], byte_offset(binding, self._model.resources))

    def _compile(self, dispatchable: Dispatchable) -> CompiledOperator | CompiledGraph:
        if isinstance(dispatchable.program, GraphProgram):
            return self._device.compile_graph(dispatchable.program.graph, dispatchable.flags)
        assert dispatchable.desc  # noqa: S101 - for type checkers: nothing is at fault
        return self._device.compile_operator(self._device.create_operator(dispatchable.desc), dispatchable.flags)

    def _initialise(self, dispatchable: Dispatchable) -> tuple[CompiledOperator | CompiledGraph, Any]:
        desc, operator = dispatchable.bound, self._compile(dispatchable)
        assert desc  # noqa: S101 - for type checkers: nothing is at fault
        initializer = self._device.create_operator_initializer([operator])
        table = self._device.create_binding_table(initializer)
        size = operator.binding_properties.persistent_resource_size
        persistent = self._memory.reserve(size) if size else None
        if persistent is not None:
            given = by_slot(desc, dispatchable.bindings, initialises=True)
            table.bind_inputs([[self._binding(given.get(name)) for name in operator.inputs]])
            table.bind_outputs([BufferBinding(persistent)])
        commands = self._device.create_command_list()
        self._recorder.record_dispatch(commands, initializer, table)
        self._device.execute(commands)
        self._memory.wait()
        return operator, persistent

    def _run_command(self, command: Command, result: RunResult, writes: Writes) -> None:
        if isinstance(command, Dispatch):
            is_onnx = command.dispatchable in self._onnx
            result.dispatches.append(self._dispatch_onnx(command, result) if is_onnx else self._dispatch(command))
            self._tell(result.dispatches[-1])
        elif isinstance(command, Print):
            types = getattr(self._model.resources[command.resource].values, "types", ())
            self._tell(Printed(command.resource, result.resources[command.resource], command.verbose, types))
        else:
            assert command.target  # noqa: S101 - for type checkers: nothing is at fault
            resource = self._deferred.get(command.resource) or self._model.resources[command.resource]
            writes.stage(command.target, file_chunks(command, resource, self._memory.buffers[command.resource]))
            result.written.append(Written(command.resource, command.target, command.path))

    def _dispatch_onnx(self, command: Dispatch, result: RunResult) -> Dispatched:
        """Run an ONNX model on its resources; those that are deferred are what comes out."""
        model, program = self._onnx[command.dispatchable], self._model.dispatchables[command.dispatchable].program
        assert isinstance(program, OnnxProgram)  # noqa: S101 - for type checkers: it was loaded
        arrays = feed(program, model, command, self._memory)
        found: dict[str, Any] = {}
        samples = array(
            "d", (s * 1000 for s in self._iterate(command.dispatchable, lambda: found.update(model.run(arrays))))
        )
        for name, values in hand_out(program, found, command, self._memory, set(self._deferred)).items():
            plain = np.ascontiguousarray(values).reshape(-1)
            plain = plain.view(np.uint8) if plain.dtype == np.bool_ else plain
            result.resources[name] = plain
            self._memory.buffers[name] = plain.view(np.uint8)
            self._deferred[name] = replace(
                self._deferred[name],
                data_type=DataType(plain.dtype),
                size_in_bytes=plain.nbytes,
                has_given_size=True,
            )
        return Dispatched(command.dispatchable, Samples(samples, self._timing.warmup))

    def _dispatch(self, command: Dispatch) -> Dispatched:
        operator, persistent = self._compiled[command.dispatchable]
        bound = self._model.dispatchables[command.dispatchable].bound
        assert bound  # noqa: S101 - for type checkers: it was compiled
        given = by_slot(bound, command.bindings, initialises=False)
        table = self._device.create_binding_table(operator)
        table.bind_inputs([self._binding(given.get(name)) for name in operator.inputs])
        table.bind_outputs([self._binding(given[name]) for name in operator.outputs])
        if persistent is not None:
            table.bind_persistent_resource(BufferBinding(persistent))
        if (size := operator.binding_properties.temporary_resource_size) > 0:
            table.bind_temporary_resource(BufferBinding(self._memory.reserve(size)))
        commands = self._device.create_command_list()
        self._recorder.record_dispatch(commands, operator, table)
        samples = array("d")
        for seconds in self._iterate(command.dispatchable, lambda: self._device.execute(commands)):
            samples.append(seconds * 1000)
        for name in operator.outputs:
            self._memory.fetch(given[name].resource)
        return Dispatched(command.dispatchable, Samples(samples, self._timing.warmup))

    def _iterate(self, name: str, execute: Callable[[], object]) -> Iterator[float]:
        """Time dispatches, and nothing else; tell now and then how far they are."""
        timing = self._timing
        begin = told = time.perf_counter()
        done = 0
        while True:
            start = time.perf_counter()
            for _ in range(timing.repeat):
                execute()
            self._memory.wait()
            end = time.perf_counter()
            done += 1
            yield (end - start) / timing.repeat
            if end - told > _BETWEEN_REPORTS:
                self._tell(Progress(name, done, end - begin))
                told = end
            wait = max(timing.interval / 1000 - (time.perf_counter() - start), 0.0)
            if timing.milliseconds is None:
                if done >= timing.iterations:
                    return
            elif (time.perf_counter() - begin + wait) * 1000 > timing.milliseconds:
                return
            if wait:
                time.sleep(wait)

    def _values(self, resource: Resource) -> np.ndarray[Any, Any]:
        """The part of a buffer that its first values took, in their type: what is printed."""
        buffer = self._memory.buffers[resource.name]
        part = buffer[resource.values_offset : resource.values_offset + resource.values_size]
        return part if resource.data_type is None else numbers_in(part, resource.data_type)


class _at:  # noqa: N801 - reads as a phrase
    """Gives an error that is raised inside the place of what was being done."""

    def __init__(self, node: Node, file: str) -> None:
        self._node, self._file = node, file

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, DmlError):
            place = self._node.place
            faults = [replace(reword(f), place=f.place or place, subject=error.subject) for f in error.faults]
            raise type(error)(self._file, faults) from error
