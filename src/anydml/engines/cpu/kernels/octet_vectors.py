"""Vectors of bytes as they are packed for products: four steps of each of four rows, of the sign that is multiplied."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.kernels.fourfold import FOUR, widened
from anydml.engines.cpu.kernels.pack import GROUP

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.steps import Steps


class Octets(NamedTuple):
    """The parameters of the texts."""

    lie: str
    """As a `Packing` has it."""
    flips: bool
    """Whether bytes are given the other sign."""
    panel: int
    pitch: int
    lanes: int
    is_arm: bool
    has_dots: bool
    """Whether there are dot instructions."""
    is_wide: bool = False
    """Whether bytes are packed as 16 bits: those of a left factor, where products of 16 bits are added up."""
    is_signed: bool = False
    """Whether bytes are multiplied as signed ones."""
    filled: int = FOUR
    """Of the steps of a panel there is a multiple: past the end lies 0."""
    is_lined: bool = False
    """Whether rows lie in lines, for matrix registers."""

    @property
    def group(self) -> int:
        """The bytes of a packed step."""
        return 4 * self.pitch * (2 if self.is_wide else 1)

    @property
    def name(self) -> str:
        """The end of the kernels' names."""
        return " ".join(map(str, self))


def within(text: Steps, count: str) -> str:
    """A mask of the bytes of so many steps of four: whatever lies past the end is 0."""
    bits = text.value(f"(1 << (({count}) * 8)) - 1")
    return text.spread(text.new(f"trunc i64 {bits} to i32"), "i32", GROUP)


def side_by_side(text: Steps, lines: list[str], count: int, step: int = 1) -> list[str]:
    """Four steps of four or eight rows that lie side by side, or two bytes from each other, by vectors of four rows."""
    if count == GROUP and step == 1:  # in the low half of a vector of eight, or LLVM widens bytes first
        low = [text.new(f"load i32, ptr {text.place(line)}, align 1") for line in lines]
        wide = [text.new(f"insertelement <2 x i32> poison, i32 {one}, i32 0") for one in low]
        a, b, c, d = (text.new(f"bitcast <2 x i32> {one} to <8 x i8>") for one in wide)
        halves = [zipped(text, "<8 x i8>", *two, range(GROUP)) for two in ((a, b), (c, d))]
        x, y = (text.new(f"bitcast <8 x i8> {one} to <4 x i16>") for one in halves)
        return [text.new(f"bitcast <8 x i16> {zipped(text, '<4 x i16>', x, y, range(GROUP))} to <4 x i32>")]
    kind = f"<{count} x i8>"
    steps = [text.new(f"load {kind}, ptr {text.place(line)}, align 1") for line in lines]
    if step == 2:  # nothing is read past the last of them
        ends = [text.new(f"load {kind}, ptr {text.place(f'{line} + {count - 1}')}, align 1") for line in lines]
        mask = ", ".join(f"i32 {2 * k if 2 * k < count else 2 * k + 1}" for k in range(count))
        both = zip(steps, ends, strict=True)
        steps = [text.new(f"shufflevector {kind} {a}, {kind} {b}, <{count} x i32> <{mask}>") for a, b in both]
    pairs = []
    for a, b in (steps[:2], steps[2:]):
        found = zipped(text, kind, a, b, range(count))
        pairs.append(text.new(f"bitcast <{2 * count} x i8> {found} to <{count} x i16>"))
    made = []
    for first in range(0, count, GROUP):
        found = zipped(text, f"<{count} x i16>", pairs[0], pairs[1], range(first, first + GROUP))
        made.append(text.new(f"bitcast <{2 * GROUP} x i16> {found} to <{GROUP} x i32>"))
    return made


def zipped(text: Steps, kind: str, a: str, b: str, lanes: range) -> str:
    """Lanes of two vectors in turns."""
    count = int(kind[1:].split()[0])
    mask = ", ".join(f"i32 {k}, i32 {k + count}" for k in lanes)
    return text.new(f"shufflevector {kind} {a}, {kind} {b}, <{2 * len(lanes)} x i32> <{mask}>")


def flip(text: Steps, shape: Octets, value: str, kind: str = "<4 x i32>") -> str:
    """Bytes with the other sign, where they are multiplied so."""
    return text.new(f"xor {kind} {value}, splat (i32 {-0x7F7F7F80})") if shape.flips else value


def put(text: Steps, shape: Octets, value: str, line: str) -> None:
    """Four bytes of each of four rows, as they are packed."""
    parts = widened(text, GROUP, value, is_signed=shape.is_signed) if shape.is_wide else (value,)
    for i, part in enumerate(parts):
        text.add(f"store <4 x i32> {part}, ptr {text.place(f'{line} + {4 * shape.pitch * i}')}, align 4")


def transpose(text: Steps, rows: list[str]) -> list[str]:
    """Four steps of four rows as four rows of each step."""

    def pick(a: str, b: str, *lanes: int) -> str:
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        return text.new(f"shufflevector <4 x i32> {a}, <4 x i32> {b}, <4 x i32> <{mask}>")

    a, b, c, d = rows
    pairs = [pick(x, y, *lanes) for x, y in ((a, b), (c, d)) for lanes in ((0, 4, 2, 6), (1, 5, 3, 7))]
    return [pick(pairs[i], pairs[i + 2], *lanes) for lanes in ((0, 1, 4, 5), (2, 3, 6, 7)) for i in (0, 1)]
