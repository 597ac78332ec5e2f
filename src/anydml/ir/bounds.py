"""Bounds: the bytes of each tensor that a verb may touch, and proofs by interval arithmetic that no others are touched.

Three proofs follow one another, each made when something is compiled, before anything runs. The record that a program
is bound with stays inside the views of its verb (an engine proves it, as `engines.cpu.bounds` does); the views stay
inside their tensors, and the indices that expressions compute inside the views that they fetch from (both here);
whatever is bound to a tensor has all of its bytes (`runtime.binding` asks for it, always). They are made where
ANYDML_CHECK_BOUNDS=1 is in the environment: nothing a user writes can make one fail.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from anydml.core.memory import span
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from anydml.core.enums import DataType
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Primitive
    from anydml.ir.views import View

SWITCH = "ANYDML_CHECK_BOUNDS"
"""The variable of the environment that turns the proofs on, being neither empty nor 0."""


def are_checked() -> bool:
    """Whether what is compiled is to be proved."""
    return os.environ.get(SWITCH, "0") not in ("", "0")


class BoundsError(AssertionError):
    """A plan that would touch memory outside of its tensors: a fault of anydml itself, found before anything ran."""


class Span(NamedTuple):
    """Bytes from one up to another, which is not among them; in a tensor they are counted from its first element."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.low} .. {self.high}"

    def holds(self, other: Span) -> bool:
        """Whether another lies inside."""
        return self.low <= other.low and other.high <= self.high

    def joined(self, other: Span | None) -> Span:
        """The smallest that holds both."""
        return self if other is None else Span(min(self.low, other.low), max(self.high, other.high))


def reach(view: View) -> Span | None:
    """The bytes of a tensor that a view touches; None where it has no element."""
    if not all(view.sizes):
        return None
    low, high = span(view.sizes, view.strides)
    return Span(*view.data_type.byte_range(view.offset + low, view.offset + high))


def reaches(views: Iterable[View]) -> dict[str, Span]:
    """By tensor, the bytes that views touch."""
    found: dict[str, Span] = {}
    for view in views:
        if (own := reach(view)) is not None:
            found[view.tensor] = own.joined(found.get(view.tensor))
    return found


def check_views(primitives: Iterable[Primitive], tensors: Mapping[str, Span]) -> None:
    """Prove that the views of verbs stay inside their tensors; what is not among those is not looked at."""
    for primitive in primitives:
        for view in primitive.views:
            own, room = reach(view), tensors.get(view.tensor)
            if own is not None and room is not None and not room.holds(own):
                raise BoundsError(
                    f"{type(primitive).__name__}: a view of {view.tensor!r}, of sizes {view.sizes} and strides "
                    f"{view.strides} from element {view.offset} on, touches its bytes {own}; it has {room}"
                )


def check_fetches(primitive: Primitive) -> None:
    """Prove that every fetch is at indices inside of the view that it fetches from, whatever is read."""
    if not all(primitive.sizes):
        return
    ranges: dict[Expr, Range] = {}
    for node in walk(*primitive.values):
        ranges[node] = _range_of(node, ranges, primitive.sizes)
        if node.op == "fetch":
            source = primitive.sources[int(node.value)]
            for k, (index, size) in enumerate(zip(node.args, source.sizes, strict=True)):
                least, most = ranges[index]
                if least < 0 or most >= size:
                    raise BoundsError(
                        f"{type(primitive).__name__}: a fetch from {source.tensor!r} is at {least} .. {most} along "
                        f"dimension {k}, which has {size} elements"
                    )


# The numbers that a node may be

Range: TypeAlias = tuple[float, float]
"""The least and the largest number; those of integers are integers. Truths have none that anybody asks for."""
_ALL: Range = (-math.inf, math.inf)


def _range_of(node: Expr, known: Mapping[Expr, Range], sizes: Sequence[int]) -> Range:
    """The numbers that a node may be, given those of its arguments; NaN aside."""
    if node.op == "coordinate":
        return 0, max(sizes[int(node.value)] - 1, 0)
    if node.op in ("const", "given"):
        return node.value, node.value
    limits = _limits(node.type)
    args = [known[arg] for arg in node.args]
    if node.op == "where":
        found = _either(node, args, known)
    elif node.op == "cast":
        found = _cast(args[0], node.args[0].type, node.type)
    elif node.type is None or node.type.is_float:
        # Of floats what a clamp leaves is followed, through roundings to whole numbers; not their arithmetic.
        round_ = _WHOLE.get(node.op)
        return _ALL if round_ is None else (round_(args[0][0]), round_(args[0][1]))
    else:
        found = _of_integers(node, args, known) or limits
    # What passes an integer type's limits wraps.
    return found if limits[0] <= found[0] and found[1] <= limits[1] else limits


def _limits(kind: DataType | None) -> Range:
    return _ALL if kind is None or kind.is_float else kind.limits


def _cast(x: Range, source: DataType | None, target: DataType | None) -> Range:
    """A number becomes the nearest of a float type; a float loses its fraction in an integer type, and NaN is 0."""
    low, high = x
    if target is not None and target.is_float:
        with np.errstate(over="ignore"):
            return float(target.dtype.type(low)), float(target.dtype.type(high))
    if source is not None and source.is_float:
        least, most = _limits(target)
        return min(math.trunc(max(low, least)), 0), max(math.trunc(min(high, most)), 0)
    return x


def _whole(name: str) -> Callable[[float], float]:
    return lambda end: end if math.isinf(end) else float(getattr(np, name)(end))


_WHOLE = {name: _whole(name) for name in ("floor", "ceil", "rint", "trunc")}


def _of_integers(node: Expr, args: Sequence[Range], known: Mapping[Expr, Range]) -> Range | None:
    """The numbers of an operation on integers; None for any of its type."""
    if node.op in ("add", "sub", "mul", "neg"):
        return _sum_range(_terms(node), known)
    (a, b), *_ = args[0] if args else _ALL, None
    if node.op == "abs":
        return (0 if a <= 0 <= b else min(abs(a), abs(b))), max(abs(a), abs(b))
    if len(args) < 2:
        return None
    c, d = args[1]
    if node.op == "div" and c > 0:
        ends = [
            int(x / y) if math.isinf(x) else int(abs(x) // y) * (1 if x >= 0 else -1) for x in (a, b) for y in (c, d)
        ]
        return min(ends), max(ends)
    if node.op == "rem" and c > 0:
        return max(-(d - 1), a) if a < 0 else 0, min(d - 1, b) if b > 0 else 0
    if node.op == "and" and (c >= 0 or a >= 0):
        return 0, min(most for least, most in args if least >= 0)
    if node.op == "shr" and c >= 0 and d < 64:
        ends = [int(x) >> int(y) for x in (a, b) for y in (c, d)]
        return min(ends), max(ends)
    return None


def _either(node: Expr, args: Sequence[Range], known: Mapping[Expr, Range]) -> Range:
    """One of two: the smaller or the larger of two, or what a test of theirs leaves of them."""
    test, yes, no = node.args
    _, (a, b), (c, d) = args
    if test.op == "or" and test.type is None:  # which is true of NaN as well
        test = test.args[0]
    if test.op in ("lt", "le"):
        x, y = test.args
        if (yes, no) == (x, y):
            return min(a, c), min(b, d)
        if (yes, no) == (y, x):
            return max(a, c), max(b, d)
        # Where x < y holds, y - x - 1 is 0 at least, and where it does not x - y is.
        if x.type is not None and not x.type.is_float:
            strict = int(test.op == "lt")
            (a, b) = _given((a, b), yes, (y, x), strict, known)
            (c, d) = _given((c, d), no, (x, y), 1 - strict, known)
    return min(a, c), max(b, d)


_Terms: TypeAlias = tuple[dict["Expr", int], int]
"""Nodes with their factors, and a number: what a sum is of."""


def _terms(node: Expr) -> _Terms:
    """An integer node as a sum of others; a float is one of its own."""
    if node.type is None or node.type.is_float:
        return {node: 1}, 0
    if node.op in ("const", "given"):
        return {}, int(node.value)
    if node.op in ("add", "sub", "neg"):
        parts = [_terms(arg) for arg in node.args]
        factors = (-1,) if node.op == "neg" else (1, -1 if node.op == "sub" else 1)
        return _summed(list(zip(parts, factors, strict=True)))
    if node.op == "mul":
        (a, p), (b, q) = map(_terms, node.args)
        if not a or not b:
            return _summed([((b, q), p)] if not a else [((a, p), q)])
    return {node: 1}, 0


def _summed(parts: Sequence[tuple[_Terms, int]]) -> _Terms:
    found: dict[Expr, int] = {}
    for (terms, _), times in parts:
        for node, factor in terms.items():
            found[node] = found.get(node, 0) + factor * times
    return {node: factor for node, factor in found.items() if factor}, sum(
        number * times for (_, number), times in parts
    )


def _sum_range(sum_: _Terms, known: Mapping[Expr, Range]) -> Range | None:
    terms, number = sum_
    low: float = number
    high: float = number
    for node, factor in terms.items():
        if node.op == "mul":  # of two that are no numbers
            ends = [x * y for x in known[node.args[0]] for y in known[node.args[1]]]
            own = (min(ends), max(ends))
        else:
            own = known[node]
        low += factor * own[factor < 0]
        high += factor * own[factor > 0]
    return low, high


def _given(own: Range, node: Expr, pair: tuple[Expr, Expr], less: int, known: Mapping[Expr, Range]) -> Range:
    """What is left of a node's numbers where a - b - less is 0 at least."""
    low, high = own
    a, b = pair
    above = _summed([(_terms(a), 1), (_terms(b), -1)])
    for times in (1, -1):
        # The node is as much as that, or as its negative, but for a number.
        terms, number = _summed([(_terms(node), 1), (above, -times)])
        if not terms:
            low, high = (max(low, number + less), high) if times > 0 else (low, min(high, number - less))
    if node is a:
        low = max(low, known[b][0] + less)
    if node is b:
        high = min(high, known[a][1] - less)
    return low, high
