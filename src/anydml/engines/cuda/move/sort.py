"""Top-k and sorts, planned: chunks of lines first, then their results; or an element's rank by comparison with all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anydml.engines.common.program import Program
from anydml.engines.common.tiles import ceil_power, fastest_first
from anydml.engines.cuda.launch import IS_INTERPRETED, Kernel, KernelProgram, bases_of, kind_of
from anydml.engines.cuda.move.sort_kernel import order_lines, top_lines
from anydml.engines.cuda.scratch import DeviceWords
from anydml.ir.loops import Loops, merge, order, squeeze

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.engines.common.tiles import Numbers
    from anydml.engines.cuda.device import Figures
    from anydml.ir.verbs import Sort

# Orders, planned: a program for some elements of a line.


MOST_EACH = 64
"""Elements of a line that a program has: each meets as many others at once."""


class RankProgram(KernelProgram):
    """An order, planned."""

    __slots__ = ()

    @classmethod
    def plan(cls, primitive: Sort, figures: Figures) -> RankProgram:
        """Blocks of all lines."""
        source, target, axis = primitive.source, primitive.target, primitive.axis
        count = source.sizes[axis]
        others = [k for k in range(len(source.sizes)) if k != axis]
        lines = Loops(source.sizes, (source.strides, target.strides), (0, 0)).pick(others)
        lines = merge(order(squeeze(lines), 1))
        each = min(ceil_power(count), MOST_EACH)
        blocks = -(-count // each)
        numbers: Numbers = (
            *(count, target.sizes[axis], source.strides[axis], target.strides[axis], blocks),
            *fastest_first(lines.sizes, *lines.strides),
        )
        constants = {"IS_FLOAT": source.data_type.is_float, "LARGEST": primitive.largest, "EACH": each}
        pointers = (kind_of(source.data_type), kind_of(target.data_type))
        kernel = Kernel(order_lines, pointers, numbers, constants, lines.count * blocks, 4, figures)
        kernel.prepare()
        return cls(kernel, bases_of((source, target), (source.offset, target.offset)))


# Orders of which the first few are wanted, planned: chunks of lines first, then chunks of what those gave.


CHUNK = 256 if not IS_INTERPRETED else 128
"""Elements that are sorted at once: 16 of 2^20 take 27 us so, 36 with 1,024; PyTorch 124."""
TOGETHER = 256
"""Elements of short lines in one program."""
LONGEST = 4096
"""Elements of a line of which all may be wanted."""


@dataclass(frozen=True, slots=True)
class TopKProgram(Program):
    """The first few of an order, planned."""

    primitive: Sort
    kernels: tuple[Kernel, ...]
    keys: tuple[int, ...]
    """Between two kernels, how many keys."""

    @classmethod
    def plan(cls, primitive: Sort, figures: Figures) -> TopKProgram | None:
        """For elements of at most 32 bits; None for others, for lines past 2^32, and where many of many are wanted."""
        source, target, axis = primitive.source, primitive.target, primitive.axis
        count, wanted = source.sizes[axis], target.sizes[axis]
        kept = ceil_power(wanted)
        length = ceil_power(count) if count <= max(CHUNK, kept) else max(CHUNK, 4 * kept)
        if source.data_type.size_in_bytes > 4 or count >= 2**32 - 1 or length > LONGEST:
            return None
        others = [k for k in range(len(source.sizes)) if k != axis]
        lines = Loops(source.sizes, (source.strides, target.strides), (0, 0)).pick(others)
        lines = merge(order(squeeze(lines), 1))
        kernels: list[Kernel] = []
        keys: list[int] = []
        while True:
            chunks, is_first = -(-count // length), not kernels
            is_last = chunks == 1
            numbers: Numbers = (
                *(lines.count, count, wanted, chunks, source.strides[axis], target.strides[axis]),
                *fastest_first(lines.sizes, *lines.strides),
            )
            rows = max(min(TOGETHER // length, ceil_power(lines.count)), 1) if is_last else 1
            constants = {
                "LARGEST": primitive.largest, "FROM_KEYS": not is_first, "TO_KEYS": not is_last, "ROWS": rows,
                "LENGTH": length, "KEPT": kept,
            }  # fmt: skip
            pointers = (
                kind_of(source.data_type) if is_first else "i64",
                kind_of(target.data_type) if is_last else "i64",
            )
            programs = -(-lines.count // rows) * chunks
            kernels.append(Kernel(top_lines, pointers, numbers, constants, programs, 4, figures))
            kernels[-1].prepare()
            if is_last:
                return cls(primitive, tuple(kernels), tuple(keys))
            count = chunks * kept
            keys.append(lines.count * count)
            length = min(length, max(ceil_power(count), 2 * kept))

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in; keys of chunks get memory of the program's own."""
        source, target = (
            places[view.tensor] + view.offset * view.data_type.size_in_bytes
            for view in (self.primitive.source, self.primitive.target)
        )
        if not self.keys:
            return self.kernels[0].launch((source, target))
        words = DeviceWords(sum(self.keys) + 2 * len(self.keys), self.kernels[0].figures.index)
        at, between = words.address, []
        for count in self.keys:
            between.append(-(-at // 16) * 16)
            at = between[-1] + 8 * count
        ends = zip((source, *between), (*between, target), strict=True)
        starts = [kernel.launch(pair) for kernel, pair in zip(self.kernels, ends, strict=True)]
        return words.around(starts, "order")
