"""Padding that maps materialise, matched, and how windows of a padded tensor walk over the one within."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from anydml.core.enums import DataType
from anydml.core.memory import packed_strides
from anydml.ir.expressions import given
from anydml.ir.padded_reads import match_padded
from anydml.ir.patterns import copy_of, filled
from anydml.ir.views import View
from anydml.ir.windows import walked_within

if TYPE_CHECKING:
    from anydml.ir.verbs import Map

F32 = DataType.FLOAT32


def packed(tensor: str, *sizes: int) -> View:
    strides = (step if size > 1 else 0 for size, step in zip(sizes, packed_strides(sizes), strict=True))
    return View(tensor, F32, sizes, tuple(strides))


def padding(sizes: tuple[int, ...], start: tuple[int, ...], end: tuple[int, ...]) -> list[Map]:
    """A copy, and a fill for each side that there is."""
    whole = packed("padded", *(a + n + b for a, n, b in zip(start, sizes, end, strict=True)))
    ones, maps = (1,) * len(sizes), [copy_of(packed("x", *sizes), whole.window(start, (1,) * len(sizes), sizes))]
    before, left = [0] * len(sizes), list(whole.sizes)
    for k, (a, n, b) in enumerate(zip(start, sizes, end, strict=True)):
        for at, count in ((0, a), (a + n, b)):
            if count:
                first, some = [*before], [*left]
                first[k], some[k] = at, count
                maps.append(filled(whole.window(first, ones, some), 7.0))
        before[k], left[k] = a, n
    return maps


@pytest.mark.parametrize(
    ("sizes", "start", "end"),
    [
        ((2, 3, 4, 5), (0, 0, 1, 1), (0, 0, 1, 2)),
        ((1, 1, 4, 5), (0, 2, 1, 1), (0, 1, 0, 2)),
        ((2, 1, 3, 4), (1, 1, 1, 1), (1, 1, 1, 1)),
        ((1, 3, 1, 4), (0, 0, 1, 1), (0, 0, 1, 1)),
        ((2, 2, 3, 4), (0, 0, 0, 0), (0, 0, 1, 2)),
        ((5,), (2,), (1,)),
    ],
)
def test_windows_of_a_padded_tensor_read_the_one_within(
    sizes: tuple[int, ...], start: tuple[int, ...], end: tuple[int, ...]
) -> None:
    found = match_padded(padding(sizes, start, end))
    assert found is not None
    x = np.arange(1, np.prod(sizes) + 1, dtype=np.float32)
    whole = np.pad(x.reshape(sizes), list(zip(start, end, strict=True)), constant_values=7)
    for step, window in itertools.product((1, 2), (1, 2)):
        taps = tuple(min(window, n) for n in whole.shape)
        places = tuple((n - k) // step + 1 for n, k in zip(whole.shape, taps, strict=True))
        own = packed_strides(whole.shape)
        strides = [s if n > 1 else 0 for n, s in zip((*places, *taps), (*(step * s for s in own), *own), strict=True)]
        view = View("padded", F32, (*places, *taps), tuple(strides))
        walked = walked_within(view, found)
        assert walked is not None
        for at in itertools.product(*map(range, view.sizes)):
            indices = [axis.first + sum(at[k] * by for k, by in axis.steps.items()) for axis in walked.axes]
            outside = [axis for i, axis in zip(indices, walked.axes, strict=True) if not 0 <= i < axis.size]
            assert all(axis.is_limited for axis in outside), at
            place = walked.offset + sum(i * axis.stride for i, axis in zip(indices, walked.axes, strict=True))
            wanted = whole.ravel()[sum(i * s for i, s in zip(at, strides, strict=True))]
            assert (7 if outside else x[place]) == wanted, at


def test_other_maps_are_no_padding() -> None:
    copy, *fills = padding((4, 5), (1, 1), (1, 1))
    assert match_padded([*fills, copy]) is not None
    zero = View("zero", F32, copy.target.sizes, (0, 0))
    by_element = [replace(one, sources=(replace(zero, sizes=one.target.sizes),), value=copy.value) for one in fills]
    found = match_padded([copy, *by_element])
    assert found is not None
    assert found.outside == View("zero", F32, (1,), (0,))
    others = {
        "no fill": [copy],
        "two numbers": [copy, *fills[1:], replace(fills[0], value=given(8.0, F32))],
        "numbers that count": [copy, *fills[1:], filled(fills[0].target, 7.0, 1.0)],
        "two copies": [copy, copy, *fills],
        "another tensor": [copy, *fills[1:], replace(fills[0], target=fills[0].target.named("other"))],
        "a number and an element": [copy, *fills[1:], by_element[0]],
    }
    assert [why for why, maps in others.items() if match_padded(maps) is not None] == []
