"""Trees of expressions as a whole: walked, changed and written."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from anydml.ir.expressions import LEAVES, Expr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from anydml.core.enums import DataType
    from anydml.ir.expressions import Number


NOTED = 256
"""The most nodes of a tree that is walked once: to compile a decoder of 12 layers takes a tenth less time so."""


def walk(*roots: Expr, known: Iterable[Expr] = ()) -> Iterator[Expr]:
    """Every node once, each after its arguments; but for those that are known, and what only they need."""
    if len(roots) != 1 or known != ():
        return _walk(roots, known)
    (root,) = roots
    if root.below is not None:
        return itertools.chain(root.below, roots)
    nodes = tuple(_walk(roots, ()))
    if len(nodes) <= NOTED:
        root.below = nodes[:-1]  # a node that held itself would stay until a collection
    return iter(nodes)


def _walk(roots: Sequence[Expr], known: Iterable[Expr]) -> Iterator[Expr]:
    seen: set[Expr] = set(known)
    pending = [(root, False) for root in reversed(roots)]
    while pending:
        node, is_ready = pending.pop()
        if node in seen:
            continue
        if is_ready or not node.args:
            seen.add(node)
            yield node
        else:
            pending.append((node, True))
            pending += [(arg, False) for arg in reversed(node.args)]


def rewrite(root: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """A tree with every node changed, given with its arguments changed before."""
    made: dict[Expr, Expr] = {}
    for node in walk(root):
        args = tuple(made[arg] for arg in node.args)
        made[node] = change(node if args == node.args else Expr(node.op, node.type, args, node.value))
    return made[root]


def moved(root: Expr, cuts: Sequence[tuple[int, int]]) -> Expr:
    """A tree for a part of the coordinates: those start + step·i, each dimension's start and step given."""

    def change(node: Expr) -> Expr:
        start, step = cuts[int(node.value)] if node.op == "coordinate" else (0, 1)
        return node if (start, step) == (0, 1) else node * step + start

    return rewrite(root, change)


def take_apart(root: Expr) -> list[tuple[str, DataType | None, tuple[int, ...], Number]]:
    """The nodes one after the other, arguments by number: a node in a node is too deep for pickle from some 300 on."""
    places = {node: i for i, node in enumerate(walk(root))}
    return [(node.op, node.type, tuple(places[arg] for arg in node.args), node.value) for node in places]


def put_together(parts: Sequence[tuple[str, DataType | None, tuple[int, ...], Number]]) -> Expr:
    """The tree of nodes that were taken apart."""
    made: list[Expr] = []
    for op, kind, args, value in parts:
        made.append(Expr(op, kind, tuple(made[i] for i in args), value))
    return made[-1]


def loads(*roots: Expr) -> list[Expr]:
    """The loads of trees."""
    return [node for node in walk(*roots) if node.op == "load"]


def fetched(*roots: Expr) -> frozenset[int]:
    """The sources that trees fetch from, by position."""
    return frozenset(int(node.value) for node in walk(*roots) if node.op == "fetch")


def write(*roots: Expr, numbers: bool = True) -> str:
    """Trees in text, a node a word; without numbers those that users chose are left out, as kernels leave them."""
    names: dict[Expr, int] = {}
    words = []
    for node in walk(*roots):
        names[node] = len(names)
        kind = "truth" if node.type is None else node.type.name
        has_value = node.op in (*LEAVES, "fetch") and (numbers or node.op != "given")
        value = [repr(node.value)] if has_value else []
        words.append(":".join([node.op, kind, *value, *(str(names[arg]) for arg in node.args)]))
    return " ".join([*words, *(f"={names[root]}" for root in roots)])
