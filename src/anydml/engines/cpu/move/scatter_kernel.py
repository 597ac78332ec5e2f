"""Scatters: blocks of updates to where tuples of indices say, in their order.

Words are those of a gather, from the updates, which are its source, to the target; the fours of the tuples have no
target stride. Behind the block's threes stand the parts that the first coordinate's dimension is cut into and the
length of one, the lanes, how many of them a unit takes, and their strides in the indices, the updates and the target;
then the rank of the batches, and size, index stride, update stride and target stride of each (8 fours).

A unit is a part of some lanes of a batch: it goes through all tuples, and writes those that lead into its part, so that
no two units write to one place, and the last of equal tuples stays.
"""

from __future__ import annotations

from typing import Any

from anydml.engines.cpu.codegen.language import load_word, quotient, remainder, smaller
from anydml.engines.cpu.codegen.outer_loops import FIRST
from anydml.engines.cpu.move.gather_kernel import BLOCKS, INDEXED, TUPLES, make_block, make_index

PARTS = BLOCKS + 8 * 24
BATCHES = PARTS + 8 * 8


def make_scatter(kind: str, shape: str, width: int) -> Any:
    """The kernel. An index outside its dimension leads nowhere: one that changes after the check does no harm."""
    index, block = make_index(kind), make_block(shape, width, False)

    def run(
        words: int,
        source: int,
        source_step: int,
        indices: int,
        index_step: int,
        target: int,
        count: int,
        lanes: int,
        low: int,
        high: int,
    ) -> None:
        coordinates, coordinate_step = load_word(words, FIRST + 24), load_word(words, FIRST + 32)
        size, stride = load_word(words, INDEXED), load_word(words, INDEXED + 8)
        lane_index, lane_source = load_word(words, PARTS + 32), load_word(words, PARTS + 40)
        lane_target = load_word(words, PARTS + 48)
        for i in range(count):
            for lane in range(lanes):
                at = indices + i * index_step + lane * lane_index
                first = index(at, 0, size)
                if low <= first < high:
                    to, is_inside = target + lane * lane_target + first * stride, 1
                    for k in range(1, coordinates):
                        other = index(at + k * coordinate_step, 0, load_word(words, INDEXED + 16 * k))
                        to += other * load_word(words, INDEXED + 16 * k + 8)
                        is_inside = 0 if other < 0 else is_inside
                    if is_inside:
                        block(words, source + i * source_step + lane * lane_source, to)

    def kernel(words: int, begin: int, end: int) -> int:
        rank = load_word(words, FIRST + 64)
        inner, index_step, source_step, rows = 1, 0, 0, 1
        if rank > 0:
            last = TUPLES + 32 * (rank - 1)
            inner, index_step, source_step = (
                load_word(words, last),
                load_word(words, last + 8),
                load_word(words, last + 16),
            )
        for k in range(rank - 1):
            rows *= load_word(words, TUPLES + 32 * k)
        parts, length = load_word(words, PARTS), load_word(words, PARTS + 8)
        width, most = load_word(words, PARTS + 16), load_word(words, PARTS + 24)
        groups = quotient(width + most - 1, most)
        batch_rank = load_word(words, PARTS + 56)
        for unit in range(begin, end):
            rest = quotient(unit, parts)
            low = (unit - rest * parts) * length
            number = quotient(rest, groups)
            lane = (rest - number * groups) * most
            source = load_word(words, FIRST) + lane * load_word(words, PARTS + 40)
            indices = load_word(words, FIRST + 8) + lane * load_word(words, PARTS + 32)
            target = load_word(words, FIRST + 16) + lane * load_word(words, PARTS + 48)
            for k in range(batch_rank - 1, -1, -1):
                size = load_word(words, BATCHES + 32 * k)
                i = remainder(number, size)
                number = quotient(number, size)
                indices += i * load_word(words, BATCHES + 32 * k + 8)
                source += i * load_word(words, BATCHES + 32 * k + 16)
                target += i * load_word(words, BATCHES + 32 * k + 24)
            for r in range(rows):
                left, x, s = r, indices, source
                for k in range(rank - 2, -1, -1):
                    size = load_word(words, TUPLES + 32 * k)
                    i = remainder(left, size)
                    left = quotient(left, size)
                    x += i * load_word(words, TUPLES + 32 * k + 8)
                    s += i * load_word(words, TUPLES + 32 * k + 16)
                run(words, s, source_step, x, index_step, target, inner, smaller(most, width - lane), low, low + length)
        return 0

    return kernel
