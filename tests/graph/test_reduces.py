"""Reduces in graphs: what goes along the same rows becomes one pass, and computes what the steps did."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.core.enums import DataType
from anydml.core.memory import packed_strides
from anydml.engines.reference import ReferenceEngine
from anydml.graph.optimise import optimise
from anydml.graph.recipe import Recipe, Step, Store
from anydml.ir.expressions import call, fold, load, maximum, sqrt
from anydml.ir.verbs import Map, Reduce
from anydml.ir.views import View
from cases import ENGINES
from places import get, put

pytestmark = [pytest.mark.sampled(2), pytest.mark.check_bounds]

F32 = DataType.FLOAT32
ROWS, COLUMNS = 5, 7
WHOLE, BY_ROW = (ROWS, COLUMNS), (ROWS, 1)


def _view(name: str, sizes: tuple[int, ...], walk: tuple[int, ...] | None = None) -> View:
    """A packed tensor, repeated where a walk is longer than it."""
    strides = [stride if size > 1 else 0 for size, stride in zip(sizes, packed_strides(sizes), strict=True)]
    return View(name, F32, walk or sizes, tuple(strides))


class Drawing:
    """A recipe in the making, over float32 matrices."""

    def __init__(self, **sizes: tuple[int, ...]) -> None:
        self.sizes: dict[str, tuple[int, ...]] = sizes
        self.stores = {name: self._store("input", shape) for name, shape in sizes.items()}
        self.steps: list[Step] = []

    @staticmethod
    def _store(kind: Any, sizes: tuple[int, ...]) -> Store:
        return Store(kind, 4 * int(np.prod(sizes)))

    def _add(self, name: str, target: tuple[int, ...], primitive: Any) -> None:
        self.sizes[name], self.stores[name] = target, self._store("scratch", target)
        self.steps.append(Step(primitive, (name,)))

    def map(self, name: str, value: Any, *sources: str) -> None:
        """A map of tensors, which are repeated where they have sizes of 1."""
        sizes = tuple(np.broadcast_shapes(*(self.sizes[one] for one in sources)))
        elements = [load(slot, F32) for slot in range(len(sources))]
        views = tuple(_view(one, self.sizes[one], sizes) for one in sources)
        self._add(name, sizes, Map(views, _view(name, sizes), value(*elements)))

    def reduce(self, name: str, function: str, source: str, finish: Any = lambda x: x) -> None:
        """A fold of the last dimension."""
        sizes = self.sizes[source]
        target = (*sizes[:-1], 1)
        value = finish(fold(function, load(0, F32)))
        self._add(name, target, Reduce((_view(source, sizes),), _view(name, target), value, 1))

    def recipe(self, *outputs: str) -> Recipe:
        """All of it."""
        for name in outputs:
            self.stores[name] = Store("output", self.stores[name].size_in_bytes)
        return Recipe(self.stores, tuple(self.steps))


def _run(recipe: Recipe) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(7)
    memory = {name: np.zeros(store.size_in_bytes // 4, np.float32) for name, store in recipe.stores.items()}
    for name, store in recipe.stores.items():
        if store.kind in ("input", "constant"):
            memory[name][:] = rng.standard_normal(memory[name].shape)
    places = {name: array.ctypes.data for name, array in memory.items()}
    for step in recipe.steps:
        ReferenceEngine().compile(step.primitive).bind(places)()
    return {name: memory[name] for name, store in recipe.stores.items() if store.kind == "output"}


def _check(recipe: Recipe, passes: int) -> Recipe:
    better = optimise(recipe)
    before, after = _run(recipe), _run(better)
    for name, expected in before.items():
        np.testing.assert_allclose(after[name], expected, rtol=3e-6, atol=1e-6)
    assert [len(better.steps), len(recipe.steps) > passes] == [passes, True], [s.primitive for s in better.steps]
    return better


def _softmax(drawing: Drawing, source: str) -> str:
    drawing.reduce("largest", "max", source)
    drawing.map("less", lambda x, m: x - m, source, "largest")
    drawing.map("power", lambda x: call("exp", x), "less")
    drawing.reduce("total", "sum", "power")
    drawing.map("share", lambda e, s: e / s, "power", "total")
    return "share"


def _layer_norm(drawing: Drawing, source: str) -> str:
    drawing.reduce("mean", "sum", source, lambda x: x / COLUMNS)
    drawing.map("apart", lambda x, m: x - m, source, "mean")
    drawing.map("square", lambda x: x * x, "apart")
    drawing.reduce("variance", "sum", "square", lambda x: x / COLUMNS)
    drawing.map("deviation", lambda v: sqrt(v + 1e-5), "variance")
    drawing.map("normal", lambda d, s: d / s, "apart", "deviation")
    drawing.map("scaled", lambda x, w: x * w, "normal", "weight")
    drawing.map("shifted", lambda x, b: x + b, "scaled", "bias")
    return "shifted"


@pytest.mark.parametrize("network", [_softmax, _layer_norm])
def test_exported_rows_are_one_pass(network: Any) -> None:
    drawing = Drawing(x=WHOLE, weight=(1, COLUMNS), bias=(1, COLUMNS))
    result = network(drawing, "x")
    (step,) = _check(drawing.recipe(result), 1).steps
    assert isinstance(step.primitive, Reduce)
    assert not step.primitive.is_by_row


def test_what_comes_before_rows_is_computed_in_them() -> None:
    drawing = Drawing(x=WHOLE, y=WHOLE)
    drawing.map("sum", lambda x, y: x + y, "x", "y")
    _check(drawing.recipe(_softmax(drawing, "sum")), 1)


def test_what_others_read_stays() -> None:
    drawing = Drawing(x=WHOLE)
    result = _softmax(drawing, "x")
    drawing.map("other", lambda e: e * e, "power")
    better = _check(drawing.recipe(result, "other"), 3)
    assert {step.target.tensor for step in better.steps} == {"share", "other", "power"}


def test_a_log_of_a_sum_of_powers_is_one_pass() -> None:
    drawing = Drawing(x=WHOLE)
    drawing.reduce("largest", "max", "x")
    drawing.map("power", lambda x, m: call("exp", x - m), "x", "largest")
    drawing.reduce("total", "sum", "power", lambda s: call("log", s))
    drawing.map("result", lambda t, m: t + m, "total", "largest")
    (step,) = _check(drawing.recipe("result"), 1).steps
    assert isinstance(step.primitive, Reduce)
    assert step.primitive.is_by_row


def _product(name: str, m: int, n: int, k: int) -> Reduce:
    a = View("a", F32, (m, n, k), (k, 0, 1))
    b = View("b", F32, (m, n, k), (0, 1, n))
    target = View(name, F32, (m, n, 1), (n, 1, 0))
    return Reduce((a, b), target, fold("sum", load(0, F32) * load(1, F32)), 1)


def test_what_follows_a_product_is_part_of_it() -> None:
    drawing = Drawing(a=(ROWS, 3), b=(3, COLUMNS), bias=(1, COLUMNS), other=WHOLE)
    drawing._add("product", WHOLE, _product("product", ROWS, COLUMNS, 3))
    drawing.map("biased", lambda x, b: x + b, "product", "bias")
    drawing.map("active", lambda x: maximum(x, 0.0), "biased")
    drawing.map("result", lambda x, y: x + y, "active", "other")
    (step,) = _check(drawing.recipe("result"), 1).steps
    assert step.nodes == ("product", "biased", "active", "result")


@pytest.mark.parametrize(("rows", "passes"), [(1, 1), (8, 1), (9, 2)])
def test_a_factor_that_few_rows_are_multiplied_with_is_computed_as_it_is_read(rows: int, passes: int) -> None:
    drawing = Drawing(a=(rows, 3), c=(3, 20), scale=(1, 1))
    drawing.map("b", lambda x, s: maximum(x * s, -1.0), "c", "scale")
    drawing._add("product", (rows, 20), _product("product", rows, 20, 3))
    better = optimise(drawing.recipe("product"))
    assert len(better.steps) == passes
    assert better.steps[-1].nodes == (("b", "product") if passes == 1 else ("product",))
    np.testing.assert_allclose(_run(better)["product"], _run(drawing.recipe("product"))["product"], rtol=1e-6)


def test_what_follows_a_product_is_no_part_of_the_next() -> None:
    drawing = Drawing(x=(30, 3), y=(3, 20), b=(20, 4))
    first = _product("first", 30, 20, 3)
    first = replace(first, sources=tuple(replace(v, tensor=n) for v, n in zip(first.sources, "xy", strict=True)))
    drawing._add("first", (30, 20), first)
    drawing.map("a", lambda x: maximum(x, 0.0), "first")
    drawing._add("second", (30, 4), _product("second", 30, 4, 20))
    better = _check(drawing.recipe("second"), 2)
    assert [step.nodes for step in better.steps] == [("first", "a"), ("second",)]


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_factor_that_is_computed_gives_the_bits_of_one_that_is_written(is_turned: bool, dtype: str) -> None:
    """Of whole numbers, which sums do not round; on both sides, in kernels for few rows and in those for more."""
    rng = np.random.default_rng(3)
    for m, n, k in ((1, 301, 70), (1, 101, 203), (3, 301, 70), (1, 19, 33), (8, 40, 17), (300, 1, 70)):
        x, y = (rng.integers(-4, 5, sizes).astype(dtype) for sizes in ((m, k), (n, k) if is_turned else (k, n)))
        few = n == 1
        for engine in ENGINES:
            g = dml.Graph(engine)
            a, b = (g.input(dml.TensorDesc.of(one)) for one in (x, y))
            factor = g.constant(np.array([[0.5]], dtype))
            a, b = (dml.multiply(a, factor), b) if few else (a, dml.multiply(b, factor))
            made = dml.gemm(a, b, trans_b=is_turned)
            better, plain = (g.compile(made, optimise=one) for one in (True, False))
            assert [len(one.recipe.steps) for one in (better, plain)] == [1, 2]
            got, wanted = (get(one(put(x, engine), put(y, engine))) for one in (better, plain))
            np.testing.assert_array_equal(got, wanted)


def test_a_softmax_of_a_product_stays_two_passes() -> None:
    drawing = Drawing(a=(ROWS, 3), b=(3, COLUMNS))
    drawing._add("product", WHOLE, _product("product", ROWS, COLUMNS, 3))
    _check(drawing.recipe(_softmax(drawing, "product")), 2)


def test_a_reduce_of_a_reduce_stays_two_passes() -> None:
    drawing = Drawing(x=(2, ROWS, COLUMNS))
    drawing.reduce("rows", "sum", "x")
    source = View("rows", F32, (2, ROWS), (ROWS, 1))
    drawing._add("all", (2, 1), Reduce((source,), View("all", F32, (2, 1), (1, 0)), fold("max", load(0, F32)), 1))
    better = optimise(drawing.recipe("all"))
    assert len(better.steps) == 2


def test_rows_that_are_not_the_last_dimension() -> None:
    drawing = Drawing(x=WHOLE)
    turned = View("x", F32, (COLUMNS, ROWS), (1, COLUMNS))
    largest = View("largest", F32, (COLUMNS, 1), (1, 0))
    drawing._add("largest", (1, COLUMNS), Reduce((turned,), largest, fold("max", load(0, F32)), 1))
    drawing.map("less", lambda x, m: x - m, "x", "largest")
    _check(drawing.recipe("less"), 1)


def test_a_part_of_rows_is_narrowed_by_row() -> None:
    drawing = Drawing(x=WHOLE)
    drawing.reduce("total", "sum", "x")
    part = View("total", F32, (2, 1), (1, 0), 1)
    drawing._add("result", (2, 1), Map((part, part), _view("result", (2, 1)), load(0, F32) + load(1, F32)))
    better = optimise(drawing.recipe("result"))
    np.testing.assert_allclose(_run(better)["result"], _run(drawing.recipe("result"))["result"], rtol=1e-6)
    assert sum(step.bytes_moved for step in better.steps) < 4 * (ROWS * COLUMNS)


def test_what_follows_a_product_in_another_shape_is_part_of_it() -> None:
    drawing = Drawing(a=(6, 3), b=(3, COLUMNS), bias=(1, 1, COLUMNS))
    drawing._add("product", (6, COLUMNS), _product("product", 6, COLUMNS, 3))
    drawing.sizes["product"] = (2, 3, COLUMNS)
    drawing.map("result", lambda x, b: x + b, "product", "bias")
    _check(drawing.recipe("result"), 1)
