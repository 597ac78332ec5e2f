"""How exact running sums and products are."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
import onnx_models  # noqa: F401 - leaves this out where onnx is missing
from onnx_answers import run_there
from places import get, put

import anydml.onnx  # isort: skip - after the models
import onnx  # isort: skip

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.large
def test_a_float32_sum_of_ten_million_is_within_one_unit_in_the_last_place(engine: str) -> None:
    x = np.random.default_rng(1).random(10_000_000, dtype="float32")
    result = get(dml.cumulative_summation(put(x, engine), 0, device=engine))
    exact = np.cumsum(x, dtype="float64")
    assert np.max(np.abs(result - exact) / np.spacing(result)) <= 1
    # NumPy's own float32 sum is far off, so the test can tell.
    assert np.max(np.abs(np.cumsum(x) - exact) / np.spacing(result)) > 100


@pytest.mark.large
def test_a_float16_sum_is_the_exact_sum_rounded_once(engine: str) -> None:
    x = np.random.default_rng(2).normal(0, 100, 4000).astype("float16")
    result = get(dml.cumulative_summation(put(x, engine), 0, device=engine))
    exact = Fraction(0)
    for value, got in zip(x.tolist(), result.tolist(), strict=True):
        exact += Fraction(value)
        error = abs(Fraction(got) - exact)
        for neighbour in (np.nextafter(np.float16(got), np.float16(d)) for d in (-np.inf, np.inf)):
            assert error <= abs(Fraction(float(neighbour)) - exact)


def test_a_float16_sum_may_pass_the_largest_float16_and_come_back(engine: str) -> None:
    x = np.array([60000, 60000, -60000, -30000], "float16")
    result = get(dml.cumulative_summation(put(x, engine), 0, device=engine))
    np.testing.assert_array_equal(result, np.array([60000, np.inf, 60000, 30000], "float16"))


@pytest.mark.parametrize("name", ["int32", "int64", "uint32", "uint64", "uint16"])
@pytest.mark.parametrize(
    ("function", "combine"),
    [(dml.cumulative_summation, int.__add__), (dml.cumulative_product, int.__mul__)],
)
def test_integers_wrap(
    name: str, function: Callable[..., np.ndarray], combine: Callable[[int, int], int], engine: str
) -> None:
    if name == "uint16" and function is dml.cumulative_product:
        return  # not a type that the product takes
    info = np.iinfo(name)
    x = np.array([info.max, 3, info.min, info.max // 2, 7], name)
    tally, expected = x.tolist()[0], [x.tolist()[0]]
    for value in x.tolist()[1:]:
        tally = (combine(tally, value) - info.min) % (info.max - info.min + 1) + info.min
        expected.append(tally)
    np.testing.assert_array_equal(get(function(put(x, engine), 0, device=engine)), np.array(expected, name))


def test_special_values(engine: str) -> None:
    x = np.array([-0.0, np.inf, 1, -np.inf, 2], "float32")
    result = get(dml.cumulative_summation(put(x, engine), 0, device=engine))
    np.testing.assert_array_equal(result, np.array([-0.0, np.inf, np.inf, np.nan, np.nan], "float32"))
    assert np.signbit(result[0])  # a sum of one element is that element
    exclusive = get(dml.cumulative_summation(put(x, engine), 0, has_exclusive_sum=True, device=engine))
    assert not np.signbit(exclusive[0])


def test_a_copy_moves_every_bit(engine: str) -> None:
    """A signalling NaN and its payload survive a slice and a gather."""
    bits = np.array([0x7FA12345, 0xFFC00001, 0x80000000, 0x00000001], "uint32")
    x = bits.view("float32")
    there, indices = put(x, engine), put(np.array([[3], [2], [1], [0]]), engine)
    assert get(dml.slice(there, 0, 4, device=engine)).view("uint32").tolist() == bits.tolist()
    gathered = get(dml.gather_nd(there, indices, device=engine))
    assert gathered.view("uint32").tolist() == bits[::-1].tolist()


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
