"""What is the same, depends on constants alone or is read by nobody: computed once, ahead or not at all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given

from anydml.core.enums import DataType
from anydml.graph.optimise import optimise
from anydml.graph.passes.constant_folding import constant_folding
from anydml.graph.passes.horizontal_fusion import horizontal_fusion
from anydml.graph.passes.redundancy import cse, dce
from anydml.graph.recipe import Recipe
from anydml.ir.patterns import copy_of, scaled
from cases import ENGINES
from random_recipes import RANDOM, Drawn, random_recipes
from recipes import assert_same_outputs, gathered, made, recipe, run, summed, view

if TYPE_CHECKING:
    from anydml.graph.recipe import StoreKind


XY: dict[str, StoreKind] = {"x": "input", "y": "output"}
XSY: dict[str, StoreKind] = {"x": "input", "s": "scratch", "y": "output"}


# Same


def test_what_is_the_same_is_computed_once() -> None:
    given = recipe(
        XSY | {"t": "scratch", "z": "output"},
        summed(view("x", (6,)), view("s", (6,))),
        summed(view("x", (6,)), view("t", (6,), (-2,), 10)),
        summed(view("s", (6,)), view("y", (6,))),
        gathered(view("t", (6,), (-2,), 10), view("x", (3, 1)), view("z", (3,))),
    )
    assert cse(given) == made(
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
    assert cse(given) == made(
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
def test_what_differs_is_computed_apart(change: dict[str, Any]) -> None:
    scan = summed(view("x", (3, 2)), view("y", (3, 2)))
    other = replace(scan, target=view("z", (3, 2)), **change)
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
    assert dce(given) == (made(XY, (copy, "a")) if clamp else made(XSY | {"c": "constant"}, (copy, "a"), (gather, "b")))
    assert dce(dce(given)) == dce(given)


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
    once, always = constant_folding(given)
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
    once, always = constant_folding(given)
    assert (
        once.steps
        == made(
            {},
            (summed(view("c", (6,)), view("y once'", (6,))), "a"),
            (summed(view("y once'", (6,)), view("z once", (6,))), "b"),
        ).steps
    )
    assert (
        always.steps
        == made(
            {},
            (copy_of(view("y once'", (6,)), view("y", (6,))), "a"),
            (copy_of(view("z once", (6,)), view("z", (6,))), "b"),
            (copy_of(view("y once'", (6,)), view("y once", (6,))), "c"),
        ).steps
    )


def test_there_may_be_nothing_to_compute_once() -> None:
    given = recipe(XY, summed(view("x", (6,)), view("y", (6,))))
    assert constant_folding(given) == (Recipe({}, ()), given)


# All of them


@pytest.mark.parametrize("engines", [ENGINES], ids="+".join)
@RANDOM
@given(drawn=random_recipes())
def test_random_recipes_keep_their_bits(engines: list[str], drawn: Drawn) -> None:
    simple = optimise(drawn.recipe)
    assert simple.bytes_moved <= drawn.recipe.bytes_moved
    assert len(simple.steps) <= len(drawn.recipe.steps)
    once, always = constant_folding(simple)
    whole = horizontal_fusion(simple)
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
