"""The words that kernels are written in: loads, stores and shuffles at addresses, as LLVM has them.

A kernel is a Python function, see `translate`; it sees memory as integers. Every access may be unaligned. Offsets
are added to an address as LLVM does for pointers, so that a loop over them can be vectorised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.engines.cpu.codegen.function import transpose_four, vector_of
from anydml.engines.cpu.codegen.translate import word

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.engines.cpu.codegen.function import Function, Value


VECTOR_BYTES = 64
LONG_ROW = 256


def make_load(kind: str, convert: Callable[[Function, Value], Value] | None = None) -> Any:
    """load(address, offset): one element, converted where that is asked for."""

    @word
    def load(f: Function, address: Value, offset: Value) -> Value:
        value = f.load(kind, f.pointer(address) + offset, align=1)
        return value if convert is None else convert(f, value)

    return load


def make_store(convert: Callable[[Function, Value], Value] | None = None) -> Any:
    """store(address, offset, value): one element, converted where that is asked for."""

    @word
    def store(f: Function, address: Value, offset: Value, value: Value) -> None:
        result = value if convert is None else convert(f, value)
        f.store(result, f.pointer(address) + offset, align=1)

    return store


load_bits = {width: make_load(f"i{8 * width}") for width in (1, 2, 4, 8)}
load_word, store_word = load_bits[8], make_store()
store_bits = dict.fromkeys(load_bits, store_word)
copy_bytes = word(lambda f, target, source, count: f.memcpy(target, source, count))


@word
def scratch(f: Function) -> Value:
    """scratch(): the address of eight words on the kernel's stack."""
    return f.address(f.stack("i64", 8, align=8))


def make_stack(size: int) -> Any:
    """stack(): the address of some bytes on the kernel's stack."""
    return word(lambda f: f.address(f.stack("i64", size // 8)))


def make_move(
    width: int, mask: Callable[[int], int], vectors: int, *, size: int = VECTOR_BYTES, stream: bool = False
) -> Any:
    """move(target, source): fill one vector at the target from some vectors at the source, lane i from lane mask(i).

    With `stream` the target must be aligned to the vector.
    """
    lanes = size // width
    kind = vector_of(lanes, f"i{8 * width}")

    @word
    def move(f: Function, target: Value, source: Value) -> None:
        first, *others = (f.load(kind, source + i * size, align=1) for i in range(vectors))
        moved = f.shuffle(first, others[0] if others else None, [mask(i) for i in range(lanes)])
        f.store(moved, target, align=size if stream else 1, is_streamed=stream)

    return move


def make_transpose(width: int) -> Any:
    """transpose(target, target_step, source, source_step): four by four elements, columns for rows."""
    kind = vector_of(4, f"i{8 * width}")

    @word
    def transpose(f: Function, target: Value, target_step: Value, source: Value, source_step: Value) -> None:
        rows = []
        for _ in range(4):
            rows.append(f.load(kind, source, align=1))
            source += source_step
        for column in transpose_four(f, rows):
            f.store(column, target, align=1)
            target += target_step

    return transpose


@word
def take_ticket(f: Function, address: Value) -> Value:
    """take_ticket(address): the count there, one more for the next to ask."""
    return f.atomic_update("add", address, 1)


@word
def load_acquire(f: Function, address: Value) -> Value:
    """load_acquire(address): a word, and with it everything written before it was released."""
    return f.load("i64", address, atomic="acquire")


@word
def store_release(f: Function, address: Value, value: Value) -> None:
    """store_release(address, value): a word, after everything written before."""
    f.atomic_update("xchg", address, value, "release")


pause = word(lambda f: f.pause())


@word
def fence(f: Function) -> None:
    """fence(): nothing after it is done before anything that stands before it."""
    f.add("fence seq_cst")


# prefetch(address): have a line fetched that is read soon; one that is none does no harm. Into the first cache was a
# tenth slower than into the second ahead of a block's rows and of rows gathered (Arm Neoverse-N1), and is quicker for
# rows that a Xeon gathers.
prefetch_near = word(lambda f, address: f.prefetch(address))
prefetch = word(lambda f, address: f.prefetch(address, cache=2))
prefetch_target = word(lambda f, address: f.prefetch(address, is_written=True))


def make_piece(width: int, *, stream: bool = False) -> Any:
    """piece(target, source): so many bytes at once; with `stream`, to a target aligned to 16, past the cache."""
    kind = f"i{8 * width}" if width < 16 else vector_of(width // 8, "i64")

    @word
    def piece(f: Function, target: Value, source: Value) -> None:
        f.store(f.load(kind, source, align=1), target, align=16 if stream else 1, is_streamed=stream)

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


# Of whole numbers from 0 on, without Python's question whether the divisor is 0, whose answer needs Python to raise.
quotient, remainder = word(lambda _, a, b: a // b), word(lambda _, a, b: a % b)
smaller, larger = word(lambda f, a, b: f.min(a, b)), word(lambda f, a, b: f.max(a, b))
