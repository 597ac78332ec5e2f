"""Contractions of a few rows whose right factor lies along the steps: dot products of rows, read once.

`kernel(w, bases, a, a.pitch, n0, columns, total, pitch, count)` takes a few columns at once along the steps: lane by
lane, in chains of `CHAIN` vectors, and the lanes in pairs in the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.kernels.skinny import AHEAD, NEVER, WIDE, Reader
from anydml.engines.cpu.kernels.tile import CHAIN, SCALARS

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.skinny import Skinny
    from anydml.ir.expressions import Expr

FURTHER = {2048: 2}
"""The bytes that an Arm fetches for one row beside: it ends a chain every 2 KiB, and waits a while. 3.7 ms in place of
4.2."""
FEW_COLUMNS = dict.fromkeys(((16, rows) for rows in range(5, 10)), 3)
"""The columns at once of more than four rows, by lanes and rows, where there are registers for more than two: 8 x 4096
x 4096 takes 6.2 ms so, and 6.7 by two (one thread)."""
SHORT = 128
"""The most steps that are few."""


def make_dots(value: Expr, shape: Skinny) -> str:
    """The text of the kernel for steps that lie side by side."""
    return _Dots(value, shape).write()


class _Dots(Reader):
    def write(self) -> str:
        text, rows = self.text, self.shape.rows
        # One row waits for memory alone: on an Arm its columns come one after the other, as they lie, with several sums
        # each. Those of a few steps wait for their sums: 12 x 1001 of 64 steps take 0.28 ms one by one, and 0.20 by
        # four. An x86 reads four columns at once sooner than one: 1 x 4096 x 4096 takes 5.8 ms, and 6.6.
        is_alone = rows == 1 and not self.shape.is_short and self.shape.by_lane
        columns, self.apart = (
            (1, 4) if is_alone else (FEW_COLUMNS.get((self.shape.lanes, rows), 4 if rows <= 4 else 2), 1)
        )
        words = self.apart * rows * self.shape.lanes // 2
        text.room("n_sums", columns * words)
        text.room("o_sums", words)
        self.enter("n0, 0 * n0")
        text.let("whole", f"count - count % {WIDE}")
        text.let("most", f"columns - columns % {columns}")
        with text.loop("n", 0, "most", columns):
            self._columns("n", columns)
        with text.loop("o", "most", "columns"):
            self._columns("o", 1)
        text.add("ret void")
        names = ("w", "bases", "a", "a_pitch", "n0", "columns", "total", "pitch", "count")
        return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")

    def _columns(self, name: str, columns: int) -> None:
        """Some columns along all steps: sums of chains are on the stack."""
        text, shape = self.text, self.shape
        sums = [(i, j, q) for i in range(shape.rows) for j in range(columns) for q in range(self.apart)]
        places = [f"{name}_sums + {4 * shape.lanes * s}" for s in range(len(sums))]
        for place in places:
            self.store("zeroinitializer", place)
        rows = [f"({name} + {j})" for j in range(columns)]
        with text.loop(f"{name}_c", 0, "whole", CHAIN * shape.lanes):
            text.let(f"{name}_stop", f"min({name}_c + {CHAIN * shape.lanes}, whole)")
            for place, made in zip(places, self._chain(name, rows, sums), strict=True):
                self.store(self.add(self.load(place), made), place)
        with text.when("whole < count"):
            self._rest(rows, sums, places)
        for s in range(0, len(sums), self.apart):
            i, j, _ = sums[s]
            total = self.load(places[s])
            for place in places[s + 1 : s + self.apart]:
                total = self.add(total, self.load(place))
            at = text.place(f"total + {i} * pitch + ({name} + {j}) * 4")
            text.add(f"store {SCALARS[self.kind]} {self._fold(total)}, ptr {at}")

    def _rest(self, rows: list[str], sums: list[tuple[int, int, int]], places: list[str]) -> None:
        """The steps that fill no vector: nothing is added for those that there are not."""
        text, kind = self.text, f"<{WIDE} x {SCALARS[self.kind]}>"
        left = text.spread(text.value("count - whole"), "i64", WIDE)
        test = text.new(f"icmp slt <{WIDE} x i64> <{', '.join(f'i64 {k}' for k in range(WIDE))}>, {left}")
        parts = [
            self.parts(text.new(f"select <{WIDE} x i1> {test}, {kind} {x}, {kind} zeroinitializer"), WIDE)
            for x in self.compute(rows, "whole", WIDE, "count")
        ]
        for place, (i, j, q) in zip(places, sums, strict=True):
            total = self.load(place)
            for p in range(q, WIDE // self.shape.lanes, self.apart):
                a = self.load(f"a + {i} * a_pitch + (whole + {self.shape.lanes * p}) * 4")
                total = self.multiply(a, parts[j][p], total)
            self.store(total, place)

    def _chain(self, name: str, rows: list[str], sums: list[tuple[int, int, int]]) -> list[str]:
        """The sums of a chain, in registers."""
        text, shape = self.text, self.shape
        before, head, body, after = (text.label(name) for _ in range(4))
        text.add(f"br label %{before}", f"{before}:", f"br label %{head}", f"{head}:")
        text.add(f"%{name}_k = phi i64 [ %{name}_c, %{before} ], [ %{name}_k1, %{body} ]")
        for s in range(len(sums)):
            text.add(f"%{name}.s{s} = phi {self.vector} [ zeroinitializer, %{before} ], [ %{name}.t{s}, %{body} ]")
        test = text.new(f"icmp slt i64 %{name}_k, %{name}_stop")
        text.add(f"br i1 {test}, label %{body}, label %{after}", f"{body}:")
        ahead = AHEAD | (FURTHER if shape.rows == 1 else {}) if shape.by_lane else NEVER
        soon = "" if shape.by_lane else self.find_soon(f"{name}_k", "0", "whole", len(rows))
        parts = [self.parts(x, WIDE) for x in self.compute(rows, f"{name}_k", WIDE, ahead=ahead, soon=soon)]
        now = {s: f"%{name}.s{s}" for s in range(len(sums))}
        for p in range(WIDE // shape.lanes):
            loaded = [self.load(f"a + {i} * a_pitch + ({name}_k + {shape.lanes * p}) * 4") for i in range(shape.rows)]
            for s, (i, j, q) in enumerate(sums):
                if q == p % self.apart:
                    now[s] = self.multiply(loaded[i], parts[j][p], now[s])
        for s, value in now.items():
            text.add(f"%{name}.t{s} = bitcast {self.vector} {value} to {self.vector}")
        text.let(f"{name}_k1", f"{name}_k + {WIDE}")
        text.add(f"br label %{head}", f"{after}:")
        return [f"%{name}.s{s}" for s in range(len(sums))]

    def _fold(self, value: str) -> str:
        """The sum of all lanes, in pairs."""
        text, lanes = self.text, self.shape.lanes
        while lanes > 1:
            lanes //= 2
            # Lanes that nobody asks for stay open: LLVM 22 adds up the wrong ones of integers on an x86 otherwise.
            mask = ", ".join(f"i32 {lanes + k if k < lanes else 'poison'}" for k in range(self.shape.lanes))
            other = text.new(
                f"shufflevector {self.vector} {value}, {self.vector} poison, <{self.shape.lanes} x i32> <{mask}>"
            )
            value = self.add(value, other)
        return text.new(f"extractelement {self.vector} {value}, i32 0")
