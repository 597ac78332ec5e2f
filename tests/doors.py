"""The three doors, each as one function from a description and arrays to the output array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from places import get, get_bytes, is_on_gpu, put, put_bytes, wipe

if TYPE_CHECKING:
    from collections.abc import Callable


def through_compiled(device: dml.Device, desc: dml.OperatorDesc, arrays: list[np.ndarray]) -> np.ndarray:
    """`device.compile(desc)`, called; and bound and dispatched twice, which must agree."""
    run = device.compile(desc)
    there = [put(array, device) for array in arrays]
    result = get(run(*there))
    (output,) = run.outputs.values()
    again = put(np.empty(output.sizes, output.data_type.dtype), device)
    bound = run.bind(*there, out=again)
    for _ in range(2):
        wipe(again)
        assert bound.dispatch() is again
        assert get(again).tobytes() == result.tobytes()
    return result


def as_it_is(memory: Any) -> Any:
    return memory


def through_objects(
    device: dml.Device,
    desc: dml.OperatorDesc,
    arrays: list[np.ndarray],
    *,
    in_place: bool = False,
    owned: bool = False,
    put: Callable[[bytearray], Any] | None = None,
    get: Callable[[Any], bytearray] | None = None,
) -> np.ndarray:
    """DirectML's objects over one raw buffer: inputs at offsets, the output behind them or, in place, the input itself.

    With `owned` the first input is handed over to the initializer; it must be described so. `put` and `get` copy bytes
    to the memory of a device that works in its own, and back.
    """
    if put is None or get is None:
        put, get = (put_bytes, get_bytes) if is_on_gpu(device) else (as_it_is, as_it_is)
    compiled = device.compile_operator(device.create_operator(desc))
    (output,) = compiled.outputs.values()
    offsets, size = [], 16
    for tensor in (*compiled.inputs.values(), output):
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
    target = bindings[0] if in_place else dml.BufferBinding(arena, offsets[-1], output.total_tensor_size_in_bytes)
    assert target is not None

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
    table.bind_outputs([target])
    if owned:
        table.bind_persistent_resource(dml.BufferBinding(persistent))
    recorder.record_dispatch(commands, compiled, table)
    device.execute(commands)
    return view_output(get(arena), target.offset, output)


def view_output(arena: bytearray, offset: int, output: dml.TensorDesc) -> np.ndarray:
    """The output's elements where they lie in a raw buffer."""
    width = output.data_type.size_in_bytes
    strides: Any = [stride * width for stride in output.element_strides]
    return np.ndarray(output.sizes, output.data_type.dtype, arena, offset, strides)
