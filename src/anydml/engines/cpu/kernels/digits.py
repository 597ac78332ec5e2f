"""Rows of FLOAT32 as whole numbers of three signed bytes each: what integer dot products multiply exactly.

`kernel(a, portions, digits, sums, powers, odd, scales, shared)` takes a row in portions of `PORTION` elements. A
portion has a power of two, such that its elements over it are below 2^`size` and are rounded to whole numbers: for 23
an error of at most 2^-23 of its largest element. Those are cut into three bytes.

digits  by `TOGETHER` portions: of each place, the highest bytes last, words of four bytes; for each word of a portion,
        as `words` has them, those of all portions side by side. Portions that are left over follow one by one
sums    by portion, the sum of its elements times `zero`
powers  by portion, the power of two, FLOAT32
odd     set to 1 where an element is no finite number

Rows that were rounded to one signed byte each have that for their only digit; the scales, of which each is for `shared`
portions, are their powers.
"""

from __future__ import annotations

from typing import NamedTuple

from anydml.engines.cpu.kernels.steps import Steps

PORTION = 32
"""Elements that share a power of two."""
TOGETHER = 4
"""Portions that are multiplied at once: a lane of four bytes for each."""
PLACES = 3
"""Bytes of an element."""
_LOW, _INFINITY = 23, 0x7F800000
"""The exponent's bits below which a power would be too small to write, and the bits of infinity."""


_NAMES = ("a", "portions", "digits", "sums", "powers", "odd", "scales", "shared")
_HEAD = f"void @kernel({', '.join(f'i64 %{name}' for name in _NAMES)})"


class Digits(NamedTuple):
    """The parameters of the text."""

    size: int
    """The bits of elements, at most 23."""
    is_paired: bool
    """Whether a word has every other element, as one half of bytes has them."""
    zero: int

    @property
    def name(self) -> str:
        """The kernel's."""
        return f"digits {self.size} {int(self.is_paired)} {self.zero}"

    @property
    def words(self) -> list[list[int]]:
        """The elements of each word."""
        if not self.is_paired:
            return [list(range(start, start + 4)) for start in range(0, PORTION, 4)]
        return [list(range(start + half, start + 8, 2)) for start in range(0, PORTION, 8) for half in (0, 1)]


def make_digits(shape: Digits) -> str:
    """The text of the kernel."""
    text = Steps()
    floats, ints, octets = (f"<{PORTION} x {kind}>" for kind in ("float", "i32", "i8"))
    text.let("whole", f"portions - portions % {TOGETHER}")
    with text.loop("p", 0, "portions"):
        a = text.new(f"load {floats}, ptr {text.place(f'a + p * {4 * PORTION}')}, align 4")
        mask = ", ".join(f"i32 {k}" for word in shape.words for k in word)
        a = text.new(f"shufflevector {floats} {a}, {floats} poison, <{PORTION} x i32> <{mask}>")
        bits = text.new(f"and {ints} {text.new(f'bitcast {floats} {a} to {ints}')}, splat (i32 {0x7FFFFFFF})")
        most = _reduced(text, "umax", bits)
        before, yes, on = text.label("before"), text.label("odd"), text.label("on")
        text.add(f"br label %{before}", f"{before}:")
        test = text.new(f"icmp uge i32 {most}, {_INFINITY}")
        text.add(f"br i1 {test}, label %{yes}, label %{on}", f"{yes}:")
        text.put("odd", 1)
        text.add(f"br label %{on}", f"{on}:")
        # From a little above the largest on, so that three signed bytes have room: 127·(2^16 + 2^8 + 1).
        near = text.new(f"fmul float {text.new(f'bitcast i32 {most} to float')}, 0x3FF0200000000000")
        exponent = text.new(f"lshr i32 {text.new(f'bitcast float {near} to i32')}, 23")
        small = text.new(f"icmp ult i32 {exponent}, {_LOW}")
        exponent = text.new(f"select i1 {small}, i32 {_LOW}, i32 {exponent}")
        power = text.new(f"shl i32 {text.new(f'sub i32 {exponent}, {shape.size - 1}')}, 23")
        text.add(f"store i32 {power}, ptr {text.place('powers + p * 4')}")
        up = text.new(f"shl i32 {text.new(f'sub i32 {2 * 127 + shape.size - 1}, {exponent}')}, 23")
        factor = text.spread(text.new(f"bitcast i32 {up} to float"), "float", PORTION)
        whole = text.call("roundeven", floats, [text.new(f"fmul {floats} {a}, {factor}")])
        # What is no finite number becomes whatever: nobody reads what is computed with it.
        number = text.new(f"freeze {ints} {text.new(f'fptosi {floats} {whole} to {ints}')}")
        total = text.new(f"mul i32 {_reduced(text, 'add', number)}, {shape.zero}")
        text.add(f"store i32 {total}, ptr {text.place('sums + p * 4')}")
        text.let("side", f"{TOGETHER} if p < whole else 1")
        text.let("first", f"digits + (p - p % side) * {PLACES * PORTION} + p % side * 4")
        for place in range(PLACES):
            low = text.new(f"trunc {ints} {number} to {octets}")
            _store_words(text, low, f"first + side * {PORTION * place}")
            number = text.new(f"ashr {ints} {text.new(f'add {ints} {number}, splat (i32 128)')}, splat (i32 8)")
    text.add("ret void")
    return text.define(_HEAD)


def make_rounded(shape: Digits) -> str:
    """The text of the kernel for rows of signed bytes."""
    text = Steps()
    octets, mask = f"<{PORTION} x i8>", ", ".join(f"i32 {k}" for word in shape.words for k in word)
    text.let("whole", f"portions - portions % {TOGETHER}")
    with text.loop("p", 0, "portions"):
        a = text.new(f"load {octets}, ptr {text.place(f'a + p * {PORTION}')}, align 1")
        total = _reduced(text, "add", text.new(f"sext {octets} {a} to <{PORTION} x i32>"))
        total = text.new(f"mul i32 {total}, {shape.zero}")
        text.add(f"store i32 {total}, ptr {text.place('sums + p * 4')}")
        power = text.new(f"load i32, ptr {text.place('scales + p // shared * 4')}")
        text.add(f"store i32 {power}, ptr {text.place('powers + p * 4')}")
        a = text.new(f"shufflevector {octets} {a}, {octets} poison, <{PORTION} x i32> <{mask}>")
        text.let("side", f"{TOGETHER} if p < whole else 1")
        text.let("first", f"digits + (p - p % side) * {PORTION} + p % side * 4")
        _store_words(text, a, "first")
    text.add("ret void")
    return text.define(_HEAD)


def _store_words(text: Steps, octets: str, first: str) -> None:
    """The words of a portion, apart by as many as are side by side."""
    words = text.new(f"bitcast <{PORTION} x i8> {octets} to <{PORTION // 4} x i32>")
    for w in range(PORTION // 4):
        word = text.new(f"extractelement <{PORTION // 4} x i32> {words}, i32 {w}")
        text.add(f"store i32 {word}, ptr {text.place(f'{first} + side * {4 * w}')}, align 4")


def _reduced(text: Steps, function: str, vector: str) -> str:
    """The largest or the sum of a portion's whole numbers."""
    name, kind = f"@llvm.vector.reduce.{function}.v{PORTION}i32", f"<{PORTION} x i32>"
    text.declared[f"declare i32 {name}({kind})"] = None
    return text.new(f"call i32 {name}({kind} {vector})")
