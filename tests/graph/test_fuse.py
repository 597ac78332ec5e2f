"""Maps that become one: chains, slices of maps, joins of maps; and what stays apart."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from anydml.core.enums import DataType
from anydml.graph.arena import lay_out
from anydml.graph.optimise import optimise
from anydml.graph.passes.fusion import MOST_SOURCES, MOST_WORK, work
from anydml.graph.recipe import Recipe, Step, Store
from anydml.ir.expressions import Expr, call, coordinate, given, load, maximum
from anydml.ir.patterns import copy_of, scaled
from anydml.ir.verbs import Map, Scan
from recipes import run, view

if TYPE_CHECKING:
    from anydml.graph.recipe import StoreKind
    from anydml.ir.verbs import Primitive
    from anydml.ir.views import View

F32, F16 = DataType.FLOAT32, DataType.FLOAT16
X, Y = load(0, F32), load(1, F32)
NUMBERS = {name: np.linspace(-3, 5, 100, dtype="f4") for name in "ab"}


def mapped(target: View, value: Expr, *sources: View) -> Map:
    return Map(sources, target, value)


def recipe(*steps: Primitive, constant: str = "") -> Recipe:
    """Stores are inputs from a on, scratch from s on, and outputs from y on."""
    names = dict.fromkeys(part.tensor for step in steps for part in step.views)
    kinds = {name: kind_of(name, constant) for name in names}
    return Recipe(
        {name: Store(kind, 400) for name, kind in kinds.items()},
        tuple(Step(step, (f"n{i}",)) for i, step in enumerate(steps)),
    )


def kind_of(name: str, constant: str) -> StoreKind:
    return "constant" if name == constant else "input" if name < "s" else "scratch" if name < "y" else "output"


def simplified(given: Recipe) -> Recipe:
    """Optimised, with the same bits."""
    simple = optimise(given)
    wanted = run(given, "reference", NUMBERS)
    for shares in (False, True):
        assert run(simple, "reference", NUMBERS, shares=shares) == wanted
    return simple


def test_a_chain_is_one_pass() -> None:
    whole = (4, 6)
    a, b, s, t, y = (view(name, whole) for name in "absty")
    steps = mapped(s, X * Y, a, b), mapped(t, X + Y, s, b), mapped(y, maximum(X, 0.0), t)
    (step,) = simplified(recipe(*steps)).steps
    assert step.primitive == mapped(y, maximum(X * Y + Y, 0.0), a, b)
    assert step.nodes == ("n0", "n1", "n2")


def test_what_a_slice_takes_is_computed_there() -> None:
    square = mapped(view("s", (6, 8)), X * X, view("a", (6, 8)))
    doubled = mapped(view("y", (2, 3)), X + X, view("s", (2, 3), (-16, 2), 41))
    (step,) = simplified(recipe(square, doubled)).steps
    assert step.primitive == mapped(view("y", (2, 3)), X * X + X * X, view("a", (2, 3), (-16, 2), 41))


def test_coordinates_follow_their_elements() -> None:
    numbered = mapped(view("s", (6, 8)), X + coordinate(1).to(F32) * coordinate(0).to(F32), view("a", (6, 8)))
    turned = mapped(view("y", (8, 3)), X * 2.0, view("s", (8, 3), (-1, 16), 15))
    assert len(simplified(recipe(numbered, turned)).steps) == 1


def test_rounding_in_between_stays() -> None:
    half = replace(view("s", (6,)), data_type=F16)
    steps = scaled(view("a", (6,)), half), mapped(view("y", (6,)), load(0, F16).to(F32) * 3.0, half)
    (step,) = simplified(recipe(*steps)).steps
    assert isinstance(step.primitive, Map)
    assert step.primitive.value == X.to(F16).to(F32) * 3.0


def test_memory_read_as_another_type_is_the_same_bits() -> None:
    bits = replace(view("s", (6,)), data_type=DataType.UINT32)
    steps = (
        mapped(view("s", (6,)), X * 2.0, view("a", (6,))),
        Map((bits,), replace(view("y", (6,)), data_type=DataType.UINT32), load(0, DataType.UINT32) >> 1),
    )
    assert len(simplified(recipe(*steps)).steps) == 1


def test_maps_are_computed_where_a_join_wants_them() -> None:
    steps = (
        mapped(view("s", (2, 3)), X * 2.0, view("a", (2, 3))),
        copy_of(view("s", (2, 3)), view("y", (2, 3), (6, 1))),
        copy_of(view("b", (2, 3)), view("y", (2, 3), (6, 1), 3)),
    )
    assert len(simplified(recipe(*steps)).steps) == 2


def test_little_work_is_done_again_and_much_is_not() -> None:
    for value, count in ((X * 2.0, 2), (call("exp", X), 3)):
        steps = (
            mapped(view("s", (6,)), value, view("a", (6,))),
            mapped(view("y", (6,)), X + 1.0, view("s", (6,))),
            mapped(view("z", (6,)), X - 1.0, view("s", (6,))),
        )
        assert len(simplified(recipe(*steps)).steps) == count
    rows = mapped(view("y", (8, 6)), X + Y, view("s", (8, 6), (0, 1)), view("b", (8, 6)))
    assert len(simplified(recipe(mapped(view("s", (6,)), call("exp", X), view("a", (6,))), rows)).steps) == 2


def test_what_a_reader_takes_twice_is_computed_once() -> None:
    power = mapped(view("s", (6,)), call("exp", X), view("a", (6,)))
    (step,) = simplified(recipe(power, mapped(view("y", (6,)), X * Y, view("s", (6,)), view("s", (6,))))).steps
    assert isinstance(step.primitive, Map)
    assert step.primitive.value == call("exp", X) * call("exp", X)


def test_maps_of_constants_stay_to_be_computed_once() -> None:
    steps = (
        mapped(view("s", (6,)), X * 2.0, view("a", (6,))),
        mapped(view("y", (6,)), X + Y, view("s", (6,)), view("b", (6,))),
    )
    assert len(simplified(recipe(*steps, constant="a")).steps) == 2


def test_a_map_that_others_read_stays() -> None:
    total = Scan((view("s", (6,)),), view("z", (6,)), 0, "sum", reverse=False, exclusive=False)
    steps = mapped(view("s", (6,)), X * 2.0, view("a", (6,))), total, mapped(view("y", (6,)), X + X, view("s", (6,)))
    assert len(simplified(recipe(*steps)).steps) == 3


@pytest.mark.parametrize("kind", ["sources", "work"])
def test_a_map_does_not_become_too_large(kind: str) -> None:
    count = 2 * MOST_SOURCES if kind == "sources" else 2 * MOST_WORK // 25
    steps: list[Primitive] = []
    before = view("b", (6,))
    for i in range(count):
        target = view(f"s{i}", (6,)) if i < count - 1 else view("y", (6,))
        if kind == "sources":
            steps.append(mapped(target, X + Y, before, view(f"a{i}", (6,))))
        else:
            steps.append(mapped(target, call("exp", X) * given(i, F32), before))
        before = target
    simple = optimise(recipe(*steps))
    assert 1 < len(simple.steps) < count
    for step in simple.steps:
        assert isinstance(step.primitive, Map)
        assert len(step.sources) <= MOST_SOURCES
        assert work(step.primitive.value) <= MOST_WORK


def test_a_map_writes_over_what_it_is_the_last_to_read() -> None:
    steps = (
        Scan((view("a", (6,)),), view("s", (6,)), 0, "sum", reverse=False, exclusive=False),
        mapped(view("t", (6,)), X * Y, view("b", (6,)), view("s", (6,))),
        Scan((view("t", (6,)),), view("y", (6,)), 0, "sum", reverse=False, exclusive=False),
    )
    assert lay_out(recipe(*steps)).offsets == {"s": 0, "t": 0}
