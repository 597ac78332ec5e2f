"""Reversals: the walk whose rows lie along the axis or across it, and columns that each have a length."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.language import larger, load_word, make_load, make_stack, quotient, smaller, store_word
from anydml.engines.cpu.codegen.outer_loops import Way, make_walk
from anydml.engines.cpu.codegen.translate import word
from anydml.engines.cpu.launch.program import KernelProgram, Otherwise
from anydml.engines.cpu.launch.record import LINE, OUTER, WALK, Layout, Pointer, Table
from anydml.engines.cpu.move.copy import SEGMENT, fields_of_walk, make_row, plan_copy
from anydml.engines.cpu.rows.walk import OUTER_RANK, is_streamed
from anydml.ir.fetches import match_reversed
from anydml.ir.loops import Loops, loops_of, simplify
from anydml.ir.patterns import copy_of

if TYPE_CHECKING:
    from anydml.engines.cpu.kernel import Kernel
    from anydml.ir.fetches import Reversed
    from anydml.ir.verbs import Map

COLUMNS, BLOCK = 4096, 256
"""Of columns that have a length each: the most in a tile, and the rows that it goes down the axis."""


REVERSE = Layout(
    *WALK.fields[:-1], OUTER._replace(rows=OUTER_RANK), "lengths", "length_width",
    Table("lengths_by", OUTER_RANK, "stride"), "axis", "size", "source_axis", "target_axis", "lengths_step",
)  # fmt: skip
"""A walk with room for outer dimensions, then the address of lengths, their bytes and strides; which of the outer
dimensions the axis is, or -1 where it lies along the row, its size and strides; and the bytes from one length to the
next along a row."""


def plan_reverse(verb: Map) -> KernelProgram | None:
    """Walk along the axis, across it by whole rows, or down columns that have a length each."""
    if (primitive := match_reversed(verb)) is None:
        return None
    source, target, lengths, axis = primitive.source, primitive.target, primitive.lengths, primitive.axis
    width, length_width = source.data_type.size_in_bytes, lengths.data_type.size_in_bytes
    size = source.sizes[axis]
    if size == 1:
        return plan_copy(copy_of(source, target))
    along = (source.strides[axis], target.strides[axis])
    others = simplify(_others(primitive), 1)
    in_rows = bool(others.sizes) and others.strides[1][-1] < abs(along[1])
    in_columns = in_rows and others.strides[2][-1] != 0
    if in_columns:
        at = len(others.sizes) - 1
        loops = _insert(others, at, -(-size // BLOCK), (0, 0))
    else:
        at = sum(abs(s) >= abs(along[1]) for s in others.strides[1]) if in_rows else len(others.sizes)
        loops = _insert(others, at, size, along)
    pointers = [
        Pointer(view.tensor, offset * view.data_type.size_in_bytes)
        for view, offset in zip((source, target, lengths), loops.offsets, strict=True)
    ]
    fields, items = fields_of_walk(loops, pointers, width, COLUMNS * width if in_columns else SEGMENT)
    *strides, across = (s * length_width for s in loops.strides[2])
    record = REVERSE.write({
        **fields, "lengths": pointers[2], "length_width": length_width, "lengths_by": strides,
        "axis": at if in_rows else -1, "size": size, "source_axis": along[0] * width, "target_axis": along[1] * width,
        "lengths_step": across,
    })  # fmt: skip
    moved = 2 * others.count * size * width
    plain = _kernel(width, in_columns=in_columns, stream=False)
    if loops.strides[1][-1] == 1 and is_streamed(loops.sizes[-1] * width, loops.count * width):
        streamed = _kernel(width, in_columns=in_columns, stream=True)
        return KernelProgram(streamed, record, items, moved, alignment=Otherwise(1, width, plain))
    return KernelProgram(plain, record, items, moved)


def _kernel(width: int, *, in_columns: bool, stream: bool) -> Kernel:
    make = functools.partial(make_reverse_columns if in_columns else make_reverse, width, stream)
    return get_kernel(f"reverse {width}{' columns' * in_columns}{' stream' * stream}", make)


def _others(primitive: Reversed) -> Loops:
    """Every dimension but the axis."""
    every = loops_of(primitive.source, primitive.target, primitive.lengths)
    loops = Loops(primitive.source.sizes, every.strides, every.offsets)
    return loops.pick([k for k in range(len(loops.sizes)) if k != primitive.axis])


def _insert(loops: Loops, at: int, size: int, along: tuple[int, int]) -> Loops:
    """The axis as one more dimension, along which a length is the same."""
    strides = tuple((*row[:at], step, *row[at:]) for row, step in zip(loops.strides, (*along, 0), strict=True))
    return Loops((*loops.sizes[:at], size, *loops.sizes[at:]), strides, loops.offsets)


# Kernels.


ALIGNED_FROM = 4096
"""Bytes of a row from which on its target is aligned to the cache's lines: rows turned round take half the time."""
ROWS = 32
"""Rows that columns of unlike lengths go down in turn, as many columns as a line of the cache holds.

Column by column, the lines that are written stay in the cache until they are whole."""
_load_4 = make_load("i32", lambda f, value: f.cast("zext", value, "i64"))


def load_length(w: Any, address: int) -> Any:
    """A length, at most the size of the axis; a UINT64 of 2^63 and more reads as a negative number."""
    length = load_word(address, 0) if w.length_width == 8 else _load_4(address, 0)
    size = w.size
    return size if length < 0 else smaller(length, size)


def find_lengths(w: Any, at: int) -> Any:
    """Where the length of a row lies."""
    address = w.lengths
    for k in range(w.rank):
        address += load_word(at, 8 * k) * w.lengths_by[k].stride
    return address


hidden = word(lambda f, value: f.opaque(value))
"""A number that LLVM knows nothing about."""


def make_moves(width: int, stream: bool) -> Any:
    """move(source, target, count): some elements; turn(first, source, target, count, length): those from a first one
    on along the axis, of which those below the length are turned round."""
    run, backward, gathered, strided = (
        make_row(kind, width, stream, far=False) for kind in ("run", "backward", "gathered", "strided")
    )
    aligned = make_row("backward", width, stream, far=True)

    def move(source: Way, target: Way, count: int) -> None:
        (read, source_step), (written, target_step) = source, target
        if target_step != width:
            strided(read, written, count, source_step, target_step, read)
        elif source_step == width:
            run(read, written, count, source_step, target_step, read)
        elif source_step == -width:
            # A step that is not known: of a known one LLVM 20 fails an assertion.
            if count >= ALIGNED_FROM // width:
                aligned(read, written, count, hidden(source_step), target_step, read)
            else:
                backward(read, written, count, hidden(source_step), target_step, read)
        else:
            gathered(read, written, count, source_step, target_step, read)

    def turn(first: int, source: Way, target: Way, count: int, length: int) -> None:
        (read, source_step), (written, target_step) = source, target
        turned = larger(smaller(length - first, count), 0)
        if turned > 0:
            last = read + (length - 1 - 2 * first) * source_step
            move((last, -source_step), target, turned)
        if turned < count:
            from_here, to_here = read + turned * source_step, written + turned * target_step
            move((from_here, source_step), (to_here, target_step), count - turned)

    return move, turn


def make_reverse(width: int, stream: bool) -> Any:
    """The kernel for rows that have one length each."""
    move, turn = make_moves(width, stream)

    def row(words: int, at: int, first: int, source: Way, target: Way, count: int, after: int) -> None:
        w = REVERSE(words)
        length, axis = load_length(w, find_lengths(w, at)), w.axis
        if axis < 0:
            turn(first, source, target, count, length)
            return
        (read, source_step), i = source, load_word(at, 8 * axis)
        on = (length - 1 - 2 * i) * w.source_axis if i < length else 0
        move((read + on, source_step), target, count)

    return make_walk(row)


def make_reverse_columns(width: int, stream: bool) -> Any:
    """The kernel for an axis outside columns that have a length each: a unit is a tile of columns and rows.

    Columns beside one another are moved together where their lengths are equal, unless few are. The words' axis is
    here counted in blocks.
    """
    move, turn = make_moves(width, stream)
    stack = make_stack(16 * (COLUMNS + 1))

    def row(words: int, at: int, first: int, source: Way, target: Way, count: int, after: int) -> None:
        (read, source_step), (written, target_step), w = source, target, REVERSE(words)
        top, source_axis = load_word(at, 8 * w.axis) * BLOCK, w.source_axis
        bottom = smaller(top + BLOCK, w.size)
        target_axis, lengths_step = w.target_axis, w.lengths_step
        lengths, runs = find_lengths(w, at) + first * lengths_step, stack()
        number, before = 0, -1
        for j in range(count):
            length = load_length(w, lengths + j * lengths_step)
            if length != before:
                store_word(runs, 16 * number, j)
                store_word(runs, 16 * number + 8, length)
                number, before = number + 1, length
        store_word(runs, 16 * number, count)
        together = larger(quotient(LINE, larger(target_step, -target_step)), 1)
        if number * together <= count:
            for i in range(top, bottom):
                for r in range(number):
                    j, length = load_word(runs, 16 * r), load_word(runs, 16 * r + 8)
                    from_row = length - 1 - i if i < length else i
                    from_here = read + from_row * source_axis + j * source_step
                    to_here = written + i * target_axis + j * target_step
                    number_alike = load_word(runs, 16 * r + 16) - j
                    move((from_here, source_step), (to_here, target_step), number_alike)
            return
        for low in range(0, count, together):
            for i in range(top, bottom, ROWS):
                from_here, to_here = read + i * source_axis, written + i * target_axis
                height = smaller(ROWS, bottom - i)
                for j in range(low, smaller(low + together, count)):
                    length = load_length(w, lengths + j * lengths_step)
                    s, t = (from_here + j * source_step, source_axis), (to_here + j * target_step, target_axis)
                    turn(i, s, t, height, length)

    return make_walk(row)
