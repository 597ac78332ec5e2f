"""DirectML's own objects, step by step: a lookup table that the operator owns, and raw buffers with offsets."""

from __future__ import annotations

import numpy as np

import anydml as dml

device = dml.Device("cpu", feature_level="5_0")

# CreateOperator, CompileOperator
table = dml.TensorDesc("float32", (1, 1, 4, 4), flags="OWNED_BY_DML")
rows = dml.TensorDesc("uint32", (1, 1, 3, 1))
result = dml.TensorDesc("float32", (1, 1, 3, 4), guaranteed_base_offset_alignment=32)
desc = dml.GatherND(
    input_tensor=table,
    indices_tensor=rows,
    output_tensor=result,
    input_dimension_count=2,
    indices_dimension_count=2,
)
operator = device.create_operator(desc)
compiled = device.compile_operator(operator, dml.ExecutionFlags.NONE)

# CreateOperatorInitializer, CreateBindingTable: the table goes into the persistent resource
initializer = device.create_operator_initializer([compiled])
upload = np.arange(16, dtype="float32").tobytes()
persistent = bytearray(compiled.binding_properties.persistent_resource_size)
bindings = device.create_binding_table(initializer)
bindings.bind_inputs([[dml.BufferBinding(upload), None]])
bindings.bind_outputs([dml.BufferBinding(persistent)])

# RecordDispatch
commands = device.create_command_list()
recorder = device.create_command_recorder()
recorder.record_dispatch(commands, initializer, bindings)

# One buffer holds the indices at its start, and takes the result at byte 64.
arena = bytearray(64 + result.total_tensor_size_in_bytes)
arena[:12] = np.array([3, 0, 3], "uint32").tobytes()
bindings.reset(compiled)
bindings.bind_inputs([None, dml.BufferBinding(arena, 0, rows.total_tensor_size_in_bytes)])
bindings.bind_outputs([dml.BufferBinding(arena, 64, result.total_tensor_size_in_bytes)])
bindings.bind_persistent_resource(dml.BufferBinding(persistent))
recorder.record_dispatch(commands, compiled, bindings)

# ExecuteCommandLists
device.execute(commands)
print(np.frombuffer(arena, "float32", offset=64).reshape(3, 4))
