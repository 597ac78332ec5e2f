"""Small windows that walk over planes: each tap is a row of the input, moved, so that vectors lie along results.

A depthwise convolution sums taps times weights, a pooling adds them up or takes the largest. `taps(x, pitch, weights,
out, out_step, rows, count, section, bases, first)` computes rows of `count` results from an input whose lines lie
`pitch` apart; products are in the order in which a tile adds them up, so that sums have its bits. The last rows and
columns overlap those before: there are at least `TOGETHER` rows and a vector of columns.

Bytes less their zero point are multiplied as numbers of 16 bits, and summed as 32.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.kernels.endings import EndingText
from anydml.engines.cpu.kernels.folds import combine
from anydml.engines.cpu.kernels.nodes import kind_of, scalar_text
from anydml.engines.cpu.kernels.steps import Steps
from anydml.enums import DataType
from anydml.ir.expressions import fold, load
from anydml.ir.trees import write

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.endings import Ending

TOGETHER = 4
"""Rows of results at once: they share lines of the input."""
MOST = 64
"""Taps at most; the input's zero point lies after as many weights."""


class Taps(NamedTuple):
    """What the text is written for: distances are in lines of the input, and in elements along one."""

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
    """Of the input: `f32`, or with weights `i8` or `u8`."""
    ending: Ending | None = None
    """What is computed from folds; None where they are results."""

    @property
    def name(self) -> str:
        """The kernel's."""
        *plain, ending = self
        if ending is None:
            return "taps " + " ".join(map(str, plain))
        tree = write(ending.value, numbers=False) + repr([(str(leaf.value), leaf.op) for leaf in ending.leaves])
        return f"taps {' '.join(map(str, plain))} {hashlib.sha256(f'{tree}{ending.moves}'.encode()).hexdigest()[:32]}"

    @property
    def sums(self) -> DataType:
        """The type that is folded in."""
        return DataType.FLOAT32 if self.kind == "f32" else DataType.INT32

    @property
    def is_by_line(self) -> bool:
        """Whether lines are folded first, then what lies side by side: extremes, which no order changes."""
        return self.op in ("max", "min") and self.beside == 1 and self.step <= self.columns <= self.step + self.lanes


def make_taps(taps: Taps) -> str:
    """The text of the kernel."""
    return (_Extremes if taps.is_by_line else TapsText)(taps).write()


class TapsText:
    """A kernel in the making."""

    def __init__(self, taps: Taps) -> None:
        self.taps, self.text = taps, Steps()
        self.scalar, self.sum_scalar = scalar_text(taps.kind), scalar_text(kind_of(taps.sums))
        self.width = int(taps.kind[1:]) // 8
        self.vector = f"<{taps.lanes} x {self.sum_scalar}>"
        self.fold = fold("sum" if taps.op == "fma" else taps.op, load(0, taps.sums))
        self.ending = None if taps.ending is None else EndingText(taps.ending, self.text, taps.lanes)
        self.result = taps.sums if taps.ending is None else taps.ending.value.type
        self.weights: list[str] = []
        self.zero = ""
        self.pairs: dict[int, str] = {}
        """What was read of a line, twice as long as a vector, by its first element."""

    def write(self) -> str:
        """The whole text."""
        text, taps = self.text, self.taps
        if taps.op == "fma":
            self.take_weights()
        if self.ending is not None:
            self.ending.enter()
        wide = 2 * taps.lanes
        # A vector of every other element is read with one element more, which the last one does not have.
        text.let("wide", f"((count - {taps.step - 1}) // {wide}) * {wide}")
        with text.loop("r", 0, "rows", TOGETHER):
            text.let("row", f"min(r, rows - {TOGETHER})")
            text.let("line", f"x + row * pitch * {taps.down}")
            text.let("to", "out + row * out_step")
            with text.loop("c", 0, "wide", wide):
                self.write_block("c", 2)
            with text.loop("d", "wide", "count", taps.lanes):
                text.let("at", f"min(d, count - {taps.lanes})")
                self.write_block("at", 1)
        text.add("ret void")
        names = ("x", "pitch", "weights", "out", "out_step", "rows", "count", "section", "bases", "first")
        return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")

    def take_weights(self) -> None:
        """Weights of an Arm, in vectors; and the input's zero point."""
        text, taps = self.text, self.taps
        if taps.by_lane:
            count = -(-taps.rows * taps.columns // taps.lanes)
            self.weights = [
                text.new(f"load {self.vector}, ptr {text.place(f'weights + {4 * taps.lanes * i}')}, align 4")
                for i in range(count)
            ]
        if taps.kind != "f32":
            short = f"<{taps.lanes} x i16>"
            self.weights = [text.new(f"trunc {self.vector} {one} to {short}") for one in self.weights]
            zero = text.new(f"load i16, ptr {text.place(f'weights + {4 * MOST}')}, align 4")
            self.zero = text.spread(zero, "i16", taps.lanes)

    def served(self) -> dict[int, list[tuple[int, int]]]:
        """By line of the input the rows of results that it serves, with their taps."""
        found: dict[int, list[tuple[int, int]]] = {}
        for r in range(TOGETHER):
            for a in range(self.taps.rows):
                found.setdefault(r * self.taps.down + a * self.taps.below, []).append((r, a))
        return found

    def write_block(self, at: str, vectors: int) -> None:
        """Some rows of some vectors: each line of the input is read once for all rows that it serves."""
        text, taps = self.text, self.taps
        sums: dict[tuple[int, int], str] = {}
        served = self.served()
        # In the order of taps for each result, whichever way they are walked.
        for i in sorted(served, reverse=taps.below < 0):
            line = self.line(i, at)
            self.pairs.clear()
            for b in range(taps.columns):
                for v in range(vectors):
                    x = self._read(line, b * taps.beside + v * taps.lanes * taps.step, is_last=vectors == 1)
                    for r, a in served[i]:
                        sums[r, v] = self._add(sums.get((r, v)), x, a * taps.columns + b)
            text.add('call void asm sideeffect "", "~{memory}"()')
        self.put(sums, at)

    def line(self, i: int, at: str) -> str:
        """The address of a line of the input, from the column of some result on."""
        return self.text.value(f"line + {i} * pitch + {at} * {self.width * self.taps.step}")

    def put(self, sums: dict[tuple[int, int], str], at: str) -> None:
        """Write results, by row and vector."""
        text, lanes, kind = self.text, self.taps.lanes, kind_of(self.result)
        width, vector = int(kind[1:]) // 8, f"<{lanes} x {scalar_text(kind)}>"
        if self.ending is not None:
            self.ending.clear()
        for (r, v), total in sums.items():
            value = total
            if self.ending is not None:
                value = self.ending.compute(total, r, v, f"first + row + {r}", f"{at} + {lanes * v}")
            place = text.place(f"to + {r} * out_step + {at} * {width} + {width * lanes * v}")
            text.add(f"store {vector} {value}, ptr {place}, align {width}")

    def _add(self, total: str | None, x: str, tap: int) -> str:
        text, taps = self.text, self.taps
        if taps.op != "fma":
            return x if total is None else combine(text, self.fold, total, x, taps.lanes)
        if taps.kind != "f32":
            return self._add_short(total, x, self._weight(tap, "i16"))
        return text.call("fmuladd", self.vector, [x, self._weight(tap, "float"), total or "zeroinitializer"])

    def _weight(self, tap: int, scalar: str) -> str:
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

    def _read(self, line: str, offset: int, *, is_last: bool) -> str:
        """A vector of the input, so many elements on: all, or every other one; of bytes less their zero point."""
        text, lanes = self.text, self.taps.lanes
        found = self._elements(line, offset, is_last=is_last)
        if self.taps.kind == "f32":
            return found
        widen, short = "zext" if self.taps.kind == "u8" else "sext", f"<{lanes} x i16>"
        return text.new(f"sub {short} {text.new(f'{widen} <{lanes} x i8> {found} to {short}')}, {self.zero}")

    def _elements(self, line: str, offset: int, *, is_last: bool) -> str:
        lanes = self.taps.lanes
        if self.taps.step == 1:
            return self.load(line, offset, lanes)
        if not is_last:
            first = offset - 1 if offset - 1 in self.pairs else offset
            if first not in self.pairs:
                self.pairs[first] = self.load(line, offset, 2 * lanes)
            count, both = 2 * lanes, (self.pairs[first], "poison")
            order = list(range(offset - first, 2 * lanes, 2))
        else:
            count, both = lanes, (self.load(line, offset, lanes), self.load(line, offset + lanes - 1, lanes))
            order = [2 * k if 2 * k < lanes else 2 * k + 1 for k in range(lanes)]
        return self.pick(both, count, order)

    def load(self, line: str, offset: int, count: int) -> str:
        """Some elements of a line, so many on."""
        place = self.text.new(f"inttoptr i64 {self.text.new(f'add i64 {line}, {self.width * offset}')} to ptr")
        return self.text.new(f"load <{count} x {self.scalar}>, ptr {place}, align {self.width}")

    def pick(self, both: tuple[str, str], count: int, order: list[int]) -> str:
        """A vector of the elements of two, which have `count` each."""
        kind, mask = f"<{count} x {self.scalar}>", ", ".join(f"i32 {k}" for k in order)
        return self.text.new(f"shufflevector {kind} {both[0]}, {kind} {both[1]}, <{len(order)} x i32> <{mask}>")


class _Extremes(TapsText):
    """Vectors of lines are folded as they lie; every other element is taken apart, and elements are shifted, after it.

    The largest of 3 x 3 by 2 of 64 planes of 112 x 112 takes 267 us so, and 362 tap by tap (one thread of an Arm
    Neoverse-N1).
    """

    def write_block(self, at: str, vectors: int) -> None:
        """Some rows of some vectors."""
        taps, lanes = self.taps, self.taps.lanes
        count = vectors * taps.step
        # The last vector ends with the last element that is needed.
        starts = [lanes * i for i in range(count)]
        if taps.columns > taps.step:
            starts.append(lanes * count + taps.columns - taps.step - lanes)
        read: dict[tuple[int, int], str] = {}
        for r in range(TOGETHER):
            folded = [self._down(read, r, start, at) for start in starts]
            streams = [folded[:count]] if taps.step == 1 else self._apart(folded[:count])
            sums = {}
            for v in range(vectors):
                found = [self._shifted(streams, folded, starts, b, v) for b in range(taps.columns)]
                total = found[0]
                for one in found[1:]:
                    total = combine(self.text, self.fold, total, one, lanes)
                sums[r, v] = total
            self.put(sums, at)

    def _down(self, read: dict[tuple[int, int], str], r: int, start: int, at: str) -> str:
        """A vector folded over the lines of a window; lines are read once for all rows."""
        total = ""
        for a in range(self.taps.rows):
            i = r * self.taps.down + a * self.taps.below
            if (i, start) not in read:
                read[i, start] = self.load(self.line(i, at), start, self.taps.lanes)
            one = read[i, start]
            total = combine(self.text, self.fold, total, one, self.taps.lanes) if total else one
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
