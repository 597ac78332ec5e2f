"""The memory plan: stores that are needed together lie apart, and others share their memory."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anydml.graph.arena import ALIGNMENT, Arena, lay_out
from anydml.graph.optimise import optimise
from anydml.graph.passes.horizontal_fusion import horizontal_fusion
from anydml.graph.recipe import Store
from anydml.ir.expressions import fold, load
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map, Reduce, Scan, Write
from random_recipes import RANDOM, Drawn, random_recipes
from recipes import F32, recipe, run, view

if TYPE_CHECKING:
    from anydml.graph.recipe import Recipe, Step, StoreKind
    from anydml.ir.views import View


def chain(*primitives: str) -> Recipe:
    """Steps that pass a hundred elements on, each copied or added up: x to a to b and so on, and at last to y."""
    names = ["x", *"abcdefgh"[: len(primitives) - 1], "y"]
    kinds: dict[str, StoreKind] = {**dict.fromkeys(names[1:-1], "scratch"), "x": "input", "y": "output"}
    steps = [
        copy_of(view(a, (100,)), view(b, (100,)))
        if kind == "copy"
        else Scan((view(a, (100,)),), view(b, (100,)), 0, "sum", reverse=False, exclusive=False)
        for kind, (a, b) in zip(primitives, itertools.pairwise(names), strict=True)
    ]
    return recipe(kinds, *steps)


def test_a_chain_of_equal_stores_takes_the_room_of_two() -> None:
    assert lay_out(chain(*["copy"] * 6)) == Arena({"a": 0, "b": 512, "c": 0, "d": 512, "e": 0}, 1024)


def test_a_scan_writes_over_what_it_is_the_last_to_read() -> None:
    assert lay_out(chain("copy", "scan", "scan", "copy", "scan")) == Arena({"a": 0, "b": 0, "c": 0, "d": 512}, 1024)


def test_a_scan_writes_beside_what_lies_otherwise_or_is_read_again() -> None:
    stores: dict[str, StoreKind] = {"x": "input", "a": "scratch", "b": "scratch", "y": "output", "z": "output"}
    copy, last = copy_of(view("x", (9,)), view("a", (9,))), copy_of(view("b", (9,)), view("y", (9,)))
    backward, alike = (
        Scan((source,), view("b", (9,)), 0, "sum", reverse=False, exclusive=False)
        for source in (view("a", (9,), (-1,), 8), view("a", (9,)))
    )
    again = copy_of(view("a", (9,)), view("z", (9,)))
    for steps in ((copy, backward, last), (copy, alike, again, last)):
        assert lay_out(recipe(stores, *steps)) == Arena({"a": 0, "b": 512}, 1024)


def test_each_of_several_targets_writes_over_a_source_of_its_own() -> None:
    stores: dict[str, StoreKind] = {**dict.fromkeys("abcd", "scratch"), "x": "input", "y": "output", "z": "output"}
    x, a, b, c, d = (view(name, (100,)) for name in "xabcd")
    first, second = load(0, F32), load(1, F32)
    one = Map((a,), b, first * first, also=(Write(c, first + first),))
    ends = [copy_of(source, view(name, (100,))) for source, name in ((b, "y"), (c, "z"))]
    assert lay_out(recipe(stores, copy_of(x, a), one, *ends)).offsets == {"a": 0, "b": 0, "c": 512}
    two = Map((a, d), b, first * second, also=(Write(c, first + second),))
    made = lay_out(recipe(stores, copy_of(x, a), copy_of(x, d), two, *ends))
    assert made.offsets == {"a": 0, "d": 512, "b": 0, "c": 512}


def product(beside: View, factor: View, m: int = 10, n: int = 10, k: int = 10) -> Reduce:
    """Sums of k products, m by n, and a number added to each."""
    a, b = replace(factor, sizes=(m, n, k), strides=(k, 0, 1)), view("w", (m, n, k), (0, 1, n))
    x, y, c = (load(slot, F32) for slot in range(3))
    return Reduce((a, b, beside), view("c", (m, n, 1)), fold("sum", x * y) + c, 1)


@pytest.mark.parametrize(
    ("beside", "factor", "is_over"),
    [
        (view("b", (10, 10, 10), (10, 1, 0)), view("a", (1,)), True),
        (view("b", (10, 10, 10), (1, 10, 0)), view("a", (1,)), False),
        (view("a", (10, 10, 10), (10, 1, 0)), view("a", (1,)), False),
    ],
    ids=["lies alike", "lies otherwise", "is a factor too"],
)
def test_a_product_is_written_over_what_is_added_to_it(beside: View, factor: View, is_over: bool) -> None:
    stores: dict[str, StoreKind] = {**dict.fromkeys("abc", "scratch"), "x": "input", "w": "input", "y": "output"}
    first = [copy_of(view("x", (100,)), view(name, (100,))) for name in dict.fromkeys((factor.tensor, beside.tensor))]
    made = lay_out(recipe(stores, *first, product(beside, factor), copy_of(view("c", (100,)), view("y", (100,)))))
    assert (made.offsets["c"] == made.offsets[beside.tensor]) is is_over


@pytest.mark.parametrize(("m", "n", "k"), [(2, 33, 40), (30, 41, 300)], ids=["a few rows", "tiles"])
def test_a_product_over_what_is_added_to_it_has_the_same_bits(engine: str, m: int, n: int, k: int) -> None:
    sizes = {"x": m * k, "w": k * n, "r": m * n, "b": m * n, "c": m * n, "y": m * n}
    kinds: dict[str, StoreKind] = {**dict.fromkeys("xwr", "input"), **dict.fromkeys("bc", "scratch"), "y": "output"}
    beside, factor, whole = view("b", (m, n, k), (n, 1, 0)), view("x", (1,)), (m * n,)
    ends = [copy_of(view(a, whole), view(b, whole)) for a, b in (("r", "b"), ("c", "y"))]
    steps = (ends[0], product(beside, factor, m, n, k), ends[1])
    whole_recipe = replace(recipe(kinds, *steps), stores={name: Store(kinds[name], 4 * sizes[name]) for name in kinds})
    assert len({*lay_out(whole_recipe).offsets.values()}) == 1
    rng = np.random.default_rng(1)
    contents = {name: rng.standard_normal(sizes[name], np.float32) for name in "xwr"}
    assert run(whole_recipe, engine, contents, shares=True) == run(whole_recipe, engine, contents)


def test_nothing_to_lay_out() -> None:
    assert lay_out(chain("copy")) == Arena({}, 0)


def lives(made: Recipe) -> dict[str, tuple[int, int]]:
    """The first steps that write scratch stores, and the last that write or read them."""
    used = {view.tensor: i for i, step in enumerate(made.steps) for view in (*step.sources, *step.targets)}
    return {
        target.tensor: (i, used[target.tensor])
        for i, step in reversed(list(enumerate(made.steps)))
        for target in step.targets
        if made.stores[target.tensor].kind == "scratch"
    }


def works_in_place(step: Step, store: str, written: str) -> bool:
    """Whether a step reads each element of a store where, at most, it writes that very one of another."""
    target = next(replace(target, tensor=store) for target in step.targets if target.tensor == written)
    views = [view for view in step.sources if view.tensor == store]
    alike = all(replace(view, data_type=target.data_type) == target for view in views)
    widths = {view.data_type.size_in_bytes for view in (*views, target)}
    return isinstance(step.primitive, (Scan, Map)) and alike and len(widths) == 1


@pytest.mark.parametrize(("sizes", "offsets"), [((400, 1000), (1024, 0)), ((1000, 400), (0, 1024))])
def test_the_largest_lies_lowest(sizes: tuple[int, int], offsets: tuple[int, int]) -> None:
    given = chain("copy", "copy", "copy")
    held = {name: Store("scratch", size) for name, size in zip("ab", sizes, strict=True)}
    placed = dict(zip("ab", offsets, strict=True))
    assert lay_out(replace(given, stores={**given.stores, **held})) == Arena(placed, 1536)


@RANDOM
@given(drawn=random_recipes(), factors=st.lists(st.integers(1, 40), min_size=40, max_size=40))
def test_stores_that_are_needed_together_lie_apart(drawn: Drawn, factors: list[int]) -> None:
    for simple in (drawn.recipe, optimise(drawn.recipe), horizontal_fusion(optimise(drawn.recipe))):
        sizes = {
            n: Store(s.kind, s.size_in_bytes * f) for (n, s), f in zip(simple.stores.items(), factors, strict=False)
        }
        made = replace(simple, stores=sizes)
        arena, needed = lay_out(made), lives(made)
        assert arena.offsets.keys() == needed.keys()
        assert all(offset % ALIGNMENT == 0 for offset in arena.offsets.values())
        ends = {name: offset + made.stores[name].size_in_bytes for name, offset in arena.offsets.items()}
        assert max(ends.values(), default=0) <= arena.size_in_bytes
        for a, b in itertools.permutations(needed, 2):
            if needed[a] > needed[b]:
                continue
            apart = ends[a] <= arena.offsets[b] or ends[b] <= arena.offsets[a]
            (_, last_a), (first_b, _) = needed[a], needed[b]
            assert apart or last_a < first_b or (last_a == first_b and works_in_place(made.steps[first_b], a, b))
