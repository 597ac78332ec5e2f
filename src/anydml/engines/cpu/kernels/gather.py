"""Indexed copy: the bounds first, then elements, rows or any block, by tuples of any index type.

Words after the header: source, indices, target, coordinates, coordinate step (bytes between the coordinates of a
tuple), block count, block source step, block target step, rank of the tuples, rank of the block's outer dimensions;
then size and source stride of each indexed dimension (8 pairs); size, index stride, source stride and target stride of
each dimension of tuples (8 fours); size, source stride and target stride of the block's outer dimensions (8 threes).
A unit is one tuple.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba.core import types

from anydml.engines.cpu.kernels import HEADER
from anydml.engines.cpu.language import (
    copy_row,
    larger,
    load_bits,
    load_word,
    make_load,
    make_piece,
    prefetch,
    quotient,
    remainder,
    smaller,
    store_bits,
)

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST = HEADER * 8
INDEXED = FIRST + 8 * 10
TUPLES = INDEXED + 8 * 16
BLOCKS = TUPLES + 8 * 32
AHEAD = 16
"""Tuples ahead whose block is fetched already."""


def _make_load_index(kind: str) -> Any:
    """load(address, offset): an index as a signed word; a UINT64 of 2^63 and more reads as a negative number."""
    width, signed = int(kind[1:]) // 8, kind[0] == "i"

    def widen(builder: Any, value: Any) -> Any:
        if width == 8:
            return value
        return (builder.sext if signed else builder.zext)(value, ir.IntType(64))

    return make_load(types.int64, ir.IntType(8 * width), widen)


def make_index(kind: str) -> Any:
    """index(address, offset, size): an index as one of its dimension, or -1 where it is outside."""
    load, signed = _make_load_index(kind), kind[0] == "i"

    def index(address: int, offset: int, size: int) -> Any:
        i = load(address, offset)
        if signed and i < 0:
            i += size
        return i if 0 <= i < size else -1

    return index


def make_clamped(kind: str) -> Any:
    """clamped(address, offset, size): the nearest index of the dimension."""
    load, signed = _make_load_index(kind), kind[0] == "i"

    def clamped(address: int, offset: int, size: int) -> Any:
        i = load(address, offset)
        if signed:
            if i < 0:
                i += size
            return smaller(larger(i, 0), size - 1)
        return size - 1 if i < 0 else smaller(i, size - 1)

    return clamped


def make_check(kind: str, compile_inline: Callable[[Any], Any]) -> Any:
    """The kernel that returns the first tuple of a range with an index outside, counted from 1; 0 for none."""
    index = compile_inline(make_index(kind))

    def kernel(words: int, begin: int, end: int) -> int:
        indices, coordinates = load_word(words, FIRST + 8), load_word(words, FIRST + 24)
        coordinate_step = load_word(words, FIRST + 32)
        rank = load_word(words, FIRST + 64)
        inner = load_word(words, TUPLES + 32 * (rank - 1)) if rank > 0 else 1
        step = load_word(words, TUPLES + 32 * (rank - 1) + 8) if rank > 0 else 0
        unit = begin
        while unit < end:  # one row of tuples at a time
            rest = quotient(unit, inner)
            first = unit - rest * inner
            count = smaller(inner - first, end - unit)
            base = indices + first * step
            for k in range(rank - 2, -1, -1):
                size = load_word(words, TUPLES + 32 * k)
                base += remainder(rest, size) * load_word(words, TUPLES + 32 * k + 8)
                rest = quotient(rest, size)
            for k in range(coordinates):
                size = load_word(words, INDEXED + 16 * k)
                at = base + k * coordinate_step
                outside = 0
                for i in range(count):
                    outside += 1 if index(at, i * step, size) < 0 else 0
                if outside:  # rare: find the first tuple, whichever its coordinate
                    for i in range(count):
                        for j in range(coordinates):
                            where = base + j * coordinate_step
                            if index(where, i * step, load_word(words, INDEXED + 16 * j)) < 0:
                                return unit + i + 1
            unit += count
        return 0

    return kernel


def make_block(shape: str, width: int, compile_inline: Callable[[Any], Any]) -> Any:
    """block(words, source, target): a piece of so many bytes, a row of bytes, or a block of any layout."""
    if shape == "piece":
        piece = make_piece(width)

        def one_piece(words: int, source: int, target: int) -> None:
            piece(target, source)

        return compile_inline(one_piece)
    if shape == "row":
        copy = compile_inline(copy_row)

        def row(words: int, source: int, target: int) -> None:
            copy(target, source, load_word(words, FIRST + 40))

        return compile_inline(row)
    load, store = load_bits[width], store_bits[width]

    def any_layout(words: int, source: int, target: int) -> None:
        count = load_word(words, FIRST + 40)
        source_step, target_step = load_word(words, FIRST + 48), load_word(words, FIRST + 56)
        rank = load_word(words, FIRST + 72)
        rows = 1
        for k in range(rank):
            rows *= load_word(words, BLOCKS + 24 * k)
        for r in range(rows):
            rest, s, t = r, source, target
            for k in range(rank - 1, -1, -1):
                size = load_word(words, BLOCKS + 24 * k)
                i = remainder(rest, size)
                rest = quotient(rest, size)
                s += i * load_word(words, BLOCKS + 24 * k + 8)
                t += i * load_word(words, BLOCKS + 24 * k + 16)
            for i in range(count):
                store(t, i * target_step, load(s, i * source_step))

    return compile_inline(any_layout)


def make_gather(kind: str, shape: str, width: int, compile_inline: Callable[[Any], Any]) -> Any:
    """The kernel that copies. Every index is clamped: one that changes after the check still reads the source."""
    clamped = compile_inline(make_clamped(kind))
    block = make_block(shape, width, compile_inline)

    def kernel(words: int, begin: int, end: int) -> int:
        coordinates, coordinate_step = load_word(words, FIRST + 24), load_word(words, FIRST + 32)
        rank = load_word(words, FIRST + 64)
        first_size, first_stride = load_word(words, INDEXED), load_word(words, INDEXED + 8)
        second_size, second_stride = load_word(words, INDEXED + 16), load_word(words, INDEXED + 24)
        inner, index_step, source_step, target_step = 1, 0, 0, 0
        if rank > 0:
            last = TUPLES + 32 * (rank - 1)
            inner, index_step = load_word(words, last), load_word(words, last + 8)
            source_step, target_step = load_word(words, last + 16), load_word(words, last + 24)
        unit = begin
        while unit < end:  # one row of tuples at a time
            rest = quotient(unit, inner)
            start = unit - rest * inner
            count = smaller(inner - start, end - unit)
            source = load_word(words, FIRST) + start * source_step
            indices = load_word(words, FIRST + 8) + start * index_step
            target = load_word(words, FIRST + 16) + start * target_step
            for k in range(rank - 2, -1, -1):
                size = load_word(words, TUPLES + 32 * k)
                i = remainder(rest, size)
                rest = quotient(rest, size)
                indices += i * load_word(words, TUPLES + 32 * k + 8)
                source += i * load_word(words, TUPLES + 32 * k + 16)
                target += i * load_word(words, TUPLES + 32 * k + 24)
            # Loops of their own for one and two coordinates: the fewer steps between two fetches, the more are under
            # way at once, and these loops wait for little else.
            if coordinates == 1:
                for i in range(count):
                    if i + AHEAD < count:
                        prefetch(source + clamped(indices, (i + AHEAD) * index_step, first_size) * first_stride)
                    place = source + i * source_step + clamped(indices, i * index_step, first_size) * first_stride
                    block(words, place, target + i * target_step)
            elif coordinates == 2:
                for i in range(count):
                    if i + AHEAD < count:
                        soon = indices + (i + AHEAD) * index_step
                        prefetch(
                            source
                            + clamped(soon, 0, first_size) * first_stride
                            + clamped(soon, coordinate_step, second_size) * second_stride
                        )
                    place = source + i * source_step + clamped(indices, i * index_step, first_size) * first_stride
                    place += clamped(indices, i * index_step + coordinate_step, second_size) * second_stride
                    block(words, place, target + i * target_step)
            else:
                for i in range(count):
                    place = source + i * source_step
                    for k in range(coordinates):
                        size, stride = load_word(words, INDEXED + 16 * k), load_word(words, INDEXED + 16 * k + 8)
                        place += clamped(indices, i * index_step + k * coordinate_step, size) * stride
                    block(words, place, target + i * target_step)
            unit += count
        return 0

    return kernel
