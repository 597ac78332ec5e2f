"""Folds: neutral elements, levels, and what a row's passes compute, keep and take from one another."""

from __future__ import annotations

import math

import pytest

import anydml as dml
from anydml.ir.expressions import FOLDS, call, fold, load
from anydml.ir.folds import find_passes, folds_by_level, levels_of, neutral, varying_nodes

F32, INT8, UINT32 = dml.DataType.FLOAT32, dml.DataType.INT8, dml.DataType.UINT32
X, SCALE = load(0, F32), load(1, F32)
TOP = fold("max", X)
POWER = call("exp", X - TOP)
TOTAL = fold("sum", POWER)
SOFTMAX = POWER / TOTAL


@pytest.mark.parametrize(
    ("function", "kind", "wanted"),
    [
        ("sum", F32, -0.0), ("product", F32, 1.0), ("max", F32, -math.inf), ("min", F32, math.inf),
        ("sum", INT8, 0), ("product", INT8, 1), ("max", INT8, -128), ("min", INT8, 127),
        ("max", UINT32, 0), ("min", UINT32, 2**32 - 1),
    ],
)  # fmt: skip
def test_neutral_elements(function: str, kind: dml.DataType, wanted: float) -> None:
    found = neutral(fold(function, load(0, kind)))
    assert (found.type, repr(found.value)) == (kind, repr(wanted))


def test_every_fold_has_a_neutral_element() -> None:
    for name in FOLDS:
        assert neutral(fold(name.removeprefix("fold_"), X)).op == "const"


def test_levels_are_how_deep_folds_are_in_one_another() -> None:
    levels = levels_of(SOFTMAX)
    assert [levels[node] for node in (X, TOP, POWER, TOTAL, SOFTMAX)] == [0, 1, 1, 2, 2]
    assert folds_by_level(SOFTMAX) == [[TOP], [TOTAL]]
    assert folds_by_level(X) == []


def test_a_fold_is_one_for_the_row() -> None:
    varies = varying_nodes([SOFTMAX * SCALE], {X})
    assert [varies[node] for node in (X, SCALE, TOP, POWER, TOTAL, SOFTMAX)] == [True, False, False, True, False, True]


def test_passes_of_a_softmax() -> None:
    first, second, last = find_passes([SOFTMAX], [SOFTMAX], {X}, dear=0)
    assert (first.folds, second.folds, last.folds) == ([TOP], [TOTAL], [])
    assert (second.once, last.roots) == ([TOP], [SOFTMAX])
    assert set(last.once) == {TOP, TOTAL}
    assert not any(one.keeps or one.kept for one in (first, second, last))


def test_what_is_dear_is_kept_and_what_is_cheap_computed_again() -> None:
    _, second, last = find_passes([SOFTMAX], [SOFTMAX], {X}, dear=3)  # the maximum, a difference and a power
    assert (second.keeps, last.kept, last.leaves) == ([POWER], [POWER], [])
    _, second, last = find_passes([SOFTMAX], [SOFTMAX], {X}, dear=4)
    assert (second.keeps, last.kept, last.leaves) == ([], [], [X])


def test_values_written_early_are_read_where_they_were_written() -> None:
    total = fold("sum", X + SCALE)
    first, last = find_passes([X + SCALE, X * total], [X + SCALE, X * total], {X, SCALE}, dear=0, early=[X + SCALE])
    assert (first.keeps, last.roots) == ([X + SCALE], [X * total])
