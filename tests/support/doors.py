"""The three doors, each as one function from a description and arrays to the output arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from places import get, get_bytes, is_on_gpu, put, put_bytes, wipe

if TYPE_CHECKING:
    from collections.abc import Callable


def as_list(given: Any) -> list[Any]:
    """What a door gives: one array alone, or several that were asked for."""
    return [one for one in given if one is not None] if isinstance(given, (list, tuple)) else [given]


def through_compiled(device: dml.Device, desc: dml.OperatorDesc, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """`device.compile(desc)`, called; and bound and dispatched twice, which must agree."""
    run = device.compile(desc)
    there = [put(array, device) for array in arrays]
    results = [get(result) for result in as_list(run(*there))]
    again = [put(np.empty(output.sizes, output.data_type.dtype), device) for output in run.outputs.values()]
    bound = run.bind(*there, out=again if len(again) > 1 else again[0])
    for _ in range(2):
        for out in again:
            wipe(out)
        for back, out, result in zip(as_list(bound.dispatch()), again, results, strict=True):
            assert back is out
            assert get(out).tobytes() == result.tobytes()
    return results


def as_it_is(memory: Any) -> Any:
    return memory


def through_objects(device: dml.Device, desc: dml.OperatorDesc, arrays: list[np.ndarray], **ways: Any) -> np.ndarray:
    """DirectML's objects, for an operator with one output."""
    (output,) = all_through_objects(device, desc, arrays, **ways)
    return output


def all_through_objects(
    device: dml.Device,
    desc: dml.OperatorDesc,
    arrays: list[np.ndarray],
    *,
    in_place: bool = False,
    owned: bool = False,
    put: Callable[[bytearray], Any] | None = None,
    get: Callable[[Any], bytearray] | None = None,
) -> list[np.ndarray]:
    """DirectML's objects over one raw buffer: inputs at offsets, outputs behind them or, in place, the first inputs.

    With `owned` the first input is handed over to the initializer; it must be described so. `put` and `get` copy bytes
    to the memory of a device that works in its own, and back.
    """
    if put is None or get is None:
        put, get = (put_bytes, get_bytes) if is_on_gpu(device) else (as_it_is, as_it_is)
    compiled = device.compile_operator(device.create_operator(desc))
    outputs = compiled.outputs.values()
    offsets, size = [], 16
    for tensor in (*compiled.inputs.values(), *outputs):
        offsets.append(size)
        size += -(-tensor.total_tensor_size_in_bytes // 16) * 16 + 16
    filled = bytearray(b"\xa5" * size)
    for array, offset in zip(arrays, offsets, strict=False):
        filled[offset : offset + array.nbytes] = array.tobytes()
    arena = put(filled)
    bindings: list[dml.BufferBinding | None] = [
        dml.BufferBinding(arena, offset, tensor.total_tensor_size_in_bytes)
        for tensor, offset in zip(compiled.inputs.values(), offsets, strict=False)
    ]
    targets = [
        dml.BufferBinding(arena, offset, tensor.total_tensor_size_in_bytes)
        for tensor, offset in zip(outputs, offsets[len(bindings) :], strict=True)
    ]
    if in_place:
        assert bindings[0] is not None
        targets = [one for one in bindings[: len(targets)] if one is not None]

    commands, recorder = device.create_command_list(), device.create_command_recorder()
    initializer = device.create_operator_initializer([compiled])
    table = device.create_binding_table(initializer)
    persistent = put(bytearray(max(compiled.binding_properties.persistent_resource_size, 1)))
    if owned:
        table.bind_inputs([[bindings[0], *[None] * (len(bindings) - 1)]])
        table.bind_outputs([dml.BufferBinding(persistent)])
        bindings[0] = None
    recorder.record_dispatch(commands, initializer, table)
    table.reset(compiled)
    table.bind_inputs(bindings)
    table.bind_outputs(targets)
    if owned:
        table.bind_persistent_resource(dml.BufferBinding(persistent))
    if (size := compiled.binding_properties.temporary_resource_size) > 0:
        table.bind_temporary_resource(dml.BufferBinding(put(bytearray(size))))
    recorder.record_dispatch(commands, compiled, table)
    device.execute(commands)
    back = get(arena)
    return [view_output(back, target.offset, output) for target, output in zip(targets, outputs, strict=True)]


def view_output(arena: bytearray, offset: int, output: dml.TensorDesc) -> np.ndarray:
    """The output's elements where they lie in a raw buffer."""
    width = output.data_type.size_in_bytes
    strides: Any = [stride * width for stride in output.element_strides]
    return np.ndarray(output.sizes, output.data_type.dtype, arena, offset, strides)
