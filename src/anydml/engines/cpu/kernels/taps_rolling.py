"""Wide taps that read each line of the input once: it is added to the sums of all rows that it serves.

Sums roll on from line to line. Of 144 planes of 56 x 56 by 3 x 3 each takes 0.80 us so where the second cache has them,
and 1.66 in blocks of 4 rows by 2 vectors whose weights are read each time (one thread, 16 lanes): reads take longest,
since most lie across two lines of the cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.kernels import LINE
from anydml.engines.cpu.kernels.taps_wide import WideText

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.taps_shape import Group, Taps

AHEAD = 2048
"""Bytes from a line, of the input or of results, to the one that is fetched meanwhile: 8 x 384 planes of 14 x 14 take
0.30 ms so, and 0.39 without."""
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
        if self.ending is not None:
            self.ending.clear()
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
            place = self.text.place(f"{line} + {group.at} * {4 * step} + {AHEAD + byte}")
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
