"""ONNX's interface of backends: models and single nodes on lists of arrays, devices, and what is refused."""

from __future__ import annotations

import unittest
from typing import Any

import numpy as np
import pytest

import anydml as dml
from onnx_models import node, slice_model

from anydml.onnx import Backend  # isort: skip - after the models, which leave this out where onnx is missing


def test_a_node_alone_is_run() -> None:
    x = np.arange(6, dtype="float32").reshape(2, 3)
    (y,) = Backend.run_node(node("Transpose", "x", "y"), [x])
    assert np.array_equal(y, x.T)
    (y,) = Backend.run_node(node("Slice", "x starts ends", "y"), [x, np.array([1]), np.array([2])])
    assert np.array_equal(y, x[1:2])


def test_what_is_beyond_it_is_refused_as_the_runner_knows_it() -> None:
    with pytest.raises(unittest.SkipTest, match="Unique is not supported"):
        Backend.run_node(node("Unique", "x", "y"), [np.ones(2, "float32")], strict=True)
    with pytest.raises(dml.IndexRangeError):  # which is no refusal
        Backend.run_node(node("Gather", "x i", "y"), [np.ones(2, "float32"), np.array([5])])


def test_devices() -> None:
    assert Backend.supports_device("CPU")
    assert Backend.supports_device("CPU:0")
    assert not Backend.supports_device("TPU")
    assert not Backend.supports_device("CUDA:99")
    not_one: Any = None
    assert not Backend.supports_device(not_one)
    with pytest.raises(dml.DescriptionError, match="device must be the name of one, such as CPU or CUDA:1; got None"):
        Backend.prepare(slice_model(), not_one)


X = np.arange(16, dtype="float32").reshape(4, 4)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([X, X, X], "a run takes 1 arrays, for x; got 3"),
        ([], "input 'x' must be given"),
        (None, "inputs must be a list of arrays, in the order of the inputs; got None"),
        (5, "inputs must be a list of arrays"),
        ("x", "inputs must be a list of arrays"),
        ({"z": X}, "there is no input 'z'"),
    ],
)
def test_arrays_that_a_run_refuses(inputs: Any, message: str) -> None:
    with pytest.raises(dml.BindingError, match=message):
        Backend.prepare(slice_model()).run(inputs)


def test_an_array_alone_is_the_first_input() -> None:
    prepared = Backend.prepare(slice_model())
    assert prepared.run(X)[0].tolist() == prepared.run((X,))[0].tolist() == X[[3, 2]].tolist()
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    assert prepared.run(torch.from_numpy(X.copy()))[0].tolist() == X[[3, 2]].tolist()


def test_nodes_that_cannot_be_run_alone() -> None:
    turn = node("Transpose", "x", "y")
    for several in ([X, X], []):
        with pytest.raises(dml.BindingError, match=f"the node takes 1 arrays, for x; got {len(several)}"):
            Backend.run_node(turn, several)
    with pytest.raises(dml.BindingError, match="inputs must be a list of arrays"):
        Backend.run_node(turn, None)
    (y,) = Backend.run_node(turn, [X], outputs_info=((np.float32, (4, 4)),))
    assert y.tolist() == X.T.tolist()
    for wrong in (5, [5], [("text", (4, 4))], [(np.float32, 5)]):
        with pytest.raises(dml.DescriptionError, match="outputs_info must be a type and a shape for each output"):
            Backend.run_node(turn, [X], outputs_info=wrong)
    with pytest.raises(dml.DescriptionError, match="the node could not be made a model"):
        Backend.run_node(turn, [np.array(["2020-01-01"], "datetime64[D]")])
