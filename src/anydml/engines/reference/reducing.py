"""Reduces in NumPy: rows folded, and contractions as matrix products."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.engines.reference.evaluate import AT_ONCE, evaluate
from anydml.ir.contraction import match_contraction
from anydml.ir.trees import loads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.ir.contraction import Contraction
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Reduce

Array = np.ndarray[Any, Any]
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
