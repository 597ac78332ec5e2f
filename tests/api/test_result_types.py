"""The type stub is right: what a function of an operator gives has the types that are declared."""

from __future__ import annotations

import ast
import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anydml as dml

STUB = Path(dml.__file__).with_suffix(".pyi")
EXAMPLES: dict[str, list[str]] = json.loads((STUB.parent / "api" / "examples.json").read_text())
"""By function, a call and its result."""
TYPES = ("float16", "float64", "int8", "uint8", "int32", "uint64")
"""Types that the arrays of an example are given in besides, where the operator takes them."""
TREE = ast.parse(STUB.read_text()).body
CLASSES = {node.name: node for node in TREE if isinstance(node, ast.ClassDef)}
OVERLOADS: dict[str, list[ast.FunctionDef]] = {}
for one in TREE:
    if isinstance(one, ast.FunctionDef):
        OVERLOADS.setdefault(one.name, []).append(one)


def declared_types(node: ast.expr | None, count: int) -> list[str]:
    """The types of so many results: of a list all are of one, and of a named tuple each is of its own."""
    assert node is not None
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id != "NDArray":
        if node.value.id == "list":
            return [ast.unparse(node.slice)] * count
        known = map(ast.unparse, node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice])
        names = dict(zip(("_R", "_Q"), known, strict=False))
        fields = [field for field in CLASSES[node.value.id].body if isinstance(field, ast.AnnAssign)]
        return [names.get(text := ast.unparse(field.annotation), text) for field in fields]
    return [ast.unparse(node)]


def called(name: str, kind: str | None) -> tuple[dict[str, Any], Any]:
    """The arguments and the result of a function's example; its arrays of numbers in a type, if one is given."""
    function, found = getattr(dml, name), []
    declared = [one.arg for one in OVERLOADS[name][0].args.args if "NDArray[_S]" in ast.unparse(one.annotation or one)]

    def record(*args: Any, **named: Any) -> Any:
        bound = inspect.signature(function).bind(*args, **named)
        for key, value in bound.arguments.items():
            if kind and key in declared and isinstance(value, np.ndarray):
                bound.arguments[key] = value.astype(kind)
        found.append((dict(bound.arguments), function(*bound.args, **bound.kwargs)))
        return found[0][1]

    call = next(
        node
        for node in ast.walk(ast.parse(EXAMPLES[name][0], mode="eval"))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    )
    eval(ast.unparse(call), {**{key: getattr(dml, key) for key in dml.__all__}, "np": np, "dml": dml, name: record})  # noqa: S307 - of a file in view
    return found[0]


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name in OVERLOADS])
def test_a_function_gives_the_types_that_the_stub_declares(name: str) -> None:
    tried = 0
    for kind in (None, *TYPES):
        try:
            with np.errstate(all="ignore"):
                arguments, result = called(name, kind)
        except dml.DmlError:
            assert kind, "the example itself runs"
            continue
        tried += 1
        results = list(result) if isinstance(result, (list, tuple)) else [result]
        shared = {
            value.dtype
            for one in OVERLOADS[name][0].args.args
            if "NDArray[_S]" in ast.unparse(one.annotation or one)
            and isinstance(value := arguments.get(one.arg), np.ndarray)
        }
        forms = [declared_types(overload.returns, len(results)) for overload in OVERLOADS[name]]
        types = next(form for form in forms if len(form) == len(results))  # with those that are asked for
        for text, one in zip(types, results, strict=True):
            if text == "NDArray[_S]":
                assert not shared or {one.dtype} == shared, (kind, one.dtype)
            elif text.startswith("NDArray[np."):
                assert one.dtype == text.removeprefix("NDArray[np.").removesuffix("]"), (kind, one.dtype)
            else:
                assert text in ("NDArray[Any]", "Any", "None"), text
    assert tried
