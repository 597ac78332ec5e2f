"""Rows of a matrix reduced and normalised: sums, means and maxima along either axis, softmax, layer and RMS norm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import anydml as dml
from benchmarks.cpu.rows import CpuRow

FUNCTIONS: dict[str, tuple[str, Any, str, str, float]] = {
    # name: the function's, NumPy's, PyTorch's and ONNX's, and the goal
    "sum": ("SUM", np.sum, "sum", "ReduceSum", 1.05),
    "mean": ("AVERAGE", np.mean, "mean", "ReduceMean", 1.05),
    "maximum": ("MAX", np.max, "amax", "ReduceMax", 1.0),
}


@dataclass(kw_only=True)
class ReduceRow(CpuRow):
    """A row that reads more than it writes, or less."""

    rtol: float = 1e-3
    atol: float = 1e-3

    @property
    def bytes(self) -> int:
        """The inputs read once, the result written once."""
        return sum(array.nbytes for array in self.inputs) + int(np.prod(self.output.sizes)) * 4


def reduces(shape: tuple[int, int], rng: np.random.Generator) -> list[Callable[[], CpuRow]]:
    """Every row for a matrix of a shape."""
    made: list[Callable[[], CpuRow]] = [
        partial(_reduction, name, axis, shape, rng) for name in FUNCTIONS for axis in (1, 0)
    ]
    return made + [partial(make, shape, rng) for make in (_softmax, _layer_norm, _rms_norm)]


def _matrix(shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal(shape, np.float32)


def _title(name: str, shape: tuple[int, int]) -> str:
    return f"reduce, {name} of {shape[0]} x {shape[1]}"


def _reduction(name: str, axis: int, shape: tuple[int, int], rng: np.random.Generator) -> CpuRow:
    function, by_numpy, torch_name, onnx, goal = FUNCTIONS[name]
    x = _matrix(shape, rng)
    constants, more = ([[axis]], {}) if onnx == "ReduceSum" else ([], {"axes": [axis]})

    def by_torch(torch: Any) -> Any:
        t, compute = torch.from_numpy(x), getattr(torch, torch_name)
        return lambda out: compute(t, axis, keepdim=True, out=out)

    return ReduceRow(
        name=_title(f"{name} along {'rows' if axis else 'columns'}", shape), family="reduce", inputs=[x], goal=goal,
        desc=dml.Reduce.infer(function=function, input_tensor=dml.TensorDesc.of(x), axes=[axis]),
        numpy=lambda out: by_numpy(x, axis, keepdims=True, out=out), torch=by_torch, exact=name == "maximum",
        onnx={"op": onnx, "constants": constants, "attributes": {"keepdims": 1, **more}},
    )  # fmt: skip


def _softmax(shape: tuple[int, int], rng: np.random.Generator) -> CpuRow:
    x = _matrix(shape, rng)

    def by_torch(torch: Any) -> Any:
        t = torch.from_numpy(x)
        return lambda out: torch.softmax(t, 1, out=out)

    return ReduceRow(
        name=_title("softmax", shape), family="reduce", inputs=[x], numpy=None, torch=by_torch, goal=1.15, exact=False,
        desc=dml.ActivationSoftmax1.infer(input_tensor=dml.TensorDesc.of(x), axes=[1]),
        onnx={"op": "Softmax", "constants": [], "attributes": {"axis": 1}},
    )  # fmt: skip


def _layer_norm(shape: tuple[int, int], rng: np.random.Generator) -> CpuRow:
    x, scale, bias = _matrix(shape, rng), _matrix((1, shape[1]), rng), _matrix((1, shape[1]), rng)

    def by_torch(torch: Any) -> Any:
        t, *others = (torch.from_numpy(array) for array in (x, scale[0], bias[0]))
        return lambda _out: torch.nn.functional.layer_norm(t, shape[1:], *others)  # it has no out=

    return ReduceRow(
        name=_title("layer norm", shape), family="reduce", inputs=[x, scale, bias], numpy=None, torch=by_torch,
        desc=_normalisation(x, scale_tensor=dml.TensorDesc.of(scale), bias_tensor=dml.TensorDesc.of(bias)),
        onnx={"op": "LayerNormalization", "constants": [], "attributes": {"axis": 1}, "opset": 17},
        goal=1.5, exact=False,
    )  # fmt: skip


def _rms_norm(shape: tuple[int, int], rng: np.random.Generator) -> CpuRow:
    x, scale = _matrix(shape, rng), _matrix((1, shape[1]), rng)

    def by_torch(torch: Any) -> Any:
        t, factor = torch.from_numpy(x), torch.from_numpy(scale[0])
        return lambda _out: torch.nn.functional.rms_norm(t, shape[1:], factor, 1e-5)  # it has no out=

    return ReduceRow(
        name=_title("RMS norm", shape), family="reduce", inputs=[x, scale], numpy=None, torch=by_torch,
        desc=_normalisation(x, scale_tensor=dml.TensorDesc.of(scale), use_mean=False),
        onnx={"op": "SimplifiedLayerNormalization", "constants": [], "attributes": {"axis": 1}, "opset": 17},
        goal=1.5, exact=False,
    )  # fmt: skip


def _normalisation(x: np.ndarray, **fields: Any) -> dml.OperatorDesc:
    return dml.MeanVarianceNormalization2.infer(input_tensor=dml.TensorDesc.of(x), axes=[1], **fields)
