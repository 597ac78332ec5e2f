"""The tile of a contraction: some rows by some vectors of columns, held in registers along the folded dimension.

`kernel(a, b, b.step, c, c.step, count, first)` adds the sum of a[k]·b[k] over `count` steps to the tile at c, or
writes it there where `first` is 1. A step of a has the rows one after the other, `pitch` of them; a step of b has the
columns, `b.step` bytes after those of the step before. Each sum is one chain in k's order, whatever the tile.
"""

from __future__ import annotations

from typing import NamedTuple

from anydml.engines.cpu.kernels.nodes import Text

UNROLLED = 4
"""Steps at once."""
SCALARS = {"f32": "float", "i32": "i32"}


class Tile(NamedTuple):
    """What the text of a tile is written for."""

    rows: int
    vectors: int
    lanes: int
    pitch: int
    """Rows that a step of a has room for."""
    by_lane: bool
    """Whether arithmetic takes a factor from a lane of a vector, as an Arm's; otherwise it is spread as it is read."""
    kind: str = "f32"

    @property
    def name(self) -> str:
        """The kernel's."""
        return "tile " + " ".join(map(str, self))


def make_tile(tile: Tile) -> str:
    """The text of the kernel."""
    return _Tile(tile).write()


class _Tile:
    def __init__(self, tile: Tile) -> None:
        self.tile, self.text = tile, Text()
        self.vector = f"<{tile.lanes} x {SCALARS[tile.kind]}>"
        self.sums = [(i, j) for i in range(tile.rows) for j in range(tile.vectors)]

    def write(self) -> str:
        text = self.text
        for x in "abc":
            text.add(f"%{x}.entry = inttoptr i64 %{x} to ptr")
        text.add(f"%whole = and i64 %count, {-UNROLLED}")
        self._loop("main", "entry", "0", "%whole", UNROLLED, "rest")
        self._loop("rest", "main", "%whole", "%count", 1, "out")
        text.add("out:", "%is.first = icmp ne i64 %first, 0", "br i1 %is.first, label %write, label %add")
        self._store("add")
        self._store("write")
        head = ", ".join(f"i64 %{name}" for name in ("a", "b", "b.step", "c", "c.step", "count", "first"))
        return "\n".join([f"define void @kernel({head}) {{", "entry:", *text.lines, "}", *text.declared])

    def _loop(self, name: str, before: str, start: str, stop: str, steps: int, after: str) -> None:
        """Go through so many steps at once, from a block before to a block after."""
        text, phi = self.text, f"[ {{}}, %{before} ], [ {{}}, %{name}.on ]"
        if before == "entry":
            text.add(f"br label %{name}")
        text.add(f"{name}:", f"%k.{name} = phi i64 " + phi.format(start, f"%k.{name}.on"))
        for x in "ab":
            text.add(f"%{x}.{name} = phi ptr " + phi.format(f"%{x}.{before}", f"%{x}.{name}.on"))
        for i, j in self.sums:
            old = "zeroinitializer" if before == "entry" else f"%s{i}.{j}.{before}"
            text.add(f"%s{i}.{j}.{name} = phi {self.vector} " + phi.format(old, f"%s{i}.{j}.{name}.on"))
        text.add(f"%is.{name} = icmp slt i64 %k.{name}, {stop}")
        text.add(f"br i1 %is.{name}, label %{name}.on, label %{after}", f"{name}.on:")
        sums, b = {(i, j): f"%s{i}.{j}.{name}" for i, j in self.sums}, f"%b.{name}"
        for u in range(steps):
            is_last = u == steps - 1
            self._step(f"%a.{name}", b, u, sums, f"{name}.on" if is_last else f"{name}.{u}")
            on = f"%b.{name}.on" if is_last else f"%b.{name}.{u}"
            text.add(f"{on} = getelementptr i8, ptr {b}, i64 %b.step")
            b = on
        text.add(f"%a.{name}.on = getelementptr i8, ptr %a.{name}, i64 {4 * self.tile.pitch * steps}")
        text.add(f"%k.{name}.on = add i64 %k.{name}, {steps}", f"br label %{name}")

    def _step(self, a: str, b: str, step: int, sums: dict[tuple[int, int], str], name: str) -> None:
        text, tile = self.text, self.tile
        columns = [self._load(b, 4 * tile.lanes * j, self.vector) for j in range(tile.vectors)]
        found = ""
        for i in range(tile.rows):
            if tile.by_lane and i % tile.lanes == 0:
                found = self._load(a, 4 * (tile.pitch * step + i), self.vector)
            if tile.by_lane:
                lanes = ", ".join([f"i32 {i % tile.lanes}"] * tile.lanes)
                factor = text.new(f"shufflevector {self.vector} {found}, {self.vector} poison, <{tile.lanes} x i32> <{lanes}>")
            else:
                one = self._load(a, 4 * (tile.pitch * step + i), SCALARS[tile.kind])
                factor = text.spread(one, SCALARS[tile.kind], tile.lanes)
            for j in range(tile.vectors):
                self._multiply(factor, columns[j], sums[i, j], f"%s{i}.{j}.{name}")
                sums[i, j] = f"%s{i}.{j}.{name}"
        # Nothing is read before it is needed: LLVM would gather the loads of all steps, and be short of registers.
        text.add('call void asm sideeffect "", "~{memory}"()')

    def _multiply(self, factor: str, column: str, sum: str, name: str) -> None:
        text, vector = self.text, self.vector
        if self.tile.kind == "f32":
            made = text.call("fma", vector, [factor, column, sum])
        else:
            made = text.new(f"add {vector} {text.new(f'mul {vector} {factor}, {column}')}, {sum}")
        text.lines[-1] = text.lines[-1].replace(made, name, 1)

    def _load(self, base: str, offset: int, kind: str) -> str:
        place = self.text.new(f"getelementptr i8, ptr {base}, i64 {offset}")
        return self.text.new(f"load {kind}, ptr {place}, align 4")

    def _store(self, block: str) -> None:
        text, op = self.text, "fadd" if self.tile.kind == "f32" else "add"
        text.add(f"{block}:")
        row = "%c.entry"
        for i in range(self.tile.rows):
            if i:
                row = text.new(f"getelementptr i8, ptr {row}, i64 %c.step")
            for j in range(self.tile.vectors):
                place = text.new(f"getelementptr i8, ptr {row}, i64 {4 * self.tile.lanes * j}")
                made = f"%s{i}.{j}.rest"
                if block == "add":
                    old = text.new(f"load {self.vector}, ptr {place}, align 4")
                    made = text.new(f"{op} {self.vector} {old}, {made}")
                text.add(f"store {self.vector} {made}, ptr {place}, align 4")
        text.add("ret void")
