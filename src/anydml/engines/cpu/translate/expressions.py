"""The expressions of a kernel in Python, written as LLVM has them.

They are signed words, or what a word of LLVM gives. Sums and products do not overflow: they are counts and addresses.
"""

from __future__ import annotations

import ast
import functools
import operator
from typing import TYPE_CHECKING, Any

from llvmlite import ir

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
                return self.call(called, args)
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
