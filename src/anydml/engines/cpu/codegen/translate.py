"""The Python subset that kernels may be written in, translated to LLVM IR: whole numbers, loops over ranges, branches,
and intrinsics as calls.
"""

from __future__ import annotations

import ast
import functools
import itertools
import linecache
import operator
import string
from dataclasses import dataclass
from types import MethodType
from typing import TYPE_CHECKING, Any

from anydml.engines.cpu.codegen.function import Function, Value
from anydml.engines.cpu.launch.record import WORD, Fields, Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# The expressions of a kernel in Python, written as LLVM has them.
#
# They are signed words, or what a word of LLVM gives. Sums and products do not overflow: they are counts and addresses.


_KNOWN: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_SIMPLE: dict[type, str] = {ast.Add: "add nsw", ast.Sub: "sub nsw", ast.Mult: "mul nsw", ast.BitAnd: "and"}
_TESTS: dict[type, str] = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}


class _Word:
    """Something that kernels call and that LLVM has: `emit(f, *values)` writes it."""

    def __init__(self, emit: Callable[..., Any]) -> None:
        self.emit = emit


def word(emit: Callable[..., Any]) -> Any:
    """Have kernels call `emit(f, *values)`, without the function that is written."""
    return _Word(emit)


@dataclass(frozen=True)
class Constant:
    """A number of another type than a word."""

    type: str
    number: float


class Expressions:
    """Writes the expressions of one function of Python."""

    def __init__(self, function: Any, f: Function, changing: set[str]) -> None:
        self.f, self.changing = f, changing
        code = function.__code__
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        self.names: dict[str, Any] = {name: cell.cell_contents for name, cell in cells}
        self.around = function.__globals__
        self.path = code.co_filename
        self.slots: dict[str, tuple[str, Value]] = {}
        """The types of names that change, and their memory, which LLVM keeps in registers."""

    def call(self, function: Any, args: Sequence[Any]) -> Any:
        """Write a function that is called."""
        raise NotImplementedError  # statements, which write it, are a class of this one

    def fault(self, node: ast.AST) -> Exception:
        """Python that no kernel can have."""
        return SyntaxError(f"{self.path}: kernels do not have '{ast.unparse(node)}'")

    def labels(self, *names: str) -> list[str]:
        """Blocks to come."""
        return [self.f.label(name) for name in names]

    def value(self, known: Any, kind: str = "i64") -> Any:
        """A number that is known as a value; values are as they are, and so are tuples of them."""
        if isinstance(known, Constant):
            return self.f.value(known.number, known.type)
        return self.f.value(known, kind) if isinstance(known, int) else known

    def known(self, node: ast.expr) -> Any:
        """The value of an expression that is known now; None where it is not."""
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                value = None if node.id in self.changing else self.look_up(node.id)
                return value if isinstance(value, int) else None
            case ast.Attribute(value=ast.Name(id=name)) if name not in self.changing:
                value = None if isinstance(held := self.look_up(name), Fields) else getattr(held, node.attr)
                return value if isinstance(value, int) else None
            case ast.UnaryOp():
                value = self.known(node.operand)
                return None if value is None else not value if isinstance(node.op, ast.Not) else -value
            case ast.BinOp():
                sides = self.known(node.left), self.known(node.right)
                return None if None in sides else _KNOWN[type(node.op)](*sides)
            case ast.Compare(ops=[how], comparators=[other]):
                sides = self.known(node.left), self.known(other)
                return None if None in sides else _KNOWN[type(how)](*sides)
            case ast.BoolOp():
                decides = isinstance(node.op, ast.Or)
                parts = [self.known(part) for part in node.values]
                if any(part is not None and bool(part) == decides for part in parts):
                    return decides
                return None if None in parts else not decides
        return None

    def look_up(self, name: str) -> Any:
        """The value of a name."""
        if slot := self.slots.get(name):
            return self.f.load(*slot)
        return self.names[name] if name in self.names else self.around[name]

    def find(self, node: ast.expr) -> Any:
        """Write an expression, and give its value."""
        known = self.known(node)
        if known is not None:
            return known
        match node:
            case ast.Name():
                return self.look_up(node.id)
            case ast.Tuple():
                return tuple(self.find(part) for part in node.elts)
            case ast.UnaryOp(op=ast.USub()):
                return -self.find(node.operand)
            case ast.BinOp():
                return self.combine(node, node.op, self.find(node.left), self.find(node.right))
            case ast.Compare():
                return self.compare(node)
            case ast.Call():
                called, args = self.find(node.func), [self.find(arg) for arg in node.args]
                if isinstance(called, _Word):
                    return called.emit(self.f, *map(self.value, args))
                return called(*args) if isinstance(called, Layout) else self.call(called, args)
            case ast.Attribute():
                held = self.find(node.value)
                return self.field(held, node.attr) if isinstance(held, Fields) else getattr(held, node.attr)
            case ast.Subscript():
                table, number = self.find(node.value), self.find(node.slice)
                return Fields(table.layout, table.address, self.plus(table.on, number, WORD * table.layout.end))
            case ast.IfExp():
                test = self.known(node.test)
                if test is not None:
                    return self.find(node.body if test else node.orelse)
                return self.choose(node.test, node.body, node.orelse)
            case ast.BoolOp() | ast.UnaryOp():
                return self.choose(node, ast.Constant(True), ast.Constant(False))
        raise self.fault(node)

    def combine(self, node: ast.AST, how: ast.operator, a: Any, b: Any) -> Any:
        """The result of an operator. Divisors are known powers of two: `quotient` and `remainder` are for others."""
        if name := _SIMPLE.get(type(how)):
            return self.f.binary(name, self.value(a), self.value(b))
        if not isinstance(b, int) or b & (b - 1) or b < 1:
            raise self.fault(node)
        if isinstance(how, ast.Mod):
            return self.value(a) & (b - 1)
        return self.f.binary("ashr", self.value(a), b.bit_length() - 1)

    def field(self, record: Fields, name: str) -> Any:
        """A word of a record, loaded; a table as its first row."""
        layout, on = record.layout, self.plus(record.on, record.layout.at(name))
        if row := layout.rows.get(name):
            return Fields(row, record.address, on)
        return self.f.load("i64", self.f.pointer(record.address) + on, align=1)

    def plus(self, on: Any, number: Any, by: int = 1) -> Any:
        """A number some times added to another, either of which may be known."""
        if isinstance(number, int):
            number = number * by
        elif by != 1:
            number = self.f.binary("mul nsw", number, by)
        if isinstance(on, int) and isinstance(number, int):
            return on + number
        return self.f.binary("add nsw", self.value(on), self.value(number))

    def compare(self, node: ast.Compare) -> Any:
        """A comparison, or several in a row."""
        values = [self.value(self.find(part)) for part in (node.left, *node.comparators)]
        tests = [self.f.compare(_TESTS[type(how)], *values[k : k + 2]) for k, how in enumerate(node.ops)]
        return functools.reduce(operator.and_, tests)

    def choose(self, test: ast.expr, yes: ast.expr, no: ast.expr) -> Any:
        """One of two values, of which only that one is worked out."""
        first, second, after = self.labels("yes", "no", "after")
        self.branch(test, first, second)
        ends = []
        for block, node in ((first, yes), (second, no)):
            self.f.open(block)
            value = self.find(node)
            ends.append((self.value(value, "i1" if isinstance(value, bool) else "i64"), self.f.block))
            self.f.go(after)
        self.f.open(after)
        return self.join(*zip(*ends, strict=True))

    def branch(self, test: ast.expr, yes: Any, no: Any) -> None:
        """Go one way or the other; what comes after an `and` or an `or` that is decided is not worked out."""
        known = self.known(test)
        if known is not None:
            self.f.go(yes if known else no)
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self.branch(test.operand, no, yes)
        elif isinstance(test, ast.BoolOp):
            for part in test.values[:-1]:
                (rest,) = self.labels("rest")
                self.branch(part, *((rest, no) if isinstance(test.op, ast.And) else (yes, rest)))
                self.f.open(rest)
            self.branch(test.values[-1], yes, no)
        else:
            self.f.branch(self.find(test), yes, no)

    def join(self, values: Sequence[Any], blocks: Sequence[str]) -> Any:
        """The value of the block that was come from."""
        if len(values) == 1:
            return values[0]
        kind = next((value.type for value in values if not isinstance(value, int)), "i64")
        return self.f.join([(block, [self.value(one, kind)]) for one, block in zip(values, blocks, strict=True)])[0]


# The statements of a kernel in Python, written as LLVM has them.


@functools.cache
def _functions(path: str) -> dict[int, ast.FunctionDef]:
    """The functions of a source, by their first lines."""
    tree = ast.parse("".join(linecache.getlines(path)), path)
    return {node.lineno: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@functools.cache
def _find_changing(tree: ast.FunctionDef) -> set[str]:
    """The names that are given a value at more than one place; loops in turn may count by one name."""
    nodes = list(ast.walk(tree))
    counters = [node.target.id for node in nodes if isinstance(node, ast.For) and isinstance(node.target, ast.Name)]
    stored = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    stored += [argument.arg for argument in tree.args.args]
    return {name for name in stored if stored.count(name) > max(1, counters.count(name))}


class Body(Expressions):
    """One function on its way into the kernel, as often as it is called."""

    def __init__(self, function: Any, args: Sequence[Any], f: Function) -> None:
        if isinstance(function, MethodType):
            function, args = function.__func__, [function.__self__, *args]
        code = function.__code__
        self.tree = _functions(code.co_filename)[code.co_firstlineno]
        super().__init__(function, f, _find_changing(self.tree))
        self.exit = f.label("exit")
        self.results: list[tuple[str, Any]] = []
        """Returned values, and the block of each."""
        self.loops: list[tuple[str, str]] = []
        """Where `continue` and `break` lead."""
        for argument, value in zip(self.tree.args.args, args, strict=True):
            self.give(argument.arg, value)

    def run(self) -> Any:
        """Write it, and give what it returns: a value, a tuple of them, or None."""
        self.write(self.tree.body)
        if not self.f.is_over:
            if any(result is not None for _, result in self.results):
                self.f.add("unreachable")
            else:
                self.leave(None)
        self.f.open(self.exit)
        blocks, results = zip(*self.results, strict=True)
        if isinstance(results[0], tuple):
            return tuple(self.join(parts, blocks) for parts in zip(*results, strict=True))
        return None if results[0] is None else self.join(results, blocks)

    def call(self, function: Any, args: Sequence[Any]) -> Any:
        """Write a function that is called."""
        return Body(function, args, self.f).run()

    def leave(self, result: Any) -> None:
        """Return."""
        self.results.append((self.f.block, result))
        self.f.go(self.exit)

    def give(self, name: str, value: Any) -> None:
        """Give a name a value."""
        if name not in self.changing:
            self.names[name] = value
            return
        if name not in self.slots:
            kind = self.value(value).type
            self.slots[name] = kind, self.f.stack(kind)
        kind, place = self.slots[name]
        self.f.store(self.value(value, kind), place)

    def write(self, statements: Sequence[ast.stmt]) -> None:
        """Write statements, up to one that leads away."""
        for statement in statements:
            if self.f.is_over:
                return
            writer: Any = getattr(self, f"_{type(statement).__name__.lower()}", None)
            if writer is None:
                raise self.fault(statement)
            writer(statement)

    def _expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.find(node.value)

    def _assign(self, node: ast.Assign) -> None:
        value = self.find(node.value)
        for target in node.targets:
            self.unpack(target, value)

    def unpack(self, target: ast.expr, value: Any) -> None:
        """Give a name its value, or each part of a tuple."""
        if isinstance(target, ast.Tuple):
            for part, one in zip(target.elts, value, strict=True):
                self.unpack(part, one)
        else:
            self.give(target.id, value)  # type: ignore[attr-defined]  # kernels assign to names alone

    def _augassign(self, node: ast.AugAssign) -> None:
        name: Any = node.target
        self.give(name.id, self.combine(node, node.op, self.look_up(name.id), self.find(node.value)))

    def _return(self, node: ast.Return) -> None:
        self.leave(None if node.value is None else self.find(node.value))

    def _continue(self, _node: ast.Continue) -> None:
        self.f.go(self.loops[-1][0])

    def _break(self, _node: ast.Break) -> None:
        self.f.go(self.loops[-1][1])

    def _if(self, node: ast.If) -> None:
        known = self.known(node.test)
        if known is not None:
            self.write(node.body if known else node.orelse)
            return
        yes, no, after = self.labels("yes", "no", "after")
        self.branch(node.test, yes, no)
        for block, statements in ((yes, node.body), (no, node.orelse)):
            self.f.open(block)
            self.write(statements)
            self.go_on(after)
        self.f.open(after)

    def _while(self, node: ast.While) -> None:
        head, body, after = self.labels("head", "body", "after")
        self.f.go(head)
        self.f.open(head)
        self.branch(node.test, body, after)
        self.f.open(body)
        self.repeat(node.body, head, after)

    def _for(self, node: ast.For) -> None:
        if not isinstance(node.iter, ast.Call) or not isinstance(node.target, ast.Name):
            raise self.fault(node)
        limits = [self.find(limit) for limit in node.iter.args]
        first, last, step = (*((0, *limits) if len(limits) == 1 else limits), 1)[:3]
        head, body, on, after = self.labels("head", "body", "on", "after")
        place = self.f.stack("i64")
        self.f.store(first, place)
        self.f.go(head)
        self.f.open(on)
        self.f.store(self.f.binary("add nsw", self.f.load("i64", place), self.value(step)), place)
        self.f.go(head)
        self.f.open(head)
        count = self.f.load("i64", place)
        self.f.branch(self.f.compare("gt" if isinstance(step, int) and step < 0 else "lt", count, last), body, after)
        self.f.open(body)
        self.give(node.target.id, count)
        self.repeat(node.body, on, after)

    def repeat(self, statements: Sequence[ast.stmt], on: str, after: str) -> None:
        """The body of a loop."""
        self.loops.append((on, after))
        self.write(statements)
        self.go_on(on)
        self.loops.pop()
        self.f.open(after)

    def go_on(self, block: str) -> None:
        """Go to a block, unless something has led away already."""
        if not self.f.is_over:
            self.f.go(block)


# Kernels in Python as ones in LLVM: whole numbers, loops over ranges, branches, and words of LLVM itself.
#
# What is known when a kernel is made, such as a width, is a constant in it, and a branch that it closes is not written;
# attributes of objects are, and methods are called like functions.
# Functions that a kernel calls become part of it. LLVM's optimiser does the rest. A kernel takes 0.1 s, where Numba
# took 1.2, to find out types that are known here.


__all__ = ["Constant", "translate", "word"]


def translate(kernel: Any) -> str:
    """The text of `kernel(words, begin, end)`."""
    f = Function("kernel", "words begin end", "i64")
    f.ret(Body(kernel, f.args, f).run())
    f.lines[:] = _in_order(f.lines)
    return f.end()


def _in_order(lines: list[str]) -> list[str]:
    """Lines with their blocks in the order in which they were named: what is inside of a loop stands after the loop.

    LLVM allocates registers by the order of blocks, and copies by lines were measured with this one.
    """
    starts = [k for k, line in enumerate(lines) if line.endswith(":")]
    entry, *blocks = (lines[start:stop] for start, stop in itertools.pairwise([0, *starts, len(lines)]))
    blocks.sort(key=lambda block: int(block[0].strip(f"{string.ascii_letters}:")))
    return [*entry, *itertools.chain(*blocks)]
