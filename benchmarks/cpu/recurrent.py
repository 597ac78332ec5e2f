"""The rows of recurrent layers, with weights that are constants, against PyTorch's and ONNX Runtime's."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import anydml as dml
from benchmarks.cpu.rows import CpuRow
from benchmarks.formula import Formula

STEPS, SIZE = 100, 256
KINDS = {
    "LSTM": (0, 2, 3, 1),
    "GRU": (1, 0, 2),
}
"""The gates in PyTorch's order."""


def recurrent_row(name: str, kind: str, batch: int, rng: np.random.Generator, steps: int, size: int) -> CpuRow:
    """A layer from one size to the same, over some steps of some sequences: its limit is arithmetic."""
    order = KINDS[kind]
    rows = len(order) * size

    def draw(*shape: int) -> np.ndarray:
        return (rng.random(shape, np.float32) - np.float32(0.5)) / 8

    x, weight, recurrence, bias = draw(steps, batch, size), draw(1, rows, size), draw(1, rows, size), draw(1, 2 * rows)
    more: dict[str, Any] = {"linear_before_reset": True} if kind == "GRU" else {}

    def compute(given: Any) -> Any:
        w, r, b = (
            given.graph.constant(one.reshape((1,) * (4 - one.ndim) + one.shape)) for one in (weight, recurrence, bias)
        )
        seen = given.reinterpret((1, *x.shape))
        found = getattr(dml, kind.lower())(seen, w, r, b, **more).sequence
        return dml.identity(found.reinterpret(x.shape))

    def by_torch(torch: Any) -> Any:
        layer = getattr(torch.nn, kind)(size, size)
        given = (weight[0], recurrence[0], bias[0, :rows], bias[0, rows:])
        with torch.no_grad():
            for own, one in zip(layer.parameters(), given, strict=True):
                gates = one.reshape(len(order), size, -1)[list(order)]
                own.copy_(torch.from_numpy(gates.reshape(tuple(own.shape))))
        tensor = torch.from_numpy(x)

        def run(out: Any) -> Any:  # noqa: ARG001 - it has no out=
            with torch.inference_mode():
                return layer(tensor)[0]

        return run

    formula = Formula(name=name, count=1, ours=compute, numpy=None, torch=lambda _: compute, shape=x.shape)
    attributes = {"hidden_size": size, **({"linear_before_reset": 1} if more else {})}
    onnx = {"op": kind, "constants": [weight, recurrence, bias], "attributes": attributes}
    return CpuRow(
        name=name, family="recurrent", inputs=[x], desc=formula.desc, formula=formula, numpy=None, torch=by_torch, onnx=onnx,
        exact=False, rtol=1e-4, atol=1e-5, flops=4 * steps * batch * rows * size, goal=1.0,
    )  # fmt: skip


def recurrent(rng: np.random.Generator, steps: int = STEPS, size: int = SIZE) -> list[partial[CpuRow]]:
    """Every row."""
    return [
        partial(recurrent_row, f"{kind}, {batch} x {steps} x {size}", kind, batch, rng, steps, size)
        for kind in KINDS
        for batch in (1, 8)
    ]
