"""Taps of bytes where an x86 adds up four products at once, and reads and writes parts of vectors.

A vector of 16 results takes four bytes of a line for each: lines of a window are cut in fours, with weights of 0 past
the last. Bytes of the input are unsigned here, and weights signed; those with a sign have 128 more. What a row of
results needs is read, and no more, so that planes may be narrower than a vector.
"""

from __future__ import annotations

from anydml.engines.cpu.kernels.fourfold import FOUR, write_dot
from anydml.engines.cpu.kernels.nodes import kind_of, scalar_text
from anydml.engines.cpu.kernels.taps import TapsText, line_name
from anydml.engines.cpu.kernels.taps_shape import MOST, Taps

LANES = 16
"""Results of a vector."""
_TALL, _SHORT = 8, 4
"""Rows at once, at most and at least."""


def suits(taps: Taps) -> bool:
    """Whether windows are of bytes, and a vector has all that 16 of them need."""
    is_short = taps.beside == 1 and taps.columns <= 2 * FOUR and taps.step <= 2
    return taps.kind != "f32" and taps.op == "fma" and is_short


def masked(taps: Taps, rows: int) -> Taps:
    """Taps for so many rows of a part, of which as few as can be are computed twice."""
    together = min(range(min(_SHORT, rows), min(_TALL, rows) + 1), key=lambda some: (-(-rows // some) * some, -some))
    return taps._replace(lanes=LANES, vectors=1, together=together, left=None, over=0, by_lane=False)


def make_masked(taps: Taps) -> str:
    """The text of the kernel."""
    return _Masked(taps).write()


class _Masked(TapsText):
    def take_weights(self) -> None:
        """Four of a line at a time, for every lane; sums begin with what the zero point takes off."""
        text, taps = self.text, self.taps
        self.fours: dict[tuple[int, int], str] = {}
        total = "0"
        for a in range(taps.rows):
            for first in range(0, taps.columns, FOUR):
                four = "0"
                for b in range(first, min(first + FOUR, taps.columns)):
                    byte, weight = self._weigh(a * taps.columns + b)
                    total = total if taps.has_bytes and taps.kind == "u8" else text.new(f"add i32 {total}, {weight}")
                    four = text.new(f"or i32 {four}, {text.new(f'shl i32 {byte}, {8 * (b - first)}')}")
                self.fours[a, first // FOUR] = text.spread(four, "i32", LANES)
        off = "0" if taps.kind == "u8" else "-128"
        if not taps.has_bytes:
            zero = text.new(f"load i32, ptr {text.place(f'weights + {4 * MOST}')}, align 4")
            off = text.new(f"sub i32 {off}, {zero}")
        self.start = text.spread(text.new(f"mul i32 {off}, {total}"), "i32", LANES)
        self.room = 2 * LANES * taps.step
        """Bytes that are read at once at most."""

    def _weigh(self, tap: int) -> tuple[str, str]:
        """The bits of a weight, and the weight."""
        text = self.text
        if self.taps.has_bytes:
            found = text.new(f"load i8, ptr {text.place(f'weights + {tap}')}, align 1")
            return text.new(f"zext i8 {found} to i32"), text.new(f"sext i8 {found} to i32")
        found = text.new(f"load i32, ptr {text.place(f'weights + {4 * tap}')}, align 4")
        return text.new(f"and i32 {found}, 255"), found

    def write_row(self) -> None:
        """Rows of results, vector by vector."""
        text, taps = self.text, self.taps
        with text.loop("c", 0, "count", LANES):
            text.let("some", f"min(count - c, {LANES})")
            self.there = self._mask("some", LANES)
            self.given = self._mask(f"(some - 1) * {taps.step} + {taps.columns}", self.room)
            self._write_vectors()

    def _mask(self, count: str, lanes: int) -> str:
        text = self.text
        some = text.spread(text.new(f"trunc i64 {text.value(count)} to i8"), "i8", lanes)
        return text.new(f"icmp ult <{lanes} x i8> <{', '.join(f'i8 {k}' for k in range(lanes))}>, {some}")

    def _write_vectors(self) -> None:
        text, taps, served = self.text, self.taps, self.served()
        sums: dict[int, str] = {}
        for i in sorted(served):
            for part, quads in enumerate(self._quads(i)):
                for r, a in served[i]:
                    sums[r] = write_dot(text, LANES, False, quads, self.fours[a, part], sums.get(r, self.start))
        kind = kind_of(self.result)
        vector, width = f"<{LANES} x {scalar_text(kind)}>", int(kind[1:]) // 8
        store = f"@llvm.masked.store.v{LANES}{kind if kind[0] == 'f' else f'i{kind[1:]}'}.p0"
        text.declared[f"declare void {store}({vector}, ptr, i32, <{LANES} x i1>)"] = None
        if self.ending is not None:
            self.ending.clear()
        for r in range(taps.together):
            value = sums[r]
            if self.ending is not None:
                value = self.ending.compute(value, r, 0, f"first + row + {r}", "c")
            place = text.place(f"to + {r} * out_step + c * {width}")
            text.add(f"call void {store}({vector} {value}, ptr {place}, i32 {width}, <{LANES} x i1> {self.there})")

    def _quads(self, i: int) -> list[str]:
        """For each four of a line of the window the bytes of all results."""
        text, taps, room = self.text, self.taps, self.room
        octets, words = f"<{room} x i8>", f"<{room // FOUR} x i32>"
        load = f"@llvm.masked.load.v{room}i8.p0"
        text.declared[f"declare {octets} {load}(ptr, i32, <{room} x i1>, {octets})"] = None
        place = text.place(f"{line_name(i)} + c * {taps.step}")
        found = text.new(
            f"call {octets} {load}(ptr {place}, i32 1, <{room} x i1> {self.given}, {octets} zeroinitializer)"
        )
        if taps.kind == "i8":
            found = text.new(f"xor {octets} {found}, splat (i8 -128)")
        found = text.new(f"bitcast {octets} {found} to {words}")
        quads = []
        for part in range(-(-taps.columns // FOUR)):
            # Four results share 16 bytes, which one instruction brings there, and another sorts.
            places = [
                min(taps.step * k + j + part, room // FOUR - 1) for k in range(LANES // FOUR) for j in range(FOUR)
            ]
            order = ", ".join(f"i32 {place}" for place in places)
            near = text.new(f"shufflevector {words} {found}, {words} poison, <{LANES} x i32> <{order}>")
            near = text.new(f"bitcast <{LANES} x i32> {near} to <{FOUR * LANES} x i8>")
            lanes = [16 * (k // FOUR) + k % FOUR * taps.step + b for k in range(LANES) for b in range(FOUR)]
            order = ", ".join(f"i32 {lane}" for lane in lanes)
            kind = f"<{FOUR * LANES} x i8>"
            sorted_ = text.new(f"shufflevector {kind} {near}, {kind} poison, <{FOUR * LANES} x i32> <{order}>")
            quads.append(text.new(f"bitcast {kind} {sorted_} to <{LANES} x i32>"))
        return quads
