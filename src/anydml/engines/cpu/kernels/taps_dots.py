"""Taps of bytes where an Arm adds up four products at once: those of a line of a window, for four results.

Weights less their zero point are bytes here, which the walk has seen to. Of unsigned bytes 128 is taken off, and of
sums the zero point times all weights.
"""

from __future__ import annotations

from anydml.engines.cpu.kernels.taps import TapsText
from anydml.engines.cpu.kernels.taps_shape import MOST, Group, Taps

FOUR = 4
"""Products of one sum that an instruction adds up."""
_WHOLE = f"<{FOUR * FOUR} x i8>"
_SUMS = f"<{FOUR} x i32>"
_DOT = f"@llvm.aarch64.neon.sdot.v{FOUR}i32.v{FOUR * FOUR}i8"


def suits(taps: Taps) -> bool:
    """Whether lines of windows are short enough, and rows of results long enough that nothing is read past them."""
    is_short = taps.beside == 1 and 1 < taps.columns <= FOUR and taps.rows <= FOUR * FOUR
    return taps.kind != "f32" and taps.op == "fma" and is_short and taps.lanes == 2 * FOUR and taps.by_lane


def make_dots(taps: Taps) -> str:
    """The text of the kernel."""
    return _Dots(taps).write()


class _Dots(TapsText):
    def take_weights(self) -> None:
        """A vector has the weights of four lines; sums begin with what the zero point takes off."""
        text, taps = self.text, self.taps
        self.lines, total = ["zeroinitializer"] * -(-taps.rows // FOUR), "0"
        for a in range(taps.rows):
            for b in range(taps.columns):
                place = f"weights + {4 * (a * taps.columns + b)}"
                byte = text.new(f"load i8, ptr {text.place(place)}, align 4")
                vector, lane = self.lines[a // FOUR], FOUR * (a % FOUR) + b
                self.lines[a // FOUR] = text.new(f"insertelement {_WHOLE} {vector}, i8 {byte}, i32 {lane}")
                total = text.new(f"add i32 {total}, {text.new(f'sext i8 {byte} to i32')}")
        zero = text.new(f"load i32, ptr {text.place(f'weights + {4 * MOST}')}, align 4")
        off = text.new(f"sub i32 {128 if taps.kind == 'u8' else 0}, {zero}")
        self.start = text.spread(text.new(f"mul i32 {off}, {total}"), "i32", FOUR)
        text.declared[f"declare {_SUMS} {_DOT}({_SUMS}, {_WHOLE}, {_WHOLE})"] = None

    def write_block(self, groups: list[Group]) -> None:
        """Some rows of some vectors."""
        text, served = self.text, self.served()
        halves = [(group, v) for group in groups for v in range(2 * group.vectors)]
        sums: dict[tuple[int, int], str] = {}
        for i in sorted(served):
            for v, (group, half) in enumerate(halves):
                quads = self._quads(group, i, half)
                for r, a in served[i]:
                    args = f"{_SUMS} {sums.get((r, v), self.start)}, {_WHOLE} {quads}, {_WHOLE} {self._line(a)}"
                    sums[r, v] = text.new(f"call {_SUMS} {_DOT}({args})")
            text.add('call void asm sideeffect "", "~{memory}"()')
        order = ", ".join(f"i32 {k}" for k in range(2 * FOUR))
        both = {}
        for r in range(self.taps.together):
            for v in range(len(halves) // 2):
                pair = f"{_SUMS} {sums[r, 2 * v]}, {_SUMS} {sums[r, 2 * v + 1]}"
                both[r, v] = text.new(f"shufflevector {pair}, <{2 * FOUR} x i32> <{order}>")
        self.put(both, groups)

    def _line(self, a: int) -> str:
        """The weights of a line, for each of four results."""
        lanes = ", ".join(f"i32 {FOUR * (a % FOUR) + b}" for _ in range(FOUR) for b in range(FOUR))
        vector = self.lines[a // FOUR]
        return self.text.new(f"shufflevector {_WHOLE} {vector}, {_WHOLE} poison, <{FOUR * FOUR} x i32> <{lanes}>")

    def _quads(self, group: Group, i: int, v: int) -> str:
        """The four bytes of a line that each of four results has; the second four end with what both need."""
        text, taps = self.text, self.taps
        count, pair, first = (2 if taps.step == 1 else 4) * FOUR, v // 2 * 2 * FOUR * taps.step, 0
        if v % 2:
            first = (2 * FOUR - 1) * taps.step + taps.columns - count
        found = self.load(group, i, pair + first, count)
        kind = f"<{count} x i8>"
        if taps.kind == "u8":
            found = text.new(f"xor {kind} {found}, splat (i8 -128)")
        begin = v % 2 * FOUR * taps.step - first
        # A tap that is past the window is any byte: its weight is 0.
        lanes = [min(begin + k * taps.step + b, count - 1) for k in range(FOUR) for b in range(FOUR)]
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        return text.new(f"shufflevector {kind} {found}, {kind} poison, <{FOUR * FOUR} x i32> <{mask}>")
