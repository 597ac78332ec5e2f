"""The depthwise and pooling stencil: each tap is a shifted row of the input, so that vectors lie along the results."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.codegen.expressions import kind_of, scalar_text
from anydml.engines.cpu.codegen.function import Steps
from anydml.engines.cpu.gemm.epilogue import EpilogueText
from anydml.engines.cpu.rows.reduce_kernel import combine
from anydml.enums import DataType
from anydml.ir.expressions import fold, load

if TYPE_CHECKING:
    from anydml.ir.epilogue import Epilogue

# The parameters of a kernel of taps.


MOST = 64
"""Taps at most; the input's zero point lies after as many weights."""


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
    """Elements that a line's first window has before it; None where all that is read is there."""
    over: int = 0
    """And those that its last window has after it."""
    width: int = 0
    """The results of a row and the elements of a line, in texts that know them; 0 in others."""
    line: int = 0
    has_bytes: bool = False
    """Whether weights are bytes, as they lie, and nothing is taken off the input."""
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


class Group(NamedTuple):
    """Vectors of a row of results, side by side from a column on."""

    at: str
    """The column's number."""
    vectors: int
    first: int = 0
    """Of them in the block."""
    is_left: bool = False
    """Whether the column is the row's first."""
    is_right: bool = False
    """Whether it is the one vector that ends with the row."""


# Small windows that walk over planes: each tap is a row of the input, moved, so that vectors lie along results.
#
# A depthwise convolution sums taps times weights, a pooling adds them up or takes the largest. `taps(x, pitch, weights,
# out, out_step, rows, count, section, bases, first, start, height, blank)` computes rows of `count` results from an
# input whose lines lie `pitch` apart; products are in the order in which a tile adds them up, so that sums have its
# bits. The last rows and columns overlap those before.
#
# Where windows reach past the input, `x` is its first of `height` lines, `start` the number of the first that is read,
# and `blank` a line of what is around it: 144 planes of 56 x 56 by 3 x 3 take 343 us so, and 438 where lines are copied
# between margins (one thread of an Arm Neoverse-N1).
#
# Bytes less their zero point are multiplied as numbers of 16 bits, and summed as 32. The largest of bytes is a byte.


def make_taps(taps: Taps) -> str:
    """The text of the kernel."""
    return TapsText(taps).write()


class TapsText:
    """A kernel in the making."""

    def __init__(self, taps: Taps) -> None:
        self.taps, self.text = taps, Steps()
        self.scalar, self.sum_scalar = scalar_text(taps.kind), scalar_text(kind_of(taps.sums))
        self.width = int(taps.kind[1:]) // 8
        self.vector = f"<{taps.lanes} x {self.sum_scalar}>"
        self.fold = fold("sum" if taps.op == "fma" else taps.op, load(0, taps.sums))
        self.epilogue = None
        if taps.epilogue is not None:
            section, bases = self.text.value("section"), self.text.value("bases")
            self.epilogue = EpilogueText(taps.epilogue, self.text, taps.lanes, section, bases)
        self.result = taps.sums if taps.epilogue is None else taps.epilogue.value.type
        self.weights: list[str] = []
        self.zero = ""
        self.pairs: dict[tuple[str, int], str] = {}
        """The vectors read of a line, twice as long as a vector, by its group's column and its first element."""
        self.fill: dict[int, str] = {}
        """The blanks, by the elements of a vector."""

    def write(self) -> str:
        """The whole text."""
        text, taps = self.text, self.taps
        if taps.op == "fma":
            self.take_weights()
        if self.epilogue is not None:
            self.epilogue.enter()
        if taps.left is not None:
            blank = text.new(f"load {self.scalar}, ptr {text.place('blank')}, align {self.width}")
            self.fill = {n * taps.lanes: text.spread(blank, self.scalar, n * taps.lanes) for n in (1, 2)}
        self.write_rows()
        text.add("ret void")
        names = ["x", "pitch", "weights", "out", "out_step", "rows", "count", "section", "bases", "first"]
        names += ["start", "height", "blank"]
        return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")

    def write_rows(self) -> None:
        """All rows of results, some at once."""
        text, taps = self.text, self.taps
        with text.loop("r", 0, "rows", taps.together):
            text.let("row", f"min(r, rows - {taps.together})")
            text.let("to", "out + row * out_step")
            self.find_lines()
            self.write_row()

    def find_lines(self) -> None:
        """Where the lines of some rows begin: those above and below the input are blank."""
        text, taps = self.text, self.taps
        for i in sorted(self.served()):
            number = f"row * {taps.down} + {i}"
            if taps.left is None:
                text.let(line_name(i), f"x + ({number}) * pitch")
                continue
            number = f"start + {number}"
            is_there = f"{number} >= 0 and {number} < height"
            text.let(line_name(i), f"x + ({number}) * pitch if {is_there} else blank")

    def write_row(self) -> None:
        """Rows of results, block by block: the last vector ends with the row, and may overlap the one before it."""
        text, taps = self.text, self.taps
        wide, most = taps.vectors * taps.lanes, taps.vectors - 1
        before = [Group("0", most, is_left=True)] * bool(most)
        if taps.is_single:
            text.let("last", f"count - {taps.lanes}")
            self.write_block([*before, Group("last", 1, most, is_left=not most, is_right=True)])
            return
        begin = 0
        if taps.left is not None:
            begin = wide
            self.write_block([Group("0", taps.vectors, is_left=True)])
        text.let("end", f"count - {wide}")
        with text.loop("c", begin, "end", wide):
            self.write_block([Group("c", taps.vectors)])
        text.let("last", f"count - {taps.lanes}")
        self.write_block([*([Group("end", most)] * bool(most)), Group("last", 1, most, is_right=True)])

    def take_weights(self) -> None:
        """Weights of an Arm, in vectors; and the input's zero point."""
        text, taps = self.text, self.taps
        count, lanes = taps.rows * taps.columns, taps.lanes
        if taps.by_lane:
            whole = count // lanes * lanes
            self.weights = [
                text.new(f"load {self.vector}, ptr {text.place(f'weights + {4 * i}')}, align 4")
                for i in range(0, whole, lanes)
            ]
            if whole < count:
                self.weights.append("poison")
            for i in range(whole, count):  # nothing is read past the last
                one = text.new(f"load {self.sum_scalar}, ptr {text.place(f'weights + {4 * i}')}, align 4")
                self.weights[-1] = text.new(
                    f"insertelement {self.vector} {self.weights[-1]}, {self.sum_scalar} {one}, i32 {i - whole}"
                )
        if taps.kind != "f32":
            short = f"<{taps.lanes} x i16>"
            self.weights = [text.new(f"trunc {self.vector} {one} to {short}") for one in self.weights]
            zero = text.new(f"load i16, ptr {text.place(f'weights + {4 * MOST}')}, align 4")
            self.zero = text.spread(zero, "i16", taps.lanes)

    def served(self) -> dict[int, list[tuple[int, int]]]:
        """By line of the input the rows of results that it serves, with their taps."""
        found: dict[int, list[tuple[int, int]]] = {}
        for r in range(self.taps.together):
            for a in range(self.taps.rows):
                found.setdefault(r * self.taps.down + a * self.taps.below, []).append((r, a))
        return found

    def write_block(self, groups: list[Group]) -> None:
        """Some rows of some vectors: each line of the input is read once for all rows that it serves."""
        text, taps = self.text, self.taps
        sums: dict[tuple[int, int], str] = {}
        served = self.served()
        # In the order of taps for each result, whichever way they are walked.
        for i in sorted(served, reverse=taps.below < 0):
            self.pairs.clear()
            for b in range(taps.columns):
                for group in groups:
                    for v in range(group.vectors):
                        x = self._read(group, i, b * taps.beside + v * taps.lanes * taps.step)
                        for r, a in served[i]:
                            key = (r, group.first + v)
                            sums[key] = self.add(sums.get(key), x, a * taps.columns + b)
            self.follow(sums)
            text.add('call void asm sideeffect "", "~{memory}"()')
        self.put(sums, groups)

    def follow(self, sums: dict[tuple[int, int], str]) -> None:
        """Have arithmetic done before lines that follow are read: LLVM would read more than registers hold."""
        taps = self.taps
        if taps.by_lane and taps.kind == "f32" and taps.vectors > 2:
            for one, total in sums.items():
                sums[one] = self.text.new(f'call {self.vector} asm sideeffect "", "=w,0"({self.vector} {total})')

    def put(self, sums: dict[tuple[int, int], str], groups: list[Group]) -> None:
        """Write results, by row and vector."""
        text, lanes, kind = self.text, self.taps.lanes, kind_of(self.result)
        width, vector = int(kind[1:]) // 8, f"<{lanes} x {scalar_text(kind)}>"
        if self.epilogue is not None:
            self.epilogue.clear()
        columns = {group.first + v: (group.at, lanes * v) for group in groups for v in range(group.vectors)}
        for (r, v), total in sums.items():
            value, (at, on) = total, columns[v]
            if self.epilogue is not None:
                row, column = text.value(f"first + row + {r}"), text.value(f"{at} + {on}")
                value = self.epilogue.compute(text.value(total, self.vector), r, v, row, column)
            place = text.place(f"to + {r} * out_step + {at} * {width} + {width * on}")
            text.add(f"store {vector} {value}, ptr {place}, align {width}")

    def add(self, total: str | None, x: str, tap: int) -> str:
        """A fold and a tap, or the tap alone."""
        text, taps = self.text, self.taps
        if taps.op != "fma":
            return x if total is None else combine(text, self.fold, total, x, taps.lanes)
        if taps.kind != "f32":
            return self._add_short(total, x, self.weight(tap, "i16"))
        return text.call("fmuladd", self.vector, [x, self.weight(tap, "float"), total or "zeroinitializer"])

    def weight(self, tap: int, scalar: str) -> str:
        """A weight in every lane."""
        text, lanes = self.text, self.taps.lanes
        kind = f"<{lanes} x {scalar}>"
        if not self.taps.by_lane:
            one = text.new(f"load {scalar}, ptr {text.place(f'weights + {4 * tap}')}, align 4")
            return text.spread(one, scalar, lanes)
        lane = ", ".join([f"i32 {tap % lanes}"] * lanes)
        return text.new(f"shufflevector {kind} {self.weights[tap // lanes]}, {kind} poison, <{lanes} x i32> <{lane}>")

    def _add_short(self, total: str | None, x: str, weight: str) -> str:
        """Add products of 16 bits by 16, which an Arm does by four at once."""
        text, lanes = self.text, self.taps.lanes
        long = [text.new(f"sext <{lanes} x i16> {one} to {self.vector}") for one in (x, weight)]
        product = text.new(f"mul nsw {self.vector} {long[0]}, {long[1]}")
        return product if total is None else text.new(f"add {self.vector} {total}, {product}")

    def _read(self, group: Group, i: int, offset: int) -> str:
        """A vector of a line, so many elements on: all, or every other one; of bytes less their zero point."""
        text, lanes = self.text, self.taps.lanes
        found = self.elements(group, i, offset)
        if self.taps.kind == "f32" or self.taps.op != "fma":
            return found
        widen, short = "zext" if self.taps.kind == "u8" else "sext", f"<{lanes} x i16>"
        return text.new(f"sub {short} {text.new(f'{widen} <{lanes} x i8> {found} to {short}')}, {self.zero}")

    def elements(self, group: Group, i: int, offset: int) -> str:
        """A vector of a line: all elements, or every other one."""
        lanes = self.taps.lanes
        if self.taps.step == 1:
            return self.load(group, i, offset, lanes)
        if not group.is_right:
            first = offset - 1 if (group.at, offset - 1) in self.pairs else offset
            if (group.at, first) not in self.pairs:
                self.pairs[group.at, first] = self.load(group, i, offset, 2 * lanes)
            count, both = 2 * lanes, (self.pairs[group.at, first], "poison")
            order = list(range(offset - first, 2 * lanes, 2))
        else:  # the last of two vectors would be read with one element more, which there may not be
            count = lanes
            both = (self.load(group, i, offset, lanes), self.load(group, i, offset + lanes - 1, lanes))
            order = [2 * k if 2 * k < lanes else 2 * k + 1 for k in range(lanes)]
        return self.pick(both, count, order)

    def load(self, group: Group, i: int, offset: int, count: int) -> str:
        """Some elements of a line, so many on from a group's first; those that a line does not have are blank."""
        text, taps = self.text, self.taps
        left, out = taps.left or 0, 0
        if taps.left is not None and group.is_left:
            out = min(offset - left, 0)
        if taps.left is not None and group.is_right and not out:
            past = offset - (taps.lanes - 1) * taps.step + taps.over - 1 - (taps.columns - 1) * taps.beside
            out = max(past + count, 0)
        at = text.value(
            f"{line_name(i)} + {group.at} * {self.width * taps.step} + {self.width * (offset - left - out)}"
        )
        found = text.new(
            f"load <{count} x {self.scalar}>, ptr {text.new(f'inttoptr i64 {at} to ptr')}, align {self.width}"
        )
        if not out:
            return found
        order = [k + out if 0 <= k + out < count else count for k in range(count)]
        return self.pick((found, self.fill[count]), count, order)

    def pick(self, both: tuple[str, str], count: int, order: list[int]) -> str:
        """A vector of the elements of two, which have `count` each."""
        kind, mask = f"<{count} x {self.scalar}>", ", ".join(f"i32 {k}" for k in order)
        return self.text.new(f"shufflevector {kind} {both[0]}, {kind} {both[1]}, <{len(order)} x i32> <{mask}>")


def line_name(i: int) -> str:
    """The name of where a line begins."""
    return f"line_{'below' if i >= 0 else 'above'}_{abs(i)}"


# Poolings that take the largest or the smallest: lines of a window first, then what lies side by side.


def make_extremes(taps: Taps) -> str:
    """The text of the kernel, for taps that are `is_by_line`."""
    return ExtremesText(taps).write()


class ExtremesText(TapsText):
    """Vectors of lines are folded as they lie; every other element is taken apart, and elements are shifted, after it.

    The largest of 3 x 3 by 2 of 64 planes of 112 x 112 takes 267 us so, and 362 tap by tap (one thread of an Arm
    Neoverse-N1).
    """

    def write_block(self, groups: list[Group]) -> None:
        """Some rows of some vectors."""
        for group in groups:
            self._write_group(group)

    def _write_group(self, group: Group) -> None:
        taps, lanes = self.taps, self.taps.lanes
        count = group.vectors * taps.step
        # The last vector ends with the last element that is needed.
        starts = [lanes * i for i in range(count)]
        if taps.columns > taps.step:
            starts.append(lanes * count + taps.columns - taps.step - lanes)
        read: dict[tuple[int, int], str] = {}
        for r in range(taps.together):
            folded = [self._down(read, r, start, group) for start in starts]
            streams = [folded[:count]] if taps.step == 1 else self._apart(folded[:count])
            sums = {}
            for v in range(group.vectors):
                found = [self._shifted(streams, folded, starts, b, v) for b in range(taps.columns)]
                total = found[0]
                for one in found[1:]:
                    total = combine(self.text, self.fold, total, one, lanes)
                sums[r, group.first + v] = total
            self.put(sums, [group])

    def _down(self, read: dict[tuple[int, int], str], r: int, start: int, group: Group) -> str:
        """A vector folded over the lines of a window; lines are read once for all rows."""
        total = ""
        for a in range(self.taps.rows):
            i = r * self.taps.down + a * self.taps.below
            if (i, start) not in read:
                read[i, start] = self.load(group, i, start, self.taps.lanes)
            one = read[i, start]
            total = combine(self.text, self.fold, total, one, self.taps.lanes) if a else one
        return total

    def _apart(self, folded: list[str]) -> list[list[str]]:
        """Every other element of vectors, from the first on and from the second on."""
        lanes = self.taps.lanes
        pairs = list(zip(folded[::2], folded[1::2], strict=True))
        return [[self.pick(pair, lanes, list(range(phase, 2 * lanes, 2))) for pair in pairs] for phase in (0, 1)]

    def _shifted(self, streams: list[list[str]], folded: list[str], starts: list[int], b: int, v: int) -> str:
        """The elements under a tap of the results of a vector."""
        lanes, step = self.taps.lanes, self.taps.step
        stream, shift = streams[b % step], b // step
        if not shift:
            return stream[v]
        places = [k + shift for k in range(lanes)]
        if v + 1 < len(stream):
            return self.pick((stream[v], stream[v + 1]), lanes, places)
        last = [k if k < lanes else lanes + (lanes * v + k) * step + b % step - starts[-1] for k in places]
        return self.pick((stream[v], folded[-1]), lanes, last)
