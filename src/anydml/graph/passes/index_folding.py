"""Index folding, a pass of the optimiser's rounds: gathers at constant indices become strided reads, and checks that
constants pass go.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays.shared import SharedData
from anydml.graph.passes.draft import Draft
from anydml.graph.passes.fusion import MOST_SOURCES, Sources, with_leaves
from anydml.graph.recipe import distinct_sizes
from anydml.ir.fetches import INT64, Line, line_of, nearest_to, settled
from anydml.ir.trees import fetched, loads, rewrite, walk
from anydml.ir.verbs import Map
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.graph.recipe import Recipe, Store
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Check

    Array = np.ndarray[Any, Any]

MOST_INDICES = 1 << 16
"""Of a constant that is looked at: it takes 0.2 ms."""


def index_folding(recipe: Recipe) -> Recipe:
    """Index folding: what constants hold says where a map fetches, and that its indices are inside.

    Constant indices that lie in a line become strides, and what is fetched by strides alone is loaded.

    A gather of one block, or of every second one backwards, is a slice then. Checks that constants pass go. A map with
    a check that they do not pass stays as it is, to say so at every dispatch.
    """
    draft = Draft(recipe)
    for number, step in enumerate(recipe.steps):
        made = step.primitive
        if not isinstance(made, Map) or not (made.checks or fetched(made.value)):
            continue
        inside = [_is_inside(check, recipe.stores) for check in made.checks]
        if False in inside:
            continue
        simple = _loading(made, _in_lines(made, recipe.stores))
        checks = tuple(check for check, passes in zip(made.checks, inside, strict=True) if not passes)
        if simple is not made or checks != made.checks:
            draft.put({number: replace(step, primitive=replace(simple, checks=checks))})
    return draft.recipe()


def _is_inside(check: Check, stores: Mapping[str, Store]) -> bool | None:
    """Whether all indices are inside their dimensions; None where they are not known."""
    indices = numbers_of(check.indices, stores)
    if indices is None:
        return None
    low = [-size if check.indices.data_type.is_signed else 0 for size in check.sizes]
    return all(
        bool(((column >= least) & (column < size)).all())
        for column, least, size in zip(np.moveaxis(indices, -1, 0), low, check.sizes, strict=True)
    )


def _in_lines(made: Map, stores: Mapping[str, Store]) -> Expr:
    """The value of a map, with expressions of coordinates for the indices of constants that lie in a line."""

    def change(node: Expr) -> Expr:
        index = nearest_to(node)
        found = [] if index is None else loads(node)
        if len(found) != 1 or index not in (found[0], found[0].to(INT64)):
            return node
        numbers = numbers_of(made.sources[int(found[0].value)], stores)
        near = node.args[0] if node.op == "cast" else node
        line = None if numbers is None else _line(_nearest(numbers, int(near.args[2].value) + 1))
        return node if line is None else line.value

    return rewrite(made.value, change)


def _loading(made: Map, value: Expr) -> Map:
    """A map of another value, in which what is fetched at lines is loaded."""
    fetches = {node: [line_of(index) for index in node.args] for node in walk(value) if node.op == "fetch"}
    if value is made.value and not any(None not in lines for lines in fetches.values()):
        return made
    sources, sizes = Sources(), made.target.sizes

    def read(slot: int, at: Sequence[Expr]) -> Expr:
        view, lines = made.sources[slot], [line_of(index) for index in at]
        there = [line for line in lines if line is not None]
        return sources.fetch(view, at) if len(there) < len(lines) else sources.load(_along(view, there, sizes))

    kept = {int(node.value): made.sources[int(node.value)] for node in loads(value)}
    value = with_leaves(value, {slot: sources.load(view) for slot, view in kept.items()}, fetches=read)
    views = sources.views()
    return made if len(views) > MOST_SOURCES else settled(replace(made, sources=views, value=value))


def _along(view: View, lines: Sequence[Line], sizes: tuple[int, ...]) -> View:
    """The elements of a view at lines of indices, one for each of its dimensions."""
    offset, strides = view.offset, [0] * len(sizes)
    for line, stride in zip(lines, view.strides, strict=True):
        offset += line.start * stride
        for dimension, step in line.steps:
            strides[dimension] += step * stride
    return View(view.tensor, view.data_type, sizes, tuple(strides), offset)


def numbers_of(view: View, stores: Mapping[str, Store]) -> Array | None:
    """The numbers of a constant's view, once where they are repeated; None where they are not known, or many."""
    data = stores[view.tensor].data
    if data is None or view.data_type.is_half_byte or math.prod(distinct_sizes(view)) > MOST_INDICES:
        return None
    held = data.look() if isinstance(data, SharedData) else np.frombuffer(data, np.uint8)
    width = view.data_type.size_in_bytes
    sizes = [size if stride else 1 for size, stride in zip(view.sizes, view.strides, strict=True)]
    steps = [stride * width for stride in view.strides]
    return np.ndarray(sizes, view.data_type.dtype, held.data, view.offset * width, steps)


def _nearest(indices: Array, size: int) -> Array:
    """The function `nearest` for numbers."""
    if indices.dtype.kind == "u":
        return np.minimum(indices, size - 1).astype(np.int64)
    wide = indices.astype(np.int64)
    return np.clip(np.where(wide < 0, wide + size, wide), 0, size - 1)


def _line(numbers: Array) -> Line | None:
    """The line that numbers lie in, by their coordinates; None where they do not."""
    first = int(numbers.flat[0])
    steps, told = [], np.full((1,) * numbers.ndim, first)
    for k, size in enumerate(numbers.shape):
        if size > 1:
            second = int(numbers[tuple(int(m == k) for m in range(numbers.ndim))])
            steps.append((k, second - first))
            told = told + (second - first) * np.arange(size).reshape([-1 if m == k else 1 for m in range(numbers.ndim)])
    return Line(first, tuple(steps)) if np.array_equal(told, numbers) else None
