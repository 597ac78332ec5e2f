"""The words that kernels are written in: loads, stores and shuffles at addresses, as LLVM has them.

A kernel is a Python function that Numba compiles; it sees memory as integers. Every access may be unaligned. Offsets
are added to an address as LLVM does for pointers, so that a loop over them can be vectorised.
"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

I64, I32, I8 = ir.IntType(64), ir.IntType(32), ir.IntType(8)
POINTER = ir.PointerType()
WIDTHS = {1: types.uint8, 2: types.uint16, 4: types.uint32, 8: types.uint64}
VECTOR_BYTES = 64
LONG_ROW = 256
IS_ARM = platform.machine().lower() in ("aarch64", "arm64")


def _place(builder: Any, args: Sequence[Any]) -> Any:
    return builder.gep(builder.inttoptr(args[0], POINTER), [args[1]], source_etype=I8)


def make_load(numba_type: Any, llvm_type: Any, convert: Callable[[Any, Any], Any] | None = None) -> Any:
    """load(address, offset): one element, converted where that is asked for."""

    @intrinsic
    def load(_typing: Any, _address: Any, _offset: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            value = builder.load(_place(builder, args), typ=llvm_type)
            value.align = 1
            return value if convert is None else convert(builder, value)

        return numba_type(types.int64, types.int64), generate

    return load


def make_store(numba_type: Any, convert: Callable[[Any, Any], Any] | None = None) -> Any:
    """store(address, offset, value): one element, converted where that is asked for."""

    @intrinsic
    def store(_typing: Any, _address: Any, _offset: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            value = args[2] if convert is None else convert(builder, args[2])
            builder.store(value, _place(builder, args)).align = 1
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, numba_type), generate

    return store


load_bits = {width: make_load(t, ir.IntType(8 * width)) for width, t in WIDTHS.items()}
store_bits = {width: make_store(t) for width, t in WIDTHS.items()}
load_word = make_load(types.int64, I64)
store_word = make_store(types.int64)


@intrinsic
def copy_bytes(_typing: Any, _target: Any, _source: Any, _count: Any) -> Any:
    """copy_bytes(target, source, count): what C calls memcpy."""

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        memcpy = builder.module.declare_intrinsic("llvm.memcpy", [POINTER, POINTER, I64])
        target, source = (builder.inttoptr(arg, POINTER) for arg in args[:2])
        builder.call(memcpy, [target, source, args[2], ir.Constant(ir.IntType(1), 0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def scratch(_typing: Any) -> Any:
    """scratch(): the address of eight words on the kernel's stack."""

    def generate(_context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
        with builder.goto_entry_block():
            memory = builder.alloca(ir.ArrayType(I64, 8))
        return builder.ptrtoint(memory, I64)

    return types.int64(), generate


def _store_vector(builder: Any, vector: Any, address: Any, stream: bool) -> None:
    store = builder.store(vector, builder.inttoptr(address, POINTER))
    store.align = VECTOR_BYTES if stream else 1
    if stream:  # past the cache: the line written is not read first, nor does it drive others out
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(I32, 1)]))


def make_move(width: int, mask: Callable[[int], int], vectors: int, *, stream: bool) -> Any:
    """move(target, source): fill one vector at the target from some vectors at the source, lane i from lane mask(i).

    With `stream` the target must be aligned to the vector.
    """
    lanes = VECTOR_BYTES // width
    kind = ir.VectorType(ir.IntType(8 * width), lanes)
    chosen = ir.Constant(ir.VectorType(I32, lanes), [ir.Constant(I32, mask(i)) for i in range(lanes)])

    @intrinsic
    def move(_typing: Any, _target: Any, _source: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            parts = []
            for i in range(vectors):
                place = builder.add(args[1], ir.Constant(I64, i * VECTOR_BYTES))
                part = builder.load(builder.inttoptr(place, POINTER), typ=kind)
                part.align = 1
                parts.append(part)
            other = parts[1] if vectors > 1 else ir.Constant(kind, ir.Undefined)
            _store_vector(builder, builder.shuffle_vector(parts[0], other, chosen), args[0], stream)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return move


def _shuffle(builder: Any, a: Any, b: Any, lanes: Sequence[int]) -> Any:
    mask = ir.Constant(ir.VectorType(I32, len(lanes)), [ir.Constant(I32, lane) for lane in lanes])
    return builder.shuffle_vector(a, b, mask)


def _transpose(builder: Any, rows: Sequence[Any]) -> list[Any]:
    """Four vectors of four lanes, columns for rows."""
    pairs = [_shuffle(builder, rows[i], rows[i + 1], lanes) for i in (0, 2) for lanes in ((0, 4, 2, 6), (1, 5, 3, 7))]
    return [_shuffle(builder, pairs[i], pairs[i + 2], lanes) for lanes in ((0, 1, 4, 5), (2, 3, 6, 7)) for i in (0, 1)]


def _offset(builder: Any, address: Any, count: int) -> Any:
    return builder.add(address, ir.Constant(I64, count))


def _load_vector(builder: Any, address: Any, kind: Any) -> Any:
    vector = builder.load(builder.inttoptr(address, POINTER), typ=kind)
    vector.align = 1
    return vector


def make_transpose(width: int) -> Any:
    """transpose(target, target_step, source, source_step): four by four elements, columns for rows."""
    kind = ir.VectorType(ir.IntType(8 * width), 4)

    @intrinsic
    def transpose(_typing: Any, _target: Any, _target_step: Any, _source: Any, _source_step: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            target, target_step, source, source_step = args
            rows = []
            for _ in range(4):
                rows.append(_load_vector(builder, source, kind))
                source = builder.add(source, source_step)
            for column in _transpose(builder, rows):
                builder.store(column, builder.inttoptr(target, POINTER)).align = 1
                target = builder.add(target, target_step)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 4), generate

    return transpose


def _round_to_odd(builder: Any, value: Any) -> Any:
    """A float64 as float32, rounded so that rounding it on to float16 gives what rounding once would.

    x86 has no instruction from float64 to float16. A value between two float32 goes to the one whose last bit is 1,
    which no later rounding takes for a tie.
    """

    def like(scalar: Any) -> Any:
        return ir.VectorType(scalar, value.type.count) if isinstance(value.type, ir.VectorType) else scalar

    def constant(number: int, scalar: Any = I32) -> Any:
        kind = like(scalar)
        if isinstance(kind, ir.VectorType):
            return ir.Constant(kind, [ir.Constant(scalar, number)] * kind.count)
        return ir.Constant(kind, number)

    def magnitude(double: Any) -> Any:
        return builder.and_(builder.bitcast(double, like(I64)), constant(2**63 - 1, I64))

    nearest = builder.fptrunc(value, like(ir.FloatType()))
    back = builder.fpext(nearest, value.type)
    bits = builder.bitcast(nearest, like(I32))
    too_far = builder.icmp_unsigned(">", magnitude(back), magnitude(value))
    odd = builder.add(bits, builder.select(too_far, constant(-1), constant(1)))
    is_even = builder.icmp_signed("==", builder.and_(bits, constant(1)), constant(0))
    wrong = builder.and_(is_even, builder.fcmp_unordered("!=", back, value))
    return builder.bitcast(builder.select(wrong, odd, bits), like(ir.FloatType()))


class Tally:
    """The arithmetic of a running sum or product over one kind of element.

    Floats are widened to float64 and rounded when they are written; integers wrap in their own width.
    """

    def __init__(self, kind: str, function: str) -> None:
        self.kind, self.function = kind, function
        self.width = int(kind[1:]) // 8
        self.is_float = kind[0] == "f"
        bits: Any = ir.IntType(8 * self.width)
        self.element = {"f16": ir.HalfType(), "f32": ir.FloatType()}.get(kind, bits)
        self.total = ir.DoubleType() if self.is_float else bits
        self.total_width = 8 if self.is_float else self.width
        self.numba_type: Any = types.float64 if self.is_float else WIDTHS[self.width]
        self.start: float = 0 if function == "sum" else 1
        if self.is_float:  # -0.0 is what leaves every float as it is, -0.0 included
            self.start = -0.0 if function == "sum" else 1.0
        self.load = make_load(self.numba_type, self.element, self.widen)
        self.store = make_store(self.numba_type, lambda builder, value: self.narrow(builder, value, self.element))
        self.load_total = make_load(self.numba_type, self.total)
        self.store_total = make_store(self.numba_type)

    def widen(self, builder: Any, value: Any) -> Any:
        """An element, or a vector of them, as totals."""
        if not self.is_float:
            return value
        kind = ir.VectorType(self.total, value.type.count) if isinstance(value.type, ir.VectorType) else self.total
        return builder.fpext(value, kind)

    def narrow(self, builder: Any, value: Any, kind: Any) -> Any:
        """A total as an element, rounded once."""
        if not self.is_float:
            return value
        if self.kind == "f16" and not IS_ARM:
            value = _round_to_odd(builder, value)
        return builder.fptrunc(value, kind)

    def combine(self, builder: Any, total: Any, value: Any) -> Any:
        """Take a value in."""
        if self.is_float:
            return builder.fadd(total, value) if self.function == "sum" else builder.fmul(total, value)
        return builder.add(total, value) if self.function == "sum" else builder.mul(total, value)

    def make_combine(self) -> Any:
        """combine(total, value) for single elements."""

        @intrinsic
        def combine(_typing: Any, _total: Any, _value: Any) -> Any:
            def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
                return self.combine(builder, args[0], args[1])

            return self.numba_type(self.numba_type, self.numba_type), generate

        return combine

    def make_rows(self, columns: int, *, reverse: bool, exclusive: bool) -> Any:
        """rows(target, target_step, source, source_step, totals): four rows at once, some columns on.

        Rows are turned into columns in registers, because one row alone waits for each addition to end. With
        `reverse` the addresses are those of the last columns. The four totals go on.
        """
        elements, totals = ir.VectorType(self.element, 4), ir.VectorType(self.total, 4)

        @intrinsic
        def rows(_typing: Any, _target: Any, _target_step: Any, _source: Any, _source_step: Any, _totals: Any) -> Any:
            def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
                targets, sources = [args[0]], [args[2]]
                for _ in range(3):
                    targets.append(builder.add(targets[-1], args[1]))
                    sources.append(builder.add(sources[-1], args[3]))
                place = builder.inttoptr(args[4], POINTER)
                total = builder.load(place, typ=totals)
                total.align = 8
                starts = [start * self.width for start in range(0, columns, 4)]
                written = []
                for start in reversed(starts) if reverse else starts:
                    block = [_load_vector(builder, _offset(builder, source, start), elements) for source in sources]
                    results = []
                    for column in reversed(_transpose(builder, block)) if reverse else _transpose(builder, block):
                        after = self.combine(builder, total, self.widen(builder, column))
                        results.append(self.narrow(builder, total if exclusive else after, elements))
                        total = after
                    written.append((start, _transpose(builder, results[::-1] if reverse else results)))
                for i, target in enumerate(targets):  # a whole line of each row at a time
                    for start, block in sorted(written, key=lambda pair: pair[0]):
                        builder.store(block[i], builder.inttoptr(_offset(builder, target, start), POINTER)).align = 1
                builder.store(total, place).align = 8
                return context.get_dummy_value()

            return types.void(*[types.int64] * 5), generate

        return rows

    def make_reduce(self, width: int) -> Any:
        """reduce(source, totals): take so many elements into as many totals."""
        elements, totals = ir.VectorType(self.element, width), ir.VectorType(self.total, width)

        @intrinsic
        def reduce(_typing: Any, _source: Any, _totals: Any) -> Any:
            def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
                place = builder.inttoptr(args[1], POINTER)
                total = builder.load(place, typ=totals)
                total.align = 8
                value = self.widen(builder, _load_vector(builder, args[0], elements))
                builder.store(self.combine(builder, total, value), place).align = 8
                return context.get_dummy_value()

            return types.void(types.int64, types.int64), generate

        return reduce

    def make_columns(self, width: int, height: int, *, exclusive: bool) -> Any:
        """columns(target, target_step, source, source_step, totals): some columns, some rows on."""
        elements, totals = ir.VectorType(self.element, width), ir.VectorType(self.total, width)

        @intrinsic
        def columns(
            _typing: Any, _target: Any, _target_step: Any, _source: Any, _source_step: Any, _totals: Any
        ) -> Any:
            def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
                target, target_step, source, source_step, totals_place = args
                place = builder.inttoptr(totals_place, POINTER)
                total = builder.load(place, typ=totals)
                total.align = 8
                for _ in range(height):
                    value = self.widen(builder, _load_vector(builder, source, elements))
                    after = self.combine(builder, total, value)
                    result = self.narrow(builder, total if exclusive else after, elements)
                    builder.store(result, builder.inttoptr(target, POINTER)).align = 1
                    total = after
                    source, target = builder.add(source, source_step), builder.add(target, target_step)
                builder.store(total, place).align = 8
                return context.get_dummy_value()

            return types.void(*[types.int64] * 5), generate

        return columns


def make_stack(size: int) -> Any:
    """stack(): the address of some bytes on the kernel's stack."""

    @intrinsic
    def stack(_typing: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
            with builder.goto_entry_block():
                memory = builder.alloca(ir.ArrayType(I64, size // 8))
                memory.align = 64
            return builder.ptrtoint(memory, I64)

        return types.int64(), generate

    return stack


@intrinsic
def take_ticket(_typing: Any, _address: Any) -> Any:
    """take_ticket(address): the count there, one more for the next to ask."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", builder.inttoptr(args[0], POINTER), ir.Constant(I64, 1), "seq_cst")

    return types.int64(types.int64), generate


@intrinsic
def load_acquire(_typing: Any, _address: Any) -> Any:
    """load_acquire(address): a word, and with it everything written before it was released."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.load_atomic(builder.inttoptr(args[0], POINTER), "acquire", 8, typ=I64)

    return types.int64(types.int64), generate


@intrinsic
def store_release(_typing: Any, _address: Any, _value: Any) -> Any:
    """store_release(address, value): a word, after everything written before."""

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        builder.atomic_rmw("xchg", builder.inttoptr(args[0], POINTER), args[1], "release")
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def prefetch(_typing: Any, _address: Any) -> Any:
    """prefetch(address): have a line fetched that will be read soon; an address that is none does no harm."""

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        name = "llvm.prefetch.p0"
        kind = ir.FunctionType(ir.VoidType(), [POINTER, I32, I32, I32])
        function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        how = [ir.Constant(I32, number) for number in (0, 3, 1)]  # to read, to keep, data
        builder.call(function, [builder.inttoptr(args[0], POINTER), *how])
        return context.get_dummy_value()

    return types.void(types.int64), generate


def make_piece(width: int) -> Any:
    """piece(target, source): so many bytes at once."""
    kind = ir.IntType(8 * width) if width < 16 else ir.VectorType(I64, width // 8)

    @intrinsic
    def piece(_typing: Any, _target: Any, _source: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            value = _load_vector(builder, args[1], kind)
            builder.store(value, builder.inttoptr(args[0], POINTER)).align = 1
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return piece


_copy_4, _copy_8, _copy_16 = make_piece(4), make_piece(8), make_piece(16)
_load_byte, _store_byte = load_bits[1], store_bits[1]


def copy_row(target: int, source: int, count: int) -> None:
    """Copy a row of some bytes: a long one by memcpy, a short one in pieces, of which the last overlaps."""
    if count >= LONG_ROW:
        copy_bytes(target, source, count)
    elif count >= 16:
        for i in range(count // 16):
            _copy_16(target + 16 * i, source + 16 * i)
        _copy_16(target + count - 16, source + count - 16)
    elif count >= 8:
        _copy_8(target, source)
        _copy_8(target + count - 8, source + count - 8)
    elif count >= 4:
        _copy_4(target, source)
        _copy_4(target + count - 4, source + count - 4)
    else:
        for i in range(count):
            _store_byte(target, i, _load_byte(source, i))


def _make_binary(instruction: str) -> Any:
    @intrinsic
    def operate(_typing: Any, _a: Any, _b: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return getattr(builder, instruction)(args[0], args[1])

        return types.int64(types.int64, types.int64), generate

    return operate


# Of whole numbers from 0 on, without Python's question whether the divisor is 0, whose answer needs Python to raise.
quotient, remainder = _make_binary("udiv"), _make_binary("urem")


def _make_choice(comparison: str) -> Any:
    @intrinsic
    def choose(_typing: Any, _a: Any, _b: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return builder.select(builder.icmp_signed(comparison, args[0], args[1]), args[0], args[1])

        return types.int64(types.int64, types.int64), generate

    return choose


smaller, larger = _make_choice("<"), _make_choice(">")
