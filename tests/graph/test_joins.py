"""The optimiser's rules on joins, splits, maps, fills and reversals."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from anydml.graph.optimise import optimise
from anydml.graph.passes.constant_folding import constant_folding
from anydml.graph.passes.copy_elimination import copy_propagation, store_forwarding
from anydml.graph.passes.layout import scan_direction
from anydml.graph.passes.narrowing import narrowing
from anydml.graph.passes.redundancy import dce
from anydml.ir.fetches import turned
from anydml.ir.patterns import copy_of, is_copy, scaled
from anydml.ir.verbs import Map, Scan
from cases import ENGINES
from recipes import made, recipe, run, summed, view

if TYPE_CHECKING:
    from anydml.graph.recipe import StoreKind
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
            turned(view("s", (6, 4)), view("l", (6, 1), (1, 0)), view("y", (6, 4)), 1),
            turned(view("x", (6, 4), (1, 6)), view("l", (6, 1), (1, 0)), view("y", (6, 4)), 1),
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
        turned(view("x", (4, 6)), view("s", (4, 1), (1, 0)), view("y", (4, 6)), 1),
    )
    wanted = turned(view("x", (4, 6)), view("l", (4, 1), (2, 0), 1), view("y", (4, 6)), 1)
    assert copy_propagation(given) == made(stores, (wanted, "ab"))
