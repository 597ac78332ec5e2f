"""Pictures of graphs: the tables word for word, drawings that hold every node, and that no view is told wrongly."""

from __future__ import annotations

import re
import textwrap
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anydml as dml
from anydml.core.memory import word_bytes
from anydml.explain import Recipes, explain_desc, explain_graph, recipes_of
from anydml.explain.view_words import word_slice, word_view
from anydml.graph.arena import lay_out
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Scan
from anydml.ir.views import View
from graph_pictures import crop_flip_sum_flip, forked, texts, told
from random_recipes import RANDOM
from recipes import F32, recipe, view

T = dml.TensorDesc
X = T("float32", (6, 8))


# Text


def test_a_graph_that_becomes_one_pass() -> None:
    assert str(explain_desc(crop_flip_sum_flip())) == textwrap.dedent("""\
        4 operators: one by one 4 passes that move 640 bytes, compiled 1 pass that moves 160 bytes: 3 passes and 480 bytes (75%) less

        before  node                      work                              from → to        moves  becomes
             1  SLICE1 crop               copy [4,5] from x[1:5, 2:7]       x → crop     160 bytes  pass 1
             2  SLICE1 flip               copy [4,5] from crop[..., ::-1]   crop → flip  160 bytes  pass 1
             3  CUMULATIVE_SUMMATION sum  running sum along axis 1 of flip  flip → sum   160 bytes  pass 1
             4  SLICE1 y                  copy [4,5] from sum[..., ::-1]    sum → y      160 bytes  pass 1
                4 passes                                                                 640 bytes

        after  nodes               work                                                  from → to      moves
            1  crop, flip, sum, y  running sum along axis 1, decreasing, of x[1:5, 2:7]  x → y      160 bytes
               1 pass                                                                               160 bytes

        Between the passes: no scratch memory.
        Rewritten by copy_propagation: 3 steps became 1; store_forwarding: 2 steps became 1; scan_direction: 1 step became 1.""")  # fmt: skip # noqa: E501 - as it is printed


def test_a_node_in_several_passes_and_one_that_does_not_run() -> None:
    assert str(explain_desc(forked(), title="three  outputs\n")) == textwrap.dedent("""\
        three outputs
        5 operators: one by one 5 passes that move 708 bytes, compiled 3 passes that move 524 bytes: 2 passes and 184 bytes (25%) less

        before  node                         work                                                          from → to           moves  becomes
             1  SLICE1 crop                  copy [4,5] from x[1:5, 2:7]                                   x → crop        160 bytes  passes 1, 2
             2  CUMULATIVE_SUMMATION across  running sum along axis 1 of crop                              crop → across   160 bytes  pass 1
             3  CUMULATIVE_PRODUCT down      running product along axis 0, decreasing, exclusive, of crop  crop → down     160 bytes  pass 2
             4  SLICE1 turn                  copy [3,1] from rows[::-1, :]                                 rows → turn      24 bytes  pass 3
             5  GATHER_ND pick               gather [3,8] from x by turn, clamped                          x, turn → pick  204 bytes  pass 3
                5 passes                                                                                                   708 bytes

        after  nodes         work                                                                 from → to           moves
            1  crop, across  running sum along axis 1 of x[1:5, 2:7]                              x → across      160 bytes
            2  crop, down    running product along axis 0, decreasing, exclusive, of x[1:5, 2:7]  x → down        160 bytes
            3  turn, pick    gather [3,8] from x by rows[::-1, :], clamped                        x, rows → pick  204 bytes
               3 passes                                                                                           524 bytes

        Between the passes: no scratch memory.
        Rewritten by copy_propagation: 5 steps became 3.
        idle feeds no output, and does not run.""")  # fmt: skip # noqa: E501 - as it is printed


def test_what_is_computed_once_is_told_apart() -> None:
    g = dml.Graph("reference")
    sums = dml.cumulative_summation(g.constant(np.zeros((2, 3), "float32"), "table"), 1).named("sums")
    rows = g.input(T("uint32", (2, 1)), "rows")
    picture = explain_desc(g.desc(dml.gather_nd(sums, rows, index_mode="clamp").named("pick")))
    assert str(picture) == textwrap.dedent("""\
        2 operators: one by one 2 passes that move 104 bytes, compiled 1 pass that moves 56 bytes: 1 pass and 48 bytes (46%) less

        before  node                       work                                     from → to              moves  becomes
             1  CUMULATIVE_SUMMATION sums  running sum along axis 1 of table        table → sums        48 bytes  computed once
             2  GATHER_ND pick             gather [2,3] from sums by rows, clamped  sums, rows → pick   56 bytes  pass 1
                2 passes                                                                               104 bytes

        once  nodes   work                               from → to        moves
           1  sums    running sum along axis 1 of table  table → sums  48 bytes
              1 pass                                                   48 bytes

        after  nodes   work                                     from → to             moves
            1  pick    gather [2,3] from sums by rows, clamped  sums, rows → pick  56 bytes
               1 pass                                                              56 bytes

        Between the passes: no scratch memory.
        Rewritten by constant_folding: 1 step computed once.""")  # fmt: skip # noqa: E501 - as it is printed
    assert "once 1: running sum along axis 1 of table; 48 bytes (sums)" in texts(picture.svg())


def test_an_output_that_is_held_back_costs_a_pass_and_says_why() -> None:
    g = dml.Graph("reference")
    x, rows, others = g.input(X, "x"), g.input(T("uint32", (2, 1)), "rows"), g.input(T("uint32", (2, 1)), "others")
    picture = explain_desc(g.desc([dml.gather_nd(x, rows).named("one"), dml.gather_nd(x, others).named("two")]))
    assert picture.summary.endswith("compiled 3 passes that move 400 bytes: 1 pass and 128 bytes more")
    assert [(one.does, str(became)) for one, became in told(picture)] == [
        ("gather [2,8] from x by rows", "passes 1, 3"),
        ("gather [2,8] from x by others", "pass 2"),
    ]
    assert picture.after[2].does == "copy [2,8] from one held back"
    assert picture.notes == ("An output is held back until the last index is known to be inside its dimension.",)
    assert picture.notes[0] in texts(picture.svg())
    assert str(picture).endswith(picture.notes[0])


def test_outputs_of_one_node_are_copies_that_become_their_own_passes() -> None:
    g = dml.Graph("reference")
    x = g.input(X)
    y = dml.cumulative_summation(x, 1)
    picture = explain_desc(g.desc([y, y, y.reinterpret((48,))]))
    assert [(one.operator, one.nodes, one.does, str(became)) for one, became in told(picture)] == [
        ("CUMULATIVE_SUMMATION", ("node0",), "running sum along axis 1 of input0", "pass 1"),
        ("SLICE", ("node1",), "copy [48] from output0 seen as [48]", "pass 2"),
        ("copy", ("node0",), "copy [6,8] from output0", "pass 3"),
    ]
    assert picture.summary == (
        "2 operators: one by one 3 passes that move 1.125 KiB, compiled 3 passes that move 1.125 KiB"
    )


def test_stores_of_one_name_are_told_apart() -> None:
    g = dml.Graph("reference")
    table = g.constant(np.zeros((2, 3), "float32"), "c")
    picture = explain_desc(g.desc([table, dml.cumulative_summation(table, 1).named("sum")]))
    text = str(picture)
    assert "copy c " in text
    assert "copy [2,3] from constant c  constant c → output c" in text
    assert "running sum along axis 1 of constant c  constant c → sum" in text
    assert " c → c" not in text
    drawn = texts(picture.svg())
    assert drawn.count("c") == 3  # the constant, the copy and the output, each of which says what it is
    assert "output output" not in picture.svg()
    # A node whose result is on its way, and an output of the next.
    x = g.input(X, "x")
    desc = g.desc(dml.cumulative_summation(dml.cumulative_summation(x, 0).named("y"), 1).named("z"))
    desc = replace(desc, output_edges=[replace(edge, name="y") for edge in desc.output_edges])
    assert "scratch y → output y" in str(explain_desc(desc))


def test_recipes_alone_make_a_picture() -> None:
    """Without a description: stores are told by the inputs and outputs, operators by what they do."""
    before = recipe(
        {"input0": "input", "a": "scratch", "output0": "output"},
        copy_of(view("input0", (4,), (-1,), 3), view("a", (4,))),
        Scan((view("a", (4,)),), view("output0", (4,)), 0, "sum", reverse=False, exclusive=False),
    )
    desc = T("float32", (4,))
    picture = explain_graph(before, before, inputs={"x": desc}, outputs={"y": desc}, arena_bytes=256)
    assert [(one.operator, one.does) for one in picture.before] == [
        ("copy", "copy [4] from x[::-1]"),
        ("running sum", "running sum along axis 0 of a"),
    ]
    assert str(picture).endswith("\n\nBetween the passes: 256 bytes scratch memory.")
    assert "Between the passes: 256 bytes scratch memory." in texts(picture.svg())
    written = recipe(
        {"input0": "input", "output0": "output"},
        copy_of(view("input0", (2, 2), (1, 2)), view("output0", (2, 2), (-1, 4), 3)),
    )
    square, wide = T("float32", (2, 2)), T("float32", (2, 4))
    picture = explain_graph(before, written, inputs={"x": square}, outputs={"y": wide}, arena_bytes=0)
    assert picture.after[0].does == "copy [2,2] from x transposed (1,0), into y[..., :1:-1] transposed (1,0)"


def test_the_runtime_may_say_what_it_made() -> None:
    desc = crop_flip_sum_flip()
    made = recipes_of(desc)
    assert explain_desc(desc, made, arena_bytes=lay_out(made.after).size_in_bytes) == explain_desc(desc)
    as_lowered = explain_desc(desc, Recipes(made.before, made.before))
    assert as_lowered.after == tuple(_without_operator(one) for one in as_lowered.before)
    assert as_lowered.arena_bytes == lay_out(made.before).size_in_bytes > 0


def _without_operator(one: Any) -> Any:
    return replace(one, operator="")


# Words


@pytest.mark.parametrize(
    ("slices", "text"),
    [
        ((0, 1, 4, 4), ":"),
        ((1, 1, 3, 4), "1:"),
        ((1, 1, 2, 4), "1:3"),
        ((3, -1, 4, 4), "::-1"),
        ((2, -1, 3, 4), "2::-1"),
        ((3, -1, 2, 4), ":1:-1"),
        ((3, -2, 2, 4), "::-2"),
        ((0, 2, 2, 4), "::2"),
        ((0, 2, 2, 5), ":3:2"),
        ((2, 1, 1, 4), "2:3"),
        ((0, 1, 1, 1), ":"),
    ],
)
def test_slices_are_written_as_short_as_they_can_be(slices: tuple[int, int, int, int], text: str) -> None:
    assert word_slice(*slices) == text


@RANDOM
@given(st.data())
def test_a_view_is_told_as_numpy_would_slice_it(data: st.DataObject) -> None:
    draw = data.draw
    sizes = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3), "sizes"))
    whole = view("x", sizes)
    if draw(st.booleans(), "turned"):
        whole = whole.window([n - 1 for n in sizes], [-1] * len(sizes), sizes)
    starts: list[int] = []
    steps: list[int] = []
    counts: list[int] = []
    for size in sizes:
        step = draw(st.sampled_from((1, 1, 2, 3, -1, -2)))
        start = draw(st.integers(0, size - 1))
        most = ((size - 1 - start) // step if step > 0 else start // -step) + 1
        starts, steps, counts = [*starts, start], [*steps, step], [*counts, draw(st.integers(1, most))]
    part = whole.window(starts, steps, counts)
    order = draw(st.permutations(range(len(sizes))))
    part = View("x", F32, tuple(part.sizes[k] for k in order), tuple(part.strides[k] for k in order), part.offset)
    repeats = draw(st.sampled_from((1, 1, 3)))
    part = View("x", F32, (repeats, *part.sizes), (0, *part.strides), part.offset) if repeats > 1 else part
    text = word_view(part, whole, "x")
    if found := re.fullmatch(r"x seen as \[(.*?)\](?: by strides \[(.*?)\])?(?: from element (.*))?", text):
        assert repeats > 1  # one dimension more, and not in order
        assert tuple(map(int, found[1].split(","))) == part.sizes
        assert tuple(map(int, found[2].split(","))) == part.strides
        assert int(found[3] or 0) == part.offset
        return
    found = re.fullmatch(r"x(\[.*?\])?(?: transposed \((.*?)\))?( repeated along axis 0)?", text)
    assert found, text
    assert bool(found[3]) == (repeats > 1)
    x = places_of(whole)
    picked = eval(f"x{found[1] or ''}", {"x": x})  # noqa: S307 - our own words
    picked = picked.transpose([int(k) for k in found[2].split(",")]) if found[2] else picked
    expected = places_of(part)
    np.testing.assert_array_equal(picked.ravel(), (expected[0] if repeats > 1 else expected).ravel())


def places_of(part: View) -> Any:
    grid = np.indices(part.sizes)
    return part.offset + sum(index * stride for index, stride in zip(grid, part.strides, strict=True))


def test_views_that_no_slice_says_are_told_by_their_strides() -> None:
    whole = view("x", (4, 6))
    assert word_view(view("x", (24,)), whole, "x") == "x seen as [24]"
    assert word_view(view("x", (2, 2)), view("x", (4,)), "x") == "x seen as [2,2]"
    assert word_view(view("x", (4,), (7,)), whole, "x") == "x seen as [4] by strides [7]"
    assert word_view(view("x", (4,), (7,), 2), None, "x") == "x seen as [4] by strides [7] from element 2"
    assert word_view(view("x", (2, 3)), None, "x") == "x"
    assert word_view(view("x", (1, 1, 4, 6)), whole, "x") == "x"
    other = View("x", dml.DataType.INT32, (4, 6), (6, 1))
    assert word_view(other, whole, "x") == "x as INT32"


def test_bytes_are_told_as_people_read_them() -> None:
    assert [word_bytes(n) for n in (0, 1023, 1024, 1536, 5 << 20, 3 << 30, 7 << 40, 5000 << 40)] == [
        "0 bytes", "1023 bytes", "1 KiB", "1.5 KiB", "5 MiB", "3 GiB", "7 TiB", "5000 TiB",
    ]  # fmt: skip
