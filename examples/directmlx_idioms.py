"""DirectMLX's idioms, line by line: a layer with a residual connection, in C++ and in Python."""

from __future__ import annotations

import numpy as np

import anydml as dml

# dml::Graph graph(device, dml::TensorPolicy::InterleavedChannel());
graph = dml.Graph("cpu", tensor_policy="interleaved_channel")

# auto x = dml::InputTensor(graph, 0, dml::TensorDesc(DML_TENSOR_DATA_TYPE_FLOAT32, {1, 1, 4, 8}));
# auto w = dml::InputTensor(graph, 1, dml::TensorDesc(DML_TENSOR_DATA_TYPE_FLOAT32, OWNED, {1, 1, 8, 8}));
x = graph.input(dml.TensorDesc("float32", (1, 1, 4, 8)), "x")
w = graph.input(dml.TensorDesc("float32", (1, 1, 8, 8), flags="OWNED_BY_DML"), "w")

# auto hidden = dml::GemmBuilder(x, w).Alpha(0.5f).FusedActivation(dml::FusedActivation::Elu(1.0f)).Build();
hidden = dml.gemm(x, w, alpha=0.5, fused_activation=dml.FusedActivation("ELU", alpha=1.0))

# auto sum = x + hidden * 2.0f;
total = x + hidden * 2.0

# auto heads = dml::Reinterpret(dml::Identity(sum), {1, 4, 2, 4}, dml::TensorStrides{32, 8, 4, 1});
heads = dml.identity(total).reinterpret((1, 4, 2, 4), (32, 8, 4, 1))

# auto weights = dml::ActivationSoftmax(heads, axes);
weights = dml.softmax(heads).named("weights")

# auto top = dml::Reduce(weights, DML_REDUCE_FUNCTION_MAX, {3});
top = dml.reduce(weights, "MAX", axes=[3]).named("top")

# auto op = graph.Compile(DML_EXECUTION_FLAG_NONE, std::array{ weights, top });
model = graph.compile([weights, top], dml.ExecutionFlags.NONE)

generator = np.random.default_rng(0)
data, matrix = generator.standard_normal((1, 1, 4, 8), "float32"), generator.standard_normal((1, 1, 8, 8), "float32")
model.initialize(matrix)  # what is OWNED_BY_DML is given once
found, largest = model(data)

product = 0.5 * (data @ matrix)
expected = (data + 2 * np.where(product > 0, product, np.expm1(product))).reshape(1, 4, 2, 4)
expected = np.exp(expected) / np.exp(expected).sum(-1, keepdims=True)
np.testing.assert_allclose(found, expected, rtol=1e-4)
print(f"the largest weight of each row:\n{largest[0, ..., 0].round(3)}")
