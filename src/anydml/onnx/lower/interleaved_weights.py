"""Weights of QMoE and MatMulNBits that lie as CUDA's tensor cores read them: GenAI's builder writes them so for cuda.

For compute capability 8.0 tiles of 64 numbers of 2 (8 bits) or 4 columns alternate, for 9.0 they do not. In each 16
bytes the rows stand as the instruction mma takes them, and in each 4 bytes the numbers so that two become FLOAT16 at
once: even ones before odd ones.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from anydml.onnx.lower.values import Known, Value

if TYPE_CHECKING:
    from typing import Any

    from anydml.onnx.ir import Graph, Node, Tensor

    Array = np.ndarray[Any, Any]

_TILE = 64
"""Numbers of a column that lie together."""
_PLACES = {"fc1": (2, 3), "fc2": (5, 6), "fc3": (8, 9)}
"""The inputs that are weights, and their scales."""


class Interleaved(NamedTuple):
    """Weights by their true sizes, of several experts or of one product."""

    shape: tuple[int, ...]
    """In bytes, column by column."""
    length: int
    bits: int
    apart: int
    """The columns whose tiles alternate."""

    def plain(self, packed: Value) -> Value:
        """The same column by column."""
        known = packed.known
        assert known is not None  # noqa: S101 - for type checkers: an initializer is known
        made = Known(make=lambda: self._sorted(known.flat()), is_readable=known.is_readable)
        return Value(packed.element, self.shape, made, source=packed.source)

    def _sorted(self, packed: Array) -> Array:
        bits, each = self.bits, 16 // self.bits
        words = packed.reshape(-1, 4)
        if bits == 8:
            found = words[:, [0, 2, 1, 3]]
        else:
            low, high, found = words & 15, words >> 4, np.empty_like(words)
            for place, half, first in ((0, low, 0), (1, high, 0), (2, low, 1), (3, high, 1)):
                found[:, place] = half[:, first] | half[:, first + 2] << 4
        tiles = found.reshape(-1, self.length // _TILE, self.apart, _TILE * bits // 8).swapaxes(1, 2)
        groups = np.ascontiguousarray(tiles).reshape(-1, 4, each, bits // 4)  # threads take rows that are apart by 8
        return np.ascontiguousarray(groups.swapaxes(1, 2)).reshape(-1)


def can_be_interleaved(columns: int, length: int, bits: int) -> bool:
    """Whether weights of such sizes may lie so."""
    return bits in (4, 8) and not length % _TILE and not columns % (64 // bits)


def interleaved(graph: Graph) -> dict[str, Interleaved]:
    """The initializers that lie so.

    Those of MatMulNBits with weight_prepacked, and of QMoE where weights_prepacked is 1, or shapes have rows before
    columns and it is left open.
    """
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    found: dict[str, Interleaved] = {}
    for node in graph.node:
        if node.op_type == "QMoE" and (mode := node.value("weights_prepacked", -1)) in (-1, 1):
            several = _weights(node, tensors)
            if mode == 1 or any(_is_turned(tensors[name].dims, one) for name, one in several.items()):
                found |= several
        elif node.op_type == "MatMulNBits" and (mode := node.value("weight_prepacked", 0)) in (1, 2):
            held = tensors.get(node.input[1])
            columns, length, bits = (node.value(name, 0) for name in ("N", "K", "bits"))
            is_whole = held is not None and math.prod(held.dims) * 8 == columns * length * bits
            if held is not None and is_whole and can_be_interleaved(columns, length, bits):
                found[held.name] = Interleaved(held.dims, length, bits, 16 // bits if mode == 1 else 1)
    return found


def _weights(node: Node, tensors: dict[str, Tensor]) -> dict[str, Interleaved]:
    found = {}
    for name, (weights, scales) in _PLACES.items():
        held = tensors.get(node.input[weights]) if len(node.input) > weights else None
        scale = tensors.get(node.input[scales]) if len(node.input) > scales else None
        bits = node.value(f"{name}_expert_weight_bits", 0) or node.value("expert_weight_bits", 4)
        if held is None or scale is None or len(held.dims) != 3 or len(scale.dims) < 2 or bits not in (4, 8):
            continue
        count, columns = scale.dims[:2]
        numbers = math.prod(held.dims) * 8 // bits
        if not count * columns or held.dims[0] != count or numbers % (count * columns):
            continue
        length = numbers // (count * columns)
        if can_be_interleaved(columns, length, bits):
            found[held.name] = Interleaved((count, columns, length * bits // 8), length, bits, 16 // bits)
    return found


def _is_turned(shape: tuple[int, ...], sizes: Interleaved) -> bool:
    """Whether a shape has rows before columns, and could not be another's."""
    each = 8 // sizes.bits
    turned, plain = (sizes.length, sizes.shape[1] // each), sizes.shape[1:]
    return shape[1:] == turned != plain
