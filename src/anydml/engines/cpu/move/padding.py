"""Padding and placement as one pass: PADDING's modes, gradients of slices, nearest-neighbour enlargement."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.language import copy_row, load_bits, load_word, quotient, store_bits, store_word
from anydml.engines.cpu.gemm.work_item import distances
from anydml.engines.cpu.launch.program import KernelProgram
from anydml.engines.cpu.launch.record import WORD, Layout, Pointer, Record
from anydml.engines.cpu.rows.map import word_of
from anydml.engines.reference.evaluate import evaluate
from anydml.ir.padded_reads import match_padded
from anydml.ir.patterns import is_plain
from anydml.ir.trees import walk
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Map, Primitive

# Maps that move elements to places that depend on each dimension for itself, planned: padding, and nearest elements.
#
# The places are found when it is planned, and rows are put together of pieces that run on, back, or stand still.


PLACED = Layout("source", "target", "count", "pitch", "inner", "pieces", "places_at", "within_at", "table_at")
"""Elements of a row, bytes from one to the next in the target, the rows whose places stand within, the pieces of a row,
and the bytes from the record's first at which the tables stand: of places, of those within, and of pieces."""
PIECE = Layout("target", "source", "count", "step", header=0)
"""A piece of a row: its first bytes in the target's row and in the source's, its elements, and the bytes from one to
the next in the source."""
MOST_PLACES = 2**16
"""Numbers in a table: what has more is found as it goes along."""
LEAST_PIECE = 16
"""Elements that pieces of a row have on average; of smaller ones each is found for itself in less time."""
FEW = 3
"""Pieces that a row may have whatever they are: of those with margins two are small."""


def plan_placement(primitive: Map) -> KernelProgram | None:
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
    start = WORD * PLACED.end
    fields: dict[str, int | Pointer] = {
        "source": Pointer(source.tensor, source.offset * width),
        "target": Pointer(target.tensor, target.offset * width),
        "count": len(row), "pitch": pitch * width, "inner": len(within), "pieces": len(pieces), "places_at": start,
        "within_at": start + WORD * len(places), "table_at": start + WORD * (len(places) + len(within)),
    }  # fmt: skip
    numbers = np.concatenate([places * width, within * width, table.ravel()]).tolist()
    record = Record.of(PLACED.write(fields), numbers)
    return KernelProgram(
        get_kernel(f"placed {width}", functools.partial(make_placed, width)),
        record,
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


# A copy with a number around it, planned as one pass: PADDING's constant mode, and gradients of slices.
#
# 64 planes of 56 x 56 with 3 elements around them take 0.5 of the time of a copy and the fills after it (one thread).


BORDERED = Layout("source", "target", "size", "number", "inner", "blocks_at", "rows_at")
"""Bytes of a row, a word of what is put around it, the rows of a block, and the bytes from the record's first at which
the tables stand: of blocks, and of rows within. Of a row there is a word at least, which is filled at once."""
BLOCK = Layout("source", "target", header=0)
"""Where a block begins, in bytes."""
ROW = Layout("source", "target", "before", "after", header=0)
"""Where a row of a block begins, and the bytes to be filled before and after it."""
MOST = 2**22
"""Elements of a block at most, of which each is looked at."""


def plan_padding(primitives: Sequence[Primitive], _constants: frozenset[str] = frozenset()) -> KernelProgram | None:
    """A copy into the middle of a tensor and fills around it with one number; None for others."""
    padded = match_padded(primitives)
    if padded is None or isinstance(padded.outside, View):
        return None
    source, target, views = padded.source, padded.inner, (padded.inner, *padded.around)
    width = target.data_type.size_in_bytes
    is_ours = len({len(view.sizes) for view in views}) == 1
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
    start = WORD * BORDERED.end
    bits = word_of(padded.outside).to_bytes(WORD, "little", signed=True)[:width]
    number = int.from_bytes(bits * (WORD // width), "little")
    fields: dict[str, int | Pointer] = {
        "source": Pointer(source.tensor, source.offset * width), "target": Pointer(target.tensor, first * width),
        "size": run * width, "number": number - (number >> 63 << 64), "inner": len(places), "blocks_at": start,
        "rows_at": start + 2 * WORD * blocks,
    }  # fmt: skip
    record, moved = Record.of(BORDERED.write(fields), tables), (run * len(places) + size) * blocks * width
    return KernelProgram(get_kernel("bordered", make_bordered), record, blocks * len(places), moved)


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


# Rows copied into a tensor that is filled around them, as a padded image's are, in one pass.
#
# A unit is a row, which has 8 bytes or more: what is filled may reach into it, since it is written after that.


def make_bordered() -> Any:
    """The kernel, for elements of any size that a word has a whole number of."""

    def kernel(words: int, begin: int, end: int) -> int:
        w = BORDERED(words)
        source, target, size, number, inner = w.source, w.target, w.size, w.number, w.inner
        blocks, rows = words + w.blocks_at, words + w.rows_at
        block = quotient(begin, inner)
        row = begin - block * inner
        for _ in range(begin, end):
            place, own = BLOCK(blocks + 16 * block), ROW(rows + 32 * row)
            start = source + place.source + own.source
            there = target + place.target + own.target
            before, after = own.before, own.after
            for i in range(0, before, 8):
                store_word(there - before, i, number)
            for i in range(0, after, 8):
                store_word(there + size + after - 8, -i, number)
            copy_row(there, start, size)
            row += 1
            if row == inner:
                row = 0
                block += 1
        return 0

    return kernel


# Rows put together of pieces of other rows, as a padded or an enlarged image's are.
#
# A place is the bytes from the source's first element. A unit is a row: one of the same place as the row before it is a
# copy of that.


def make_placed(width: int) -> Any:
    """The kernel for elements of some bytes."""
    load, store = load_bits[width], store_bits[width]

    def kernel(words: int, begin: int, end: int) -> int:
        w = PLACED(words)
        source, target, size, pitch, inner, pieces = w.source, w.target, w.count * width, w.pitch, w.inner, w.pieces
        places, within, table = words + w.places_at, words + w.within_at, PIECE(words + w.table_at)
        last, outer = -1, quotient(begin, inner)
        own = begin - outer * inner
        for unit in range(begin, end):
            row = source + load_word(places, 8 * outer) + load_word(within, 8 * own)
            own += 1
            if own == inner:  # or each row would take a division
                own = 0
                outer += 1
            there = target + unit * pitch
            if row == last and pieces > 1:
                copy_row(there, there - pitch, size)
                continue
            last = row
            for k in range(pieces):
                place, start = there + table[k].target, row + table[k].source
                count, step = table[k].count, table[k].step
                if step == width:
                    copy_row(place, start, count * width)
                elif count <= 4:  # a margin, which the loop below takes three times as long for
                    store(place, 0, load(start, 0))
                    if count > 1:
                        store(place, width, load(start, step))
                    if count > 2:
                        store(place, 2 * width, load(start, 2 * step))
                    if count > 3:
                        store(place, 3 * width, load(start, 3 * step))
                else:
                    for i in range(count):
                        store(place, i * width, load(start, i * step))
        return 0

    return kernel
