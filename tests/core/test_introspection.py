"""What `help`, editors and notebooks ask of every public name: words, signatures, members and completions."""

from __future__ import annotations

import doctest
import enum
import importlib
import inspect
import pydoc
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

import anydml as dml
from tests.runtime.test_copies_and_pickles import MODULES, examples

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
