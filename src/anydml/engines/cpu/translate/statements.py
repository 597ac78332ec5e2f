"""The statements of a kernel in Python, written as LLVM has them."""

from __future__ import annotations

import ast
import functools
import linecache
from typing import TYPE_CHECKING, Any

from anydml.engines.cpu.translate.expressions import I64, Expressions, as_value

if TYPE_CHECKING:
    from collections.abc import Sequence


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
            if isinstance(target, ast.Tuple):
                for part, one in zip(target.elts, value, strict=True):
                    self.give(part.id, one)  # type: ignore[attr-defined] # a name
            else:
                self.give(target.id, value)  # type: ignore[attr-defined] # a name

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
