"""The optimiser's rules: what each makes of a small recipe, and that random ones keep every bit of their outputs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given

from anydml.enums import DataType
from anydml.graph.optimise import optimise
from anydml.graph.recipe import Recipe, Step, Store
from anydml.graph.rules.absorb import absorb
from anydml.graph.rules.constants import split_constants
from anydml.graph.rules.dead import dead
from anydml.graph.rules.direction import direction
from anydml.graph.rules.forward import forward
from anydml.graph.rules.narrow import narrow
from anydml.graph.rules.same import same
from anydml.graph.rules.together import together
from anydml.ir.fetches import gathered as gather
from anydml.ir.fetches import match_gathered
from anydml.ir.patterns import copy_of, scaled
from anydml.ir.verbs import Map, Scan
from cases import ENGINES
from recipes import RANDOM, Drawn, assert_same_outputs, random_recipes, recipe, run, view

if TYPE_CHECKING:
    from anydml.graph.recipe import StoreKind
    from anydml.ir.verbs import Primitive
    from anydml.ir.views import View

XY: dict[str, StoreKind] = {"x": "input", "y": "output"}
XSY: dict[str, StoreKind] = {"x": "input", "s": "scratch", "y": "output"}


def summed(source: View, target: View, axis: int = 0, *, reverse: bool = False, exclusive: bool = False) -> Scan:
    return Scan((source,), target, axis, "sum", reverse, exclusive)


def gathered(source: View, indices: View, target: View, *, batch: int = 0, clamp: bool = False) -> Map:
    return gather(source, replace(indices, data_type=DataType.UINT32), target, batch, clamp=clamp)


def made(stores: dict[str, StoreKind], *steps: tuple[Primitive, str], **sizes: int) -> Recipe:
    """What a rule should have made: steps with their nodes, and stores whose size in bytes changed."""
    held = {name: Store(kind, sizes.get(name, 400)) for name, kind in stores.items()}
    return Recipe(held, tuple(Step(primitive, tuple(nodes)) for primitive, nodes in steps))


# Forward


def test_slices_of_slices_become_one_view() -> None:
    given = recipe(
        XSY | {"t": "scratch"},
        copy_of(view("x", (4, 3), (-20, 3), 65), view("s", (4, 3))),
        copy_of(view("s", (2, 3), (3, -1), 5), view("t", (2, 3))),
        copy_of(view("t", (3,), (1,), 3), view("y", (3,))),
    )
    wanted = (copy_of(view("x", (3,), (-3,), 31), view("y", (3,))), "abc")
    assert forward(given) == made(XSY | {"t": "scratch"}, wanted)
    assert optimise(given) == made(XY, wanted)


def test_a_slice_that_feeds_a_scan_becomes_its_strides() -> None:
    given = recipe(
        XSY,
        copy_of(view("x", (5, 4), (20, -2), 9), view("s", (5, 4))),
        summed(view("s", (5, 4)), view("y", (5, 4)), 1),
    )
    assert forward(given) == made(XSY, (summed(view("x", (5, 4), (20, -2), 9), view("y", (5, 4)), 1), "ab"))


def test_slices_that_feed_a_gather_become_its_strides() -> None:
    stores: dict[str, StoreKind] = XSY | {"i": "input", "j": "scratch"}
    given = recipe(
        stores,
        copy_of(view("x", (5, 4), (20, 2)), view("s", (5, 4))),
        copy_of(view("i", (3, 1), (-1, 0), 2), view("j", (3, 1), (1, 0))),
        gathered(view("s", (5, 4)), view("j", (3, 1), (1, 0)), view("y", (3, 4))),
    )
    wanted = gathered(view("x", (5, 4), (20, 2)), view("i", (3, 1), (-1, 0), 2), view("y", (3, 4)))
    assert forward(given) == made(stores, (wanted, "bac"))


def test_a_copy_stays_if_one_of_its_readers_needs_it() -> None:
    given = recipe(
        XSY | {"z": "output"},
        copy_of(view("x", (5, 4), (20, 2)), view("s", (5, 4))),
        summed(view("s", (5, 4)), view("y", (5, 4))),
        summed(view("s", (20,)), view("z", (20,))),
    )
    assert forward(given) is given


def test_a_copy_that_reads_in_other_lines_is_cut() -> None:
    given = recipe(
        XSY,
        copy_of(view("x", (5, 4), (20, 2)), view("s", (5, 4))),
        copy_of(view("s", (20,), (-1,), 19), view("y", (20,))),
    )
    wanted = copy_of(view("x", (5, 4), (-20, -2), 86), view("y", (5, 4)))
    assert forward(given) == made(XSY, (wanted, "ab"))


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
    assert absorb(given) == made(XSY, (summed(view("x", (2, 3, 1)), view("y", (2, 3, 1), (2, -9, 0), 25), 1), "ab"))


def test_a_gather_writes_its_result_where_a_copy_would_put_it() -> None:
    stores: dict[str, StoreKind] = XSY | {"i": "input"}
    given = recipe(
        stores,
        gathered(view("x", (9, 4)), view("i", (3, 1)), view("s", (3, 4))),
        copy_of(view("s", (12,), (-1,), 11), view("y", (12,))),
    )
    wanted = gathered(view("x", (9, 4)), view("i", (3, 1)), view("y", (3, 4), (-4, -1), 11))
    assert absorb(given) == made(stores, (wanted, "ab"))


def test_other_readers_read_what_was_written_there() -> None:
    given = recipe(
        XSY | {"z": "output"},
        summed(view("x", (6,)), view("s", (6,))),
        summed(view("s", (3,), (2,)), view("z", (3,))),
        copy_of(view("s", (6,), (-1,), 5), view("y", (6,))),
    )
    assert absorb(given) == made(
        XSY | {"z": "output"},
        (summed(view("x", (6,)), view("y", (6,), (-1,), 5)), "ac"),
        (summed(view("y", (3,), (-2,), 5), view("z", (3,))), "b"),
    )


@pytest.mark.parametrize(
    "read", [view("s", (5,)), view("s", (6, 2), (1, 0)), view("s", (3,), (2,)), view("s", (2, 3), (1, 1))]
)
def test_a_copy_of_less_or_more_than_the_result_is_made(read: View) -> None:
    given = recipe(XSY, summed(view("x", (6,)), view("s", (6,))), copy_of(read, view("y", read.sizes)))
    assert absorb(given) is given


# Narrow


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_running_sum_ends_with_the_last_element_that_is_read(exclusive: bool) -> None:
    given = recipe(
        XSY,
        summed(view("x", (5, 8)), view("s", (5, 8)), 1, exclusive=exclusive),
        copy_of(view("s", (2, 3), (16, 1), 8), view("y", (2, 3))),
    )
    scan = summed(view("x", (2, 3), (16, 1), 8), view("s", (2, 3)), 1, exclusive=exclusive)
    assert narrow(given) == made(XSY, (scan, "a"), (copy_of(view("s", (2, 3)), view("y", (2, 3))), "b"), s=24)
    assert optimise(given) == made(XY, (replace(scan, target=view("y", (2, 3))), "ab"))


@pytest.mark.parametrize(("reverse", "start", "then"), [(False, 0, 4), (True, 4, 0)])
def test_a_sum_keeps_the_end_that_it_walks_from(reverse: bool, start: int, then: int) -> None:
    given = recipe(
        XSY,
        summed(view("x", (12,)), view("s", (12,)), reverse=reverse),
        copy_of(view("s", (2,), (3,), 4), view("y", (2,))),
    )
    assert narrow(given) == made(
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
    assert narrow(given) == made(
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
    _assert_same_but_for_strides_of_single_elements(narrow(given), wanted)
    found = narrow(given).steps[0].primitive
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
    assert direction(given) is given


# Same


def test_what_is_the_same_is_computed_once() -> None:
    given = recipe(
        XSY | {"t": "scratch", "z": "output"},
        summed(view("x", (6,)), view("s", (6,))),
        summed(view("x", (6,)), view("t", (6,), (-2,), 10)),
        summed(view("s", (6,)), view("y", (6,))),
        gathered(view("t", (6,), (-2,), 10), view("x", (3, 1)), view("z", (3,))),
    )
    assert same(given) == made(
        XSY | {"t": "scratch", "z": "output"},
        (summed(view("x", (6,)), view("s", (6,))), "ab"),
        (summed(view("s", (6,)), view("y", (6,))), "c"),
        (gathered(view("s", (6,)), view("x", (3, 1)), view("z", (3,))), "d"),
    )


def test_the_first_writes_the_output_of_the_second() -> None:
    given = recipe(
        XSY | {"z": "output"},
        summed(view("x", (6,)), view("s", (6,))),
        summed(view("s", (6,)), view("z", (6,))),
        summed(view("x", (6,)), view("y", (6,), (2,))),
    )
    assert same(given) == made(
        XSY | {"z": "output"},
        (summed(view("x", (6,)), view("y", (6,), (2,))), "ac"),
        (summed(view("y", (6,), (2,)), view("z", (6,))), "b"),
    )


def test_of_two_outputs_the_second_is_copied() -> None:
    stores: dict[str, StoreKind] = XY | {"z": "output"}
    scan = summed(view("x", (6,)), view("y", (6,)))
    given = recipe(stores, scan, summed(view("x", (6,)), view("z", (6,))))
    assert optimise(given) == made(stores, (scan, "a"), (copy_of(view("y", (6,)), view("z", (6,))), "b"))
    copies = recipe(stores, *(copy_of(view("x", (6,)), view(name, (6,))) for name in "yz"))
    assert optimise(copies) is copies


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_of_two_outputs_the_second_is_not_copied_where_its_source_is_narrower(scale: float) -> None:
    half = replace(view("x", (6,)), data_type=DataType.FLOAT16)
    made_wide = [scaled(half, view(name, (6,)), scale=scale) for name in "yz"]
    given = recipe(XY | {"z": "output"}, *made_wide)
    assert optimise(given) is given


@pytest.mark.parametrize("change", [{"axis": 1}, {"reverse": True}, {"exclusive": True}, {"function": "product"}])
def test_what_differs_is_computed_apart(change: dict[str, object]) -> None:
    scan = summed(view("x", (3, 2)), view("y", (3, 2)))
    other = replace(scan, target=view("z", (3, 2)), **change)  # type: ignore[arg-type]
    given = recipe(XY | {"z": "output"}, scan, other)
    assert optimise(given) is given


# Dead


@pytest.mark.parametrize("clamp", [False, True])
def test_what_nobody_reads_is_not_computed(clamp: bool) -> None:
    """But for what may raise."""
    stores: dict[str, StoreKind] = XSY | {"c": "constant", "t": "scratch"}
    copy = copy_of(view("x", (3,)), view("y", (3,)))
    gather = gathered(view("c", (6,)), view("x", (3, 1)), view("s", (3,)), clamp=clamp)
    given = recipe(stores, copy, gather, summed(view("s", (3,)), view("t", (3,))))
    assert dead(given) == (
        made(XY, (copy, "a")) if clamp else made(XSY | {"c": "constant"}, (copy, "a"), (gather, "b"))
    )
    assert dead(dead(given)) == dead(given)


# Constants


def test_what_hangs_on_constants_alone_is_computed_once() -> None:
    stores: dict[str, StoreKind] = {**XSY, "c": "constant", "t": "scratch", "z": "output", "w": "output"}
    given = recipe(
        stores,
        summed(view("c", (6,)), view("s", (6,))),
        summed(view("s", (6,)), view("t", (6,))),
        gathered(view("t", (6,)), view("x", (3, 1)), view("y", (3,))),
        summed(view("t", (6,)), view("z", (6,))),
        copy_of(view("c", (6,)), view("w", (6,))),
    )
    once, always = split_constants(given)
    assert once == made(
        {"c": "constant", "s": "scratch", "t": "output", "z once": "output"},
        (summed(view("c", (6,)), view("s", (6,))), "a"),
        (summed(view("s", (6,)), view("t", (6,))), "b"),
        (summed(view("t", (6,)), view("z once", (6,))), "d"),
    )
    assert always == made(
        {**XY, "z": "output", "w": "output", "t": "constant", "z once": "constant", "c": "constant"},
        (gathered(view("t", (6,)), view("x", (3, 1)), view("y", (3,))), "c"),
        (copy_of(view("z once", (6,)), view("z", (6,))), "d"),
        (copy_of(view("c", (6,)), view("w", (6,))), "e"),
    )


def test_what_reads_a_constant_output_is_computed_once_too() -> None:
    given = recipe(
        {"c": "constant", "y": "output", "z": "output", "y once": "output"},
        summed(view("c", (6,)), view("y", (6,))),
        summed(view("y", (6,)), view("z", (6,))),
        copy_of(view("y", (6,)), view("y once", (6,))),
    )
    once, always = split_constants(given)
    assert (
        once.steps
        == made(
            {},
            (summed(view("c", (6,)), view("y once more", (6,))), "a"),
            (summed(view("y once more", (6,)), view("z once", (6,))), "b"),
        ).steps
    )
    assert (
        always.steps
        == made(
            {},
            (copy_of(view("y once more", (6,)), view("y", (6,))), "a"),
            (copy_of(view("z once", (6,)), view("z", (6,))), "b"),
            (copy_of(view("y once more", (6,)), view("y once", (6,))), "c"),
        ).steps
    )


def test_there_may_be_nothing_to_compute_once() -> None:
    given = recipe(XY, summed(view("x", (6,)), view("y", (6,))))
    assert split_constants(given) == (Recipe({}, ()), given)


# All of them


@pytest.mark.parametrize("engines", [ENGINES], ids="+".join)
@RANDOM
@given(drawn=random_recipes())
def test_random_recipes_keep_their_bits(engines: list[str], drawn: Drawn) -> None:
    simple = optimise(drawn.recipe)
    assert simple.bytes_moved <= drawn.recipe.bytes_moved
    assert len(simple.steps) <= len(drawn.recipe.steps)
    once, always = split_constants(simple)
    whole = together(simple)
    assert whole.bytes_moved <= simple.bytes_moved
    for engine in engines:
        wanted = run(drawn.recipe, engine, drawn.contents)
        for shares in (False, True):
            assert_same_outputs(run(simple, engine, drawn.contents, shares=shares), wanted, drawn)
            if whole is not simple:
                assert_same_outputs(run(whole, engine, drawn.contents, shares=shares), wanted, drawn)
        folded = {name: np.frombuffer(data, np.uint8) for name, data in run(once, engine, drawn.contents).items()}
        assert_same_outputs(run(always, engine, drawn.contents | folded), wanted, drawn)


@RANDOM
@given(drawn=random_recipes())
def test_what_was_simplified_is_simple(drawn: Drawn) -> None:
    simple = optimise(drawn.recipe)
    assert optimise(simple) is simple
    named = {node for step in drawn.recipe.steps for node in step.nodes}
    assert all(set(step.nodes) <= named and len(set(step.nodes)) == len(step.nodes) for step in simple.steps)
