"""Views composed: what a reader of a copy reads, as a view of the copy's source. Passes redirect readers and writers by
it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anydml.ir.loops import loops_of, simplify
from anydml.ir.patterns import copy_of
from anydml.ir.views import View, indices_in, trace

if TYPE_CHECKING:
    from anydml.ir.verbs import Map

MOST_DIMENSIONS = 8
"""Of a tensor, in DirectML; engines are made for as many."""


def through(reader: View, target: View, source: View) -> View | None:
    """The view of the source's store that reads what `reader` does of what a copy from source to target left there.

    The bits are the same and their type is the reader's. None where no view does, or none that is easily found.
    """
    widths = {view.data_type.size_in_bytes for view in (reader, target, source)}
    if len(widths) > 1:
        return None
    if (reader.sizes, reader.strides, reader.offset) == (target.sizes, target.strides, target.offset):
        return View(source.tensor, reader.data_type, source.sizes, source.strides, source.offset)
    target, source = _merged(target, source)
    found = trace(reader, target)
    if found is None:
        return None
    rows = list(zip(source.strides, found.first, found.steps, strict=True))
    strides = tuple(sum(stride * steps[m] for stride, _, steps in rows) for m in range(len(reader.sizes)))
    offset = source.offset + sum(stride * index for stride, index, _ in rows)
    return View(source.tensor, reader.data_type, reader.sizes, strides, offset)


def _merged(target: View, source: View) -> tuple[View, View]:
    """Both sides of a copy with as few dimensions as it has."""
    loops = simplify(loops_of(source, target), 1)
    return (
        View(target.tensor, target.data_type, loops.sizes, loops.strides[1], loops.offsets[1]),
        View(source.tensor, source.data_type, loops.sizes, loops.strides[0], loops.offsets[0]),
    )


def parts_of(reader: View, target: View, source: View) -> list[list[int]] | None:
    """The sizes that a reader's dimensions are cut into where it runs on from line to line of what a copy wrote.

    The copy is from `source` to `target`. None where the dimensions cannot be cut evenly.
    """
    target, _ = _merged(target, source)
    indices_at, offset = indices_in(target.sizes, target.strides), reader.offset - target.offset
    first = indices_at(offset) if indices_at else None
    if indices_at is None or first is None:
        return None
    found: list[list[int]] = []
    for size, stride in zip(reader.sizes, reader.strides, strict=True):
        left, times, parts = size if stride else 1, 1, list[int]()
        while left > 1:
            second = indices_at(offset + times * stride)
            if second is None:
                return None
            run = left
            for a, b, n in zip(first, second, target.sizes, strict=True):
                run = min(run, (n - 1 - a) // (b - a) + 1 if b > a else a // (a - b) + 1 if b < a else run)
            if run < 2 or left % run:
                return None
            parts.insert(0, run)
            left, times = left // run, times * run
        found.append(parts or [size])
    return found


def straightened(copy: Map, target: View, source: View) -> Map:
    """The same copy with dimensions cut where its source runs on from line to line of what another copy wrote.

    The other copies from `source` to `target`. Where it cannot be cut evenly, the copy stays as it is.
    """
    reader = copy.source
    found = parts_of(reader, target, source)
    if found is None:
        return copy
    cuts = [(k, n, math.prod(parts[i + 1 :])) for k, parts in enumerate(found) for i, n in enumerate(parts) if n > 1]
    if len(cuts) > MOST_DIMENSIONS:
        return copy

    def cut(view: View) -> View:
        sizes, strides = tuple(n for _, n, _ in cuts), tuple(view.strides[k] * times for k, _, times in cuts)
        return View(view.tensor, view.data_type, sizes, strides, view.offset)

    return copy_of(cut(reader), cut(copy.target))
