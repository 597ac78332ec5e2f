"""ONNX models as dispatchables: what a dispatch gives them, whether it fits, and how they run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.enum_parsing import suggest
from anydml.core.errors import DmlError, Fault, MissingDependencyError, ModelError, UnsupportedError, printable, show
from anydml.core.late_imports import import_alone
from anydml.dxdispatch.findings import BINDING, DESCRIPTION, FILE, LEVEL, NAME, UNSUPPORTED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from anydml.core.enums import FeatureLevel
    from anydml.dxdispatch.findings import Findings, Kind
    from anydml.dxdispatch.memory import Memory
    from anydml.dxdispatch.model import Binding, Dispatch, Resource
    from anydml.dxdispatch.source import Node
    from anydml.onnx import Model, Report, TensorInfo
    from anydml.runtime.device import Device

    Bindings = Mapping[str, tuple[Binding, ...]]

OPEN = 1
"""The size that DxDispatch takes an input's open dimension for."""
_MOST_TOLD = 5
"""Nodes at fault that are told."""


@dataclass(frozen=True, slots=True, eq=False)
class OnnxProgram:
    """An ONNX model that a dispatchable names."""

    path: Path
    node: Node = field(repr=False)
    """Where the model names it."""
    sizes: Mapping[str, int]
    """Open sizes that the dispatchable or its user binds."""
    shapes: Mapping[str, tuple[int, ...]]
    """Shapes of inputs and outputs that the user gives, whatever the bindings say."""
    max_memory: int
    _reports: dict[Any, Report] = field(default_factory=dict, repr=False)

    def report(self, level: FeatureLevel, shapes: Mapping[str, Sequence[int]] | None = None) -> Report:
        """The needs of its nodes, for inputs of these shapes."""
        import_alone("anydml.onnx")
        from anydml.onnx import check

        key = (level, None if shapes is None else tuple(shapes.items()))
        if key not in self._reports:
            self._reports[key] = check(self.path, level, shapes=shapes, max_memory=self.max_memory)
        return self._reports[key]

    def load(self, device: Device) -> Model:
        """The model that runs."""
        import_alone("anydml.onnx")
        from anydml.onnx import load

        return load(self.path, device=device, max_memory=self.max_memory)

    def given_shape(self, name: str, bindings: Bindings) -> tuple[int, ...] | None:
        """The shape that the user gives an input or an output, or its binding."""
        binding = _one(bindings, name)
        return self.shapes.get(name, binding.shape if binding is not None else None)

    def input_shapes(self, inputs: Mapping[str, TensorInfo], bindings: Bindings) -> dict[str, Any]:
        """The shape of each input of a dispatch; None for one that has none of its own, and is given none."""
        found = {}
        for name in (name for name, info in inputs.items() if name in bindings or not info.is_optional):
            shape, own = self.given_shape(name, bindings), inputs[name].shape
            if shape is None and own is not None:
                shape = tuple(n if isinstance(n, int) else self.sizes.get(n or "", OPEN) for n in own)
            found[name] = shape
        return found


def _one(bindings: Bindings, name: str) -> Binding | None:
    return next(iter(bindings.get(name, ())), None)


def check_program(program: OnnxProgram, level: FeatureLevel, findings: Findings) -> Report | None:
    """Read the model; None where it cannot be used."""
    try:
        return program.report(level)
    except DmlError as error:
        kind = UNSUPPORTED if isinstance(error, (UnsupportedError, MissingDependencyError)) else FILE
        for fault in error.faults:
            findings.put(kind, program.node, fault)
        return None


def check_names(found: Sequence[tuple[OnnxProgram, Report]], findings: Findings) -> None:
    """Tell the names of shapes that the user gives and none of these models has."""
    tensors = {name: info for _, report in found for name, info in (*report.inputs.items(), *report.outputs.items())}
    sizes = {size for info in tensors.values() for size in info.shape or () if isinstance(size, str)}
    known = [*tensors, *sorted(sizes)]
    for program, _ in found[:1]:
        for name in program.shapes.keys() - known:
            rule = f"shapes must name inputs, outputs or dynamic sizes; there is no {show(name, 60)}"
            way_out = suggest(name, known) or f"there are {', '.join(map(printable, known[:8]))}"
            findings.add(NAME, program.node, rule, found="", way_out=way_out)


class DispatchChecker:
    """Checks the dispatches of ONNX models against the resources that they are bound to."""

    def __init__(self, resources: Mapping[str, Resource], level: FeatureLevel, findings: Findings) -> None:
        self._resources, self._level, self._findings = resources, level, findings
        self._told: set[tuple[Any, str]] = set()

    def check(self, program: OnnxProgram, command: Dispatch) -> None:
        """Check names, shapes and sizes, and every node for these shapes."""
        before, node = len(self._findings), command.node.get("bindings") or command.node
        try:
            declared = program.report(self._level)
        except DmlError:
            return  # which the check of the dispatchable told
        bindings = command.bindings
        known = [*declared.inputs, *declared.outputs]
        for name, several in bindings.items():
            at = several[0].node if several else node
            if name not in known:
                way_out = f"there are {', '.join(map(printable, known[:8]))}"
                self._findings.add(NAME, at, f"there is no tensor {show(name, 60)}", found="", way_out=way_out)
            elif len(several) != 1 or several[0].element_offset or at.get("counter") is not None:
                rule = f"{show(name, 60)} must be bound to one resource, from its first element on, for an ONNX model"
                self._findings.add(BINDING, at, rule, found="")
        shapes = program.input_shapes(declared.inputs, bindings)
        for name in (name for name, shape in shapes.items() if shape is None):
            rule = f"{show(name, 60)} has no shape of its own, and must be given one"
            self._findings.add(BINDING, node, rule, found="", way_out='such as {"name": "x", "shape": [2, 3]}')
        if len(self._findings) > before:
            return
        found = self._trace(program, shapes)
        for name in filter(bindings.__contains__, shapes):
            self._check_room(declared.inputs[name], bindings[name][0], shapes[name])
        for name in filter(bindings.__contains__, declared.outputs):
            shape = program.given_shape(name, bindings)
            self._check_output(declared.outputs[name], bindings[name][0], shape, found)

    def _trace(self, program: OnnxProgram, shapes: Mapping[str, tuple[int, ...]]) -> Report | None:
        """Every node for these shapes, each fault once."""
        try:
            report = program.report(self._level, shapes)
        except DmlError as error:
            self._tell(program, BINDING, error)
            return None
        errors = [*report.faults, *(node.error for node in report.nodes if node.error is not None)]
        for found in errors[:_MOST_TOLD]:
            by_level = all(fault.level is not None for fault in found.faults)
            is_missing = isinstance(found, UnsupportedError)
            self._tell(program, LEVEL if by_level else UNSUPPORTED if is_missing else DESCRIPTION, found)
        return report

    def _tell(self, program: OnnxProgram, kind: Kind, error: DmlError) -> None:
        for fault in error.faults:
            if (program, str(fault)) not in self._told:
                self._told.add((program, str(fault)))
                is_of_file = error.subject == printable(str(program.path))
                self._findings.put(kind, program.node, fault, "" if is_of_file else error.subject)

    def _check_room(self, info: TensorInfo, binding: Binding, shape: Sequence[int]) -> None:
        resource = self._resources.get(binding.resource)
        if resource is None or resource.size_in_bytes is None:
            return
        needed = math.prod(shape) * info.element.dtype.itemsize
        if needed > resource.size_in_bytes:
            what = f"{info.element.name.lower()}[{','.join(map(str, shape))}]"
            rule = f"{show(info.name, 60)} must be bound to a resource of at least {needed} bytes, for {what}"
            self._findings.add(BINDING, binding.node, rule, found=str(resource.size_in_bytes))

    def _check_output(
        self, info: TensorInfo, binding: Binding, shape: tuple[int, ...] | None, found: Report | None
    ) -> None:
        resource = self._resources.get(binding.resource)
        if resource is None or resource.is_deferred:
            return
        known: Any = found.outputs[info.name].shape if found is not None and info.name in found.outputs else None
        is_known = known is not None and all(isinstance(size, int) for size in known)
        if is_known and shape not in (None, known):
            rule = f"{show(info.name, 60)} must have the shape {known}, which the model gives"
            self._findings.add(BINDING, binding.node, rule, found=str(shape))
        elif is_known or shape is not None:
            self._check_room(info, binding, known if is_known else shape or ())


def feed(program: OnnxProgram, model: Model, command: Dispatch, memory: Memory) -> dict[str, Any]:
    """The arrays of a dispatch: resources in the shapes of the inputs, and zeros for what is not bound."""
    arrays = {}
    for name, shape in program.input_shapes(model.inputs, command.bindings).items():
        info, binding = model.inputs[name], _one(command.bindings, name)
        size = math.prod(shape) * info.element.dtype.itemsize
        data = np.zeros(size, np.uint8) if binding is None else memory.buffers[binding.resource][:size]
        arrays[name] = data.view(info.element.dtype).reshape(shape)
    return arrays


def hand_out(
    program: OnnxProgram, results: Mapping[str, Any], command: Dispatch, memory: Memory, deferred: set[str]
) -> dict[str, Any]:
    """Put results where they are bound; gives those of deferred resources, which are as large as they come out."""
    found = {}
    for name, result in results.items():
        if (binding := _one(command.bindings, name)) is None:
            continue
        data = np.ascontiguousarray(result).reshape(-1).view(np.uint8)
        if binding.resource in deferred:
            found[binding.resource] = result
            continue
        wanted = program.given_shape(name, command.bindings)
        room = memory.buffers[binding.resource].size
        if (wanted is not None and wanted != result.shape) or data.size > room:
            rule = f"{show(name, 60)} must be bound as what the model gives, {data.size} bytes of shape {result.shape}"
            shown = f"{room} bytes" + ("" if wanted is None else f" of shape {wanted}")
            raise ModelError("dispatch", Fault(field=name, rule=rule, found=shown, place=binding.node.place))
        memory.store(binding.resource, data)
    return found
