"""Gathers: the kernel is chosen by the block that a tuple picks; indices are clamped. In batches with prefetch on an
Arm, tuple by tuple on an x86, which finds work beyond a load that waits by itself.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.expressions import kind_of
from anydml.engines.cpu.codegen.function import vector_of
from anydml.engines.cpu.codegen.language import (
    copy_row,
    larger,
    load_bits,
    load_word,
    make_load,
    make_piece,
    make_stack,
    make_store,
    prefetch,
    prefetch_near,
    quotient,
    scratch,
    smaller,
    store_bits,
    store_word,
)
from anydml.engines.cpu.codegen.outer_loops import Way, find_row
from anydml.engines.cpu.codegen.translate import word
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.launch.program import KernelProgram, Otherwise
from anydml.engines.cpu.launch.record import LINE, Pointer, dimension_words
from anydml.engines.cpu.move.index_check import GATHER, find_tuple, make_clamped
from anydml.ir.fetches import match_gathered
from anydml.ir.loops import Loops, merge, order, simplify, squeeze

if TYPE_CHECKING:
    from anydml.engines.cpu.codegen.function import Function, Value
    from anydml.engines.cpu.kernel import Kernel
    from anydml.engines.cpu.launch.record import Words
    from anydml.ir.fetches import Gathered
    from anydml.ir.verbs import Map

ALIGNED = 16
"""The alignment of rows that are written past the cache."""
PIECES = (1, 2, 4, 8, 16, 32, 64)
"""Bytes that a gather copies in one step."""
TARGET = 2
"""The number of the target's relocation, after those of the source and the indices."""


def plan_gather(primitive: Map) -> KernelProgram | None:
    """Plan a map that picks elements by indices."""
    found = match_gathered(primitive)
    return None if found is None else _program(found, is_checked=found.check in primitive.checks)


def _program(primitive: Gathered, *, is_checked: bool) -> KernelProgram:
    """Choose the kernel by the block that a tuple picks; `is_checked` says that every index is inside."""
    source, indices, target = primitive.source, primitive.indices, primitive.target
    width, index_width = source.data_type.size_in_bytes, indices.data_type.size_in_bytes
    batch, depth, rank = primitive.batch_rank, primitive.tuple_size, len(indices.sizes) - 1
    across = (*source.strides[:batch], *[0] * (rank - batch))
    tuple_loops = Loops(indices.sizes[:-1], (indices.strides[:-1], across, target.strides[:rank]), (0, 0, 0))
    tuples = merge(order(squeeze(tuple_loops), 2))
    block_loops = Loops(
        target.sizes[rank:],
        (source.strides[batch + depth :], target.strides[rank:]),
        (source.offset, target.offset),
    )
    block = simplify(block_loops, 1)
    shape, pieces, fields = block_of(block, width, figures().move.long_rows)
    kind = kind_of(indices.data_type)
    reach = abs(primitive.indexed_sizes[0] * source.strides[batch]) * width
    if depth == 1 and shape.startswith("piece") and pieces <= 8 and tuples.sizes:
        if tuples.strides[1][-1] == 0 and reach <= figures().move.near:
            shape = f"near {pieces}"
        elif tuples.strides[1][-1] and reach > figures().move.near:
            tuples = _tiled(tuples, figures().move.tile_bytes // pieces)
    elif depth == 1 and shape.startswith("piece") and pieces >= figures().move.taken_bytes:
        shape = f"take {pieces}"
    record = GATHER.write({
        "source": Pointer(source.tensor, block.offsets[0] * width),
        "indices": Pointer(indices.tensor, indices.offset * index_width),
        "target": Pointer(target.tensor, block.offsets[1] * width),
        "coordinates": depth, "coordinate_step": indices.strides[-1] * index_width, "rank": len(tuples.sizes),
        "indexed": dimension_words(primitive.indexed_sizes, [source.strides[batch:]], (width,)),
        "tuples": dimension_words(tuples.sizes, tuples.strides, (index_width, width, width)), **fields,
    })  # fmt: skip
    size = tuples.count * (depth * index_width + 2 * block.count * width)
    kernel = _get_gather(shape, kind, "checked" if is_checked and shape.startswith("take") else "")
    lies_well = all(s * width % ALIGNED == 0 for s in target.strides[:rank]) and pieces % ALIGNED == 0
    is_quicker = figures().rows.streams or pieces == ALIGNED
    if is_quicker and not shape.startswith("any") and size // 2 >= figures().rows.stream_from and lies_well:
        alignment = Otherwise(TARGET, ALIGNED, kernel)
        return KernelProgram(_get_gather(shape, kind, "stream"), record, tuples.count, size, alignment=alignment)
    return KernelProgram(kernel, record, tuples.count, size)


def block_of(block: Loops, width: int, long_rows: str) -> tuple[str, int, dict[str, Words]]:
    """How a block of the loops of source and target is copied, the bytes of its rows, and the fields of a record."""
    count, steps, outer = 1, (1, 1), max(len(block.sizes) - 1, 0)
    if block.sizes:
        count, steps = block.sizes[-1], (block.strides[0][-1], block.strides[1][-1])
    shape, size = f"any {width}", count * width
    if outer == 0 and steps == (1, 1):
        shape, count = (f"piece {size}", count) if size in PIECES else (long_rows, size)
    return shape, size, {
        "count": count, "source_step": steps[0] * width, "target_step": steps[1] * width, "block_rank": outer,
        "blocks": dimension_words(block.sizes[:-1], block.strides, (width, width)),
    }  # fmt: skip


def _get_gather(block: str, kind: str, flag: str) -> Kernel:
    """The kernel for a shape of block with its bytes, `piece 4`, and a kind of index; the flag may be empty."""
    shape, width = block.split()
    make = functools.partial(make_gather, kind, shape, int(width), flag == "stream", flag == "checked")
    return get_kernel(f"gather {block} {kind} {flag}".strip(), make)


def _tiled(loops: Loops, length: int) -> Loops:
    """The innermost dimension in tiles that each go through the other dimensions, where it is whole tiles.

    What they read lies on the same lines, which then stay in the cache.
    """
    if len(loops.sizes) < 2 or loops.sizes[-1] % length or loops.sizes[-1] == length:
        return loops
    sizes = (loops.sizes[-1] // length, *loops.sizes[:-1], length)
    return Loops(sizes, tuple((row[-1] * length, *row) for row in loops.strides), loops.offsets)


# Elements that lie near: one coordinate chooses each from what the cache holds.


PLACES = 4096
"""Elements whose places are worked out together: 16 KiB, half of the first cache."""

_load_place = make_load("i32", lambda f, value: f.cast("sext", value, "i64"))
_store_place = make_store(lambda f, value: f.cast("trunc", value, "i32"))


def make_near(kind: str, width: int, clamped: Any) -> Any:
    """A row of tuples that each pick an element.

    Places are worked out by the vector, and kept for the row after where that has the same indices: 0.5 ns an element,
    where one step for all of it takes 1.1, and an x86's instruction that gathers 1.5 (a Xeon).
    """
    load, store, stack = load_bits[width], store_bits[width], make_stack(4 * PLACES)
    index_width = int(kind[1:]) // 8

    def find_places(w: Any, places: int, indices: int, index_step: int, count: int) -> None:
        size, stride = w.indexed[0].size, w.indexed[0].stride
        if index_step == index_width:  # known, so that it goes by the vector
            for i in range(count):
                _store_place(places, 4 * i, clamped(indices, i * index_width, size) * stride)
        else:
            for i in range(count):
                _store_place(places, 4 * i, clamped(indices, i * index_step, size) * stride)

    def pick(places: int, source: int, target: int, target_step: int, count: int) -> None:
        if target_step == width:
            for i in range(count):
                store(target, i * width, load(source, _load_place(places, 4 * i)))
        else:
            for i in range(count):
                store(target, i * target_step, load(source, _load_place(places, 4 * i)))

    def row(w: Any, source: Way, indices: Way, target: Way, count: int, again: bool) -> None:
        (own, _), (picked, index_step), (written, target_step), places = source, indices, target, stack()
        for low in range(0, count, PLACES):
            length = smaller(PLACES, count - low)
            if not again or count > PLACES:
                find_places(w, places, picked + low * index_step, index_step, length)
            pick(places, own, written + low * target_step, target_step, length)

    return row


# Gathers for a CPU that itself finds work beyond a load that waits, as an x86 does: tuple by tuple, without batches.
#
# One thread of a Xeon takes 27 ms for 3,200,000 rows of 32 bytes so, and 37 in batches; for 400,000 rows of 512 bytes
# 46, and 52 in batches. Rows below 32 bytes are the other way round, and so is everything on an Arm Neoverse-N1.


TOGETHER = 2
"""Pieces that are loaded before the first of them is stored."""


def make_take(kind: str, width: int, checked: bool) -> Any:
    """A row of tuples of one coordinate that each pick a piece; `checked` says that every index is inside."""
    signed, piece = kind[0] == "i", vector_of(width // 8, "i64")

    def place(f: Function, i: Value, size: Value, stride: Value) -> Value:
        """Where the nearest index of the dimension leads, in bytes; for one that was checked, any will do."""
        last = size - 1
        i = f.cast("sext" if signed else "zext", i, "i64")
        if signed:
            i = f.select(i < 0, i + size, i)
            if not checked:
                i = f.select(i < 0, 0, i)
        return f.select(f.compare("ult", i, last), i, last) * stride

    def take(f: Function, count: int, first: Value, size: Value, stride: Value, *ways: tuple[Value, Value]) -> None:
        """So many tuples from the first on: all are loaded before one of them is stored."""
        source, indices, target = (f.binary("add nsw", start, f.binary("mul nsw", first, on)) for start, on in ways)
        source_step, index_step, target_step = (on for _, on in ways)
        found, values = [], []
        for _ in range(count):
            found.append(f.load(f"i{kind[1:]}", indices, align=1))
            indices += index_step
        for i in found:
            values.append(f.load(piece, source + place(f, i, size, stride), align=1))
            source += source_step
        for value in values:
            f.store(value, target, align=1)
            target += target_step

    some, one = (word(lambda f, *given, count=count: take(f, count, *given)) for count in (TOGETHER, 1))

    def row(w: Any, source: Way, indices: Way, target: Way, count: int, again: bool) -> None:
        whole = count // TOGETHER * TOGETHER
        for i in range(0, whole, TOGETHER):
            some(i, w.indexed[0].size, w.indexed[0].stride, source, indices, target)
        for i in range(whole, count):
            one(i, w.indexed[0].size, w.indexed[0].stride, source, indices, target)

    return row


def make_ahead(block: Any, clamped: Any) -> Any:
    """A row of tuples that each pick a row of bytes, by block(record, source, target), fetched some rows ahead."""
    ahead_bytes = figures().rows.fetched_bytes

    def find_block(w: Any, i: int, source: Way, indices: Way) -> int:
        (address, source_step), (at, index_step) = source, indices
        coordinates, coordinate_step = w.coordinates, w.coordinate_step
        place = address + i * source_step
        for k in range(coordinates):
            place += clamped(at + i * index_step + k * coordinate_step, 0, w.indexed[k].size) * w.indexed[k].stride
        return place

    def row(w: Any, source: Way, indices: Way, target: Way, count: int, again: bool) -> None:
        (written, target_step), length = target, w.count
        fetched = smaller(length, ahead_bytes)
        ahead = quotient(ahead_bytes, fetched)
        for i in range(count):
            soon = find_block(w, smaller(i + ahead, count - 1), source, indices)
            for k in range(0, fetched, LINE):
                prefetch_near(soon + k)
            block(w, find_block(w, i, source, indices), written + i * target_step)

    return row


# Blocks that tuples pick, in batches: elements, rows or any block, by indices of any type.


BATCH = 256
"""Tuples whose blocks are looked up together."""


def make_block(shape: str, width: int, stream: bool) -> Any:
    """block(record, source, target): a piece of so many bytes, a row of bytes, or a block of any layout.

    `stream` writes pieces and rows past the cache, to targets aligned to 16 bytes.
    """
    if shape == "piece":
        piece = make_piece(width, stream=stream)

        def one_piece(w: Any, source: int, target: int) -> None:
            piece(target, source)

        return one_piece
    if shape in ("row", "ahead"):
        line = make_piece(LINE, stream=stream)

        def row(w: Any, source: int, target: int) -> None:
            count = w.count
            lines = count // LINE
            for i in range(lines):
                line(target + LINE * i, source + LINE * i)
            copy_row(target + LINE * lines, source + LINE * lines, count - LINE * lines)

        return row
    load, store = load_bits[width], store_bits[width]

    def any_layout(w: Any, source: int, target: int) -> None:
        count, source_step, target_step, rank = w.count, w.source_step, w.target_step, w.block_rank
        rows, at = 1, scratch()
        for k in range(rank):
            rows *= w.blocks[k].size
        for r in range(rows):
            source_on, target_on = find_row(w.blocks, rank, r, at)
            for i in range(count):
                store(target + target_on, i * target_step, load(source + source_on, i * source_step))

    return any_layout


def make_gather(kind: str, shape: str, width: int, stream: bool, checked: bool) -> Any:
    """The kernel that copies. Every index is clamped: one that changes after the check still reads the source.

    Tuples go in batches: where the blocks of one lie is worked out, and their memory asked for, while those of the
    batch before are copied. Elements that lie near, where one coordinate chooses from what the cache holds, are copied
    at once; pieces and rows that an x86 takes, without batches.
    """
    clamped = make_clamped(kind)
    if shape == "near":
        return make_walk_tuples(make_near(kind, width, clamped))
    if shape == "take":
        return make_walk_tuples(make_take(kind, width, checked))
    block = make_block(shape, width, stream)
    if shape == "ahead":
        return make_walk_tuples(make_ahead(block, clamped))
    is_row, stack = shape == "row", make_stack(2 * BATCH * 8)
    most_ahead, ahead_bytes = figures().move.tuples_ahead, figures().move.fetched_bytes

    def find_blocks(w: Any, places: int, source: Way, indices: Way, first: int, count: int) -> None:
        (address, source_step), (at, step) = source, indices
        start, own = address + first * source_step, at + first * step
        coordinates, coordinate_step = w.coordinates, w.coordinate_step
        size, stride = w.indexed[0].size, w.indexed[0].stride
        for i in range(count):
            store_word(places, 8 * i, start + i * source_step + clamped(own, i * step, size) * stride)
        for k in range(1, coordinates):
            size, stride = w.indexed[k].size, w.indexed[k].stride
            for i in range(count):
                on = clamped(own + k * coordinate_step, i * step, size) * stride
                store_word(places, 8 * i, load_word(places, 8 * i) + on)

    def row(w: Any, source: Way, indices: Way, target: Way, count: int, again: bool) -> None:
        (written, target_step), length, places = target, w.count, stack()
        lines = smaller(length + LINE - 1, ahead_bytes) // LINE
        ahead = larger(smaller(most_ahead, quotient(ahead_bytes, length)), 1) if is_row else most_ahead
        find_blocks(w, places, source, indices, 0, smaller(BATCH, count))
        for low in range(0, count, BATCH):
            high = smaller(low + BATCH, count)
            after = places + 8 * (high & (2 * BATCH - 1))
            find_blocks(w, after, source, indices, high, smaller(BATCH, count - high))
            for i in range(low, high):
                soon = load_word(places, 8 * ((i + ahead) & (2 * BATCH - 1)))
                for j in range(lines if is_row else 1):
                    prefetch(soon + LINE * j)
                block(w, load_word(places, 8 * (i & (2 * BATCH - 1))), written + i * target_step)

    return make_walk_tuples(row)


def make_walk_tuples(row: Any) -> Any:
    """The kernel that does every row of tuples by row(record, source, indices, target, count, again).

    Those are addresses with their steps; `again` says that the indices are those of the row before.
    """

    def kernel(words: int, begin: int, end: int) -> int:
        w = GATHER(words)
        rank = w.rank
        inner, index_step, source_step, target_step = 1, 0, 0, 0
        if rank > 0:
            last = w.tuples[rank - 1]
            inner, index_step, source_step, target_step = last.size, last.indices, last.source, last.target
        unit, before, length = begin, 0, 0
        while unit < end:  # one row of tuples at a time
            rest = quotient(unit, inner)
            start = unit - rest * inner
            count = smaller(inner - start, end - unit)
            index_on, source_on, target_on = find_tuple(w.tuples, rank - 1, rest)
            source = w.source + start * source_step + source_on
            indices = w.indices + start * index_step + index_on
            target = w.target + start * target_step + target_on
            again = indices == before and count == length
            row(w, (source, source_step), (indices, index_step), (target, target_step), count, again)
            unit, before, length = unit + count, indices, count
        return 0

    return kernel
