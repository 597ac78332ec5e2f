"""The builder of kernel functions: typed values, loops and branches that carry values, masks, shuffles, calls, atomics.
It writes text of LLVM IR.

A `Value` is an operand's text and its LLVM type; operators of Python write instructions. `carry` names lists or dicts
of values that a loop or a branch changes: inside they hold the values of this iteration, afterwards those that came
out, and the builder writes each `phi`. Addresses are i64, as kernels are given them, or pointers. A sum of floats:

    f = Function("kernel", "address count target")
    address, count, target = f.args
    sums = [f.zero("<8 x float>")]
    with f.loop(0, count, 8, carry=sums) as i:
        mask = f.tail_mask(f.min(count - i, 8), 8)
        sums[0] += f.load("<8 x float>", address + i * 4, mask=mask)
    with f.when(count > 0):
        f.store(f.reduce("fadd", sums[0], start=0.0), target)
    text = f.end()

Text is written directly: llvmlite's objects take twenty times as long. No optimiser runs over it but for kernels that
were translated from Python, so that instructions come out in the order in which they are written here.
"""

from __future__ import annotations

import contextlib
import functools
import struct
from typing import TYPE_CHECKING, Any, TypeAlias

from anydml.engines.cpu.features import IS_ARM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, MutableMapping, MutableSequence, Sequence

    Carried: TypeAlias = MutableSequence["Value"] | MutableMapping[Any, "Value"]
    """Values that a loop or a branch changes."""
    Operand: TypeAlias = "str | float"
    """A value, or a number that takes the type of the other operand."""

# Types, and values that have one.


SIZES = {"i1": 1, "i8": 1, "i16": 2, "half": 2, "i32": 4, "float": 4, "i64": 8, "double": 8, "ptr": 8}
"""Bytes of scalars."""
_FLOATS = {"half": "f16", "float": "f32", "double": "f64"}
_FLOAT_OPERATIONS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_NEUTRAL = {"add": 0, "sub": 0, "mul": 1, "or": 0, "shl": 0}
"""The second operands that an operation of integers does nothing with."""


@functools.cache
def lanes_in(vector: str) -> int:
    """The lanes of a vector's type."""
    return int(vector[1:-1].split(" x ")[0])


@functools.cache
def _suffix(kind: str) -> str:
    """A type as names of intrinsics have it: `v16f32`, `i64`."""
    if kind[0] == "<":
        lanes, scalar = kind[1:-1].split(" x ")
        return f"v{lanes}{_FLOATS.get(scalar, scalar)}"
    return "p0" if kind == "ptr" else _FLOATS.get(kind, kind)


@functools.cache
def scalar_in(kind: str) -> str:
    """The elements of a type of vectors, or a scalar itself."""
    return kind[1:-1].partition(" x ")[2] if kind[0] == "<" else kind


def vector_of(lanes: int, scalar: str) -> str:
    """A type of vectors."""
    return f"<{lanes} x {scalar}>"


@functools.cache
def with_lanes_of(kind: str, scalar: str) -> str:
    """The type of as many scalars as a type has."""
    return vector_of(lanes_in(kind), scalar) if kind[0] == "<" else scalar


def literal(kind: str, number: float) -> str:
    """A constant's text, exact for any bits; in every lane of a vector."""
    scalar = scalar_in(kind)
    if scalar == "half":
        text = f"0xH{struct.pack('>e', number).hex().upper()}"
    elif scalar in _FLOATS:
        text = f"0x{struct.pack('>d', number).hex().upper()}"
    elif scalar == "ptr":
        text = "null"
    else:
        text = str(int(number))
    return text if kind[0] != "<" else f"splat ({scalar} {text})"


class Value(str):
    """An operand: its text, which stands in lines as it is, and its type. Integers are signed in comparisons."""

    __slots__ = ("function", "type")
    function: Function
    type: str

    @property
    def typed(self) -> str:
        """Type and name, as arguments have them."""
        return f"{self.type} {self}"

    @property
    def lanes(self) -> int:
        """Of a vector."""
        return lanes_in(self.type)

    @property
    def scalar(self) -> str:
        """The type of an element."""
        return scalar_in(self.type)

    def __bool__(self) -> bool:
        raise TypeError(f"{self.typed} is not known when a kernel is written: use when() or select()")

    # Python's operators. Of integers // and % are unsigned, and so are shifts to the right.

    def __add__(self, other: Operand) -> Value:
        return self.function.binary("add", self, other)

    def __radd__(self, other: float) -> Value:
        return self.function.binary("add", self, other)

    def __sub__(self, other: Operand) -> Value:
        return self.function.binary("sub", self, other)

    def __rsub__(self, other: float) -> Value:
        return self.function.binary("sub", self.function.value(other, self.type), self)

    def __mul__(self, other: Operand) -> Value:  # type: ignore[override]  # no text is repeated
        return self.function.binary("mul", self, other)

    def __rmul__(self, other: float) -> Value:  # type: ignore[override]  # no text is repeated
        return self.function.binary("mul", self, other)

    def __truediv__(self, other: Operand) -> Value:
        return self.function.binary("div", self, other)

    def __floordiv__(self, other: Operand) -> Value:
        return self.function.binary("udiv", self, other)

    def __mod__(self, other: Operand) -> Value:
        return self.function.binary("urem", self, other)

    def __and__(self, other: Operand) -> Value:
        return self.function.binary("and", self, other)

    def __or__(self, other: Operand) -> Value:
        return self.function.binary("or", self, other)

    def __xor__(self, other: Operand) -> Value:
        return self.function.binary("xor", self, other)

    def __lshift__(self, other: Operand) -> Value:
        return self.function.binary("shl", self, other)

    def __rshift__(self, other: Operand) -> Value:
        return self.function.binary("lshr", self, other)

    def __neg__(self) -> Value:
        if self.scalar in _FLOATS:
            return self.function.made(self.type, f"fneg {self.typed}")
        return self.function.binary("sub", self.function.value(0, self.type), self)

    def __invert__(self) -> Value:
        return self.function.binary("xor", self, -1)

    def __lt__(self, other: Operand) -> Value:  # type: ignore[override, misc]  # an i1, or one for each lane
        return self.function.compare("lt", self, other)

    def __le__(self, other: Operand) -> Value:  # type: ignore[override, misc]  # as above
        return self.function.compare("le", self, other)

    def __gt__(self, other: Operand) -> Value:  # type: ignore[override, misc]  # as above
        return self.function.compare("gt", self, other)

    def __ge__(self, other: Operand) -> Value:  # type: ignore[override, misc]  # as above
        return self.function.compare("ge", self, other)

    def eq(self, other: Operand) -> Value:
        """Whether both are equal; `==` asks whether they are one operand."""
        return self.function.compare("eq", self, other)

    def ne(self, other: Operand) -> Value:
        """Whether they are not equal."""
        return self.function.compare("ne", self, other)


class Function:
    """One function on its way to text; its arguments are i64 unless a name says otherwise: `scale:float`."""

    def __init__(self, name: str = "kernel", arguments: str = "", result: str = "void") -> None:
        self._name, self._result = name, result
        self.lines: list[str] = []
        self.declared: dict[str, None] = {}
        self.block = "entry"
        """The block that lines are written to."""
        self.is_over = False
        """Whether the block has ended, by a return or by a way to another."""
        self.table = "%numbers"
        """The address of constants that are kept in memory."""
        self._count = 0
        self._numbers: dict[str, int] = {}
        self.args: list[Value] = []
        for argument in arguments.split():
            label, _, kind = argument.partition(":")
            self.args.append(self.value(f"%{label}", kind or "i64"))
        self._stack: list[str] = []
        """Lines that reserve memory, which stand at the function's start."""
        self._tables: list[int] = []
        """Lines that find constants, which are left out where there are none."""
        self._hides = False
        """Whether constants are found by an address that is hidden anew where they are used."""
        self._leaves: list[tuple[str, Sequence[Carried], list[_End]]] = []
        """Of each loop around: the block after it, what it carries, and the ways there."""

    # Text

    def end(self, result: Operand | None = None, *, is_private: bool = False) -> str:
        """Return, and give the whole text; a private function is for others of the same text."""
        if not self.is_over:
            self.ret(result)
        kind = f"private {self._result}" if is_private else self._result
        return self.define(f"{kind} @{self._name}({', '.join(arg.typed for arg in self.args)})")

    def define(self, head: str) -> str:
        """The whole text, given what stands before the body."""
        numbers = self.numbers
        hidden = ["%numbers = alloca ptr"] if self._hides and not numbers else []
        table = ['%numbers = call ptr asm "", "=r,0"(ptr @numbers)'] if numbers else []
        lines = [line for at, line in enumerate(self.lines) if numbers or at not in self._tables]
        start = ["entry:", *hidden, *self._stack, *table]
        return "\n".join([*numbers, f"define {head} {{", *start, *lines, "}", *self.declared])

    @property
    def numbers(self) -> list[str]:
        """The constants that are kept in memory, with what they lie in."""
        kinds = ", ".join(number.partition(">")[0] + ">" for number in self._numbers)
        table = f"@numbers = private constant %numbers {{ {', '.join(self._numbers)} }}"
        return [f"%numbers = type {{ {kinds} }}", table] if self._numbers else []

    def add(self, *lines: str) -> None:
        """Write lines as they are."""
        self.lines += lines

    def new(self, line: str) -> str:
        """Write a line that gives a value, and name that."""
        self._count += 1
        self.lines.append(f"%v{self._count} = {line}")
        return f"%v{self._count}"

    def made(self, kind: str, line: str) -> Value:
        """Write a line that gives a value of a type."""
        value = Value(self.new(line))
        value.function, value.type = self, kind
        return value

    # Blocks

    def label(self, stem: str) -> str:
        """The name of a block to come."""
        self._count += 1
        return f"{stem}{self._count}"

    def open(self, block: str) -> None:
        """Begin a block."""
        self.lines.append(f"{block}:")
        self.block, self.is_over = block, False

    def go(self, block: str) -> None:
        """Go on in a block."""
        self.add(f"br label %{block}")
        self.is_over = True

    def branch(self, test: Value, yes: str, no: str) -> None:
        """Go on in one of two blocks."""
        self.add(f"br i1 {self.truth(test)}, label %{yes}, label %{no}")
        self.is_over = True

    def switch(self, number: Value, otherwise: str, blocks: Mapping[int, str]) -> None:
        """Go on in one of several blocks, by a number."""
        ways = " ".join(f"{number.type} {one}, label %{block}" for one, block in blocks.items())
        self.add(f"switch {number.typed}, label %{otherwise} [ {ways} ]")
        self.is_over = True

    def ret(self, result: Operand | None = None) -> None:
        """Return."""
        self.add("ret void" if result is None else f"ret {self.value(result, self._result).typed}")
        self.is_over = True

    def join(self, ends: Sequence[_End]) -> list[Value]:
        """What the blocks carry that lead to this one, which is just begun."""
        joined = []
        for values in zip(*(values for _, values in ends), strict=True):
            if all(value == values[0] for value in values):
                joined.append(values[0])
                continue
            ways = ", ".join(f"[ {value}, %{end} ]" for value, (end, _) in zip(values, ends, strict=True))
            joined.append(self.made(values[0].type, f"phi {values[0].type} {ways}"))
        return joined

    # Operands

    def value(self, given: Operand, kind: str) -> Value:
        """A value as it is; a number, or an operand's text, as one of a type."""
        if isinstance(given, Value):
            return given
        made = Value(given if isinstance(given, str) else literal(kind, given))
        made.function, made.type = self, kind
        return made

    def zero(self, kind: str) -> Value:
        """0, or a vector of zeros."""
        return self.value("zeroinitializer" if kind[0] == "<" else literal(kind, 0), kind)

    def vector(self, scalar: str, numbers: Sequence[float]) -> Value:
        """A vector of constants."""
        text = ", ".join(f"{scalar} {literal(scalar, number)}" for number in numbers)
        return self.value(f"<{text}>", vector_of(len(numbers), scalar))

    def splat(self, given: Value, lanes: int) -> Value:
        """One value in every lane."""
        kind = vector_of(lanes, given.type)
        first = self.new(f"insertelement {kind} poison, {given.typed}, i32 0")
        return self.made(kind, f"shufflevector {kind} {first}, {kind} poison, <{lanes} x i32> zeroinitializer")

    # Arithmetic

    def binary(self, op: str, a: Operand, b: Operand) -> Value:
        """An operation of two operands of one type; to a pointer bytes are added."""
        kind = a.type if isinstance(a, Value) else b.type if isinstance(b, Value) else "i64"
        if b == _NEUTRAL.get(op, "") and scalar_in(kind) not in _FLOATS and kind != "ptr":
            return self.value(a, kind)
        if kind == "ptr":  # and 0 bytes too: LLVM's loop strength reduction keeps a loop's pointers apart for it
            offset = self.value(b, "i64") if op == "add" else -self.value(b, "i64")
            return self.made("ptr", f"getelementptr i8, {self.value(a, kind).typed}, {offset.typed}")
        if scalar_in(kind) in _FLOATS:
            op = _FLOAT_OPERATIONS.get(op, op)
        return self.made(kind, f"{op} {kind} {self.value(a, kind)}, {self.value(b, kind)}")

    def compare(self, sign: str, a: Operand, b: Operand) -> Value:
        """A test: `lt` is that of signed integers, and ordered of floats; `ult` as LLVM has it."""
        kind = a.type if isinstance(a, Value) else b.type if isinstance(b, Value) else "i64"
        is_float = scalar_in(kind) in _FLOATS
        if is_float:
            sign = {"ne": "une"}.get(sign, f"o{sign}" if len(sign) == 2 else sign)
        elif sign in ("lt", "le", "gt", "ge"):
            sign = f"s{sign}"
        line = f"{'fcmp' if is_float else 'icmp'} {sign} {kind} {self.value(a, kind)}, {self.value(b, kind)}"
        return self.made(with_lanes_of(kind, "i1"), line)

    def select(self, test: Value, a: Operand, b: Operand) -> Value:
        """One of two values, by a test; lane by lane where the test is a vector."""
        kind = a.type if isinstance(a, Value) else b.type if isinstance(b, Value) else "i64"
        a, b = self.value(a, kind), self.value(b, kind)
        return self.made(kind, f"select {self.truth(test).typed}, {a.typed}, {b.typed}")

    def truth(self, test: Value) -> Value:
        """An i1: whether an integer is not 0."""
        return test if test.scalar == "i1" else test.ne(0)

    def min(self, a: Operand, b: Operand) -> Value:
        """The smaller of two signed integers."""
        return self.select(self.compare("lt", a, b), a, b)

    def max(self, a: Operand, b: Operand) -> Value:
        """The larger of two signed integers."""
        return self.select(self.compare("gt", a, b), a, b)

    def cast(self, op: str, given: Value, scalar: str) -> Value:
        """`sext`, `trunc`, `fpext`, `sitofp` and their kin: to another scalar, by the lane; one of its type stays."""
        kind = with_lanes_of(given.type, scalar)
        return given if kind == given.type else self.made(kind, f"{op} {given.typed} to {kind}")

    def bitcast(self, given: Value, kind: str) -> Value:
        """The bits of a value as another type."""
        return given if kind == given.type else self.made(kind, f"bitcast {given.typed} to {kind}")

    # Calls

    def intrinsic(self, name: str, *args: Value, result: str | None = None) -> Value:
        """An intrinsic by its whole name after `llvm.`; its result is of the first argument's type unless given."""
        return self.invoke(f"@llvm.{name}", *args, result=result or args[0].type)

    def overloaded(self, name: str, *args: Value) -> Value:
        """An intrinsic of one type, whose name goes by that: `fma` of floats is `llvm.fma.v8f32`."""
        return self.intrinsic(f"{name}.{_suffix(args[0].type)}", *args)

    def fmuladd(self, a: Value, b: Value, c: Value) -> Value:
        """a · b + c, rounded once where the CPU can."""
        return self.overloaded("fmuladd", a, b, c)

    def reduce(self, name: str, vector: Value, start: float | None = None) -> Value:
        """One value of all lanes; sums of floats begin with a number."""
        args = [vector] if start is None else [self.value(start, vector.scalar), vector]
        return self.intrinsic(f"vector.reduce.{name}.{_suffix(vector.type)}", *args, result=vector.scalar)

    def invoke(self, target: str, *args: Operand, result: str = "void") -> Value:
        """Call a function by its symbol, or what lies at an address; numbers are i64."""
        given = [self.value(arg, "i64") for arg in args]
        if target.startswith("@llvm."):
            self.declared[f"declare {result} {target}({', '.join(arg.type for arg in given)})"] = None
        place = target if target[0] == "@" else self.pointer(self.value(target, "i64"))
        line = f"call {result} {place}({', '.join(arg.typed for arg in given)})"
        if result != "void":
            return self.made(result, line)
        self.add(line)
        return self.value("void", "void")

    def pause(self) -> None:
        """Some nanoseconds in which the other thread of a core, or nobody, works."""
        if IS_ARM:
            self.invoke("@llvm.aarch64.isb", self.value(15, "i32"))
        else:
            self.invoke("@llvm.x86.sse2.pause")

    # Memory

    def pointer(self, address: Value) -> Value:
        """An address as a pointer."""
        return address if address.type == "ptr" else self.made("ptr", f"inttoptr {address.typed} to ptr")

    def address(self, pointer: Value) -> Value:
        """A pointer as an address."""
        return pointer if pointer.type == "i64" else self.made("i64", f"ptrtoint {pointer.typed} to i64")

    def load(
        self,
        kind: str,
        at: Value,
        *,
        align: int = 0,
        mask: Value | range | None = None,
        otherwise: Value | None = None,
        atomic: str = "",
    ) -> Value:
        """What lies at an address or pointer, aligned as its elements are.

        Lanes that a mask leaves out are not read: they are 0, or as in another vector. A `range` has the lanes that are
        known to be there.
        """
        align, place = align or SIZES[scalar_in(kind)], self.pointer(at)
        if isinstance(mask, range):
            mask = self._lane_mask(mask, lanes_in(kind))
        if mask is not None:
            name = f"masked.load.{_suffix(kind)}.p0"
            fill = self.zero(kind) if otherwise is None else otherwise
            return self.intrinsic(name, place, self.value(align, "i32"), mask, fill, result=kind)
        way, order = ("load atomic", f" {atomic}") if atomic else ("load", "")
        return self.made(kind, f"{way} {kind}, {place.typed}{order}, align {align}")

    def store(
        self,
        given: Operand,
        at: Value,
        *,
        align: int = 0,
        mask: Value | range | None = None,
        atomic: str = "",
        is_streamed: bool = False,
    ) -> None:
        """Write a value to an address or pointer: numbers as i64, the lanes of a mask alone, or past the caches."""
        value, pointer = self.value(given, "i64"), self.pointer(at)
        align = align or SIZES[value.scalar]
        if isinstance(mask, range):
            mask = self._lane_mask(mask, value.lanes)
        if mask is not None:
            name = f"@llvm.masked.store.{_suffix(value.type)}.p0"
            self.invoke(name, value, pointer, self.value(align, "i32"), mask)
            return
        way, order = ("store atomic", f" {atomic}") if atomic else ("store", "")
        past = ", !nontemporal !0" if is_streamed else ""
        if is_streamed:
            self.declared["!0 = !{i32 1}"] = None
        self.add(f"{way} {value.typed}, {pointer.typed}{order}, align {align}{past}")

    def memcpy(self, to: Value, source: Value, size: Operand) -> None:
        """Copy bytes from an address to another."""
        places = self.pointer(to), self.pointer(source)
        self.invoke("@llvm.memcpy.p0.p0.i64", *places, size, self.value(0, "i1"))

    def stack(self, kind: str, count: int = 1, align: int = 64) -> Value:
        """A pointer to some values on the stack."""
        self._count += 1
        place = self.value(f"%v{self._count}", "ptr")
        self._stack.append(f"{place} = alloca [{count} x {kind}], align {align}")
        return place

    def prefetch(self, at: Value, *, is_written: bool = False, cache: int = 1) -> None:
        """Have the cache line of an address fetched to the first or the second cache, to be read or written."""
        hints = (self.value(hint, "i32") for hint in (int(is_written), 4 - cache, 1))
        self.invoke("@llvm.prefetch.p0", self.pointer(at), *hints)

    def atomic_update(self, op: str, at: Value, given: Operand, order: str = "seq_cst") -> Value:
        """What lay at an address before `add`, `xchg`, … changed it."""
        value, pointer = self.value(given, "i64"), self.pointer(at)
        return self.made(value.type, f"atomicrmw {op} {pointer.typed}, {value.typed} {order}")

    def compare_exchange(self, at: Value, old: Operand, new: Operand, order: str = "acquire monotonic") -> Value:
        """Put a new word where the old one lies; whether it did."""
        pointer, expected, value = self.pointer(at), self.value(old, "i64"), self.value(new, "i64")
        pair = self.new(f"cmpxchg {pointer.typed}, {expected.typed}, {value.typed} {order}")
        return self.made("i1", f"extractvalue {{ {value.type}, i1 }} {pair}, 1")

    def number(self, given: Value) -> Value:
        """A constant, read from memory where it is used, by an address that LLVM must not know.

        An Arm adds a product to a register that it overwrites. LLVM would copy a constant there, which takes the place
        of arithmetic, as a load does not: tanh takes 2.6 ns an element in place of 3.4, and erf 3.2 of 4.0.
        """
        at = self._numbers.setdefault(given.typed, len(self._numbers))
        place = self.new(f"getelementptr %numbers, ptr {self.table}, i64 0, i32 {at}")
        return self.made(given.type, f"load {given.type}, ptr {place}, align 16")

    def find_table(self) -> None:
        """Find constants in memory from here on: an address kept from the start on takes a register of loops before."""
        self._tables.append(len(self.lines))
        self.table = self.new('call ptr asm sideeffect "", "=r,0"(ptr @numbers)')

    def hide_table(self) -> None:
        """In a loop without stores: have constants read in it, not before it, where they would be copied after all."""
        self._hides = True
        self.table = self.new('call ptr asm sideeffect "", "=r,0"(ptr %numbers)')

    # Registers

    def barrier(self) -> None:
        """Let no access to memory be moved across this point by the compiler."""
        self.add('call void asm sideeffect "", "~{memory}"()')

    def opaque(self, given: Value, register: str = "r") -> Value:
        """The same value, of which the compiler knows no more: it is not computed again, nor split."""
        return self.made(given.type, f'call {given.type} asm sideeffect "", "={register},0"({given.typed})')

    def await_values(self, values: MutableMapping[Any, Value], keys: Sequence[Any], register: str) -> None:
        """Let nothing be read before some values are there: LLVM would read ahead what it has no registers for."""
        kinds = [values[key].type for key in keys]
        ties = ",".join([*[f"={register}"] * len(keys), *map(str, range(len(keys)))])
        given = ", ".join(values[key].typed for key in keys)
        kind = f"{{ {', '.join(kinds)} }}" if len(keys) > 1 else kinds[0]  # a single output is no struct
        held = self.made(kind, f'call {kind} asm sideeffect "", "{ties},~{{memory}}"({given})')
        for k, key in enumerate(keys):
            values[key] = self.made(kinds[k], f"extractvalue {held.typed}, {k}") if len(keys) > 1 else held

    # Lanes

    def tail_mask(self, count: Value, lanes: int, scalar: str = "i32") -> Value:
        """Which lanes are below a count, compared as integers of a type that has it."""
        many = self.splat(self.cast("trunc", count, scalar), lanes)
        return self.compare("ult", self.vector(scalar, range(lanes)), many)

    def _lane_mask(self, there: range, lanes: int) -> Value | None:
        return None if there == range(lanes) else self.vector("i1", [k in there for k in range(lanes)])

    def shuffle(self, a: Value, b: Value | None, order: Sequence[int]) -> Value:
        """Lanes of one vector, or of two: those of the second are counted after the first's; of -1 any will do."""
        kind = vector_of(len(order), a.scalar)
        chosen = ", ".join(f"i32 {lane if lane >= 0 else 'poison'}" for lane in order)
        other = "poison" if b is None else b
        return self.made(kind, f"shufflevector {a.typed}, {a.type} {other}, <{len(order)} x i32> <{chosen}>")

    def every_other(self, low: Value, high: Value) -> Value:
        """Every other of the elements that two vectors have, of which the second begins with the last of the first:
        so nothing is read past the last that is taken.
        """
        lanes = low.lanes
        return self.shuffle(low, high, [2 * k if 2 * k < lanes else 2 * k + 1 for k in range(lanes)])

    def extract(self, vector: Value, lane: Operand) -> Value:
        """An element of a vector."""
        return self.made(vector.scalar, f"extractelement {vector.typed}, {self.value(lane, 'i32').typed}")

    def insert(self, vector: Value, element: Value, lane: Operand) -> Value:
        """A vector with another element."""
        return self.made(vector.type, f"insertelement {vector.typed}, {element.typed}, {self.value(lane, 'i32').typed}")

    def transpose(self, rows: Sequence[Value]) -> list[Value]:
        """As many vectors as they have lanes, columns for rows; rows that there are not may be anything.

        Four by four within parts of 16 bytes, then those: shuffles that an x86 has, 64 of them for 16 lanes.
        """
        lanes, poison = rows[0].lanes, self.value("poison", rows[0].type)
        rows = [*rows, *[poison] * (lanes - len(rows))]

        def pick(a: Value, b: Value, order: list[int]) -> Value:
            return a if a == b == "poison" else self.shuffle(a, b, order)

        def within(*four: int) -> list[int]:
            """Lanes of both, the same in each part of four; those of the second from 4 on."""
            return [part + k % 4 + (lanes if k > 3 else 0) for part in range(0, lanes, 4) for k in four]

        def parts(*chosen: int) -> list[int]:
            """Whole parts of four lanes: those of the second after the first's."""
            return [4 * part + k for part in chosen for k in range(4)]

        groups = []
        for first in range(0, lanes, 4):
            a, b, c, d = rows[first : first + 4]
            pairs = [pick(x, y, within(*four)) for four in ((0, 4, 1, 5), (2, 6, 3, 7)) for x, y in ((a, b), (c, d))]
            groups.append([
                pick(pairs[2 * half], pairs[2 * half + 1], within(*four))
                for half in (0, 1) for four in ((0, 1, 4, 5), (2, 3, 6, 7))
            ])  # fmt: skip
        if lanes == 4:
            return groups[0]
        if lanes == 8:
            return [pick(groups[0][c], groups[1][c], parts(half, 2 + half)) for half in (0, 1) for c in range(4)]
        halves = {
            (half, pair, c): pick(groups[pair][c], groups[pair + 1][c], parts(*(2 * half + k for k in (0, 1, 4, 5))))
            for half in (0, 1) for pair in (0, 2) for c in range(4)
        }  # fmt: skip
        return [
            pick(halves[half, 0, c], halves[half, 2, c], parts(*(odd + k for k in (0, 2, 4, 6))))
            for half in (0, 1) for odd in (0, 1) for c in range(4)
        ]  # fmt: skip

    # Loops and branches

    @contextlib.contextmanager
    def loop(
        self,
        start: Operand,
        stop: Operand,
        step: Operand = 1,
        *,
        carry: Carried | Sequence[Carried] = (),
        is_entered: bool = False,
    ) -> Iterator[Value]:
        """For each number from `start` up to `stop`, which are computed once; where it `is_entered` there is one."""
        first, last, by = (self.value(given, "i64") for given in (start, stop, step))
        with self._repeat(_carried(carry), first) as (counter, head, body, done, ends):
            if not is_entered:
                test = counter < last
                ends.append((self.block, _held(_carried(carry))))
                self.branch(test, body, done)
                self.open(body)
            yield counter
            if self.is_over:
                raise ValueError("a loop's body must come to its end")
            after = counter + by
            if is_entered:
                ends.append((self.block, _held(_carried(carry))))
                self.branch(after < last, head, done)
            else:
                self.go(head)
            ends.append((self.block, [after, *_held(_carried(carry))]))

    @contextlib.contextmanager
    def rotated_loop(
        self, start: Operand, stop: Operand, step: Operand = 1, *, carry: Carried | Sequence[Carried] = ()
    ) -> Iterator[Value]:
        """The same with its test at the end, and one before it: a jump less for each iteration."""
        first, last = self.value(start, "i64"), self.value(stop, "i64")
        with self.when(first < last, carry), self.loop(first, last, step, carry=carry, is_entered=True) as counter:
            yield counter

    @contextlib.contextmanager
    def forever(self, carry: Carried | Sequence[Carried] = ()) -> Iterator[None]:
        """Again and again, until `leave_if` leads out of it."""
        with self._repeat(_carried(carry)) as (_, head, _, _, ends):
            yield
            self.go(head)
            ends.append((self.block, _held(_carried(carry))))

    @contextlib.contextmanager
    def _repeat(self, carry: Sequence[Carried], *counter: Value) -> Iterator[tuple[Value, str, str, str, list[_End]]]:
        """A loop from its head on: the last end is the way back, and the others are ways out."""
        head, body, done = (self.label(name) for name in ("head", "body", "done"))
        before, initial = self.block, [*counter, *_held(carry)]
        self.go(head)
        self.open(head)
        at = len(self.lines)
        phis = [self.made(value.type, "") for value in initial]
        _hold(carry, phis[len(counter) :])
        ends: list[_End] = []
        self._leaves.append((done, carry, ends))
        yield (phis or [self.value(0, "i64")])[0], head, body, done, ends
        self._leaves.pop()
        block, values = ends.pop()
        for k, (phi, first, after) in enumerate(zip(phis, initial, values, strict=True)):
            self.lines[at + k] = f"{phi} = phi {phi.type} [ {first}, %{before} ], [ {after}, %{block} ]"
        self._join(done, carry, ends)

    def leave_if(self, test: Value) -> None:
        """Leave the innermost loop where a test holds, with what it carries as it is now."""
        done, carry, ends = self._leaves[-1]
        on = self.label("on")
        ends.append((self.block, _held(carry)))
        self.branch(test, done, on)
        self.open(on)

    @contextlib.contextmanager
    def region(self, carry: Carried | Sequence[Carried] = ()) -> Iterator[Callable[[], None]]:
        """What can be left from inside of loops and branches: what leaves it, with what it carries as it is then."""
        done, ends = self.label("done"), list[_End]()

        def leave() -> None:
            ends.append((self.block, _held(_carried(carry))))
            self.go(done)

        yield leave
        if not self.is_over:
            leave()
        self._join(done, _carried(carry), ends)

    @contextlib.contextmanager
    def when(self, test: Value, carry: Carried | Sequence[Carried] = ()) -> Iterator[None]:
        """Where a test holds."""
        yes, done = self.label("when"), self.label("done")
        self.branch(test, yes, done)
        ends = [(self.block, _held(_carried(carry)))]
        with self._arm(yes, done, _carried(carry), ends):
            yield
        self._join(done, _carried(carry), ends)

    @contextlib.contextmanager
    def either(
        self, test: Value, carry: Carried | Sequence[Carried] = ()
    ) -> Iterator[tuple[contextlib.AbstractContextManager[None], contextlib.AbstractContextManager[None]]]:
        """Two arms, each written in a `with` of its own: where a test holds, and where it does not."""
        yes, no, done = (self.label(name) for name in ("yes", "no", "done"))
        self.branch(test, yes, no)
        ends: list[_End] = []
        held = _held(_carried(carry))
        yield (
            self._arm(yes, done, _carried(carry), ends, held),
            self._arm(no, done, _carried(carry), ends, held),
        )
        self._join(done, _carried(carry), ends)

    @contextlib.contextmanager
    def _arm(
        self, block: str, done: str, carry: Sequence[Carried], ends: list[_End], held: list[Value] | None = None
    ) -> Iterator[None]:
        self.open(block)
        if held is not None:
            _hold(carry, held)
        yield
        if not self.is_over:
            ends.append((self.block, _held(carry)))
            self.go(done)

    def _join(self, block: str, carry: Sequence[Carried], ends: list[_End]) -> None:
        """Go on in a block with what came out of those before it."""
        if not ends:
            self.is_over = True
            return
        self.open(block)
        _hold(carry, self.join(ends))


_End = tuple[str, list[Value]]
"""A block that leads on, and what it carries."""


def _carried(carry: Carried | Sequence[Carried]) -> Sequence[Carried]:
    """Lists and dicts of values, of which one may stand for itself."""
    return carry if isinstance(carry, tuple) else [carry]  # type: ignore[list-item]  # what is no tuple is one of them


def _keys(held: Carried) -> Sequence[Any]:
    return [*held] if isinstance(held, dict) else range(len(held))


def _held(carry: Sequence[Carried]) -> list[Value]:
    return [held[key] for held in carry for key in _keys(held)]


def _hold(carry: Sequence[Carried], values: Sequence[Value]) -> None:
    left = iter(values)
    for held in carry:
        for key in _keys(held):
            held[key] = next(left)


def transpose_four(f: Function, rows: Sequence[Value]) -> list[Value]:
    """Four vectors of four lanes, columns for rows, by what is one instruction for two of an Arm's vectors."""
    pairs = [f.shuffle(rows[i], rows[i + 1], lanes) for i in (0, 2) for lanes in ((0, 4, 2, 6), (1, 5, 3, 7))]
    return [f.shuffle(pairs[i], pairs[i + 2], lanes) for lanes in ((0, 1, 4, 5), (2, 3, 6, 7)) for i in (0, 1)]


def link(*functions: str) -> str:
    """The text of several functions, with each declaration once."""
    lines = dict.fromkeys(line for text in functions for line in text.splitlines() if line.startswith("declare "))
    bodies = (line for text in functions for line in text.splitlines() if not line.startswith("declare "))
    return "\n".join([*bodies, *lines])
