"""Devices, graphs and what they are compiled to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np

from anydml.api import builder
from anydml.arrays import on_host
from anydml.arrays.cuda import upload
from anydml.core.display import counted, describe
from anydml.core.errors import BindingError, Fault
from anydml.core.locks import make_lock
from anydml.core.memory import HOST, is_cuda
from anydml.core.parse import read_bool
from anydml.engines import find_gpu
from anydml.pydirectml.arguments import ArgumentError, an, made_elsewhere, refuse, several
from anydml.pydirectml.data import Binding, TensorData
from anydml.pydirectml.enums import ExecutionFlags
from anydml.pydirectml.expressions import Expression
from anydml.runtime.device import device_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.arrays.tensor import TensorDesc
    from anydml.graph.description import GraphDesc
    from anydml.runtime.graph import CompiledGraph


class Device:
    """Where models run: with `use_gpu` on a GPU, where there is one, and on the CPU otherwise.

    A name in the place of `use_gpu` chooses one, as `anydml.Device` has it: `Device("webgpu:1")`. Nothing
    is checked more closely with `use_debug_layer`: everything is checked anyway.
    """

    def __init__(self, use_gpu: bool | str = True, use_debug_layer: bool = False) -> None:
        faults: list[Fault] = []
        self._asked = use_gpu if isinstance(use_gpu, str) else read_bool(use_gpu, "use_gpu", faults)
        read_bool(use_debug_layer, "use_debug_layer", faults)
        if faults:
            raise ArgumentError("Device", faults)
        # Without a GPU it is the CPU, as DirectML takes its software adapter.
        name = self._asked if isinstance(self._asked, str) else find_gpu() if self._asked else None
        self.inner = device_named(name)

    def compute(self, model: Model, inputs: Sequence[Binding], outputs: Sequence[Expression]) -> list[TensorData]:
        """Run a model on a binding for each input, in the order of their indices; gives the data of each output."""
        given = several("compute", "inputs", Binding, inputs)
        wanted = several("compute", "outputs", Expression, outputs)
        return an("compute", "model", Model, model).run(self, given, wanted)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._asked,)

    def __repr__(self) -> str:
        return f"dml.Device on {'CPU' if self.inner.engine.memory == HOST else 'GPU'}"


class GraphBuilder:
    """A graph that is being built: functions add to it what they make of its expressions."""

    def __init__(self, device: Device) -> None:
        self.graph = builder.Graph(an("GraphBuilder", "device", Device, device).inner)
        self.inputs: dict[int, TensorDesc] = {}
        """The inputs by their indices, in the order in which they were made."""

    def __repr__(self) -> str:
        return f"dml.GraphBuilder of {counted(len(self.inputs), 'input')}, {counted(len(self.graph.sources), 'node')}"

    def build(self, flags: ExecutionFlags, outputs: Sequence[Expression]) -> Model:
        """Compile what the outputs need."""
        if not isinstance(flags, ExecutionFlags) and type(flags) is not int:  # two flags together are a number
            refuse("build", "flags", "an ExecutionFlags", flags)
        found = [
            x.inner("build", f"outputs[{i}]") for i, x in enumerate(several("build", "outputs", Expression, outputs))
        ]
        for index in self.inputs:
            if index >= len(self.inputs):
                rule = f"input_index of {len(self.inputs)} inputs must be 0 .. {len(self.inputs) - 1}"
                raise ArgumentError("build", Fault(field="input_index", rule=rule, value=index, found=str(index)))
        made = object.__new__(Model)
        made.prepare(self, self.graph.desc(found), int(flags), [x.desc for x in found])
        return made


class Model:
    """A compiled graph: `GraphBuilder.build` makes one, and `Device.compute` runs it."""

    def __init__(self) -> None:
        made_elsewhere(Model, "GraphBuilder.build makes one")

    def prepare(self, built: GraphBuilder, desc: GraphDesc, flags: int, outputs: list[TensorDesc]) -> None:
        """Compile a graph."""
        self._device, self._desc, self._flags = built.graph.device, desc, flags
        self._inputs, self._outputs = dict(built.inputs), outputs
        # The bindings of the inputs that are OWNED_BY_DML, and the program that holds a copy of them.
        self._ready: tuple[list[Binding], CompiledGraph] | None = None
        self._fresh: CompiledGraph | None = self._compile()
        self._lock = make_lock()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "Model: what is compiled cannot be pickled; pickle its GraphBuilder and outputs, and build those"
        )

    def __repr__(self) -> str:
        kinds = (self._inputs.values(), self._outputs)
        inputs, outputs = (", ".join(map(describe, kind)) or "nothing" for kind in kinds)
        return f"dml.Model of {inputs} to {outputs}"

    def _compile(self) -> CompiledGraph:
        return self._device.compile_graph(self._desc, self._flags)

    def run(self, device: Device, inputs: list[Binding], outputs: list[Expression]) -> list[TensorData]:
        """Check the bindings against the inputs, and run."""
        faults = []
        if device.inner.engine is not self._device.engine:
            rule, way_out = "device must be the one that the model was built for", "its GraphBuilder has it"
            faults.append(Fault(field="device", rule=rule, value=device, found=repr(device), way_out=way_out))
        expected = [self._inputs[index] for index in range(len(self._inputs))]
        faults += _compare("inputs", [x.desc for x in inputs], expected)
        faults += _compare("outputs", [x.get_output_desc().desc for x in outputs], self._outputs)
        if faults:
            raise BindingError("compute", faults)
        ordered = [inputs[index] for index in self._inputs]
        compiled = self._initialised([x for x in ordered if x.desc.is_owned_by_dml])
        results: Any = compiled(*(self._array(x) for x in ordered if not x.desc.is_owned_by_dml))
        several = results if len(outputs) > 1 else [results]
        return [on_host(x).view(TensorData) for x in several]

    def _initialised(self, owned: list[Binding]) -> CompiledGraph:
        """The program that owns these: it is made once for the same bindings, whose data cannot change."""
        with self._lock:
            if self._ready is None or [*map(id, self._ready[0])] != [*map(id, owned)]:
                compiled, self._fresh = self._fresh or self._compile(), None
                compiled.initialize(*(self._array(x) for x in owned))
                self._ready = (owned, compiled)
            return self._ready[1]

    def _array(self, binding: Binding) -> Any:
        """The data of a binding as its tensor lies, where the device works."""
        desc, memory = binding.desc, self._device.engine.memory
        if is_cuda(memory):
            return upload(binding.data.copy(), memory).as_strided(desc.sizes, desc.element_strides)
        steps = [stride * binding.data.itemsize for stride in desc.element_strides]
        return np.lib.stride_tricks.as_strided(binding.data, desc.sizes, steps, writeable=False)


def _compare(what: str, given: list[TensorDesc], expected: list[TensorDesc]) -> list[Fault]:
    """Check that tensors are those that a model has."""
    if len(given) != len(expected):
        rule = f"{what} must be a list of {len(expected)}, as the model has"
        return [Fault(field=what, rule=rule, value=len(given), found=str(len(given)))]
    way_out = "they stand in the order of input_index" if what == "inputs" else "they are those of build()"
    return [
        Fault(field=f"{what}[{i}]", rule=f"{what}[{i}] must be of {b!r}", value=a, found=repr(a), way_out=way_out)
        for i, (a, b) in enumerate(zip(given, expected, strict=True))
        if a != b
    ]
