"""Rows of element-wise operators: one alone, and a chain of them that is one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch

import anydml as dml
from benchmarks.cuda.kinds import Call, CudaRow, describe
from benchmarks.cuda.pool import Pool, Tensor
from benchmarks.row import size

TORCH = SimpleNamespace(exp=torch.exp, tanh=torch.tanh, relu=torch.relu, gelu=torch.nn.functional.gelu)
PASSES = {"relu(a*b+c)": 8 / 4}
"""The tensors that eager PyTorch reads and writes for each that one pass does, where that is more."""
MAPS: dict[str, tuple[int, Callable[..., Any]]] = {
    "a+b": (2, lambda _, a, b: a + b),
    "relu(a*b+c)": (3, lambda library, a, b, c: library.relu(a * b + c)),
    "exp": (1, lambda library, a: library.exp(a)),
    "tanh": (1, lambda library, a: library.tanh(a)),
    "gelu": (1, lambda library, a: library.gelu(a)),
}
"""By name the number of inputs, and the expression, of a library with functions and of its tensors."""


@dataclass(kw_only=True)
class MapRow(CudaRow):
    """A row whose operators are built from an expression, as a graph."""

    build: Callable[..., Any]
    """Ours, of a graph's inputs."""
    inputs: int
    units: float
    """How far ours may be from the exact result, in units in the last place."""

    @property
    def bytes(self) -> int:
        return (self.inputs + 1) * size(self.output)

    def compile(self, device: dml.Device) -> dml.CompiledGraph:
        """The graph."""
        graph = dml.Graph(device)
        return graph.compile([self.build(*(graph.input(self.output) for _ in range(self.inputs)))])


def map_row(name: str, pool: Pool, shape: Sequence[int], what: str, dtype: str = "float32", **options: Any) -> MapRow:
    """One of `MAPS`. A sum is exact; products and functions are rounded as PyTorch does or does not."""
    inputs, expression = MAPS[what]
    theirs = partial(expression, TORCH)
    tensor = describe(dtype, shape)

    def sets(count: int) -> list[list[Tensor]]:
        tensors = pool.values(dtype, shape, count * inputs)
        return [tensors[first : first + inputs] for first in range(0, count * inputs, inputs)]

    def by_torch(*arguments: Tensor) -> Call:
        *given, out = arguments
        return partial(torch.add, *given, out=out) if what == "a+b" else partial(theirs, *given)

    return MapRow(
        name=name, family="map", desc=dml.ActivationIdentity.infer(input_tensor=tensor), exact=what == "a+b",
        sets=sets, expression=theirs, torch=by_torch, build=partial(expression, dml), inputs=inputs,
        # A product and a sum are rounded each for itself; functions are within 2 units, and of FLOAT16 the nearest.
        units=1.0 if what in PASSES else 2.0 if dtype == "float32" else 0.501,
        compiled=True, share=0.93, goal=0.93 * PASSES.get(what, 1.0), vs_compile=0.95, **options,
    )  # fmt: skip
