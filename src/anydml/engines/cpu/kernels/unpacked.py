"""Rows of weights of 4 or 8 bits as FLOAT32: (q - z)·s, each block with its scale.

`kernel(words, places, count)` is a row as a map's is. The places are those of a column's weights, its scales and its
zero points, where there are such; then the first step itself, and where the FLOAT32 go. Steps come by whole portions.
"""

from __future__ import annotations

from typing import NamedTuple

from anydml.engines.cpu.kernels.digits import PORTION, TOGETHER
from anydml.engines.cpu.kernels.fours import shuffled
from anydml.engines.cpu.kernels.steps import Steps

_HEAD = "void @kernel(i64 %words, i64 %places, i64 %count)"


class Unpacked(NamedTuple):
    """The parameters of the text."""

    bits: int
    is_signed: bool
    block: int
    """Steps that share a scale, whole portions."""
    zero: int
    """The number taken off each weight, where no zero points are read."""
    zeros: str
    """The type of zero points that are read, `u8` or `s8`; empty for none."""
    scale: str
    """The type of a scale, `float` or `half`."""
    is_laid_out: bool
    """Whether words lie together as for products of a few rows: of four portions, or of columns."""
    abreast: int = 0
    """In the latter case so many columns; the column's number is among the places then, before the first step, and the
    bytes of a panel of them is a number of the words."""

    @property
    def name(self) -> str:
        """The kernel's."""
        return "unpacked " + " ".join(map(str, self))

    @property
    def kind(self) -> str:
        """In which a number less another has room: a byte for 4 bits."""
        return "i8" if self.bits == 4 else "i16"

    @property
    def width(self) -> int:
        """Bytes of a portion."""
        return PORTION * self.bits // 8


def make_unpacked(shape: Unpacked) -> str:
    """The text of the kernel."""
    text = Steps()
    more = (*(("zeros",) if shape.zeros else ()), *(("column",) if shape.abreast else ()))
    names = ("weights", "scales", *more, "first", "to")
    for i, name in enumerate(names):
        text.read(name, f"places + {8 * i}")
    if shape.abreast:
        text.read("panel", f"words + {16 * len(names)}")
        text.let("own", f"weights + column // {shape.abreast} * panel + column % {shape.abreast} * 4")
        with text.loop("at", 0, "count", PORTION):
            text.let("step", "first + at")
            _write_words(text, shape)
        text.add("ret void")
        return text.define(_HEAD)
    together = TOGETHER if shape.is_laid_out else 1
    with text.loop("at", 0, "count", PORTION * together):
        text.let("step", "first + at")
        text.let("here", f"weights + step // {PORTION} * {shape.width}")
        _write_portions(text, shape, together)
    text.add("ret void")
    return text.define(_HEAD)


def _write_words(text: Steps, shape: Unpacked) -> None:
    """A portion of a column that lies abreast of others: each word has 8 steps."""
    scale, zero = _of_block(text, shape, 0)
    by, less = _spread(text, "float", [scale], 8), _spread(text, "i32", [_widened(text, shape, zero)], 8)
    ups, downs = (f"<{', '.join(f'i32 {n}' for n in bits)}>" for bits in (range(28, -1, -4), range(0, 29, 4)))
    for w in range(PORTION // 8):
        place = text.place(f"own + (step // 8 + {w}) * {4 * shape.abreast}")
        word = text.spread(text.new(f"load i32, ptr {place}, align 4"), "i32", 8)
        if shape.is_signed:
            number = text.new(f"ashr <8 x i32> {text.new(f'shl <8 x i32> {word}, {ups}')}, splat (i32 28)")
        else:
            number = text.new(f"and <8 x i32> {text.new(f'lshr <8 x i32> {word}, {downs}')}, splat (i32 15)")
        real = text.new(f"sitofp <8 x i32> {text.new(f'sub <8 x i32> {number}, {less}')} to <8 x float>")
        real = text.new(f"fmul <8 x float> {real}, {by}")
        text.add(f"store <8 x float> {real}, ptr {text.place(f'to + at * 4 + {32 * w}')}, align 4")


def _widened(text: Steps, shape: Unpacked, zero: str) -> str:
    """A zero point in 32 bits."""
    kind = "sext" if shape.zeros == "s8" else "zext"
    return text.new(f"{kind} i8 {zero} to i32") if shape.zeros else zero


def _of_block(text: Steps, shape: Unpacked, portion: int) -> tuple[str, str]:
    """The scale of a portion's weights, and the number that is taken off them."""
    text.let(f"block_{portion}", f"(step + {PORTION * portion}) // {shape.block}")
    size = 4 if shape.scale == "float" else 2
    scale = text.new(f"load {shape.scale}, ptr {text.place(f'scales + block_{portion} * {size}')}, align 1")
    scale = scale if shape.scale == "float" else text.new(f"fpext half {scale} to float")
    return scale, _zero(text, shape, portion)


def _write_portions(text: Steps, shape: Unpacked, together: int) -> None:
    """One portion, or four whose words lie together: a vector has a run of the same steps of one, two or all four."""
    scales, zeros = zip(*(_of_block(text, shape, p) for p in range(together)), strict=True)
    kind, per = shape.kind, max(together * shape.bits // 8, 1)  # portions of a vector
    length = 16 // per
    by = [_spread(text, "float", [scale], length) for scale in scales]
    less = [_spread(text, kind, list(zeros[p : p + per]), 16) for p in range(0, together, per)]
    for start in range(0, shape.width * together, 16):
        octets = text.new(f"load <16 x i8>, ptr {text.place(f'here + {start}')}, align 1")
        for k, part in enumerate(_numbers(text, shape, octets)):
            value = part
            if kind == "i16":
                value = text.new(f"{'sext' if shape.is_signed else 'zext'} <16 x i8> {part} to <16 x i16>")
            value = text.new(f"sub <16 x {kind}> {value}, {less[k % len(less)]}")
            for r in range(per):
                one = shuffled(text, value, "poison", list(range(r * length, (r + 1) * length)), kind, 16)
                whole = text.new(f"sext <{length} x {kind}> {one} to <{length} x i32>")
                real = text.new(f"sitofp <{length} x i32> {whole} to <{length} x float>")
                portion = (k * per + r) % together
                real = text.new(f"fmul <{length} x float> {real}, {by[portion]}")
                on = start * 8 // shape.bits // together + (16 * k if together == 1 else 0)
                to = text.place(f"to + at * 4 + {4 * (PORTION * portion + on)}")
                text.add(f"store <{length} x float> {real}, ptr {to}, align 4")


def _zero(text: Steps, shape: Unpacked, portion: int) -> str:
    """The numbers taken off a portion's weights."""
    if not shape.zeros:
        return str(shape.zero)
    byte = text.new(f"load i8, ptr {text.place(f'zeros + block_{portion}')}, align 1")
    return byte if shape.bits == 4 else text.new(f"{'sext' if shape.zeros == 's8' else 'zext'} i8 {byte} to i16")


def _numbers(text: Steps, shape: Unpacked, octets: str) -> list[str]:
    """The weights in 16 bytes as a byte each, in their order."""
    if shape.bits == 8:
        return [octets]
    low = text.new(f"and <16 x i8> {octets}, splat (i8 15)")
    high = text.new(f"lshr <16 x i8> {octets}, splat (i8 4)")
    halves = [
        shuffled(text, low, high, [lane for i in range(k, k + 8) for lane in (i, 16 + i)], "i8", 16) for k in (0, 8)
    ]
    if not shape.is_signed:
        return halves
    raised = [text.new(f"xor <16 x i8> {half}, splat (i8 8)") for half in halves]
    return [text.new(f"sub <16 x i8> {half}, splat (i8 8)") for half in raised]


def _spread(text: Steps, kind: str, values: list[str], lanes: int) -> str:
    """A vector with each value as often as another."""
    if not values[0].startswith("%"):
        return f"splat ({kind} {values[0]})"
    found = "poison"
    for i, value in enumerate(values):
        found = text.new(f"insertelement <{lanes} x {kind}> {found}, {kind} {value}, i32 {i}")
    order = [i * len(values) // lanes for i in range(lanes)]
    return shuffled(text, found, "poison", order, kind, lanes)
