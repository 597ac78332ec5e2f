"""AffineGrid: where a tensor's elements stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import anydml as dml
from anydml.errors import show
from anydml.onnx.values import Value

if TYPE_CHECKING:
    from anydml.onnx.nodes import Node


def affine_grid(node: Node) -> list[Value]:
    """AffineGrid: the places of a tensor's elements, from -1 to 1 in each dimension, after an affine map."""
    theta, size = node.input(0), node.sizes(1, "size")
    count = len(size) - 2
    if count not in (2, 3) or theta.shape != (size[0], count, count + 1) or min(size) < 1:
        rule = "theta must be {N, 2, 3} for a size of 4 numbers, or {N, 3, 4} for 5, all at least 1"
        node.refuse("theta", rule, value=theta.shape, found=f"{theta.shape} and {show(size)}")
    is_at_corners = bool(node.integer("align_corners"))
    lines = []
    for length in size[2:]:
        steps = np.arange(length)
        lines.append(steps * 2 / max(length - 1, 1) - 1 if is_at_corners else (2 * steps + 1) / length - 1)
    places = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(size[2:])], -1).reshape(-1, count + 1)
    base = Value.of(theta.element, places)
    spread = node.tracer.restride(base, (size[0], *places.shape), (0, places.shape[1], 1))
    shape = (size[0], places.shape[0], count)
    found = node.tracer.apply(dml.gemm, [spread, theta], shape, trans_b=True)
    return [found.reshaped((size[0], *size[2:], count))]
