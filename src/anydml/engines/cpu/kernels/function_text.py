"""Lines of a function in LLVM, and what it declares."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class Text:
    """Lines of a function, the constants that it keeps in memory, and what it declares."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declared: dict[str, None] = {}
        self.block = "entry"
        """The block that lines are written to."""
        self.table = "%numbers"
        """The address of constants that are kept in memory."""
        self._count = 0
        self._numbers: dict[str, int] = {}

    @property
    def numbers(self) -> list[str]:
        """The constants that are kept in memory, with what they lie in."""
        kinds = ", ".join(number.partition(">")[0] + ">" for number in self._numbers)
        table = f"@numbers = private constant %numbers {{ {', '.join(self._numbers)} }}"
        return [f"%numbers = type {{ {kinds} }}", table] if self._numbers else []

    def number(self, vector: str, value: str) -> str:
        """A constant, read from memory where it is used, by an address that LLVM must not know.

        An Arm adds a product to a register that it overwrites. LLVM would copy a constant there, which takes the place
        of arithmetic, as a load does not: tanh takes 2.6 ns an element in place of 3.4, and erf 3.2 of 4.0.
        """
        at = self._numbers.setdefault(f"{vector} {value}", len(self._numbers))
        place = self.new(f"getelementptr %numbers, ptr {self.table}, i64 0, i32 {at}")
        return self.new(f"load {vector}, ptr {place}, align 16")

    def hide_table(self) -> None:
        """In a loop without stores: have constants read in it, not before it, where they would be copied after all."""
        self.table = self.new('call ptr asm sideeffect "", "=r,0"(ptr %numbers)')

    def add(self, *lines: str) -> None:
        """Write lines as they are."""
        self.lines += lines

    def new(self, line: str) -> str:
        """Write a line that gives a value, and name that."""
        self._count += 1
        self.lines.append(f"%v{self._count} = {line}")
        return f"%v{self._count}"

    def label(self, stem: str) -> str:
        """The name of a block to come."""
        self._count += 1
        return f"{stem}{self._count}"

    def open(self, block: str) -> None:
        """Begin a block."""
        self.lines.append(f"{block}:")
        self.block = block

    def fetch(self, place: str, *, is_written: bool = False, near: int = 3) -> None:
        """Have the cache's line of a place fetched, to be read or written: to the first cache, 3, or the second, 2."""
        self.declared["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
        self.add(f"call void @llvm.prefetch.p0(ptr {place}, i32 {int(is_written)}, i32 {near}, i32 1)")

    def call(self, name: str, kind: str, args: Sequence[str], more: str = "") -> str:
        """An intrinsic of vectors, all of one type."""
        full = f"@llvm.{name}.{_letters(kind)}"
        self.declared[f"declare {kind} {full}({', '.join([kind] * len(args))}{', i1' if more else ''})"] = None
        return self.new(f"call {kind} {full}({', '.join(f'{kind} {arg}' for arg in args)}{more})")

    def load_lanes(self, vector: str, place: str, mask: str) -> str:
        """The lanes of a vector that a mask has, and zeros; the others are not read."""
        truths, name = f"<{lanes_in(vector)} x i1>", f"@llvm.masked.load.{_letters(vector)}.p0"
        self.declared[f"declare {vector} {name}(ptr, i32, {truths}, {vector})"] = None
        return self.new(f"call {vector} {name}(ptr {place}, i32 1, {truths} {mask}, {vector} zeroinitializer)")

    def store_lanes(self, vector: str, value: str, place: str, mask: str) -> None:
        """Write the lanes of a vector that a mask has."""
        truths, name = f"<{lanes_in(vector)} x i1>", f"@llvm.masked.store.{_letters(vector)}.p0"
        self.declared[f"declare void {name}({vector}, ptr, i32, {truths})"] = None
        self.add(f"call void {name}({vector} {value}, ptr {place}, i32 1, {truths} {mask})")

    def saturate(self, value: str, source: str, kind: str, vector: str) -> str:
        """Floats as integers of a kind, those outside of its range as the nearest end."""
        lanes, name = vector[1:-1].split(" x ")[0], f"@llvm.fpto{'s' if kind[0] == 'i' else 'u'}i.sat"
        full = f"{name}.v{lanes}i{kind[1:]}.v{lanes}f32"
        self.declared[f"declare {vector} {full}({source})"] = None
        return self.new(f"call {vector} {full}({source} {value})")

    def spread(self, value: str, scalar: str, lanes: int) -> str:
        """One value in every lane."""
        kind = f"<{lanes} x {scalar}>"
        first = self.new(f"insertelement {kind} poison, {scalar} {value}, i32 0")
        return self.new(f"shufflevector {kind} {first}, {kind} poison, <{lanes} x i32> zeroinitializer")


def lanes_in(vector: str) -> int:
    """The lanes of a vector's type."""
    return int(vector[1:-1].split(" x ")[0])


def _letters(vector: str) -> str:
    """A vector's type as names of intrinsics have it: `v16f32`."""
    lanes, scalar = vector[1:-1].split(" x ")
    return f"v{lanes}{({'double': 'f64', 'float': 'f32', 'half': 'f16'}).get(scalar, scalar)}"
