"""The Python subset that kernels may be written in, translated to LLVM IR: whole numbers, loops over ranges, branches,
and intrinsics as calls.
"""

from __future__ import annotations

import ast
import functools
import linecache
import operator
from types import MethodType
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from anydml.engines.cpu.launch.record import WORD, Fields, Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# The expressions of a kernel in Python, written as LLVM has them.
#
# They are signed words, or what a word of LLVM gives. Sums and products do not overflow: they are counts and addresses.


I64, I1 = ir.IntType(64), ir.IntType(1)
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
_SIMPLE: dict[type, str] = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.BitAnd: "and_"}
_TESTS: dict[type, str] = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


class _Word:
    """Something that kernels call and that LLVM has: `emit(builder, *values)` writes it."""

    def __init__(self, emit: Callable[..., Any]) -> None:
        self.emit = emit


def word(emit: Callable[..., Any]) -> Any:
    """Have kernels call `emit(builder, *values)`, without the builder."""
    return _Word(emit)


def as_value(value: Any, kind: Any = I64) -> Any:
    """A number that is known as one of LLVM's; others are as they are."""
    return ir.Constant(kind, int(value)) if isinstance(value, int) else value


def place_of(builder: Any, address: Any, offset: Any) -> Any:
    """Some bytes on from an address, as LLVM adds to pointers, so that a loop over them can be vectorised."""
    return builder.gep(builder.inttoptr(address, ir.PointerType()), [offset], source_etype=ir.IntType(8))


def load_at(builder: Any, address: Any, offset: Any, kind: Any) -> Any:
    """What lies some bytes on from an address, which may be any."""
    value = builder.load(place_of(builder, address, offset), typ=kind)
    value.align = 1
    return value


class Expressions:
    """Writes the expressions of one function."""

    def __init__(self, function: Any, builder: Any, changing: set[str]) -> None:
        self.builder, self.changing = builder, changing
        code = function.__code__
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        self.names: dict[str, Any] = {name: cell.cell_contents for name, cell in cells}
        self.around = function.__globals__
        self.path = code.co_filename
        self.slots: dict[str, Any] = {}
        """The memory of names that change, which LLVM keeps in registers."""

    def call(self, function: Any, args: Sequence[Any]) -> Any:
        """Write a function that is called."""
        raise NotImplementedError  # statements, which write it, are a class of this one

    def fault(self, node: ast.AST) -> Exception:
        """Python that no kernel can have."""
        return SyntaxError(f"{self.path}: kernels do not have '{ast.unparse(node)}'")

    def blocks(self, *names: str) -> list[Any]:
        """Blocks to come."""
        return [self.builder.append_basic_block(name) for name in names]

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
            return self.builder.load(slot, typ=slot.kind)
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
                return self.builder.neg(self.find(node.operand))
            case ast.BinOp():
                return self.combine(node, node.op, self.find(node.left), self.find(node.right))
            case ast.Compare():
                return self.compare(node)
            case ast.Call():
                called, args = self.find(node.func), [self.find(arg) for arg in node.args]
                if isinstance(called, _Word):
                    return called.emit(self.builder, *map(as_value, args))
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
            flags = ["nsw"] if name != "and_" else []
            return getattr(self.builder, name)(as_value(a), as_value(b), flags=flags)
        if not isinstance(b, int) or b & (b - 1) or b < 1:
            raise self.fault(node)
        if isinstance(how, ast.Mod):
            return self.builder.and_(as_value(a), as_value(b - 1))
        return self.builder.ashr(as_value(a), as_value(b.bit_length() - 1))

    def field(self, record: Fields, name: str) -> Any:
        """A word of a record, loaded; a table as its first row."""
        layout, on = record.layout, self.plus(record.on, record.layout.at(name))
        if row := layout.rows.get(name):
            return Fields(row, record.address, on)
        return load_at(self.builder, record.address, as_value(on), I64)

    def plus(self, on: Any, number: Any, by: int = 1) -> Any:
        """A number some times added to another, either of which may be known."""
        if isinstance(number, int):
            number = number * by
        elif by != 1:
            number = self.builder.mul(number, as_value(by), flags=["nsw"])
        if isinstance(on, int) and isinstance(number, int):
            return on + number
        return self.builder.add(as_value(on), as_value(number), flags=["nsw"])

    def compare(self, node: ast.Compare) -> Any:
        """A comparison, or several in a row."""
        values = [as_value(self.find(part)) for part in (node.left, *node.comparators)]
        kinds = [_TESTS[type(how)] for how in node.ops]
        tests = [self.builder.icmp_signed(kind, *values[k : k + 2]) for k, kind in enumerate(kinds)]
        return functools.reduce(self.builder.and_, tests)

    def choose(self, test: ast.expr, yes: ast.expr, no: ast.expr) -> Any:
        """One of two values, of which only that one is worked out."""
        first, second, after = self.blocks("yes", "no", "after")
        self.branch(test, first, second)
        ends = []
        for block, node in ((first, yes), (second, no)):
            self.builder.position_at_end(block)
            value = self.find(node)
            ends.append((as_value(value, I1 if isinstance(value, bool) else I64), self.builder.block))
            self.builder.branch(after)
        self.builder.position_at_end(after)
        return self.join(*zip(*ends, strict=True))

    def branch(self, test: ast.expr, yes: Any, no: Any) -> None:
        """Go one way or the other; what comes after an `and` or an `or` that is decided is not worked out."""
        known = self.known(test)
        if known is not None:
            self.builder.branch(yes if known else no)
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self.branch(test.operand, no, yes)
        elif isinstance(test, ast.BoolOp):
            for part in test.values[:-1]:
                (rest,) = self.blocks("rest")
                self.branch(part, *((rest, no) if isinstance(test.op, ast.And) else (yes, rest)))
                self.builder.position_at_end(rest)
            self.branch(test.values[-1], yes, no)
        else:
            value = self.find(test)
            if value.type != I1:
                value = self.builder.icmp_signed("!=", value, as_value(0))
            self.builder.cbranch(value, yes, no)

    def join(self, values: Sequence[Any], blocks: Sequence[Any]) -> Any:
        """The value of the block that was come from."""
        if len(values) == 1:
            return values[0]
        kind = next((value.type for value in values if not isinstance(value, int)), I64)
        joined = self.builder.phi(kind)
        for value, block in zip(values, blocks, strict=True):
            joined.add_incoming(as_value(value, kind), block)
        return joined


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

    def __init__(self, function: Any, args: Sequence[Any], builder: Any) -> None:
        if isinstance(function, MethodType):
            function, args = function.__func__, [function.__self__, *args]
        code = function.__code__
        self.tree = _functions(code.co_filename)[code.co_firstlineno]
        super().__init__(function, builder, _find_changing(self.tree))
        self.exit = builder.append_basic_block("exit")
        self.results: list[tuple[Any, Any]] = []
        """Returned values, and the block of each."""
        self.loops: list[tuple[Any, Any]] = []
        """Where `continue` and `break` lead."""
        for argument, value in zip(self.tree.args.args, args, strict=True):
            self.give(argument.arg, value)

    def run(self) -> Any:
        """Write it, and give what it returns: a value, a tuple of them, or None."""
        self.write(self.tree.body)
        if not self.builder.block.is_terminated:
            if any(result is not None for _, result in self.results):
                self.builder.unreachable()
            else:
                self.leave(None)
        self.builder.position_at_end(self.exit)
        blocks, results = zip(*self.results, strict=True)
        if isinstance(results[0], tuple):
            return tuple(self.join(parts, blocks) for parts in zip(*results, strict=True))
        return None if results[0] is None else self.join(results, blocks)

    def call(self, function: Any, args: Sequence[Any]) -> Any:
        """Write a function that is called."""
        return Body(function, args, self.builder).run()

    def leave(self, result: Any) -> None:
        """Return."""
        self.results.append((self.builder.block, result))
        self.builder.branch(self.exit)

    def give(self, name: str, value: Any) -> None:
        """Give a name a value."""
        if name not in self.changing:
            self.names[name] = value
            return
        if name not in self.slots:
            kind = as_value(value).type
            with self.builder.goto_entry_block():
                self.slots[name] = self.builder.alloca(kind)
            self.slots[name].kind = kind
        self.builder.store(as_value(value, self.slots[name].kind), self.slots[name])

    def write(self, statements: Sequence[ast.stmt]) -> None:
        """Write statements, up to one that leads away."""
        for statement in statements:
            if self.builder.block.is_terminated:
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
        self.builder.branch(self.loops[-1][0])

    def _break(self, _node: ast.Break) -> None:
        self.builder.branch(self.loops[-1][1])

    def _if(self, node: ast.If) -> None:
        known = self.known(node.test)
        if known is not None:
            self.write(node.body if known else node.orelse)
            return
        yes, no, after = self.blocks("yes", "no", "after")
        self.branch(node.test, yes, no)
        for block, statements in ((yes, node.body), (no, node.orelse)):
            self.builder.position_at_end(block)
            self.write(statements)
            self.go_on(after)
        self.builder.position_at_end(after)

    def _while(self, node: ast.While) -> None:
        head, body, after = self.blocks("head", "body", "after")
        self.builder.branch(head)
        self.builder.position_at_end(head)
        self.branch(node.test, body, after)
        self.builder.position_at_end(body)
        self.repeat(node.body, head, after)

    def _for(self, node: ast.For) -> None:
        if not isinstance(node.iter, ast.Call) or not isinstance(node.target, ast.Name):
            raise self.fault(node)
        limits = [self.find(limit) for limit in node.iter.args]
        first, last, step = (*((0, *limits) if len(limits) == 1 else limits), 1)[:3]
        before = self.builder.block
        head, body, on, after = self.blocks("head", "body", "on", "after")
        self.builder.branch(head)
        self.builder.position_at_end(head)
        count = self.builder.phi(I64)
        count.add_incoming(as_value(first), before)
        test = self.builder.icmp_signed(">" if isinstance(step, int) and step < 0 else "<", count, as_value(last))
        self.builder.cbranch(test, body, after)
        self.builder.position_at_end(on)
        count.add_incoming(self.builder.add(count, as_value(step), flags=["nsw"]), on)
        self.builder.branch(head)
        self.builder.position_at_end(body)
        self.give(node.target.id, count)
        self.repeat(node.body, on, after)

    def repeat(self, statements: Sequence[ast.stmt], on: Any, after: Any) -> None:
        """The body of a loop."""
        self.loops.append((on, after))
        self.write(statements)
        self.go_on(on)
        self.loops.pop()
        self.builder.position_at_end(after)

    def go_on(self, block: Any) -> None:
        """Go to a block, unless something has led away already."""
        if not self.builder.block.is_terminated:
            self.builder.branch(block)


# Kernels in Python as ones in LLVM: whole numbers, loops over ranges, branches, and words of LLVM itself.
#
# What is known when a kernel is made, such as a width, is a constant in it, and a branch that it closes is not written;
# attributes of objects are, and methods are called like functions.
# Functions that a kernel calls become part of it. LLVM's optimiser does the rest. A kernel takes 0.1 s, where Numba
# took 1.2, to find out types that are known here.


__all__ = ["load_at", "place_of", "translate", "word"]


def translate(kernel: Any) -> str:
    """The text of `kernel(words, begin, end)`."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(I64, [I64] * 3), "kernel")
    start, body = function.append_basic_block("start"), function.append_basic_block("body")
    builder = ir.IRBuilder(body)
    builder.ret(as_value(Body(kernel, function.args, builder).run()))
    ir.IRBuilder(start).branch(body)
    return str(module)
