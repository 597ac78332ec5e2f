"""The microkernel of NHWC convolution: rows of A are pixels that are read in place, some bytes apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.codegen.expressions import kind_of
from anydml.engines.cpu.codegen.function import load_some
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.gemm.epilogue import EpilogueText
from anydml.engines.cpu.gemm.microkernel import TRIO, TileText
from anydml.engines.cpu.launch.record import LINE
from anydml.engines.cpu.rows.reduce_kernel import combine, identity
from anydml.enums import DataType
from anydml.ir.expressions import fold, load

if TYPE_CHECKING:
    from anydml.engines.cpu.gemm.microkernel import Tile


SPREAD, EACH = "spread", "each"
UNROLLED = 4
"""Steps at once."""
TOGETHER = 2
"""Rows that are fetched at once: sums of few steps have no time for one after the other. 64 channels into 256 of
56 x 56, 1 x 1, take 0.91 ms so, and 1.05 by one (a Xeon)."""
PIECE = 24
"""Bytes of a piece in its table."""


def make_unpacked_tile(tile: Tile) -> str:
    """The text of the kernel."""
    return UnpackedText(tile).write()


class UnpackedText(TileText):
    """The text of a tile whose rows are read as they lie."""

    def write(self) -> str:
        """All of it."""
        text, tile = self.text, self.tile
        is_fold = tile.reads not in (SPREAD, EACH)
        self.fold = fold(tile.reads, load(0, DataType.FLOAT32)) if is_fold else None
        start = "zeroinitializer" if self.fold is None else identity(self.fold)
        text.read("count", "pieces")
        text.add("%c.entry = inttoptr i64 %c to ptr", "%b.entry = inttoptr i64 %b to ptr")
        self.groups = range(-(-tile.rows // TRIO))
        for g in self.groups:
            text.let(f"a_{g}", f"a + astep * {TRIO * g}")
        self.ahead = self._enter_ahead()
        text.add("br label %piece", "piece:", "%e = phi i64 [ 0, %entry ], [ %e.on, %next ]")
        text.add("%is.new = phi i64 [ %first, %entry ], [ %is.new.on, %next ]")
        text.add("%b.piece = phi ptr [ %b.entry, %entry ], [ %b.rest, %next ]")
        for i, j in self.sums:
            text.add(f"%s{i}.{j}.piece = phi {self.vector} [ {start}, %entry ], [ %s{i}.{j}.next, %next ]")
        text.let("at", f"pieces + 8 + e * {PIECE}")
        text.read("far", "at")
        for g in self.groups:
            text.add(f"%p{g}.piece = inttoptr i64 {text.value(f'a_{g} + far')} to ptr")
        if tile.steps:
            self._take_few()
        elif tile.reads == SPREAD:
            text.read("steps", "at + 8")
            text.add(f"%whole = and i64 %steps, {-UNROLLED}")
            self._walk("main", "piece", "0", "%whole", UNROLLED, "rest")
            self._walk("rest", "main", "%whole", "%steps", 1, "out")
            text.add("out:")
        else:
            self._fold_each()
        text.read("is_down", "at + 16")
        text.add("%e.on = add i64 %e, 1", "%is.over = icmp eq i64 %e.on, %count", "%is.first = icmp ne i64 %is.new, 0")
        text.add("br i1 %is.over, label %last, label %go", "go:")
        text.add("%is.down = icmp ne i64 %is_down, 0", "br i1 %is.down, label %down, label %next")
        text.add("down:", "br i1 %is.first, label %write, label %add")
        for block in ("add", "write"):
            self.put_down(block)
            text.add("br label %next")
        text.add("next:", "%is.new.on = phi i64 [ %is.new, %go ], [ 0, %write ], [ 0, %add ]")
        for i, j in self.sums:
            ways = f"[ %s{i}.{j}.rest, %go ], [ {start}, %write ], [ {start}, %add ]"
            text.add(f"%s{i}.{j}.next = phi {self.vector} {ways}")
        text.add("br label %piece")
        names = ["a", "b", "b.step", "c", "c.step", "pieces", "first", "astep", "later", "later.step", "none"]
        text.add("last:", "br i1 %is.first, label %write.last, label %add.last")
        if tile.epilogue is not None:
            self.finish(tile.epilogue, ("write", "add"))
            names += ["to", "to.step", "section", "bases", "row", "column"]
        else:
            for block in ("add", "write"):
                self.put_down(block, ".last")
                text.add("ret void")
        return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")

    def _enter_ahead(self) -> list[tuple[str, str, int, int]]:
        """The lines fetched a row at a time while sums are made: name, step, bytes of a row, and whether it is written.

        It is the target, and what is added to it. Where their next rows are lies on the stack: registers are the
        loop's. 64 channels into 256 of 56 x 56, with as many added, take 1.07 ms so, and 1.35 without (a Xeon).
        """
        text, tile, epilogue = self.text, self.tile, self.tile.epilogue
        if epilogue is None or tile.reads != SPREAD:
            return []
        wide = tile.lanes * tile.vectors
        found = [("to", "%to.step", int(kind_of(epilogue.value.type)[1:]) // 8 * wide, 1)]
        for n, (base, across, width) in enumerate(EpilogueText(epilogue, text, tile.lanes).elements()):
            text.read(f"base_ahead_{n}", base)
            text.read(f"by_ahead_{n}", across)
            text.let(f"ahead_{n}", f"base_ahead_{n} + row * by_ahead_{n} + column * {width}")
            found.append((f"ahead_{n}", f"%by_ahead_{n}", width * wide, 0))
        for name, start in [(name, f"%{name}") for name, *_ in found] + [("rows", str(-(-tile.rows // TOGETHER)))]:
            text.add(f"%{name}.at = alloca i64", f"store i64 {start}, ptr %{name}.at")
        return found

    def _fetch_ahead(self) -> None:
        """Have the lines of the next rows fetched, as long as there are any."""
        text = self.text
        left = text.new("load i64, ptr %rows.at")
        text.add(f"%is.done = icmp eq i64 {left}, 0", "br i1 %is.done, label %fetched, label %fetch", "fetch:")
        text.add(f"store i64 {text.new(f'sub i64 {left}, 1')}, ptr %rows.at")
        for name, step, size, is_written in self.ahead:
            at = text.new(f"load i64, ptr %{name}.at")
            for _ in range(TOGETHER):
                place = text.new(f"inttoptr i64 {at} to ptr")
                for byte in (*range(0, size, LINE), size - 1):  # the last line too, where a row begins within one
                    text.fetch(self.at(place, byte), is_written=bool(is_written))
                at = text.new(f"add i64 {at}, {step}")
            text.add(f"store i64 {at}, ptr %{name}.at")
        text.add("br label %fetched", "fetched:")

    def _walk(self, name: str, before: str, start: str, stop: str, steps: int, after: str) -> None:
        """Go through so many steps of a piece at once, from a block before to a block after."""
        text, back = self.text, "fetched" if name == "main" and self.ahead else f"{name}.on"
        phi = f"[ {{}}, %{before} ], [ {{}}, %{back} ]"
        if before == "piece":
            text.add(f"br label %{name}")
        text.add(f"{name}:", f"%k.{name} = phi i64 " + phi.format(start, f"%k.{name}.on"))
        for x in ("b", *(f"p{g}" for g in self.groups)):
            text.add(f"%{x}.{name} = phi ptr " + phi.format(f"%{x}.{before}", f"%{x}.{name}.on"))
        for i, j in self.sums:
            ways = phi.format(f"%s{i}.{j}.{before}", f"%s{i}.{j}.{name}.on")
            text.add(f"%s{i}.{j}.{name} = phi {self.vector} {ways}")
        text.add(f"%is.{name} = icmp slt i64 %k.{name}, {stop}")
        text.add(f"br i1 %is.{name}, label %{name}.on, label %{after}", f"{name}.on:")
        if name == "main" and self.ahead:
            self._fetch_ahead()
        # LLVM would have an address for each row, and be short of registers.
        for g in self.groups:
            text.add(f'%p{g}.{name}.here = call ptr asm sideeffect "", "=r,0"(ptr %p{g}.{name})')
        sums, b = {(i, j): f"%s{i}.{j}.{name}" for i, j in self.sums}, f"%b.{name}"
        for u in range(steps):
            self._step_of(name, b, u, sums, is_fetched=name == "main")
            on = f"%b.{name}.on" if u == steps - 1 else f"%b.{name}.{u}"
            text.add(f"{on} = getelementptr i8, ptr {b}, i64 %b.step")
            b = on
        self._keep(sums, f"{name}.on")
        for g in self.groups:
            text.add(f"%p{g}.{name}.on = getelementptr i8, ptr %p{g}.{name}.here, i64 {4 * steps}")
        text.add(f"%k.{name}.on = add i64 %k.{name}, {steps}", f"br label %{name}")

    def _take_few(self) -> None:
        """All steps of a piece, side by side."""
        text, steps = self.text, self.tile.steps
        if self.ahead:
            self._fetch_ahead()
        for g in self.groups:
            text.add(f'%p{g}.few.here = call ptr asm sideeffect "", "=r,0"(ptr %p{g}.piece)')
        sums, b = {(i, j): f"%s{i}.{j}.piece" for i, j in self.sums}, "%b.piece"
        for u in range(steps):
            self._step_of("few", b, u, sums, is_fetched=True)
            on = "%b.rest" if u == steps - 1 else f"%b.few.{u}"
            text.add(f"{on} = getelementptr i8, ptr {b}, i64 %b.step")
            b = on
        self._keep(sums, "rest")

    def _step_of(self, name: str, b: str, step: int, sums: dict[tuple[int, int], str], *, is_fetched: bool) -> None:
        """A step of all rows, with its columns at b; those of later ones are fetched."""
        text, tile = self.text, self.tile
        columns = self._columns(b)
        for j in range(tile.vectors if is_fetched else 0):
            text.fetch(self.at(b, figures().gemm.prefetch_bytes + 4 * tile.lanes * j))
        for i in range(tile.rows):
            one = text.new(f"load float, ptr {self._row(f'{name}.here', i, 4 * step)}, align 4")
            factor = text.spread(one, "float", tile.lanes)
            for j in range(tile.vectors):
                sums[i, j] = text.call("fmuladd", self.vector, [factor, columns[j], sums[i, j]])
            self.wait(sums, i)

    def wait(self, sums: dict[tuple[int, int], str], i: int) -> None:
        """Let nothing be read before a row's sums are there: LLVM would read ahead what it has no registers for."""
        text, count = self.text, self.tile.vectors
        kind = f"{{ {', '.join([self.vector] * count)} }}" if count > 1 else self.vector
        ties = ",".join([*["=v"] * count, *map(str, range(count))])
        given = ", ".join(f"{self.vector} {sums[i, j]}" for j in range(count))
        held = text.new(f'call {kind} asm sideeffect "", "{ties},~{{memory}}"({given})')
        for j in range(count):
            sums[i, j] = text.new(f"extractvalue {kind} {held}, {j}") if count > 1 else held

    def _fold_each(self) -> None:
        """A step of each column's own."""
        text, tile, vector = self.text, self.tile, self.vector
        columns = self._columns("%b.piece") if self.fold is None else []
        sums = {}
        for i, j in self.sums:
            place = self._row("piece", i, 4 * tile.lanes * j)
            x = load_some(text, "f32", tile.lanes, tile.present(j), place, 4)
            total = f"%s{i}.{j}.piece"
            if self.fold is None:
                sums[i, j] = text.call("fmuladd", vector, [x, columns[j], total])
            else:
                sums[i, j] = combine(text, self.fold, total, x, tile.lanes)
        self._keep(sums, "rest")
        text.add("%b.rest = getelementptr i8, ptr %b.piece, i64 %b.step")

    def _keep(self, sums: dict[tuple[int, int], str], block: str) -> None:
        for (i, j), value in sums.items():
            self.text.add(f"%s{i}.{j}.{block} = bitcast {self.vector} {value} to {self.vector}")

    def _columns(self, b: str) -> list[str]:
        tile = self.tile
        return [
            self.text.new(f"load {self.vector}, ptr {self.at(b, 4 * tile.lanes * j)}, align 4")
            for j in range(tile.vectors)
        ]

    def _row(self, block: str, i: int, offset: int) -> str:
        """Where a row of a number lies, so many bytes on."""
        text, on = self.text, i % TRIO
        place = f"%p{i // TRIO}.{block}"
        if on:
            step = "%astep" if on == 1 else text.value(f"astep * {on}")
            place = text.new(f"getelementptr i8, ptr {place}, i64 {step}")
        return self.at(place, offset)
