"""Functions that trees are made of, recognised: the trees that the functions themselves make are the patterns."""

from __future__ import annotations

import functools
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from anydml.enums import NUMPY_TYPES, DataType
from anydml.ir import numerics
from anydml.ir.expressions import Expr, maximum, minimum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ANY = "any"
"""The leaf of a pattern that stands for every tree of its type."""
_OF_NUMBERS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "max": maximum,
    "min": minimum,
    "mean": numerics.mean,
}
_OF_WHOLE: dict[str, Callable[[Expr, Expr], Expr]] = {
    "/": numerics.divide,
    "%": numerics.modulus_floor,
    "fmod": numerics.modulus_truncate,
    "<<": numerics.shift_left,
    ">>": numerics.shift_right,
}


class Named(NamedTuple):
    """A function by its name or its sign, and what it is of."""

    name: str
    args: tuple[Expr, ...]


def recognise(node: Expr) -> Named | None:
    """The function that a node is the result of."""
    if node.type is None or not node.args:
        return None
    for name, pattern in _patterns(node.type).get(node.op, ()):
        found: dict[int, Expr] = {}
        if _matches(pattern, node, found, set()):
            return Named(name, tuple(found[k] for k in sorted(found)))
    return None


@functools.cache
def _patterns(kind: DataType) -> dict[str, list[tuple[str, Expr]]]:
    """The patterns of a type, by the operation that stands outermost."""
    found = defaultdict(list)
    for name, pattern in _made(kind):
        found[pattern.op].append((name, pattern))
    return dict(found)


def _made(kind: DataType) -> Iterator[tuple[str, Expr]]:
    a, b = _any(0, kind), _any(1, kind)
    yield "sign", numerics.sign(a)
    yield from ((name, function(a, b)) for name, function in _OF_NUMBERS.items())
    if kind is DataType.FLOAT32:
        yield "%", numerics.modulus_floor(a, b)
    if kind.is_float:
        yield "round_half_away", numerics.round_half_away(a)
        return
    yield from ((name, function(a, b)) for name, function in _OF_WHOLE.items())
    if not kind.is_signed:
        yield "bit_count", numerics.bit_count(a)
    for other in NUMPY_TYPES:
        if not other.is_float:
            yield "pow", numerics.integer_power(a, _any(1, other))


def _any(position: int, kind: DataType) -> Expr:
    return Expr(_ANY, kind, (), position)


def _matches(pattern: Expr, node: Expr, found: dict[int, Expr], done: set[tuple[Expr, Expr]]) -> bool:
    if pattern.type is not node.type:
        return False
    if pattern.op == _ANY:
        return found.setdefault(int(pattern.value), node) is node
    if pattern is node or (pattern, node) in done:
        return True
    if pattern.op != node.op or not pattern.args:  # of leaves, equal ones are one object
        return False
    done.add((pattern, node))
    return all(_matches(a, b, found, done) for a, b in zip(pattern.args, node.args, strict=True))
