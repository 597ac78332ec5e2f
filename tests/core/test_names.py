"""What `import anydml` has, what it hides, and what it says of a name that it does not have."""

from __future__ import annotations

import doctest
import enum
import importlib
import inspect
import pickle
import pydoc
import re
import subprocess
import sys
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.api import docstrings
from anydml.operators.schema.meanings import by_name
from tests.runtime.test_copies_and_pickles import MODULES, examples

X = np.ones((2, 3), "float32")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        (
            "relu6",
            f"DirectML has {len(dml.OPERATORS)} operators, all of them here, and none of that name; use clip(x, 0, 6)",
        ),
        ("reulu", "none of that name; did you mean relu?"),
        ("bmm", "use matmul(a, b)"),
        ("Conv2d", "use convolution"),
        ("reduce_sum", "use sum(x, axis)"),
        ("nan_to_num", "use where(isnan(x), 0, x)"),
        ("InferenceSession", "use anydml.onnxruntime.InferenceSession"),
        ("GatherNd", "did you mean gather_nd, the function, or GatherND, its description?"),
        ("sftmax", "did you mean softmax?"),
        ("fmax", "none of that name; use max(a, b)"),
        ("float32", 'use its name, "float32", or DataType.FLOAT32'),
        ("frobnicate", "none of that name; `anydml support` lists them"),
        ("DML_SLICE1_OPERATOR_DESC", "; it is anydml.Slice1 here"),
        ("DML_TENSOR_DATA_TYPE_FLOAT32", "; it is anydml.DataType.FLOAT32 here"),
        ("DML_OPERATOR_GEMM", "; it is anydml.OperatorType.GEMM here"),
        ("DML_FEATURE_LEVEL_5_0", "; it is anydml.FeatureLevel.LEVEL_5_0 here"),
        ("DML_TENSOR_FLAG_OWNED_BY_DML", "; it is anydml.TensorFlags.OWNED_BY_DML here"),
        ("DML_EXECUTION_FLAG_NONE", "; it is anydml.ExecutionFlags.NONE here"),
        ("DML_SIZE_2D", "; write a tuple, (width, height)"),
        ("DML_CREATE_DEVICE_FLAGS", "; the guide to porting DirectML code lists the names"),
        ("IDMLDevice1", "; it is anydml.Device here"),
        ("DMLCreateDevice", "; it is anydml.Device() here"),
    ],
)
def test_a_name_that_is_not_there_has_a_way_out(name: str, hint: str) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(dml, name)
    assert str(raised.value).endswith(hint)
    assert raised.value.name == name


def test_arguments_of_other_libraries_stand_for_arguments_that_are_there() -> None:
    from anydml.api.unknown import _ARGUMENTS

    known = {key for name in dml.__all__ if name.islower() for key in inspect.signature(getattr(dml, name)).parameters}
    assert {word for words in _ARGUMENTS.values() for word in words.split()} <= known


def test_functions_pickle() -> None:
    for function in (dml.slice1, dml.relu):
        assert pickle.loads(pickle.dumps(function)) is function  # noqa: S301 - our own


def test_a_private_name_has_no_way_out() -> None:
    with pytest.raises(AttributeError, match=r"^module 'anydml' has no attribute '_relu'$"):
        getattr(dml, "_relu")  # noqa: B009 - a type checker knows that it is not there


def test_what_is_suggested_instead_is_there() -> None:
    """Each of the functions by which another library's name is answered."""
    from anydml.api.unknown import _INSTEAD, _STRUCTURES

    known = {*dml.__all__, "anydml", "arrays", "pydirectml", "the", "its"}
    words: set[str] = set()
    for place, names in _INSTEAD.items():
        assert place.partition("(")[0].partition(".")[0].partition(" ")[0].partition(",")[0] in known, place
        assert words.isdisjoint(names.split()), place
        words |= set(names.split())
    assert words.isdisjoint(dml.__all__)
    assert {name.removesuffix("()") for name in _STRUCTURES.values()} <= known


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: dml.max(X), "element by element: along axes use amax(x, axis)"),  # type: ignore[call-overload,unused-ignore]
        (lambda: dml.min(X, axis=1), "along axes use amin(x, axis)"),  # type: ignore[call-overload,unused-ignore]
        (lambda: dml.mean(X), "along axes use average(x, axis)"),  # type: ignore[call-overload,unused-ignore]
        (lambda: dml.mean(X, X, axis=1), "along axes use average(x, axis)"),  # type: ignore[call-overload,unused-ignore]
        (lambda: dml.one_hot(X, depth=3), "one_hot(indices[..., None], [[0, 1]], [*indices.shape, n], -1)"),  # type: ignore[call-overload,unused-ignore]
        (lambda: dml.reduce(X, "max", axis=1), "write axes= instead of axis="),  # type: ignore[call-overload,unused-ignore]
        (lambda: dml.reduce(X, "max", 1, keepdims=False), "result.squeeze(axis) drops one"),  # type: ignore[call-overload,unused-ignore]
        (lambda: dml.softmax(X, dim=1), "write axis= instead of dim="),  # type: ignore[call-overload,unused-ignore]
        (lambda: dml.split(X, sections=2), "write output_axis_sizes= instead of sections="),  # type: ignore[call-overload,unused-ignore]
        (lambda: dml.cast(X, dtype="int8"), "write data_type= instead of dtype="),  # type: ignore[call-overload,unused-ignore]
        (lambda: dml.gather(X, [0], axs=1), "did you mean axis?"),  # type: ignore[call-overload,unused-ignore]
        (lambda: dml.gemm(X, X, transpose_b=True), "write trans_b= instead of transpose_b="),  # type: ignore[call-overload,unused-ignore]
        (lambda: dml.average_pooling(X, 2, padding=1), "write start_padding= and end_padding="),  # type: ignore[call-overload,unused-ignore]
        (lambda: dml.gather(X), "axis=0, index_mode='raise', *, out=None, device=None)"),  # type: ignore[call-overload,unused-ignore]
        (lambda: dml.ActivationRelu(X), "input_tensor=, output_tensor=; arrays go to anydml.relu()"),  # type: ignore[call-arg,arg-type]
        (lambda: dml.ActivationRelu(input_tensor=X), "'output_tensor'; arrays go to anydml.relu()"),  # type: ignore[call-arg,arg-type]
        (lambda: dml.round(X, decimals=1), "for decimals=1 write divide(round(multiply(x, 10)), 10)"),  # type: ignore[call-overload,unused-ignore]
        (lambda: dml.slice1(X), "input_window_strides=None, output_sizes=None, *, out=None, device=None)"),  # type: ignore[call-overload,unused-ignore]
        (lambda: dml.add(X), "it is add(a, b, *, out=None, device=None)"),  # type: ignore[call-overload,unused-ignore]
    ],
)
def test_a_call_as_another_library_has_it_has_a_way_out(call: Any, hint: str) -> None:
    with pytest.raises(TypeError) as raised:
        call()
    assert str(raised.value).endswith(hint)


def test_classes_are_written_as_the_error_says() -> None:
    indices, n = np.array([0, 2, 1]), 4
    found = dml.one_hot(indices[..., None], [[0, 1]], [*indices.shape, n], -1)
    np.testing.assert_array_equal(found, np.eye(n)[indices])


def test_an_axis_out_of_range_says_the_order() -> None:
    with pytest.raises(dml.DescriptionError, match=r"got 2; the order is top_k\(x, axis, k, axis_direction\)(?m:$)"):
        dml.top_k(X, 2, 1)


@pytest.mark.parametrize("name", ["relu", " Relu", "activation_relu", "DML_OPERATOR_ACTIVATION_RELU", dml.relu])
def test_support_takes_the_names_of_functions(name: Any) -> None:
    assert dml.support(name) is dml.ActivationRelu.support.at(dml.FeatureLevel.highest())


@pytest.mark.parametrize(("name", "hint"), [("relo", "relu"), ("slise1", "slice1"), ("DML_OPERATOR_GEM", "gemm")])
def test_support_suggests_a_name(name: str, hint: str) -> None:
    with pytest.raises(dml.DescriptionError, match=rf"did you mean {hint}\?$"):
        dml.support(name)


def test_a_model_has_directmls_names_alone() -> None:
    with pytest.raises(dml.DescriptionError, match="did you mean ACTIVATION_RELU"):
        dml.OperatorType("relu")


def test_the_module_of_pictures_is_a_function_too() -> None:
    x = dml.TensorDesc("float32", (4,))
    desc = dml.CumulativeSummation(input_tensor=x, output_tensor=x, axis=0)
    assert str(dml.explain(desc, [2, 1, 3, 5], title="t")) == str(dml.explain.explain(desc, [2, 1, 3, 5], title="t"))
    assert dml.explain.Picture.__name__ == "Picture"


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: dml.Device("gpu"), "did you mean 'webgpu'?"),  # type: ignore[arg-type,unused-ignore]
        (lambda: dml.TensorDesc("flot32", (2,)), "got 'flot32'; did you mean FLOAT32?"),
        (lambda: dml.cumulative_summation(X, 0, "down"), "got 'down'; did you mean DECREASING?"),  # type: ignore[call-overload,unused-ignore]
        (lambda: dml.reduce(X, "mean"), "did you mean AVERAGE?"),  # type: ignore[call-overload,unused-ignore]
        (lambda: dml.round(X, 2), "decimals; got 2; for decimals=2 write divide(round(multiply(x, 100)), 100)"),  # type: ignore[call-overload,unused-ignore]
        (lambda: dml.round(X, np.int64(-1)), "for decimals=-1 write multiply(round(divide(x, 10)), 10)"),  # type: ignore[call-overload,unused-ignore]
        (lambda: dml.padding(X, 1, 1, "reflect"), "did you mean REFLECTION?"),  # type: ignore[call-overload,unused-ignore]
        (lambda: dml.gather(X, [0], index_mode="clip"), "did you mean 'clamp'?"),  # type: ignore[call-overload,unused-ignore]
    ],
)
def test_a_word_of_another_library_has_a_suggestion(call: Any, hint: str) -> None:
    with pytest.raises(dml.DmlError) as raised:
        call()
    assert str(raised.value).endswith(hint)


def test_numbers_of_decimals_are_no_modes() -> None:
    """Nor after a call that the number of a mode would be taken for; 0 means the same to both."""
    x = np.array([1.26, -2.5], "float32")
    assert dml.round(x, "toward_zero").tolist() == dml.round(x, dml.RoundingMode(1)).tolist() == [1, -2]
    with pytest.raises(dml.DescriptionError, match="no count of decimals"):
        dml.round(x, 1)  # type: ignore[call-overload,unused-ignore]
    assert dml.round(x, 0).tolist() == [1, -2]  # type: ignore[call-overload,unused-ignore]
    np.testing.assert_allclose(dml.divide(dml.round(dml.multiply(x, 10)), 10), [1.3, -2.5], rtol=1e-6)


def test_modules_are_reachable_and_loaded_when_asked_for() -> None:
    pytest.importorskip("onnx", reason="anydml.onnx needs it")
    code = """import sys, anydml
names = ("dask", "dxdispatch", "explain", "genai", "onnx", "onnxruntime", "pydirectml")
print([name for name in names if f"anydml.{name}" in sys.modules])
print(set(names) <= set(dir(anydml)), [getattr(anydml, name).__name__ for name in names])
print([name for name in dir(anydml) if name[0] != "_" and name not in (*anydml.__all__, *names)])"""
    found = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    loaded, reached, others = found.stdout.splitlines()
    assert loaded == "[]"
    modules = ("dask", "dxdispatch", "explain", "genai", "onnx", "onnxruntime", "pydirectml")
    assert reached == f"True {[f'anydml.{name}' for name in modules]}"
    assert others == "[]"


def test_the_modules_of_models_have_no_load_that_cannot_be_called() -> None:
    assert callable(dml.dxdispatch.load_model)
    assert not hasattr(dml.dxdispatch, "load"), "a module would be in the way of Python's own suggestion"


def test_the_old_name_of_dxdispatch_is_taken_with_a_warning() -> None:
    with pytest.warns(FutureWarning, match="anydml.models is anydml.dxdispatch now"):
        assert dml.models is dml.dxdispatch
    sys.modules.pop("anydml.models")
    with pytest.warns(FutureWarning, match="anydml.models is anydml.dxdispatch now"):
        from anydml.models import load_model
    assert load_model is dml.dxdispatch.load_model


NAMES = [*MODULES, "pydirectml"]


def modules() -> list[ModuleType]:
    return [importlib.import_module(name) for name in NAMES]


@pytest.mark.parametrize("name", NAMES)
def test_a_module_can_be_looked_at(name: str) -> None:
    module = importlib.import_module(name)
    found = dict(inspect.getmembers(module))
    assert set(getattr(module, "__all__", ())) <= found.keys() == set(dir(module))
    assert f"\n    {name}" in pydoc.plain(pydoc.render_doc(module))
    doctest.DocTestFinder().find(module)


def test_every_public_name_can_be_looked_at() -> None:
    seen: dict[int, Any] = {}
    for module in modules():
        for name in dir(module):
            value = getattr(module, name)
            if not name.startswith("_") and not isinstance(value, ModuleType):
                seen[id(value)] = value
    assert len(seen) > 600
    for value in seen.values():
        if inspect.isclass(value):
            inspect.classify_class_attrs(value)
        if callable(value) and not (inspect.isclass(value) and issubclass(value, Exception)):
            inspect.signature(value)
        inspect.getmembers(value)
    for value in (dml.Slice1, dml.OperatorDesc, dml.Gemm, dml.gemm, dml.slice1, dml.Device, dml.DataType, dml.DmlError):
        assert value.__name__ in pydoc.plain(pydoc.render_doc(value))


@pytest.mark.long
def test_help_has_words_for_every_operator_and_function() -> None:
    for name in (name for name in dml.__all__ if callable(getattr(dml, name))):
        assert name in pydoc.plain(pydoc.render_doc(getattr(dml, name), "%s")), name
    text = pydoc.plain(pydoc.render_doc(dml))
    assert "Functions on arrays of NumPy" in text[:1000], "the first page says what there is"
    assert len(text) < 2_500 * len(dml.__all__), (
        "6,000 a name with the methods that operators have for the layers above"
    )


def functions() -> dict[str, Any]:
    """Those on arrays."""
    found = {name: getattr(dml, name) for name in dml.__all__}
    return {name: one for name, one in found.items() if isinstance(one, FunctionType) and one.__module__ == "anydml"}


def test_docstrings_say_what_each_argument_and_result_is() -> None:
    for name in functions():
        said = inspect.getdoc(getattr(dml, name)) or ""
        arguments = said.partition("\n\nArgs:\n")[2].partition("\n\n")[0]
        found = re.findall(r"^    (\w+): \S", arguments, re.MULTILINE)
        assert found == list(inspect.signature(getattr(dml, name)).parameters), name
        assert "\n\nReturns:\n    " in said, name
        assert "\n\n>>> " in said, name
    for cls in dml.OPERATORS.values():
        said = inspect.getdoc(cls) or ""
        assert said.startswith(cls.own_words())
        assert re.findall(r"^    (\w+): \S", said, re.MULTILINE) == list(cls.field_types()), cls
        assert hasattr(dml, said.partition("See also: `")[2].partition("`")[0]), cls


def test_docstrings_name_functions_and_classes_that_there_are() -> None:
    for name, function in functions().items():
        seen = " ".join((inspect.getdoc(function) or "").partition("See also: ")[2].partition("\n\n")[0].split())
        assert all(hasattr(dml, other) and other != name for other in re.findall("`([^`]+)`", seen)), (name, seen)
    assert "`conv_transpose`" not in (dml.convolution.__doc__ or "")
    assert "`roi_align_grad`" in (dml.roi_align1.__doc__ or "")


def test_no_meaning_of_an_argument_is_left_over() -> None:
    known = by_name(docstrings.__file__, "arguments.json")
    said = {meaning for several in known.values() for _, meaning in several}
    assert said <= {meaning for meaning in said if any(meaning in told(function) for function in functions().values())}


def told(function: Any) -> str:
    return " ".join((function.__doc__ or "").split())


def test_dir_of_a_description_is_what_users_ask_of_it() -> None:
    assert {"check", "infer", "support", "dimension_count"} <= set(dir(dml.Slice1))
    assert {"lower", "own_faults", "word_outside"}.isdisjoint(dir(dml.Slice1))
    assert {"FLOAT32", "dml_name"} <= set(dir(dml.DataType))
    assert "bit_length" not in dir(dml.AxisDirection)


def test_every_object_can_be_looked_at() -> None:
    members = [member for cls in examples() if issubclass(cls, enum.Enum) for member in cls]
    for value in (*examples().values(), *members):
        assert inspect.getmembers(value)


def test_a_description_has_a_signature() -> None:
    assert [*inspect.signature(dml.ActivationRelu).parameters] == ["input_tensor", "output_tensor"]


def test_a_misspelt_name_gets_a_suggestion() -> None:
    for wrong, right in (("reluu", "relu"), ("Slice11", "Slice1"), ("Devise", "Device"), ("onx", "onnx")):
        with pytest.raises(AttributeError, match=rf"module 'anydml' has no attribute '{wrong}'.*{right}"):
            getattr(dml, wrong)


def test_members_are_listed_where_packages_are_missing() -> None:
    code = """
import inspect, pydoc, sys
absent = ("onnx", "onnxruntime", "dask", "distributed", "torch", "triton", "PIL", "igraph", "starlette", "uvicorn")
sys.modules.update(dict.fromkeys(absent))
import anydml
found = dict(inspect.getmembers(anydml))
assert "onnx" not in found and {"dxdispatch", "explain", "pydirectml", "gemm", "Slice1"} <= found.keys()
assert not hasattr(anydml, "onnx")
assert "anydml" in pydoc.render_doc(anydml.Device)
inspect.getmembers(anydml.dask)
for ask in (lambda: anydml.onnx, lambda: anydml.dask.map_blocks):
    try: ask()
    except anydml.MissingDependencyError as error: print("pip install" in str(error))
assert not [name for name in absent if sys.modules.get(name) is not None]
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603 - our own
    assert (done.returncode, done.stdout) == (0, "True\nTrue\n"), done.stderr
