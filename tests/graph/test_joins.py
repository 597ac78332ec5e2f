"""The optimiser's rules on joins, splits, maps, fills and reversals."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from anydml.core.enums import DataType
from anydml.graph.arena import Arena, lay_out
from anydml.graph.guard import guard
from anydml.graph.optimise import optimise
from anydml.graph.passes.constant_folding import constant_folding
from anydml.graph.passes.copy_elimination import copy_propagation, store_forwarding
from anydml.graph.passes.layout import scan_direction
from anydml.graph.passes.narrowing import narrowing
from anydml.graph.passes.redundancy import cse, dce
from anydml.graph.recipe import Store
from anydml.ir.fetches import match_reversed, reversal
from anydml.ir.patterns import copy_of, filled, is_copy, scaled
from anydml.ir.verbs import Map, Scan
from cases import ENGINES
from recipes import gathered, made, recipe, run, summed, view

if TYPE_CHECKING:
    from anydml.graph.recipe import StoreKind
    from anydml.ir.verbs import Primitive
    from anydml.ir.views import View

XY: dict[str, StoreKind] = {"x": "input", "y": "output"}
XSY: dict[str, StoreKind] = {"x": "input", "s": "scratch", "y": "output"}
WXY: dict[str, StoreKind] = {"w": "input", "x": "input", "y": "output"}
FRONT, BACK = view("y", (2, 3), (7, 1)), view("y", (2, 4), (7, 1), 3)
"""The parts of an output of 2 x 7."""


def of(target: View, tensor: str) -> View:
    return replace(target, tensor=tensor)


# Joins


def test_what_is_joined_is_computed_in_its_place() -> None:
    given = recipe(
        WXY | {"s": "scratch", "t": "scratch"},
        summed(view("w", (2, 3)), view("s", (2, 3)), 1),
        scaled(view("x", (2, 4)), view("t", (2, 4)), 2.0, 1.0),
        copy_of(view("s", (2, 3)), FRONT),
        copy_of(view("t", (2, 4)), BACK),
    )
    wanted = ((summed(view("w", (2, 3)), FRONT, 1), "ac"), (scaled(view("x", (2, 4)), BACK, 2.0, 1.0), "bd"))
    assert store_forwarding(given) == made(WXY | {"s": "scratch", "t": "scratch"}, *wanted)
    assert optimise(given) == made(WXY, *wanted)


def test_a_slice_of_one_part_of_a_join_reads_that_alone() -> None:
    """The other part is not computed."""
    given = recipe(
        WXY | {"s": "scratch", "t": "scratch", "j": "scratch"},
        summed(view("w", (2, 3)), view("s", (2, 3)), 1),
        summed(view("x", (2, 4)), view("t", (2, 4)), 1),
        copy_of(view("s", (2, 3)), of(FRONT, "j")),
        copy_of(view("t", (2, 4)), of(BACK, "j")),
        copy_of(view("j", (2, 2), (7, 1), 1), view("y", (2, 2))),
    )
    kept = [step.primitive for step in copy_propagation(given).steps]
    assert copy_of(view("s", (2, 2), (3, 1), 1), view("y", (2, 2))) in kept
    found = optimise(given)
    assert [type(step.primitive) for step in found.steps] == [Scan, Map]
    assert {source.tensor for step in found.steps for source in step.sources} == {"w", "s"}
    assert [step.nodes for step in found.steps] == [("a",), ("c", "e")]


def test_a_slice_across_the_parts_of_a_join_reads_the_join() -> None:
    given = recipe(
        WXY | {"j": "scratch"},
        copy_of(view("w", (2, 3)), of(FRONT, "j")),
        copy_of(view("x", (2, 4)), of(BACK, "j")),
        copy_of(view("j", (2, 2), (7, 1), 2), view("y", (2, 2))),
    )
    assert optimise(given) is given


def test_what_several_steps_write_is_no_ones_own() -> None:
    """A scan of a join cannot write over it, be narrowed to what is read of one part, or turned round."""
    parts = (
        summed(view("w", (2, 3)), of(FRONT, "j"), 1),
        summed(view("x", (2, 4), (4, -1), 3), of(BACK, "j"), 1),
        Scan((view("j", (14,)),), view("y", (14,)), 0, "sum", reverse=False, exclusive=True),
    )
    given = recipe(WXY | {"j": "scratch"}, *parts)
    assert given.shared() == {"j"}
    for rule in (narrowing, store_forwarding, scan_direction):
        assert rule(given) is given


def test_a_join_that_is_copied_whole_is_written_where_the_copy_would_put_it() -> None:
    given = recipe(
        WXY | {"j": "scratch"},
        summed(view("w", (2, 3)), of(FRONT, "j"), 1),
        summed(view("x", (2, 4)), of(BACK, "j"), 1),
        copy_of(view("j", (2, 7)), view("y", (2, 7))),
    )
    wanted = (summed(view("w", (2, 3)), FRONT, 1), "ac"), (summed(view("x", (2, 4)), BACK, 1), "bc")
    assert optimise(given) == made(WXY, *wanted)


def test_joins_of_joins_are_written_once() -> None:
    """As a cache of keys and values is, which grows by a row, and which a step reads meanwhile."""
    stores: dict[str, StoreKind] = {"w": "input", "x": "input", "y": "output", "z": "output"}
    given = recipe(
        stores | {"j": "scratch", "k": "scratch"},
        summed(view("w", (2, 3)), of(FRONT, "j"), 1),
        summed(view("x", (2, 4)), of(BACK, "j"), 1),
        summed(view("j", (7, 2), (1, 7)), view("z", (7, 2))),
        copy_of(view("j", (2, 7)), view("k", (2, 7), (7, 1), 14)),
        copy_of(view("w", (2, 7)), view("k", (2, 7))),
        copy_of(view("k", (7, 4), (-1, 7), 6), view("y", (7, 4), (4, 1), 30)),
    )
    wanted = (
        (summed(view("w", (2, 3)), view("y", (2, 3), (1, -4), 56), 1), "adf"),
        (summed(view("x", (2, 4)), view("y", (2, 4), (1, -4), 44), 1), "bdf"),
        (summed(view("y", (7, 2), (-4, 1), 56), view("z", (7, 2))), "c"),
        (copy_of(view("w", (2, 7), (7, 1)), view("y", (2, 7), (1, -4), 54)), "ef"),
    )
    found = optimise(given)
    assert found == made(stores, *wanted)
    contents = {name: np.arange(100, dtype="f4") + k for k, name in enumerate("wx")}
    for engine in ENGINES:
        assert run(found, engine, contents) == run(given, engine, contents)


def test_a_join_stays_that_is_read_as_its_copy_does_not_lie() -> None:
    """Or that the copy takes a part of."""
    parts = summed(view("w", (2, 3)), of(FRONT, "j"), 1), summed(view("x", (2, 4)), of(BACK, "j"), 1)
    stores: dict[str, StoreKind] = WXY | {"z": "output", "j": "scratch"}
    line = summed(view("j", (14,)), view("z", (14,)))
    for others in (
        (copy_of(view("j", (2, 7)), view("y", (2, 7), (9, 1))), line),
        (copy_of(view("j", (2, 6), (7, 1)), view("y", (2, 6))), line),
    ):
        given = recipe(stores, *parts, *others)
        assert store_forwarding(given) is given


def test_parts_of_a_join_that_are_the_same_are_computed_once() -> None:
    given = recipe(
        XY | {"s": "scratch", "t": "scratch"},
        summed(view("x", (2, 3)), view("s", (2, 3)), 1),
        summed(view("x", (2, 3)), view("t", (2, 3)), 1),
        copy_of(view("s", (2, 3)), view("y", (2, 3), (6, 1))),
        copy_of(view("t", (2, 3)), view("y", (2, 3), (6, 1), 3)),
    )
    first, second = optimise(given).steps
    assert isinstance(first.primitive, Scan)
    assert is_copy(second.primitive)
    assert {first.target, second.target} == {view("y", (2, 3), (6, 1)), view("y", (2, 3), (6, 1), 3)}
    assert second.sources == (first.target,)


def test_a_join_of_constants_is_put_together_at_every_dispatch() -> None:
    """What goes into it is computed once."""
    stores: dict[str, StoreKind] = {"c": "constant", "s": "scratch", "j": "scratch", "y": "output"}
    given = recipe(
        stores,
        summed(view("c", (3,)), view("s", (3,))),
        copy_of(view("s", (3,)), view("j", (3,))),
        copy_of(view("c", (3,)), view("j", (3,), (1,), 3)),
        summed(view("j", (6,)), view("y", (6,))),
    )
    once, always = constant_folding(given)
    assert [step.nodes for step in once.steps] == [("a",)]
    assert [step.nodes for step in always.steps] == [("b",), ("c",), ("d",)]
    assert (once.stores["s"].kind, always.stores["s"].kind) == ("output", "constant")
    assert always.stores["j"].kind == "scratch"


def test_parts_that_nobody_reads_go_with_their_join() -> None:
    given = recipe(
        WXY | {"j": "scratch", "s": "scratch"},
        summed(view("w", (2, 3)), view("s", (2, 3))),
        copy_of(view("s", (2, 3)), of(FRONT, "j")),
        copy_of(view("x", (2, 4)), of(BACK, "j")),
        copy_of(view("x", (2,)), view("y", (2,))),
    )
    assert dce(given) == made(WXY, (copy_of(view("x", (2,)), view("y", (2,))), "d"))


# Splits


def test_parts_of_a_split_that_nobody_needs_are_not_made() -> None:
    given = recipe(
        XY | {"s": "scratch", "t": "scratch", "u": "scratch"},
        copy_of(view("x", (1, 4), (0, 1)), view("s", (1, 4), (0, 1))),
        copy_of(view("x", (2, 4), None, 4), view("t", (2, 4))),
        copy_of(view("x", (3, 4), None, 12), view("u", (3, 4))),
        summed(view("t", (2, 4)), view("y", (2, 4))),
    )
    assert optimise(given) == made(XY, (summed(view("x", (2, 4), None, 4), view("y", (2, 4))), "bd"))


def test_what_is_split_and_joined_again_is_a_copy_of_each_part() -> None:
    given = recipe(
        XY | {"s": "scratch", "t": "scratch"},
        copy_of(view("x", (2, 3), (7, 1)), view("s", (2, 3))),
        copy_of(view("x", (2, 4), (7, 1), 3), view("t", (2, 4))),
        copy_of(view("t", (2, 4)), view("y", (2, 4), (7, 1))),
        copy_of(view("s", (2, 3)), view("y", (2, 3), (7, 1), 4)),
    )
    assert optimise(given) == made(
        XY,
        (copy_of(view("x", (2, 4), (7, 1), 3), view("y", (2, 4), (7, 1))), "bc"),
        (copy_of(view("x", (2, 3), (7, 1)), view("y", (2, 3), (7, 1), 4)), "ad"),
    )


# Maps, fills and reversals


def test_a_transposed_copy_is_the_strides_of_its_reader() -> None:
    """ELEMENT_WISE_IDENTITY from rows into columns, and a map and a reversal of that."""
    columns = view("s", (4, 6), (1, 4))
    for reader, wanted in (
        (scaled(columns, view("y", (4, 6)), 2.0), scaled(view("x", (4, 6)), view("y", (4, 6)), 2.0)),
        (scaled(view("s", (6, 4)), view("y", (6, 4))), scaled(view("x", (6, 4), (1, 6)), view("y", (6, 4)))),
        (
            reversal(view("s", (6, 4)), view("l", (6, 1), (1, 0)), view("y", (6, 4)), 1),
            reversal(view("x", (6, 4), (1, 6)), view("l", (6, 1), (1, 0)), view("y", (6, 4)), 1),
        ),
    ):
        stores: dict[str, StoreKind] = XSY | {"l": "input"}
        given = recipe(stores, copy_of(view("x", (4, 6)), columns), reader)
        assert copy_propagation(given) == made(stores, (wanted, "ab"))


def test_a_slice_of_lengths_is_read_at_once() -> None:
    stores: dict[str, StoreKind] = XSY | {"l": "input"}
    given = recipe(
        stores,
        copy_of(view("l", (4, 1), (2, 0), 1), view("s", (4, 1), (1, 0))),
        reversal(view("x", (4, 6)), view("s", (4, 1), (1, 0)), view("y", (4, 6)), 1),
    )
    wanted = reversal(view("x", (4, 6)), view("l", (4, 1), (2, 0), 1), view("y", (4, 6)), 1)
    assert copy_propagation(given) == made(stores, (wanted, "ab"))


READ = copy_of(view("s", (2, 3), (12, 2), 7), view("y", (2, 3)))
"""Rows 1 and 3 and columns 1, 3 and 5 of 5 x 6."""


def test_of_a_map_what_is_read_is_computed() -> None:
    given = recipe(XSY, scaled(view("x", (5, 6)), view("s", (5, 6)), 2.0, 0.5), READ)
    part = scaled(view("x", (2, 3), (12, 2), 7), view("s", (2, 3)), 2.0, 0.5)
    assert narrowing(given) == made(XSY, (part, "a"), (copy_of(view("s", (2, 3)), view("y", (2, 3))), "b"), s=24)
    assert optimise(given) == made(XY, (replace(part, target=view("y", (2, 3))), "ab"))


def test_of_a_constant_fill_what_is_read_is_written() -> None:
    given = recipe(XSY, filled(view("s", (5, 6)), 1.5, 0.0), READ)
    assert optimise(given) == made(XY, (filled(view("y", (2, 3)), 1.5, 0.0), "ab"))


def test_of_a_fill_that_counts_what_is_read_is_written() -> None:
    given = recipe(XSY, filled(view("s", (5, 6)), 1.5, 2.0), READ)
    (step,) = optimise(given).steps
    assert (step.sources, step.target) == ((), READ.target)
    assert run(optimise(given), "reference", {}) == run(given, "reference", {})


@pytest.mark.parametrize("axis", [0, 1])
def test_of_a_reversal_what_is_read_is_computed(axis: int) -> None:
    """Along the axis it is another map, that reads lines as long as they were; across it a smaller reversal."""
    stores: dict[str, StoreKind] = XSY | {"l": "input"}
    sizes = (1, 6) if axis == 0 else (5, 1)
    lengths = replace(view("l", sizes), data_type=DataType.UINT32)
    given = recipe(stores, reversal(view("x", (5, 6)), lengths, view("s", (5, 6)), axis), READ)
    (step,) = optimise(given).steps
    assert step.target == READ.target
    assert step.sources[0].sizes == ((5, 3) if axis == 0 else (2, 6))
    assert isinstance(step.primitive, Map)
    assert match_reversed(step.primitive) is None
    across = copy_of(view("s", (5, 2), (6, 2), 1) if axis == 0 else view("s", (2, 6), (12, 1), 6), view("y", (5, 2)))
    across = replace(across, target=view("y", across.source.sizes))
    (whole,) = optimise(recipe(stores, given.steps[0].primitive, across)).steps
    assert isinstance(whole.primitive, Map)
    assert match_reversed(whole.primitive) is not None
    contents = {"x": np.arange(100, dtype="f4"), "l": np.arange(100, dtype="u4") % 7}
    for engine in ("reference", "cpu"):
        assert run(optimise(given), engine, contents) == run(given, engine, contents)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (filled(view("y", (6,)), 0.0, 0.0), filled(view("z", (6,)), -0.0, 0.0)),
        (filled(view("y", (6,)), 1.0, 0.0), filled(view("z", (6,)), 1.0, 1.0)),
        (scaled(view("x", (6,)), view("y", (6,)), 2.0, 0.0), scaled(view("x", (6,)), view("z", (6,)), 2.0, -0.0)),
        (scaled(view("x", (6,)), view("y", (6,)), 0.0, 1.0), scaled(view("x", (6,)), view("z", (6,)), -0.0, 1.0)),
        (
            scaled(view("x", (6,)), view("y", (6,))),
            scaled(view("x", (6,)), replace(view("z", (6,)), data_type=DataType.INT32)),
        ),
        (
            reversal(view("x", (3, 3)), view("x", (3, 1)), view("y", (3, 3)), 1),
            reversal(view("x", (3, 3)), view("x", (1, 3)), view("z", (3, 3)), 0),
        ),
    ],
)
def test_what_differs_is_computed_apart(one: Primitive, other: Primitive) -> None:
    given = recipe(XY | {"z": "output"}, one, other)
    assert one != other
    assert optimise(given) is given


@pytest.mark.parametrize(
    "one",
    [
        filled(view("y", (6,)), -0.0, 0.0),
        filled(view("y", (6,)), float("nan"), 0.0),
        scaled(view("x", (6,)), view("y", (6,)), 2.0, -0.0),
        reversal(view("x", (6,)), view("x", (1,)), view("y", (6,)), 0),
    ],
)
def test_what_is_the_same_is_computed_once(one: Primitive) -> None:
    stores: dict[str, StoreKind] = XSY | {"z": "output"}
    given = recipe(stores, one, replace(one, target=view("s", (6,))), summed(view("s", (6,)), view("z", (6,))))
    wanted = made(stores, (one, "ab"), (summed(view("y", (6,)), view("z", (6,))), "c"))
    assert cse(given) == wanted


def test_two_outputs_are_filled_rather_than_copied() -> None:
    given = recipe(XY | {"z": "output"}, *(filled(view(name, (6,)), 1.0, 0.0) for name in "yz"))
    assert optimise(given) is given


def test_a_fill_is_written_once_for_all() -> None:
    """It depends on nothing, and so on constants alone."""
    given = recipe(XSY, filled(view("s", (6,)), 0.0, 1.0), summed(view("s", (6,)), view("y", (6,))))
    once, always = constant_folding(given)
    assert [step.nodes for step in once.steps] == [("a",), ("b",)]
    assert [step.primitive for step in always.steps] == [copy_of(view("y once", (6,)), view("y", (6,)))]


# Before the last index is known


def test_every_part_of_an_output_is_held_back_from_a_gather() -> None:
    """The other part is written before the gather that may raise: both go to scratch memory first."""
    stores: dict[str, StoreKind] = WXY | {"i": "input"}
    front, back = copy_of(view("w", (2, 3)), FRONT), gathered(view("x", (9, 4)), view("i", (2, 1)), BACK)
    given = recipe(stores, front, back)
    # The gather needs nothing, and is put first.
    assert guard(given) == made(stores, (back, "b"), (front, "a"))
    second = gathered(view("x", (9, 4)), view("y", (1, 1), (0, 0)), view("z", (1, 4)))
    later = second.reading(lambda one: replace(one, offset=3) if one.tensor == "y" else one)
    needy = recipe(stores | {"z": "output"}, front, back, later)
    found = guard(needy)
    assert found.stores["y held back"] == Store("scratch", 400)
    written = [step.target.tensor for step in found.steps]
    assert written == ["y held back", "y held back", "z", "y", "y"]
    assert [step.target for step in found.steps[3:]] == [FRONT, BACK]
    assert [step.sources[0] for step in found.steps[3:]] == [of(FRONT, "y held back"), of(BACK, "y held back")]


def test_a_part_that_is_written_after_the_last_gather_is_copied_too() -> None:
    stores: dict[str, StoreKind] = WXY | {"i": "input", "z": "output"}
    given = recipe(
        stores,
        gathered(view("x", (9, 3)), view("i", (2, 1)), FRONT),
        copy_of(view("w", (2, 4)), BACK),
        gathered(view("x", (9, 3)), view("i", (2, 1), (1, 0), 2), view("z", (2, 3))),
    )
    found = guard(given)
    assert [step.nodes for step in found.steps] == [("a",), ("c",), ("b",), ("a",), ("b",)]
    assert [step.target.tensor for step in found.steps] == ["y held back", "z", "y held back", "y", "y"]
    assert [step.target for step in found.steps[3:]] == [FRONT, BACK]


def test_parts_of_an_output_that_is_held_back_are_read_where_they_were_written() -> None:
    """By the steps that write its other parts too; only what was there before them is read from the output itself."""
    stores: dict[str, StoreKind] = WXY | {"i": "input"}
    first, second, third = view("y", (4,)), view("y", (4,), None, 4), view("y", (4,), None, 8)
    given = recipe(
        stores,
        copy_of(view("y", (4,), None, 20), first),
        copy_of(first, second),
        gathered(view("y", (2, 4)), view("i", (1, 1)), third),
    )
    found = guard(given)
    assert [step.sources[0].tensor for step in found.steps[:3]] == ["y", "y held back", "y held back"]
    assert {step.target.tensor for step in found.steps[:3]} == {"y held back"}


# The arena


def test_a_store_that_several_steps_write_lies_apart_from_the_first_on() -> None:
    """`s` is needed until it is joined, while the first part is there already."""
    given = recipe(
        XSY | {"j": "scratch"},
        copy_of(view("x", (50,)), view("j", (50,))),
        summed(view("x", (50,)), view("s", (50,))),
        copy_of(view("s", (50,)), view("j", (50,), (1,), 50)),
        summed(view("j", (100,)), view("y", (100,))),
    )
    assert lay_out(given) == Arena({"j": 0, "s": 512}, 1024)


def test_a_scan_does_not_write_over_what_is_joined_yet() -> None:
    """The second scan is the last to read `j`, which lies as its own result does; but the first reads a part of it."""
    given = recipe(
        WXY | {"j": "scratch", "k": "scratch", "z": "output"},
        copy_of(view("x", (50,)), view("j", (50,))),
        copy_of(view("w", (50,)), view("j", (50,), (1,), 50)),
        summed(view("j", (100,)), view("k", (100,))),
        summed(view("k", (100,)), view("y", (100,))),
        copy_of(view("j", (10,)), view("z", (10,))),
    )
    assert lay_out(given) == Arena({"j": 0, "k": 512}, 1024)
    assert lay_out(replace(given, steps=given.steps[:-1])) == Arena({"j": 0, "k": 0}, 512)
