"""Maps that fetch: patterns that are found again, what is fused with them, and checks that stay what they were."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from agreement import bits, framed, run
from agreement import view as view_of
from anydml.core.enums import DataType
from anydml.engines import find_engine
from anydml.engines.cpu.families import figures
from anydml.explain.formula import Formula, name_index
from anydml.ir.expressions import Expr, const, coordinate, fetch, fetch_or, fold, given, load
from anydml.ir.fetches import Gathered, Reversed, gathered, match_gathered, match_reversed, nearest, nearest_to, settled
from anydml.ir.trees import fetched
from anydml.ir.verbs import Map, Reduce
from places import get, put
from recipes import view

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.ir.views import View

F32, INT64 = DataType.FLOAT32, DataType.INT64
RNG = np.random.default_rng(5)
TABLE = RNG.standard_normal((50, 300)).astype("f4")
ROWS = RNG.standard_normal((70, 300)).astype("f4")
IDS = RNG.integers(-49, 50, 70)


def compiled(engine: str, build: Callable[..., Any], *arrays: np.ndarray[Any, Any], optimise: bool = True) -> Any:
    g = dml.Graph(engine)
    return g.compile(build(*(g.input(dml.TensorDesc.of(x)) for x in arrays)), optimise=optimise)


def check_fused(engine: str, build: Callable[..., Any], *arrays: np.ndarray[Any, Any], steps: int = 1) -> Any:
    """Compile a graph that becomes so many steps, and gives the bits that it gives without the rules."""
    model, plain = (compiled(engine, build, *arrays, optimise=optimise) for optimise in (True, False))
    placed = [put(x, engine) for x in arrays]
    got, wanted = (get(one(*placed)) for one in (model, plain))
    np.testing.assert_array_equal(bits(got), bits(wanted))
    assert len(model.recipe.steps) == steps
    return model


# Patterns


def index_view(name: str, sizes: tuple[int, ...], of: DataType) -> View:
    return replace(view(name, sizes), data_type=of)


@pytest.mark.parametrize("of", [DataType.INT32, INT64, DataType.UINT32, DataType.UINT64])
@pytest.mark.parametrize("clamp", [False, True])
def test_what_is_made_is_found_again(of: DataType, clamp: bool) -> None:
    source, indices, target = view("x", (2, 5, 6, 7)), index_view("i", (2, 3, 2), of), view("y", (2, 3, 7))
    made = gathered(source, indices, target, 1, clamp=clamp)
    assert match_gathered(made) == Gathered(source, indices, target, 1, clamp)
    assert match_reversed(made) is None
    for size in (1, 5, 2**31):
        index = load(0, of)
        assert nearest_to(nearest(index, size)) in (index, index.to(INT64))
    assert nearest_to(load(0, INT64)) is None


def test_a_line_of_indices_is_a_window_of_the_source() -> None:
    x, i, y = view("x", (9, 8)), view("i", (4, 3)), view("y", (4, 3))
    chosen = nearest(load(1, F32).to(INT64), 9)
    made = Map((x, i), y, fetch(0, F32, [chosen, coordinate(1) * -2 + 7]) * 2.0)
    simple = settled(made)
    assert simple.sources == (view("x", (9, 3), (8, -2), 7), i)
    assert simple.value is fetch(0, F32, [chosen, coordinate(1)]) * 2.0
    assert settled(simple) == simple
    two = Map((x, i), y, fetch(0, F32, [chosen, coordinate(1)]) + fetch(0, F32, [chosen, coordinate(1) + 1]))
    assert settled(two).value is two.value  # no window has both


def test_indices_outside_give_another_number() -> None:
    x = np.arange(6, dtype="f4")
    value = fetch_or(0, F32, [coordinate(0) - 2], (6,), given(-1.0, F32))
    for engine in ("reference", "cpu"):
        y = np.zeros(10, "f4")
        program = dml.Device(engine).engine.compile(Map((view("x", (6,)),), view("y", (10,)), value))
        program.bind({"x": x.ctypes.data, "y": y.ctypes.data})()
        np.testing.assert_array_equal(y, [-1, -1, 0, 1, 2, 3, 4, 5, -1, -1])


def test_a_fetch_in_words() -> None:
    value = fetch(0, F32, [nearest(load(1, INT64), 9), coordinate(1)]) + load(2, F32)

    def name(node: Expr) -> str:
        return name_index(node) if node.op == "coordinate" else "xiy"[int(node.value)]

    assert Formula(value, name).text(name) == "x[i, index[1]] + y"


# Fused


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are asked for ahead, however small their source."""
    monkeypatch.setattr(figures().rows, "fetched_far", 0)


@pytest.mark.usefixtures("far")
@pytest.mark.parametrize("mode", ["raise", "clamp"])
def test_rows_that_are_gathered_and_computed_with_are_one_pass(engine: str, mode: Any) -> None:
    def build(x: Any, i: Any, y: Any) -> Any:
        return abs(dml.gather(x, i, 0, index_mode=mode) + y) * 0.5

    model = check_fused(engine, build, TABLE, IDS, ROWS)
    assert fetched(model.recipe.steps[0].primitive.value)
    # One row alone, the last before the end of an outer dimension, and parts of rows.
    check_fused(engine, build, TABLE, IDS[:1], ROWS[:1])
    check_fused(engine, lambda x, i, y: dml.slice(build(x, i, y), [3, 5], [57, 280]), TABLE, IDS, ROWS)


@pytest.mark.parametrize("axis", [0, 1])
def test_elements_of_what_lies_near_are_fetched_one_by_one(engine: str, axis: int) -> None:
    x = TABLE[:, :33]
    indices = RNG.integers(-33, 33, x.shape)
    check_fused(engine, lambda x, i, y: dml.gather_elements(x, i, axis) * y, x, indices, ROWS[:50, :33])


def test_a_map_is_computed_where_a_gather_takes_it(engine: str) -> None:
    def build(x: Any, y: Any, i: Any) -> Any:
        return dml.gather(x * y + 1.0, i, 0)

    check_fused(engine, build, ROWS, ROWS[::-1], IDS[:7])
    check_fused(engine, lambda x, i, j: dml.gather(dml.gather(x, i, 0), j, 0), TABLE, IDS, IDS[:9])


def test_what_a_gather_alone_does_better_stays_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("anydml.graph.passes.fusion"), "NEAR", 1024)
    lengths = RNG.integers(0, 300, (70, 1)).astype("u4")
    check_fused("cpu", lambda x, n, y: dml.reverse_subsequences(x, n, 1) + y, ROWS, lengths, ROWS, steps=2)
    check_fused("cpu", lambda x, i, y: dml.gather(x, i, 0) + y, ROWS.ravel(), IDS, ROWS[:, 0], steps=2)
    check_fused("cpu", lambda x, i: dml.gather(x, abs(i), 0), TABLE, IDS, steps=2)  # indices that a kernel reads
    twice = check_fused("cpu", lambda x, i: sum_of_two(dml.gather(x, i, 0)), TABLE, IDS, steps=2)
    assert match_gathered(twice.recipe.steps[0].primitive)
    across = check_fused("cpu", lambda x, n: dml.reverse_subsequences(x, n, 0), ROWS, lengths[:1].repeat(300, 1))
    assert isinstance(match_reversed(across.recipe.steps[0].primitive), Reversed)


def sum_of_two(x: Any) -> Any:
    return dml.slice(x, [0, 0], [60, 300]) + dml.slice(x, [10, 0], [60, 300])


# In reduces


def test_windows_that_reach_past_the_ends(engine: str) -> None:
    """The largest of 3 by 3 around every second row, and the number of what is there, along and across the rows."""
    x = RNG.standard_normal((2, 3, 17, 37)).astype("f4")
    place = [coordinate(0), coordinate(1), coordinate(2) * 2 + coordinate(4) - 1, coordinate(3) + coordinate(5) - 1]
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    windows = np.stack([padded[:, :, i : i + 17 : 2, j : j + 37] for i in range(3) for j in range(3)])
    for value, wanted in (
        (fold("max", fetch_or(0, F32, place, x.shape, const(-np.inf, F32))), windows.max(0)),
        (fold("sum", fetch_or(0, F32, place, x.shape, const(0, F32)).equals(0).to(F32)), np.isinf(windows).sum(0)),
    ):
        y = framed(np.zeros((2, 3, 9, 37), "f4"))
        made = Reduce((view_of("x", x),), view_of("target", y[..., None, None]), value, 2, rows=(3, 3))
        np.testing.assert_array_equal(run(find_engine(engine), made, x=x, target=y), wanted.astype("f4"))
    # The same rows, which begin before what they are of, along it.
    line = fetch_or(0, F32, [coordinate(0), coordinate(1) - 2], (102, 37), const(-9, F32))
    x, y = x.reshape(102, 37), framed(np.zeros((102, 41), "f4"))
    made = Reduce((view_of("x", x),), view_of("target", y), line - fold("max", line), 1, rows=(41,))
    wanted = np.pad(x, ((0, 0), (2, 2)), constant_values=-9)
    got = run(find_engine(engine), made, x=x, target=y)
    np.testing.assert_array_equal(got, wanted - wanted.max(1, keepdims=True))


@pytest.mark.parametrize("mode", ["raise", "clamp"])
def test_rows_that_are_gathered_and_normalised_are_one_pass(engine: str, mode: Any) -> None:
    def build(x: Any, i: Any, y: Any) -> Any:
        return dml.mean_variance_normalization1(dml.gather(x, i, 0, index_mode=mode) + y, [1])

    whole = [np.round(one * 4) for one in (TABLE, ROWS)]  # sums are exact in whatever order
    model = check_fused(engine, build, whole[0], IDS, whole[1])
    assert isinstance(model.recipe.steps[0].primitive, Reduce)
    assert fetched(model.recipe.steps[0].primitive.value)
    check_fused(engine, lambda x, i: dml.reduce(dml.gather(x, i, 0), "sum", [0]), whole[0], IDS)
    check_fused(engine, lambda x, i: dml.softmax1(dml.gather(x, i, 1), [0]) * 2.0, whole[0], IDS)


def test_a_reduce_of_indices_outside_writes_nothing(engine: str) -> None:
    def build(x: Any, i: Any, j: Any) -> Any:
        rows = dml.gather(x, i, 0).named("rows") + dml.gather(x, j, 0).named("others")
        return dml.softmax1(rows, [1])

    bad = np.where(np.arange(70) == 44, 50, IDS)
    model = compiled(engine, build, TABLE, IDS, IDS)
    assert isinstance(model.recipe.steps[0].primitive, Reduce)
    assert len(model.recipe.steps[0].primitive.checks) == 2
    for indices, name in (((bad, bad), "rows"), ((IDS, bad), "others")):
        out = put(np.full((70, 300), 7, "f4"), engine)
        with pytest.raises(dml.IndexRangeError, match=rf"'{name}': GATHER: indices\[44\] = 50 is outside"):
            model(*(put(x, engine) for x in (TABLE, *indices)), out=out)
        assert (get(out) == 7).all()


# Checks


@pytest.mark.parametrize("optimise", [False, True])
def test_the_first_check_that_fails_is_the_one_that_says_so(engine: str, optimise: bool) -> None:
    def build(x: Any, i: Any, j: Any, k: Any) -> Any:
        first = dml.gather(x, i, 0).named("first")
        second = dml.gather(x, j, 0).named("second")
        third = dml.gather(x, k, 0).named("third")
        return (first + third) * second

    good, bad = IDS, np.where(np.arange(70) == 44, 50, IDS)
    model = compiled(engine, build, TABLE, good, good, good, optimise=optimise)
    if optimise:
        assert sum(step.may_raise for step in model.recipe.steps) < 3  # some became one
    for place, name in enumerate(("first", "second", "third")):
        given = [good] * place + [bad] * (3 - place)
        out = put(np.full((70, 300), 7, "f4"), engine)
        with pytest.raises(dml.IndexRangeError, match=rf"'{name}': GATHER: indices\[44\] = 50 is outside"):
            model(*(put(x, engine) for x in (TABLE, *given)), out=out)
        assert (get(out) == 7).all()
