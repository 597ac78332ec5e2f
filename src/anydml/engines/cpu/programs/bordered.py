"""A copy with a number around it, planned as one pass: PADDING's constant mode, and gradients of slices.

64 planes of 56 x 56 with 3 elements around them take 0.5 of the time of a copy and the fills after it (one thread).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.kernels import HEADER
from anydml.engines.cpu.programs.contracted import distances
from anydml.engines.cpu.programs.map import word_of
from anydml.engines.cpu.programs.placed import MOST_PLACES, PlacedProgram
from anydml.ir.patterns import is_copy, is_plain
from anydml.ir.verbs import Map

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.ir.verbs import Primitive
    from anydml.ir.views import View

FIXED = 7
"""Words before the tables, as the kernel has them."""
WORD = 8
"""Bytes of a row at least, and those that are filled at once."""
MOST = 2**22
"""Elements of a block at most, of which each is looked at."""


def plan_bordered(primitives: Sequence[Primitive], _constants: frozenset[str] = frozenset()) -> PlacedProgram | None:
    """A copy into the middle of a tensor and fills around it with one number; None for others."""
    maps = [one for one in primitives if isinstance(one, Map) and is_plain(one)]
    copies, fills = [one for one in maps if is_copy(one)], [one for one in maps if not one.sources]
    if len(copies) != 1 or not fills or len(copies) + len(fills) != len(primitives):
        return None
    (copy,) = copies
    source, target, numbers = copy.sources[0], copy.target, {one.value for one in fills}
    views = [target, *(one.target for one in fills)]
    width = target.data_type.size_in_bytes
    is_ours = {view.tensor for view in views} == {target.tensor} and len({len(view.sizes) for view in views}) == 1
    is_ours = is_ours and len(numbers) == 1 and all(one.op in ("given", "const") for one in numbers)
    is_row = source.strides[-1:] == target.strides[-1:] == (1,) and source.data_type is target.data_type
    if not is_ours or not is_row or target.sizes[-1] * width < WORD or WORD % width or source.tensor == target.tensor:
        return None
    outer = _shared(views)
    rows, first = target.sizes[outer:-1], min(view.offset for view in views)
    places = distances(rows, target.strides[outer:-1]) + target.offset - first
    size, run = _block(views, outer, first), target.sizes[-1]
    is_forward = np.all(np.diff(places) >= run)
    blocks = math.prod(target.sizes[:outer])
    if not size or not is_forward or max(len(places), blocks) > MOST_PLACES:
        return None
    gaps = np.diff(places, prepend=-run) - run
    after = np.zeros_like(places)
    after[-1] = size - places[-1] - run
    within = np.stack([distances(rows, source.strides[outer:-1]), places, gaps, after], 1) * width
    around = [distances(view.sizes[:outer], view.strides[:outer]) * width for view in (source, target)]
    tables = np.concatenate([np.stack(around, 1).ravel(), within.ravel()]).tolist()
    start = 8 * (HEADER + FIXED)
    number = int.from_bytes(word_of(*numbers).to_bytes(WORD, "little", signed=True)[:width] * (WORD // width), "little")
    words = (run * width, number - (number >> 63 << 64), len(places), start, start + 16 * blocks, *tables)
    offsets = (source.offset * width, first * width)
    moved = (run * len(places) + size) * blocks * width
    return PlacedProgram(
        get_kernel("bordered"), (source.tensor, target.tensor), offsets, words, blocks * len(places), moved
    )


def _shared(views: Sequence[View]) -> int:
    """The first dimensions that all views have, each for itself: the blocks that follow have all that they write."""
    offsets = [view.offset for view in views]
    far = max(offsets) - min(offsets)
    for k, (size, step) in enumerate(zip(views[0].sizes[:-1], views[0].strides[:-1], strict=True)):
        is_alike = all((view.sizes[k], view.strides[k]) == (size, step) for view in views)
        if not is_alike or (size > 1 and far >= step):
            return k
    return len(views[0].sizes) - 1


def _block(views: Sequence[View], outer: int, first: int) -> int:
    """The elements of a block, if views write each of them once, and blocks follow each other; 0 if not."""
    counts = [math.prod(view.sizes[outer:]) for view in views]
    size = sum(counts)
    steps = [(n, step) for n, step in zip(views[0].sizes[:outer], views[0].strides[:outer], strict=True) if n > 1]
    if not all(counts) or size > MOST or any(step < size for _, step in steps):
        return 0
    seen = np.zeros(size, bool)
    for view in views:
        last = view.offset - first + sum((n - 1) * step for n, step in zip(view.sizes, view.strides, strict=True))
        last -= sum((n - 1) * step for n, step in steps)
        if min(view.strides[outer:]) < 0 or last >= size:
            return 0
        strides = view.strides[outer:]
        np.lib.stride_tricks.as_strided(seen[view.offset - first :], view.sizes[outer:], strides)[...] = True
    return size if seen.all() else 0
