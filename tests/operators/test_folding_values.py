"""Operators that fold where arithmetic goes wrong, against PyTorch and NumPy; and their pictures."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.api.describing import argument_name
from anydml.core.operator_type import function_name
from anydml.explain import Limits, explain
from anydml.explain.values import write_value
from anydml.operators.fused import attributes_of
from doors import as_list
from families.folding import FOLDING, assert_close, describe, expected, values
from places import get, put

if TYPE_CHECKING:
    from families.folding import Array

INF, NAN = np.inf, np.nan
ODD = np.array(list(itertools.product([1.5, -INF, INF, NAN, -0.0], repeat=3)), "float32")
"""Rows of three of these."""


def called(call: Any, engine: str, *arrays: Array, **attributes: Any) -> list[Array]:
    """What a function gives on an engine."""
    device = dml.Device(engine)
    return [get(one) for one in as_list(call(*(put(x, device) for x in arrays), **attributes, device=device))]


def test_rows_with_nan_and_infinities_are_pytorchs(engine: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")
    x = torch.tensor(ODD)
    pairs = [
        (called(dml.softmax1, engine, ODD), x.softmax(-1)),
        (called(dml.softmax, engine, ODD), x.softmax(-1)),
        (called(dml.log_softmax1, engine, ODD), x.log_softmax(-1)),
        (called(dml.reduce, engine, ODD, function="LOG_SUM_EXP", axes=-1), x.logsumexp(-1, keepdim=True)),
        (called(dml.reduce, engine, ODD, function="MAX", axes=-1), x.amax(-1, keepdim=True)),
        (called(dml.reduce, engine, ODD, function="MIN", axes=-1), x.amin(-1, keepdim=True)),
        (called(dml.reduce, engine, ODD, function="SUM", axes=-1), x.sum(-1, keepdim=True)),
        (called(dml.reduce, engine, ODD, function="MULTIPLY", axes=-1), x.prod(-1, keepdim=True)),
        (called(dml.reduce, engine, ODD, function="LOG_SUM", axes=-1), x.sum(-1, keepdim=True).log()),
        (called(dml.reduce, engine, ODD, function="L2", axes=-1), x.norm(2, -1, keepdim=True)),
    ]
    for (got,), wanted in pairs:
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-6, atol=1e-6)


def test_indices_of_rows_with_nan_are_numpys(engine: str) -> None:
    with_integers = np.array([[3, 7, 7], [-128, -128, 5], [0, 0, 0]], "int8")
    for x in (ODD, ODD.astype("float16"), with_integers):
        for name in ("argmax", "argmin"):
            wanted = getattr(np, name)(x, -1)
            (first,) = called(getattr(dml, name), engine, x, axes=-1)
            (last,) = called(getattr(dml, name), engine, x, axes=-1, axis_direction="DECREASING")
            np.testing.assert_array_equal(first[:, 0], wanted)
            np.testing.assert_array_equal(last[:, 0], 2 - getattr(np, name)(x[:, ::-1], -1))
            np.testing.assert_array_equal(called(dml.reduce, engine, x, function=name, axes=-1)[0], first)
    ones = called(dml.hardmax1, engine, ODD)[0]
    np.testing.assert_array_equal(ones, np.arange(3) == np.argmax(ODD, -1)[:, None])


def test_sums_do_not_lose_what_float32_would(engine: str) -> None:
    """A root of large squares; a logarithm of nearly 1; deviations beside a large mean."""
    big = np.full(64, 3e30, "float32")
    assert called(dml.reduce, engine, big, function="L2")[0] == np.float32(2.4e31)
    assert called(dml.reduce, engine, 8 * big * 1e6, function="L2")[0] == np.float32(1.92e38)
    near = np.array([1, 2**-30], "float32")
    np.testing.assert_allclose(called(dml.reduce, engine, near, function="LOG_SUM")[0], np.log1p(2.0**-30), rtol=1e-6)
    large = (10000 + np.random.default_rng(0).standard_normal((3, 512))).astype("float32")
    exact = large.astype("float64")
    wanted = (exact - exact.mean(1, keepdims=True)) / exact.std(1, keepdims=True)
    np.testing.assert_allclose(
        called(dml.mean_variance_normalization1, engine, large, axes=1, epsilon=0)[0], wanted, rtol=1e-6, atol=1e-7
    )
    np.testing.assert_array_equal(called(dml.lp_normalization, engine, big * 0, axis=0)[0], 0)


def test_a_softmax_of_large_numbers_sums_to_one(engine: str) -> None:
    x = (np.random.default_rng(0).standard_normal((5, 1000)) * 50 + 1000).astype("float32")
    (found,) = called(dml.softmax1, engine, x)
    np.testing.assert_allclose(found.sum(1, dtype="float64"), 1, rtol=1e-6)
    assert (found >= 0).all()


@pytest.mark.parametrize("cls", FOLDING, ids=lambda cls: cls.type.name)
def test_pictures_have_the_results(cls: type[dml.OperatorDesc]) -> None:
    desc = describe(cls, dml.DataType.FLOAT32, (1, 1, 2, 3), (3,))
    arrays = values(desc)
    picture = explain(desc, *arrays, limits=Limits(1000, 1000, 1000, 1000))
    assert picture.error is None
    results = as_list(dml.Device("reference").compile(desc)(*arrays))
    grids = [grid for grid in picture.grids if grid.role == "output"]
    for grid, result in zip(grids, results, strict=True):
        shown = {cell.element.coordinate: cell.value for cell in grid.cells()}
        assert shown == {at[4 - len(next(iter(shown))) :]: write_value(result[at]) for at in np.ndindex(result.shape)}
    assert picture.text()
    assert picture.html()


@pytest.mark.parametrize("cls", FOLDING, ids=lambda cls: cls.type.name)
def test_a_graph_gives_what_the_operator_gives(cls: type[dml.OperatorDesc], engine: str) -> None:
    """With a sum before and after, each of a number with itself, which is exact and may become part of the pass."""
    desc = describe(cls, dml.DataType.FLOAT32, (1, 1, 3, 40), (3,))
    arrays, device = values(desc), dml.Device(engine)
    g = dml.Graph(device)
    given = [g.input(x) for x in arrays]
    inputs = dict(zip(map(argument_name, cls.input_names()), [given[0] + given[0], *given[1:]], strict=True))
    attributes = {name: getattr(desc, name) for name in attributes_of(cls)}
    made = as_list(getattr(dml, function_name(cls.type))(**inputs, **attributes))
    results = as_list(g.compile([y + y for y in made])(*(put(x, device) for x in arrays)))
    for got, wanted in zip(results, expected(desc, [arrays[0] * 2, *arrays[1:]]), strict=True):
        there = get(got)
        assert_close(there // 2 if there.dtype.kind == "i" else there / 2, wanted, desc)
