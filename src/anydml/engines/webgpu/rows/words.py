"""Narrow elements by whole words: views of their words, and maps of several widths that walk along the widest step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.engines.webgpu.device import WORD
from anydml.ir.expressions import Expr, load
from anydml.ir.trees import rewrite, walk
from anydml.ir.verbs import Write
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.ir.verbs import Map

U32 = DataType.UINT32
_BITS = {1: DataType.UINT8, 2: DataType.UINT16}


def has_words(view: View, per: int) -> bool:
    """Whether each row of narrow elements is whole words, or as many elements as those have."""
    numbers = (view.sizes[-1], view.offset, *view.strides[:-1])
    return view.strides[-1] == 1 and not any(number % per for number in numbers)


def by_words(view: View, per: int) -> View:
    """The words of narrow elements."""
    sizes, strides = (*view.sizes[:-1], view.sizes[-1] // per), (*(s // per for s in view.strides[:-1]), 1)
    return View(view.tensor, U32, sizes, strides, view.offset // per)


def per_word(view: View) -> int:
    """The elements of a word; 1 for those that fill it, and for one that repeats along a row."""
    is_one = not view.strides or not view.strides[-1]
    return 1 if is_one else max(WORD // view.data_type.size_in_bytes, 1)


def unpacked(verb: Map) -> Map:
    """The same along words, for a map of several widths whose views are all contiguous along the inner dimension.

    A step has as many elements as a word of the narrowest: each is a value of its own, of a part of a word, and those
    of a narrow target are put together. Maps of one width are left: they are legalised so.
    """
    views = (*verb.sources, *verb.targets)
    pers = {per_word(view) for view in views} - {1}
    if not pers or (len(pers) == 1 and all(per_word(target) > 1 for target in verb.targets)):
        return verb
    step = max(pers)
    is_plain = all(view.strides and view.strides[-1] in (0, 1) for view in views)
    is_plain = is_plain and all(target.strides[-1] for target in verb.targets)
    if not is_plain or any(node.op in ("coordinate", "fetch") for node in walk(*verb.values)):
        return verb
    if verb.sizes[-1] % step or not all(has_words(view, step) for view in views if per_word(view) > 1):
        return verb
    sources: list[View] = []

    def slot(view: View) -> int:
        if view not in sources:
            sources.append(view)
        return sources.index(view)

    def element(node: Expr, k: int) -> Expr:
        view = verb.sources[int(node.value)]
        assert node.type is not None  # noqa: S101 - for type checkers: what is loaded has a type
        if (per := per_word(view)) == 1:
            return load(slot(_every(view, step, k)), node.type)
        word = load(slot(_every(by_words(view, per), step // per, k // per)), U32)
        bits = 8 * WORD // per
        part = (word >> bits * (k % per) if k % per else word).to(_BITS[node.type.size_in_bytes])
        return part.bits(node.type)

    writes: list[Write] = []
    for target, value in zip(verb.targets, verb.values, strict=True):
        values = [rewrite(value, _loading(element, k)) for k in range(step)]
        per = per_word(target)
        if per == 1:
            writes += [Write(_every(target, step, k), values[k]) for k in range(step)]
            continue
        narrow = _BITS[target.data_type.size_in_bytes]
        for first in range(0, step, per):
            word = values[first].bits(narrow).to(U32)
            for k in range(1, per):
                word = word | values[first + k].bits(narrow).to(U32) << 8 * WORD // per * k
            writes.append(Write(_every(by_words(target, per), step // per, first // per), word))
    (target, value), *also = writes
    return replace(verb, sources=tuple(sources), target=target, value=value, also=tuple(also))


def _loading(element: Callable[[Expr, int], Expr], k: int) -> Callable[[Expr], Expr]:
    return lambda node: element(node, k) if node.op == "load" else node


def _every(view: View, step: int, first: int) -> View:
    """Every so many elements of each row, from one on."""
    rank = len(view.sizes) - 1
    sizes = (*view.sizes[:-1], view.sizes[-1] // step)
    if not view.strides[-1]:
        return replace(view, sizes=sizes)
    return replace(view.window((*(0,) * rank, first), (*(1,) * rank, step), sizes), strides=(*view.strides[:-1], step))
