"""Arithmetic that people write, told once: as a graph of ours, and in NumPy and PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml

if TYPE_CHECKING:
    from anydml.runtime.graph import CompiledGraph


@dataclass(frozen=True, kw_only=True)
class Formula:
    """A function of arrays of one shape and type, which a graph makes one pass of."""

    name: str
    count: int
    """Of its arrays."""
    ours: Callable[..., Any]
    """Of expressions of a graph."""
    numpy: Callable[..., Any] | None
    """Of arrays and `out`; None where NumPy has not the function."""
    torch: Callable[[Any], Callable[..., Any]]
    """Given the torch module, a function of tensors and `out`."""
    onnx: str = ""
    """The node that it is, where it is one."""
    goal: float = 1.0
    """How far ahead of the best peer it should be."""
    share: float = 0.0
    """The share of copy speed it should reach."""
    shape: tuple[int, ...] = ()
    dtype: str = "float32"

    def compile(self, device: dml.Device) -> CompiledGraph:
        """The formula as a graph."""
        graph = dml.Graph(device)
        inputs = [graph.input(dml.TensorDesc(self.dtype, self.shape)) for _ in range(self.count)]
        return graph.compile([self.ours(*inputs)])

    @property
    def desc(self) -> dml.OperatorDesc:
        """An operator with an output like this one's."""
        return dml.ElementWiseIdentity.infer(input_tensor=dml.TensorDesc(self.dtype, self.shape))

    @property
    def bytes(self) -> int:
        """Each array read once, the result written once."""
        return (self.count + 1) * int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize


def _relu_by_numpy(a: Any, b: Any, c: Any, out: Any = None) -> Any:
    np.multiply(a, b, out=out)
    np.add(out, c, out=out)
    return np.maximum(out, 0, out=out)


def _relu_by_torch(torch: Any) -> Callable[..., Any]:
    def run(a: Any, b: Any, c: Any, out: Any = None) -> Any:
        torch.addcmul(c, a, b, out=out)
        return torch.clamp_min(out, 0, out=out)

    return run


def _sigmoid_by_numpy(x: Any, out: Any = None) -> Any:
    np.negative(x, out=out)
    np.exp(out, out=out)
    np.add(out, 1, out=out)
    return np.divide(1, out, out=out)


def _gelu_by_torch(torch: Any) -> Callable[..., Any]:
    return lambda x, out=None: torch.nn.functional.gelu(x)  # noqa: ARG005 - it has no out=


def _named(name: str) -> Callable[[Any], Callable[..., Any]]:
    return lambda torch: getattr(torch, name)


def formulas(shape: tuple[int, ...]) -> list[Formula]:
    """The formulas on arrays of a shape."""

    def one(name: str, ours: str, **options: Any) -> Formula:
        given: dict[str, Any] = {
            "count": 1,
            "numpy": getattr(np, ours, None),
            "torch": _named(ours),
            "onnx": ours.capitalize(),
        }
        return Formula(name=f"map, {name}", ours=getattr(dml, ours), shape=shape, **given | options)

    return [
        one("a + b", "add", count=2, share=0.95),
        Formula(
            name="map, relu(a * b + c)", count=3, ours=lambda a, b, c: dml.relu(a * b + c), shape=shape,
            numpy=_relu_by_numpy, torch=_relu_by_torch, goal=1.5, share=0.95,
        ),
        Formula(
            name="map, sqrt(a * a + b * b)", count=2, ours=lambda a, b: dml.sqrt(a * a + b * b), shape=shape,
            numpy=lambda a, b, out=None: np.sqrt(np.add(np.multiply(a, a, out=out), b * b, out=out), out=out),
            torch=lambda torch: lambda a, b, out=None: torch.sqrt(torch.addcmul(a * a, b, b, out=out), out=out),
            goal=1.5, share=0.95,
        ),
        one("exp", "exp"),
        one("tanh", "tanh"),
        one("erf", "erf", numpy=None),
        one("gelu", "gelu", numpy=None, torch=_gelu_by_torch, onnx=""),
        one("sigmoid", "sigmoid", numpy=_sigmoid_by_numpy),
        one("sqrt", "sqrt", share=0.95),
        one("log", "log"),
        one("a to the power of b", "pow", count=2, numpy=np.power),
    ]  # fmt: skip
