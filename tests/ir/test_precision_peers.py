"""How far operators that fold are from float64: never further than ONNX Runtime on the same numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import onnx_models  # noqa: F401 - leaves this out where onnx is missing
from onnx_answers import run_there

import anydml.onnx  # isort: skip - after the models
import onnx  # isort: skip

if TYPE_CHECKING:
    from collections.abc import Callable

Array = np.ndarray[Any, Any]
EPSILON = float(np.float32(1e-5))


def log_sum_exp(x: Array) -> Array:
    most = x.max(1, keepdims=True)
    result: Array = most + np.log(np.exp(x - most).sum(1, keepdims=True))
    return result


def centred(x: Array) -> Array:
    result: Array = x - x.mean(1, keepdims=True)
    return result


def normalised(x: Array) -> Array:
    result: Array = x / np.sqrt((x * x).mean(1, keepdims=True) + EPSILON)
    return result


ORACLES: dict[str, tuple[Callable[..., Array], dict[str, Any]]] = {
    "ReduceSum": (lambda x: x.sum(1, keepdims=True), {"axes": 1}),
    "ReduceSum down": (lambda x: x.sum(0, keepdims=True), {"axes": 0}),
    "ReduceMean": (lambda x: x.mean(1, keepdims=True), {"axes": 1}),
    "ReduceMean down": (lambda x: x.mean(0, keepdims=True), {"axes": 0}),
    "ReduceL1": (lambda x: np.abs(x).sum(1, keepdims=True), {"axes": 1}),
    "ReduceL2": (lambda x: np.sqrt((x * x).sum(1, keepdims=True)), {"axes": 1}),
    "ReduceSumSquare": (lambda x: (x * x).sum(1, keepdims=True), {"axes": 1}),
    "ReduceLogSumExp": (log_sum_exp, {"axes": 1}),
    "Softmax": (lambda x: np.exp(x - log_sum_exp(x)), {}),
    "LogSoftmax": (lambda x: x - log_sum_exp(x), {}),
    "LayerNormalization": (lambda x, scale, bias: normalised(centred(x)) * scale + bias, {}),
    "SimplifiedLayerNormalization": (lambda x, scale: normalised(x) * scale, {}),
    "LpNormalization": (lambda x: x / np.sqrt((x * x).sum(1, keepdims=True)), {"axis": 1}),
}
"""By operator, what it computes of float64 arrays, and its attributes; `axes` is an input."""


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("shape", [(4000, 64), (2400, 1001)])
def test_errors_of_folds_are_no_larger_than_those_of_onnx_runtime(name: str, shape: tuple[int, int]) -> None:
    oracle, attributes = ORACLES[name]
    rng = np.random.default_rng(7)
    further = rng.standard_normal((oracle.__code__.co_argcount - 1, shape[1])).astype("float32")
    inputs = {"x": (rng.standard_normal(shape) + 1).astype("float32"), **{f"x{k}": x for k, x in enumerate(further)}}
    given = [onnx.numpy_helper.from_array(np.array([v]), k) for k, v in attributes.items() if k == "axes"]
    own = {k: v for k, v in attributes.items() if k != "axes"}
    node = onnx.helper.make_node(name.split()[0], [*inputs, *(one.name for one in given)], ["y"], **own)
    typed = [onnx.helper.make_tensor_value_info(k, 1, x.shape) for k, x in inputs.items()]
    graph = onnx.helper.make_graph([node], "fold", typed, [onnx.helper.make_tensor_value_info("y", 1, None)], given)
    model = onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 18)])
    exact = oracle(*(x.astype("float64") for x in inputs.values()))
    ours = anydml.onnx.load(model, device="cpu").run(inputs)["y"]
    mine, theirs = (float(np.sqrt(np.mean((y - exact) ** 2))) for y in (ours, *run_there(model, inputs)))
    assert mine <= 1.02 * theirs  # the last bits of short sums are chance, for both


@pytest.mark.parametrize("steps", [16, 64, 128, 200])
def test_errors_of_one_row_by_matrices_are_no_larger_than_those_of_onnx_runtime(steps: int) -> None:
    """Which on an x86 adds up products of one row in another order than of several, with half of the error."""
    rng = np.random.default_rng(5)
    inputs = {k: rng.random(size, np.float32) for k, size in (("a", (20, 1, steps)), ("b", (20, steps, 300)))}
    typed = [onnx.helper.make_tensor_value_info(k, 1, x.shape) for k, x in inputs.items()]
    node, y = onnx.helper.make_node("MatMul", ["a", "b"], ["y"]), onnx.helper.make_tensor_value_info("y", 1, None)
    graph = onnx.helper.make_graph([node], "product", typed, [y])
    model = onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 18)])
    exact = np.matmul(*(x.astype("float64") for x in inputs.values()))
    ours = anydml.onnx.load(model, device="cpu").run(inputs)["y"]
    mine, theirs = (float(np.sqrt(np.mean((y - exact) ** 2))) for y in (ours, *run_there(model, inputs)))
    assert mine <= 1.02 * theirs
