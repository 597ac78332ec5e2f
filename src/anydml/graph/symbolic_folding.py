"""Constant folding on symbolic sizes: a graph of a few whole numbers is run on object arrays, some elements symbols.

The verbs are those that an engine would run, so that whatever is written in them folds symbols as it folds numbers:
arithmetic is recorded, and each comparison is a guard. What is no whole number, or would be cut to its type's range,
is not folded.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.symbolic_sizes import OpenSize
from anydml.graph.lower import lower
from anydml.ir.expressions import number_of
from anydml.ir.trees import walk
from anydml.ir.verbs import Map, Reduce

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.core.enums import DataType
    from anydml.graph.description import GraphDesc
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Check, Primitive
    from anydml.ir.views import View

Array = np.ndarray[Any, Any]


def fold(graph: GraphDesc, given: Sequence[Array], types: Sequence[DataType]) -> list[Array] | None:
    """The outputs of a graph for inputs of those types, as rows; None where they are no whole numbers that fit."""
    recipe = lower(graph)
    if any(store.kind == "constant" for store in recipe.stores.values()):
        return None
    memory = _Memory({name: store.size_in_bytes for name, store in recipe.stores.items()})
    for i, (array, kind) in enumerate(zip(given, types, strict=True)):
        memory.rows[f"input{i}"], memory.types[f"input{i}"] = array.reshape(-1), kind
    if not all(memory.run(step.primitive) for step in recipe.steps):
        return None
    return [memory.rows[f"output{i}"] for i in range(len(graph.output_edges))]


class _Memory:
    """The rows of elements that stores are, and the type in which each was written."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        """`sizes` are those of stores, in bytes."""
        self._sizes = sizes
        self.rows: dict[str, Array] = {}
        self.types: dict[str, DataType] = {}

    def run(self, primitive: Primitive) -> bool:
        """Run a verb; whether it could be."""
        if not isinstance(primitive, Map | Reduce) or not all(map(self._is_inside, primitive.checks)):
            return False
        sources = [found for view in primitive.sources if (found := self._read(view)) is not None]
        if len(sources) < len(primitive.sources):
            return False
        made = [_evaluate(value, sources, primitive.sizes, primitive.depth) for value in primitive.values]
        return all(
            array is not None and self._write(view, np.broadcast_to(array, primitive.sizes))
            for view, array in zip(primitive.targets, made, strict=True)
        )

    def _write(self, view: View, array: Array) -> bool:
        kind = view.data_type
        if self.types.setdefault(view.tensor, kind) is not kind:
            return False
        if view.tensor not in self.rows:
            self.rows[view.tensor] = np.full(self._sizes[view.tensor] // kind.size_in_bytes, None, object)
        self.rows[view.tensor][_places(view)] = array[tuple(map(slice, view.sizes))]
        return True

    def _read(self, view: View) -> Array | None:
        row, written, places = self.rows[view.tensor], self.types[view.tensor], _places(view)
        if written.size_in_bytes != view.data_type.size_in_bytes or places.min() < 0 or places.max() >= len(row):
            return None
        found: Array = row[places]
        return found if written is view.data_type else _each(_kept(view.data_type), found)

    def _is_inside(self, check: Check) -> bool:
        indices = self._read(check.indices)
        if indices is None or not _are_plain(indices):
            return False
        least = 0 if check.indices.data_type.name.startswith("U") else -1
        return all(least * size <= index < size for k, size in enumerate(check.sizes) for index in indices[..., k].flat)


def _are_plain(array: Array) -> bool:
    return not any(type(one) is OpenSize for one in array.flat)


def _places(view: View) -> Array:
    """Where in its row each element of a view lies."""
    steps = [np.arange(size) * stride for size, stride in zip(view.sizes, view.strides, strict=True)]
    return np.asarray(sum(np.ix_(*steps), np.array(view.offset)))


def _evaluate(value: Expr, sources: Sequence[Any], shape: tuple[int, ...], depth: int) -> Array | None:
    """An expression at every coordinate of a shape; None where some node of it is no whole number that fits."""
    found: dict[Expr, Array] = {}
    for node in walk(value):
        if node.type is not None and node.type.is_float:
            return None
        made = _computed(node, [found[arg] for arg in node.args], sources, shape, depth)
        if made is not None and node.type is not None and node.op not in _AS_THEY_ARE:
            made = _each(_kept(node.type), made)
        if made is None:
            return None
        found[node] = made
    return found[value]


def _computed(
    node: Expr, args: Sequence[Array], sources: Sequence[Array], shape: tuple[int, ...], depth: int
) -> Array | None:
    if node.op == "load":
        return sources[int(node.value)]
    if node.op == "fetch":
        if not all(map(_are_plain, args)):
            return None
        return np.asarray(sources[int(node.value)][tuple(arg.astype(np.int64) for arg in args)], object)
    if node.op == "coordinate":
        k = int(node.value)
        return np.arange(shape[k]).astype(object).reshape([-1 if i == k else 1 for i in range(len(shape))])
    if node.op in ("const", "given"):
        number = number_of(node).item()
        return np.array(number if node.type is not None else lambda: number, object)
    if node.op in _FOLDS:
        kept = shape[: len(shape) - depth]
        rows = np.broadcast_to(args[0], shape).reshape(*kept, math.prod(shape[len(kept) :]))
        folded: Any = np.frompyfunc(_FOLDS[node.op], 2, 1).reduce(rows, axis=-1)
        return np.asarray(folded, object).reshape(*kept, *(1,) * depth)
    compute = (_TESTS if node.type is None else _OPERATIONS).get(node.op)
    return None if compute is None else _each(compute, *args)


def _each(compute: Callable[..., Any], *arrays: Array) -> Array | None:
    """The results for elements that NumPy broadcasts to one another; None where there is none for one of them."""
    made = np.asarray(np.frompyfunc(compute, len(arrays), 1)(*arrays), object)
    return None if any(one is None for one in made.flat) else made


def _kept(kind: DataType) -> Callable[[Any], Any]:
    """What gives a number of a type as it is, and None for one that the type does not hold.

    Sizes of 64 bits are taken for such as do not wrap: those of arrays lie below 2^32.
    """
    is_signed, bits = not kind.name.startswith("U"), 8 * kind.size_in_bytes
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if is_signed else (0, 2**bits)

    def keep(number: Any) -> Any:
        if kind.size_in_bytes == _WIDEST and type(number) is not int:
            return number if is_signed or number >= 0 else None
        return number if low <= number < high else None

    return keep


_WIDEST = 8
"""Bytes."""


def _quotient(a: Any, b: Any) -> Any:
    """Cut toward 0."""
    if b == 0:
        return None
    found = abs(a) // abs(b)
    return found if (a >= 0) == (b > 0) else -found


def _remainder(a: Any, b: Any) -> Any:
    """With the sign of the first."""
    if b == 0:
        return None
    return abs(a) % abs(b) if a >= 0 else -(abs(a) % abs(b))


def _shifted(shift: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, by: shift(a, by) if 0 <= by < _MOST_BITS else None


_MOST_BITS = 64
_AS_THEY_ARE = ("load", "fetch", "const", "given", "coordinate", "where")
"""Whose numbers are of their type already."""
_OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": _quotient, "rem": _remainder,
    "neg": operator.neg, "abs": abs, "and": operator.and_, "or": operator.or_, "xor": operator.xor,
    "not": lambda a: -1 - a, "shl": _shifted(operator.lshift), "shr": _shifted(operator.rshift),
    "where": lambda test, a, b: a if a is b or test() else b, "cast": lambda a: a, "bits": lambda a: a,
}  # fmt: skip
_TESTS: dict[str, Callable[..., Callable[[], Any]]] = {
    "lt": lambda a, b: lambda: a < b, "le": lambda a, b: lambda: a <= b, "eq": lambda a, b: lambda: a == b,
    "and": lambda a, b: lambda: a() and b(), "or": lambda a, b: lambda: a() or b(),
    "xor": lambda a, b: lambda: a() is not b(), "not": lambda a: lambda: not a(),
    "where": lambda test, a, b: lambda: a() if test() else b(),
}  # fmt: skip
"""A truth is found where something is chosen by it: one that changes nothing guards nothing, as whether a remainder of
positive numbers is 0."""
_FOLDS: dict[str, Callable[..., Any]] = {
    "fold_sum": operator.add, "fold_product": operator.mul, "fold_max": max, "fold_min": min,
}  # fmt: skip
