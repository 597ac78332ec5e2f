"""An operator that a class adds at run time is there at every door, and no list was changed."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

import anydml as dml
from anydml.api.describing import argument_name
from anydml.core.operator_type import function_name
from anydml.ir.expressions import absolute, given
from anydml.operators.elementwise import Unary
from anydml.operators.schema.fields import Float  # noqa: TC001 - read at run time
from doors import through_compiled, through_objects
from modelling import as_dispatchable, floats, model, program, run, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from anydml.ir.expressions import Expr

# An operator whose own class is taken away first: what is left is the facts, levels, types and dimension counts.
KIND = dml.OperatorType.ACTIVATION_SHRINK
NAME = function_name(KIND)
X = np.array([[1, -2, 3], [-4, 5, 0.5]], "float32")
WANTED = abs(X) * 3 + 1


@pytest.fixture
def unmade() -> Iterator[None]:
    """No class for the operator."""
    classes, function = dict(dml.OPERATORS), vars(dml).pop(NAME, None)
    del dml.OPERATORS[KIND]
    try:
        yield
    finally:
        dml.OPERATORS.clear()
        dml.OPERATORS.update(classes)
        vars(dml).pop(NAME, None)
        if function is not None:
            vars(dml)[NAME] = function


@pytest.fixture
def made_up(unmade: None) -> type[Unary]:
    """A class for the operator, with an attribute that DirectML does not have."""

    class Bent(Unary):
        """The absolute value on a line: Slope·|x| + 1."""

        type = KIND
        onnx = "Det"  # a node type of one input that DirectML has no operator for
        slope: Float = 3.0

        def value(self, x: Expr) -> Expr:
            """Slope·|x| + 1."""
            return absolute(x) * given(self.slope, dml.DataType.FLOAT32) + 1.0

    return Bent


def test_a_new_operator_is_at_every_door(made_up: type[Unary], tmp_path: Path) -> None:
    device = dml.Device("reference")
    # The function, with its signature and docstring
    function = getattr(dml, NAME)
    np.testing.assert_array_equal(function(X, 3, device=device), WANTED)
    np.testing.assert_array_equal(function(X, slope=3, device=device), WANTED)
    assert str(inspect.signature(function)) == "(x, slope=3.0, *, out=None, device=None)"
    assert function.__doc__.startswith(f"{KIND.name}: the absolute value on a line: Slope·|x| + 1.")
    assert [argument_name(name) for name in made_up.input_names()] == ["x"]
    # The compiled operator, and DirectML's objects
    desc = made_up.infer(input_tensor=dml.TensorDesc.of(X[None, None]), slope=3)
    for result in (*through_compiled(device, desc, [X[None, None]]), through_objects(device, desc, [X[None, None]])):
        np.testing.assert_array_equal(result[0, 0], WANTED)
    # A graph
    g = dml.Graph(device)
    x = g.input(X)
    np.testing.assert_array_equal(g.compile(function(x, 3) - x)(X), WANTED - X)
    # DxDispatch's JSON
    data = model(
        resources={"in": floats(*X.ravel().tolist()), "out": floats(*[0] * 6)},
        dispatchables={"bend": as_dispatchable(desc)},
        commands=[
            {"type": "dispatch", "dispatchable": "bend", "bindings": {"InputTensor": "in", "OutputTensor": "out"}},
            {"type": "print", "resource": "out"},
        ],
    )
    path = write(tmp_path, data)
    assert program("check", path).exit_code == 0
    assert "4, 7, 10, 13, 16, 2.5" in run(path).stdout
    # Its picture, its errors and the support matrix
    picture = program("explain", NAME, "--data", "1,-2,3", "--slope", "3").stdout
    assert "output[1] = abs(input[1]) * 3 + 1 = abs(-2) * 3 + 1 = 7" in picture
    with pytest.raises(dml.DmlError, match=f"{KIND.name}: Slope must be a number"):
        function(X, "steep", device=device)
    assert KIND.name in program("support", NAME).stdout
    rows = json.loads(program("support", NAME, "--json").stdout)
    assert {row["operator"] for row in rows} == {KIND.dml_name}
    assert dml.support(KIND) is not None
    # An ONNX model
    pytest.importorskip("onnx", reason="the last door needs onnx")
    from anydml.onnx import load
    from onnx_models import model as onnx_model
    from onnx_models import node

    proto = onnx_model(node("Det", "x", "y"), {"x": ("float32", X.shape)})
    np.testing.assert_array_equal(load(proto, device=device)(X), WANTED)


@pytest.mark.usefixtures("unmade")
def test_without_its_class_it_is_at_no_door() -> None:
    pytest.importorskip("onnx", reason="the door is ONNX's")
    from anydml.onnx import load
    from onnx_models import model as onnx_model
    from onnx_models import node

    assert not hasattr(dml, NAME)
    with pytest.raises(
        dml.UnsupportedError, match="Det is not supported; without strict it runs on the host; `anydml support"
    ):
        load(onnx_model(node("Det", "x", "y"), {"x": ("float32", X.shape)}), strict=True)
