"""Strided copy: contiguous runs, runs backwards, every second element, any strides, one element repeated, transposes.

Words after the header: source, target, count, source step, target step, segments, segment length, outer rank, then
size, source stride and target stride of each outer dimension, outermost first. Addresses and strides are in bytes,
counts in elements. A unit is one segment of one row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.engines.cpu.kernels import HEADER
from anydml.engines.cpu.language import (
    VECTOR_BYTES,
    copy_row,
    larger,
    load_bits,
    load_word,
    make_move,
    make_stack,
    make_transpose,
    quotient,
    remainder,
    scratch,
    smaller,
    store_bits,
    store_word,
)

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST = HEADER * 8
OUTER = FIRST + 8 * 8


def make_row(kind: str, width: int, stream: bool, compile_inline: Callable[[Any], Any]) -> Any:
    """row(source, target, count, source step, target step), for one shape of the innermost dimension."""
    load, store = load_bits[width], store_bits[width]
    lanes = VECTOR_BYTES // width
    copy = compile_inline(copy_row)

    def strided(source: int, target: int, count: int, source_step: int, target_step: int) -> None:
        for i in range(count):
            store(target, i * target_step, load(source, i * source_step))

    def repeated(source: int, target: int, count: int, source_step: int, target_step: int) -> None:
        value = load(source, source_step * 0)
        for i in range(count):
            store(target, i * target_step, value)

    def gathered(source: int, target: int, count: int, source_step: int, target_step: int) -> None:
        for i in range(count):
            store(target, i * width, load(source, i * source_step))

    def run(source: int, target: int, count: int, source_step: int, target_step: int) -> None:
        copy(target, source, count * width)

    if kind in ("strided", "repeated", "gathered") or (kind == "run" and not stream):
        return {"strided": strided, "repeated": repeated, "gathered": gathered, "run": run}[kind]

    # Whole vectors: `step` elements of the source for one of the target, from `back` elements before the first on.
    step = {"run": 1, "backward": -1, "second": 2, "second_back": -2}[kind]
    span = lanes * abs(step)
    back = span - 1 if step < 0 else 0
    move = make_move(width, lambda i: back + step * i, abs(step), stream=stream)

    def vectors(source: int, target: int, count: int, source_step: int, target_step: int) -> None:
        i = 0
        if stream:  # up to the first whole line of the target
            i = smaller(count, (-target % VECTOR_BYTES) // width)
            for j in range(i):  # by the step at run time: on one known to be -2 bytes LLVM 20 fails an assertion
                store(target, j * width, load(source, j * source_step))
        # The last vector of a stride above 1 would read past what the last element needs.
        whole = (count - i) // lanes if step * step == 1 else larger(count - i - 1, 0) // lanes
        for j in range(whole):
            at = i + j * lanes
            move(target + at * width, source + (at * step - back) * width)
        for j in range(i + whole * lanes, count):
            store(target, j * width, load(source, j * source_step))

    return vectors


def make_copy(width: int, kind: str, stream: bool, compile_inline: Callable[[Any], Any]) -> Any:
    """The kernel for rows of one kind."""
    row = compile_inline(make_row(kind, width, stream, compile_inline))

    def kernel(words: int, begin: int, end: int) -> int:
        source, target = load_word(words, FIRST), load_word(words, FIRST + 8)
        count = load_word(words, FIRST + 16)
        source_step, target_step = load_word(words, FIRST + 24), load_word(words, FIRST + 32)
        segments, length = load_word(words, FIRST + 40), load_word(words, FIRST + 48)
        rank = load_word(words, FIRST + 56)
        at = scratch()
        rest = quotient(begin, segments)
        segment = begin - rest * segments
        for k in range(rank - 1, -1, -1):
            size = load_word(words, OUTER + 24 * k)
            i = remainder(rest, size)
            rest = quotient(rest, size)
            store_word(at, 8 * k, i)
            source += i * load_word(words, OUTER + 24 * k + 8)
            target += i * load_word(words, OUTER + 24 * k + 16)
        for _ in range(begin, end):
            first = segment * length
            row(
                source + first * source_step,
                target + first * target_step,
                smaller(length, count - first),
                source_step,
                target_step,
            )
            segment += 1
            if segment < segments:
                continue
            segment = 0
            k = rank - 1
            while k >= 0:  # the next row: one on in the innermost dimension that has one
                i = load_word(at, 8 * k) + 1
                size = load_word(words, OUTER + 24 * k)
                source += load_word(words, OUTER + 24 * k + 8)
                target += load_word(words, OUTER + 24 * k + 16)
                if i < size:
                    store_word(at, 8 * k, i)
                    break
                store_word(at, 8 * k, 0)
                source -= size * load_word(words, OUTER + 24 * k + 8)
                target -= size * load_word(words, OUTER + 24 * k + 16)
                k -= 1
        return 0

    return kernel


BLOCK = 16
"""Rows of a tile: elements that follow one another in the source, a line of them for four bytes."""
RUN = 64
"""Columns of a tile: elements that follow one another in the target."""


def make_transposed(width: int, compile_inline: Callable[[Any], Any]) -> Any:
    """A transpose: the target is contiguous along one dimension, the source along another.

    Words as above, but rank counts the dimensions outside both; `count` is along the target's contiguous dimension,
    with source step across; segments and length describe the source's: its size, and the target's stride along it.
    A unit is RUN elements of the target's rows by the whole of the source's, so that the source is read in one
    stretch. A tile is turned on the stack and written in runs, because target rows a power of two apart, written
    side by side, drive one another out of the cache.
    """
    load, store, tile = load_bits[width], store_bits[width], make_transpose(width)
    copy, stack = compile_inline(copy_row), make_stack(BLOCK * RUN * width)

    def kernel(words: int, begin: int, end: int) -> int:
        count, across = load_word(words, FIRST + 16), load_word(words, FIRST + 24)
        others, along = load_word(words, FIRST + 40), load_word(words, FIRST + 48)
        rank = load_word(words, FIRST + 56)
        runs = (count + RUN - 1) // RUN
        turned = stack()
        for unit in range(begin, end):
            rest = quotient(unit, runs)
            start = (unit - rest * runs) * RUN
            source, target = load_word(words, FIRST), load_word(words, FIRST + 8)
            for k in range(rank - 1, -1, -1):
                size = load_word(words, OUTER + 24 * k)
                i = remainder(rest, size)
                rest = quotient(rest, size)
                source += i * load_word(words, OUTER + 24 * k + 8)
                target += i * load_word(words, OUTER + 24 * k + 16)
            length = smaller(RUN, count - start)
            for low in range(0, others, BLOCK):
                height = smaller(BLOCK, others - low)
                if height == BLOCK and length == RUN:
                    for i in range(0, RUN, 4):
                        for j in range(0, BLOCK, 4):
                            at = source + (start + i) * across + (low + j) * width
                            tile(turned + (j * RUN + i) * width, RUN * width, at, across)
                    for j in range(BLOCK):
                        copy(target + (low + j) * along + start * width, turned + j * RUN * width, RUN * width)
                else:
                    for j in range(low, low + height):
                        for i in range(start, start + length):
                            store(target, j * along + i * width, load(source, i * across + j * width))
        return 0

    return kernel
