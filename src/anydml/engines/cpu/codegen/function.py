"""Functions in LLVM IR, written as text: lines and declarations, whole numbers of 64 bits with loops and branches, and
tail masks for the last vector of a row.
"""

from __future__ import annotations

import ast
import contextlib
import functools
from typing import TYPE_CHECKING

from anydml.engines.cpu.codegen.expressions import scalar_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Lines of a function in LLVM, and what it declares.


class Text:
    """Lines of a function, the constants that it keeps in memory, and what it declares."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declared: dict[str, None] = {}
        self.block = "entry"
        """The block that lines are written to."""
        self.table = "%numbers"
        """The address of constants that are kept in memory."""
        self._count = 0
        self._numbers: dict[str, int] = {}

    @property
    def numbers(self) -> list[str]:
        """The constants that are kept in memory, with what they lie in."""
        kinds = ", ".join(number.partition(">")[0] + ">" for number in self._numbers)
        table = f"@numbers = private constant %numbers {{ {', '.join(self._numbers)} }}"
        return [f"%numbers = type {{ {kinds} }}", table] if self._numbers else []

    def number(self, vector: str, value: str) -> str:
        """A constant, read from memory where it is used, by an address that LLVM must not know.

        An Arm adds a product to a register that it overwrites. LLVM would copy a constant there, which takes the place
        of arithmetic, as a load does not: tanh takes 2.6 ns an element in place of 3.4, and erf 3.2 of 4.0.
        """
        at = self._numbers.setdefault(f"{vector} {value}", len(self._numbers))
        place = self.new(f"getelementptr %numbers, ptr {self.table}, i64 0, i32 {at}")
        return self.new(f"load {vector}, ptr {place}, align 16")

    def hide_table(self) -> None:
        """In a loop without stores: have constants read in it, not before it, where they would be copied after all."""
        self.table = self.new('call ptr asm sideeffect "", "=r,0"(ptr %numbers)')

    def add(self, *lines: str) -> None:
        """Write lines as they are."""
        self.lines += lines

    def new(self, line: str) -> str:
        """Write a line that gives a value, and name that."""
        self._count += 1
        self.lines.append(f"%v{self._count} = {line}")
        return f"%v{self._count}"

    def label(self, stem: str) -> str:
        """The name of a block to come."""
        self._count += 1
        return f"{stem}{self._count}"

    def open(self, block: str) -> None:
        """Begin a block."""
        self.lines.append(f"{block}:")
        self.block = block

    def fetch(self, place: str, *, is_written: bool = False, near: int = 3) -> None:
        """Have the cache's line of a place fetched, to be read or written: to the first cache, 3, or the second, 2."""
        self.declared["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
        self.add(f"call void @llvm.prefetch.p0(ptr {place}, i32 {int(is_written)}, i32 {near}, i32 1)")

    def call(self, name: str, kind: str, args: Sequence[str], more: str = "") -> str:
        """An intrinsic of vectors, all of one type."""
        full = f"@llvm.{name}.{_letters(kind)}"
        self.declared[f"declare {kind} {full}({', '.join([kind] * len(args))}{', i1' if more else ''})"] = None
        return self.new(f"call {kind} {full}({', '.join(f'{kind} {arg}' for arg in args)}{more})")

    def load_lanes(self, vector: str, place: str, mask: str) -> str:
        """The lanes of a vector that a mask has, and zeros; the others are not read."""
        truths, name = f"<{lanes_in(vector)} x i1>", f"@llvm.masked.load.{_letters(vector)}.p0"
        self.declared[f"declare {vector} {name}(ptr, i32, {truths}, {vector})"] = None
        return self.new(f"call {vector} {name}(ptr {place}, i32 1, {truths} {mask}, {vector} zeroinitializer)")

    def store_lanes(self, vector: str, value: str, place: str, mask: str) -> None:
        """Write the lanes of a vector that a mask has."""
        truths, name = f"<{lanes_in(vector)} x i1>", f"@llvm.masked.store.{_letters(vector)}.p0"
        self.declared[f"declare void {name}({vector}, ptr, i32, {truths})"] = None
        self.add(f"call void {name}({vector} {value}, ptr {place}, i32 1, {truths} {mask})")

    def saturate(self, value: str, source: str, kind: str, vector: str) -> str:
        """Floats as integers of a kind, those outside of its range as the nearest end."""
        lanes, name = vector[1:-1].split(" x ")[0], f"@llvm.fpto{'s' if kind[0] == 'i' else 'u'}i.sat"
        full = f"{name}.v{lanes}i{kind[1:]}.v{lanes}f32"
        self.declared[f"declare {vector} {full}({source})"] = None
        return self.new(f"call {vector} {full}({source} {value})")

    def spread(self, value: str, scalar: str, lanes: int) -> str:
        """One value in every lane."""
        kind = f"<{lanes} x {scalar}>"
        first = self.new(f"insertelement {kind} poison, {scalar} {value}, i32 0")
        return self.new(f"shufflevector {kind} {first}, {kind} poison, <{lanes} x i32> zeroinitializer")


def lanes_in(vector: str) -> int:
    """The lanes of a vector's type."""
    return int(vector[1:-1].split(" x ")[0])


def _letters(vector: str) -> str:
    """A vector's type as names of intrinsics have it: `v16f32`."""
    lanes, scalar = vector[1:-1].split(" x ")
    return f"v{lanes}{({'double': 'f64', 'float': 'f32', 'half': 'f16'}).get(scalar, scalar)}"


# Functions in text of LLVM, written step by step: whole numbers of 64 bits as Python writes them, loops and branches.
#
# `let("left", "min(count - i, 8)")` is a line for each operation. Names are the function's own, each given once.


_OPERATIONS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "udiv", ast.Mod: "urem"}
_OPERATIONS |= {ast.BitAnd: "and", ast.BitOr: "or", ast.LShift: "shl"}
_TESTS = {ast.Lt: "slt", ast.LtE: "sle", ast.Gt: "sgt", ast.GtE: "sge", ast.Eq: "eq", ast.NotEq: "ne"}
_parse = functools.cache(lambda line: ast.parse(line, mode="eval").body)


class Steps(Text):
    """The lines of one function."""

    def __init__(self) -> None:
        super().__init__()
        self._labels = 0

    def define(self, head: str) -> str:
        """The whole text, given what stands before the body."""
        numbers = self.numbers
        table = ['%numbers = call ptr asm "", "=r,0"(ptr @numbers)'] if numbers else []
        return "\n".join([*numbers, f"define {head} {{", "entry:", *table, *self.lines, "}", *self.declared])

    # Numbers

    def value(self, line: str | int) -> str:
        """A number, computed: its name, or itself."""
        return self._write(_parse(str(line)))

    def let(self, name: str, line: str | int) -> None:
        """Give a number a name."""
        self.add(f"%{name} = add i64 {self.value(line)}, 0")

    def _write(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            return f"%{node.id}"
        if isinstance(node, ast.Constant):
            return str(node.value)
        if isinstance(node, ast.UnaryOp):
            return self.new(f"sub i64 0, {self._write(node.operand)}")
        if isinstance(node, ast.BinOp):
            return self.new(f"{_OPERATIONS[type(node.op)]} i64 {self._write(node.left)}, {self._write(node.right)}")
        if isinstance(node, ast.IfExp):
            test, yes, no = self._test(node.test), self._write(node.body), self._write(node.orelse)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
            yes, no = map(self._write, node.args)
            test = self.new(f"icmp {'slt' if node.func.id == 'min' else 'sgt'} i64 {yes}, {no}")
        else:
            raise ValueError(ast.dump(node))
        return self.new(f"select i1 {test}, i64 {yes}, i64 {no}")

    def _test(self, node: ast.expr) -> str:
        if isinstance(node, ast.BoolOp):
            first, *rest = map(self._test, node.values)
            for other in rest:
                first = self.new(f"{'and' if isinstance(node.op, ast.And) else 'or'} i1 {first}, {other}")
            return first
        if isinstance(node, ast.Compare):
            sign = _TESTS[type(node.ops[0])]
            return self.new(f"icmp {sign} i64 {self._write(node.left)}, {self._write(node.comparators[0])}")
        return self.new(f"icmp ne i64 {self._write(node)}, 0")

    # Memory

    def place(self, line: str | int) -> str:
        """An address as a pointer."""
        return self.new(f"inttoptr i64 {self.value(line)} to ptr")

    def read(self, name: str, line: str | int) -> None:
        """The word at an address."""
        self.add(f"%{name} = load i64, ptr {self.place(line)}")

    def put(self, line: str | int, value: str | int) -> None:
        """Set the word at an address."""
        place = self.place(line)
        self.add(f"store i64 {self.value(value)}, ptr {place}")

    def room(self, name: str, count: int) -> None:
        """The address of some words on the stack."""
        self.add(f"%{name}.at = alloca [{count} x i64], align 64", f"%{name} = ptrtoint ptr %{name}.at to i64")

    def invoke(self, address: str, *args: str | int) -> None:
        """Call what lies at an address, or is a function of the text's own."""
        values = ", ".join(f"i64 {self.value(arg)}" for arg in args)
        self.add(f"call void {address if address[0] == '@' else self.place(address)}({values})")

    # Blocks

    def label(self, name: str = "at") -> str:
        """A label that there is not yet."""
        self._labels += 1
        return f"{name}.{self._labels}"

    @contextlib.contextmanager
    def loop(self, name: str, start: str | int, stop: str | int, step: str | int = 1) -> Iterator[None]:
        """For each number from `start` up to `stop`; both are computed once."""
        before, head, body, after, done = (self.label(name) for _ in range(5))
        first, last, by = self.value(start), self.value(stop), self.value(step)
        self.add(f"br label %{before}", f"{before}:", f"br label %{head}", f"{head}:")
        self.add(f"%{name} = phi i64 [ {first}, %{before} ], [ %{name}.next, %{after} ]")
        self.add(f"%{name}.on = icmp slt i64 %{name}, {last}", f"br i1 %{name}.on, label %{body}, label %{done}")
        self.add(f"{body}:")
        yield
        self.add(f"br label %{after}", f"{after}:", f"%{name}.next = add i64 %{name}, {by}", f"br label %{head}")
        self.add(f"{done}:")

    @contextlib.contextmanager
    def when(self, line: str) -> Iterator[None]:
        """Where a test holds."""
        test, yes, done = self._test(_parse(line)), self.label("when"), self.label("done")
        self.add(f"br i1 {test}, label %{yes}, label %{done}", f"{yes}:")
        yield
        self.add(f"br label %{done}", f"{done}:")


# The first lanes of a vector, read and written where elements for the others are not there.


def load_some(text: Steps, kind: str, lanes: int, count: int, place: str, align: int) -> str:
    """The vector of a kind of elements at a place; lanes from `count` on are 0."""
    return load_part(text, kind, lanes, range(count), place, align)


def load_part(text: Steps, kind: str, lanes: int, there: range, place: str, align: int) -> str:
    """Some lanes of the vector at a place; the others are 0."""
    vector = f"<{lanes} x {scalar_text(kind)}>"
    if there == range(lanes):
        return text.new(f"load {vector}, ptr {place}, align {align}")
    return load_masked(text, kind, lanes, _mask(lanes, there), place, align)


def load_masked(text: Steps, kind: str, lanes: int, mask: str, place: str, align: int) -> str:
    """The lanes of a mask of the vector at a place; the others are 0."""
    vector, load = f"<{lanes} x {scalar_text(kind)}>", _name("load", kind, lanes)
    text.declared[f"declare {vector} {load}(ptr, i32, <{lanes} x i1>, {vector})"] = None
    given = f"ptr {place}, i32 {align}, <{lanes} x i1> {mask}, {vector} zeroinitializer"
    return text.new(f"call {vector} {load}({given})")


def store_some(text: Steps, kind: str, lanes: int, count: int, value: str, place: str, align: int) -> None:
    """Write the first lanes of a vector to a place."""
    vector = f"<{lanes} x {scalar_text(kind)}>"
    if count == lanes:
        text.add(f"store {vector} {value}, ptr {place}, align {align}")
        return
    store = _name("store", kind, lanes)
    text.declared[f"declare void {store}({vector}, ptr, i32, <{lanes} x i1>)"] = None
    mask = f"<{lanes} x i1> {_mask(lanes, range(count))}"
    text.add(f"call void {store}({vector} {value}, ptr {place}, i32 {align}, {mask})")


def _name(way: str, kind: str, lanes: int) -> str:
    return f"@llvm.masked.{way}.v{lanes}{kind if kind[0] == 'f' else f'i{kind[1:]}'}.p0"


def _mask(lanes: int, there: range) -> str:
    return f"<{', '.join(f'i1 {int(k in there)}' for k in range(lanes))}>"
