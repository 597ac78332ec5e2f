"""Views of views: what a copy's reader reads at the copy's source, against copies that are carried out."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anydml.core.enums import DataType
from anydml.graph.views import straightened, through
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map
from anydml.ir.views import Trace, trace
from drawing import draw_sizes, nested, packed, pick, upto
from random_recipes import RANDOM
from recipes import elements, view

if TYPE_CHECKING:
    from anydml.ir.verbs import Map
    from anydml.ir.views import View


@st.composite
def copies(draw: st.DrawFn) -> tuple[View, View]:
    """A target whose strides nest, of any signs and order, and a source of any strides."""
    sizes = draw_sizes(draw, 1 + draw(upto(2)), 36)
    strides = [stride * pick(draw, (1, -1)) for stride in nested(draw, sizes)]
    any_strides = [draw(st.integers(-7, 12)) for _ in sizes]
    source_strides = pick(draw, (any_strides, list(packed(sizes))))
    return view("t", sizes, strides, draw(upto(5))), view("s", sizes, source_strides, draw(upto(5)))


@st.composite
def windows(draw: st.DrawFn, target: View) -> View:
    """Some of a target: any dimension in steps or backwards, in any order, and perhaps repeated."""
    start, steps, sizes = [], [], []
    for size in target.sizes:
        step = pick(draw, (1, -1, 2, -2, 3))
        sizes.append(1 + draw(upto((size - 1) // abs(step))))
        reach = (sizes[-1] - 1) * abs(step)
        start.append(draw(upto(size - 1 - reach)) + (reach if step < 0 else 0))
        steps.append(step)
    found = target.window(start, steps, sizes)
    dimensions = [*zip(found.sizes, found.strides, strict=True), *([(2, 0)] if draw(st.booleans()) else [])]
    order = draw(st.permutations(dimensions))
    return replace(found, sizes=tuple(n for n, _ in order), strides=tuple(s for _, s in order))


@st.composite
def readers(draw: st.DrawFn, target: View) -> View:
    """Any view near a target, most of them not within it."""
    sizes = draw_sizes(draw, 1 + draw(upto(2)), 12)
    steps = [0, *target.strides, *(a + b for a, b in itertools.pairwise(target.strides)), 1, -1, 2, 3]
    return view("t", sizes, [pick(draw, steps) for _ in sizes], pick(draw, elements(target)))


@st.composite
def flat(draw: st.DrawFn, target: View) -> View:
    """A view from line to line of a target, forwards or backwards, of any length that stays between its ends."""
    places = elements(target)
    first = pick(draw, (target.offset, *places))
    step = pick(draw, (1, -1, 2, *target.strides)) or 1
    last = max(places) if step > 0 else min(places)
    most = (last - first) // step + 1
    return view("t", (pick(draw, range(most, 0, -1)),), (step,), first)


def check(reader: View, target: View, source: View, found: View) -> None:
    """Carry the copy out and read it."""
    held = dict(zip(elements(target), elements(source), strict=True))
    assert (found.tensor, found.data_type, found.sizes) == ("s", reader.data_type, reader.sizes)
    assert elements(found) == [held[place] for place in elements(reader)]


@RANDOM
@given(data=st.data())
def test_every_window_is_found(data: st.DataObject) -> None:
    target, source = data.draw(copies())
    reader = data.draw(windows(target))
    found = through(reader, target, source)
    assert found is not None
    check(reader, target, source, found)


@RANDOM
@given(data=st.data())
def test_what_is_found_is_right(data: st.DataObject) -> None:
    target, source = data.draw(copies())
    reader = data.draw(st.one_of(flat(target), readers(target)))
    if found := through(reader, target, source):
        check(reader, target, source, found)


@RANDOM
@given(data=st.data())
def test_a_trace_says_which_elements_are_read(data: st.DataObject) -> None:
    target, _ = data.draw(copies())
    reader = data.draw(st.one_of(windows(target), readers(target)))
    found = trace(reader, target)
    if found is None:
        return
    numbers = dict(zip(itertools.product(*map(range, target.sizes)), elements(target), strict=True))
    for index, place in zip(itertools.product(*map(range, reader.sizes)), elements(reader), strict=True):
        at = [f + sum(map(math.prod, zip(steps, index, strict=True))) for f, steps in zip(*found, strict=True)]
        assert numbers[tuple(at)] == place
        for k, i in enumerate(at):
            low, high = found.bounds(k, reader.sizes)
            assert low <= i <= high


ROWS, COLUMNS = view("t", (4, 6)), view("s", (4, 6), (1, 4))


@pytest.mark.parametrize(
    ("reader", "wanted"),
    [
        (view("t", (6, 4), (1, 6)), view("s", (6, 4), (4, 1))),
        (view("t", (2, 3), (-12, 2), 19), view("s", (2, 3), (-2, 8), 7)),
        (view("t", (5, 4), (0, 7)), view("s", (5, 4), (0, 5))),  # a diagonal
        (view("t", (2, 2, 3, 2), (12, 6, 2, 1)), view("s", (2, 2, 3, 2), (2, 1, 8, 4))),
        (view("t", (1, 1), (0, 0), 23), view("s", (1, 1), (0, 0), 23)),
        (view("t", (24,)), None),  # from line to line, which is no one stride of columns
        (view("t", (2,), (6,), 18), None),  # outside
        (view("t", (2,), (-1,)), None),
    ],
)
def test_a_matrix_copied_from_columns(reader: View, wanted: View | None) -> None:
    assert through(reader, ROWS, COLUMNS) == wanted


def test_a_copy_without_gaps_is_read_in_any_shape() -> None:
    source = view("s", (4, 6), None, 12)
    assert through(view("t", (3, 8)), ROWS, source) == view("s", (3, 8), None, 12)
    assert through(view("t", (24,), (-1,), 23), ROWS, source) == view("s", (24,), (-1,), 35)


@pytest.mark.parametrize("sizes", [(4, 6), (3, 2)])
@pytest.mark.parametrize("data_type", DataType)
def test_bits_are_read_as_any_type_of_their_width(data_type: DataType, sizes: tuple[int, int]) -> None:
    reader, wanted = (replace(of, data_type=data_type, sizes=sizes) for of in (ROWS, COLUMNS))
    assert through(reader, ROWS, COLUMNS) == (wanted if data_type.size_in_bytes == 4 else None)


def test_what_is_written_over_or_between_the_lines_is_not_read() -> None:
    assert trace(view("t", (2,)), view("t", (2, 2), (1, 1))) is None
    assert trace(view("t", (2,)), view("t", (2, 2), (0, 1))) is None
    assert trace(view("t", (2,), (1,), 1), view("t", (2, 2), (3, 1))) is None
    assert trace(view("t", (2,), (3,), 1), view("t", (2, 2), (3, 1))) == Trace((0, 1), ((1,), (0,)))


def pairs(copy: Map) -> list[tuple[int, int]]:
    return sorted(zip(elements(copy.source), elements(copy.target), strict=True))


@pytest.mark.parametrize(
    ("read", "wanted"),
    [
        (view("t", (24,)), (view("t", (4, 6)), view("y", (4, 6)))),
        (view("t", (24,), (-1,), 23), (view("t", (4, 6), (-6, -1), 23), view("y", (4, 6)))),
        (view("t", (2, 12)), (view("t", (2, 2, 6)), view("y", (2, 2, 6)))),
        (view("t", (3, 8)), None),  # a line of 8 is one of 6 and a third of the next
        (view("t", (18,), (1,), 6), (view("t", (3, 6), (6, 1), 6), view("y", (3, 6)))),
        (view("t", (12,), (2,)), (view("t", (4, 3), (6, 2)), view("y", (4, 3)))),
    ],
)
def test_a_copy_from_line_to_line_is_cut(read: View, wanted: tuple[View, View] | None) -> None:
    copy = copy_of(read, view("y", read.sizes))
    cut = straightened(copy, ROWS, COLUMNS)
    assert cut == (copy_of(*wanted) if wanted else copy)
    assert pairs(cut) == pairs(copy)


@RANDOM
@given(data=st.data())
def test_a_copy_that_is_cut_stays_the_same(data: st.DataObject) -> None:
    target, source = data.draw(copies())
    reader = data.draw(st.one_of(flat(target), readers(target), windows(target)))
    copy = copy_of(reader, view("y", reader.sizes, [7 * stride for stride in packed(reader.sizes)]))
    assert pairs(straightened(copy, target, source)) == pairs(copy)
