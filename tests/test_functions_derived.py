"""The functions that are derived from classes: what they look like, broadcasting, numbers, errors, and known calls."""

from __future__ import annotations

import dataclasses
import doctest
import inspect
import itertools
import math
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml import calls
from anydml.describing import argument_name
from anydml.functions import WRITTEN, derived_classes, function_names
from anydml.functions.derived import parameters_of
from anydml.memory import has_fast_address
from anydml.operator_type import function_name
from anydml.operators.computed import Computed
from anydml.operators.fields import dml_name
from cases import CASES
from doors import as_list
from moving import MOVING
from scripts import write_stub
from scripts.examples import ATTRIBUTES, examples

DERIVED = derived_classes()
REFERENCE = dml.Device("reference")
MUCH: Any = "much"
MISSING_SIZES: Any = None
X = np.array([[1.5, -2, 3], [-0.0, 5, 0.25]], "float32")


@pytest.fixture(autouse=True)
def on_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions run on the reference engine, where no device is given."""
    monkeypatch.setattr(calls, "device_named", lambda _name: REFERENCE)


def attributes(cls: type[dml.OperatorDesc]) -> dict[str, Any]:
    """A value for each attribute that must be given."""
    if cls in (*MOVING, dml.Rnn, dml.Lstm, dml.Gru):
        example = next(case for case in CASES if case.operator is cls)
        known = {"output_sizes": example.expected.shape, **example.attributes}
        return {name: known[name] for name, default in parameters_of(cls).items() if not default_is(default)}
    return {name: ATTRIBUTES[name] for name, default in parameters_of(cls).items() if not default_is(default)}


def default_is(default: object) -> bool:
    return default is None or not repr(default).startswith("<dataclasses._MISSING")


def small_inputs(cls: type[dml.OperatorDesc]) -> list[np.ndarray[Any, Any]]:
    """Arrays of the smallest type that each input takes, of sizes that every operator takes."""
    if cls in (*MOVING, dml.Rnn, dml.Lstm, dml.Gru):
        return next(case for case in CASES if case.operator is cls).inputs(dml.DataType.FLOAT32)
    row = cls.support.row_at(dml.FeatureLevel.highest()).tensors
    made: list[np.ndarray[Any, Any]] = []
    for k, name in enumerate(cls.input_names()):
        kind = min(row[dml_name(name)].data_types)
        sizes: tuple[int, ...] = (1, 1, 2, 3)
        if made:
            sizes = cls.usual_tensor(dml_name(name), dml.TensorDesc(made[0].dtype, sizes))[1]
        made.append((np.arange(math.prod(sizes)).reshape(sizes) * (k + 1) / 4).astype(kind.dtype))
    return made


@pytest.mark.parametrize("name", DERIVED)
def test_a_function_is_what_its_class_says(name: str) -> None:
    cls, function = DERIVED[name], getattr(dml, name)
    assert getattr(dml.functions, name) is function
    assert (function.__name__, function.__module__) == (name, "anydml")
    found = list(inspect.signature(function).parameters.values())
    needed = [argument_name(field) for field in cls.input_names() if not is_optional(cls, field)]
    assert [p.name for p in found[: len(needed)]] == needed
    assert [(p.name, p.default, p.kind) for p in found[-2:]] == [
        (option, None, inspect.Parameter.KEYWORD_ONLY) for option in ("out", "device")
    ]
    assert function.__doc__.startswith(f"{cls.type.name}: ")
    assert f"\n>>> {name}(" in function.__doc__
    if not needed and all(map(default_is, parameters_of(cls).values())):  # any of its inputs may be left out
        case = next(case for case in CASES if case.operator is cls)
        arrays = case.inputs(dml.DataType.FLOAT32)
        np.testing.assert_array_equal(case.call(*arrays), case.expected, strict=True)
        with pytest.raises(dml.DescriptionError, match="must be given"):
            function()
        return
    # The same as the compiled operator, by place, by name, and into an array of the caller's.
    inputs, named = small_inputs(cls), attributes(cls)
    given = {argument_name(field): x for field, x in zip(cls.input_names(), inputs, strict=True)}
    results = as_list(function(**given, **named))
    typed = {name: results[0].dtype for name in parameters_of(cls) if name.endswith("_data_type")}
    descs = {field: dml.TensorDesc.of(x) for field, x in zip(cls.input_names(), inputs, strict=True)}
    folded = {"axes": folded_axes(cls, named)} if "axes" in cls.field_types() else {}
    others = dict(named)
    if sizes := others.pop("output_sizes", None):
        descs[cls.output_names()[0]] = dml.TensorDesc(results[0].dtype, sizes)
    wanted = as_list(REFERENCE.compile(cls.infer(**descs, **{**others, **typed, **folded}))(*inputs))
    optional = [x for field, x in zip(cls.input_names(), inputs, strict=True) if is_optional(cls, field)]
    by_place = [*(given[key] for key in needed), *named.values(), *optional]
    outs = [np.empty_like(one) for one in wanted]
    back = function(*by_place, out=outs if cls.gives_several() else outs[0], device=REFERENCE)
    assert all(one is out for one, out in zip(as_list(back), outs, strict=True))
    for found_there in (results, as_list(function(*by_place)), outs):
        for one, other in zip(found_there, wanted, strict=True):
            np.testing.assert_array_equal(one, other, strict=True)
    with pytest.raises(TypeError, match=rf"it is {name}\("):
        function(*by_place, nothing=1)
    with pytest.raises(TypeError, match=rf"missing a required argument: .*; it is {name}\("):
        function()
    if cls.in_place and inputs[0].dtype == wanted[0].dtype:
        own = [x.copy() for x in inputs[: len(wanted)]]
        back = function(*own, *inputs[len(own) :], **named, out=own if cls.gives_several() else own[0])
        assert as_list(back)[0] is own[0]
        for one, other in zip(own, wanted, strict=True):
            np.testing.assert_array_equal(one, other)


def is_optional(cls: type[dml.OperatorDesc], field: str) -> bool:
    return any(one.name == field and one.default is None for one in dataclasses.fields(cls))


def folded_axes(cls: Any, named: dict[str, Any]) -> tuple[int, ...]:
    """Of four dimensions, what a function folds where it is told nothing."""
    return tuple(named["axes"]) if "axes" in named else (0, 1, 2, 3) if cls.usual_axes is None else (3,)


def test_names() -> None:
    named = {kind.name: function_name(kind) for kind in dml.OperatorType}
    assert len(set(named.values())) == len(named)
    assert named["ELEMENT_WISE_TANH"] == "tanh"
    assert named["ACTIVATION_TANH"] == "activation_tanh"
    assert named["ELEMENT_WISE_IF"] == "if_"
    assert named["ACTIVATION_RELU"] == "relu"
    assert named["ELEMENT_WISE_QUANTIZE_LINEAR"] == "quantize_linear"
    assert named["VALUE_SCALE_2D"] == "value_scale_2d"
    assert set(function_names()) <= set(dml.__all__)
    assert set(dml.__all__) <= set(dir(dml))
    with pytest.raises(AttributeError, match="module 'anydml' has no attribute 'nothing'"):
        dml.nothing  # type: ignore[attr-defined]  # noqa: B018 - what is asked


def test_examples_in_docstrings_run() -> None:
    functions = {name: getattr(dml, name) for name in function_names()}
    runner, finder = doctest.DocTestRunner(), doctest.DocTestParser()
    for name, function in functions.items():
        test = finder.get_doctest(function.__doc__, {"np": np, **functions}, name, None, 0)
        assert test.examples, name
        assert runner.run(test).failed == 0, name


def test_the_stub_and_the_examples_are_up_to_date() -> None:
    assert write_stub.STUB.read_text() == write_stub.stub(), "write it anew with `make written`"
    assert write_stub.EXPLAIN_STUB.read_text() == write_stub.explain_stub(), "write it anew with `make written`"
    assert write_stub.EXAMPLES.read_text() == write_stub.json_examples(), "write it anew with `make written`"
    assert set(examples()) == set(DERIVED)


def test_the_stub_tells_what_comes_when_an_output_is_asked_for_and_of_which_type() -> None:
    lstm, top_k = (write_stub.declare(name, DERIVED[name]) for name in ("lstm", "top_k"))
    assert (
        "output_single: Literal[False] = ..., output_cell_single: Literal[False] = ..., *, out: NDArray[_S] |" in lstm
    )
    assert "output_single: bool = ..., output_cell_single: bool = ..., *, out: list[NDArray[_S]] | None" in lstm
    assert "-> list[NDArray[Any]]" in top_k  # of which the second has places, whatever the first's type


def test_sizes_that_nothing_implies_must_be_given() -> None:
    with pytest.raises(
        dml.DescriptionError, match="RANDOM_GENERATOR: output_sizes must be given, since nothing implies"
    ):
        dml.random_generator(np.zeros((1, 1, 1, 6), "uint32"), MISSING_SIZES)


BROADCASTS = [((2, 3), (3,)), ((3,), (2, 3)), ((2, 1), (1, 3)), ((1,), (2, 3)), ((), (2, 3)), ((2, 3), ()), ((), ()),
              ((4, 1, 3), (2, 1)), ((1, 1), (3,)), ((2, 1, 1, 3), (5, 1, 1))]  # fmt: skip


@pytest.mark.parametrize(("first", "second"), BROADCASTS)
def test_sizes_broadcast_as_numpys_do(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    rng = np.random.default_rng(7)
    a, b = rng.random(first, "float32"), rng.random(second, "float32")
    for function, ufunc in ((dml.add, np.add), (dml.subtract, np.subtract), (dml.logical_less_than, np.less)):
        wanted = np.asarray(ufunc(a, b))
        for _ in range(2):  # the second call is a known one
            result = function(a, b)
            np.testing.assert_array_equal(result, wanted)
            assert result.shape == wanted.shape
        out = np.empty(wanted.shape, result.dtype)
        np.testing.assert_array_equal(function(a, b, out=out), wanted)
    c = rng.integers(0, 2, second, "uint8")
    np.testing.assert_array_equal(dml.if_(c, a, 7), np.where(c, a, np.float32(7)))
    flipped = a[::-1] if a.ndim else a
    np.testing.assert_array_equal(dml.add(flipped, b.T.T), flipped + b)
    if not (a.ndim and b.ndim):
        return  # no input of a graph is without dimensions
    g = dml.Graph("reference")
    x, y = g.input(a), g.input(b)
    np.testing.assert_array_equal(g.compile(dml.subtract(x, y))(a, b), (a - b).reshape(g.compile(x - y).results[0][1]))


def test_numbers_take_the_type_beside_them() -> None:
    for dtype in ("float32", "float16", "int8", "uint64"):
        x = np.arange(3).astype(dtype)
        for number in (2, np.int64(2), np.uint8(2), True, np.array(2)):
            for _ in range(2):
                np.testing.assert_array_equal(dml.add(x, number), x + x.dtype.type(number), strict=True)
                np.testing.assert_array_equal(dml.subtract(number, x), (x.dtype.type(number) - x), strict=True)
    x = np.arange(3, dtype="float16")
    np.testing.assert_array_equal(dml.add(0.1, x), np.float16(0.1) + x, strict=True)
    # Known calls tell 0.0 from -0.0, 1 from 1.0 and from True, and one number from the next.
    with np.errstate(all="ignore"):
        for value in (0.0, -0.0, 1, 1.0, np.nan, np.nan, np.inf):
            np.testing.assert_array_equal(dml.divide(X, value), X / np.float32(value))
            product = dml.multiply(X, value)
            np.testing.assert_array_equal(
                np.signbit(product)[~np.isnan(product)], np.signbit(X * value)[~np.isnan(product)]
            )
    assert dml.add(2, 3).dtype == np.int64
    assert dml.add(2, 3.5).dtype == np.float32
    assert dml.linear(X, -0.0, 0.0)[0, 0] == 0
    np.testing.assert_array_equal(dml.pow(X, 2), X**2)


def test_lists_of_numbers_take_the_type_beside_them() -> None:
    for dtype in ("float32", "float16", "int8", "uint64"):
        x = np.arange(3).astype(dtype)
        for several in ([1, 2, 3], (True, False, True), [[1], [2]]):
            np.testing.assert_array_equal(dml.add(x, several), x + np.array(several, dtype), strict=True)
            np.testing.assert_array_equal(dml.subtract(several, x), np.array(several, dtype) - x, strict=True)
    half = np.ones(2, "float16")
    np.testing.assert_array_equal(dml.add(half, [0.1, np.inf]), half + np.array([0.1, np.inf], "float16"), strict=True)
    large = np.zeros(2, "uint64")
    np.testing.assert_array_equal(dml.max(large, [2**64 - 1, 1]), np.array([2**64 - 1, 1], "uint64"), strict=True)
    np.testing.assert_array_equal(dml.if_([True, False, True], X, [7, 8, 9]), np.where([1, 0, 1], X, X.dtype.type(8)))
    np.testing.assert_array_equal(dml.add([1, 2], [0.5, 1]), np.array([1.5, 3], "float32"), strict=True)
    np.testing.assert_array_equal(dml.add([1, 2], 0.5), np.array([1.5, 2.5], "float32"), strict=True)
    assert [dml.add([1], [2]).dtype, dml.sqrt([4]).dtype, dml.relu([4]).dtype] == [np.int64, np.float32, np.int32]


def test_an_array_without_dimensions_is_read_each_time() -> None:
    number = np.array(2.0)
    for value in (2.0, 3.0):
        number[...] = value
        np.testing.assert_array_equal(dml.add(X, number), X + np.float32(value), strict=True)


def test_booleans_are_uint8() -> None:
    mask = X > 1
    np.testing.assert_array_equal(dml.logical_not(mask), (~mask).view("uint8"), strict=True)
    np.testing.assert_array_equal(dml.if_(mask, X, 0), np.where(mask, X, np.float32(0)), strict=True)
    np.testing.assert_array_equal(dml.logical_and(mask, True), mask.view("uint8"), strict=True)
    for _ in range(2):  # of which the second is a known call
        np.testing.assert_array_equal(dml.nonzero_coordinates(mask)[1][: mask.sum()], np.argwhere(mask))
        np.testing.assert_array_equal(dml.slice(mask, [0, 0], [1, 3]), mask[:1].view("uint8"), strict=True)


def test_truths_go_into_an_array_of_booleans() -> None:
    out = np.zeros(X.shape, bool)
    for number in (2, 3, 3):  # of which the last is a known call
        assert dml.logical_less_than(X, number, out=out) is out
        np.testing.assert_array_equal(out, number > X, strict=True)
    np.testing.assert_array_equal(dml.logical_not(out, out=out), X >= 3, strict=True)
    was, bits = out.copy(), out.view("uint8")
    with pytest.raises(dml.DescriptionError, match="out must not be an array of booleans: the results are others"):
        dml.add(bits, 1, out=out)
    with pytest.raises(dml.DescriptionError, match=r"OutputTensor\.DataType must be ATensor\.DataType, FLOAT32"):
        dml.add(X, 1, out=out)
    np.testing.assert_array_equal(out, was, strict=True)


def test_truths_are_of_a_type_that_the_level_has() -> None:
    old = dml.Device("reference", feature_level="1_0")
    assert dml.logical_less_than(X, 2, device=old).dtype == np.uint32
    assert dml.logical_less_than(X, 2).dtype == np.uint8
    assert dml.is_nan(X).dtype == np.uint8


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: dml.add(X, X.T),
            r"ATensor.Sizes and BTensor.Sizes must be equal from the last on, or 1; got \(2, 3\) and",
        ),
        (
            lambda: dml.if_(np.ones(4, bool), X, 0),
            r"ConditionTensor.Sizes and ATensor.Sizes must be equal .*\(4,\) and \(2, 3\)",
        ),
        (
            lambda: dml.add(np.arange(3), 2.0),
            r'BTensor must be a whole number, being of INT64 .* pass a\.astype\("float32"\)',
        ),
        (lambda: dml.add(2.5, np.arange(3)), r'ATensor must be a whole number.* pass b\.astype\("float32"\)'),
        (
            lambda: dml.add(np.arange(3, dtype="uint8"), 256),
            r"BTensor must lie in 0 \.\. 255, being of UINT8 as ATensor is",
        ),
        (lambda: dml.add(X, 1e300), "BTensor must be a number that the type can hold, being of FLOAT32 as ATensor is"),
        (lambda: dml.add(X, 10**400), "BTensor must be a number that the type can hold"),
        (lambda: dml.add(X, X.astype("float64")), r'BTensor must be of .*; got FLOAT64; pass b\.astype\("float32"\)'),
        (lambda: dml.relu(X.astype("float64")), r'InputTensor must be of .*; got FLOAT64; pass x\.astype\("float32"\)'),
        (lambda: dml.add(X, np.arange(3)), r'ATensor.DataType, FLOAT32; got INT64; pass b\.astype\("float32"\)'),
        (lambda: dml.add(X, [1, 2, 1e300]), r"BTensor must be a number that the type can hold, .* got 1e\+300"),
        (lambda: dml.add(np.arange(2, dtype="uint8"), [0, 256]), r"BTensor must lie in 0 \.\. 255, .* got 256"),
        (lambda: dml.add(np.arange(2), [1, 2.5]), r'BTensor must be a whole number.* pass a\.astype\("float32"\)'),
        (lambda: dml.add([2**63], [1]), r"ATensor must lie in .* being of INT64; got 9223372036854775808"),
        (lambda: dml.add(X, [1, [2]]), "BTensor could not be made an array"),
        (lambda: dml.elu(X, MUCH), "ACTIVATION_ELU: Alpha must be a number; got 'much'"),
        (lambda: dml.round(X, MUCH), "RoundingMode must be one of"),
        (lambda: dml.add(X, "text"), "BTensor must be an array"),
        (lambda: dml.add(X, X, out=np.empty((3, 3), "float32")), r"OutputTensor.Sizes must be \(2, 3\)"),
        (lambda: dml.value_scale_2d(X[None], 2, [1, 2, 3]), r"must be 3"),
        (lambda: dml.value_scale_2d(np.ones((1, 3, 2, 2, 1), "float32"), 2, [1, 2, 3]), "dimensions"),
        (lambda: dml.add1(X, X, fused_activation="ABS"), "FusedActivation"),
        (lambda: dml.add1(X, X, fused_activation="rellu"), r"did you mean RELU\?"),
    ],
)
def test_errors_name_the_field_and_the_way_out(call: Any, words: str) -> None:
    with pytest.raises(dml.DmlError, match=words):
        call()


def test_known_calls_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_call(*_args: object, **_options: object) -> None:
        raise AssertionError("made anew")

    row = X[0].copy()
    made: list[Any] = [
        lambda: dml.add(X, X),
        lambda: dml.add(X, row),
        lambda: dml.add(2.0, X),
        lambda: dml.clip(X, min=0, max=1),
        lambda: dml.identity(X, (2, -0.0)),
        lambda: dml.add1(X, X, "RELU"),
    ]
    results = [call() for call in made]
    monkeypatch.setattr("anydml.functions.derived.make_call", no_call)
    for call, wanted in zip(made, results, strict=True):
        np.testing.assert_array_equal(call(), wanted)
    with pytest.raises(AssertionError, match="made anew"):
        dml.identity(X, (2, 0.0))


@pytest.mark.skipif(not has_fast_address, reason="arrays do not hold their addresses here")
def test_known_calls_of_one_kernel_bind_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses are put into the kernel's words where it is called: with offsets, steps back and numbers among them."""
    cpu, square = dml.Device("cpu"), np.arange(64, dtype=np.float32).reshape(8, 8)
    made: list[Any] = [
        lambda x: dml.gemm(x, x.T, device=cpu),
        lambda x: dml.add(x, x, device=cpu),
        lambda x: dml.subtract(3, x, device=cpu),
        lambda x: dml.reduce(x, "SUM", axes=[1], device=cpu),
    ]
    wanted = [lambda x: x @ x.T, lambda x: x + x, lambda x: 3 - x, lambda x: x.sum(1, keepdims=True)]
    views = [lambda x: x, lambda x: x[1:, :0:-1], lambda x: x[:, 2:5]]
    for call, view in itertools.product(made, views):
        call(view(square))

    def no_binding(*_args: object, **_options: object) -> None:
        raise AssertionError("bound")

    monkeypatch.setattr("anydml.runtime.compiled.CompiledOperator.launch", no_binding)
    for (call, numpys), view in itertools.product(zip(made, wanted, strict=True), views):
        for array in (view(square), view(square.copy() + 1)):
            np.testing.assert_array_equal(call(array), numpys(array))


def test_every_operator_has_a_function() -> None:
    written = {function.__name__ for function in WRITTEN}
    names = {function_name(kind) for kind in dml.OPERATORS}
    assert names - written - set(DERIVED) == {"gather_nd1"}
    assert all(issubclass(cls, Computed) for cls in DERIVED.values())
