"""Strided copies: contiguous runs, runs backwards, every second element, any strides, one element repeated, transposes.

The kernel is chosen by the innermost dimension; copies with one phase of a stride each become one map.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from anydml.core.symbolic_sizes import as_long
from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.language import (
    VECTOR_BYTES,
    copy_row,
    larger,
    load_bits,
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
from anydml.engines.cpu.codegen.outer_loops import Way, find_row, make_walk
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.launch.program import KernelProgram, Otherwise
from anydml.engines.cpu.launch.record import (
    LINE,
    OUTER,
    WALK,
    Layout,
    Pointer,
    Record,
    dimension_words,
    keeps_lines,
)
from anydml.engines.cpu.rows.map import MOST_WOVEN, plan_map
from anydml.engines.cpu.rows.row import EVERY
from anydml.ir.expressions import load
from anydml.ir.loops import Loops, loops_of, simplify
from anydml.ir.patterns import is_copy
from anydml.ir.verbs import Map, Write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.cpu.kernel import Kernel
    from anydml.engines.cpu.launch.record import Words
    from anydml.ir.views import View

SEGMENT = 1024 * 1024
"""Bytes of a row that one unit of work copies."""


TRANSPOSE = Layout("source", "target", "count", "across", "none", "others", "along", "rank", OUTER)
"""As a walk's; `across` are the bytes from one element to the next in the source, `along` those from one of the
`others` to the next in the target."""


def plan_copy(primitive: Map) -> KernelProgram:
    """Plan a map that moves bits: choose the kernel by the innermost dimension."""
    source, target = primitive.source, primitive.target
    width = source.data_type.size_in_bytes
    loops = simplify(loops_of(source, target), 1)
    size = loops.count * width * 2
    pointers = [Pointer(view.tensor, loops.offsets[k] * width) for k, view in enumerate((source, target))]
    if (other := _transposed_dimension(loops)) is not None:
        return _transpose(loops, other, pointers, size, width, keeps_lines=keeps_lines(target))
    count, source_step, target_step = _innermost(loops)
    kinds = {1: "run", -1: "backward", 0: "repeated", 2: "second", -2: "second_back"}
    kind = kinds.get(source_step, "gathered") if target_step == 1 else "strided"
    large, row = "", as_long(count) * width
    if kind in ("run", "backward", "second", "second_back") and row >= 256:
        is_past = figures().rows.streams or kind.endswith(("backward", "back"))
        large += " stream" if is_past and size // 2 >= figures().rows.stream_from else ""
        of = figures().move
        is_short = kind == "run" and row < of.short_row
        least = of.prefetch_short_from if is_short else of.prefetch_from
        is_far = of.prefetches and size // 2 >= least and (kind != "run" or row < SEGMENT)
        large += " far" if is_far else ""
    fields, items = fields_of_walk(loops, pointers, width)
    return _program(f"copy {kind} {width}", large, WALK.write(fields), items, size, width)


def _innermost(loops: Loops) -> tuple[int, int, int]:
    """The elements of a row, and from one to the next in the source and in the target."""
    return (loops.sizes[-1], loops.strides[0][-1], loops.strides[1][-1]) if loops.sizes else (1, 1, 1)


def fields_of_walk(
    loops: Loops, pointers: Sequence[Pointer], width: int, segment: int = SEGMENT
) -> tuple[dict[str, Words], int]:
    """The fields of a walk whose innermost dimension is the last, and its work items, for elements of some bytes."""
    outer, (count, source_step, target_step) = loops.sizes[:-1], _innermost(loops)
    segments = -(-count * width // segment)
    length = -(-count // segments // LINE) * LINE  # so that lines of the cache are whole in each
    segments = -(-count // length)
    return {
        "source": pointers[0], "target": pointers[1], "count": count, "source_step": source_step * width,
        "target_step": target_step * width, "segments": segments, "length": length, "rank": len(outer),
        "outer": dimension_words(outer, loops.strides[:2], (width, width)),
    }, math.prod(outer) * segments  # fmt: skip


def _transpose(
    loops: Loops, other: int, pointers: Sequence[Pointer], size: int, width: int, *, keeps_lines: bool
) -> KernelProgram:
    last = len(loops.sizes) - 1
    outer = loops.pick([k for k in range(last) if k != other])
    record = TRANSPOSE.write({
        "source": pointers[0], "target": pointers[1], "count": loops.sizes[last],
        "across": loops.strides[0][last] * width, "others": loops.sizes[other],
        "along": loops.strides[1][other] * width, "rank": len(outer.sizes),
        "outer": dimension_words(outer.sizes, outer.strides, (width, width)),
    })  # fmt: skip
    items = outer.count * (-(-loops.sizes[last] // RUN) + 1)
    large = " stream" if size // 2 >= figures().rows.stream_from and keeps_lines else ""
    return _program(f"transpose {width}", large, record, items, size, width)


def _program(plain: str, large: str, record: Record, items: int, size: int, width: int) -> KernelProgram:
    """The program of a kernel, which is another for a target that is not aligned to its elements."""
    alignment = Otherwise(1, width, get_copy(plain)) if large else None
    return KernelProgram(get_copy(plain + large), record, items, size, alignment=alignment)


def get_copy(name: str) -> Kernel:
    """The kernel of a name, such as `copy run 4 far` or `transpose 2 stream`."""

    def make() -> Any:
        family, *rest = name.split()
        if family == "transpose":
            return make_transposed(int(rest[0]), "stream" in rest)
        return make_copy(int(rest[1]), rest[0], "stream" in rest, "far" in rest)

    return get_kernel(name, make)


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


def plan_phases(primitive: Map) -> KernelProgram | None:
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
            is_run = any(as_long(n) >= figures().rows.short and own == size and by == 1 for n, own, by in long)
            return k if is_run else None
    return None


# Kernels of rows, by the innermost dimension.


EDGE_BYTES = 16
"""A row's ends, outside the target's whole lines, are copied by so many bytes."""


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
    ahead, stride = figures().move.prefetch_bytes // (span * width), lanes * step * width

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

    def row(words: int, at: int, first: int, source: Way, target: Way, count: int, after: int) -> None:
        (read, source_step), (written, target_step) = source, target
        copy(read, written, count, source_step, target_step, after)

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

    `rank` is of the dimensions outside both. A unit is the RUN elements from a line of the target on, or those
    before the first line, by the whole of the source's dimension. The source is read row by row and turned on the
    stack, and the target is written by the line: target rows are often a power of two apart, and drive one another
    out of the cache before a line is complete. `stream` writes past the cache, to rows that all lie alike in its
    lines.
    """
    load, store, tile = load_bits[width], store_bits[width], make_transpose(width)
    line = make_piece(VECTOR_BYTES, stream=stream)
    stack = make_stack(TURNED)
    pitch = PITCH * width
    most = min(ROWS, TURNED // pitch)

    def kernel(words: int, begin: int, end: int) -> int:
        w = TRANSPOSE(words)
        count, across, others, along, rank = w.count, w.across, w.others, w.along, w.rank
        runs = (count + RUN - 1) // RUN + 1
        turned, at = stack(), scratch()
        for unit in range(begin, end):
            rest = quotient(unit, runs)
            source_on, target_on = find_row(w.outer, rank, rest, at)
            source, target = w.source + source_on, w.target + target_on
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
