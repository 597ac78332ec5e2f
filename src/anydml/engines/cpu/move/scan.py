"""Running sums and products, planned: the kernel is chosen by where the axis lies."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from anydml.engines.common.threads import get_num_threads
from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.features import IS_ARM, has_lanes
from anydml.engines.cpu.launch.call import lay_out, make_dispatch
from anydml.engines.cpu.launch.record import STREAM_FROM, keeps_lines, outer_words
from anydml.ir.loops import Loops, loops_of, simplify
from anydml.memory import numpy_address

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.cpu.kernel import Kernel
    from anydml.ir.verbs import Scan
    from anydml.ir.views import View


LONG_TILE = 4 * 4112
"""Elements in a tile of a long row, as its kernel has it."""
COLUMN_TILE = 4096
BLOCK = 16
"""Columns that are done at once, as their kernel has it."""


class ScanProgram(NamedTuple):
    """A running sum or product, planned."""

    primitive: Scan
    kernel: Kernel
    words: tuple[int, ...]
    """After the two addresses."""
    offsets: tuple[int, ...]
    """In bytes: in the source, in the target, and in the tallies that are handed on."""
    units: int
    size: int
    rows: tuple[tuple[int, ...], ...] = ()
    """For long rows, the bytes from the first to each, in the same."""
    tallies: tuple[int, ...] = ()
    """The words after the addresses of tallies."""
    unaligned: str = ""
    """The kernel for a target that is not aligned to its elements, where that is another."""

    @classmethod
    def plan(cls, primitive: Scan) -> ScanProgram:
        """Choose the kernel by where the axis lies."""
        source, target, axis = primitive.source, primitive.target, primitive.axis
        width, count = source.data_type.size_in_bytes, source.sizes[axis]
        steps = (source.strides[axis], target.strides[axis])
        views = (source, *primitive.targets)
        others = loops_of(*views).pick([k for k in range(len(source.sizes)) if k != axis])
        if primitive.reverse:
            starts = tuple(o + (count - 1) * step for o, step in zip(others.offsets, (*steps, 0), strict=False))
            others = Loops(others.sizes, others.strides, starts)
            steps = (-steps[0], -steps[1])
        if count == 1:
            steps = (1, 1)
        loops = simplify(others, 1)
        widths = tuple(view.data_type.size_in_bytes for view in views)
        offsets, size = _offsets(loops, widths), loops.count * count * width * 2
        kind = ("f" if source.data_type.is_float else "u") + str(width * 8)
        flags = (" exclusive" if primitive.exclusive else "") + (" carried" if primitive.after else "")
        name = f"{kind} {primitive.function}{flags}"
        along = (count, steps[0] * width, steps[1] * width)
        if steps in ((1, 1), (-1, -1)):
            turned = " reverse" if steps == (-1, -1) else ""
            # A product of some numbers may be infinite where that of all is 0, so those of floats go from the first on.
            is_whole = kind[0] == "f" and (primitive.function == "product" or primitive.in_turn)
            if loops.count < 8 and count >= 8 * LONG_TILE and not is_whole:
                kernel = get_kernel(f"scan long {name}{turned}")
                return cls(primitive, kernel, (*along, 1, 0, 0, 1, 0), offsets, 1, size, _places(loops, widths))
            return cls._plan_across(primitive, f"scan rows {name}{turned}", along, loops, widths, 4, stream=True)
        if loops.sizes and loops.strides[0][-1] == loops.strides[1][-1] == 1 and loops.sizes[-1] >= _least_columns():
            tile = _column_tile(loops)
            deep = "" if tile >= loops.sizes[-1] == abs(steps[1]) else " deep"
            deep = " narrow" if loops.sizes[-1] < BLOCK else deep
            columns = f"scan columns {name}{deep}"
            return cls._plan_across(primitive, columns, along, loops, widths, tile, stream=IS_ARM)
        rank = len(loops.sizes)
        words = (*along, 1, 0, 0, 1, rank, 0, *outer_words(_first_two(loops), width, rank))
        kernel = get_kernel(f"scan lines {name}")
        return cls(primitive, kernel, words, offsets, loops.count, size, tallies=(0, *_steps(loops, widths)))

    @classmethod
    def _plan_across(
        cls,
        primitive: Scan,
        name: str,
        along: tuple[int, int, int],
        loops: Loops,
        widths: tuple[int, ...],
        tile: int,
        *,
        stream: bool,
    ) -> ScanProgram:
        """Tiles across the innermost of the other dimensions, large ones written past the cache where that pays.

        For columns it does not on an x86: 16,384 x 1,024 take 13.1 ms so, and 11.6 without.
        """
        width, rank = widths[0], max(len(loops.sizes) - 1, 0)
        size = loops.count * along[0] * width * 2
        across, steps = 1, (0, 0)
        if loops.sizes:
            across, steps = loops.sizes[-1], (loops.strides[0][-1] * width, loops.strides[1][-1] * width)
        tiles = -(-across // tile)
        words = (*along, across, *steps, tiles, rank, tile, *outer_words(_first_two(loops), width, rank))
        *outer, far = _steps(loops, widths) or (0,)
        units, kernel = tiles * math.prod(loops.sizes[:rank]), get_kernel(name)
        if stream and size // 2 >= STREAM_FROM and keeps_lines(primitive.target):
            kernel = get_kernel(f"{name} stream")
        offsets = _offsets(loops, widths)
        return cls(primitive, kernel, words, offsets, units, size, unaligned=name, tallies=(far, *outer))

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in."""
        source = places[self.primitive.source.tensor] + self.offsets[0]
        target = places[self.primitive.target.tensor] + self.offsets[1]
        ends = [0 if view is None else places[view.tensor] + self.offsets[2] for view in self._ends()]
        if self.rows:
            rows = [
                ((source + s, target + t, *self.words), [end and end + on[0] for end in ends])
                for s, t, *on in self.rows
            ]
            return _Long(self.kernel, rows, self.words[0], self.size // len(rows))
        words = (source, target, *self.words, *ends, *self.tallies)
        kernel = self.kernel
        if self.unaligned and target % self.primitive.target.data_type.size_in_bytes:
            kernel = get_kernel(self.unaligned)
        return make_dispatch(kernel, words, self.units, self.size)

    def _ends(self) -> tuple[View | None, ...]:
        """The tallies before and after, where they are handed on."""
        return (self.primitive.before, self.primitive.after) if self.primitive.after else ()


def _offsets(loops: Loops, widths: Sequence[int]) -> tuple[int, ...]:
    return tuple(offset * width for offset, width in zip(loops.offsets, widths, strict=True))


def _first_two(loops: Loops) -> Loops:
    """Without the tallies."""
    return Loops(loops.sizes, loops.strides[:2], loops.offsets[:2])


def _steps(loops: Loops, widths: Sequence[int]) -> tuple[int, ...]:
    """The bytes from one tally to the next in each dimension; none where they are not handed on."""
    return tuple(stride * widths[2] for stride in loops.strides[2]) if len(widths) > 2 else ()


def _places(loops: Loops, widths: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(
            sum(i * s for i, s in zip(at, row, strict=True)) * width
            for row, width in zip(loops.strides, widths, strict=True)
        )
        for at in np.ndindex(loops.sizes)
    )


def _least_columns() -> int:
    """Columns from which on they are done by the vector."""
    return 2 if has_lanes() else BLOCK


def _column_tile(loops: Loops) -> int:
    """The widest tile that leaves work for every thread: wide ones are fetched in long stretches."""
    across, outer = loops.sizes[-1], math.prod(loops.sizes[:-1])
    per_step = max(-(-get_num_threads() // outer), 1)
    return max(min(COLUMN_TILE, -(-across // per_step // 16) * 16), 64)


class _Long:
    """Rows, one after the other, each shared by all threads, who hand the total on from tile to tile.

    The chain of totals is made for each dispatch: several threads may dispatch one binding at once.
    """

    __slots__ = ("_kernel", "_rows", "_size", "_tiles")

    def __init__(self, kernel: Kernel, rows: list[tuple[tuple[int, ...], list[int]]], count: int, size: int) -> None:
        self._kernel, self._rows, self._size = kernel, rows, size
        self._tiles = -(-count // LONG_TILE)

    @property
    def records(self) -> list[bytes]:
        """The words of each row, but for the chain."""
        return [lay_out(self._kernel, (*row, 0, *ends, 0), 1, self._size) for row, ends in self._rows]

    def __call__(self) -> None:
        workers = min(get_num_threads(), self._tiles)
        for row, ends in self._rows:
            chain = np.zeros(2 + 2 * self._tiles, np.int64)
            make_dispatch(self._kernel, (*row, numpy_address(chain), *ends, 0), workers, self._size)()
