"""Weights' bytes, and their products with digits, four to a sum: by a CPU's dot instructions, or by others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.kernels.digits import TOGETHER
from anydml.engines.cpu.kernels.fourfold import write_dot, write_small

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.quantised import Quantised
    from anydml.engines.cpu.kernels.steps import Steps

FOUR = f"<{TOGETHER} x i32>"


def read_weights(text: Steps, shape: Quantised, base: str, name: str, count: int) -> list[str]:
    """The weights of some portions in vectors of bytes, word by word as the digits lie."""
    words = []  # by four: of one portion those that follow one another, of more one of each
    for start in range(0, shape.width, 16):
        places = [f"{base} + ({name} + {u}) * {shape.width} + {start}" for u in range(count)]
        if shape.is_laid_out:
            places = [f"{base} + {name} * {shape.width} + {TOGETHER * start + 16 * u}" for u in range(count)]
        found = [text.new(f"load {FOUR}, ptr {text.place(place)}, align 1") for place in places]
        words += found if count == 1 or shape.is_laid_out else _transposed(text, found)
    halves: list[str] = []
    for word in words:
        octets = text.new(f"bitcast {FOUR} {word} to <16 x i8>")
        if shape.raised:
            octets = text.new(f"xor <16 x i8> {octets}, splat (i8 {-120 if shape.bits == 4 else -128})")
        if shape.bits == 8:
            halves.append(octets)
            continue
        low = text.new(f"and <16 x i8> {octets}, splat (i8 15)")
        high = text.new(f"lshr <16 x i8> {octets}, splat (i8 4)")
        # Of one portion a word of the one comes after one of the other.
        pairs = [[*range(4 * k, 4 * k + 4), *range(16 + 4 * k, 20 + 4 * k)] for k in range(4)]
        halves += [low, high] if count > 1 else [
            shuffled(text, low, high, [*pairs[k], *pairs[k + 1]], "i8", 16) for k in (0, 2)
        ]  # fmt: skip
    if shape.lanes == TOGETHER:
        return halves
    return [shuffled(text, a, b, list(range(32)), "i8", 16) for a, b in zip(halves[::2], halves[1::2], strict=True)]


def _transposed(text: Steps, rows: list[str]) -> list[str]:
    """Four words of four portions as four portions of each word."""
    a, b, c, d = rows
    pairs = [
        shuffled(text, x, y, lanes, "i32", 4) for x, y in ((a, b), (c, d)) for lanes in ([0, 4, 1, 5], [2, 6, 3, 7])
    ]
    return [
        shuffled(text, pairs[k], pairs[k + 2], lanes, "i32", 4)
        for k in (0, 1)
        for lanes in ([0, 1, 4, 5], [2, 3, 6, 7])
    ]


def add_fours(text: Steps, shape: Quantised, weight: str, digit: str, total: str) -> str:
    """Add the products of four bytes each to 32-bit sums: weights as they are raised, digits signed."""
    ints, octets = f"<{shape.lanes} x i32>", f"<{4 * shape.lanes} x i8>"
    if shape.dots:
        a, b = (text.new(f"bitcast {octets} {x} to {ints}") for x in (weight, digit))
        return write_dot(text, shape.lanes, shape.is_arm, a, b, total)
    if shape.bits == 4:
        return text.new(f"add {ints} {total}, {_fours(text, shape, weight, digit)}")
    low = _fours(text, shape, text.new(f"and {octets} {weight}, splat (i8 15)"), digit)
    high = _fours(text, shape, text.new(f"lshr {octets} {weight}, splat (i8 4)"), digit)
    both = text.new(f"add {ints} {low}, {text.new(f'shl {ints} {high}, splat (i32 4)')}")
    return text.new(f"add {ints} {total}, {both}")


def _fours(text: Steps, shape: Quantised, weight: str, digit: str) -> str:
    """The sums of four products of bytes that are at most 15 with signed ones: two of them fit 16 bits."""
    lanes, octets = shape.lanes, f"<{4 * shape.lanes} x i8>"
    if not shape.is_arm:
        a, b = (text.new(f"bitcast {octets} {x} to <{lanes} x i32>") for x in (weight, digit))
        return write_small(text, lanes, a, b, "zeroinitializer")
    count = 4 * lanes
    a, b = (text.new(f"sext {octets} {x} to <{count} x i16>") for x in (weight, digit))
    value = text.new(f"mul <{count} x i16> {a}, {b}")
    value = _pairs(text, value, "i16", count)
    return _pairs(text, text.new(f"sext <{count // 2} x i16> {value} to <{count // 2} x i32>"), "i32", count // 2)


def _pairs(text: Steps, value: str, scalar: str, count: int) -> str:
    """The sums of neighbours."""
    a, b = (shuffled(text, value, "poison", list(range(k, count, 2)), scalar, count) for k in (0, 1))
    return text.new(f"add <{count // 2} x {scalar}> {a}, {b}")


def shuffled(text: Steps, a: str, b: str, lanes: list[int], scalar: str, count: int) -> str:
    """Lanes of two vectors of so many."""
    kind, mask = f"<{count} x {scalar}>", ", ".join(f"i32 {lane}" for lane in lanes)
    return text.new(f"shufflevector {kind} {a}, {kind} {b}, <{len(lanes)} x i32> <{mask}>")
