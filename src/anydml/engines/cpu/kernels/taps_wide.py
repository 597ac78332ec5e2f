"""Taps of FLOAT32 where an x86 has 32 registers, and reads and writes parts of vectors.

The text knows how long rows of results and lines of the input are: elements that a line does not have are 0, nothing is
computed twice, and planes may be narrower than a vector. Weights stay in registers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.kernels.nodes import kind_of
from anydml.engines.cpu.kernels.some import load_part, store_some
from anydml.engines.cpu.kernels.taps import TapsText, line_name
from anydml.engines.cpu.kernels.taps_shape import Group, Taps

if TYPE_CHECKING:
    from collections.abc import Iterator

HELD = 12
"""Weights at most that registers hold all the time."""


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
        spread = [super(WideText, self).weight(tap, "float") for tap in range(count if count <= HELD else 0)]
        # Or LLVM reads each where it is used.
        self.held = [text.new(f'call {self.vector} asm sideeffect "", "=v,0"({self.vector} {one})') for one in spread]

    def weight(self, tap: int, scalar: str) -> str:
        """A weight in every lane."""
        return self.held[tap] if self.held else super().weight(tap, scalar)

    def find_lines(self) -> None:
        """Where lines and rows of results begin, each found from the one before."""
        text, taps = self.text, self.taps
        text.let("number", f"{'start + ' if taps.left is not None else ''}row * {taps.down}")
        before, at = 0, text.value("x + number * pitch")
        for i in sorted(self.served()):
            at = text.new(f"add i64 {at}, {text.value(f'pitch * {i - before}' if i - before != 1 else 'pitch')}")
            before = i
            where = at
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
        if self.ending is not None:
            self.ending.clear()
        for (r, v), total in sums.items():
            self.put_vector(total, groups[0], (r, v), f"row + {r}", f"to_{r}")

    def put_vector(self, total: str, group: Group, place: tuple[int, int], row: str, to: str) -> None:
        """Write a vector of results of a row that begins at an address."""
        text, lanes, kind, on = self.text, self.taps.lanes, kind_of(self.result), self.taps.lanes * place[1]
        width, count = int(kind[1:]) // 8, lanes
        if self.ending is not None:
            total = self.ending.compute(total, *place, f"first + {row}", f"{group.at} + {on}")
        if group.at.isdigit():
            count = min(self.taps.width - int(group.at) - on, lanes)
        at = text.place(f"{to} + {group.at} * {width} + {width * on}")
        store_some(text, kind, lanes, count, total, at, width)
