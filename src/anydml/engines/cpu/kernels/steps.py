"""Functions in text of LLVM, written step by step: whole numbers of 64 bits as Python writes them, loops and branches.

`let("left", "min(count - i, 8)")` is a line for each operation. Names are the function's own, each given once.
"""

from __future__ import annotations

import ast
import contextlib
import functools
from typing import TYPE_CHECKING

from anydml.engines.cpu.kernels.function_text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator

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
