"""Maps that move elements to places that depend on each dimension for itself, planned: padding, and nearest elements.

The places are found when it is planned, and rows are put together of pieces that run on, back, or stand still.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.call import make_dispatch
from anydml.engines.cpu.kernels import HEADER
from anydml.engines.reference.evaluate import evaluate
from anydml.ir.patterns import is_plain
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.cpu.kernel import Kernel
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Map
    from anydml.ir.views import View

FIXED = 9
"""Words before the tables, as the kernel has them."""
MOST_PLACES = 2**16
"""Numbers in a table: what has more is found as it goes along."""
LEAST_PIECE = 16
"""Elements that pieces of a row have on average; of smaller ones each is found for itself in less time."""
FEW = 3
"""Pieces that a row may have whatever they are: of those with margins two are small."""


class PlacedProgram(NamedTuple):
    """Rows put together of pieces, planned."""

    kernel: Kernel
    tensors: tuple[str, str]
    offsets: tuple[int, int]
    """In bytes, from the tensors' first elements."""
    words: tuple[int, ...]
    """After the two addresses."""
    units: int
    size: int

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in."""
        addresses = (places[tensor] + offset for tensor, offset in zip(self.tensors, self.offsets, strict=True))
        return make_dispatch(self.kernel, (*addresses, *self.words), self.units, self.size)


def plan_placed(primitive: Map) -> PlacedProgram | None:
    """Plan a fetch at indices that each depend on a dimension of its own, into rows that lie a step apart."""
    value, target = primitive.value, primitive.target
    if value.op != "fetch" or not is_plain(primitive) or not all(target.sizes):
        return None
    source = primitive.sources[int(value.value)]
    found = _places(value.args, source, target)
    if found is None:
        return None
    *outer, row = found
    strides = [stride for size, stride in zip(target.sizes[:-1], target.strides, strict=False) if size > 1]
    sizes = [size for size in target.sizes[:-1] if size > 1]
    pitch = strides[-1] if strides else 0
    is_even = all(a == b * n for a, b, n in zip(strides, strides[1:], sizes[1:], strict=False))
    pieces = _pieces(row)
    is_run = target.strides[-1] == 1 or target.sizes[-1] == 1
    if not is_even or not is_run or (len(pieces) > FEW and len(pieces) * LEAST_PIECE > len(row)):
        return None
    within = outer.pop() if outer else np.zeros(1, np.int64)
    if math.prod(map(len, outer)) > MOST_PLACES:
        return None
    places = np.zeros(1, np.int64)
    for one in outer:
        places = np.add.outer(places, one).ravel()
    width = source.data_type.size_in_bytes
    units = len(places) * len(within)
    table = np.array([(start, row[start], count, step) for start, count, step in pieces], np.int64) * [
        width,
        width,
        1,
        width,
    ]
    starts = [8 * (HEADER + FIXED)]
    for array in (places, within):
        starts.append(starts[-1] + 8 * len(array))
    numbers = np.concatenate([places * width, within * width, table.ravel()]).tolist()
    return PlacedProgram(
        get_kernel(f"placed {width}"),
        (source.tensor, target.tensor),
        (source.offset * width, target.offset * width),
        (len(row), pitch * width, len(within), len(pieces), *starts, *numbers),
        units,
        2 * units * len(row) * width,
    )


def _places(indices: Sequence[Expr], source: View, target: View) -> list[np.ndarray[Any, Any]] | None:
    """For each dimension of the target the elements to go in the source; None where indices depend on more than one."""
    if max(target.sizes, default=0) > MOST_PLACES:
        return None
    found = [np.zeros(size, np.int64) for size in target.sizes] or [np.zeros(1, np.int64)]
    for index, stride in zip(indices, source.strides, strict=True):
        leaves = {(node.op, int(node.value)) for node in walk(index) if node.op in ("coordinate", "load", "fetch")}
        if len(leaves) > 1 or any(op != "coordinate" for op, _ in leaves):
            return None
        ((_, dimension),) = leaves or {("coordinate", len(found) - 1)}
        shape = tuple(size if k == dimension else 1 for k, size in enumerate(target.sizes))
        found[dimension] += evaluate(index, (), shape).astype(np.int64).ravel() * stride
    return found


def _pieces(row: np.ndarray[Any, Any]) -> list[tuple[int, int, int]]:
    """A row in pieces: the first element of each, how many there are, and the step from one to the next."""
    steps = np.diff(row)
    changes = np.flatnonzero(np.diff(steps)) + 1
    pieces: list[tuple[int, int, int]] = []
    start = 0
    while start < len(row):
        later = int(np.searchsorted(changes, start, "right"))
        end = int(changes[later]) + 1 if later < len(changes) else len(row)
        pieces.append((start, end - start, int(steps[start]) if end - start > 1 else 1))
        start = end
    return pieces
