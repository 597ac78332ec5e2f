"""Of maps, fills and reversals what is read is computed, once where it is the same; outputs of parts are held back."""

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
from anydml.graph.passes.narrowing import narrowing
from anydml.graph.passes.redundancy import cse
from anydml.graph.recipe import Store
from anydml.ir.fetches import match_turned, turned
from anydml.ir.patterns import copy_of, filled, scaled
from anydml.ir.verbs import Map
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
    given = recipe(stores, turned(view("x", (5, 6)), lengths, view("s", (5, 6)), axis), READ)
    (step,) = optimise(given).steps
    assert step.target == READ.target
    assert step.sources[0].sizes == ((5, 3) if axis == 0 else (2, 6))
    assert isinstance(step.primitive, Map)
    assert match_turned(step.primitive) is None
    across = copy_of(view("s", (5, 2), (6, 2), 1) if axis == 0 else view("s", (2, 6), (12, 1), 6), view("y", (5, 2)))
    across = replace(across, target=view("y", across.source.sizes))
    (whole,) = optimise(recipe(stores, given.steps[0].primitive, across)).steps
    assert isinstance(whole.primitive, Map)
    assert match_turned(whole.primitive) is not None
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
            turned(view("x", (3, 3)), view("x", (3, 1)), view("y", (3, 3)), 1),
            turned(view("x", (3, 3)), view("x", (1, 3)), view("z", (3, 3)), 0),
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
        turned(view("x", (6,)), view("x", (1,)), view("y", (6,)), 0),
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
