"""The optimiser's rules: what each makes of a small recipe, and that random ones keep every bit of their outputs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from anydml.graph.optimise import optimise
from anydml.graph.passes.copy_elimination import copy_propagation, store_forwarding
from anydml.graph.passes.layout import scan_direction
from anydml.graph.passes.narrowing import narrowing
from anydml.ir.fetches import match_gathered
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map
from recipes import gathered, made, recipe, summed, view

if TYPE_CHECKING:
    from anydml.graph.recipe import Recipe, StoreKind
    from anydml.ir.views import View

pytestmark = pytest.mark.check_bounds


XY: dict[str, StoreKind] = {"x": "input", "y": "output"}
XSY: dict[str, StoreKind] = {"x": "input", "s": "scratch", "y": "output"}


# Forward


def test_slices_of_slices_become_one_view() -> None:
    given = recipe(
        XSY | {"t": "scratch"},
        copy_of(view("x", (4, 3), (-20, 3), 65), view("s", (4, 3))),
        copy_of(view("s", (2, 3), (3, -1), 5), view("t", (2, 3))),
        copy_of(view("t", (3,), (1,), 3), view("y", (3,))),
    )
    wanted = (copy_of(view("x", (3,), (-3,), 31), view("y", (3,))), "abc")
    assert copy_propagation(given) == made(XSY | {"t": "scratch"}, wanted)
    assert optimise(given) == made(XY, wanted)


def test_a_slice_that_feeds_a_scan_becomes_its_strides() -> None:
    given = recipe(
        XSY,
        copy_of(view("x", (5, 4), (20, -2), 9), view("s", (5, 4))),
        summed(view("s", (5, 4)), view("y", (5, 4)), 1),
    )
    assert copy_propagation(given) == made(XSY, (summed(view("x", (5, 4), (20, -2), 9), view("y", (5, 4)), 1), "ab"))


def test_slices_that_feed_a_gather_become_its_strides() -> None:
    stores: dict[str, StoreKind] = XSY | {"i": "input", "j": "scratch"}
    given = recipe(
        stores,
        copy_of(view("x", (5, 4), (20, 2)), view("s", (5, 4))),
        copy_of(view("i", (3, 1), (-1, 0), 2), view("j", (3, 1), (1, 0))),
        gathered(view("s", (5, 4)), view("j", (3, 1), (1, 0)), view("y", (3, 4))),
    )
    wanted = gathered(view("x", (5, 4), (20, 2)), view("i", (3, 1), (-1, 0), 2), view("y", (3, 4)))
    assert copy_propagation(given) == made(stores, (wanted, "bac"))


def test_a_copy_stays_if_one_of_its_readers_needs_it() -> None:
    given = recipe(
        XSY | {"z": "output"},
        copy_of(view("x", (5, 4), (20, 2)), view("s", (5, 4))),
        summed(view("s", (5, 4)), view("y", (5, 4))),
        summed(view("s", (20,)), view("z", (20,))),
    )
    assert copy_propagation(given) is given


def test_a_copy_that_reads_in_other_lines_is_cut() -> None:
    given = recipe(
        XSY,
        copy_of(view("x", (5, 4), (20, 2)), view("s", (5, 4))),
        copy_of(view("s", (20,), (-1,), 19), view("y", (20,))),
    )
    wanted = copy_of(view("x", (5, 4), (-20, -2), 86), view("y", (5, 4)))
    assert copy_propagation(given) == made(XSY, (wanted, "ab"))


def test_a_copy_into_an_output_is_read_there() -> None:
    given = recipe(
        XY | {"z": "output"},
        copy_of(view("x", (5,), (4,)), view("y", (5,))),
        summed(view("y", (5,)), view("z", (5,))),
    )
    assert optimise(given) is given


# Absorb


def test_a_scan_writes_its_result_where_a_copy_would_put_it() -> None:
    given = recipe(
        XSY,
        summed(view("x", (2, 3, 1)), view("s", (2, 3, 1)), 1),
        copy_of(view("s", (3, 2), (-1, 3), 2), view("y", (3, 2), (9, 2), 7)),
    )
    assert store_forwarding(given) == made(
        XSY, (summed(view("x", (2, 3, 1)), view("y", (2, 3, 1), (2, -9, 0), 25), 1), "ab")
    )


def test_a_gather_writes_its_result_where_a_copy_would_put_it() -> None:
    stores: dict[str, StoreKind] = XSY | {"i": "input"}
    given = recipe(
        stores,
        gathered(view("x", (9, 4)), view("i", (3, 1)), view("s", (3, 4))),
        copy_of(view("s", (12,), (-1,), 11), view("y", (12,))),
    )
    wanted = gathered(view("x", (9, 4)), view("i", (3, 1)), view("y", (3, 4), (-4, -1), 11))
    assert store_forwarding(given) == made(stores, (wanted, "ab"))


def test_other_readers_read_what_was_written_there() -> None:
    given = recipe(
        XSY | {"z": "output"},
        summed(view("x", (6,)), view("s", (6,))),
        summed(view("s", (3,), (2,)), view("z", (3,))),
        copy_of(view("s", (6,), (-1,), 5), view("y", (6,))),
    )
    assert store_forwarding(given) == made(
        XSY | {"z": "output"},
        (summed(view("x", (6,)), view("y", (6,), (-1,), 5)), "ac"),
        (summed(view("y", (3,), (-2,), 5), view("z", (3,))), "b"),
    )


@pytest.mark.parametrize(
    "read", [view("s", (5,)), view("s", (6, 2), (1, 0)), view("s", (3,), (2,)), view("s", (2, 3), (1, 1))]
)
def test_a_copy_of_less_or_more_than_the_result_is_made(read: View) -> None:
    given = recipe(XSY, summed(view("x", (6,)), view("s", (6,))), copy_of(read, view("y", read.sizes)))
    assert store_forwarding(given) is given


# Narrow


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_running_sum_ends_with_the_last_element_that_is_read(exclusive: bool) -> None:
    given = recipe(
        XSY,
        summed(view("x", (5, 8)), view("s", (5, 8)), 1, exclusive=exclusive),
        copy_of(view("s", (2, 3), (16, 1), 8), view("y", (2, 3))),
    )
    scan = summed(view("x", (2, 3), (16, 1), 8), view("s", (2, 3)), 1, exclusive=exclusive)
    assert narrowing(given) == made(XSY, (scan, "a"), (copy_of(view("s", (2, 3)), view("y", (2, 3))), "b"), s=24)
    assert optimise(given) == made(XY, (replace(scan, target=view("y", (2, 3))), "ab"))


@pytest.mark.parametrize(("reverse", "start", "then"), [(False, 0, 4), (True, 4, 0)])
def test_a_sum_keeps_the_end_that_it_walks_from(reverse: bool, start: int, then: int) -> None:
    given = recipe(
        XSY,
        summed(view("x", (12,)), view("s", (12,)), reverse=reverse),
        copy_of(view("s", (2,), (3,), 4), view("y", (2,))),
    )
    assert narrowing(given) == made(
        XSY,
        (summed(view("x", (8,), (1,), start), view("s", (8,)), reverse=reverse), "a"),
        (copy_of(view("s", (2,), (3,), then), view("y", (2,))), "b"),
        s=32,
    )


def test_several_readers_are_given_what_they_read_between_them() -> None:
    given = recipe(
        XSY | {"z": "output"},
        summed(view("x", (9, 4)), view("s", (9, 4), (1, 9)), 1),
        copy_of(view("s", (2,), (4,), 2), view("y", (2,))),
        summed(view("s", (2,), (9,), 8), view("z", (2,))),
    )
    assert narrowing(given) == made(
        XSY | {"z": "output"},
        (summed(view("x", (4, 2), (8, 1), 8), view("s", (4, 2), (1, 4)), 1), "a"),
        (copy_of(view("s", (2,), (2,)), view("y", (2,))), "b"),
        (summed(view("s", (2,), (4,), 3), view("z", (2,))), "c"),
        s=32,
    )


@pytest.mark.parametrize("clamp", [False, True])
def test_a_gather_that_may_raise_looks_at_all_of_its_tuples(clamp: bool) -> None:
    stores: dict[str, StoreKind] = XSY | {"i": "input"}
    whole = gathered(view("x", (2, 7, 4)), view("i", (2, 3, 1)), view("s", (2, 3, 4)), batch=1, clamp=clamp)
    given = recipe(stores, whole, copy_of(view("s", (2,), (2,), 13), view("y", (2,))))
    part = gathered(
        view("x", (1, 7, 2), (0, 4, 2), 29), view("i", (1, 1, 1), (0, 0, 0), 3), view("s", (1, 1, 2), (0, 0, 1)),
        batch=1, clamp=True,
    )  # fmt: skip
    part = replace(part, checks=whole.checks)
    wanted = made(stores, (part, "a"), (copy_of(view("s", (2,)), view("y", (2,))), "b"), s=8)
    _assert_same_but_for_strides_of_single_elements(narrowing(given), wanted)
    found = narrowing(given).steps[0].primitive
    assert isinstance(found, Map)
    assert match_gathered(found) is not None


def _assert_same_but_for_strides_of_single_elements(got: Recipe, wanted: Recipe) -> None:
    def plain(of: View) -> View:
        return of.window([0] * len(of.sizes), [1] * len(of.sizes), of.sizes)

    def plainly(of: Recipe) -> Recipe:
        return replace(of, steps=tuple(s.reading(plain).writing(plain(s.target)) for s in of.steps))

    assert plainly(got) == plainly(wanted)


# Direction


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_reversing_before_and_after_a_sum_becomes_its_direction(reverse: bool, exclusive: bool) -> None:
    given = recipe(
        XSY | {"t": "scratch"},
        copy_of(view("x", (2, 5), (5, -1), 4), view("s", (2, 5))),
        summed(view("s", (2, 5)), view("t", (2, 5)), 1, reverse=reverse, exclusive=exclusive),
        copy_of(view("t", (2, 5), (5, -1), 4), view("y", (2, 5))),
    )
    scan = summed(view("x", (2, 5)), view("y", (2, 5)), 1, reverse=not reverse, exclusive=exclusive)
    assert optimise(given) == made(XY, (scan, "abc"))


def test_a_reversal_meets_another_behind_a_second_sum() -> None:
    given = recipe(
        XSY | {"t": "scratch", "u": "scratch"},
        copy_of(view("x", (5,), (-1,), 4), view("s", (5,))),
        summed(view("s", (5,)), view("t", (5,))),
        summed(view("t", (5,)), view("u", (5,)), reverse=True),
        copy_of(view("u", (5,), (-1,), 4), view("y", (5,))),
    )
    wanted = (
        (summed(view("x", (5,)), view("t", (5,)), reverse=True), "ab"),
        (summed(view("t", (5,)), view("y", (5,))), "cd"),
    )
    assert optimise(given) == made({"x": "input", "y": "output", "t": "scratch"}, *wanted)


def test_a_sum_between_a_reversal_and_none_stays() -> None:
    given = recipe(XY, summed(view("x", (5,), (-1,), 4), view("y", (5,))))
    assert scan_direction(given) is given
