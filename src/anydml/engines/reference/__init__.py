"""The reference engine: the primitives in plain NumPy, a few lines each. Never fast, and the oracle for every other."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.engines.common.engine import Engine
from anydml.engines.common.program import Program
from anydml.engines.common.repeat import compile_repeat
from anydml.engines.reference.choosing import scatter, sort
from anydml.engines.reference.evaluate import evaluate
from anydml.engines.reference.reducing import apart, reduce
from anydml.ir.bounds import are_checked, check_fetches
from anydml.ir.patterns import is_copy
from anydml.ir.verbs import IndexFault, Map, Reduce, Repeat, Scan, Scatter, Sort
from anydml.memory import HOST, numpy_view, reserve_host

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.ir.verbs import Check, Primitive
    from anydml.ir.views import View
    from anydml.memory import Buffer

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
