"""Strided copy: contiguous runs, runs backwards, every second element, any strides, one element repeated, transposes.

Words are those of a walk, in `codegen/outer_loops.py`.
"""

from __future__ import annotations

from typing import Any

from anydml.engines.cpu.codegen.language import (
    VECTOR_BYTES,
    copy_row,
    larger,
    load_bits,
    load_word,
    make_move,
    make_piece,
    make_stack,
    make_transpose,
    prefetch,
    quotient,
    scratch,
    smaller,
    store_bits,
)
from anydml.engines.cpu.codegen.outer_loops import FIRST, OUTER, find_row, make_walk

EDGE_BYTES = 16
"""A row's ends, outside the target's whole lines, are copied by so many bytes."""
AHEAD = 2048
"""Bytes ahead that the source is fetched where its rows do not follow one another.

A prefetcher that guesses loses its way at each row's end: a block of half by half went from 0.77 of copy speed to
0.83 to 0.88 (Arm Neoverse-N1)."""


def make_row(kind: str, width: int, stream: bool, far: bool) -> Any:
    """row(source, target, count, source step, target step, source of the row after), for one innermost dimension.

    `stream` writes past the cache, `far` fetches ahead; both need a target aligned to its elements.
    """
    load, store = load_bits[width], store_bits[width]
    lanes = VECTOR_BYTES // width

    def strided(source: int, target: int, count: int, source_step: int, target_step: int, after: int) -> None:
        for i in range(count):
            store(target, i * target_step, load(source, i * source_step))

    def repeated(source: int, target: int, count: int, source_step: int, target_step: int, after: int) -> None:
        value = load(source, source_step * 0)
        for i in range(count):
            store(target, i * target_step, value)

    def gathered(source: int, target: int, count: int, source_step: int, target_step: int, after: int) -> None:
        for i in range(count):
            store(target, i * width, load(source, i * source_step))

    def run(source: int, target: int, count: int, source_step: int, target_step: int, after: int) -> None:
        copy_row(target, source, count * width)

    if kind in ("strided", "repeated", "gathered") or (kind == "run" and not stream and not far):
        return {"strided": strided, "repeated": repeated, "gathered": gathered, "run": run}[kind]

    # Whole vectors: `step` elements of the source for one of the target, from `back` elements before the first on.
    step = {"run": 1, "backward": -1, "second": 2, "second_back": -2}[kind]
    span = lanes * abs(step)
    back = span - 1 if step < 0 else 0
    move = make_move(width, lambda i: back + step * i, abs(step), stream=stream)
    few = EDGE_BYTES // width
    few_back = few * abs(step) - 1 if step < 0 else 0
    move_few = make_move(width, lambda i: few_back + step * i, abs(step), size=EDGE_BYTES)
    spare = 0 if abs(step) == 1 else 1
    ahead, stride = AHEAD // (span * width), lanes * step * width

    def copy_edge(source: int, target: int, begin: int, end: int, source_step: int, kept: int) -> None:
        # Elements begin .. end, the last `kept` of them one by one.
        whole = larger(end - begin - kept, 0) // few
        for j in range(whole):
            at = begin + j * few
            move_few(target + at * width, source + (at * step - few_back) * width)
        for j in range(begin + whole * few, end):  # by the step at run time: on a known -2 LLVM 20 fails an assertion
            store(target, j * width, load(source, j * source_step))

    def vectors(source: int, target: int, count: int, source_step: int, target_step: int, after: int) -> None:
        # Up to the first whole line of the target; every line after it is written whole and once, because a line
        # that is written in part, or twice, is read first.
        i = smaller(count, (-target % VECTOR_BYTES) // width) if stream or far else 0
        # The last vector of a stride above 1 would read past what the last element needs.
        whole = larger(count - i - spare, 0) // lanes
        first, done = source + (i * step - back) * width, i + whole * lanes
        copy_edge(source, target, 0, i, source_step, spare if i == count else 0)
        if step > 0:
            for j in range(whole):
                if far:
                    soon = first + (j + ahead) * stride
                    if j + ahead >= whole:
                        soon += after - source - whole * stride
                    for k in range(step):
                        prefetch(soon + k * VECTOR_BYTES)
                move(target + (i + j * lanes) * width, first + j * stride)
        else:  # from the far end, so that the source is read upwards: 0.93 of copy speed, the other way 0.87
            for j in range(whole - 1, -1, -1):
                if far:
                    soon = first + (j - ahead) * stride
                    if j < ahead:
                        soon += after - source + whole * stride
                    for k in range(-step):
                        prefetch(soon + k * VECTOR_BYTES)
                move(target + (i + j * lanes) * width, first + j * stride)
        # Last, because the next row's first edge is most often on the same line.
        copy_edge(source, target, done, count, source_step, spare)

    return vectors


def make_copy(width: int, kind: str, stream: bool, far: bool) -> Any:
    """The kernel for rows of one kind."""
    copy = make_row(kind, width, stream, far)

    def row(
        words: int,
        at: int,
        first: int,
        source: int,
        target: int,
        count: int,
        source_step: int,
        target_step: int,
        after: int,
    ) -> None:
        copy(source, target, count, source_step, target_step, after)

    return make_walk(row)


RUN = 64
"""Elements that a transpose writes to each row of the target at a time: whole lines."""
ROWS = 256
"""The most rows of the target that it writes in turn."""
TURNED = 40 * 1024
"""The most bytes of a turned tile, which lies on the stack: a thread of another's may have little of it."""
PITCH = RUN + 16
"""Elements between the rows of a turned tile: not a power of two, for the cache's sake."""
FETCHED = 8
"""Rows of the source ahead that are fetched already."""


def make_transposed(width: int, stream: bool) -> Any:
    """A transpose: the target is contiguous along one dimension, the source along another.

    Words as above, but rank counts the dimensions outside both; `count` is along the target's contiguous dimension,
    with source step across; segments and length describe the source's: its size, and the target's stride along it.
    A unit is the RUN elements from a line of the target on, or those before the first line, by the whole of the
    source's dimension. The source is read row by row and turned on the stack, and the target is written by the line:
    target rows are often a power of two apart, and drive one another out of the cache before a line is complete.
    `stream` writes past the cache, to rows that all lie alike in its lines.
    """
    load, store, tile = load_bits[width], store_bits[width], make_transpose(width)
    line = make_piece(VECTOR_BYTES, stream=stream)
    stack = make_stack(TURNED)
    pitch = PITCH * width
    most = min(ROWS, TURNED // pitch)

    def kernel(words: int, begin: int, end: int) -> int:
        count, across = load_word(words, FIRST + 16), load_word(words, FIRST + 24)
        others, along = load_word(words, FIRST + 40), load_word(words, FIRST + 48)
        rank = load_word(words, FIRST + 56)
        runs = (count + RUN - 1) // RUN + 1
        turned, at = stack(), scratch()
        for unit in range(begin, end):
            rest = quotient(unit, runs)
            source_on, target_on = find_row(words, OUTER, rank, rest, at)
            source, target = load_word(words, FIRST) + source_on, load_word(words, FIRST + 8) + target_on
            head = smaller(count, (-target % VECTOR_BYTES) // width)
            start = head + (unit - rest * runs - 1) * RUN
            length = larger(smaller(RUN, count - start), 0)
            if start < head:
                start, length = 0, head
            fours = length // 4 * 4
            for low in range(0, others, most):
                height = smaller(most, others - low)
                whole = height // 4 * 4
                first = source + start * across + low * width
                for i in range(0, fours, 4):
                    row = first + i * across
                    for j in range(0, height * width, VECTOR_BYTES):
                        for k in range(FETCHED, FETCHED + 4):
                            prefetch(row + k * across + j)
                    for j in range(0, whole, 4):
                        tile(turned + j * pitch + i * width, pitch, row + j * width, across)
                    for j in range(whole, height):
                        for k in range(4):
                            store(turned, j * pitch + (i + k) * width, load(row, k * across + j * width))
                for i in range(fours, length):
                    for j in range(height):
                        store(turned, j * pitch + i * width, load(first, i * across + j * width))
                for j in range(height):
                    place, row = target + (low + j) * along + start * width, turned + j * pitch
                    if length == RUN:
                        for i in range(0, RUN * width, VECTOR_BYTES):
                            line(place + i, row + i)
                    else:
                        copy_row(place, row, length * width)
        return 0

    return kernel
