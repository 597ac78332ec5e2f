"""Gathers for a CPU that itself finds work beyond a load that waits, as an x86 does: tuple by tuple, without batches.

One thread of a Xeon takes 27 ms for 3,200,000 rows of 32 bytes so, and 37 in batches; for 400,000 rows of 512 bytes 46,
and 52 in batches. Rows below 32 bytes are the other way round, and so is everything on an Arm Neoverse-N1.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from anydml.engines.cpu.kernels.near import INDEXED
from anydml.engines.cpu.kernels.outer import FIRST
from anydml.engines.cpu.language import I64, POINTER, load_vector, load_word, prefetch_near, quotient, smaller
from anydml.engines.cpu.translate import word

LINE = 64
TOGETHER = 2
"""Pieces that are loaded before the first of them is stored."""
AHEAD_BYTES = 4096
"""Rows are fetched so far ahead."""


def _make_take(kind: str, width: int, count: int, *, checked: bool) -> Any:
    """take(words, source, its step, indices, their step, target, its step): so many tuples of one coordinate."""
    index, signed = ir.IntType(int(kind[1:])), kind[0] == "i"
    piece = ir.VectorType(I64, width // 8)

    def place(builder: Any, i: Any, size: Any, stride: Any) -> Any:
        """Where the nearest index of the dimension leads, in bytes; for one that was checked, any will do."""
        last, zero = builder.sub(size, ir.Constant(I64, 1)), ir.Constant(I64, 0)
        if index.width < 64:
            i = (builder.sext if signed else builder.zext)(i, I64)
        if signed:
            i = builder.select(builder.icmp_signed("<", i, zero), builder.add(i, size), i)
            if not checked:
                i = builder.select(builder.icmp_signed("<", i, zero), zero, i)
        return builder.mul(builder.select(builder.icmp_unsigned("<", i, last), i, last), stride)

    @word
    def take(
        builder: Any,
        words: Any,
        source: Any,
        source_step: Any,
        indices: Any,
        index_step: Any,
        target: Any,
        target_step: Any,
    ) -> None:
        size, stride = (load_vector(builder, builder.add(words, ir.Constant(I64, INDEXED + on)), I64) for on in (0, 8))
        found = []
        for _ in range(count):
            found.append(load_vector(builder, indices, index))
            indices = builder.add(indices, index_step)
        values = []
        for i in found:
            values.append(load_vector(builder, builder.add(source, place(builder, i, size, stride)), piece))
            source = builder.add(source, source_step)
        for value in values:
            builder.store(value, builder.inttoptr(target, POINTER)).align = 1
            target = builder.add(target, target_step)

    return take


def make_take(kind: str, width: int, checked: bool) -> Any:
    """A row of tuples of one coordinate that each pick a piece; `checked` says that every index is inside."""
    some, one = (_make_take(kind, width, count, checked=checked) for count in (TOGETHER, 1))

    def row(
        words: int,
        source: int,
        source_step: int,
        indices: int,
        index_step: int,
        target: int,
        target_step: int,
        count: int,
        again: bool,
    ) -> None:
        whole = count // TOGETHER * TOGETHER
        for i in range(0, whole, TOGETHER):
            some(
                words,
                source + i * source_step,
                source_step,
                indices + i * index_step,
                index_step,
                target + i * target_step,
                target_step,
            )
        for i in range(whole, count):
            one(
                words,
                source + i * source_step,
                source_step,
                indices + i * index_step,
                index_step,
                target + i * target_step,
                target_step,
            )

    return row


def make_ahead(block: Any, clamped: Any) -> Any:
    """A row of tuples that each pick a row of bytes, by block(words, source, target), fetched some rows ahead."""

    def find_block(words: int, source: int, indices: int) -> int:
        coordinates, coordinate_step = load_word(words, FIRST + 24), load_word(words, FIRST + 32)
        for k in range(coordinates):
            size, stride = load_word(words, INDEXED + 16 * k), load_word(words, INDEXED + 16 * k + 8)
            source += clamped(indices + k * coordinate_step, 0, size) * stride
        return source

    def row(
        words: int,
        source: int,
        source_step: int,
        indices: int,
        index_step: int,
        target: int,
        target_step: int,
        count: int,
        again: bool,
    ) -> None:
        length = load_word(words, FIRST + 40)
        fetched = smaller(length, AHEAD_BYTES)
        ahead = quotient(AHEAD_BYTES, fetched)
        for i in range(count):
            j = smaller(i + ahead, count - 1)
            soon = find_block(words, source + j * source_step, indices + j * index_step)
            for k in range(0, fetched, LINE):
                prefetch_near(soon + k)
            block(
                words, find_block(words, source + i * source_step, indices + i * index_step), target + i * target_step
            )

    return row
