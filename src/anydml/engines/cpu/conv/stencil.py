"""The stencil of depthwise convolution and pooling, as microkernels: each tap is a shifted row of the input, so that
vectors lie along a row of results. `conv/depthwise.py` plans them, and walks over planes.

`kernel(x, pitch, weights, out, out_step, rows, count, section, bases, first, start, height, blank)` computes rows of
`count` results from an input whose lines lie `pitch` bytes apart. A depthwise convolution sums taps times weights in
the order in which a GEMM's microkernel adds them up, so that sums have its bits; a pooling adds taps up or takes the
largest. `section`, `bases` and `first` are for the epilogue.

One generator, whose parts differ by what the CPU has: a block of rows and vectors reads each line of the input once for
all rows that it serves (`_Stencil`); its last vectors overlap those before, or are masked where the text knows how
long lines are (`_Masked`); sums roll on from line to line (`_Rolling`); extremes fold lines first (`_ByLine`); bytes
are multiplied by four at once (`_Vnni`, `_Sdot`).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

from anydml.core.enums import DataType
from anydml.engines.cpu.codegen.expressions import kind_of, scalar_text
from anydml.engines.cpu.codegen.function import Function, vector_of
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.gemm.blocking import FOUR
from anydml.engines.cpu.gemm.epilogue import EpilogueText
from anydml.engines.cpu.launch.record import LINE
from anydml.engines.cpu.quant.dot4 import write_dot
from anydml.engines.cpu.rows.reduce_kernel import combine
from anydml.ir.expressions import fold, load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.engines.cpu.codegen.function import Value
    from anydml.ir.epilogue import Epilogue

    Sums = dict[tuple[int, int], Value]
    """Accumulators, by row and vector of a block; those that are 0 yet are left out."""

MOST = 64
"""Taps at most; the input's zero point lies after as many weights."""
DOT_LANES = 16
"""Results of a vector of VNNI's."""


class Taps(NamedTuple):
    """The parameters of the text: distances are in lines of the input, and in elements along one."""

    op: str
    """`fma`, or the name of a fold."""
    rows: int
    columns: int
    down: int
    """From a result to the one below."""
    step: int
    """And to the one beside: 1 or 2."""
    below: int
    """From a tap to the one below."""
    beside: int
    lanes: int
    by_lane: bool
    """Whether arithmetic takes a weight from a lane of a vector, as an Arm's."""
    kind: str = "f32"
    """Of the input: `f32`, or `i8` or `u8` with weights, and for the largest and the smallest."""
    together: int = 4
    """Rows of results at once, which share lines of the input; 0 where sums roll on from line to line."""
    vectors: int = 2
    """And vectors of a row."""
    is_single: bool = False
    """Whether a row has no more."""
    left: int | None = None
    """Elements of padding before a line's first; None where all that is read is there."""
    over: int = 0
    """And those after its last that are read."""
    width: int = 0
    """The results of a row and the elements of a line, in texts that know them; 0 in others."""
    line: int = 0
    has_bytes: bool = False
    """Whether weights are bytes, as they lie, and nothing is taken off the input."""
    is_dot4: bool = False
    """Whether four products of bytes are added up at once: by SDOT where weights are taken `by_lane`, else by VNNI."""
    epilogue: Epilogue | None = None
    """The computation of results from folds; None where they are results."""

    @property
    def name(self) -> str:
        """The kernel's."""
        *plain, epilogue = self
        return " ".join(["taps", *map(str, plain), *([epilogue.name] if epilogue is not None else [])])

    @property
    def sums(self) -> DataType:
        """The type that is folded in."""
        if self.kind == "f32":
            return DataType.FLOAT32
        return DataType.INT32 if self.op == "fma" else DataType.UINT8 if self.kind == "u8" else DataType.INT8

    @property
    def is_by_line(self) -> bool:
        """Whether lines are folded first, then what lies side by side: extremes, which no order changes."""
        return self.op in ("max", "min") and self.beside == 1 and self.step <= self.columns <= self.step + self.lanes


def make_stencil(taps: Taps) -> str:
    """The text of the kernel."""
    if taps.is_dot4:
        return (_Sdot if taps.by_lane else _Vnni)(taps).write()
    if taps.width:
        return (_Masked if taps.together else _Rolling)(taps).write()
    return (_ByLine if taps.is_by_line else _Stencil)(taps).write()


class _Group(NamedTuple):
    """Vectors of a row of results, side by side from a column on."""

    at: Value | int
    """The column, where it is known a number."""
    vectors: int
    first: int = 0
    """Of them in the block."""
    is_left: bool = False
    """Whether the column is the row's first."""
    is_right: bool = False
    """Whether it is the one vector that ends with the row."""


# Blocks of rows by vectors, of which the last rows and columns overlap those before.
#
# Where windows reach past the input, `x` is its first of `height` lines, `start` the number of the first that is read,
# and `blank` a line of padding: 144 planes of 56 x 56 by 3 x 3 take 343 us so, and 438 where lines are copied between
# margins (one thread of an Arm Neoverse-N1).
#
# Bytes less their zero point are multiplied as numbers of 16 bits, and summed as 32. The largest of bytes is a byte.


class _Stencil:
    """A kernel in the making."""

    def __init__(self, taps: Taps) -> None:
        names = "x pitch weights out out_step rows count section bases first start height blank"
        f = self.f = Function("kernel", names)
        self.taps, self.arg = taps, dict(zip(names.split(), f.args, strict=True))
        self.scalar, self.width = scalar_text(taps.kind), int(taps.kind[1:]) // 8
        self.vector = vector_of(taps.lanes, scalar_text(kind_of(taps.sums)))
        self.fold = fold("sum" if taps.op == "fma" else taps.op, load(0, taps.sums))
        self.epilogue = None
        if taps.epilogue is not None:
            self.epilogue = EpilogueText(taps.epilogue, f, taps.lanes, self.arg["section"], self.arg["bases"])
        result = taps.sums if taps.epilogue is None else taps.epilogue.value.type
        self.result_width = int(kind_of(result)[1:]) // 8
        self.lines: dict[int, Value] = {}
        """Where lines of the input begin, by number."""
        self.pairs: dict[tuple[int, Value | int, int], tuple[Value, Value | None]] = {}
        """Twice the elements of a vector, by a line's number, a group's column and the first of them."""
        self.waits = "w" if taps.by_lane and taps.kind == "f32" and taps.vectors > 2 else ""
        """The kind of registers that sums are waited for in, before lines that follow are read: LLVM would read more
        than registers hold."""

    def write(self) -> str:
        """The whole text."""
        f, taps = self.f, self.taps
        if taps.op == "fma":
            self.take_weights()
        if self.epilogue is not None:
            self.epilogue.enter()
        if taps.left is not None:
            blank = f.load(self.scalar, self.arg["blank"])
            self.fill = {n * taps.lanes: f.splat(blank, n * taps.lanes) for n in (1, 2)}
            """Padding, by the elements of a vector."""
        self.write_rows()
        return f.end()

    def write_rows(self) -> None:
        """All rows of results, some at once."""
        f, taps = self.f, self.taps
        with f.loop(0, self.arg["rows"], taps.together) as r:
            self.row = f.min(r, self.arg["rows"] - taps.together)
            self.to = self.arg["out"] + self.row * self.arg["out_step"]
            self.find_lines()
            self.write_row()

    def find_lines(self) -> None:
        """Where the lines of some rows begin: those above and below the input are padding."""
        f, taps, arg = self.f, self.taps, self.arg
        for i in sorted(self.served()):
            number = self.row * taps.down + i
            if taps.left is None:
                self.lines[i] = arg["x"] + number * arg["pitch"]
                continue
            number = arg["start"] + number
            is_there = (number >= 0) & (number < arg["height"])
            self.lines[i] = f.select(is_there, arg["x"] + number * arg["pitch"], arg["blank"])

    def served(self) -> dict[int, list[tuple[int, int]]]:
        """By line of the input the rows of results that it serves, with their taps."""
        found: dict[int, list[tuple[int, int]]] = {}
        for r in range(self.taps.together):
            for a in range(self.taps.rows):
                found.setdefault(r * self.taps.down + a * self.taps.below, []).append((r, a))
        return found

    def write_row(self) -> None:
        """Rows of results, block by block: the last vector ends with the row, and may overlap the one before it."""
        f, taps, count = self.f, self.taps, self.arg["count"]
        wide, most = taps.vectors * taps.lanes, taps.vectors - 1
        if taps.is_single:
            before = [_Group(0, most, is_left=True)] * bool(most)
            last = count - taps.lanes
            self.write_block([*before, _Group(last, 1, most, is_left=not most, is_right=True)])
            return
        begin = 0
        if taps.left is not None:
            begin = wide
            self.write_block([_Group(0, taps.vectors, is_left=True)])
        end = count - wide
        with f.loop(begin, end, wide) as c:
            self.write_block([_Group(c, taps.vectors)])
        last = count - taps.lanes
        self.write_block([*([_Group(end, most)] * bool(most)), _Group(last, 1, most, is_right=True)])

    def write_block(self, groups: list[_Group]) -> None:
        """Some rows of some vectors: each line of the input is read once for all rows that it serves."""
        sums: Sums = {}
        served = self.served()
        # In the order of taps for each result, whichever way they are walked.
        for i in sorted(served, reverse=self.taps.below < 0):
            for v, x, b in self.reads(groups, i):
                for r, a in served[i]:
                    sums[r, v] = self.add(sums.get((r, v)), x, a, b)
            self.wait(sums)
        self.put(sums, groups)

    def wait(self, sums: Sums) -> None:
        """Have arithmetic done before lines that follow are read."""
        if self.waits:
            for key, total in sums.items():
                sums[key] = self.f.opaque(total, self.waits)
        self.f.barrier()

    # Taps

    def take_weights(self) -> None:
        """Weights of an Arm, in vectors; and the input's zero point."""
        f, taps, at = self.f, self.taps, self.arg["weights"]
        count, lanes = taps.rows * taps.columns, taps.lanes
        self.weights: list[Value] = []
        for i in range(0, count if taps.by_lane else 0, lanes):
            if i + lanes <= count:
                self.weights.append(f.load(self.vector, at + 4 * i))
                continue
            self.weights.append(f.value("poison", self.vector))
            for k in range(i, count):  # nothing is read past the last
                self.weights[-1] = f.insert(self.weights[-1], f.load(self.weights[-1].scalar, at + 4 * k), k - i)
        if taps.kind != "f32":
            self.weights = [f.cast("trunc", one, "i16") for one in self.weights]
            self.zero = f.splat(f.load("i16", at + 4 * MOST, align=4), lanes)

    def weight(self, tap: int) -> Value:
        """A weight in every lane."""
        f, lanes = self.f, self.taps.lanes
        if self.taps.by_lane:
            return f.shuffle(self.weights[tap // lanes], None, [tap % lanes] * lanes)
        scalar = "float" if self.taps.kind == "f32" else "i16"
        return f.splat(f.load(scalar, self.arg["weights"] + 4 * tap, align=4), lanes)

    def reads(self, groups: list[_Group], i: int) -> Iterator[tuple[int, Value, int]]:
        """What a line has for each vector of a block, tap by tap: the vector's number, elements, the tap's column."""
        taps = self.taps
        for b in range(taps.columns):
            for group in groups:
                for v in range(group.vectors):
                    yield group.first + v, self.read(group, i, b * taps.beside + v * taps.lanes * taps.step), b

    def add(self, total: Value | None, x: Value, a: int, b: int) -> Value:
        """A fold and a tap, or the tap alone."""
        f, taps = self.f, self.taps
        if taps.op != "fma":
            return x if total is None else f.value(combine(f, self.fold, total, x, taps.lanes), self.vector)
        weight = self.weight(a * taps.columns + b)
        if taps.kind == "f32":
            return f.fmuladd(x, weight, f.zero(self.vector) if total is None else total)
        # Products of 16 bits by 16, which an Arm adds up by four at once.
        product = f.binary("mul nsw", f.cast("sext", x, "i32"), f.cast("sext", weight, "i32"))
        return product if total is None else total + product

    # Elements

    def read(self, group: _Group, i: int, offset: int) -> Value:
        """A vector of a line, so many elements on; bytes that are multiplied are less their zero point."""
        found = self.elements(group, i, offset)
        if self.taps.kind == "f32" or self.taps.op != "fma":
            return found
        return self.f.cast("zext" if self.taps.kind == "u8" else "sext", found, "i16") - self.zero

    def elements(self, group: _Group, i: int, offset: int) -> Value:
        """A vector of a line: all elements, or every other one."""
        lanes = self.taps.lanes
        if self.taps.step == 1:
            return self.load(group, i, offset, lanes)
        if group.is_right:  # two vectors side by side would have one element more, which there may not be
            both = self.load(group, i, offset, lanes), self.load(group, i, offset + lanes - 1, lanes)
            return self.f.every_other(*both)
        first = offset - 1 if (i, group.at, offset - 1) in self.pairs else offset
        if (i, group.at, first) not in self.pairs:
            self.pairs[i, group.at, first] = self.load_pair(group, i, first)
        return self.f.shuffle(*self.pairs[i, group.at, first], range(offset - first, 2 * lanes, 2))

    def load_pair(self, group: _Group, i: int, first: int) -> tuple[Value, Value | None]:
        """Twice the elements of a vector: in one, of which an Arm reads every other element at once."""
        return self.load(group, i, first, 2 * self.taps.lanes), None

    def load(self, group: _Group, i: int, offset: int, count: int) -> Value:
        """Some elements of a line, so many on from a group's first; those that a line does not have are padding."""
        f, taps = self.f, self.taps
        left, out = taps.left or 0, 0
        if taps.left is not None and group.is_left:
            out = min(offset - left, 0)
        if taps.left is not None and group.is_right and not out:
            past = offset - (taps.lanes - 1) * taps.step + taps.over - 1 - (taps.columns - 1) * taps.beside
            out = max(past + count, 0)
        at = self.lines[i] + group.at * (self.width * taps.step) + self.width * (offset - left - out)
        found = f.load(vector_of(count, self.scalar), at)
        if not out:
            return found
        return f.shuffle(found, self.fill[count], [k + out if 0 <= k + out < count else count for k in range(count)])

    # Results

    def put(self, sums: Sums, groups: list[_Group]) -> None:
        """Write the results of a block."""
        if self.epilogue is not None:
            self.epilogue.clear()
        vectors = {group.first + v: (group, v) for group in groups for v in range(group.vectors)}
        for (r, v), total in sums.items():
            self.store(total, *vectors[v], r, self.row, self.target(r))

    def target(self, r: int) -> Value:
        """Where a row of a block's results begins."""
        return self.to + self.arg["out_step"] * r

    def store(self, total: Value, group: _Group, v: int, r: int, row: Value, to: Value) -> None:
        """Write a vector of a group, of the row r after another, which begins at an address."""
        f, on = self.f, self.taps.lanes * v
        if self.epilogue is not None:
            column = f.value(group.at, "i64") + on
            total = self.epilogue.compute(total, r, group.first + v, self.arg["first"] + row + r, column)
        f.store(total, to + group.at * self.result_width + self.result_width * on, mask=self.present(group, v))

    def present(self, group: _Group, v: int) -> Value | range:  # noqa: ARG002 - for texts with masks
        """The lanes of a group's vector that are results."""
        return range(self.taps.lanes)


# Poolings that take the largest or the smallest: lines of a window first, then what lies side by side.


class _ByLine(_Stencil):
    """Vectors of lines are folded as they lie; every other element is taken apart, and elements are shifted, after it.

    The largest of 3 x 3 by 2 of 64 planes of 112 x 112 takes 267 us so, and 362 tap by tap (one thread of an Arm
    Neoverse-N1).
    """

    def write_block(self, groups: list[_Group]) -> None:
        for group in groups:
            self._write_group(group)

    def _write_group(self, group: _Group) -> None:
        taps, lanes = self.taps, self.taps.lanes
        count = group.vectors * taps.step
        # The last vector ends with the last element that is needed.
        starts = [lanes * i for i in range(count)]
        if taps.columns > taps.step:
            starts.append(lanes * count + taps.columns - taps.step - lanes)
        read: dict[tuple[int, int], Value] = {}
        for r in range(taps.together):
            folded = [self._down(read, r, start, group) for start in starts]
            streams = [folded[:count]] if taps.step == 1 else self._apart(folded[:count])
            sums = {}
            for v in range(group.vectors):
                shifted = [self._shifted(streams, folded, starts, b, v) for b in range(taps.columns)]
                sums[r, group.first + v] = functools.reduce(self._fold, shifted)
            self.put(sums, [group])

    def _fold(self, total: Value, x: Value) -> Value:
        return self.add(total, x, 0, 0)

    def _down(self, read: dict[tuple[int, int], Value], r: int, start: int, group: _Group) -> Value:
        """A vector folded over the lines of a window; lines are read once for all rows."""

        def line(i: int) -> Value:
            if (i, start) not in read:
                read[i, start] = self.load(group, i, start, self.taps.lanes)
            return read[i, start]

        lines = (r * self.taps.down + a * self.taps.below for a in range(self.taps.rows))
        return functools.reduce(self._fold, map(line, lines))

    def _apart(self, folded: list[Value]) -> list[list[Value]]:
        """Every other element of vectors, from the first on and from the second on."""
        pairs, lanes = list(zip(folded[::2], folded[1::2], strict=True)), self.taps.lanes
        return [[self.f.shuffle(*pair, range(phase, 2 * lanes, 2)) for pair in pairs] for phase in (0, 1)]

    def _shifted(self, streams: list[list[Value]], folded: list[Value], starts: list[int], b: int, v: int) -> Value:
        """The elements under a tap of the results of a vector."""
        lanes, step = self.taps.lanes, self.taps.step
        stream, shift = streams[b % step], b // step
        if not shift:
            return stream[v]
        places = [k + shift for k in range(lanes)]
        if v + 1 < len(stream):
            return self.f.shuffle(stream[v], stream[v + 1], places)
        last = [k if k < lanes else lanes + (lanes * v + k) * step + b % step - starts[-1] for k in places]
        return self.f.shuffle(stream[v], folded[-1], last)


# FLOAT32 where an x86 has 32 registers and tail masks (AVX-512).
#
# The text knows how long rows of results and lines of the input are: elements that a line does not have are 0, nothing
# is computed twice, and planes may be narrower than a vector. Weights stay in registers.


class _Masked(_Stencil):
    def __init__(self, taps: Taps) -> None:
        super().__init__(taps)
        self.waits = "v"
        self.least = min((taps.columns - 1) * taps.beside, 0) if taps.left is None else 0
        """The first element of a line that there is: windows may be walked backward."""

    def take_weights(self) -> None:
        """Those that registers hold."""
        count = self.taps.rows * self.taps.columns
        held = count if count <= figures().stencil.held_weights else 0
        spread = [super(_Masked, self).weight(tap) for tap in range(held)]
        self.weights = [self.f.opaque(one, "v") for one in spread]  # or LLVM reads each where it is used

    def weight(self, tap: int) -> Value:
        return self.weights[tap] if self.weights else super().weight(tap)

    def find_lines(self) -> None:
        """Where lines and rows of results begin, each found from the one before."""
        f, taps, arg = self.f, self.taps, self.arg
        number = self.row * taps.down
        if taps.left is not None:
            number = arg["start"] + number
        at, before = arg["x"] + number * arg["pitch"], 0
        for i in sorted(self.served()):
            at, before = at + arg["pitch"] * (i - before), i
            self.lines[i] = at
            if taps.left is not None:
                self.lines[i] = f.select(f.compare("ult", number + i, arg["height"]), at, arg["blank"])
        self.targets = [self.to]
        for _ in range(1, taps.together):
            self.targets.append(self.targets[-1] + arg["out_step"])

    def target(self, r: int) -> Value:
        return self.targets[r]

    def write_row(self) -> None:
        for group in self.groups():
            self.write_block([group])

    def groups(self) -> Iterator[_Group]:
        """The vectors of each block; those that read whole vectors alone are one of a loop."""
        taps, wide = self.taps, self.taps.vectors * self.taps.lanes
        starts = list(range(0, taps.width, wide))
        inside = [at for at in starts if self._is_inside(at)]
        for at in starts:
            if at not in inside:
                yield _Group(at, min(taps.vectors, -(-(taps.width - at) // taps.lanes)))
        if inside:
            with self.f.loop(inside[0], inside[-1] + 1, wide) as c:
                yield _Group(c, taps.vectors)

    def _is_inside(self, at: int) -> bool:
        """Whether a block has all columns, and reads what there is."""
        taps, wide = self.taps, self.taps.vectors * self.taps.lanes
        first, far = at * taps.step - (taps.left or 0), (taps.columns - 1) * taps.beside
        is_read = first + min(far, 0) >= self.least and first + wide * taps.step + max(far, 0) <= taps.line
        return is_read and at + wide <= taps.width

    def load_pair(self, group: _Group, i: int, first: int) -> tuple[Value, Value | None]:
        lanes = self.taps.lanes
        return self.load(group, i, first, lanes), self.load(group, i, first + lanes, lanes)

    def load(self, group: _Group, i: int, offset: int, count: int) -> Value:
        """Some elements of a line, so many on from a group's first; those that a line does not have are 0."""
        f, taps, kind = self.f, self.taps, vector_of(count, "float")
        first, there = offset - (taps.left or 0), range(count)
        if isinstance(group.at, int):
            begin = first + group.at * taps.step
            there = range(min(max(self.least - begin, 0), count), min(max(taps.line - begin, 0), count))
        at = self.lines[i] + group.at * (4 * taps.step) + 4 * first
        return f.load(kind, at, mask=there) if there else f.zero(kind)

    def present(self, group: _Group, v: int) -> Value | range:
        lanes, at = self.taps.lanes, group.at
        return range(min(self.taps.width - at - lanes * v, lanes) if isinstance(at, int) else lanes)


# The same where windows go on by one line: each line of the input is read once, and added to the sums of all rows that
# it serves.
#
# Sums roll on from line to line: a line is the last of row 0, and the last but one of row 1. Of 144 planes of 56 x 56
# by 3 x 3 each takes 0.80 us so where the second cache has them, and 1.66 in blocks of 4 rows by 2 vectors whose
# weights are read each time (one thread, 16 lanes): reads take longest, since most lie across two lines of the cache.


class _Rolling(_Masked):
    def write_rows(self) -> None:
        """Block by block, and in each from the first line to the last."""
        for group in self.groups():
            self._go_down(group)

    def _go_down(self, group: _Group) -> None:
        f, last = self.f, self.taps.rows - 1
        sums: Sums = {}
        for i in range(last):  # no row is done yet
            sums = self._roll(self._add_line(f.value(i, "i64"), group, sums, last - i))
        with f.loop(0, self.arg["rows"], carry=sums, is_entered=True) as row:
            found = self._add_line(row + last, group, sums, 0)
            to = self.arg["out"] + row * self.arg["out_step"]
            self._prefetch(self.lines[len(self.lines) - 1], group, self.taps.step)
            self._prefetch(to, group, 1, is_written=True)
            if self.epilogue is not None:
                self.epilogue.clear()
            for v in range(group.vectors):
                self.store(found[0, v], group, v, 0, row, to)
            sums.update(self._roll(found))

    def _prefetch(self, line: Value, group: _Group, step: int, *, is_written: bool = False) -> None:
        """Have a block's part of a line fetched that follows in a while."""
        for byte in range(0, 4 * step * self.taps.lanes * group.vectors, LINE):
            place = line + group.at * (4 * step) + (figures().stencil.prefetch_bytes + byte)
            self.f.prefetch(place, is_written=is_written)

    def _roll(self, sums: Sums) -> Sums:
        """Sums as the next line finds them."""
        return {(k - 1, v): one for (k, v), one in sums.items() if k}

    def _add_line(self, number: Value, group: _Group, sums: Sums, least: int) -> Sums:
        """Sums and the products of the line of a number, for rows from `least` on."""
        f, taps, arg, own = self.f, self.taps, self.arg, len(self.lines)
        if taps.left is not None:
            number = arg["start"] + number
        self.lines[own] = arg["x"] + number * arg["pitch"]
        if taps.left is not None:
            self.lines[own] = f.select(f.compare("ult", number, arg["height"]), self.lines[own], arg["blank"])
        sums = dict(sums)
        for b in range(taps.columns):
            far = [b * taps.beside + v * taps.lanes * taps.step for v in range(group.vectors)]
            elements = [self.elements(group, own, offset) for offset in far]
            for k in range(least, taps.rows):
                for v, x in enumerate(elements):
                    sums[k, v] = self.add(sums.get((k, v)), x, taps.rows - 1 - k, b)
        self.wait(sums)
        return sums


# Bytes where an x86 adds up four products at once (VNNI), and has masks.
#
# A vector of 16 results takes four bytes of a line for each: lines of a window are cut in fours, with weights of 0 past
# the last. Bytes of the input are unsigned here, and weights signed; those with a sign have 128 more. What a row of
# results needs is read, and no more, so that planes may be narrower than a vector.


def suits_vnni(taps: Taps) -> bool:
    """Whether windows are of bytes, and a vector has all that 16 of them need."""
    return taps.kind != "f32" and taps.op == "fma" and taps.beside == 1 and taps.columns <= 2 * FOUR and taps.step <= 2


class _Vnni(_Stencil):
    def take_weights(self) -> None:
        """Four of a line at a time, for every lane; sums begin with what the zero point takes off."""
        f, taps, at = self.f, self.taps, self.arg["weights"]
        self.fours: dict[tuple[int, int], Value] = {}
        total = f.value(0, "i32")
        for a in range(taps.rows):
            for first in range(0, taps.columns, FOUR):
                four = f.value(0, "i32")
                for b in range(first, min(first + FOUR, taps.columns)):
                    tap = a * taps.columns + b
                    if taps.has_bytes:
                        found = f.load("i8", at + tap)
                        bits, weight = f.cast("zext", found, "i32"), f.cast("sext", found, "i32")
                    else:
                        weight = f.load("i32", at + 4 * tap)
                        bits = weight & 255
                    total = total if taps.has_bytes and taps.kind == "u8" else total + weight
                    four = four | (bits << 8 * (b - first))
                self.fours[a, first // FOUR] = f.splat(four, DOT_LANES)
        off = f.value(0 if taps.kind == "u8" else -128, "i32")
        if not taps.has_bytes:
            off = off - f.load("i32", at + 4 * MOST)
        self.start = f.splat(off * total, DOT_LANES)

    def write_row(self) -> None:
        """Rows of results, vector by vector."""
        f, taps, count = self.f, self.taps, self.arg["count"]
        with f.loop(0, count, DOT_LANES) as c:
            some = f.min(count - c, DOT_LANES)
            self.there = f.tail_mask(some, DOT_LANES, "i8")
            self.given = f.tail_mask((some - 1) * taps.step + taps.columns, 2 * DOT_LANES * taps.step, "i8")
            self.write_block([_Group(c, 1)])

    def reads(self, groups: list[_Group], i: int) -> Iterator[tuple[int, Value, int]]:
        """For each four of a line of the window the bytes of all results."""
        f, taps, (group,) = self.f, self.taps, groups
        found = f.load(vector_of(self.given.lanes, "i8"), self.lines[i] + group.at * taps.step, mask=self.given)
        if taps.kind == "i8":
            found = found ^ -128
        words, octets = found.lanes // FOUR, vector_of(FOUR * DOT_LANES, "i8")
        found = f.bitcast(found, vector_of(words, "i32"))
        for part in range(-(-taps.columns // FOUR)):
            # Four results share 16 bytes, which one instruction brings there, and another sorts.
            shared = [min(taps.step * k + j + part, words - 1) for k in range(DOT_LANES // FOUR) for j in range(FOUR)]
            near = f.bitcast(f.shuffle(found, None, shared), octets)
            order = [16 * (k // FOUR) + k % FOUR * taps.step + b for k in range(DOT_LANES) for b in range(FOUR)]
            yield 0, f.bitcast(f.shuffle(near, None, order), self.vector), part

    def add(self, total: Value | None, x: Value, a: int, b: int) -> Value:
        start = self.start if total is None else total
        return write_dot(self.f, False, x, self.fours[a, b], start)

    def wait(self, sums: Sums) -> None:
        """Registers are enough."""

    def present(self, group: _Group, v: int) -> Value | range:  # noqa: ARG002 - of its one vector
        return self.there


# Bytes where an Arm adds up four products at once (SDOT): those of a line of a window, for four results.
#
# Weights less their zero point are bytes here, which the walk has seen to. Of unsigned bytes 128 is taken off, and of
# sums the zero point times all weights.


def suits_sdot(taps: Taps) -> bool:
    """Whether lines of windows are short enough, and rows of results long enough that nothing is read past them."""
    is_short = taps.beside == 1 and 1 < taps.columns <= FOUR and taps.rows <= FOUR * FOUR
    return taps.kind != "f32" and taps.op == "fma" and is_short and taps.lanes == 2 * FOUR and taps.by_lane


class _Sdot(_Stencil):
    def take_weights(self) -> None:
        """A vector has the weights of four lines; sums begin with what the zero point takes off."""
        f, taps, at = self.f, self.taps, self.arg["weights"]
        self.weights, total = [f.zero(vector_of(FOUR * FOUR, "i8"))] * -(-taps.rows // FOUR), f.value(0, "i32")
        for a in range(taps.rows):
            for b in range(taps.columns):
                byte = f.load("i8", at + 4 * (a * taps.columns + b), align=4)
                self.weights[a // FOUR] = f.insert(self.weights[a // FOUR], byte, FOUR * (a % FOUR) + b)
                total = total + f.cast("sext", byte, "i32")
        off = f.value(128 if taps.kind == "u8" else 0, "i32") - f.load("i32", at + 4 * MOST)
        self.start = f.splat(off * total, FOUR)

    def reads(self, groups: list[_Group], i: int) -> Iterator[tuple[int, Value, int]]:
        """The four bytes of a line that each of four results has, for both halves of each vector."""
        halves = [(group, v) for group in groups for v in range(2 * group.vectors)]
        for v, (group, half) in enumerate(halves):
            yield v, self._quads(group, i, half), 0

    def _quads(self, group: _Group, i: int, v: int) -> Value:
        """Those of a half; the second four end with what both need."""
        taps = self.taps
        count, pair, first = (2 if taps.step == 1 else 4) * FOUR, v // 2 * 2 * FOUR * taps.step, 0
        if v % 2:
            first = (2 * FOUR - 1) * taps.step + taps.columns - count
        found = self.load(group, i, pair + first, count)
        if taps.kind == "u8":
            found = found ^ -128
        begin = v % 2 * FOUR * taps.step - first
        # A tap that is past the window is any byte: its weight is 0.
        order = [min(begin + k * taps.step + b, count - 1) for k in range(FOUR) for b in range(FOUR)]
        return self.f.shuffle(found, None, order)

    def add(self, total: Value | None, x: Value, a: int, b: int) -> Value:  # noqa: ARG002 - all of a line
        order = [FOUR * (a % FOUR) + b for _ in range(FOUR) for b in range(FOUR)]
        line = self.f.shuffle(self.weights[a // FOUR], None, order)
        start = self.start if total is None else total
        return self.f.intrinsic("aarch64.neon.sdot.v4i32.v16i8", start, x, line)

    def put(self, sums: Sums, groups: list[_Group]) -> None:
        """Join the halves of vectors, and write them."""
        keys = [(r, v) for r in range(self.taps.together) for v in range(sum(group.vectors for group in groups))]
        both = {(r, v): self.f.shuffle(sums[r, 2 * v], sums[r, 2 * v + 1], range(2 * FOUR)) for r, v in keys}
        super().put(both, groups)
