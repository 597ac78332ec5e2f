"""How a random case is run: all of its tensors in one buffer, by any door."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from agreement import bits
from doors import as_list
from gpu import OnGpu
from places import WIPED, get, get_bytes, is_on_gpu, put_bytes

if TYPE_CHECKING:
    from drawing import Array, Case, Tensor

GUARD = 32
PERSISTENT_ALIGNMENT = 256


@dataclass(slots=True)
class Memory:
    """One buffer with every tensor of a case in it, sentinels between and within them."""

    raw: Array
    tensors: dict[str, Tensor]
    starts: dict[str, int]
    there: Any = None
    """The same bytes on a GPU, which tensors are then bound in."""

    @classmethod
    def of(cls, case: Case, engine: str) -> Memory:
        starts: dict[str, int] = {}
        size = GUARD
        shift = -(-case.shift // 8) * 8 if is_on_gpu(engine) else case.shift  # a GPU takes whole elements alone
        for name, tensor in case.tensors.items():
            if case.is_in_place and name in case.outputs:
                starts[name] = next(iter(starts.values()))  # the first input's
                continue
            starts[name] = size + shift
            size += -(-(shift + tensor.total_bytes) // 16) * 16 + GUARD
        memory = cls(_aligned_bytes(size), case.tensors, starts)
        for name, content in case.contents.items():
            where = case.tensors[name].places
            memory.elements(name)[where] = content[where]
        if is_on_gpu(engine):
            memory.there = put_bytes(memory.raw)
        return memory

    def elements(self, name: str) -> Array:
        """The elements that a tensor spans, gaps included."""
        tensor, start = self.tensors[name], self.starts[name]
        width = tensor.data_type.size_in_bytes
        return self.raw[start : start + tensor.extent * width].view(tensor.data_type.dtype)

    def array(self, name: str, *, is_written: bool = False) -> Any:
        """A tensor as an array, laid out as described."""
        tensor, start = self.tensors[name], self.starts[name]
        dtype = tensor.data_type.dtype
        steps = tuple(stride * dtype.itemsize for stride in tensor.element_strides)
        if self.there is not None:
            data = (self.there.data_ptr() + start, not is_written)
            return OnGpu(tensor.sizes, typestr=dtype.str, strides=steps, data=data)
        array = np.ndarray(tensor.sizes, dtype, self.raw, start, steps)
        array.flags.writeable = is_written
        return array

    def binding(self, name: str) -> dml.BufferBinding:
        """A tensor as a range of the buffer."""
        where = self.raw if self.there is None else self.there
        return dml.BufferBinding(where, self.starts[name], self.tensors[name].total_bytes)

    def come_back(self) -> None:
        """Fetch what was written on a GPU."""
        if self.there is not None:
            self.raw[...] = np.frombuffer(get_bytes(self.there), np.uint8)

    def wipe(self, name: str) -> None:
        """Overwrite a tensor's elements with the sentinel."""
        bits(self.elements(name))[self.tensors[name].places] = int.from_bytes(
            bytes([WIPED] * self.tensors[name].data_type.size_in_bytes)
        )
        if self.there is not None:
            self.there.copy_(put_bytes(self.raw))


def _aligned_bytes(size: int) -> Array:
    whole = np.full(size + 64, WIPED, np.uint8)
    first = -whole.__array_interface__["data"][0] % 64
    return whole[first : first + size]


def run(case: Case, memory: Memory, engine: str) -> list[Array]:
    """Run it by its door; each output's elements in the order of their coordinates."""
    outputs = {name: case.tensors[name] for name in case.outputs}
    try:
        results = (run_on_table if case.door == "table" else run_on_arrays)(case, memory, engine)
    finally:
        memory.come_back()
    if results is None:
        return [memory.elements(name)[output.places] for name, output in outputs.items()]
    for result, output in zip(results, outputs.values(), strict=True):
        assert result.shape == output.sizes
        assert result.dtype == output.data_type.dtype
    return [result.ravel() for result in results]


def run_on_arrays(case: Case, memory: Memory, engine: str) -> list[Array] | None:
    """Compile and call with arrays; the results, where they are not in the memory."""
    device = dml.Device(engine, feature_level=case.level)
    compiled = device.compile(case.description())
    owned = [name for name, tensor in case.tensors.items() if tensor.is_owned]
    if owned:
        compiled.initialize(*(memory.array(name) for name in owned))
        for name in owned:
            memory.wipe(name)
    inputs = [memory.array(name) for name in case.contents if name not in owned]
    if case.door == "call":
        return [get(result) for result in as_list(compiled(*inputs))]
    outputs = [memory.array(name, is_written=True) for name in case.outputs]
    if case.is_in_place:
        inputs[:1] = outputs
    back = compiled(*inputs, out=outputs if len(outputs) > 1 else outputs[0])
    assert all(one is output for one, output in zip(as_list(back), outputs, strict=True))
    return None


def run_on_table(case: Case, memory: Memory, engine: str) -> None:
    """Bind raw buffers, record and execute: the way of DirectML itself."""
    device = dml.Device(engine, feature_level=case.level)
    desc = case.description()
    compiled = device.compile_operator(device.create_operator(desc))
    commands, recorder = device.create_command_list(), device.create_command_recorder()
    initializer = device.create_operator_initializer([compiled])
    table = device.create_binding_table(initializer)
    given_inputs = [None if case.tensors[name].is_owned else memory.binding(name) for name in case.contents]
    owned = [memory.binding(name) if case.tensors[name].is_owned else None for name in case.contents]
    size = compiled.binding_properties.persistent_resource_size
    room = bytearray(PERSISTENT_ALIGNMENT + size)
    where = put_bytes(room) if is_on_gpu(device) else room
    persistent = dml.BufferBinding(where, PERSISTENT_ALIGNMENT, size)
    if any(owned):
        table.bind_inputs([owned])
        table.bind_outputs([persistent])
    recorder.record_dispatch(commands, initializer, table)
    table.reset(compiled)
    given = iter(given_inputs)  # an optional tensor that is not there has a place too
    table.bind_inputs([None if tensor is None else next(given) for tensor in desc.input_slots().values()])
    written = iter([memory.binding(name) for name in case.outputs])
    table.bind_outputs([None if tensor is None else next(written) for tensor in desc.output_slots().values()])
    if any(owned):
        table.bind_persistent_resource(persistent)
    if (scratch := compiled.binding_properties.temporary_resource_size) > 0:
        room = bytearray(PERSISTENT_ALIGNMENT + scratch)
        where = put_bytes(room) if is_on_gpu(device) else room
        table.bind_temporary_resource(dml.BufferBinding(where, PERSISTENT_ALIGNMENT, scratch))
    recorder.record_dispatch(commands, compiled, table)
    device.execute(commands)


def check_other_bytes(case: Case, memory: Memory, before: Array) -> None:
    """Whatever is not an element of the output is as it was."""
    memory, untouched = (Memory(raw, memory.tensors, memory.starts) for raw in (memory.raw, before))
    names = [name for name, tensor in case.tensors.items() if tensor.is_owned and case.door != "table"]
    for name in (*case.outputs, *names):
        memory.wipe(name)
        untouched.wipe(name)
    assert np.array_equal(memory.raw, untouched.raw)
