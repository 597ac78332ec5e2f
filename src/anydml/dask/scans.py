"""Running sums and products along a cut axis: each block goes on from the carry of the block before it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from dask._task_spec import List, Task, TaskRef

from anydml.core.enums import AxisDirection
from anydml.core.operator_type import function_name
from anydml.dask.arrays import Chunks, Key, Layer, lazy, meta_like, places, reads_of
from anydml.dask.blocks import Block, device_of, empty, part_of
from anydml.operators.reductions import CumulativeProduct, CumulativeSummation
from anydml.runtime.chunked_scan import scan_with_carry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.dask.blocks import Asked
    from anydml.dask.tensors import Tensor
    from anydml.operators import OperatorDesc


_AHEAD = 4
"""Blocks that may be read while others before them are still to be scanned."""


@dataclass(frozen=True)
class Scanned(Layer):
    """The blocks of a running sum or product."""

    product: bool
    chunks: Chunks
    axis: int
    decreasing: bool
    exclusive: bool
    asked: Asked
    reads: Mapping[Key, Any] = field(repr=False)
    """By block, the task that reads it from a store; none of a source that is computed."""

    def tasks(self, name: str, inputs: Sequence[str]) -> dict[Key, Any]:
        """Two a block: one that scans, and one that leaves its carry behind; those but the last hand it on.

        Blocks are scanned one after the other. One that is read waits until few are left before it, so that those that
        were read do not fill memory.
        """
        made: dict[Key, Any] = {}
        count = len(self.chunks[self.axis])
        whole = tuple(map(sum, self.chunks))
        for at in places(self.chunks):
            done = count - 1 - at[self.axis] if self.decreasing else at[self.axis]
            before = list(at)
            before[self.axis] += 1 if self.decreasing else -1
            carry = TaskRef((f"{name}-carry", *before)) if done else None
            block = Block(self.prefix, at)
            options = (self.axis, self.exclusive, self.decreasing, self.product, whole, self.asked, block)
            key, source = (f"{name}-scan", *at), (inputs[0], *at)
            if self.reads and done > _AHEAD:
                before[self.axis] = at[self.axis] + (_AHEAD + 1 if self.decreasing else -_AHEAD - 1)
                read, source = self.reads[source], (f"{name}-read", *at)
                made[source] = Task(source, part_of, List(read, TaskRef((f"{name}-carry", *before))), 0)
            made[key] = Task(key, _scan, TaskRef(source), carry, *options)
            made[name, *at] = Task((name, *at), part_of, TaskRef(key), 0)
            if done < count - 1:
                key_of_carry = (f"{name}-carry", *at)
                made[key_of_carry] = Task(key_of_carry, part_of, TaskRef(key), 1)
        return made


def _scan(
    x: Any,
    carry: Any,
    axis: int,
    exclusive: bool,
    decreasing: bool,
    product: bool,
    whole: Sequence[int],
    asked: Asked,
    block: Block,
) -> Any:
    with block:
        return scan_with_carry(
            x,
            axis,
            carry,
            exclusive=exclusive,
            decreasing=decreasing,
            product=product,
            whole=whole,
            device=device_of(asked, x),
            out=empty(x.shape, x.dtype) if type(x) is np.ndarray else None,
        )


def scanned(
    desc: OperatorDesc, tensors: Mapping[str, Tensor], ranks: Mapping[str, int], asked: Asked
) -> list[Any] | None:
    """The result of a running sum or product as a lazy array; None of other operators."""
    del ranks  # the array's own
    if not isinstance(desc, (CumulativeSummation, CumulativeProduct)):
        return None
    x = tensors["InputTensor"]
    axis = x.axes[desc.axis]
    if axis is None:
        return None
    exclusive = desc.has_exclusive_sum if isinstance(desc, CumulativeSummation) else desc.has_exclusive_product
    decreasing = desc.axis_direction is AxisDirection.DECREASING
    kind = (function_name(desc.type), isinstance(desc, CumulativeProduct))
    layer = Scanned(*kind, x.array.chunks, axis, decreasing, exclusive, asked, reads_of(x.array))
    return [lazy(layer, [x.array], x.array.chunks, meta_like(x.array, x.array.ndim, x.array.dtype))]
