"""Device("webgpu", precise=False): bits for speed, apart from all that is precise."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.engines.webgpu import why_missing
from anydml.ir.expressions import FUNCTIONS

WHY = why_missing()
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
X = np.random.default_rng(0).uniform(0.1, 3, 4096).astype(np.float32)


def texts(compiled: Any) -> str:
    kernels = [kernel for program in compiled._programs for kernel in program.kernels]
    return "".join(getattr(kernel, "wide", kernel).text for kernel in kernels)


@pytest.fixture
def loose() -> dml.Device:
    return dml.Device("webgpu", precise=False)


def test_products_are_contracted_and_quotients_are_the_drivers(loose: dml.Device) -> None:
    tensor = dml.TensorDesc("float32", (4096,))
    divide = dml.ElementWiseDivide(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)
    exact, quick = (texts(device.compile(divide)) for device in (dml.Device("webgpu"), loose))
    assert "a / b" in quick
    bias = dml.ElementWiseIdentity(input_tensor=tensor, output_tensor=tensor, scale_bias=dml.ScaleBias(1.5, 2.5))
    exact, quick = (texts(device.compile(bias)) for device in (dml.Device("webgpu"), loose))
    assert quick.count("keep(") < exact.count("keep(")
    for device in (dml.Device("webgpu"), loose):  # each has its own, whoever was first
        assert texts(device.compile(bias)) == (quick if device is loose else exact)


@pytest.mark.parametrize("function", ["exp", "log", "sin", "cos", "tan", "tanh", "erf", "sqrt", "recip", "sigmoid"])
def test_functions_are_near(function: str, loose: dml.Device) -> None:
    assert function in FUNCTIONS or hasattr(dml, function)
    found, wanted = (getattr(dml, function)(X, device=device) for device in (loose, "cpu"))
    np.testing.assert_allclose(found, wanted, 2e-5, 1e-6)


def test_pow_and_products_are_near(loose: dml.Device) -> None:
    np.testing.assert_allclose(dml.pow(X, X[::-1].copy(), device=loose), X ** X[::-1], 1e-4)
    a, b = X.reshape(64, 64), X[::-1].reshape(64, 64).copy()
    np.testing.assert_allclose(dml.matmul(a, b, device=loose), a @ b, 1e-5)
    doubles = X.astype(np.float64)
    np.testing.assert_array_equal(
        dml.cumulative_summation(X, axis=0, device=loose), dml.cumulative_summation(X, axis=0, device="webgpu")
    )
    np.testing.assert_array_equal(dml.identity(doubles, device=loose), doubles)


def test_constants_of_graphs_are_computed_by_each(loose: dml.Device) -> None:
    """What is derived of a constant is kept for all graphs that read it."""
    kept = []
    for device in (dml.Device("webgpu"), loose, dml.Device("webgpu")):
        graph = dml.Graph(device)
        compiled = graph.compile(graph.input("float32", (4096,)) + dml.sin(graph.constant(X)))
        kept.append((compiled, compiled(np.zeros_like(X))))
    np.testing.assert_array_equal(kept[0][1], kept[2][1])


def test_a_device_says_so_and_others_refuse(loose: dml.Device) -> None:
    assert repr(loose).endswith(", precise=False)")
    assert not pickle.loads(pickle.dumps(loose)).engine.is_precise  # noqa: S301 - our own
    assert dml.Device("webgpu").engine.is_precise
    for name in ("cpu", "reference", None):
        with pytest.raises(dml.DescriptionError, match=r"precise must be True for .*: the webgpu engine alone"):
            dml.Device(name, precise=False)
    with pytest.raises(dml.DescriptionError, match="precise"):
        dml.Device("webgpu", precise="no")  # type: ignore[arg-type]  # a mistake
