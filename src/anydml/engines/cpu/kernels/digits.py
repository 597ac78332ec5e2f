"""Rows of FLOAT32 as whole numbers of three signed bytes each: what integer dot products multiply exactly.

`kernel(a, portions, digits, sums, powers, odd)` takes a row in portions of `PORTION` elements. A portion has a power of
two, such that its elements over it are below 2^`size` and are rounded to whole numbers: for 23 an error of at most
2^-23 of its largest element. Those are cut into three signed bytes:

digits  by portion, the lowest, middle and highest bytes of its elements, in `order`
sums    by portion, the sum of its elements times `zero`
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

    size: int
    """The bits of elements, at most 23."""
    is_paired: bool
    """Whether every other element comes first, and then those between: the halves of bytes."""
    zero: int

    @property
    def name(self) -> str:
        """The kernel's."""
        return f"digits {self.size} {int(self.is_paired)} {self.zero}"

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
        power = text.new(f"shl i32 {text.new(f'sub i32 {exponent}, {shape.size - 1}')}, 23")
        text.add(f"store i32 {power}, ptr {text.place('powers + p * 4')}")
        above = text.new(f"sub i32 {2 * 127 + shape.size - 1}, {exponent}")
        up = text.new(f"bitcast i32 {text.new(f'shl i32 {above}, 23')} to float")
        scaled = text.new(f"fmul {floats} {a}, {text.spread(up, 'float', PORTION)}")
        whole = text.call("roundeven", floats, [scaled])
        # What is no finite number is whatever: others compute with it.
        number = text.new(f"freeze {ints} {text.new(f'fptosi {floats} {whole} to {ints}')}")
        name = f"@llvm.vector.reduce.add.v{PORTION}i32"
        text.declared[f"declare i32 {name}({ints})"] = None
        total = text.new(f"mul i32 {text.new(f'call i32 {name}({ints} {number})')}, {shape.zero}")
        text.add(f"store i32 {total}, ptr {text.place('sums + p * 4')}")
        for place in range(PLACES):
            low = text.new(f"trunc {ints} {number} to {bytes_}")
            to = text.place(f"digits + p * {PLACES * PORTION} + {place * PORTION}")
            text.add(f"store {bytes_} {low}, ptr {to}, align 1")
            number = text.new(f"ashr {ints} {text.new(f'add {ints} {number}, splat (i32 128)')}, splat (i32 8)")
    text.add("ret void")
    names = ("a", "portions", "digits", "sums", "powers", "odd")
    return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")
