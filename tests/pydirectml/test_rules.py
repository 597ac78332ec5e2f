"""PyDirectML's module on wrong arguments: each is refused in words."""

from __future__ import annotations

import contextlib
import inspect
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml
import anydml.pydirectml as dml
from anydml.operators import OPERATORS
from anydml.pydirectml import functions
from tests.pydirectml.test_pydirectml import F32, Net

if TYPE_CHECKING:
    from collections.abc import Callable


def refusals() -> dict[str, tuple[Callable[[], Any], type[Exception], str]]:
    net = Net()
    x, y = net(1, 1, 2, 3), net(1, 1, 3, 2)
    binding = dml.Binding(x, np.zeros(6))
    other = Net()(1, 1, 2, 3)
    model = net.builder.build(dml.NONE, [x + x])
    device = net.device
    unused: Any = None
    add: Any = dml.add
    return {
        "an array": (lambda: add(x, np.zeros(3)), TypeError, "b must be an Expression; got a ndarray"),
        "nothing": (lambda: add(x), TypeError, "missing 1 required positional argument"),
        "an empty one": (lambda: add(x, dml.Expression()), TypeError, "b must not be an empty Expression"),
        "another graph's": (lambda: add(x, other), TypeError, "must be of one GraphBuilder"),
        "sizes": (lambda: add(x, y), ValueError, r"BTensor.Sizes must be \(1, 1, 2, 3\)"),
        "a number": (lambda: dml.activation_linear(x, "1", 2), TypeError, "Alpha"),  # type: ignore[arg-type]  # wrong on purpose
        "no list": (lambda: dml.join(x, 1), TypeError, "input must be a list of Expression"),  # type: ignore[arg-type]  # wrong on purpose
        "an empty list": (lambda: dml.join([], 1), TypeError, "not an empty one"),
        "a name": (lambda: dml.gemm(x, y, trans_a="no"), TypeError, "TransA must be one of"),  # type: ignore[arg-type]  # wrong on purpose
        "left out": (lambda: dml.mean_variance_normalization(x, epsilon=1), TypeError, "variance must be given"),
        "a description": (lambda: dml.TensorDesc(1, [2]), TypeError, r"one of these.*got \(int, list\)"),  # type: ignore[call-overload]  # wrong on purpose
        "a size": (lambda: dml.TensorDesc(F32, [0]), TypeError, r"Sizes\[0\] must be at least 1"),
        "an unknown type": (lambda: dml.TensorDesc(dml.UNKNOWN, [1]), TypeError, "DataType must be one of"),
        "constructors": (dml.Model, TypeError, "GraphBuilder.build makes one"),
        "dimensions": (dml.Dimensions, TypeError, "lists of numbers"),
        "policies": (dml.TensorPolicy, TypeError, "TensorPolicy.default"),
        "an activation": (lambda: dml.FusedActivation(1), TypeError, "an OperatorType"),  # type: ignore[arg-type]  # wrong on purpose
        "no activation": (lambda: dml.FusedActivation(dml.OperatorType.GEMM), ValueError, "Type must be one of"),
        "flags": (lambda: net.builder.build("x", [x]), TypeError, "flags must be an ExecutionFlags"),  # type: ignore[arg-type]  # wrong on purpose
        "no outputs": (lambda: net.builder.build(dml.NONE, []), ValueError, "at least one"),
        "an index twice": (lambda: dml.input_tensor(net.builder, 0, dml.TensorDesc(F32, [1])), TypeError, "no other"),
        "no index": (lambda: dml.input_tensor(net.builder, -1, dml.TensorDesc(F32, [1])), TypeError, "at least 0"),
        "too few": (lambda: device.compute(model, [binding], [x + x]), ValueError, "inputs must be a list of 2"),
        "another order": (lambda: device.compute(model, net.bindings[::-1], [x + x]), ValueError, "order of input"),
        "another output": (lambda: device.compute(model, net.bindings, [y]), ValueError, r"outputs\[0\] must be of"),
        "no model": (lambda: device.compute(unused, [], []), TypeError, "model must be a Model"),
        "elements": (lambda: dml.Binding(x, np.zeros(5)), ValueError, "must have 6 elements.*got 5"),
        "text": (lambda: dml.Binding(x, "abc"), TypeError, "data must be an array of numbers"),
        "ragged": (lambda: dml.Binding(x, [[1], [2, 3]]), TypeError, "data must be an array of numbers"),
        "a width": (lambda: dml.Size2D(-1, 2), TypeError, "width must be at least 0"),
    }  # fmt: skip


@pytest.mark.parametrize("name", refusals())
def test_what_is_refused_says_why(name: str) -> None:
    call, kind, message = refusals()[name]
    with pytest.raises(kind, match=message) as caught:
        call()
    assert isinstance(caught.value, anydml.DmlError) or name == "nothing"


class Evil:
    """Raises whatever it is asked."""

    def _raise(self, *_: object, **__: object) -> Any:
        raise RuntimeError

    __len__ = __getitem__ = __index__ = __float__ = __bool__ = __repr__ = __array__ = _raise


ODD: list[Any] = [
    None, 3, -1, 2**40, 10**400, 1.5, float("nan"), True, "x", b"x", [], {}, [None], ["a"], [-1, 1], [[1]], object(),
    np.zeros(2), np.zeros((2, 2, 2)), dml.Expression(), dml.FLOAT32, dml.Size2D(0, 0), Evil(),
]  # fmt: skip


@pytest.mark.parametrize(
    "name", [*functions.__all__, "TensorDesc", "Binding", "TensorData", "Size2D", "FusedActivation"]
)
def test_whatever_is_given_is_taken_or_refused_in_words(name: str) -> None:
    net = Net()
    x = net(1, 1, 2, 3)
    function: Any = getattr(dml, name)
    parameters = ["data_type", "sizes", "strides"] if name == "TensorDesc" else inspect.signature(function).parameters
    usual = {"scope": net.builder, "input_index": 7, "tensor_desc": dml.TensorDesc(F32, [1]), "data_type": F32}
    tensors = ("input", "filter", "a", "b", "c", "mean", "variance", "scale", "bias", "indices", "weight", "recurrence")
    given = {one: x if one in tensors else usual.get(one, [1, 1]) for one in parameters}
    for one in parameters:
        for odd in ODD:
            with contextlib.suppress(anydml.DmlError):
                function(**{**given, one: odd})


def test_gaps_between_indices_are_refused_when_the_graph_is_built() -> None:
    builder = dml.GraphBuilder(dml.Device(False))
    x = dml.input_tensor(builder, 1, dml.TensorDesc(F32, [4]))
    with pytest.raises(dml.ArgumentError, match=r"input_index of 1 inputs must be 0 \.\. 0; got 1"):
        builder.build(dml.NONE, [x + 1])


def test_an_operator_that_is_not_built_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(OPERATORS, anydml.OperatorType.GRU, raising=False)
    x = Net()(1, 1, 2, 3)
    direction = dml.RecurrentNetworkDirection.FORWARD
    with pytest.raises(anydml.UnsupportedError, match="GRU: the operator is not built yet"):
        dml.gru(x, x, x, activation_descs=[], direction=direction, output_options=dml.OutputOptions.Both)
