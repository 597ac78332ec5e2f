"""Steps over the same elements, joined to one with several targets: when they are, and the bits of the plain graph."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
import random_rows
from agreement import bits
from anydml.core.enums import DataType
from anydml.graph.passes.horizontal_fusion import horizontal_fusion
from anydml.ir.expressions import load
from anydml.ir.fetches import gathered
from anydml.ir.verbs import Map, Reduce
from doors import as_list
from places import get, put
from recipes import F32, recipe, run, view

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

RNG = np.random.default_rng(3)
X, Y = (np.round(RNG.standard_normal((50, 70)) * 4).astype("f4") for _ in range(2))
"""Whole numbers, whose sums are exact in whatever order."""


def check(engine: str, build: Callable[..., Any], *arrays: np.ndarray[Any, Any], targets: list[int]) -> Any:
    """Compile a graph to steps of so many targets each, which gives the bits that it gives without the rules."""
    models = []
    for optimise in (True, False):
        graph = dml.Graph(engine)
        models.append(graph.compile(build(*(graph.input(dml.TensorDesc.of(x)) for x in arrays)), optimise=optimise))
    placed = [put(x, engine) for x in arrays]
    for got, wanted in zip(*(as_list(model(*placed)) for model in models), strict=True):
        np.testing.assert_array_equal(bits(np.asarray(get(got))), bits(np.asarray(get(wanted))))
    assert [len(step.targets) for step in models[0].recipe.steps] == targets
    return models[0]


def normal(x: Any, axis: int = 1) -> Any:
    return dml.mean_variance_normalization1(x, [axis])


def test_a_residual_is_written_by_the_norm_that_reads_it(engine: str) -> None:
    model = check(engine, lambda x, y: [(s := x + y), normal(s)], X, Y, targets=[2])
    assert isinstance(model.recipe.steps[0].primitive, Reduce)
    said = str(model.explain())
    assert "1 pass" in said
    assert "input0, input1 → output1, output0" in said

    # It is needed later, in scratch memory, across the rows and with a result for each row beside it.
    def build(x: Any, y: Any) -> Any:
        s = x + y
        n = normal(s, 0)
        return normal(n - dml.cumulative_summation(s, 0))

    later = check(engine, build, X, Y, targets=[2, 1, 1])
    assert later.temporary_size >= 2 * X.nbytes
    check(engine, lambda x, y: [(s := x + y), dml.reduce(s, "max", [1]), s * 2.0], X, Y, targets=[2, 1])


def test_what_is_read_alike_is_read_once(engine: str) -> None:
    check(engine, lambda x, y: [x * y, x + y, dml.max(x, y)], X, Y, targets=[3])
    check(engine, lambda x: [dml.reduce(x, "max", [1]), dml.reduce(x, "sum", [1]), dml.relu(x)], X, targets=[3])
    check(engine, lambda x: list(dml.dynamic_quantize_linear(x)), X, targets=[2, 1])
    check(engine, lambda x: [x * 2.0 + 1.0, abs(dml.slice(x, [0, 0], [50, 35]))], X, targets=[1, 1])


def test_an_operator_of_several_outputs_is_one_pass(engine: str) -> None:
    part = np.ones((1, 70), "f4")
    check(engine, lambda x, w, b: dml.batch_normalization_training(x, w, b, epsilon=0.25), X, part, part, targets=[3])


def test_a_result_that_is_read_before_is_written_before() -> None:
    """The running sum needs what is added before anybody normalises it."""
    stores: Any = {"x": "input", "s": "output", "t": "output", "u": "output"}
    x, s, u = (view(name, (3, 4)) for name in "xsu")
    double = Map((x,), s, load(0, F32) * 2.0 + 1.0)
    between = Map((view("s", (2, 4)),), view("t", (2, 4)), -load(0, F32))
    last = Map((s,), u, load(0, F32) * load(0, F32))
    given = recipe(stores, double, between, last)
    assert [len(step.targets) for step in horizontal_fusion(given).steps] == [1, 1, 1]
    free = recipe(stores, double, last, between)
    assert [len(step.targets) for step in horizontal_fusion(free).steps] == [2, 1]
    contents = {"x": np.arange(100, dtype="f4")}
    assert run(horizontal_fusion(free), "cpu", contents) == run(free, "reference", contents)


def test_what_may_raise_stays_where_it_is() -> None:
    """A check that waited for another step would come after what that one writes."""
    stores: Any = {"x": "input", "i": "input", "p": "input", "a": "scratch", "y": "output", "z": "output"}
    x, p, y, z = (view(name, (3, 4)) for name in "xpyz")
    rows = replace(view("i", (3, 1)), data_type=DataType.INT32)
    gather = gathered(x, rows, view("a", (3, 4)), 0, clamp=False)
    taken = Map((*gather.sources, p), y, gather.value + load(len(gather.sources), F32), checks=gather.checks)
    other = Map((p,), z, load(0, F32) * load(0, F32))
    assert len(horizontal_fusion(recipe(stores, taken, other)).steps) == 2


def test_how_far_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    many = (dml.add, dml.subtract, dml.multiply, dml.max, dml.min)
    check("cpu", lambda x, y: [make(x, y) for make in many], X, Y, targets=[1, 4])
    monkeypatch.setattr("anydml.graph.passes.horizontal_fusion.NEAR", X.nbytes)
    check("cpu", lambda x, y: [(s := x + y), normal(s)], X, Y, targets=[1, 1])


def test_random_graphs_of_rows_have_steps_of_several_targets() -> None:
    found = 0
    for seed in range(40):
        desc = random_rows.draw(random.Random(seed)).desc  # noqa: S311 - for a test
        steps = dml.Device("reference").compile_graph(desc).recipe.steps
        found += sum(len(step.targets) > 1 for step in steps)
    assert found >= 5
