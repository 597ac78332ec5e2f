"""Kernels for nodes on the host: as ONNX Runtime answers, and what is left to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_models import model, node  # isort: skip - it asks for onnx
from onnx_answers import run_there  # isort: skip - likewise

import anydml as dml
import anydml.onnx
from anydml.onnx.partition import host_evaluator

RNG = np.random.default_rng(5)


def check(nodes: Any, inputs: dict[str, Any], outputs: str = "y", **dtypes: str) -> None:
    infos = {name: (array.dtype, [None] * array.ndim) for name, array in inputs.items()}
    proto = model(nodes, infos, outputs, dtypes=dtypes, opset=18)
    theirs = run_there(proto, inputs)
    loaded = dml.onnx.load(proto)
    for _ in range(2):
        found = loaded.run(inputs)
        for name, other in zip(outputs.split(), theirs, strict=True):
            assert (found[name].dtype, found[name].shape) == (other.dtype, other.shape)
            if nodes[0].op_type == "Det":
                np.testing.assert_allclose(found[name], other, 1e-4, 1e-5)
            else:
                assert found[name].tolist() == other.tolist()


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a call of ONNX Runtime's."""
    monkeypatch.setattr(host_evaluator, "_run_session", lambda *_: pytest.fail("ONNX Runtime was asked"))


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(7,), (3000,), (5, 6), (40, 50), (3, 4, 5), (20, 10, 9), (4, 0), (2, 1, 1, 3)])
def test_non_zero(shape: tuple[int, ...], dtype: str) -> None:
    x = RNG.integers(0, 3, shape).astype(dtype)
    if dtype == "float32" and x.size:
        x.flat[0], x.flat[-1] = np.nan, -0.0
    check([node("NonZero", "x", "y")], {"x": x}, y="int64")


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("outputs", ["y", "y i v c", "y - v", "y - - c", "y i"])
@pytest.mark.parametrize("is_sorted", [0, 1])
@pytest.mark.parametrize("x", [
    RNG.integers(-5, 5, 40), RNG.integers(0, 90, (30, 7)).astype("f") / 4, np.array([], "f"), np.array([3], "int8"),
    np.array([0.0, -0.0, np.inf, -0.0, -np.inf]), RNG.integers(0, 2000, 3000),
], ids=lambda x: f"{x.dtype}{x.shape}")  # fmt: skip
def test_unique(x: Any, is_sorted: int, outputs: str) -> None:
    named = [name for name in outputs.split() if name != "-"]
    dtypes = {name: str(x.dtype) if name == "y" else "int64" for name in named}
    check([node("Unique", "x", outputs, sorted=is_sorted)], {"x": x}, " ".join(named), **dtypes)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_compress(dtype: str, count: int, axis: int | None) -> None:
    x, condition = RNG.integers(0, 9, (3, 4)).astype(dtype), RNG.random(count) < 0.6
    attributes = {} if axis is None else {"axis": axis}
    check([node("Compress", "x c", "y", **attributes)], {"x": x, "c": condition}, y=dtype)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 5, 5), (2, 3, 4, 4), (0, 2, 2)])
def test_det(shape: tuple[int, ...]) -> None:
    check([node("Det", "x", "y")], {"x": RNG.standard_normal(shape).astype("f")})


def test_what_is_no_kernels_goes_to_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    run = host_evaluator._run_session

    def counted(*given: Any) -> Any:
        asked.append(given)
        return run(*given)

    monkeypatch.setattr(host_evaluator, "_run_session", counted)
    check([node("Unique", "x", "y", axis=1)], {"x": np.array([[1, 1, 2], [3, 3, 4]], "f")})
    check([node("Unique", "x", "y")], {"x": np.array(["b", "a", "b"], object)}, y="object")
    check([node("Det", "x", "y")], {"x": np.eye(40, dtype="f")[None]})
    assert len(asked) == 6


@pytest.mark.parametrize(
    ("made", "inputs", "told"),
    [
        (node("Unique", "x", "y", sorted=2), {"x": np.ones(3, "f")}, "sorted"),
        (node("Unique", "x", "y", axis=3), {"x": np.ones(3, "f")}, "axis"),
        (node("Compress", "x c", "y", axis=2), {"x": np.ones((2, 2), "f"), "c": np.ones(2, bool)}, "axis"),
        (node("Det", "x", "y"), {"x": np.ones((2, 3), "f")}, "Square"),
    ],
)
def test_what_is_wrong_has_a_reason(made: Any, inputs: dict[str, Any], told: str) -> None:
    infos = {name: (array.dtype, [None] * array.ndim) for name, array in inputs.items()}
    with pytest.raises(dml.DmlError, match=told):
        dml.onnx.load(model([made], infos, "y", opset=18)).run(inputs)
