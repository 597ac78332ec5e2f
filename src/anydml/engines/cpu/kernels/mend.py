"""The share of zero points in sums of products of bytes, taken off: `octets` tells how much it is."""

from __future__ import annotations

from anydml.engines.cpu.kernels.pack import GROUP
from anydml.engines.cpu.kernels.steps import Steps


def make_mend() -> str:
    """`kernel(c, pitch, rows, columns, ra, za, rb, zb, count, mends)`: what zero points add to sums is taken off them.

    The columns' zero points are one where `mends` is 1. Filters have none as a rule: then only a number is taken off,
    or where it is 0 only what the row's own adds: 256 x 256 x 256 takes 251 us so, and 264 as others (Neoverse-N1).
    """
    text = Steps()
    with text.loop("i", 0, "rows"):
        one, zero = (text.new(f"load i32, ptr {text.place(f'{name} + i * 4')}, align 4") for name in ("ra", "za"))
        count = text.new("trunc i64 %count to i32")
        less = text.new(f"sub i32 {one}, {text.new(f'mul i32 {count}, {zero}')}")
        rows = [text.spread(x, "i32", GROUP) for x in (less, zero)]
        first = text.new(f"load i32, ptr {text.place('zb')}, align 4")
        whole = text.spread(text.new(f"mul i32 {less}, {first}"), "i32", GROUP)
        text.add(f"%own = sext i32 {zero} to i64", f"%other = sext i32 {first} to i64")
        text.let("line", "c + i * pitch")
        text.let("is_one", "1 if own == 0 and mends == 1 else 0")
        text.let("is_own", "1 if own != 0 and mends == 1 and other == 0 else 0")
        text.let("many", f"columns - columns % {4 * GROUP}")
        with text.when("is_own != 0"):
            with text.loop("p", 0, "many", 4 * GROUP):
                _take_own(text, [f"p * 4 + {4 * GROUP * k}" for k in range(4)], rows[1])
            with text.loop("q", "many", "columns", GROUP):
                _take_own(text, ["q * 4"], rows[1])
        with text.when("is_one != 0"):
            with text.loop("m", 0, "many", 4 * GROUP):
                _take_off(text, [f"line + m * 4 + {4 * GROUP * k}" for k in range(4)], whole)
            with text.loop("f", "many", "columns", GROUP):
                _take_off(text, ["line + f * 4"], whole)
        with text.when("is_one + is_own == 0"), text.loop("j", 0, "columns", GROUP):
            place = text.place("line + j * 4")
            value = text.new(f"load <4 x i32>, ptr {place}, align 4")
            for row, name in zip(rows, ("zb", "rb"), strict=True):
                other = text.new(f"load <4 x i32>, ptr {text.place(f'{name} + j * 4')}, align 4")
                value = text.new(f"sub <4 x i32> {value}, {text.new(f'mul <4 x i32> {row}, {other}')}")
            text.add(f"store <4 x i32> {value}, ptr {place}, align 4")
    text.add("ret void")
    names = ("c", "pitch", "rows", "columns", "ra", "za", "rb", "zb", "count", "mends")
    return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")


def _take_own(text: Steps, offsets: list[str], zero: str) -> None:
    """Take a row's zero point times the columns' totals off."""
    places = [text.place(f"line + {offset}") for offset in offsets]
    pairs = [
        [text.new(f"load <4 x i32>, ptr {one}, align 4") for one in (place, text.place(f"rb + {offset}"))]
        for place, offset in zip(places, offsets, strict=True)
    ]
    for place, (value, total) in zip(places, pairs, strict=True):
        less = text.new(f"mul <4 x i32> {total}, {zero}")
        text.add(f"store <4 x i32> {text.new(f'sub <4 x i32> {value}, {less}')}, ptr {place}, align 4")


def _take_off(text: Steps, lines: list[str], number: str) -> None:
    places = [text.place(line) for line in lines]
    values = [text.new(f"load <4 x i32>, ptr {place}, align 4") for place in places]
    for place, value in zip(places, values, strict=True):
        text.add(f"store <4 x i32> {text.new(f'sub <4 x i32> {value}, {number}')}, ptr {place}, align 4")
