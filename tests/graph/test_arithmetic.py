"""Python's operators on the expressions of a graph: the functions' results, bit for bit."""

from __future__ import annotations

import operator
import re
from typing import Any

import numpy as np
import pytest

import anydml as dml

FLOATS = np.array([[1.5, -2, 3], [-0.0, 5, 0.1]], "float32")
ROW = np.array([3, 0.7, -5], "float32")
WHOLE = np.array([[1, 2, 3], [0, 5, 250]], "uint8")

NAMED: list[tuple[Any, str]] = [
    (operator.add, "add"),
    (operator.sub, "subtract"),
    (operator.mul, "multiply"),
    (operator.truediv, "divide"),
    (operator.mod, "modulus_truncate"),
    (operator.lt, "logical_less_than"),
    (operator.le, "logical_less_than_or_equal"),
    (operator.gt, "logical_greater_than"),
    (operator.ge, "logical_greater_than_or_equal"),
]
BITS: list[tuple[Any, str]] = [
    (operator.and_, "bit_and"),
    (operator.or_, "bit_or"),
    (operator.xor, "bit_xor"),
    (operator.lshift, "bit_shift_left"),
    (operator.rshift, "bit_shift_right"),
]


def check(pairs: list[tuple[Any, Any]], graph: dml.Graph, *arrays: np.ndarray[Any, Any]) -> None:
    """Compile all expressions at once; each must have its result's bits."""
    results = graph.compile([made for made, _ in pairs])(*arrays)
    for (made, wanted), result in zip(pairs, results, strict=True):
        assert (result.dtype, result.tobytes()) == (wanted.dtype, wanted.tobytes()), made


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8"])
def test_operators_are_the_functions(dtype: str) -> None:
    a = (FLOATS if dtype.startswith("f") else WHOLE).astype(dtype)
    b = (ROW if dtype.startswith("f") else np.array([3, 1, 7])).astype(dtype)
    device = dml.Device("reference")
    g = dml.Graph(device)
    x, y = g.input(a), g.input(b)
    numbers: list[Any] = [2, 3, 7, np.int64(4), [1, 2, 3], [[4], (5,)]]
    if dtype.startswith("f"):
        numbers += [0.1, 0, -0.0, 1, 1.0, np.float32(0.3)]
    pairs = []
    for apply, name in NAMED + (BITS if dtype == "uint8" else []):
        function = getattr(dml, name)
        pairs.append((apply(x, y), function(a, b, device=device)))
        for number in numbers:
            pairs.append((apply(x, number), function(a, number, device=device)))
            pairs.append((apply(number, x), function(number, a, device=device)))
    pairs.append((x.equals(3), dml.logical_equals(a, 3, device=device)))
    pairs.append((abs(x), dml.abs(a, device=device) if dtype != "uint8" else a))
    if dtype == "uint8":
        pairs.append((~x, dml.bit_not(a, device=device)))
    else:
        pairs.append((-x, dml.negate(a, device=device)))
        pairs.append((abs(x) ** 2, dml.pow(abs(a), 2, device=device)))
        pairs.append((abs(x) ** y, dml.pow(abs(a), b, device=device)))
        pairs.append((2**y, dml.pow(2, b, device=device)))
    check(pairs, g, a, b)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_numbers_are_rounded_to_the_type_first(dtype: str) -> None:
    """What becomes 0 in it is added as 0 is; and an exponent is that of the type."""
    a = np.array([-0.0, 0, 6e-8, 1.5], dtype)
    device = dml.Device("reference")
    g = dml.Graph(device)
    x = g.input(a)
    pairs = []
    for number in (1e-50, -1e-50, 1e-40, 0.1, True):
        for apply, name in NAMED[:3]:
            function = getattr(dml, name)
            pairs.append((apply(x, number), function(a, number, device=device)))
            pairs.append((apply(number, x), function(number, a, device=device)))
        pairs.append((abs(x) ** number, dml.pow(abs(a), number, device=device)))
    check(pairs, g, a)
    with pytest.raises(dml.DescriptionError, match="ExponentTensor must be a number that fits FLOAT"):
        x**1e300


def test_a_number_with_floats_is_no_pass_of_its_own() -> None:
    g = dml.Graph("reference")
    x = g.input(FLOATS)
    kinds = [node.kind for node in g.desc([x + 1, x * 2, 3 - x, x / 4, 1 / x, x / 3, x**2, -x]).nodes]
    assert kinds == [
        *["ELEMENT_WISE_IDENTITY"] * 4,
        "ELEMENT_WISE_RECIP",
        "constant",
        "ELEMENT_WISE_DIVIDE",
        "ELEMENT_WISE_CONSTANT_POW",
        "ELEMENT_WISE_NEGATE",
    ]
    old = dml.Graph(dml.Device("reference", feature_level="3_0"))
    assert [node.kind for node in old.desc(-old.input(FLOATS)).nodes] == ["ELEMENT_WISE_IDENTITY"]


def test_what_is_no_operand_is_refused() -> None:
    g = dml.Graph("reference")
    x, y = g.input(WHOLE), g.input(FLOATS)
    assert x == x
    assert x != y
    assert len({x, y}) == 2
    text: Any = "text"
    with pytest.raises(TypeError, match="unsupported operand"):
        x + text
    for call, words in (
        (
            lambda: x + 1.5,
            r'BTensor must be a whole number for UINT8, the type of ATensor; .* pass cast\(a, "float32"\)',
        ),
        (lambda: 300 - x, r"ATensor must lie in 0 \.\. 255"),
        (lambda: x * [1, 2, 3.5], r'BTensor must be a whole number for .* pass cast\(a, "float32"\)'),
        (lambda: [1, 2] * y, r"ATensor.Sizes and BTensor.Sizes must be equal .*; got \(2,\) and \(2, 3\)"),  # type: ignore[operator]  # lists of Python's know no expressions
        (lambda: x - ["text"], "BTensor must be an Expression, as another tensor is; got a list"),
        (lambda: y * 1e300, "BTensor must be a number that fits FLOAT"),
        (lambda: x + WHOLE, r"BTensor must be an Expression, .*Graph\.constant\(array\)"),
        (lambda: WHOLE + x, r"ATensor must be an Expression, .*Graph\.constant\(array\)"),
        (lambda: x + y, "BTensor.DataType must be ATensor.DataType, UINT8; got FLOAT32"),
        (lambda: bool(x < 2), "is neither true nor false; if_"),
        (lambda: 1 < x < 3, "is neither true nor false"),
        (
            lambda: y + g.input(np.ones(4, "float32")),
            r"must be equal or 1 in each dimension, counted from the last; got \(2, 3\) and \(4,\)",
        ),
        (lambda: x + dml.Graph("reference").input(WHOLE), "of the same graph"),
    ):
        with pytest.raises(dml.DmlError, match=words):
            call()


@pytest.mark.parametrize(
    ("call", "name", "instead"),
    [
        (lambda x: np.exp(x), "exp", "use dml.exp"),
        (lambda x: np.add(x, 1), "add", "use dml.add"),
        (lambda x: np.add.reduce(x), "add.reduce", "use dml.sum"),
        (lambda x: np.frexp(x), "frexp", "`anydml support` lists the operators"),
        (lambda x: np.sum(x, axis=1), "sum", "use dml.sum"),
        (lambda x: np.max(x), "max", "use dml.amax(x, axis)"),
        (lambda x: np.concatenate([x, x]), "concatenate", "use dml.concatenate"),
        (lambda x: np.dot(x, x), "dot", "use dml.matmul(a, b)"),
        (lambda x: np.linalg.inv(x), "linalg.inv", "`anydml support` lists the operators"),
        (lambda x: np.exp(np.ones((2, 2), "f"), out=x), "exp", "use dml.exp"),
    ],
)
def test_a_function_of_numpys_names_the_one_that_takes_expressions(call: Any, name: str, instead: str) -> None:
    x = dml.Graph().input("float32", (2, 2))
    said = f"np.{name} takes arrays, and an Expression of a graph has no values yet; {instead}"
    with pytest.raises(TypeError, match=f"^{re.escape(said)}$"):
        call(x)


def test_an_array_leaves_its_operators_to_an_expression() -> None:
    graph = dml.Graph()
    x, array = graph.input("float32", (2, 2)), np.full((2, 2), 3, "f")
    values = np.array([[1, 2], [3, 4]], "f")
    results: list[Any] = [np.float32(2) * x, np.float32(7) % x, np.int32(2) < x]
    compiled = graph.compile(results)
    for result, expected in zip(compiled(values), (2 * values, np.fmod(7, values), values > 2), strict=True):
        assert np.array_equal(result, expected)
    assert (array == x, array != x, np.shape(x), np.ndim(x), np.size(x)) == (False, True, (2, 2), 2, 4)
    with pytest.raises(dml.DescriptionError, match="makes it part of the graph"):
        array += x


def test_an_expression_is_no_input() -> None:
    graph = dml.Graph()
    with pytest.raises(dml.DescriptionError, match="got an Expression; it is a tensor of a graph already"):
        graph.input(graph.input("float32", (2, 2)))


def test_an_expression_has_a_shape_and_no_elements() -> None:
    g = dml.Graph("reference")
    x: Any = g.input(FLOATS)
    assert x.shape == x.sizes == FLOATS.shape
    assert dml.add(x, ROW.tolist()).shape == FLOATS.shape
    for index in (0, (0, slice(1)), ...):
        with pytest.raises(dml.DescriptionError, match=r"is symbolic: it has no index; slice\(x, offsets, sizes\)"):
            x[index]
    with pytest.raises(TypeError, match="not iterable"):
        list(x)


def test_inputs_broadcast_in_any_layout() -> None:
    turned = np.asfortranarray(FLOATS)[:, ::-1]
    g = dml.Graph("reference", tensor_policy="interleaved_channel")
    x, y = g.input(turned), g.input(ROW)
    deep = g.input(np.ones((2, 2, 1, 1), "float32"))
    model = g.compile([x + y, (x * y) * deep])
    first, second = model(turned, ROW, np.full((2, 2, 1, 1), 2, "float32"))
    np.testing.assert_array_equal(first, turned + ROW)
    np.testing.assert_array_equal(second, np.broadcast_to(turned * ROW * np.float32(2), (2, 2, 2, 3)))


@pytest.mark.parametrize("function", ["exp", "sigmoid", "sin"])
def test_a_function_is_rounded_to_float32_before_a_cast_to_float16(function: str) -> None:
    """As memory rounds it between two operators: nine of sigmoid's results would be others."""
    x = np.arange(1 << 16, dtype="uint16").view("float16")
    x = x[np.isfinite(x)]
    g = dml.Graph()
    made = dml.cast(getattr(dml, function)(dml.cast(g.input(x), "float32")), "float16")
    model, plain = (g.compile([made], optimise=optimise)(x)[0] for optimise in (True, False))
    assert model.tobytes() == plain.tobytes()
    assert model.tobytes() != getattr(dml, function)(x).tobytes()
