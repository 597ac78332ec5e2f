"""Small windows that walk over planes: each tap is a row of the input, moved, so that vectors lie along results.

A depthwise convolution sums taps times weights, a pooling takes the largest. `taps(x, pitch, weights, out, out.step,
rows, count)` computes rows of `count` results from an input whose lines lie `pitch` apart; taps are in the order in
which a tile adds products up, so that sums have its bits. The last rows and columns overlap those before: there are at
least `TOGETHER` rows and a vector of columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.kernels import HEADER
from anydml.engines.cpu.kernels.folds import combine
from anydml.engines.cpu.kernels.rows import VIEWS
from anydml.engines.cpu.kernels.stage import DECLARED, find_place, make_bases, make_stage, take_scratch
from anydml.engines.cpu.kernels.steps import Steps
from anydml.ir.expressions import fold, load

if TYPE_CHECKING:
    from anydml.enums import DataType

TOGETHER = 4
"""Rows of results at once: they share lines of the input."""
MOST = 64
"""Taps at most."""
WORDS = (
    "slots", "slot_count", "rows", "line", "parts", "down", "pitch", "tap_rows", "tap_columns", "weight_down",
    "weight_beside", "taps", "is_direct", "is_whole", "target_down", "x_at", "weights_at", "result_at", "rank",
)  # fmt: skip
"""After the header, and before the batch's sizes: `down` is from a row of results to the next, in the input. Results
are written as they are folded where `is_direct`; otherwise they are computed from folds in the scratch, all of a part
at once where `is_whole`, or row by row."""


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

    @property
    def name(self) -> str:
        """The kernel's."""
        return "taps " + " ".join(map(str, self))


def make_walk(scratch: int) -> str:
    """The text of what goes through planes, a part of one at a time. Compiled once for all."""
    text = Steps()
    for i, name in enumerate(WORDS):
        text.read(name, f"words + {8 * (HEADER + i)}")
    for name in ("x", "weights", "result"):
        text.let(name, f"words + {name}_at * 8")
        text.room(f"{name}_bases", VIEWS)
    text.read("views", "result + 8")
    text.room("places", VIEWS)
    text.room("weight", MOST // 2)
    take_scratch(text, scratch)
    text.let("memory", "scratch + 64")
    with text.loop("unit", "begin", "end"):
        text.let("part", "unit % parts")
        find_place(text, "unit // parts", HEADER + len(WORDS))
        for name in ("x", "result"):
            text.invoke("@bases", name, "rank", "places + 8", f"{name}_bases")
        with text.when("tap_rows"):
            text.invoke("@bases", "weights", "rank", "places + 8", "weights_bases")
            text.read("source", "weights_bases")
            with text.loop("a", 0, "tap_rows"), text.loop("b", 0, "tap_columns"):
                found = text.new(f"load i32, ptr {text.place('source + a * weight_down + b * weight_beside')}, align 4")
                text.add(f"store i32 {found}, ptr {text.place('weight + (a * tap_columns + b) * 4')}, align 4")
        text.let("first", "(rows * part) // parts")
        text.let("some", "(rows * (part + 1)) // parts - first")
        text.read("x_base", "x_bases")
        text.read("target", "result_bases + views * 8 - 8")
        text.let("out", "target + first * target_down if is_direct != 0 else memory")
        text.let("out_step", "target_down if is_direct != 0 else line * 4")
        text.invoke("taps", "x_base + first * down", "pitch", "weight", "out", "out_step", "some", "line")
        with text.when("is_direct == 0 and is_whole"):
            text.invoke("@stage", "result", "result_bases", 0, "first * line", 1, "some * line", 0, "memory", 0)
        with text.when("is_direct == 0 and is_whole == 0"):
            text.invoke("@stage", "result", "result_bases", "first", 0, "some", "line", 0, "memory", "line * 4")
    text.add("store atomic i64 0, ptr %slot.ptr release, align 8", "ret i64 0")
    walk = text.define("i64 @kernel(i64 %words, i64 %begin, i64 %end)")
    return "\n".join([make_stage(), make_bases(), walk, DECLARED])


def make_taps(taps: Taps, kind: DataType) -> str:
    """The text of the kernel for elements of a type."""
    return _Taps(taps, kind).write()


class _Taps:
    def __init__(self, taps: Taps, kind: DataType) -> None:
        self.taps, self.text = taps, Steps()
        self.vector = f"<{taps.lanes} x float>"
        self.fold = fold("max" if taps.op == "fma" else taps.op, load(0, kind))
        self.weights: list[str] = []
        self.pairs: dict[int, str] = {}
        """What was read of a line, twice as long as a vector, by its first element."""

    def write(self) -> str:
        text, taps = self.text, self.taps
        if taps.op == "fma" and taps.by_lane:
            count = -(-taps.rows * taps.columns // taps.lanes)
            self.weights = [
                text.new(f"load {self.vector}, ptr {text.place(f'weights + {4 * taps.lanes * i}')}, align 4")
                for i in range(count)
            ]
        wide = 2 * taps.lanes
        # A vector of every other element is read with one element more, which the last one does not have.
        text.let("wide", f"((count - {taps.step - 1}) // {wide}) * {wide}")
        with text.loop("r", 0, "rows", TOGETHER):
            text.let("row", f"min(r, rows - {TOGETHER})")
            text.let("line", f"x + row * pitch * {taps.down}")
            text.let("to", "out + row * out_step")
            with text.loop("c", 0, "wide", wide):
                self._write_block("c", 2)
            with text.loop("d", "wide", "count", taps.lanes):
                text.let("at", f"min(d, count - {taps.lanes})")
                self._write_block("at", 1)
        text.add("ret void")
        names = ("x", "pitch", "weights", "out", "out_step", "rows", "count")
        return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")

    def _write_block(self, at: str, vectors: int) -> None:
        """Some rows of some vectors: each line of the input is read once for all rows that it serves."""
        text, taps = self.text, self.taps
        sums: dict[tuple[int, int], str] = {}
        served: dict[int, list[tuple[int, int]]] = {}
        for r in range(TOGETHER):
            for a in range(taps.rows):
                served.setdefault(r * taps.down + a * taps.below, []).append((r, a))
        # In the order of taps for each result, whichever way they are walked.
        for i in sorted(served, reverse=taps.below < 0):
            line = text.value(f"line + {i} * pitch + {at} * {4 * taps.step}")
            self.pairs.clear()
            for b in range(taps.columns):
                for v in range(vectors):
                    x = self._read(line, b * taps.beside + v * taps.lanes * taps.step, is_last=vectors == 1)
                    for r, a in served[i]:
                        sums[r, v] = self._add(sums.get((r, v)), x, a * taps.columns + b)
            text.add('call void asm sideeffect "", "~{memory}"()')
        for (r, v), total in sums.items():
            place = text.place(f"to + {r} * out_step + {at} * 4 + {4 * taps.lanes * v}")
            text.add(f"store {self.vector} {total}, ptr {place}, align 4")

    def _add(self, total: str | None, x: str, tap: int) -> str:
        text, taps = self.text, self.taps
        if taps.op != "fma":
            return x if total is None else combine(text, self.fold, total, x, taps.lanes)
        if taps.by_lane:
            lane = ", ".join([f"i32 {tap % taps.lanes}"] * taps.lanes)
            vector = self.weights[tap // taps.lanes]
            factor = text.new(
                f"shufflevector {self.vector} {vector}, {self.vector} poison, <{taps.lanes} x i32> <{lane}>"
            )
        else:
            one = text.new(f"load float, ptr {text.place(f'weights + {4 * tap}')}, align 4")
            factor = text.spread(one, "float", taps.lanes)
        return text.call("fma", self.vector, [x, factor, total or "zeroinitializer"])

    def _read(self, line: str, offset: int, *, is_last: bool) -> str:
        """A vector of the input, so many elements on: all, or every other one."""
        text, lanes = self.text, self.taps.lanes

        def at(more: int, count: int) -> str:
            place = text.new(f"inttoptr i64 {text.new(f'add i64 {line}, {4 * (offset + more)}')} to ptr")
            return text.new(f"load <{count} x float>, ptr {place}, align 4")

        if self.taps.step == 1:
            return at(0, lanes)
        if not is_last:
            first = offset - 1 if offset - 1 in self.pairs else offset
            if first not in self.pairs:
                self.pairs[first] = at(0, 2 * lanes)
            kind, both = f"<{2 * lanes} x float>", (self.pairs[first], "poison")
            order = list(range(offset - first, 2 * lanes, 2))
        else:
            kind, both = self.vector, (at(0, lanes), at(lanes - 1, lanes))
            order = [2 * k if 2 * k < lanes else 2 * k + 1 for k in range(lanes)]
        mask = ", ".join(f"i32 {k}" for k in order)
        return text.new(f"shufflevector {kind} {both[0]}, {kind} {both[1]}, <{lanes} x i32> <{mask}>")
