"""PyDirectML: a small network as Microsoft's samples build theirs. `import pydirectml` is all that they need."""

from __future__ import annotations

import numpy as np

import pydirectml as dml

device = dml.Device(True)
builder = dml.GraphBuilder(device)
print(device)

# Inputs have an index each; the weights are OWNED_BY_DML, so that they are copied once.
kind, owned = dml.TensorDataType.FLOAT32, dml.TensorFlags.OWNED_BY_DML
x = dml.input_tensor(builder, 0, dml.TensorDesc(kind, [1, 1, 2, 6]))
weight = dml.input_tensor(builder, 1, dml.TensorDesc(kind, owned, [1, 1, 6, 4]))
bias = dml.input_tensor(builder, 2, dml.TensorDesc(kind, [1, 1, 2, 4], [4, 4, 0, 1]))  # one row for every row

layer = dml.gemm(x, weight, bias, fused_activation=dml.FusedActivation(dml.OperatorType.ACTIVATION_RELU))
result = dml.activation_soft_max(2.0 * layer - 1.0)
model = builder.build(dml.ExecutionFlags.NONE, [result])

generator = np.random.default_rng(1)
arrays = [generator.standard_normal(sizes) for sizes in ((2, 6), (6, 4), (4,))]
bindings = [dml.Binding(expr, array) for expr, array in zip((x, weight, bias), arrays, strict=True)]
(output,) = device.compute(model, bindings, [result])

hidden = np.maximum(arrays[0] @ arrays[1] + arrays[2], 0)
powers = np.exp(2 * hidden - 1)
np.testing.assert_allclose(np.array(output)[0, 0], powers / powers.sum(-1, keepdims=True), rtol=1e-5)
print(np.array(output).round(3))
