"""The depthwise and pooling stencil on particular vector units: FLOAT32 with 32 registers and tail masks (AVX-512),
rolling sums that read each input line once, int8 with tail masks and dot4 (x86), int8 with SDOT (Arm).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.codegen.expressions import kind_of, scalar_text
from anydml.engines.cpu.codegen.function import load_part, store_some
from anydml.engines.cpu.conv.stencil import MOST, Group, Taps, TapsText, line_name
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.gemm.blocking import FOUR
from anydml.engines.cpu.launch.record import LINE
from anydml.engines.cpu.quant.dot4 import write_dot

if TYPE_CHECKING:
    from collections.abc import Iterator

# Taps of FLOAT32 where an x86 has 32 registers, and reads and writes parts of vectors.
#
# The text knows how long rows of results and lines of the input are: elements that a line does not have are 0, nothing
# is computed twice, and planes may be narrower than a vector. Weights stay in registers.


def make_wide(taps: Taps) -> str:
    """The text of the kernel, for taps with `width` and `line`."""
    return WideText(taps).write()


class WideText(TapsText):
    """A kernel in the making, of which every vector knows the elements that it has."""

    def __init__(self, taps: Taps) -> None:
        super().__init__(taps)
        self.held: list[str] = []
        self.halves: dict[tuple[int, str, int], tuple[str, str]] = {}
        """Two vectors of a line, by its number, a group's column and the first element."""
        self.least = min((taps.columns - 1) * taps.beside, 0) if taps.left is None else 0
        """The first element of a line that there is: windows may be walked backward."""

    def take_weights(self) -> None:
        """Those that registers hold."""
        text, taps = self.text, self.taps
        count = taps.rows * taps.columns
        held = count if count <= figures().stencil.held_weights else 0
        spread = [super(WideText, self).weight(tap, "float") for tap in range(held)]
        # Or LLVM reads each where it is used.
        self.held = [text.new(f'call {self.vector} asm sideeffect "", "=v,0"({self.vector} {one})') for one in spread]

    def weight(self, tap: int, scalar: str) -> str:
        """A weight in every lane."""
        return self.held[tap] if self.held else super().weight(tap, scalar)

    def find_lines(self) -> None:
        """Where lines and rows of results begin, each found from the one before."""
        text, taps = self.text, self.taps
        text.let("number", f"{'start + ' if taps.left is not None else ''}row * {taps.down}")
        before = 0
        at: str = text.value("x + number * pitch")
        for i in sorted(self.served()):
            at = text.new(f"add i64 {at}, {text.value(f'pitch * {i - before}' if i - before != 1 else 'pitch')}")
            before = i
            where: str = at
            if taps.left is not None:
                is_there = text.new(f"icmp ult i64 {text.value(f'number + {i}')}, %height")
                where = text.new(f"select i1 {is_there}, i64 {at}, i64 %blank")
            text.add(f"%{line_name(i)} = add i64 {where}, 0")
        for r in range(taps.together):
            text.let(f"to_{r}", f"to_{r - 1} + out_step" if r else "to")

    def follow(self, sums: dict[tuple[int, int], str]) -> None:
        """Have arithmetic done before lines that follow are read: LLVM would read more than registers hold."""
        for one, total in sums.items():
            sums[one] = self.text.new(f'call {self.vector} asm sideeffect "", "=v,0"({self.vector} {total})')

    def write_row(self) -> None:
        """Rows of results, block by block."""
        for group in self.groups():
            self.write_block([group])

    def groups(self) -> Iterator[Group]:
        """The vectors of each block; those that read whole vectors alone are one of a loop."""
        text, taps = self.text, self.taps
        wide = taps.vectors * taps.lanes
        starts = list(range(0, taps.width, wide))
        inside = [at for at in starts if self._is_inside(at)]
        for at in starts:
            if at not in inside:
                yield Group(str(at), min(taps.vectors, -(-(taps.width - at) // taps.lanes)))
        if inside:
            with text.loop("c", inside[0], inside[-1] + 1, wide):
                yield Group("c", taps.vectors)

    def _is_inside(self, at: int) -> bool:
        """Whether a block has all columns, and reads what there is."""
        taps, wide = self.taps, self.taps.vectors * self.taps.lanes
        first = at * taps.step - (taps.left or 0)
        far = (taps.columns - 1) * taps.beside
        is_read = first + min(far, 0) >= self.least and first + wide * taps.step + max(far, 0) <= taps.line
        return is_read and at + wide <= taps.width

    def elements(self, group: Group, i: int, offset: int) -> str:
        """A vector of a line: all elements, or every other one."""
        lanes = self.taps.lanes
        if self.taps.step == 1:
            return self.load(group, i, offset, lanes)
        first = offset - 1 if (i, group.at, offset - 1) in self.halves else offset
        key = (i, group.at, first)
        if key not in self.halves:
            self.halves[key] = self.load(group, i, first, lanes), self.load(group, i, first + lanes, lanes)
        return self.pick(self.halves[key], lanes, list(range(offset - first, 2 * lanes, 2)))

    def load(self, group: Group, i: int, offset: int, count: int) -> str:
        """Some elements of a line, so many on from a group's first; those that a line does not have are 0."""
        text, taps = self.text, self.taps
        first, stop = offset - (taps.left or 0), count
        low, at = 0, f"{group.at} * {4 * taps.step} + "
        if group.at.isdigit():
            first, at = first + int(group.at) * taps.step, ""
            low, stop = min(max(self.least - first, 0), count), min(max(taps.line - first, 0), count)
        if low >= stop:
            return "zeroinitializer"
        return load_part(text, "f32", count, range(low, stop), text.place(f"{self.line_of(i)} + {at}{4 * first}"), 4)

    def line_of(self, i: int) -> str:
        """The name of where a line begins."""
        return line_name(i)

    def put(self, sums: dict[tuple[int, int], str], groups: list[Group]) -> None:
        """Write results, by row and vector."""
        if self.epilogue is not None:
            self.epilogue.clear()
        for (r, v), total in sums.items():
            self.put_vector(total, groups[0], (r, v), f"row + {r}", f"to_{r}")

    def put_vector(self, total: str, group: Group, place: tuple[int, int], row: str, to: str) -> None:
        """Write a vector of results of a row that begins at an address."""
        text, lanes, kind, on = self.text, self.taps.lanes, kind_of(self.result), self.taps.lanes * place[1]
        width, count = int(kind[1:]) // 8, lanes
        if self.epilogue is not None:
            here, column = text.value(f"first + {row}"), text.value(f"{group.at} + {on}")
            total = self.epilogue.compute(text.value(total, self.vector), *place, here, column)
        if group.at.isdigit():
            count = min(self.taps.width - int(group.at) - on, lanes)
        at = text.place(f"{to} + {group.at} * {width} + {width * on}")
        store_some(text, kind, lanes, count, total, at, width)


# Taps of bytes where an x86 adds up four products at once, and reads and writes parts of vectors.
#
# A vector of 16 results takes four bytes of a line for each: lines of a window are cut in fours, with weights of 0 past
# the last. Bytes of the input are unsigned here, and weights signed; those with a sign have 128 more. What a row of
# results needs is read, and no more, so that planes may be narrower than a vector.


LANES = 16
"""Results of a vector."""
_TALL, _SHORT = 8, 4
"""Rows at once, at most and at least."""


def suits_masked(taps: Taps) -> bool:
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
                    given = (quads, self.fours[a, part], sums.get(r, self.start))
                    sums[r] = write_dot(text, False, *(text.value(x, f"<{LANES} x i32>") for x in given))
        kind = kind_of(self.result)
        vector, width = f"<{LANES} x {scalar_text(kind)}>", int(kind[1:]) // 8
        store = f"@llvm.masked.store.v{LANES}{kind if kind[0] == 'f' else f'i{kind[1:]}'}.p0"
        text.declared[f"declare void {store}({vector}, ptr, i32, <{LANES} x i1>)"] = None
        if self.epilogue is not None:
            self.epilogue.clear()
        for r in range(taps.together):
            value = sums[r]
            if self.epilogue is not None:
                row = text.value(f"first + row + {r}")
                value = self.epilogue.compute(text.value(value, self.vector), r, 0, row, text.value("c"))
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


# Wide taps that read each line of the input once: it is added to the sums of all rows that it serves.
#
# Sums roll on from line to line. Of 144 planes of 56 x 56 by 3 x 3 each takes 0.80 us so where the second cache has
# them, and 1.66 in blocks of 4 rows by 2 vectors whose weights are read each time (one thread, 16 lanes): reads take
# longest, since most lie across two lines of the cache.


Sums = dict[tuple[int, int], str]
"""By row and vector: a line is the last of row 0, and the last but one of row 1. Those that are 0 yet are left out."""


def make_rolling(taps: Taps) -> str:
    """The text of the kernel, for taps with `width` and `line` whose windows go on by one line."""
    return _Rolling(taps).write()


class _Rolling(WideText):
    def __init__(self, taps: Taps) -> None:
        super().__init__(taps)
        self.number = 0
        """Of blocks, and of a block's lines in the text: names are given once."""

    def write_rows(self) -> None:
        """Block by block, and in each from the first line to the last."""
        for group in self.groups():
            self._go_down(group)

    def _go_down(self, group: Group) -> None:
        text, last = self.text, self.taps.rows - 1
        sums: Sums = {}
        for i in range(last):  # no row is done yet
            sums = self._roll(self._add_line(str(i), group, sums, last - i))
        before, loop, after, done = (text.label("roll") for _ in range(4))
        row = f"row_{self.number}"
        text.add(f"br label %{before}", f"{before}:", f"br label %{loop}", f"{loop}:")
        text.add(f"%{row} = phi i64 [ 0, %{before} ], [ %{row}.on, %{after} ]")
        names = {(k, v): f"%{row}.{k}.{v}" for k, v in sums}
        for key, name in names.items():
            text.add(f"{name} = phi {self.vector} [ {sums[key]}, %{before} ], [ {name}.on, %{after} ]")
        found = self._add_line(f"{row} + {last}", group, names, 0)
        text.let(f"{row}_to", f"out + {row} * out_step")
        self._fetch(self.line_of(self.number), group, self.taps.step, is_written=False)
        self._fetch(f"{row}_to", group, 1, is_written=True)
        if self.epilogue is not None:
            self.epilogue.clear()
        for v in range(group.vectors):
            self.put_vector(found[0, v], group, (0, v), row, f"{row}_to")
        for key, one in self._roll(found).items():
            text.add(f"{names[key]}.on = bitcast {self.vector} {one} to {self.vector}")
        text.add(f"br label %{after}", f"{after}:", f"%{row}.on = add i64 %{row}, 1")
        text.add(f"%{row}.more = icmp slt i64 %{row}.on, %rows", f"br i1 %{row}.more, label %{loop}, label %{done}")
        text.add(f"{done}:")

    def _fetch(self, line: str, group: Group, step: int, *, is_written: bool) -> None:
        """Have a block's part of a line fetched that follows in a while."""
        for byte in range(0, 4 * step * self.taps.lanes * group.vectors, LINE):
            place = self.text.place(f"{line} + {group.at} * {4 * step} + {figures().stencil.prefetch_bytes + byte}")
            self.text.fetch(place, is_written=is_written)

    def _roll(self, sums: Sums) -> Sums:
        """Sums as the next line finds them."""
        return {(k - 1, v): one for (k, v), one in sums.items() if k}

    def _add_line(self, line: str, group: Group, sums: Sums, least: int) -> Sums:
        """Sums and the products of the line of a number, for rows from `least` on."""
        text, taps = self.text, self.taps
        self.number += 1
        number, at = f"line_{self.number}", self.line_of(self.number)
        text.let(number, f"{'start + ' if taps.left is not None else ''}{line}")
        text.let(f"{number}_there", f"x + {number} * pitch")
        is_there = "true" if taps.left is None else text.new(f"icmp ult i64 %{number}, %height")
        text.add(f"%{at} = select i1 {is_there}, i64 %{number}_there, i64 %blank")
        sums = dict(sums)
        for b in range(taps.columns):
            far = [b * taps.beside + v * taps.lanes * taps.step for v in range(group.vectors)]
            elements = [self.elements(group, self.number, offset) for offset in far]
            for k in range(least, taps.rows):
                for v, x in enumerate(elements):
                    sums[k, v] = self.add(sums.get((k, v)), x, (taps.rows - 1 - k) * taps.columns + b)
        self.follow(sums)
        text.add('call void asm sideeffect "", "~{memory}"()')
        return sums

    def line_of(self, i: int) -> str:
        """The name of where a line begins."""
        return f"line_{i}_at"


# Taps of bytes where an Arm adds up four products at once: those of a line of a window, for four results.
#
# Weights less their zero point are bytes here, which the walk has seen to. Of unsigned bytes 128 is taken off, and of
# sums the zero point times all weights.


_WHOLE = f"<{FOUR * FOUR} x i8>"
_SUMS = f"<{FOUR} x i32>"
_DOT = f"@llvm.aarch64.neon.sdot.v{FOUR}i32.v{FOUR * FOUR}i8"


def suits_dots(taps: Taps) -> bool:
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
