"""Verbs with several targets: on every engine what the reference makes of each target for itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from agreement import assert_same, begin, view
from anydml.core.enums import NUMPY_TYPES, DataType
from anydml.engines import find_engine
from anydml.engines.cpu.families import figures
from anydml.ir.expressions import fold, load
from anydml.ir.trees import write
from anydml.ir.verbs import Map, Reduce, Write
from cases import ENGINES
from places import get, put
from trees import Trees, fetched_of, room, shape_of, source

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.sampled(3)

Array = np.ndarray[Any, Any]
TYPES = list(NUMPY_TYPES)
F32 = DataType.FLOAT32
MOST = 300 if "cuda" in ENGINES else 4000
SEEDS = range(8 if "cuda" in ENGINES else 40)


def run(engine: str, primitive: Map | Reduce, arrays: dict[str, Array]) -> list[Array]:
    """What an engine writes, in the order of the targets."""
    there = {name: put(array.copy() if array.base is None else array, engine) for name, array in arrays.items()}
    places = {name: begin(x, arrays[name].itemsize) for name, x in there.items()}
    find_engine(engine).compile(primitive).bind(places)()
    return [np.array(get(there[target.tensor])) for target in primitive.targets]


def alone(primitive: Map | Reduce) -> Iterator[Map | Reduce]:
    """A verb for each target."""
    for target, value in zip(primitive.targets, primitive.values, strict=True):
        yield replace(primitive, target=target, value=value, also=())


def drawn(seed: int, is_reduce: bool) -> tuple[Map | Reduce, dict[str, Array]]:
    """Two or three targets of any type and layout, of a map, or of a reduce's rows and elements."""
    chance = np.random.default_rng(seed)
    shape = shape_of(chance, MOST) or (3,)
    depth = int(chance.integers(1, len(shape) + 1)) if is_reduce else 0
    slots = [TYPES[k] for k in chance.integers(len(TYPES), size=1 + seed % 3)]
    elsewhere = fetched_of(chance, shape, TYPES) if seed % 3 == 0 else []
    trees = Trees(seed, slots, shape, depth, elsewhere)
    arrays = {f"x{k}": source(chance, shape, slot) for k, slot in enumerate(slots)}
    arrays |= {f"x{len(arrays) + k}": source(chance, sizes, of) for k, (of, sizes) in enumerate(elsewhere)}
    pairs = []
    for number in range(2 + seed % 2):
        of = TYPES[int(chance.integers(len(TYPES)))]
        trees.by_row = bool(depth and chance.integers(2))
        sizes = (*shape[:-depth], *(1,) * depth) if trees.by_row else shape
        arrays[f"y{number}"] = room(chance, sizes, of)
        pairs.append(Write(view(f"y{number}", arrays[f"y{number}"]), trees.grow(of, 3)))
    views = tuple(view(name, array) for name, array in arrays.items() if name.startswith("x"))
    (target, value), *others = pairs
    if not depth:
        return Map(views, target, value, also=tuple(others)), arrays
    return Reduce(views, target, value, depth, rows=shape[-depth:], also=tuple(others)), arrays


def unsigned(array: Array) -> Array:
    """Without -0.0: which of two zeros is the largest is left open."""
    return np.where(array == 0, np.zeros_like(array), array)


@pytest.mark.parametrize("is_reduce", [False, True])
def test_random_targets(engine: str, is_reduce: bool) -> None:
    for seed in SEEDS:
        primitive, arrays = drawn(seed, is_reduce)
        wanted = [run("reference", one, arrays)[0].copy() for one in alone(primitive)]
        for got, want in zip(run(engine, primitive, arrays), wanted, strict=True):
            assert_same(unsigned(got), unsigned(want), (seed, write(*primitive.values)))


@pytest.mark.skipif("cpu" not in ENGINES, reason="rows are cut on the cpu engine")
def test_random_targets_of_rows_that_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures().reduce, "segment", 16)
    monkeypatch.setattr(figures().reduce, "few_rows", 1000)
    test_random_targets("cpu", True)


@pytest.mark.parametrize("number", [2, 3, 4])
def test_targets_that_lie_in_turn(engine: str, number: int) -> None:
    """Elements of several targets beside one another, of rows that fill vectors or do not, and one over the source."""
    for n, kind in ((1, "f4"), (7, "u1"), (8, "f2"), (37, "f4"), (70, "i8")):
        x = np.random.default_rng(n).integers(0, 9, (3, n, number)).astype(kind)
        whole = view("x", x)
        parts = [
            replace(whole, sizes=(3, n), strides=whole.strides[:2], offset=whole.offset + k) for k in range(number)
        ]
        values = [load(0, whole.data_type) + k for k in range(number)]
        others = tuple(map(Write, parts[1:], values[1:]))
        got = run(engine, Map((parts[0],), parts[0], values[0], also=others), {"x": x})[0]
        np.testing.assert_array_equal(got, x[:, :, :1] + np.arange(number).astype(kind))


def test_each_target_may_be_a_source(engine: str) -> None:
    """The sum and the difference of two arrays, each in the place of one; and rows that are normalised beside it."""
    for n in (1, 5, 16, 37, 100):
        x, y = (np.random.default_rng(seed).integers(-9, 9, (3, n)).astype("f4") for seed in (1, 2))
        views, (a, b) = (view("x", x), view("y", y)), (load(0, F32), load(1, F32))
        both = Map(views, views[0], a + b, also=(Write(views[1], a - b),))
        got = run(engine, both, {"x": x.copy(), "y": y.copy()})
        np.testing.assert_array_equal(got, [x + y, x - y])
        total = a + b
        rows = Reduce(views, views[0], total, 1, also=(Write(views[1], total - fold("max", total)),))
        got = run(engine, rows, {"x": x.copy(), "y": y.copy()})
        np.testing.assert_array_equal(got, [x + y, x + y - (x + y).max(1, keepdims=True)])
        # The sum is computed by the first pass along a row, and what it takes the place of is read by the last.
        rows = Reduce(views, views[0], total, 1, also=(Write(views[1], a - fold("max", total)),))
        got = run(engine, rows, {"x": x.copy(), "y": y.copy()})
        np.testing.assert_array_equal(got, [x + y, x - (x + y).max(1, keepdims=True)])


@pytest.mark.parametrize("n", [3, 37, 70])
def test_a_value_for_each_row_beside_rows_in_place(engine: str, n: int) -> None:
    """Along the rows, and across them, where the last vector overlaps rows that are written already."""
    x = np.random.default_rng(1).integers(-9, 9, (n, 9)).astype("f4")
    for layout in (x.copy(), x.T.copy().T):
        arrays = {"x": layout, "y": np.zeros((n, 1), "f4")}
        own, top = view("x", layout), fold("max", load(0, F32))
        primitive = Reduce((own,), own, load(0, F32) - top, 1, also=(Write(view("y", arrays["y"]), top * 2.0),))
        got = run(engine, primitive, arrays)
        np.testing.assert_array_equal(got[0], x - x.max(1, keepdims=True))
        np.testing.assert_array_equal(got[1], 2 * x.max(1, keepdims=True))


def test_bits_do_not_depend_on_threads() -> None:
    before = dml.get_num_threads()
    x = np.random.default_rng(0).standard_normal((3, 200_000)).astype("f4")
    found, a = [], load(0, F32)
    total = fold("sum", a)
    arrays = {"x": x, "y": np.zeros_like(x), "z": np.zeros((3, 1), "f4")}
    views = {name: view(name, array) for name, array in arrays.items()}
    primitive = Reduce((views["x"],), views["y"], a - total, 1, also=(Write(views["z"], total),))
    try:
        for threads in (1, 2):
            dml.set_num_threads(threads)
            found.append([one.copy() for one in run("cpu", primitive, arrays)])
    finally:
        dml.set_num_threads(before)
    for one, other in zip(*found, strict=True):
        assert_same(one, other)
    np.testing.assert_allclose(found[0][1], x.sum(1, keepdims=True, dtype="f8"), rtol=1e-4, atol=1e-2)
