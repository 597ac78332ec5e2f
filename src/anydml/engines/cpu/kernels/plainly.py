"""A row times columns of weights of few bits in FLOAT32, one by one: for rows with infinities, which have no digits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.kernels.digits import PORTION, TOGETHER
from anydml.engines.cpu.kernels.quantised import read_section
from anydml.engines.cpu.kernels.steps import Steps

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.quantised import Quantised


def make_plain(shape: Quantised) -> str:
    """The text of `kernel(right, bases, n0, columns, a, total, portions)`."""
    text = Steps()
    read_section(text, shape.views)
    with text.loop("n", 0, "columns"):
        for name in shape.views:
            text.let(name, f"{name}_base + (n0 + n) * {name}_on")
        to = text.place("total + n * 4")
        text.add(f"store float 0.0, ptr {to}")
        with text.loop("k", 0, f"portions * {PORTION}"):
            text.let("scale", f"k // ({PORTION} * shared)")
            number = text.new(f"sub i32 {_weight(text, shape)}, {_zero(text, shape)}")
            number = text.new(f"sitofp i32 {number} to float")
            scale = text.new(f"load float, ptr {text.place('scales + scale * 4')}")
            a = text.new(f"load float, ptr {text.place('a + k * 4')}")
            product = text.new(f"fmul float {a}, {text.new(f'fmul float {number}, {scale}')}")
            old = text.new(f"load float, ptr {to}")
            text.add(f"store float {text.new(f'fadd float {old}, {product}')}, ptr {to}")
    text.add("ret void")
    names = ("right", "bases", "n0", "columns", "a", "total", "portions")
    return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")


def _weight(text: Steps, shape: Quantised) -> str:
    at = f"k * {shape.bits} // 8"
    if shape.is_laid_out:
        text.let("portion", f"k // {PORTION}")
        text.let("byte", f"k % {PORTION} * {shape.bits} // 8")
        whole = f"(portion - portion % {TOGETHER}) * {shape.width}"
        at = f"{whole} + byte // 4 * {4 * TOGETHER} + portion % {TOGETHER} * 4 + byte % 4"
    byte = text.new(f"load i8, ptr {text.place(f'weights + {at}')}")
    if shape.bits == 4:
        shift = text.new(f"trunc i64 {text.value('k % 2 * 4')} to i8")
        byte = text.new(f"and i8 {text.new(f'lshr i8 {byte}, {shift}')}, 15")
        byte = text.new(f"sub i8 {text.new(f'xor i8 {byte}, 8')}, 8") if shape.is_signed else byte
    return text.new(f"{'sext' if shape.is_signed else 'zext'} i8 {byte} to i32")


def _zero(text: Steps, shape: Quantised) -> str:
    if not shape.has_zeros:
        return str(shape.zero - shape.raised)
    byte = text.new(f"load i8, ptr {text.place('zeros + scale')}")
    return text.new(f"{'sext' if shape.is_signed else 'zext'} i8 {byte} to i32")
