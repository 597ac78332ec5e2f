"""The functions that are derived from classes: their arguments, answers, docstrings and types."""

from __future__ import annotations

import dataclasses
import doctest
import inspect
import math
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.api import calls
from anydml.api.describing import argument_name
from anydml.api.functions import WRITTEN, derived_classes, function_names
from anydml.api.signatures import family_of, parameters_of
from anydml.core.operator_type import function_name
from anydml.operators.schema.fields import dml_name
from anydml.operators.schema.records import Computed
from cases import CASES
from doors import as_list
from families.moving import MOVING
from scripts import write_stub
from scripts.examples import ATTRIBUTES, examples

DERIVED = derived_classes()
REFERENCE = dml.Device("reference")
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
    assert getattr(dml.api.functions, name) is function
    assert (function.__name__, function.__module__) == (name, "anydml")
    found = list(inspect.signature(function).parameters.values())
    needed = [argument_name(field) for field in cls.input_names() if not is_optional(cls, field)]
    assert [p.name for p in found[: len(needed)]] == needed
    assert [(p.name, p.default, p.kind) for p in found[-2:]] == [
        (option, None, inspect.Parameter.KEYWORD_ONLY) for option in ("out", "device")
    ]
    assert function.__doc__.startswith(f"{family_of(cls)[-1].type.name}: ")
    assert f"\n>>> {name}(" in function.__doc__
    if not needed and all(map(default_is, parameters_of(cls).values())):  # any of its inputs may be left out
        case = next(case for case in CASES if case.operator is cls)
        arrays = case.inputs(dml.DataType.FLOAT32)
        np.testing.assert_array_equal(as_list(case.call(*arrays))[0], case.expected, strict=True)
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


def test_the_stub_tells_what_comes_and_of_which_type() -> None:
    lstm, top_k = (write_stub.declare(name, DERIVED[name]) for name in ("lstm", "top_k"))
    assert "output_single: bool = ..., output_cell_single: bool = ..., *, out: Sequence[NDArray[Any]] | NDArray" in lstm
    assert "-> _LstmResults[NDArray[_S], NDArray[Any]]" in lstm
    assert "-> _TopKResults[NDArray[_S], NDArray[Any]]" in top_k
    own = write_stub.results_class(dml.TopK)
    assert own.splitlines()[1:] == ["    values: _R", "    indices: _Q"], "places are not of the elements' type"


def test_sizes_that_nothing_implies_must_be_given() -> None:
    with pytest.raises(
        dml.DescriptionError, match="RANDOM_GENERATOR: output_sizes must be given, since nothing implies"
    ):
        dml.random_generator(np.zeros((1, 1, 1, 6), "uint32"), MISSING_SIZES)


def test_every_operator_has_a_function() -> None:
    written = {function.__name__ for function in WRITTEN}
    names = {function_name(kind) for kind in dml.OPERATORS}
    assert names == written | set(DERIVED)
    assert all(issubclass(cls, Computed) for cls in DERIVED.values())
