"""The cost of a verb, whoever runs it: the bytes that it must move, and the arithmetic that it must do."""

from __future__ import annotations

import functools
import math
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from anydml.core.enums import DataType
from anydml.ir.attention import Attend
from anydml.ir.expressions import FOLDS, FUNCTIONS, Expr, call, load
from anydml.ir.numerics import expand
from anydml.ir.trees import walk
from anydml.ir.verbs import Computation, Joined, Repeat, Scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from anydml.ir.verbs import Primitive
    from anydml.ir.views import View


_COSTS = dict.fromkeys(("add", "sub", "mul", "div", "rem", "sqrt", *FOLDS), 1) | {"fma": 2}
"""Operations that count as arithmetic: what compares, chooses, converts or rounds does not."""


class Work(NamedTuple):
    """The least work: each element is moved once, and nothing is computed twice."""

    bytes: int
    flops: int
    """Sums, products, quotients and roots, of whole numbers as well; a function counts as what it is written out in."""


def work_of(primitive: Primitive) -> Work:
    """The work of a verb. Of attention all scores count, those too that no query sees."""
    return Work(_bytes(primitive), _flops(primitive))


def _bytes(primitive: Primitive) -> int:
    """An element counts once, however often windows meet in it or fetches read it."""
    fetches = Counter(int(node.value) for node in walk(*primitive.values) if node.op == "fetch")
    moved = sum(math.prod(view.sizes) * view.data_type.size_in_bytes for view in primitive.targets)
    for slot, view in enumerate(primitive.sources):
        count = fetches[slot] * math.prod(primitive.sizes) if slot in fetches else math.prod(view.sizes)
        moved += min(count, _reach(view)) * view.data_type.size_in_bytes
    return moved


def _reach(view: View) -> int:
    """The most elements that a view can show, by where its first and its last lie."""
    distinct = math.prod(size for size, stride in zip(view.sizes, view.strides, strict=True) if stride)
    return min(distinct, 1 + sum((size - 1) * abs(s) for size, s in zip(view.sizes, view.strides, strict=True)))


def _flops(primitive: Primitive) -> int:
    if isinstance(primitive, Attend):
        return sum(map(_flops, primitive.spelled()))
    if isinstance(primitive, Repeat):
        return sum(map(_flops, primitive.steps))
    if isinstance(primitive, Joined):
        return sum(map(_flops, primitive.verbs))
    if isinstance(primitive, Scan):
        return math.prod(primitive.sizes)
    return _of_trees(primitive) if isinstance(primitive, Computation) else 0


def _of_trees(primitive: Computation) -> int:
    """Values that vary along a row are computed for each element of it, and the rest once for the row."""
    whole = math.prod(primitive.sizes)
    rows = whole // max(math.prod(primitive.sizes[len(primitive.sizes) - primitive.depth :]), 1)
    nodes = list(_values(primitive.values))
    folded = set(_values(arg for node in nodes if node.op in FOLDS for arg in node.args))
    varies: set[Expr] = set()
    if not primitive.is_by_row:
        for node in nodes:
            if node.op in ("load", "fetch", "coordinate") or (
                node.op not in FOLDS and not varies.isdisjoint(node.args)
            ):
                varies.add(node)
    total = 0
    for node in nodes:
        is_each = node in folded or node in varies or node.op in FOLDS or not primitive.depth
        total += _cost(node) * (whole if is_each else rows)
    return total


def _values(roots: Iterable[Expr]) -> Iterator[Expr]:
    """The nodes of trees, but for those that compute indices."""
    roots = tuple(roots)
    return walk(*roots, known=[arg for node in walk(*roots) if node.op == "fetch" for arg in node.args])


def _cost(node: Expr) -> int:
    return _cost_of_function(node.op) if node.op in FUNCTIONS else _COSTS.get(node.op, 0)


@functools.cache
def _cost_of_function(name: str) -> int:
    """The operations on floats that a function is written out in: those on bits are not arithmetic."""
    tree = expand(call(name, *(load(i, DataType.FLOAT32) for i in range(FUNCTIONS[name]))))
    return sum(_COSTS.get(node.op, 0) for node in walk(tree) if node.type is not None and node.type.is_float)
