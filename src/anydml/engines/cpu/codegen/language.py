"""The words that kernels are written in: loads, stores and shuffles at addresses, as LLVM has them.

A kernel is a Python function, see `translate`; it sees memory as integers. Every access may be unaligned. Offsets
are added to an address as LLVM does for pointers, so that a loop over them can be vectorised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from anydml.engines.cpu.codegen.translate import load_at, place_of, word
from anydml.engines.cpu.features import IS_ARM

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


I64, I32, I8 = ir.IntType(64), ir.IntType(32), ir.IntType(8)
POINTER = ir.PointerType()
VECTOR_BYTES = 64
LONG_ROW = 256


def make_load(kind: Any, convert: Callable[[Any, Any], Any] | None = None) -> Any:
    """load(address, offset): one element, converted where that is asked for."""

    @word
    def load(builder: Any, address: Any, offset: Any) -> Any:
        value = load_at(builder, address, offset, kind)
        return value if convert is None else convert(builder, value)

    return load


def make_store(convert: Callable[[Any, Any], Any] | None = None) -> Any:
    """store(address, offset, value): one element, converted where that is asked for."""

    @word
    def store(builder: Any, address: Any, offset: Any, value: Any) -> None:
        result = value if convert is None else convert(builder, value)
        builder.store(result, place_of(builder, address, offset)).align = 1

    return store


load_bits = {width: make_load(ir.IntType(8 * width)) for width in (1, 2, 4, 8)}
load_word, store_word = load_bits[8], make_store()
store_bits = dict.fromkeys(load_bits, store_word)


@word
def copy_bytes(builder: Any, target: Any, source: Any, count: Any) -> None:
    """copy_bytes(target, source, count): what C calls memcpy."""
    memcpy = builder.module.declare_intrinsic("llvm.memcpy", [POINTER, POINTER, I64])
    target, source = (builder.inttoptr(address, POINTER) for address in (target, source))
    builder.call(memcpy, [target, source, count, ir.Constant(ir.IntType(1), 0)])


@word
def scratch(builder: Any) -> Any:
    """scratch(): the address of eight words on the kernel's stack."""
    with builder.goto_entry_block():
        memory = builder.alloca(ir.ArrayType(I64, 8))
    return builder.ptrtoint(memory, I64)


def store_vector(builder: Any, vector: Any, address: Any, alignment: int, *, stream: bool) -> None:
    """Store a vector, or one value; with `stream` past the cache: its line is not read first, nor drives others out."""
    store = builder.store(vector, builder.inttoptr(address, POINTER))
    store.align = alignment
    if stream:
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(I32, 1)]))


def make_move(
    width: int, mask: Callable[[int], int], vectors: int, *, size: int = VECTOR_BYTES, stream: bool = False
) -> Any:
    """move(target, source): fill one vector at the target from some vectors at the source, lane i from lane mask(i).

    With `stream` the target must be aligned to the vector.
    """
    lanes = size // width
    kind = ir.VectorType(ir.IntType(8 * width), lanes)
    chosen = ir.Constant(ir.VectorType(I32, lanes), [ir.Constant(I32, mask(i)) for i in range(lanes)])

    @word
    def move(builder: Any, target: Any, source: Any) -> None:
        parts = []
        for i in range(vectors):
            place = builder.add(source, ir.Constant(I64, i * size))
            part = builder.load(builder.inttoptr(place, POINTER), typ=kind)
            part.align = 1
            parts.append(part)
        other = parts[1] if vectors > 1 else ir.Constant(kind, ir.Undefined)
        chosen_parts = builder.shuffle_vector(parts[0], other, chosen)
        store_vector(builder, chosen_parts, target, size if stream else 1, stream=stream)

    return move


def _shuffle(builder: Any, a: Any, b: Any, lanes: Sequence[int]) -> Any:
    mask = ir.Constant(ir.VectorType(I32, len(lanes)), [ir.Constant(I32, lane) for lane in lanes])
    return builder.shuffle_vector(a, b, mask)


def transpose_four(builder: Any, rows: Sequence[Any]) -> list[Any]:
    """Four vectors of four lanes, columns for rows."""
    pairs = [_shuffle(builder, rows[i], rows[i + 1], lanes) for i in (0, 2) for lanes in ((0, 4, 2, 6), (1, 5, 3, 7))]
    return [_shuffle(builder, pairs[i], pairs[i + 2], lanes) for lanes in ((0, 1, 4, 5), (2, 3, 6, 7)) for i in (0, 1)]


def offset_by(builder: Any, address: Any, count: int) -> Any:
    """An address some bytes on."""
    return builder.add(address, ir.Constant(I64, count))


def load_vector(builder: Any, address: Any, kind: Any) -> Any:
    """A vector, or one value, from an address that need not be aligned."""
    vector = builder.load(builder.inttoptr(address, POINTER), typ=kind)
    vector.align = 1
    return vector


def load_lanes(builder: Any, address: Any, mask: Any, otherwise: Any) -> Any:
    """The lanes of a vector that a mask has, from an address that need not be aligned; the others are not read."""
    args = [builder.inttoptr(address, POINTER), ir.Constant(I32, 1), mask, otherwise]
    return _masked(builder, "load", otherwise.type, otherwise.type, args)


def store_lanes(builder: Any, vector: Any, address: Any, mask: Any) -> None:
    """Store the lanes of a vector that a mask has."""
    args = [vector, builder.inttoptr(address, POINTER), ir.Constant(I32, 1), mask]
    _masked(builder, "store", vector.type, ir.VoidType(), args)


def _masked(builder: Any, verb: str, kind: Any, result: Any, args: Sequence[Any]) -> Any:
    letter = str(kind.element)[0] if isinstance(kind.element, ir.IntType) else "f"
    bits = {"half": 16, "float": 32, "double": 64}.get(str(kind.element)) or kind.element.width
    name = f"llvm.masked.{verb}.v{kind.count}{letter}{bits}.p0"
    made = ir.FunctionType(result, [arg.type for arg in args])
    return builder.call(builder.module.globals.get(name) or ir.Function(builder.module, made, name), args)


def make_transpose(width: int) -> Any:
    """transpose(target, target_step, source, source_step): four by four elements, columns for rows."""
    kind = ir.VectorType(ir.IntType(8 * width), 4)

    @word
    def transpose(builder: Any, target: Any, target_step: Any, source: Any, source_step: Any) -> None:
        rows = []
        for _ in range(4):
            rows.append(load_vector(builder, source, kind))
            source = builder.add(source, source_step)
        for column in transpose_four(builder, rows):
            builder.store(column, builder.inttoptr(target, POINTER)).align = 1
            target = builder.add(target, target_step)

    return transpose


def make_stack(size: int) -> Any:
    """stack(): the address of some bytes on the kernel's stack."""

    @word
    def stack(builder: Any) -> Any:
        with builder.goto_entry_block():
            memory = builder.alloca(ir.ArrayType(I64, size // 8))
            memory.align = 64
        return builder.ptrtoint(memory, I64)

    return stack


@word
def take_ticket(builder: Any, address: Any) -> Any:
    """take_ticket(address): the count there, one more for the next to ask."""
    return builder.atomic_rmw("add", builder.inttoptr(address, POINTER), ir.Constant(I64, 1), "seq_cst")


@word
def load_acquire(builder: Any, address: Any) -> Any:
    """load_acquire(address): a word, and with it everything written before it was released."""
    return builder.load_atomic(builder.inttoptr(address, POINTER), "acquire", 8, typ=I64)


@word
def store_release(builder: Any, address: Any, value: Any) -> None:
    """store_release(address, value): a word, after everything written before."""
    builder.atomic_rmw("xchg", builder.inttoptr(address, POINTER), value, "release")


@word
def pause(builder: Any) -> None:
    """pause(): some nanoseconds in which the other thread of a core, or nobody, works."""
    name, arguments = ("llvm.aarch64.isb", [ir.Constant(I32, 15)]) if IS_ARM else ("llvm.x86.sse2.pause", [])
    kind = ir.FunctionType(ir.VoidType(), [I32] * len(arguments))
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    builder.call(function, arguments)


@word
def fence(builder: Any) -> None:
    """fence(): nothing after it is done before anything that stands before it."""
    builder.fence("seq_cst")


def _make_prefetch(cache: int, is_written: int = 0) -> Any:
    @word
    def prefetch(builder: Any, address: Any) -> None:
        name = "llvm.prefetch.p0"
        kind = ir.FunctionType(ir.VoidType(), [POINTER, I32, I32, I32])
        function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        how = [ir.Constant(I32, number) for number in (is_written, 4 - cache, 1)]  # how near, data
        builder.call(function, [builder.inttoptr(address, POINTER), *how])

    return prefetch


# prefetch(address): have a line fetched that is read soon; one that is none does no harm. Into the first cache was a
# tenth slower than into the second ahead of a block's rows and of rows gathered (Arm Neoverse-N1), and is quicker for
# rows that a Xeon gathers.
prefetch_near, prefetch = _make_prefetch(1), _make_prefetch(2)
prefetch_target = _make_prefetch(1, 1)


def make_piece(width: int, *, stream: bool = False) -> Any:
    """piece(target, source): so many bytes at once; with `stream`, to a target aligned to 16, past the cache."""
    kind = ir.IntType(8 * width) if width < 16 else ir.VectorType(I64, width // 8)

    @word
    def piece(builder: Any, target: Any, source: Any) -> None:
        value = load_vector(builder, source, kind)
        store_vector(builder, value, target, 16 if stream else 1, stream=stream)

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
    @word
    def operate(builder: Any, a: Any, b: Any) -> Any:
        return getattr(builder, instruction)(a, b)

    return operate


# Of whole numbers from 0 on, without Python's question whether the divisor is 0, whose answer needs Python to raise.
quotient, remainder = _make_binary("udiv"), _make_binary("urem")


def _make_choice(comparison: str) -> Any:
    @word
    def choose(builder: Any, a: Any, b: Any) -> Any:
        return builder.select(builder.icmp_signed(comparison, a, b), a, b)

    return choose


smaller, larger = _make_choice("<"), _make_choice(">")
