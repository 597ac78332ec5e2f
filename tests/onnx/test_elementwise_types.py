"""Element-wise nodes in the types and shapes that are handled apart."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import anydml as dml
from cases import ENGINES
from onnx_answers import run
from onnx_models import model, node

import anydml.onnx  # isort: skip - after the models, which leave this out where onnx is missing

RNG = np.random.default_rng(7)


# Types that an operator lacks


def test_powers_of_64_bits_are_exact() -> None:
    base = np.array([3, -3, 2, -1, -1, 1, 0, 0, 7, 10, -2, 5], "int64")
    exponent = np.array([39, 39, 62, 2**40 + 1, 2**40, 2**62, 0, 5, 0, 18, 63, 1], "int64")
    low = np.where(np.abs(base) > 1, exponent, np.minimum(exponent, 2 + exponent % 2))  # Python would take its time
    wanted = [int(b) ** int(e) for b, e in zip(base, low, strict=True)]
    assert run(node("Pow", "x y", "z"), outputs="z", x=base, y=exponent).tolist() == wanted
    small = (np.abs(base) <= 3) & (exponent < 20) | (exponent < 5)
    assert run(node("Pow", "x y", "z"), outputs="z", x=base[small].astype("int32"), y=exponent[small]).tolist() == [
        w for w, is_small in zip(wanted, small, strict=True) if is_small
    ]
    some = exponent.astype("float32")
    some[:3] = [0.5, 2.0, -1.0]
    found = run(node("Pow", "x y", "z"), outputs="z", x=base, y=some)
    assert found[:3].tolist() == [1, 9, 0]
    assert found[6:].tolist() == wanted[6:]
    fine = run(node("Pow", "x y", "z"), outputs="z", x=np.array([2.5, -1], "float32"), y=np.array([2, 3], "uint64"))
    assert fine.tolist() == [6.25, -1]
    root = run(node("Pow", "x y", "z"), outputs="z", x=np.array([4_000_000]), y=np.array([0.5], "float16"))
    assert root.tolist() == [2000]  # by way of FLOAT32, FLOAT16 having no numbers so large


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("engine", ENGINES)
def test_shifts_of_signed_numbers(bits: int, engine: str) -> None:
    dtype = f"int{bits}"
    x = np.array([-1, -7, 7, 1, np.iinfo(dtype).min, np.iinfo(dtype).max, -1, -2, 3], dtype)
    count = np.array([1, 1, 1, bits - 1, bits - 1, 2, bits, -1, -1], dtype)
    right = [int(a) >> (int(c) if 0 <= c < bits else 1000) for a, c in zip(x, count, strict=True)]
    left = [(int(a) << int(c) if 0 <= c < bits else 0) for a, c in zip(x, count, strict=True)]
    assert run(node("BitShift", "x n", "y", direction="RIGHT"), engine=engine, x=x, n=count).tolist() == right
    found = run(node("BitShift", "x n", "y", direction="LEFT"), engine=engine, x=x, n=count)
    assert found.tolist() == np.array([a % 2**bits for a in left], f"uint{bits}").view(dtype).tolist()


def test_types_by_other_operators() -> None:
    x = np.array([5, 2**40, -(2**40)], "int64")
    assert run(node("Relu", "x", "y"), x=x).tolist() == [5, 2**40, 0]
    assert run(node("PRelu", "x s", "y"), x=x, s=np.array([3], "int64")).tolist() == [5, 2**40, -3 * 2**40]
    for kind, inputs in (("Abs", "u"), ("PRelu", "u u")):
        assert run(node(kind, inputs, "y"), u=np.array([3, 2**32 - 1], "uint32")).tolist() == [3, 2**32 - 1]


def test_types_that_directml_lacks_are_refused() -> None:
    x = np.ones(2)
    for made in (node("Add", "x x", "y"), node("Mod", "x x", "y"), node("Exp", "x", "y"), node("IsInf", "x", "y")):
        with pytest.raises(dml.UnsupportedError, match=rf"node of 'y' \({made.op_type}\): .* FLOAT64"):
            run(made, x=x)
    with pytest.raises(dml.ModelError, match="bias must be a number, and no NaN, for INT64; got nan"):
        run(node("Shrink", "x", "y", bias=float("nan")), x=x.astype("int64"))
    with pytest.raises(dml.ModelError, match="fmod must be 1 for floats below opset 28; got 0"):
        run(node("Mod", "x x", "y"), 27, x=x.astype("float32"))


# Shapes, functions and modes


def test_shapes_without_elements_without_dimensions_and_of_many() -> None:
    for shape in ((0, 3), (), (1,), (2,) * 9):
        x = RNG.random(shape, "float32")
        found = run([node("Neg", "x", "n"), node("Add", "n x", "s"), node("Exp", "s", "y")], x=x)
        assert (found.shape, found.tolist()) == (shape, np.ones(shape).tolist())
    many, few = np.ones((2,) * 9, "float32"), np.ones((2, 1), "float32")
    assert run(node("Mul", "a b", "y"), a=many, b=np.array([[2]], "float32")).shape == many.shape
    with pytest.raises(dml.UnsupportedError, match="at most 8 dimensions"):
        run(node("Mul", "a b", "y"), a=many, b=few)


def test_node_types_that_onnx_makes_of_others() -> None:
    for kind, ends in (("HannWindow", 0.0), ("HammingWindow", 0.086957), ("BlackmanWindow", 0.0)):
        window = run(node(kind, "n", "y", periodic=0), 17, n=np.array(9))
        np.testing.assert_allclose(window[[0, 4, 8]], [ends, 1, ends], atol=1e-5)
    a, b = RNG.random(4, "float32"), RNG.random(4, "float32")
    np.testing.assert_allclose(run(node("SwiGLU", "a b", "y"), a=a, b=b), a / (1 + np.exp(-a)) * b, rtol=1e-6)


def test_dropout_in_training() -> None:
    x = np.ones(3, "float32")
    constants = {"zero": np.array(0, "float32"), "half": np.array(0.5, "float32"), "on": np.array(True)}
    proto = model(node("Dropout", "x zero on", "y m"), {"x": ("float32", [3])}, "y m", constants)
    assert [array.tolist() for array in dml.onnx.load(proto, device="reference")(x)] == [[1, 1, 1], [True] * 3]
    for inputs, opset in (("x half on", 17), ("x", 6)):
        proto = model(node("Dropout", inputs, "y"), {"x": ("float32", [99])}, "y", constants, opset=opset)
        assert {*dml.onnx.load(proto, device="reference")(np.ones(99, "float32")).tolist()} == {0, 2}


def test_triangles() -> None:
    for shape, k, upper in itertools.product(((3, 4), (2, 3, 3), (2, 0, 3)), (-(2**63), -1, 0, 2, 2**63 - 1), (0, 1)):
        x = RNG.random(shape, "float32")
        proto = model(node("Trilu", "x k", "y", upper=upper), {"x": ("float32", shape)}, "y", {"k": np.array(k)})
        wanted = (np.triu if upper else np.tril)(x, max(min(k, 9), -9))
        assert np.array_equal(dml.onnx.load(proto, device="reference")(x), wanted)
    with pytest.raises(dml.ModelError, match="input must have at least 2 dimensions"):
        run(node("Trilu", "x", "y"), x=np.ones(3, "float32"))


def test_rotations_that_do_not_fit() -> None:
    x, cache = np.ones((1, 2, 3, 4), "float32"), np.ones((1, 3, 2), "float32")
    rotate = "RotaryEmbedding"
    assert np.array_equal(run(node(rotate, "x c s", "y"), x=x, c=cache, s=0 * cache), x)
    for given, attributes, message in (
        (x[0], {}, "num_heads must be given for 3 dimensions"),
        (x[0, 0], {}, "X must have 3 or 4 dimensions"),
        (x, {"rotary_embedding_dim": 3}, "rotary_embedding_dim must be even, and at most the head size, 4; got 3"),
        (x, {"rotary_embedding_dim": 2}, r"cos_cache must have the shape \(1, 3, 1\); got \(1, 3, 2\)"),
    ):
        with pytest.raises(dml.ModelError, match=message):
            run(node(rotate, "x c s", "y", **attributes), x=given, c=cache, s=cache)
    places = np.array([[0, 5, 1]])
    with pytest.raises(dml.ModelError, match=r"position_ids must have the shape \(1, 3\), and cos_cache 2 dimensions"):
        run(node(rotate, "x c s p", "y"), x=x, c=cache, s=cache, p=places)
    with pytest.raises(dml.IndexRangeError, match=r"indices\[0, 1\] = 5 is outside the axis of size 3"):
        run(node(rotate, "x c s p", "y"), x=x, c=cache[0], s=cache[0], p=places)


SPECIAL = [0.0, -0.0, 1.5, -2.5, 5e-324, -1e308, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("engine", ENGINES)
def test_doubles_that_are_only_moved_or_compared(engine: str) -> None:
    a, b = (np.array(several) for several in zip(*itertools.product(SPECIAL, repeat=2), strict=True))
    nodes = [node("Max", "a b a", "large"), node("Min", "a b", "small"), node("Where", "t a b", "chosen"),
             node("Clip", "a l h", "held"), node("Clip", "a - h", "low")]  # fmt: skip
    constants = {"l": np.array(-2.0), "h": np.array(5e-324)}
    inputs = {"a": (a.dtype, a.shape), "b": (a.dtype, a.shape), "t": ("bool", a.shape)}
    found = dml.onnx.load(model(nodes, inputs, "large small chosen held low", constants, opset=13), device=engine)
    with np.errstate(invalid="ignore"):
        wanted = [np.maximum(a, b), np.minimum(a, b), np.where(a < b, a, b), np.clip(a, -2, 5e-324),
                  np.minimum(a, 5e-324)]  # fmt: skip
        for mine, theirs in zip(found(a, b, a < b), wanted, strict=True):
            np.testing.assert_array_equal(mine, theirs, strict=True)


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint16", "int64", "uint64"])
@pytest.mark.parametrize("lambd", [1.5, 0.0, -2.0, -0.5, float("-inf"), 1e30])
def test_shrinks(dtype: str, lambd: float) -> None:
    """In ONNX's order, which matters below 0; the numbers are such that none leaves its type."""
    numbers = [*range(-9 if dtype[0] != "u" else 4, 90), *([2**62 + 1] if dtype.endswith("64") else [])]
    for bias in (0.0, 3.0, 2.5, -3.5):
        exact = [n + Fraction(bias) for n in numbers]
        exact = [y if n < -lambd else 2 * n - y if n > lambd else 0 for n, y in zip(numbers, exact, strict=True)]
        wanted = np.array(exact if dtype == "float32" else [int(y) for y in exact]).astype(dtype)
        found = run(node("Shrink", "x", "y", lambd=lambd, bias=bias), x=np.array(numbers, dtype))
        np.testing.assert_array_equal(found, wanted, strict=True)


def test_infinities_of_neither_sign() -> None:
    x = np.array([np.inf, -np.inf, 1], "float32")
    for low, high in itertools.product((0, 1), repeat=2):
        found = run(node("IsInf", "x", "y", detect_negative=low, detect_positive=high), x=x)
        assert found.tolist() == [bool(high), bool(low), False]
