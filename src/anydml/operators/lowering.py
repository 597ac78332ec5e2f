"""Temporaries with room around what lies in them, and views of the windows that walk over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.core.memory import packed_strides
from anydml.ir.expressions import load
from anydml.ir.patterns import copy_of, filled
from anydml.ir.verbs import Map
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.arrays.tensor import TensorDesc


def store(name: str, data_type: DataType, sizes: Sequence[int]) -> View:
    """A temporary, packed."""
    return View(name, data_type, tuple(sizes), packed_strides(sizes))


def zeros(target: View) -> Map:
    """A map that fills room with 0."""
    return filled(target, 0)


def repeated(name: str, number: TensorDesc, target: View) -> Map:
    """A map that fills room with a tensor's only number."""
    return copy_of(walked(View.of(name, number), target.sizes, (0,) * len(target.sizes)), target)


def around(
    whole: View, starts: Sequence[int], steps: Sequence[int], counts: Sequence[int], fill: Callable[[View], Map]
) -> list[Map]:
    """Maps that fill a view but for its elements starts + steps·i, i below counts: every element once."""
    filling, ones = [], (1,) * len(whole.sizes)
    start, step, size = [0] * len(whole.sizes), list(ones), list(whole.sizes)
    for k, (first, by, count) in enumerate(zip(starts, steps, counts, strict=True)):
        last = first + by * (count - 1)
        lines = [(0, 1, first), (last + 1, 1, whole.sizes[k] - last - 1)]
        lines += [(first + phase, by, count - 1) for phase in range(1, by)]
        for begin, stride, length in lines:
            if length > 0:
                start[k], step[k], size[k] = begin, stride, length
                filling.append(fill(whole.window(start, step, size)))
        start[k], step[k], size[k] = first, by, count
    return filling


def framed(
    inner: View,
    starts: Sequence[int],
    steps: Sequence[int],
    sizes: Sequence[int],
    name: str,
    fill: Callable[[View], Map] = zeros,
) -> tuple[View, list[Map]]:
    """A view of some sizes whose elements starts + steps·i are those of `inner`, and others what `fill` writes.

    A start below 0 leaves elements out, and so do sizes that end before. It is a part of `inner` where that has all of
    its elements; otherwise a temporary, with what writes it.
    """
    first = [max(-(start // step), 0) for start, step in zip(starts, steps, strict=True)]
    places = [start + step * skip for start, step, skip in zip(starts, steps, first, strict=True)]
    counts = [
        min(own - skip, -(-(size - place) // step))
        for own, skip, size, place, step in zip(inner.sizes, first, sizes, places, steps, strict=True)
    ]
    whole = store(name, inner.data_type, sizes)
    if min(counts) <= 0:
        return whole, [fill(whole)]
    part = inner.window(first, (1,) * len(first), counts)
    if tuple(counts) == tuple(sizes):
        return part, []
    kept = [step if count > 1 else 1 for step, count in zip(steps, counts, strict=True)]
    return whole, [*around(whole, places, kept, counts, fill), copy_of(part, whole.window(places, kept, counts))]


def walked(view: View, sizes: Sequence[int], strides: Sequence[int], offset: int = 0) -> View:
    """A view's memory in other sizes and strides; a size of 1 leaves a stride without meaning."""
    meant = tuple(stride if size > 1 else 0 for size, stride in zip(sizes, strides, strict=True))
    return View(view.tensor, view.data_type, tuple(sizes), meant, view.offset + offset)


def in_one_piece(view: View, first: int, name: str) -> tuple[View, list[Map]]:
    """A view whose dimensions from some one on lie in one piece: as they are, or in a temporary, with what writes it.

    That is no copy: graphs would have its readers read what is copied, where it lies.
    """
    packed = store(name, view.data_type, view.sizes)
    pieces = zip(view.sizes[first:], view.strides[first:], packed.strides[first:], strict=True)
    if all(stride == wanted or size == 1 for size, stride, wanted in pieces):
        return view, []
    kind = view.data_type
    other = {4: DataType.UINT32, 2: DataType.UINT16}.get(kind.size_in_bytes)
    other = other or (DataType.INT8 if kind is DataType.UINT8 else DataType.UINT8)
    return packed, [Map((view,), packed, load(0, kind).bits(other).bits(kind))]
