"""Pictures of maps: every element has the reference engine's value, and formulas mean what the expression computes."""

from __future__ import annotations

import math
import os
import textwrap
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anydml as dml
from anydml.core.operator_type import OperatorType
from anydml.engines.reference.evaluate import evaluate
from anydml.explain import Limits, Picture, explain
from anydml.explain.formula import LONGEST, Formula
from anydml.explain.maps import match_moved
from anydml.explain.values import write_value
from anydml.ir import expressions as e
from anydml.ir import numerics
from anydml.ir.trees import loads, walk
from anydml.ir.verbs import Map
from anydml.ir.views import View
from anydml.operators import OPERATORS
from anydml.operators.elementwise import ElementWise
from anydml.operators.fused import FusedActivation
from anydml.operators.schema.fields import Input, Output, dml_name
from anydml.operators.schema.records import OperatorDesc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from drawing import Array

pytestmark = pytest.mark.sampled(2)

T, D = dml.TensorDesc, dml.DataType
F32 = D.FLOAT32
RANDOM = settings(deadline=None, derandomize=False, print_blob=True, max_examples=40 if os.environ.get("CI") else 20)
EVERYTHING = Limits(1000, 1000, 1000, 1000)
MAPS = [cls for cls in OPERATORS.values() if issubclass(cls, ElementWise) and not cls.optional_inputs()]
NUMBERS = {"min": 0, "max": 2, "exponent": 3.0, "scale": 0.5, "alpha": 0.25, "beta": 0.5, "bias": (0.5, -1.0, 2.0)}


def some_values(rng: np.random.Generator, kind: dml.DataType, sizes: tuple[int, ...]) -> Array:
    """Small numbers, and now and then the ends of the range, infinities and NaN."""
    limits: Any = np.finfo(kind.dtype) if kind.is_float else np.iinfo(kind.dtype)
    odd = [np.nan, np.inf, -np.inf, -0.0] if kind.is_float else []
    low = -4 if kind.is_signed or kind.is_float else 0
    few = [*range(low, 5), 1, limits.min, limits.max, *odd]
    picked: Array = np.array([few[k] for k in rng.integers(0, len(few), math.prod(sizes))], kind.dtype).reshape(sizes)
    return picked


def described(cls: type[ElementWise], rng: np.random.Generator, sizes: tuple[int, ...]) -> dml.OperatorDesc:
    """A description of any types that the operator takes."""
    taken = cls.support.row_at(dml.FeatureLevel.highest()).tensors
    kinds = {name: D(sorted(one.data_types)[rng.integers(len(one.data_types))]) for name, one in taken.items()}
    kinds |= {name: kinds[other] for name, other in cls.typed_alike().items()}
    given: dict[str, Any] = {}
    for field in fields(cls):
        if (name := dml_name(field.name)) in kinds:
            given[field.name] = T(kinds[name], sizes)
        elif field.default is MISSING:
            first = next(iter(kinds.values()))
            given[field.name] = first if field.name.endswith("type") else NUMBERS[field.name]
        elif field.name == "scale_bias" and rng.integers(2):
            given[field.name] = (2.0, -1.5)
    return cls(**given)


def check_values(picture: Picture, primitive: Map, inputs: list[Array]) -> None:
    """Every element is what the reference engine has for it, and is made of those in its place."""
    assert picture.error is None
    meant = np.broadcast_to(evaluate(primitive.value, inputs, primitive.target.sizes), primitive.target.sizes)
    (output,) = (grid for grid in picture.grids if grid.role == "output")
    for cell in output.cells():
        assert cell.value == write_value(meant[cell.element.coordinate])
        assert cell.says.endswith(cell.value)
        slots = dict.fromkeys(int(load.value) for load in loads(primitive.value))
        read, told = [primitive.sources[slot].tensor for slot in slots], [source.tensor for source in cell.sources]
        has_ways = any(node.op == "where" for node in walk(primitive.value))  # one of which is not taken
        bound = [grid.tensor for grid in picture.grids if grid.tensor in read]
        assert told == [tensor for tensor in bound if tensor in told or not has_ways]
        assert {source.coordinate for source in cell.sources} <= {cell.element.coordinate}


def test_every_operator_that_is_a_map_has_its_picture() -> None:
    assert len(MAPS) >= 83
    for number, cls in enumerate(MAPS):
        rng = np.random.default_rng(number)
        for _ in range(2):
            desc = described(cls, rng, (1, 3, 1, 2))
            (primitive,) = desc.lower()
            assert isinstance(primitive, Map)
            inputs = [some_values(rng, tensor.data_type, tensor.sizes) for tensor in desc.inputs().values()]
            picture = explain(desc, *inputs, limits=EVERYTHING)
            check_values(picture, primitive, inputs)
            assert max(map(len, picture.sentences)) < 300, cls
            made_up = explain(desc)
            assert len(made_up.summary) < 130, cls
            for one in (picture, made_up):
                assert one.text()
                ElementTree.fromstring(one.svg())  # noqa: S314 - our own
            assert made_up.html()


# Any tree


class Whatever(OperatorDesc):
    """Computes what a test says."""

    a_tensor: Input
    b_tensor: Input
    output_tensor: Output

    def rules(self) -> Iterator[Any]:
        yield from ()

    output_rules = rules

    def lower(self) -> tuple[Map]:
        sources = tuple(View.of(name, tensor) for name, tensor in self.inputs().items())
        return (Map(sources, View.of("OutputTensor", self.output_tensor), TREES[-1]),)


TREES: list[e.Expr] = []
"""What it computes at the moment."""
Whatever.type = OperatorType.ELEMENT_WISE_ADD  # said afterwards: the class does not enter itself among the operators
Whatever.support, Whatever.in_place = OPERATORS[Whatever.type].support, True


def draw_tree(draw: st.DrawFn, kind: dml.DataType, depth: int) -> e.Expr:
    """A tree of two loads, of a type."""

    def number() -> e.Expr:
        return draw_tree(draw, kind, depth - 1)

    def test() -> e.Expr:
        a, b = number(), number()
        return draw(st.sampled_from([a < b, a <= b, a > b, a.equals(b), ~a.equals(b), ~(a < b), a.is_nan]))

    choice = draw(st.integers(0, 9)) if depth else 0
    if choice == 0:
        leaf = st.sampled_from([e.load(0, kind), e.load(1, kind), e.const(-3, kind), e.given(2, kind)])
        return draw(leaf)
    if choice <= 4:
        a, b = number(), number()
        made = [a + b, a - b, a * b, e.maximum(a, b), e.minimum(a, b)]
        return draw(st.sampled_from([*made, a / b] if kind.is_float else [*made, a & b, a | b, a ^ b]))
    if choice <= 6:
        a = number()
        return draw(st.sampled_from([-a, e.absolute(a), a * a] if kind.is_float else [-a, ~a, a * a]))
    if choice == 7:
        return e.where(
            draw(st.sampled_from([test() & test(), test() | test(), ~(test() & test())])), number(), number()
        )
    return e.where(test(), number(), number())


@RANDOM
@given(st.data())
def test_any_tree_has_its_values(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([F32, D.INT32]))
    TREES.append(data.draw(st.composite(draw_tree)(kind, data.draw(st.integers(1, 5)))))
    tensor = T(kind, (2, 3))
    desc = Whatever(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)
    (primitive,) = desc.lower()
    inputs = [some_values(np.random.default_rng(k), kind, (2, 3)) for k in range(2)]
    picture = explain(desc, *inputs)
    if primitive.value.op == "load" or match_moved(primitive):
        return  # a copy, or a choice by place alone, which is told by where it is from
    check_values(picture, primitive, inputs)
    assert all(len(sentence) < 400 for sentence in picture.sentences)


def name_of(node: e.Expr) -> str:
    return "abcdef"[int(node.value)] if node.op == "load" else f"index[{node.value}]"


def written(tree: e.Expr, longest: int = LONGEST) -> str:
    return Formula(tree, name_of, longest).text(name_of)


@RANDOM
@given(st.data())
def test_a_formula_means_what_the_tree_computes(data: st.DataObject) -> None:
    """Python reads it with the same brackets."""
    kind = data.draw(st.sampled_from([D.FLOAT64, D.INT64]))
    tree = data.draw(st.composite(draw_tree)(kind, data.draw(st.integers(1, 4))))
    text = written(tree, 10**9)
    values = [np.array([value], kind.dtype) for value in data.draw(st.tuples(*[st.integers(-4, 4)] * 2))]
    functions = {"max": np.maximum, "min": np.minimum, "abs": np.abs, "is_nan": np.isnan}
    with np.errstate(all="ignore"):
        found = eval(text, {**functions, "a": values[0][0], "b": values[1][0]})  # noqa: S307 - what the test has drawn
    np.testing.assert_array_equal(found, evaluate(tree, values, (1,)).ravel()[0], text)


def test_functions_are_recognised_by_the_trees_that_they_make() -> None:
    a, b, c = (e.load(k, F32) for k in range(3))
    i, j = e.load(0, D.INT32), e.load(1, D.INT32)
    half, byte = e.load(0, D.FLOAT16), e.load(1, D.UINT8)
    exponential = e.call("exp", a)
    for tree, text in {
        e.maximum(a * b + c, 0): "max(a * b + c, 0)",
        e.minimum(e.maximum(a, -1), 1): "min(max(a, -1), 1)",
        e.fma(a, b, e.const(-2, F32)): "a * b - 2",
        a - (b - c): "a - (b - c)",
        a / (b / c): "a / (b / c)",
        a * b / c - a: "a * b / c - a",
        exponential / (1 + exponential): "exp(a) / (1 + exp(a))",
        (a - b) * (a - b): "(a - b) ** 2",
        e.where(a > 0, a, 0.1 * a): "a if a > 0 else 0.1 * a",
        (a > b).to(D.UINT8): "a > b",
        a.is_nan.to(D.UINT8): "is_nan(a)",
        (~i.equals(0) & ~j.equals(0)).to(D.UINT8): "a != 0 and b != 0",
        (half.to(F32) + 1).to(D.FLOAT16): "a + 1",
        (i.to(F32) * 2).to(D.INT32): "int32(a * 2)",
        i.to(D.INT8).to(D.INT32): "int8(a)",
        e.given(1, F32) * a + 0: "a",
        e.rint(a): "round(a)",
        numerics.round_half_away(a): "round_half_away(a)",
        numerics.sign(a): "sign(a)",
        numerics.mean(i, j): "mean(a, b)",
        numerics.divide(i, j): "a / b",
        numerics.divide(i, j) * 2: "a / b * 2",
        numerics.modulus_floor(a, b): "a % b",
        numerics.modulus_floor(i, j): "a % b",
        numerics.modulus_truncate(i, j): "fmod(a, b)",
        numerics.shift_left(i, j): "a << b",
        numerics.bit_count(i): "bit_count(a)",
        numerics.integer_power(i, byte): "pow(a, b)",
        e.coordinate(1).to(F32) * a: "index[1] * a",
    }.items():
        assert written(tree) == text


def test_a_long_formula_is_told_from_the_outside() -> None:
    a, b, c = (e.load(k, F32) for k in range(3))
    squared, tower = a, a
    for _ in range(60):
        squared, tower = squared * squared + b, e.call("exp", e.maximum(tower * b + c, 0))
    assert written(tower, 40) == "exp(max(exp(max(… + c, 0)) * b + c, 0))"
    assert len(written(squared)) <= LONGEST


def test_a_map_is_told_in_words() -> None:
    line = T("float32", (3,))
    add = OPERATORS[OperatorType.ELEMENT_WISE_ADD1]
    relu = FusedActivation("ACTIVATION_LEAKY_RELU", alpha=0.1)
    desc = add(a_tensor=line, b_tensor=T("float32", (3,), strides=(0,)), output_tensor=line, fused_activation=relu)
    picture = explain(desc, np.array([1, -4, np.inf], "float32"), np.array([2, 2, 2], "float32"))
    assert str(picture) == textwrap.dedent("""\
        ELEMENT_WISE_ADD1  FusedActivation ACTIVATION_LEAKY_RELU Alpha 0.1
            computes 3 elements: output = a + b if a + b >= 0 else 0.1 * (a + b)

            ATensor {3} FLOAT32     BTensor {3} FLOAT32        OutputTensor {3} FLOAT32
                 0     1     2         0   1   2                     0      1      2
              [  1]   -4   inf        [2]  2   2           →     [   3]  -0.2    inf

            [ ] output[0], and what it is computed from

            output[0] = (a[0] + b[0] if a[0] + b[0] >= 0 else 0.1 * (a[0] + b[0])) = 1 + 2 = 3
            output[1] = (a[1] + b[1] if a[1] + b[1] >= 0 else 0.1 * (a[1] + b[1])) = 0.1 * (-4 + 2) = -0.2
            output[2] = (a[2] + b[2] if a[2] + b[2] >= 0 else 0.1 * (a[2] + b[2])) = inf + 2 = inf

            b is the same all along dimension 0.""")
    recip = OPERATORS[OperatorType.ELEMENT_WISE_RECIP](input_tensor=line, output_tensor=line)
    assert str(explain(recip, [2, 0, -np.inf])) == textwrap.dedent("""\
        ELEMENT_WISE_RECIP
            computes 3 elements: output = 1 / input

            InputTensor {3} FLOAT32        OutputTensor {3} FLOAT32
                  0      1      2               0     1     2
                  2  [   0]  -inf      →      0.5  [inf]   -0

            [ ] leads to an infinity

            output[1] = 1 / input[1] = 1 / 0 = inf
            output[0] = 1 / input[0] = 1 / 2 = 0.5
            output[2] = 1 / input[2] = 1 / -inf = -0""")
