"""Strided copies, planned: the kernel is chosen by the innermost dimension; copies with one phase of a stride each
become one map.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.features import IS_ARM
from anydml.engines.cpu.launch.call import make_dispatch
from anydml.engines.cpu.launch.record import STREAM_FROM, keeps_lines, outer_words
from anydml.engines.cpu.rows.map import MOST_WOVEN, SHORT, plan_map
from anydml.engines.cpu.rows.row import EVERY
from anydml.ir.expressions import load
from anydml.ir.loops import Loops, loops_of, simplify
from anydml.ir.patterns import is_copy
from anydml.ir.verbs import Map, Write

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.engines.cpu.kernel import Kernel
    from anydml.engines.cpu.rows.program import MapProgram
    from anydml.ir.views import View

# Strided copies, planned: the kernel is chosen by the innermost dimension.


FAR_FROM = 1024 * 1024
"""Bytes of output from which on the input is fetched ahead, on Arm: x86 does as well by itself."""
SHORT_ROW, SHORT_FAR_FROM = 512, 8 * 1024 * 1024
"""Bytes of a row below which that is so from more bytes on: 7,168 rows of 448 take 29 ns each by memcpy and 44 so, and
28,672 of them 93 and 28."""
SEGMENT = 1024 * 1024
"""Bytes of a row that one unit of work copies."""
RUN = 64
"""The elements of a transpose's unit, as its kernel has them."""


class CopyProgram(NamedTuple):
    """A strided copy, planned."""

    primitive: Map
    kernel: Kernel
    words: tuple[int, ...]
    """After the two addresses."""
    offsets: tuple[int, int]
    """In bytes, from the tensors' first elements."""
    units: int
    size: int
    unaligned: str = ""
    """The kernel for a target that is not aligned to its elements, where that is another."""

    @classmethod
    def plan(cls, primitive: Map) -> CopyProgram:
        """Choose the kernel by the innermost dimension."""
        width = primitive.source.data_type.size_in_bytes
        loops = simplify(loops_of(primitive.source, primitive.target), 1)
        size = loops.count * width * 2
        offsets = (loops.offsets[0] * width, loops.offsets[1] * width)
        if (other := _transposed_dimension(loops)) is not None:
            return cls._plan_transpose(primitive, loops, other, width, offsets, size)
        rank = max(len(loops.sizes) - 1, 0)
        count, source_step, target_step = 1, 1, 1
        if loops.sizes:
            count, source_step, target_step = loops.sizes[-1], loops.strides[0][-1], loops.strides[1][-1]
        kinds = {1: "run", -1: "backward", 0: "repeated", 2: "second", -2: "second_back"}
        kind = kinds.get(source_step, "gathered") if target_step == 1 else "strided"
        large = ""
        if kind in ("run", "backward", "second", "second_back") and count * width >= 256:
            # On a Xeon forward rows of 256 MiB take 28.7 ms through the cache and 34 past it, backward ones 67 and 33.
            is_past = IS_ARM or kind.endswith(("backward", "back"))
            large += " stream" if is_past and size // 2 >= STREAM_FROM else ""
            least = SHORT_FAR_FROM if kind == "run" and count * width < SHORT_ROW else FAR_FROM
            is_far = IS_ARM and size // 2 >= least and (kind != "run" or count * width < SEGMENT)
            large += " far" if is_far else ""
        segments = -(-count * width // SEGMENT)
        length = -(-count // segments)
        words = (
            count,
            source_step * width,
            target_step * width,
            segments,
            length,
            rank,
            *outer_words(loops, width, rank),
        )
        units = math.prod(loops.sizes[:rank]) * segments
        plain = f"copy {kind} {width}"
        return cls(primitive, get_kernel(plain + large), words, offsets, units, size, plain if large else "")

    @classmethod
    def _plan_transpose(
        cls, primitive: Map, loops: Loops, other: int, width: int, offsets: tuple[int, int], size: int
    ) -> CopyProgram:
        last = len(loops.sizes) - 1
        outer = loops.pick([k for k in range(last) if k != other])
        across, along = loops.strides[0][last] * width, loops.strides[1][other] * width
        rank = len(outer.sizes)
        words = (
            loops.sizes[last], across, 0, loops.sizes[other], along, rank, *outer_words(outer, width, rank)
        )  # fmt: skip
        units = outer.count * (-(-loops.sizes[last] // RUN) + 1)
        plain = f"transpose {width}"
        if size // 2 >= STREAM_FROM and keeps_lines(primitive.target):
            return cls(primitive, get_kernel(f"{plain} stream"), words, offsets, units, size, plain)
        return cls(primitive, get_kernel(plain), words, offsets, units, size)

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in."""
        source = places[self.primitive.source.tensor] + self.offsets[0]
        target = places[self.primitive.target.tensor] + self.offsets[1]
        words = (source, target, *self.words)
        kernel = self.kernel
        if self.unaligned and target % self.primitive.target.data_type.size_in_bytes:
            kernel = get_kernel(self.unaligned)
        return make_dispatch(kernel, words, self.units, self.size)


def plan_copy(primitive: Map) -> CopyProgram | None:
    """Plan a map that moves bits."""
    return CopyProgram.plan(primitive) if is_copy(primitive) else None


def _transposed_dimension(loops: Loops) -> int | None:
    """The dimension along which the source is contiguous, where the target is along another, and both are long."""
    if len(loops.sizes) < 2 or loops.strides[1][-1] != 1 or abs(loops.strides[0][-1]) < 4 or loops.sizes[-1] < 4:
        return None
    last = len(loops.sizes) - 1
    found = [k for k in range(last) if loops.strides[0][k] == 1 and loops.sizes[k] >= 4]
    return found[-1] if found else None


# Copies from or to every so manieth element, planned as one map with a target for each first one.
#
# Blocks made channels, and planes made pixels: 64 planes of 112 x 112 in blocks of 2 take 0.38 ms so, and 0.61 by rows
# of every second element, which read each line of the cache twice (one thread of a Xeon; copied they take 0.51).


def plan_phases(primitive: Map) -> MapProgram | None:
    """Plan a copy in which one side's elements lie in turn, and the other's row by row; None for another."""
    if not is_copy(primitive):
        return None
    source, target = primitive.source, primitive.target
    found = _turn(source, target, max(EVERY.values()))
    found = _turn(target, source, MOST_WOVEN) if found is None else found
    if found is None:
        return None
    rank = len(source.sizes)
    sizes = [1 if k == found else size for k, size in enumerate(source.sizes)]
    starts = [[place if k == found else 0 for k in range(rank)] for place in range(source.sizes[found])]
    reads = tuple(source.window(start, [1] * rank, sizes) for start in starts)
    writes = [
        Write(target.window(start, [1] * rank, sizes), load(slot, source.data_type))
        for slot, start in enumerate(starts)
    ]
    return plan_map(Map(reads, writes[0].target, writes[0].value, also=tuple(writes[1:])))


def _turn(woven: View, other: View, most: int) -> int | None:
    """The dimension along which a view's elements lie in turn, where the other's run along another; None without."""
    for k, (size, stride) in enumerate(zip(woven.sizes, woven.strides, strict=True)):
        if stride == 1 and 2 <= size <= most:
            long = zip(woven.sizes, woven.strides, other.strides, strict=True)
            is_run = any(n >= SHORT and own == size and by == 1 for n, own, by in long)
            return k if is_run else None
    return None
