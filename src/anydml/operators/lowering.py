"""Views that several families lower with: temporaries, windows, rows, and what fills the rest of a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.core.memory import packed_strides
from anydml.ir.expressions import load
from anydml.ir.patterns import copy_of, filled
from anydml.ir.verbs import Map
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from anydml.arrays.tensor import TensorDesc
    from anydml.ir.expressions import Expr


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
    whole = temporary(name, inner.data_type, sizes)
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
    packed = temporary(name, view.data_type, view.sizes)
    pieces = zip(view.sizes[first:], view.strides[first:], packed.strides[first:], strict=True)
    if all(stride == wanted or size == 1 for size, stride, wanted in pieces):
        return view, []
    kind = view.data_type
    other = {4: DataType.UINT32, 2: DataType.UINT16}.get(kind.size_in_bytes)
    other = other or (DataType.INT8 if kind is DataType.UINT8 else DataType.UINT8)
    return packed, [Map((view,), packed, load(0, kind).bits(other).bits(kind))]


def split(view: View, dimension: int, *sizes: int) -> View:
    """A view with a dimension made several, the last of which runs fastest."""
    inner = zip(packed_strides(sizes), sizes, strict=True)
    strides = tuple(stride * view.strides[dimension] if size > 1 else 0 for stride, size in inner)
    return View(
        view.tensor,
        view.data_type,
        (*view.sizes[:dimension], *sizes, *view.sizes[dimension + 1 :]),
        (*view.strides[:dimension], *strides, *view.strides[dimension + 1 :]),
        view.offset,
    )


MOST_PHASES = 4
"""Copies that one is made where the target's innermost dimension is short: 2 elements at a time take 3 ns each, and as
two copies of every second one 0.9 (one thread of an Arm Neoverse-N1)."""


def copies_of(source: View, target: View, dimension: int) -> tuple[Map, ...]:
    """A copy; where a dimension is short, and the target's innermost, a copy for each of its places."""
    count, steps = target.sizes[dimension], (1,) * len(target.sizes)
    is_inner = all(abs(stride) >= abs(target.strides[dimension]) for stride in target.strides if stride)
    if not 1 < count <= MOST_PHASES or not is_inner:
        return (copy_of(source, target),)
    sizes = [1 if k == dimension else size for k, size in enumerate(target.sizes)]
    starts = ([place if k == dimension else 0 for k in range(len(sizes))] for place in range(count))
    return tuple(copy_of(source.window(at, steps, sizes), target.window(at, steps, sizes)) for at in starts)


def slabs_around(whole: View, start: Sequence[int], sizes: Sequence[int], value: float) -> Iterator[Map]:
    """Maps that fill all of a view but a part of it, slab by slab: no two write to one element."""
    at, left, last = [0] * len(sizes), list(whole.sizes), len(sizes) - 1
    for k, (first, size) in enumerate(zip(start, sizes, strict=True)):
        slabs = [(first_of, count, at, left) for first_of, count in _ends(whole, k, first, size)]
        if k == last > 0 and len(slabs) == 2 and left[-2] > 1 and _follow(whole):
            # The end of a row and the beginning of the next are one: 3 elements take 10 ns, and 6 no longer.
            (_, before, *_), (begin, after, *_) = slabs
            rows, above, below = left[-2], [*at[:-2], at[-2], 0], [*at[:-2], at[-2] + left[-2] - 1, 0]
            one = [*left[:-2], 1, 0]
            slabs = [
                (begin, before + after, at, [*left[:-2], rows - 1, 0]),
                (0, before, above, one),
                (begin, after, below, one),
            ]
        for begin, count, here, counts in slabs:
            where, many = (
                [number if j == k else n for j, n in enumerate(of)] for number, of in ((begin, here), (count, counts))
            )
            yield filled(whole.window(where, (1,) * len(sizes), many), value)
        at[k], left[k] = first, size


def _ends(whole: View, k: int, first: int, size: int) -> list[tuple[int, int]]:
    """The ends before and after a part of a dimension: where each begins, and its size."""
    found = ((0, first), (first + size, whole.sizes[k] - first - size))
    return [(begin, count) for begin, count in found if count]


def _follow(view: View) -> bool:
    """Whether rows follow one another."""
    return view.strides[-2] == view.sizes[-1] * view.strides[-1]


def temporary(name: str, data_type: DataType, sizes: Sequence[int]) -> View:
    """Memory that an operator passes on to itself, packed."""
    return View(name, data_type, tuple(sizes), packed_strides(sizes))


def wide(element: Expr) -> Expr:
    """An element as it is computed with: FLOAT16 as FLOAT32."""
    return element.to(DataType.FLOAT32) if element.type is DataType.FLOAT16 else element


def by_row(view: View, depth: int) -> View:
    """A target of an element for each row, which is so many dimensions deep."""
    ones, none = (1,) * depth, (0,) * depth
    return View(view.tensor, view.data_type, (*view.sizes, *ones), (*view.strides, *none), view.offset)
