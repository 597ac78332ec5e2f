"""Conversions between element types, of one number or of a vector: code generation through llvmlite's objects.

Those take 10 ms to import: whoever plans imports this where a kernel is compiled. A kind of elements is a letter and
bits: `f16`, `i32`, `u8`.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from anydml.engines.cpu.features import rounds_to_float16

I64, I32 = ir.IntType(64), ir.IntType(32)
F64, F32, F16 = ir.DoubleType(), ir.FloatType(), ir.HalfType()


def scalar_of(kind: str) -> Any:
    """The type of one element."""
    return {"f64": F64, "f32": F32, "f16": F16}.get(kind) or ir.IntType(int(kind[1:]))


def like(scalar: Any, value: Any) -> Any:
    """A type of as many lanes as a value has."""
    return ir.VectorType(scalar, value.type.count) if isinstance(value.type, ir.VectorType) else scalar


def convert(builder: Any, value: Any, source: str, target: str) -> Any:
    """A value as Direct3D converts it: see `Map`."""
    if source == target:
        return value
    if source[0] == target[0] == "f":
        return _to_narrower(builder, value, target) if target < source else _to_wider(builder, value, target)
    if source[0] == "f":
        return _to_whole(builder, value, target)
    if target[0] == "f":
        return _from_whole(builder, value, source[0] == "i", target)
    kind = like(scalar_of(target), value)
    if int(target[1:]) <= int(source[1:]):
        return builder.trunc(value, kind)
    return builder.sext(value, kind) if source[0] == "i" else builder.zext(value, kind)


def _to_wider(builder: Any, value: Any, target: str) -> Any:
    """Float16 goes by float32 always: code from it to float64 would call what is not there."""
    value = builder.fpext(value, like(F32, value)) if value.type == like(F16, value) else value
    return builder.fpext(value, like(scalar_of(target), value))


def _to_narrower(builder: Any, value: Any, target: str) -> Any:
    if value.type == like(F64, value) and target == "f16" and not rounds_to_float16():
        value = round_to_odd(builder, value)
    return builder.fptrunc(value, like(scalar_of(target), value))


def _from_whole(builder: Any, value: Any, signed: bool, target: str) -> Any:
    """Float16 goes by float32, which rounds no integer below 65,520; from there on all are infinite."""
    kind = like(F64 if target == "f64" else F32, value)
    number = builder.sitofp(value, kind) if signed else builder.uitofp(value, kind)
    return builder.fptrunc(number, like(F16, value)) if target == "f16" else number


def _to_whole(builder: Any, value: Any, target: str) -> Any:
    """Brought into the range first: LLVM has a conversion that does it, but by the element on an x86.

    32 bits from float32, 16 M of them, take 36 ms so, and 15 by the vector (two threads of a Xeon).
    """
    value = builder.fpext(value, like(F32, value)) if value.type == like(F16, value) else value
    signed, bits = target[0] == "i", int(target[1:])
    above = 2 ** (bits - signed)
    # The last float of the range: above it is none, or only ones whose fractions are cut off.
    last = above - max(1, above >> (53 if value.type == like(F64, value) else 24))
    floats = {number: _each(value.type, float(number)) for number in (0, -above if signed else 0, last, above)}
    low = floats[-above if signed else 0]
    # Apart for an unsigned type too: of the rest LLVM makes an Arm's one instruction, which takes a signalling NaN on.
    number = builder.select(builder.fcmp_ordered("ord", value, value), value, floats[0])
    number = builder.select(builder.fcmp_ordered(">", number, low), number, low)
    number = builder.select(builder.fcmp_ordered("<", number, floats[last]), number, floats[last])
    if bits < 32:
        return builder.trunc(builder.fptosi(number, like(I32, value)), like(scalar_of(target), value))
    kind = like(scalar_of(target), value)
    whole = builder.fptosi(number, kind) if signed else builder.fptoui(number, kind)
    if last == above - 1:
        return whole
    return builder.select(builder.fcmp_ordered(">=", value, floats[above]), _each(kind, above - 1), whole)


def _each(kind: Any, number: float) -> Any:
    """A number in every lane."""
    if isinstance(kind, ir.VectorType):
        return ir.Constant(kind, [ir.Constant(kind.element, number)] * kind.count)
    return ir.Constant(kind, number)


def round_to_odd(builder: Any, value: Any) -> Any:
    """A float64 as float32, rounded so that rounding it on to float16 gives what rounding once would.

    Most x86 have no instruction from float64 to float16. A value between two float32 goes to the one whose last bit
    is 1, which no later rounding takes for a tie.
    """

    def constant(number: int, scalar: Any = I32) -> Any:
        return _each(like(scalar, value), number)

    def magnitude(double: Any) -> Any:
        return builder.and_(builder.bitcast(double, like(I64, value)), constant(2**63 - 1, I64))

    nearest = builder.fptrunc(value, like(F32, value))
    back = builder.fpext(nearest, value.type)
    bits = builder.bitcast(nearest, like(I32, value))
    too_far = builder.icmp_unsigned(">", magnitude(back), magnitude(value))
    odd = builder.add(bits, builder.select(too_far, constant(-1), constant(1)))
    is_even = builder.icmp_signed("==", builder.and_(bits, constant(1)), constant(0))
    wrong = builder.and_(is_even, builder.fcmp_unordered("!=", back, value))
    return builder.bitcast(builder.select(wrong, odd, bits), like(F32, value))
