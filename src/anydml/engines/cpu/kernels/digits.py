"""Rows of FLOAT32 as whole numbers of three signed bytes each: what integer dot products multiply exactly.

`kernel(a, portions, digits, sums, powers, odd)` takes a row in portions of `PORTION` elements. A portion has a power of
two, such that its elements over it are below 2^23 in size and are rounded to whole numbers: an error of at most 2^-24
of its largest element. Those are cut into three bytes from the lowest up, each less than 128 in size or -128:

digits  by portion, the lowest, middle and highest bytes of its elements, in `order`
sums    by portion, the sum of the elements that each lane of a dot product adds up, times `zero`
powers  by portion, the power of two, FLOAT32
odd     set to 1 where an element is no finite number
"""

from __future__ import annotations

from typing import NamedTuple

from anydml.engines.cpu.kernels.steps import Steps

PORTION = 32
"""Elements that share a power of two."""
PLACES = 3
"""Bytes of an element."""
_LOW, _LIMIT = 23, 0x7F800000
"""The exponent's bits below which a power would be too small to write, and the bits of infinity."""


class Digits(NamedTuple):
    """What the text is written for."""

    lanes: int
    """Sums of a dot product."""
    is_paired: bool
    """Whether every other element comes first, and then those between: the halves of bytes."""
    zero: int

    @property
    def name(self) -> str:
        """The kernel's."""
        return f"digits {self.lanes} {int(self.is_paired)} {self.zero}"

    @property
    def order(self) -> list[int]:
        """The elements of a portion as they are laid out."""
        every = range(PORTION)
        return [*every[::2], *every[1::2]] if self.is_paired else list(every)


def make_digits(shape: Digits) -> str:
    """The text of the kernel."""
    text = Steps()
    floats, ints, bytes_ = (f"<{PORTION} x {kind}>" for kind in ("float", "i32", "i8"))
    with text.loop("p", 0, "portions"):
        a = text.new(f"load {floats}, ptr {text.place(f'a + p * {4 * PORTION}')}, align 4")
        mask = ", ".join(f"i32 {k}" for k in shape.order)
        a = text.new(f"shufflevector {floats} {a}, {floats} poison, <{PORTION} x i32> <{mask}>")
        bits = text.new(f"and {ints} {text.new(f'bitcast {floats} {a} to {ints}')}, splat (i32 {0x7FFFFFFF})")
        name = f"@llvm.vector.reduce.umax.v{PORTION}i32"
        text.declared[f"declare i32 {name}({ints})"] = None
        most = text.new(f"call i32 {name}({ints} {bits})")
        is_odd = text.new(f"icmp uge i32 {most}, {_LIMIT}")
        before, yes, on = text.label("before"), text.label("odd"), text.label("on")
        text.add(f"br label %{before}", f"{before}:", f"br i1 {is_odd}, label %{yes}, label %{on}", f"{yes}:")
        text.put("odd", 1)
        text.add(f"br label %{on}", f"{on}:")
        # A little above the largest, so that the bytes of what rounds up still have room for it.
        near = text.new(f"fmul float {text.new(f'bitcast i32 {most} to float')}, 0x3FF0200000000000")
        exponent = text.new(f"lshr i32 {text.new(f'bitcast float {near} to i32')}, 23")
        small = text.new(f"icmp ult i32 {exponent}, {_LOW}")
        exponent = text.new(f"select i1 {small}, i32 {_LOW}, i32 {exponent}")
        power = text.new(f"shl i32 {text.new(f'sub i32 {exponent}, 22')}, 23")
        text.add(f"store i32 {power}, ptr {text.place('powers + p * 4')}")
        above = text.new(f"sub i32 276, {exponent}")
        up = text.new(f"bitcast i32 {text.new(f'shl i32 {above}, 23')} to float")
        scaled = text.new(f"fmul {floats} {a}, {text.spread(up, 'float', PORTION)}")
        whole = text.call("roundeven", floats, [scaled])
        # What is no finite number is whatever: others compute with it.
        number = text.new(f"freeze {ints} {text.new(f'fptosi {floats} {whole} to {ints}')}")
        _write_sums(text, shape, number)
        for place in range(PLACES):
            low = text.new(f"trunc {ints} {number} to {bytes_}")
            to = text.place(f"digits + p * {PLACES * PORTION} + {place * PORTION}")
            text.add(f"store {bytes_} {low}, ptr {to}, align 1")
            number = text.new(f"ashr {ints} {text.new(f'add {ints} {number}, splat (i32 128)')}, splat (i32 8)")
    text.add("ret void")
    names = ("a", "portions", "digits", "sums", "powers", "odd")
    return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")


def _write_sums(text: Steps, shape: Digits, number: str) -> None:
    """The sums of what lanes add up: four elements of every vector of a portion."""
    ints, own = f"<{PORTION} x i32>", f"<{shape.lanes} x i32>"
    total = ""
    for start in range(0, PORTION, 4 * shape.lanes):
        for k in range(4):
            mask = ", ".join(f"i32 {start + 4 * lane + k}" for lane in range(shape.lanes))
            part = text.new(f"shufflevector {ints} {number}, {ints} poison, <{shape.lanes} x i32> <{mask}>")
            total = text.new(f"add {own} {total}, {part}") if total else part
    if shape.zero != 1:
        total = text.new(f"mul {own} {total}, splat (i32 {shape.zero})")
    text.add(f"store {own} {total}, ptr {text.place(f'sums + p * {4 * shape.lanes}')}, align 4")
