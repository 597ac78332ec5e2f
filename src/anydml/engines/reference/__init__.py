"""The reference engine: the primitives in plain NumPy, a few lines each. Never fast, and the oracle for every other."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.memory import HOST, numpy_view, reserve_host
from anydml.engines.common.engine import Engine
from anydml.engines.common.program import Program
from anydml.engines.common.repeat import compile_repeat
from anydml.engines.reference.evaluate import AT_ONCE, evaluate
from anydml.ir.bounds import are_checked, check_fetches
from anydml.ir.contraction import match_contraction
from anydml.ir.patterns import is_copy
from anydml.ir.trees import loads
from anydml.ir.verbs import IndexFault, Map, Reduce, Repeat, Scan, Scatter, Sort

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.core.memory import Buffer
    from anydml.ir.contraction import Contraction
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Check, Primitive
    from anydml.ir.views import View


Array = np.ndarray[Any, Any]


class ReferenceEngine(Engine):
    """Plain NumPy. Every verb is spelled out: the plainest is the oracle."""

    name = "reference"
    memory = HOST

    def reserve(self, size: int) -> Buffer:
        """So many bytes of the host's memory."""
        return reserve_host(size)

    def compile(self, primitive: Primitive, constants: frozenset[str] = frozenset()) -> Program:
        """Nothing to plan."""
        if are_checked():
            check_fetches(primitive)  # what views touch, NumPy does
        return (
            compile_repeat(self, primitive, constants) if isinstance(primitive, Repeat) else ReferenceProgram(primitive)
        )


@dataclass(frozen=True, slots=True)
class ReferenceProgram(Program):
    """A primitive, to be bound."""

    primitive: Primitive

    def bind(self, places: Mapping[str, int]) -> Callable[[], None]:
        """Make the NumPy views; a dispatch works on them."""
        arrays = [_array(view, places[view.tensor]) for view in self.primitive.views]
        return functools.partial(_checked, self.primitive, *arrays)


def _array(view: View, place: int) -> Array:
    first = place + view.offset * view.data_type.size_in_bytes
    return numpy_view(first, view.sizes, view.strides, view.data_type.dtype)


def _bits(array: Array) -> Array:
    """The same elements as unsigned integers, so that a copy moves every bit of a NaN."""
    return array.view(f"u{array.dtype.itemsize}")


def copy(source: Array, target: Array) -> None:
    """Move every element."""
    np.copyto(_bits(target), _bits(source))


def find_outside(check: Check, indices: Array) -> IndexFault | None:
    """The first tuple with an index outside its dimension.

    They are compared in their own type: an unsigned one has no negatives, and 2^64 - 1 must not turn into -1.
    """
    indices = np.array(indices)  # read once: another thread may write to them
    columns = [indices[..., k] for k in range(len(check.sizes))]
    signed = indices.dtype.kind == "i"
    pairs = zip(columns, check.sizes, strict=True)
    outside = np.stack([(index >= size) | ((index < -size) & signed) for index, size in pairs], axis=-1)
    if not outside.any():
        return None
    *position, k = (int(p) for p in np.argwhere(outside)[0])
    found = tuple(int(i) for i in indices[tuple(position)])
    return IndexFault(tuple(position), found, check.dimension + k, check.sizes[k], check.node)


def scan(primitive: Scan, source: Array, *others: Array) -> None:
    """Add up or multiply along the axis, floats in float64; rounding happens once, in the write."""
    known = len(primitive.sources) - 1
    before, (target, *after) = others[:known], others[known:]
    axis = primitive.axis
    if primitive.reverse:
        source, target = np.flip(source, axis), np.flip(target, axis)
    accumulate = np.cumsum if primitive.function == "sum" else np.cumprod
    accumulator = np.float64 if source.dtype.kind == "f" else source.dtype
    with np.errstate(all="ignore"):
        tally = accumulate(np.concatenate([*before, source], axis, dtype=accumulator), axis=axis, dtype=accumulator)
        if not before:
            start = np.full_like(np.take(tally, [0], axis), 0 if primitive.function == "sum" else 1)
            tally = np.concatenate([start, tally], axis)
        for place in after:
            np.copyto(place, np.take(tally, [-1], axis))
        np.copyto(target, np.delete(tally, -1 if primitive.exclusive else 0, axis), casting="same_kind")


def compute(primitive: Map, *arrays: Array) -> None:
    """Evaluate the expression for every element, all of them before one is written."""
    read = len(primitive.sources)
    sources, targets = arrays[:read], arrays[read:]
    if is_copy(primitive):
        copy(sources[0], targets[0])
        return
    found = [evaluate(value, sources, primitive.sizes) for value in primitive.values]
    for target, values in zip(targets, apart(found), strict=True):
        np.copyto(target, values)


# Reduces: rows folded, and contractions as matrix products


PRODUCTS = 16
"""Of floats that are added up in the time of one that is folded otherwise."""


def reduce(primitive: Reduce, *arrays: Array) -> None:
    """Evaluate the expression along every row, all of it before an element is written."""
    read = len(primitive.sources)
    sources, targets = arrays[:read], arrays[read:]
    product = match_contraction(primitive)
    known = {product.fold: _product(product, sources)} if product else {}
    found = [evaluate(value, sources, primitive.sizes, primitive.depth, known) for value in primitive.values]
    for target, values in zip(targets, apart(found), strict=True):
        np.copyto(target, np.broadcast_to(values, primitive.sizes)[tuple(map(slice, target.shape))])


def apart(values: list[Array]) -> list[Array]:
    """The values of several targets, none of them in the memory of a source, which may be another's target."""
    return values if len(values) == 1 else list(map(np.array, values))


def _product(found: Contraction, sources: Sequence[Array]) -> Array:
    """The sums of a contraction, of which all the terms would be too many to lay out: in float64, rounded once."""
    kind = found.fold.type
    assert kind is not None  # noqa: S101 - for type checkers: truths are not summed
    left = _factor(found, found.left, (found.batch, found.rows, found.folded), sources)
    right = _factor(found, found.right, (found.batch, found.folded, found.columns), sources)
    with np.errstate(all="ignore"):
        rows = max(
            AT_ONCE * PRODUCTS // (math.prod(right.shape) or 1), 1
        )  # Ctrl-C is looked for between blocks of them
        blocks = [left[:, k : k + rows] @ right for k in range(0, max(left.shape[1], 1), rows)]
        product: Array = np.concatenate(blocks, 1).astype(kind.dtype)
    order = (*found.batch, *found.rows, *found.columns)
    rest = [k for k in range(len(found.sizes)) if k not in order]
    sizes = [found.sizes[k] for k in order] + [1] * len(rest)
    return product.reshape(sizes).transpose(np.argsort([*order, *rest]))


def _factor(found: Contraction, value: Expr, groups: Sequence[tuple[int, ...]], sources: Sequence[Array]) -> Array:
    """One of the two factors as matrices, its dimensions in three groups."""
    order = [k for group in groups for k in group]
    shape = tuple(size if k in order else 1 for k, size in enumerate(found.sizes))
    loaded, whole = {node.value for node in loads(value)}, tuple(map(slice, shape))
    own = [array[whole] if slot in loaded else array for slot, array in enumerate(sources)]
    wide = np.float64 if value.type is not None and value.type.is_float else np.int64
    numbers = np.broadcast_to(evaluate(value, own, shape), shape).astype(wide)
    rest = [k for k in range(len(shape)) if k not in order]
    return numbers.transpose([*order, *rest]).reshape([math.prod(shape[k] for k in group) for group in groups])


# Scatters and orders


def scatter(primitive: Scatter, base: Array, indices: Array, updates: Array, target: Array) -> None:
    """Write all tuples at once, of which NumPy leaves the last of equal ones; bits are moved."""
    batch, sizes = primitive.batch_rank, target.shape[primitive.indexed]
    bits, indices = f"u{target.dtype.itemsize}", np.array(indices)  # read once: another thread may write to them
    target = target.view(bits)
    updates = np.array(updates.view(bits))
    np.copyto(target, base.view(bits))
    found = [np.where(i < 0, i + size, i) for i, size in zip(np.moveaxis(indices, -1, 0), sizes, strict=True)]
    inside = np.all([(i >= 0) & (i < size) for i, size in zip(found, sizes, strict=True)], axis=0)
    batches = np.nonzero(inside)[:batch] if batch else ()
    target[(*batches, *(i[inside].astype(np.int64) for i in found))] = updates[inside]


def sort(primitive: Sort, source: Array, target: Array) -> None:
    """Sort keys that rise with the order, in which equal elements stay in theirs."""
    axis, count = primitive.axis, target.shape[primitive.axis]
    with np.errstate(invalid="ignore"):  # a NaN that signals
        keys = source.astype(np.float64) if source.dtype.kind == "f" else source
    if primitive.largest:  # turned round, the last of equals is the first
        order = source.shape[axis] - 1 - np.flip(np.argsort(np.flip(keys, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(keys, axis, kind="stable")
    np.copyto(target, np.take(order, range(count), axis), casting="unsafe")


# Verbs by their type


def _checked(primitive: Primitive, *arrays: Array) -> None:
    """The checks first, whose indices come between the sources and the targets."""
    checks, end = primitive.checks, len(primitive.reads)
    read = end - len(checks)
    for check, indices in zip(checks, arrays[read:end], strict=True):
        if fault := find_outside(check, indices):
            raise fault
    _VERBS[type(primitive)](primitive, *arrays[:read], *arrays[end:])


_VERBS: dict[type[Primitive], Callable[..., None]] = {
    Map: compute,
    Reduce: reduce,
    Scan: scan,
    Scatter: scatter,
    Sort: sort,
}
