"""Depthwise convolution and pooling in NCHW, where `schedules.py` chooses the stencil: how planes are cut into row
blocks and vectors, and the kernel that walks the planes.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, NamedTuple

from anydml.core.enums import DataType
from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.expressions import kind_of
from anydml.engines.cpu.conv.input_lines import find_lines
from anydml.engines.cpu.conv.stencil import DOT_LANES, MOST, Taps, make_stencil, suits_sdot, suits_vnni
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.features import has_dots, has_feature, multiplies_by_lane
from anydml.engines.cpu.gemm.operands import Operands
from anydml.engines.cpu.gemm.work_item import WorkItems, make_stage, record_of, stack_words
from anydml.engines.cpu.launch.program import KernelProgram
from anydml.engines.cpu.launch.record import Layout
from anydml.engines.cpu.rows.walk import OUTER_RANK, VIEWS
from anydml.engines.cpu.threads.scratch import workspace
from anydml.ir.contraction import Contraction, byte_less_zero, varies_along
from anydml.ir.epilogue import find_epilogue
from anydml.ir.expressions import FOLDS
from anydml.ir.padded_reads import match_padded_reduce
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.cpu.codegen.function import Value
    from anydml.engines.cpu.conv.input_lines import InputLines
    from anydml.engines.cpu.gemm.work_item import Section
    from anydml.ir.epilogue import Epilogue
    from anydml.ir.expressions import Expr
    from anydml.ir.padded_reads import Padded
    from anydml.ir.verbs import Primitive, Reduce

# How taps walk over a plane: rows and vectors at once, and whether windows that reach past the input are read so.


def in_blocks(taps: Taps, rows: int, columns: int) -> Taps:
    """Taps with blocks that suit planes, or parts of some, of so many results."""
    needed = -(-columns // taps.lanes)
    if taps.is_by_line:
        together, vectors = figures().stencil.fold_rows, min(figures().stencil.fold_vectors, needed)
    else:
        of = figures().stencil
        size = max(taps.lanes // figures().gemm.lanes, 1)  # registers of a vector: bytes are summed as 32 bits
        wide = max((of.wide if taps.kind == "f32" else of.wide_bytes) // size, 1)
        vectors = -(-needed // -(-needed // wide))
        together = min(range(1, min(of.most_rows, rows) + 1), key=lambda some: _cost(taps, some, rows, vectors * size))
    return taps._replace(together=min(together, rows), vectors=vectors, is_single=needed == vectors)


def _cost(taps: Taps, some: int, rows: int, registers: int) -> tuple[bool, int]:
    """The cost of rows if some are computed at once: arithmetic, and lines that are read."""
    lines = (some - 1) * abs(taps.down) + (taps.rows - 1) * abs(taps.below) + 1
    return some * registers > figures().stencil.sums, -(-rows // some) * taps.columns * (some * taps.rows + lines)


def suits_wide(taps: Taps) -> bool:
    """Whether a text that knows how long lines are computes them."""
    return taps.kind == "f32" and taps.op in ("fma", "sum") and has_feature("avx512vl")


def in_wide_blocks(taps: Taps, rows: int, columns: int, line: int, left: int | None = None) -> Taps:
    """Taps for such a text, with blocks that suit parts of so many rows."""
    of = figures().stencil
    lanes = of.wide_lanes if columns > of.wide_lanes // 2 else of.wide_lanes // 2
    needed = -(-columns // lanes)
    is_rolling = taps.down == taps.below == 1 < taps.rows
    wide = min(of.rolling_sums // taps.rows, of.rolling_across) if is_rolling else of.wide
    vectors = -(-needed // -(-needed // wide))
    most = 0 if is_rolling else min(of.wide_sums // vectors, of.most_rows, rows)
    together = min(range(1, most + 1), key=lambda some: _cost(taps, some, rows, 0), default=0)
    return taps._replace(
        lanes=lanes, vectors=vectors, together=together, left=left, over=0, width=columns, line=line, by_lane=False
    )


def in_dot_blocks(taps: Taps, rows: int) -> Taps:
    """Taps for VNNI, with so many rows of a part at once that as few as can be are computed twice."""
    least, most = (min(count, rows) for count in figures().stencil.dot_rows)
    together = min(range(least, most + 1), key=lambda some: (-(-rows // some) * some, -some))
    return taps._replace(lanes=DOT_LANES, vectors=1, together=together, left=None, over=0, by_lane=False, is_dot4=True)


def with_margins(taps: Taps, columns: int, left: int, line: int) -> Taps | None:
    """Taps that read lines of so many elements, the first window beginning so many before one.

    None where a vector that is not a row's first or last would reach past a line.
    """
    last = (columns - 1) * taps.step + (taps.columns - 1) * taps.beside - left
    over, wide = max(last - (line - 1), 0), taps.vectors * taps.lanes
    is_inside = columns == taps.lanes  # the one vector is the first and the last
    if not is_inside:
        # The vector before a row's last ends so many results before it; those after the first begin so many after it.
        gap = (columns - 1) % (taps.lanes if taps.is_single else wide) + 1
        begin = columns - taps.lanes if taps.is_single else min(columns - wide, wide)
        is_inside = over + taps.step - 1 <= min(gap, taps.lanes) * taps.step and left <= begin * taps.step
    # What is read at once lies in a line, and reaches past one end of it at most.
    is_read = line >= taps.lanes * (1 if taps.vectors == 1 else taps.step)
    return taps._replace(left=left, over=over) if is_inside and is_read else None


# The walk over planes, a part of one at a time, by the kernels of `stencil.py`.


RECORD = Layout(
    "slots", "slot_count", "rows", "line", "parts", "down", "pitch", "tap_rows", "tap_columns", "weight_down",
    "weight_beside", "taps", "dots", "is_direct", "is_whole", "target_down", "frame", "lines", "reach", "left", "top",
    "source_rows", "source_line", "source_down", "frame_size", "fill", "bytes", "x_at", "weights_at",
    "result_at", "fill_at", "rank",
)  # fmt: skip
"""After the header, and before the batch's sizes: `down` is from a row of results to the next, in the input. Results
are written by the taps' kernel where `is_direct`; otherwise they are computed from folds in the scratch, all of a part
at once where `is_whole`, or row by row. Bytes go to `dots`, if it is there, where weights less their zero point are
bytes still.

Where `frame` is not 0 lines of as many bytes are made of the input's, with margins: those of a part, `lines` for each
row of results and `reach` for the last. `source_line` bytes of each of `source_rows` lines lie from `left` on, the
first in line `top`; around them is `fill`, four bytes, or a byte at `fill_at`. Kernels that know margins read the
input's own lines: `frame` and `down` are 0, and one line is filled."""

WEIGHTS, WEIGHTS_SIGNED, WEIGHTS_ZERO, WEIGHTS_ZERO_SIGNED, ZERO, ZERO_SIGNED, AS_THEY_LIE = (1 << k for k in range(7))
"""The parts of `bytes`: whether weights are bytes, have signs, have a zero point, which has a sign; likewise for the
input's zero point. Their section has the weights, and those that are there. `dots` takes some as they lie: bytes with
signs, side by side, without zero points."""


def make_stencil_walk() -> str:
    """The text of the walk, compiled once for all: of a scratch it takes room for results first, then for lines."""
    return _PlaneWalk().write()


class _PlaneWalk(WorkItems):
    def __init__(self) -> None:
        super().__init__(RECORD, ("x", "weights", "result", "fill"))
        self.weights = stack_words(self.f, MOST // 2 + 1)

    def write(self) -> str:
        """All of it. A plane of 14 x 14 takes less time than a few divisions."""
        f, of = self.f, self.of
        self.sums = self.take_scratch(workspace().size) + 64
        self.lines = self.sums + figures().gemm.result_bytes
        self._fill_lines()
        first = self.begin // of.parts
        self.find_place(first)
        with f.loop(first, (self.end + of.parts - 1) // of.parts) as plane:
            self._find_views(plane.eq(first))
            chosen = {"kernel": of.taps, "weights": self.weights}
            with f.when(of.tap_rows, carry=chosen):
                self._bring_weights(chosen)
            before = plane * of.parts
            with f.loop(f.max(self.begin - before, 0), f.min(self.end - before, of.parts)) as part:
                self._compute(part, chosen)
            self._go_on()
        f.store(0, self.scratch, atomic="release")
        return self.text(make_stage())

    def _find_views(self, is_first: Value) -> None:
        """Where a plane's views begin: a step on from the last one's, unless that was the last along its dimension."""
        f, rank = self.f, self.of.rank
        along = f.load("i64", self.places + f.max(rank - 1, 0) * 8)
        with f.either(is_first | along.eq(0)) as (far, near):
            with far:
                self.find_bases("x", "weights", "result")
            with near:
                for section in (self.sections[name] for name in ("x", "weights", "result")):
                    with f.loop(0, section.views) as v:
                        step = f.load("i64", section.across + (rank * section.views + v) * 8)
                        f.store(section.base(v) + step, section.bases + v * 8)

    def _go_on(self) -> None:
        """To the next plane of the batch, as an odometer does."""
        f, rank, carry = self.f, self.of.rank, [self.f.value(1, "i64")]
        with f.loop(0, rank, carry=carry) as wheel:
            d = rank - 1 - wheel
            moved = f.load("i64", self.places + d * 8) + carry[0]
            is_over = moved.eq(f.load("i64", self.words + (d + RECORD.end) * 8))
            f.store(f.select(is_over, 0, moved), self.places + d * 8)
            carry[0] = f.select(is_over, 1, 0)

    def _compute(self, part: Value, chosen: dict[str, Value]) -> None:
        """Some rows of a plane."""
        f, of, result = self.f, self.of, self.sections["result"]
        bounds = [f.value(0, "i64"), of.rows]
        with f.when(of.parts > 1, carry=bounds):
            bounds[:] = [of.rows * part // of.parts, of.rows * (part + 1) // of.parts]
        first, some = bounds[0], bounds[1] - bounds[0]
        x = self.sections["x"].base()
        with f.when(of.frame):
            self._copy_lines(x, first, some)
        target = result.base(result.views - 1)
        to = f.select(of.is_direct, target + first * of.target_down, self.sums)
        f.invoke(
            chosen["kernel"], f.select(of.frame, self.lines, x + first * of.down), of.pitch, chosen["weights"], to,
            f.select(of.is_direct, of.target_down, of.line * 4), some, of.line, result.at, result.bases, first,
            first * of.lines - of.top, of.source_rows, self.lines,
        )  # fmt: skip
        is_folded = of.is_direct.eq(0)
        with f.when(is_folded & of.is_whole.ne(0)):
            self.stage("result", 0, first * of.line, 1, some * of.line, self.sums, 0)
        with f.when(is_folded & of.is_whole.eq(0)):
            self.stage("result", first, 0, some, of.line, self.sums, of.line * 4)

    # Padding

    def _fill_lines(self) -> None:
        """Fill all lines once: what units write of them are the same elements."""
        f, fill = self.f, [self.of.fill]
        with f.when(self.of.fill_at, carry=fill):
            byte = f.load("i8", f.load("i64", self.sections["fill"].words))
            fill[0] = f.cast("zext", byte, "i64") * 0x01010101
        self.filled = f.cast("trunc", fill[0], "i32")
        with f.loop(0, self.of.frame_size, 4) as at:
            f.store(self.filled, self.lines + at)

    def _copy_lines(self, x: Value, first: Value, some: Value) -> None:
        """The lines of a part; those above and below the input are filled again: other parts have others there."""
        f, of = self.f, self.of
        begin = first * of.lines - of.top
        with f.loop(0, (some - 1) * of.lines + of.reach) as i:
            there, here = begin + i, self.lines + i * of.frame
            with f.either((there >= 0) & (there < of.source_rows)) as (inside, outside):
                with inside:
                    f.memcpy(here + of.left, x + there * of.source_down, of.source_line)
                with outside, f.loop(0, of.frame, 4) as at:
                    f.store(self.filled, here + at, align=1)

    # Weights

    def _bring_weights(self, chosen: dict[str, Value]) -> None:
        """Where weights lie, side by side; bytes less their zero point, and the input's."""
        f, of, source = self.f, self.of, self.sections["weights"].base()
        is_plain, is_run = of.bytes.eq(0), of.tap_rows.eq(1) & of.weight_beside.eq(4)
        with f.when(is_plain & is_run, carry=chosen):
            chosen["weights"] = source
        with f.when(is_plain & ~is_run), f.loop(0, of.tap_rows) as a, f.loop(0, of.tap_columns) as b:
            found = f.load("i32", source + a * of.weight_down + b * of.weight_beside)
            f.store(found, self.weights + (a * of.tap_columns + b) * 4)
        with f.when(of.bytes.eq(AS_THEY_LIE), carry=chosen):
            chosen |= {"kernel": of.dots, "weights": source}
        with f.when(~is_plain & of.bytes.ne(AS_THEY_LIE), carry=chosen):
            self._bring_bytes(source, chosen)

    def _bring_bytes(self, source: Value, chosen: dict[str, Value]) -> None:
        """Weights less their zero point, and the input's; kernels are chosen by whether those are bytes still."""
        f, of, section = self.f, self.of, self.sections["weights"]
        zeros = {"weights": f.value(0, "i64"), "x": f.value(0, "i64")}
        with f.when(of.bytes & WEIGHTS_ZERO, carry=zeros):
            zeros["weights"] = self._byte(section.base(1), WEIGHTS_ZERO_SIGNED)
        with f.when(of.bytes & ZERO, carry=zeros):
            zeros["x"] = self._byte(section.base(f.select(of.bytes & WEIGHTS_ZERO, 2, 1)), ZERO_SIGNED)
        f.store(f.cast("trunc", zeros["x"], "i32"), self.weights + 4 * MOST)
        chosen["kernel"] = f.select(of.dots, of.dots, of.taps)
        with f.loop(0, of.tap_rows, carry=chosen) as a, f.loop(0, of.tap_columns, carry=chosen) as b:
            byte = self._byte(source + a * of.weight_down + b * of.weight_beside, WEIGHTS_SIGNED)
            tap = byte - zeros["weights"]
            f.store(f.cast("trunc", tap, "i32"), self.weights + (a * of.tap_columns + b) * 4)
            chosen["kernel"] = f.select((tap < -128) | (tap > 127), of.taps, chosen["kernel"])

    def _byte(self, at: Value, sign: int) -> Value:
        """The byte at an address, with its sign where a bit of `bytes` says so."""
        byte = self.f.load("i8", at)
        signed, plain = (self.f.cast(way, byte, "i64") for way in ("sext", "zext"))
        return self.f.select(self.of.bytes & sign, signed, plain)


# Depthwise convolutions and poolings, planned: which taps, and what a unit of planes is.


F32, I32 = DataType.FLOAT32, DataType.INT32
_BYTES = (DataType.INT8, DataType.UINT8)
FAR = 16
"""The distances of taps at most: what is further apart is no window, and each has a kernel of its own."""


class _Found(NamedTuple):
    op: str
    x: Expr
    """The load of the input."""
    weight: Expr | None
    fold: Expr
    zero: Expr | None = None
    """Of bytes, what is taken off the input."""


def plan_stencil_padded(primitives: Sequence[Primitive], _constants: frozenset[str]) -> KernelProgram | None:
    """Planes whose padding is made for a reduce alone, and that reduce; None for others."""
    found = match_padded_reduce(primitives)
    return None if found is None else plan_stencil(*found)


def plan_stencil(primitive: Reduce, padded: Padded | None = None) -> KernelProgram | None:
    """Planes of FLOAT32 or bytes, whose windows are small; None where they are not, or lie otherwise.

    Whether it is so does not depend on what is computed from the folds, nor on the target: bits are the same.
    """
    found = _match(primitive)
    if found is None or any(node.op == "fetch" for node in walk(primitive.value)):
        return None
    kept = len(primitive.sizes) - primitive.depth
    wide = [k for k, size in enumerate(primitive.sizes) if size > 1]
    plane, folded = tuple(k for k in wide if k < kept)[-2:], tuple(k for k in wide if k >= kept)
    batch = tuple(k for k in wide if k < kept and k not in plane)
    if len(batch) > OUTER_RANK:
        return None
    less = byte_less_zero(found.weight)[1] if found.zero is not None else None  # type: ignore[arg-type, index]  # a zero point has weights
    others = ((found.weight, plane), (found.zero, (*plane, *folded)), (less, folded))
    if any(one is not None and not varies_along(one, primitive.sources).isdisjoint(over) for one, over in others):
        return None
    both = (found.x, found.x)  # weights have no part in how a plane lies
    # The last two dimensions that are kept are rows and columns of a plane.
    operands = Operands(primitive, Contraction(found.fold, *both, primitive.sizes, batch, plane[:1], plane[1:], folded))
    lines = find_lines(operands, found.x, (plane[0], *folded[:-1]), (plane[1], folded[-1]), padded)
    taps = None if lines is None else _taps(operands, found, lines)
    if lines is None or taps is None or len(operands.all_strided(operands.finish)) >= VIEWS:
        return None
    if found.fold.type in _BYTES and (taps.epilogue is None or padded is not None):
        return None  # the scratch has sums of 32 bits, and margins of numbers or of zero points
    is_packed = lines.apart == lines.x.width and (not lines.filler or lines.x.width == 1)
    if padded is not None and (min(lines.below, lines.beside) < 0 or not is_packed):
        return None
    return _program(operands, found, taps, lines)


def _match(primitive: Reduce) -> _Found | None:
    """The one fold of a reduce of one value a row: of loads, or the sum of their products with weights."""
    (fold,) = [node for node in walk(primitive.value) if node.op in FOLDS]
    (term,) = fold.args
    is_plain = fold.type is F32 and fold.op in ("fold_max", "fold_min", "fold_sum")
    if term.op == "load" and (is_plain or _is_byte(fold, term)):
        return _Found(fold.op.removeprefix("fold_"), term, None, fold)
    if fold.op != "fold_sum" or term.op != "mul" or fold.type not in (F32, I32):
        return None
    kept = range(len(primitive.sizes) - primitive.depth)
    # The input is what varies along places, the weights what does not.
    x, weight = sorted(term.args, key=lambda arg: -len(varies_along(arg, primitive.sources).intersection(kept)))
    if fold.type is F32:
        return _Found("fma", x, weight, fold) if x.op == weight.op == "load" else None
    byte, other = byte_less_zero(x), byte_less_zero(weight)
    is_ours = byte is not None and other is not None and _is_plain(byte[1]) and _is_plain(other[1])
    return _Found("fma", byte[0], weight, fold, byte[1]) if byte and is_ours else None


def _is_byte(fold: Expr, term: Expr) -> bool:
    """Whether it is the largest or the smallest of bytes."""
    return fold.op in ("fold_max", "fold_min") and fold.type is term.type and fold.type in _BYTES


def _taps(operands: Operands, found: _Found, lines: InputLines) -> Taps | None:
    sizes = operands.found.sizes
    (rows,), (columns,) = operands.rows, operands.columns
    of, lanes = figures().stencil, figures().gemm.lanes
    lanes = lanes if found.x.type is F32 else max(lanes, of.byte_lanes)
    while 4 < lanes > sizes[columns]:
        lanes //= 2
    most = figures().gemm.result_bytes // (8 * of.part_rows)
    is_long = lanes <= sizes[columns] <= most and sizes[rows] >= of.part_rows
    distances = (lines.down, lines.step, lines.below, lines.beside)
    if not (is_long and lines.pitch and lines.step in (1, 2)) or max(map(abs, distances)) > FAR:
        return None
    height, width = (1, *(sizes[k] for k in operands.folded))[-2:]
    kind = kind_of(found.x.type)
    return Taps(found.op, height, width, *distances, lanes, multiplies_by_lane(), kind, epilogue=_epilogue(operands))


def _epilogue(operands: Operands) -> Epilogue | None:
    """The value computed from folds where they are, if it is short and no read varies along a plane.

    Elements that do may lie where the target does: rows that overlap would read them again.
    """
    is_packed = operands.target.along(operands.columns) == operands.target.width
    longest = figures().stencil.epilogue_nodes
    return (
        find_epilogue(operands, operands.rows, operands.columns, longest=longest, may_read=("",)) if is_packed else None
    )


def _program(operands: Operands, found: _Found, taps: Taps, lines: InputLines) -> KernelProgram | None:
    sizes = operands.found.sizes
    (rows,), (columns,) = operands.rows, operands.columns
    height, line = sizes[rows], sizes[columns]
    target = operands.target
    results = [*operands.all_strided(operands.finish), target]
    is_whole = all(lie.strides[rows] == lie.strides[columns] * line for lie in results)
    of = figures().stencil
    parts = min(max(-(-height * line // of.part), 1), height // of.part_rows)
    taps = in_blocks(taps, height // parts, line)
    is_vnni = suits_vnni(taps) and has_feature("avx512vnni") and has_feature("avx512bw")
    is_wide = suits_wide(taps) and not lines.fill
    far = (line - 1) * taps.step + (taps.columns - 1) * max(taps.beside, 0) + 1
    framing, pitch, down = dict[str, int](), lines.pitch, lines.down * lines.pitch
    own = None
    if lines.outside is not None and not is_vnni:  # the input's own lines are read
        if is_wide:
            own = in_wide_blocks(taps, height // parts, line, lines.width, lines.left)
        else:
            own = with_margins(taps, line, lines.left, lines.width)
    if own is not None:
        taps, down = own, 0
        framing = {"frame_size": lines.width * lines.x.width}
    elif lines.outside is not None:  # lines are copied with their margins
        pitch = max(far, lines.left + lines.width) * lines.x.width
        parts = min(max(parts, -(-height * taps.down * pitch // of.margin_bytes)), height // of.part_rows)
        reach = (taps.rows - 1) * taps.below + 1
        size = ((-(-height // parts) - 1) * taps.down + reach) * pitch
        if size > workspace().sums_at - figures().gemm.result_bytes - 4096:
            return None
        taps, down = in_blocks(taps, height // parts, line), taps.down * pitch
        framing = {
            "frame": pitch, "reach": reach, "left": lines.left * lines.x.width,
            "source_line": lines.width * lines.x.width, "source_down": lines.pitch, "frame_size": size,
        }  # fmt: skip
    if lines.outside is not None:
        framing |= {"lines": taps.down, "top": lines.top, "source_rows": lines.height, "fill": lines.fill}
    if is_wide and own is None:
        taps = in_wide_blocks(taps, height // parts, line, far)
    filler = operands.section((), lines.filler, *[[0] * len(lines.filler)] * 2)
    weights, bits, counts, pair = _weights(operands, found, taps)
    result = operands.result(is_written=taps.epilogue is None)
    sections = {"x": operands.section((), [lines.x], [0], [0]), "weights": weights, "result": result, "fill": filler}
    dots = 0
    if is_vnni:
        own = in_dot_blocks(taps, height // parts)
        if bits == WEIGHTS | WEIGHTS_SIGNED and counts[0] == 1 and pair[1] == 1:
            bits, own = AS_THEY_LIE, own._replace(has_bytes=True)
        dots = _kernel(own)
    elif suits_sdot(taps) and has_dots(figures().gemm.lanes):
        dots = _kernel(taps._replace(is_dot4=True))
    words = {
        "rows": height, "line": line, "parts": parts, "down": down, "pitch": pitch, "tap_rows": counts[0],
        "tap_columns": counts[1], "weight_down": pair[0], "weight_beside": pair[1], "taps": _kernel(taps),
        "dots": dots, "is_direct": int(taps.epilogue is not None), "is_whole": int(is_whole),
        "target_down": target.strides[rows], "bytes": bits, **framing,
        **({} if lines.filler else {"fill_at": 0}),
    }  # fmt: skip
    record = record_of(RECORD, words, [sizes[k] for k in operands.batch], sections)
    size = 2 * math.prod(sizes) // figures().gemm.flops_per_byte
    walk_ = get_kernel("stencil", make_stencil_walk)
    return KernelProgram(walk_, record, operands.count(operands.batch) * parts, size)


def _kernel(taps: Taps) -> int:
    return get_kernel(taps.name, functools.partial(make_stencil, taps)).address


def _weights(operands: Operands, found: _Found, taps: Taps) -> tuple[Section, int, tuple[int, int], tuple[int, int]]:
    """Weights and zero points, what they are, rows and columns of weights, and how far those lie apart."""
    weight = found.weight
    if weight is None:
        return operands.section((), [], [], []), 0, (0, 0), (0, 0)
    leaf, less = byte_less_zero(weight) or (weight, None)
    bits, leaves = 0, [leaf]
    if found.zero is not None:
        bits = WEIGHTS | (WEIGHTS_SIGNED if leaf.type is DataType.INT8 else 0)
        for zero, own, sign in ((less, WEIGHTS_ZERO, WEIGHTS_ZERO_SIGNED), (found.zero, ZERO, ZERO_SIGNED)):
            if (number := _number(zero)) is not None:
                leaves.append(number)
                bits |= own | (sign if number.type is DataType.INT8 else 0)
    lies, none = [operands.strided(one) for one in leaves], [0] * len(leaves)
    down, beside = (0, *(lies[0].strides[k] for k in operands.folded))[-2:]
    pair, counts = (down, beside), (taps.rows, taps.columns)
    if pair[0] == pair[1] * taps.columns:  # all are in one row
        counts = (1, taps.rows * taps.columns)
    return operands.section((), lies, none, none), bits, counts, pair


def _number(zero: Expr | None) -> Expr | None:
    """The load of a zero point; None where it is 0."""
    return None if zero is None or zero.op == "const" else zero.args[0] if zero.op == "cast" else zero


def _is_plain(zero: Expr) -> bool:
    """Whether a zero point is 0, or a byte."""
    number = _number(zero)
    return number is None or (number.op == "load" and number.type in (DataType.INT8, DataType.UINT8))
