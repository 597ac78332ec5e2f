"""Element-wise nodes: against ONNX Runtime or NumPy, in old opsets, and in types and shapes that are handled apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from cases import ENGINES
from onnx_answers import ENGINE, run, run_there
from onnx_models import model, node

import anydml.onnx  # isort: skip - after the models, which leave this out where onnx is missing
from anydml.onnx.contrib_schemas import CONTRIB  # isort: skip
from anydml.onnx.library import node_kinds, node_rules  # isort: skip
from anydml.onnx.lower import composite_elementwise  # isort: skip
from anydml.onnx.lower.registry import LOWERINGS, lowered_kinds  # isort: skip
from families.elementwise import ELEMENT_WISE  # isort: skip
import itertools
from fractions import Fraction

RNG = np.random.default_rng(7)


# What the table has


NO_NODE = {
    "ACTIVATION_IDENTITY", "ACTIVATION_RELU_GRAD", "ACTIVATION_TANH", "ELEMENT_WISE_ADD1", "ELEMENT_WISE_ATAN_YX",
    "ELEMENT_WISE_BIT_COUNT",
    "ELEMENT_WISE_CLIP", "ELEMENT_WISE_CLIP_GRAD", "ELEMENT_WISE_CLIP_GRAD1", "ELEMENT_WISE_CONSTANT_POW",
    "ELEMENT_WISE_DIFFERENCE_SQUARE", "ELEMENT_WISE_MEAN", "ELEMENT_WISE_THRESHOLD", "VALUE_SCALE_2D",
}  # fmt: skip
"""Operators that no ONNX node needs: it has none, or another operator serves it."""


def own_kinds() -> list[str]:
    """The node types that are lowered by element-wise operators."""
    own = {composite_elementwise.__name__}
    modules = {kind: {lower.__module__ for lower in several.values()} for kind, several in LOWERINGS.items()}
    return [kind for kind in lowered_kinds() if own & modules.get(kind, own)]


def newest(kind: str) -> int:
    """The newest opset that has a node type."""
    return min(28, CONTRIB[kind].before - 1) if kind in CONTRIB and len(node_kinds()[kind]) == 1 else 28


def node_model(kind: str, opset: int) -> Any:
    """A model of one node of a type, with as few inputs as it may have, but two of several."""
    rules = node_rules(kind, opset)
    assert rules is not None
    least, most = rules.counts[0]
    slots = [rules.inputs[min(i, len(rules.inputs) - 1)] for i in range(max(least, min(most, 2)))]
    slots = slots[: least if least < len(rules.inputs) else None]
    inputs = {}
    for i, slot in enumerate(slots):
        dtype = next(t for t in ("FLOAT", "INT32", "BOOL", "UINT32") if t in slot.allowed).lower()
        inputs["abc"[i]] = (dtype.replace("float", "float32"), [1, 2, 1, 1] if kind == "ImageScaler" else [2])
    chosen = {"direction": "LEFT", "is_test": 1, "fmod": 1, "alpha": 0.5, "beta": 0.5, "bias": [1.0, 2.0]}
    if kind == "Shrink":
        del chosen["bias"]
    attributes = {name: value for name, value in chosen.items() if name in rules.attributes}
    return model(node(kind, " ".join(inputs), "y", **attributes), inputs, opset=opset)


def test_every_operator_serves_a_node_or_has_none() -> None:
    protos = [node_model(kind, newest(kind)) for kind in own_kinds()]
    inputs: dict[str, Any] = {"a": ("float32", [2]), "u": ("uint8", [2])}
    for made in (
        node("Clip", "a k k", "y"), node("Mod", "a a", "y"), node("BitShift", "u u", "y", direction="RIGHT"),
        node("Gelu", "a", "y", approximate="tanh"), node("Cast", "a", "y", to=7),
    ):  # fmt: skip
        used = {name: given for name, given in inputs.items() if name in made.input}
        protos.append(model(made, used, "y", {"k": np.array(1, "float32")}, opset=28))
    found = {name for proto in protos for record in dml.onnx.check(proto).nodes for name in record.operators}
    every = {kind.name for kind, cls in dml.OPERATORS.items() if cls in ELEMENT_WISE}
    assert every - found == NO_NODE


def test_every_node_type_is_there_in_every_opset() -> None:
    """At every opset that changed the type, and at none before its first."""
    for kind in own_kinds():
        for opset in node_kinds()[kind]:
            assert dml.onnx.check(node_model(kind, opset)), (kind, opset)
        if (first := node_kinds()[kind][0]) > 1:
            early = node_model(kind, first)
            early.opset_import[0].version = first - 1
            with pytest.raises(dml.UnsupportedError, match=f"{kind} is not supported at opset {first - 1}"):
                dml.onnx.load(early)


# Against ONNX Runtime


FLOATS = np.array([-np.inf, -80, -3.7, -1, -0.4, -0.0, 0, 1e-3, 0.5, 0.99, 1, 2.5, 3.5, 80, np.inf, np.nan], "float32")
UNARY = (
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish IsInf IsNaN"
    " LeakyRelu Log Mish Neg Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh"
    " ThresholdedRelu Identity Dropout"
)


@pytest.mark.parametrize("engine", ENGINES)
def test_functions_of_one_float(engine: str) -> None:
    """Every node type in one model, at an opset that ONNX Runtime has; numbers that are none included."""
    kinds = UNARY.split()
    is_test = {"IsInf", "IsNaN"}
    nodes = [node(kind, "x", kind) for kind in kinds]
    nodes.append(node("Gelu", "x", "GeluTanh", approximate="tanh"))
    names = [*kinds, "GeluTanh"]
    dtypes = {name: "bool" if name in is_test else "float32" for name in names}
    proto = model(nodes, {"x": ("float32", FLOATS.shape)}, " ".join(names), opset=20, dtypes=dtypes)
    mine = dml.onnx.load(proto, device=engine).run({"x": FLOATS})
    for name, theirs in zip(names, run_there(proto, {"x": FLOATS}), strict=True):
        # Of -inf a Gelu of theirs is NaN, and of NaN their Shrink is 0.
        some = {"Gelu": slice(1, None), "Shrink": slice(-1)}.get(name, slice(None))
        np.testing.assert_allclose(mine[name][some], theirs[some], rtol=2e-6, atol=4e-7, err_msg=name)


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "uint8", "int16"])
def test_two_tensors_of_shapes_that_numpy_broadcasts(dtype: str) -> None:
    a, b = (RNG.integers(1, 9, shape).astype(dtype) for shape in ((2, 1, 3), (4, 1)))
    known: dict[str, Any] = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Less": np.less, "LessOrEqual":
             np.less_equal, "Greater": np.greater, "GreaterOrEqual": np.greater_equal, "Equal": np.equal,
             "Max": np.maximum, "Min": np.minimum}  # fmt: skip
    if dtype != "float32":
        known |= {"Div": np.floor_divide, "Mod": np.mod, "BitwiseAnd": np.bitwise_and, "BitwiseXor": np.bitwise_xor}
    names = " ".join(known)
    found = run([node(kind, "a b", kind) for kind in known], engine=ENGINE, outputs=names, a=a, b=b)
    for (kind, function), mine in zip(known.items(), found, strict=True):
        wanted = function(a, b)
        assert (mine.dtype, mine.shape, mine.tolist()) == (wanted.dtype, wanted.shape, wanted.tolist()), kind


def test_any_number_of_tensors_of_mixed_shapes() -> None:
    shapes = [(3,), (2, 1), (), (4, 1, 1), (1, 1, 1, 3)]
    arrays: dict[str, Any] = {f"x{i}": RNG.random(shape, "float32") for i, shape in enumerate(shapes)}
    names = " ".join(arrays)
    nodes = [node(kind, names, kind) for kind in ("Max", "Min", "Sum", "Mean")]
    high, low, total, mean = run(nodes, outputs="Max Min Sum Mean", **arrays)
    values = np.stack(np.broadcast_arrays(*arrays.values()))
    assert np.array_equal(high, values.max(0))
    assert np.array_equal(low, values.min(0))
    np.testing.assert_allclose(total, values.sum(0), rtol=1e-6)
    np.testing.assert_allclose(mean, values.mean(0), rtol=1e-6)
    assert run(node("Mean", "x", "y"), x=arrays["x0"]).tolist() == arrays["x0"].tolist()


@pytest.mark.parametrize("dtype", ["float16", "float64", "int64", "bool"])
def test_a_choice_between_scalars(dtype: str) -> None:
    c, x, y = np.array([[True], [False]]), np.array(1, dtype), np.array([0, 1, 0], dtype)
    assert np.array_equal(run(node("Where", "c x y", "y_"), outputs="y_", c=c, x=x, y=y), np.where(c, x, y))
    some = run(node("Where", "c x y", "y_"), outputs="y_", c=np.array(True), x=x, y=np.array(0, dtype))
    assert (some.shape, some.dtype, some.item()) == ((), np.dtype(dtype), 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_chain_as_networks_have_it(engine: str) -> None:
    """Normalise, gate and mask, with weights that are constants and sizes that are bound at a run."""
    nodes = [
        node("Sub", "x mean", "centred"),
        node("Div", "centred deviation", "unit"),
        node("Mul", "unit weight", "scaled"),
        node("Add", "scaled bias", "layer"),
        node("Sigmoid", "layer", "gate"),
        node("Mul", "layer gate", "silu"),
        node("Greater", "x zero", "is_kept"),
        node("Where", "is_kept silu zero", "masked"),
        node("Sqrt", "two", "root"),
        node("Pow", "masked root", "y"),
    ]
    weights = {name: RNG.random(5, "float32") + 0.5 for name in ("mean", "deviation", "weight", "bias")}
    constants = {**weights, "zero": np.array(0, "float32"), "two": np.array([2], "float32")}
    proto = model(nodes, {"x": ("float32", ["n", 5])}, "y", constants, dtypes={"y": "float32"})
    x = RNG.standard_normal((7, 5)).astype("float32")
    mine = dml.onnx.load(proto, device=engine).run({"x": x})["y"]
    np.testing.assert_allclose(mine, run_there(proto, {"x": x})[0], rtol=1e-5, atol=1e-6)
    assert dml.onnx.check(proto, shapes={"n": 7}).nodes[-2].note == "folded"


def test_arithmetic_of_shapes_is_no_pass() -> None:
    """What exporters write for `x.reshape(n * 2, -1)`, and for half of a size."""
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n"),
        node("Mul", "n two", "n2"),
        node("Div", "n2 two", "half"),
        node("Equal", "half n", "is_same"),
        node("Where", "is_same n2 n", "chosen"),
        node("Unsqueeze", "chosen axes", "u"),
        node("Concat", "u minus", "t", axis=0),
        node("Reshape", "x t", "y"),
    ]
    constants = {"zero": np.array(0), "two": np.array(2), "axes": np.array([0]), "minus": np.array([-1])}
    proto = model(nodes, {"x": ("float32", ["n", 4])}, "y", constants, dtypes={"y": "float32"})
    notes = [record.note for record in dml.onnx.check(proto, shapes={"n": 3}).nodes]
    assert notes == ["folded"] * 8 + ["a view, no pass"]
    assert dml.onnx.load(proto)(np.zeros((5, 4), "float32")).shape == (10, 2)


# Old opsets


@pytest.mark.parametrize(
    ("shape", "attributes", "seen"),
    [
        ((), {"broadcast": 1}, ()),
        ((1, 1), {"broadcast": 1}, (1, 1)),
        ((5,), {"broadcast": 1}, (5,)),
        ((4, 5), {"broadcast": 1}, (4, 5)),
        ((3, 4), {"broadcast": 1, "axis": 1}, (3, 4, 1)),
        ((2,), {"broadcast": 1, "axis": 0}, (2, 1, 1, 1)),
        ((4, 5), {"broadcast": 1, "axis": -2}, (4, 5)),
        ((2, 3, 4, 5), {}, (2, 3, 4, 5)),
    ],
)
def test_broadcasting_of_opset_6(shape: tuple[int, ...], attributes: Any, seen: tuple[int, ...]) -> None:
    a, b = RNG.random((2, 3, 4, 5), "float32"), RNG.random(shape, "float32")
    for kind, wanted in (("Sub", a - b.reshape(seen)), ("Greater", a > b.reshape(seen))):
        assert np.array_equal(run(node(kind, "a b", "y", **attributes), 6, a=a, b=b), wanted)


def test_what_opset_6_does_not_broadcast() -> None:
    a = np.ones((2, 3), "float32")
    with pytest.raises(dml.ModelError, match=r"B must have the shape of A, \(2, 3\), without broadcast=1; got \(3,\)"):
        run(node("Add", "a b", "y"), 6, a=a, b=a[0])
    with pytest.raises(dml.ModelError, match=r"B must have the sizes of a part of A, \(2, 3\), from axis 0 on; got"):
        run(node("Add", "a b", "y", broadcast=1, axis=0), 6, a=a, b=a[0])
    with pytest.raises(dml.ModelError, match=r"axis must lie in -2 .. 1; got 2"):
        run(node("Add", "a b", "y", broadcast=1, axis=2), 6, a=a, b=a[0])
    with pytest.raises(dml.ModelError, match="the inputs must have one shape below opset 8"):
        run(node("Max", "a b", "y"), 6, a=a, b=a[0])
    with pytest.raises(dml.ModelError, match="the inputs must have shapes that can be broadcast to one another; got"):
        run(node("Add", "a b", "y"), a=a, b=np.ones(2, "float32"))


def test_attributes_that_are_inputs_later() -> None:
    x = np.array([-5, -0.5, 0.5, 5], "float32")
    for opset in (1, 6):
        found = run(node("Clip", "x", "y", min=-1.0, max=2.0), opset, x=x)
        assert found.tolist() == x.clip(-1, 2).tolist()
        assert run(node("Clip", "x", "y", max=2.0), opset, x=x).tolist() == x.clip(None, 2).tolist()
    assert run(node("Relu", "x", "y", consumed_inputs=[0]), 1, x=x).tolist() == [0, 0, 0.5, 5]
    slopes = run(node("PRelu", "x s", "y"), 6, x=x.reshape(1, 2, 2), s=np.array([2, 3], "float32"))
    assert slopes.reshape(-1).tolist() == [-10, -1, 0.5, 5]
    first, second = (run(node("Selu", "x", "y"), opset, x=x)[0].item() for opset in (1, 6))
    assert first != second  # whose gamma and alpha have more digits
    y, mask = run(node("Dropout", "x", "y m"), 7, outputs="y m", x=x)
    assert (y.tolist(), mask.tolist()) == (x.tolist(), [1.0] * 4)


def test_bounds_that_cross_and_that_are_left_out() -> None:
    x = np.array([-5, 0, 5], "float32")
    low, high = np.array(2, "float32"), np.array(-1, "float32")
    assert run(node("Clip", "x a b", "y"), x=x, a=low, b=high).tolist() == [-1] * 3
    for inputs, wanted in (("x a", [2, 2, 5]), ("x - b", [-5, -1, -1]), ("x a b", [-1] * 3)):
        proto = model(node("Clip", inputs, "y"), {"x": ("float32", [3])}, "y", {"a": low, "b": high})
        assert dml.onnx.load(proto, device="reference")(x).tolist() == wanted


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
    with pytest.raises(dml.ModelError, match="bias must be a number other than NaN, for INT64; got nan"):
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
