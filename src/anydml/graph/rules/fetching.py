"""When fetches are fused: what a kernel for gathers alone would do in less time stays as it is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anydml.enums import DataType
from anydml.ir.expressions import const, coordinate
from anydml.ir.fetches import nearest_to
from anydml.ir.patterns import varies_along
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Map

ROW = 1024
"""Bytes of a row from which on a gather and a sum take no longer as one: for 4,096 rows of 3 KiB 0.87 of the time, for
128 of them 0.73, for 16,384 of 1 KiB 0.98, and of 512 bytes 1.22 (one thread of an Arm Neoverse-N1)."""
NEAR = 1024 * 1024
"""Bytes of a source up to which its elements are fetched one by one from the cache: 4 Mi out of 64 KiB and a sum take,
fused, half of the time; out of 64 MiB 1.2 times as much, because a gather alone asks for them ahead."""
FEW = 4
"""How many times more elements there must be than are taken, so that computing those alone is less in any case."""


def fetches_well(primitive: Map) -> bool:
    """Whether a map takes no longer for what it fetches when it computes more."""
    nodes = [node for node in walk(primitive.value) if node.op == "fetch"]
    return all(_is_row(primitive, node) or _is_near(primitive, node) for node in nodes)


def _is_row(primitive: Map, node: Expr) -> bool:
    """Whether long rows are fetched that lie in the source as they do in the target."""
    target, source = primitive.target, primitive.sources[int(node.value)]
    pairs = enumerate(zip(target.sizes, target.strides, strict=True))
    inner = next((k for k, (size, stride) in pairs if size > 1 and abs(stride) == 1), None)
    if inner is None or target.sizes[inner] * source.data_type.size_in_bytes < ROW:
        return False
    varying = [
        (index, stride)
        for index, stride in zip(node.args, source.strides, strict=True)
        if inner in varies_along(index, primitive.sources)
    ]
    return all(index is coordinate(inner) and abs(stride) == 1 for index, stride in varying)


def _is_near(primitive: Map, node: Expr) -> bool:
    """Whether elements are picked from a source that the cache holds; a reversal goes by the vector instead."""
    source = primitive.sources[int(node.value)]
    plain = {const(0, DataType.INT64), *(coordinate(k) for k in range(len(primitive.target.sizes)))}
    is_picked = all(index in plain or nearest_to(index) is not None for index in node.args)
    return is_picked and math.prod(source.sizes) * source.data_type.size_in_bytes <= NEAR
