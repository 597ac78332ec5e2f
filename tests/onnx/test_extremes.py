"""Sums, norms and products of nothing, of large numbers, of FLOAT16: results that ONNX Runtime or NumPy has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_answers import run
from onnx_models import model, node

import anydml.onnx  # isort: skip - after the models, which leave this out where onnx is missing


def drawn(*shape: int, by: float = 1, off: float = 0, dtype: str = "float32", seed: int = 7) -> Any:
    """Numbers around an offset."""
    return (np.random.default_rng(seed).standard_normal(shape) * by + off).astype(dtype)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij->i", [(3, 0)]),
        ("ij->", [(0, 3)]),
        ("i,i->", [(1,), (0,)]),
        ("i,i->i", [(0,), (1,)]),
        ("...,...", [(1, 3), (0, 3)]),
        ("ij,ij->i", [(3, 1), (1, 4)]),
    ],
)
def test_einsum_of_nothing_is_numpys(equation: str, shapes: list[Any]) -> None:
    given = {f"x{i}": drawn(*shape) for i, shape in enumerate(shapes)}
    found = run(node("Einsum", " ".join(given), "y", equation=equation), 21, **given)
    wanted = np.einsum(equation, *given.values())
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize(("kind", "wanted"), [("ReduceMean", 0), ("ReduceLogSumExp", -(2**31))])
def test_integers_of_an_empty_row_are_onnx_runtimes(kind: str, wanted: int) -> None:
    found = run(node(kind, "x", "y", axes=[1]), 13, x=np.zeros((2, 0), "int32"))
    assert found.tolist() == [[wanted], [wanted]]


@pytest.mark.parametrize("kind", ["MeanVarianceNormalization", "LpNormalization"])
def test_norms_of_nothing_are_nothing(kind: str) -> None:
    assert run(node(kind, "x", "y"), 22, x=np.zeros((2, 3, 2, 0), "f")).shape == (2, 3, 2, 0)


def test_products_of_no_steps_are_zero() -> None:
    a, b = np.zeros((2, 3, 0), "uint8"), np.zeros((0, 4), "int8")
    zero = np.array(7, "uint8")
    assert not run(node("MatMulInteger", "a b zero", "y"), 21, a=a, b=b, zero=zero).any()
    scale, point = np.array(0.5, "f"), np.array(3, "int8")
    names: dict[str, Any] = {"a": a, "s": scale, "z": zero, "b": b, "point": point}
    found = run(node("QLinearMatMul", "a s z b s point s z", "y"), 21, **names)
    assert found.shape == (2, 3, 4)
    assert (found == 7).all()


NORMS: list[tuple[Any, int, Any]] = [
    (node("MeanVarianceNormalization", "x", "y", axes=[0, 2]), 13, (0, 2)),
    (node("BatchNormalization", "x one zero zero one", "y m v", training_mode=1, epsilon=0.0), 15, (0, 2)),
]


@pytest.mark.parametrize(("proto", "opset", "axes"), NORMS, ids=lambda one: getattr(one, "op_type", None))
@pytest.mark.parametrize(("dtype", "off", "by", "most"), [("float32", 1e4, 1, 1e-6), ("float16", 0, 400, 2e-3)])
def test_norms_of_large_numbers_are_precise(
    proto: Any, opset: int, axes: Any, dtype: str, off: float, by: float, most: float
) -> None:
    """Squares of FLOAT16 do not fit into it, and a mean of FLOAT32 loses what differs."""
    x = drawn(4, 2, 40, by=by, off=off, dtype=dtype)
    arrays: dict[str, Any] = {"x": x, "one": np.ones(2, dtype), "zero": np.zeros(2, dtype)}
    arrays = {name: arrays[name] for name in dict.fromkeys(proto.input)}
    found = run(proto, opset, outputs=" ".join(proto.output), **arrays)
    wide = x.astype("float64")
    wanted = (wide - wide.mean(axes, keepdims=True)) / wide.std(axes, keepdims=True)
    assert np.abs((found if len(proto.output) == 1 else found[0]) - wanted).max() < most


def test_a_group_norm_of_halves_is_rounded_once() -> None:
    x, scale, bias = (drawn(*shape, dtype="float16", seed=i) for i, shape in enumerate([(2, 8, 25), (8,), (8,)]))
    found = run(node("GroupNormalization", "x s b", "y", num_groups=2, epsilon=0.0), 21, x=x, s=scale, b=bias)
    rows = x.astype("float64").reshape(2, 2, -1)
    normal = ((rows - rows.mean(2, keepdims=True)) / rows.std(2, keepdims=True)).reshape(x.shape)
    wanted = normal * scale.astype("float64")[:, None] + bias[:, None]
    np.testing.assert_allclose(found, wanted, rtol=6e-4, atol=1e-5)


def test_the_mean_of_a_layer_norm_is_rounded_once() -> None:
    x = drawn(8, 333, off=1e3)
    x[0, 0] = np.inf
    arrays: dict[str, Any] = {"x": x, "s": np.ones(333, "f")}
    mean = run(node("LayerNormalization", "x s", "y m"), 17, outputs="y m", **arrays)[1]
    assert mean[0] == np.inf
    np.testing.assert_array_equal(mean[1:], x[1:].astype("float64").mean(1, keepdims=True).astype("f"))


def test_a_norm_of_halves_that_does_not_fit_divides() -> None:
    x = drawn(3, 40, by=9000, dtype="float16")
    found = run(node("LpNormalization", "x", "y", p=1), 22, x=x)
    wide = x.astype("float64")
    np.testing.assert_allclose(found, wide / np.abs(wide).sum(1, keepdims=True), rtol=1e-3, atol=1e-7)


def test_a_sum_that_is_normalised_is_not_rounded_first() -> None:
    x, skip, gamma = (
        drawn(4, 64, dtype="float16"),
        drawn(4, 64, by=1e-3, dtype="float16", seed=8),
        np.ones(64, "float16"),
    )
    proto = node("SkipSimplifiedLayerNormalization", "x skip gamma", "y", domain="com.microsoft", epsilon=0.0)
    found = run(proto, 17, x=x, skip=skip, gamma=gamma)
    total = x.astype("float64") + skip
    wanted = total / np.sqrt((total**2).mean(1, keepdims=True))
    np.testing.assert_array_equal(found, wanted.astype("float16"))


def test_a_variance_of_another_type_keeps_its_range() -> None:
    x = drawn(2, 3, 4, by=100, dtype="float16")
    others: dict[str, Any] = {
        "s": np.full(3, 1e3, "f"),
        "b": np.zeros(3, "f"),
        "m": np.zeros(3, "f"),
        "v": np.full(3, 1e6, "f"),
    }
    found = run(node("BatchNormalization", "x s b m v", "y", epsilon=0.0), 15, x=x, **others)
    np.testing.assert_array_equal(found, x)


@pytest.mark.parametrize(
    ("x", "scale", "wanted"),
    [
        (np.array([2**-20, -(2**-20)], "float16"), np.array(2e-8, "f"), [48, -48]),
        (np.array([-3, 5], "int32"), np.array(0.5, "f"), [-6, 10]),
    ],
)
def test_a_scale_of_another_type_keeps_its_digits(x: Any, scale: Any, wanted: list[int]) -> None:
    found = run(
        node("QuantizeLinear", "x s z", "y"), 23 if x.dtype.kind == "f" else 13, x=x, s=scale, z=np.zeros(1, "int8")
    )
    assert found.tolist() == wanted


@pytest.mark.parametrize("axis", [0, 1])
def test_the_last_block_of_weights_may_be_short(axis: int) -> None:
    """33 elements in blocks of 16 have 3 scales, which are no blocks of 11."""
    shape, by = [(33, 16), (16, 33)][axis], [(3, 16), (16, 3)][axis]
    weights, scales = np.random.default_rng(7).integers(-99, 99, shape, "int8"), np.abs(drawn(*by))
    made = node("DequantizeLinear", "w s", "y", axis=axis, block_size=16)
    found = anydml.onnx.load(model(made, {}, "y", {"w": weights, "s": scales}, opset=21)).run({})["y"]
    np.testing.assert_allclose(found, weights * scales.repeat(16, axis)[: shape[0], : shape[1]], rtol=1e-6)


def weighted(
    length: int, points: str = "", *, is_known: bool = True, dtype: str = "float32", **attributes: Any
) -> tuple[Any, Any, Any]:
    """A product with weights of 4 bits: the model, inputs and result. Zero points may be of FLOAT16 or of 4 bits."""
    blocks = -(-length // 32)
    packed = np.random.default_rng(7).integers(0, 256, (5, blocks, 16), "uint8")
    scales, bias = np.abs(drawn(5 * blocks, dtype=dtype)), drawn(5, dtype=dtype, seed=9)
    given = {"b": packed, "s": scales, "c": bias}
    middle = np.full((5, blocks, 1), 8.0)
    if points == "floats":
        given["p"] = drawn(5 * blocks, off=8, dtype=dtype, seed=8)
        middle = given["p"].astype("float64").reshape(5, blocks, 1)
    if points == "nibbles":  # those of a row begin with a byte, and one alone has a half to spare
        given["p"] = np.array([7, 9, 8, 3, 12], "uint8").repeat(blocks // 2) * 17
        middle = (given["p"] % 16).astype("float64").reshape(5, blocks // 2, 1).repeat(2, 1)
    a = {"a": drawn(2, length, dtype=dtype)}
    names = f"a b s {'p' if points else '-'} - c"
    proto = node("MatMulNBits", names, "y", domain="com.microsoft", K=length, N=5, bits=4, block_size=32, **attributes)
    inputs = a if is_known else a | given
    declared = {name: (one.dtype, one.shape) for name, one in inputs.items()}
    nibbles = np.stack([packed & 15, packed >> 4], -1).reshape(5, blocks, 32)
    weights = ((nibbles - middle) * scales.astype("float64").reshape(5, blocks, 1)).reshape(5, -1)[:, :length]
    made = model(proto, declared, "y", given if is_known else None, opset=21)
    return made, inputs, a["a"].astype("float64") @ weights.T + bias


@pytest.mark.parametrize("points", ["", "floats", "nibbles"])
@pytest.mark.parametrize("length", [64, 40])
def test_products_of_halves_by_weights_of_few_bits_are_rounded_once(length: int, points: str) -> None:
    made, inputs, wanted = weighted(length, points, dtype="float16")
    for engine in ("reference", "cpu"):
        found = anydml.onnx.load(made, device=engine, strict=True).run(inputs)["y"]
        np.testing.assert_allclose(found, wanted, rtol=2**-11, atol=1e-5)


def test_rows_by_weights_that_a_run_gives_are_not_rounded() -> None:
    """ONNX Runtime rounds them where it packed the weights: those that the model has."""
    made, inputs, wanted = weighted(64, is_known=False, accuracy_level=4)
    found = anydml.onnx.load(made, device="reference", strict=True).run(inputs)["y"]
    np.testing.assert_allclose(found, wanted, atol=np.abs(wanted).max() * 1e-6)


@pytest.mark.parametrize("kind", ["Gemm", "Conv"])
def test_a_bias_that_would_wrap_beside_exact_sums_does_not(kind: str) -> None:
    shapes = {"Gemm": ((1, 16), (16, 2)), "Conv": ((1, 16, 1), (2, 16, 1))}[kind]
    x = np.full(shapes[0], 255, "uint8")
    constants = {"w": np.full(shapes[1], 127, "int8"), "b": np.array([2**31 - 5, 5 - 2**31], "int32")}
    constants |= {"sx": np.array(0.5, "f"), "sw": np.array(0.25, "f"), "sb": np.array(0.125, "f")}
    nodes = [node("DequantizeLinear", f"{name} s{name}", f"{name}f") for name in "xwb"]
    made = model([*nodes, node(kind, "xf wf bf", "y")], {"x": (x.dtype, x.shape)}, "y", constants, opset=13)
    found = anydml.onnx.load(made, device="reference", strict=True).run({"x": x})["y"]
    np.testing.assert_allclose(found.reshape(-1), (16 * 255 * 127 + constants["b"].astype("f8")) / 8, rtol=1e-6)
