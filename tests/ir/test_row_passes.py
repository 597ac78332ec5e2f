"""The work of a reduce on a row: neutral elements, levels of folds, passes, and what they keep."""

from __future__ import annotations

import numpy as np
import pytest

from agreement import assert_same
from anydml.core.enums import NUMPY_TYPES, DataType
from anydml.ir.expressions import FOLDS, call, fold, load, number_of
from anydml.ir.row_passes import find_passes, levels_of, neutral, varies_along_row

F32 = DataType.FLOAT32
X = load(0, F32)
FUNCTIONS = {"fold_sum": np.add, "fold_product": np.multiply, "fold_max": np.maximum, "fold_min": np.minimum}


@pytest.mark.parametrize("of", NUMPY_TYPES)
@pytest.mark.parametrize("function", FOLDS)
def test_a_neutral_element_changes_nothing(function: str, of: DataType) -> None:
    limits = np.finfo(of.dtype) if of.is_float else np.iinfo(of.dtype)
    numbers = [0, 1, 5, limits.min, limits.max, *([-0.0, np.inf, -np.inf] if of.is_float else [])]
    x = np.array(numbers, of.dtype)
    element = number_of(neutral(fold(function.removeprefix("fold_"), load(0, of))))
    assert element.dtype == of.dtype
    assert_same(FUNCTIONS[function](x, element), x, function)


def test_a_softmax_takes_three_passes_and_keeps_what_is_dear() -> None:
    largest = fold("max", X)
    power = call("exp", X - largest)
    value = power / fold("sum", power)
    assert [levels_of(value)[node] for node in (X, largest, power, value)] == [0, 1, 1, 2]
    varies = varies_along_row([value], [X])
    assert (varies[X], varies[largest], varies[power], varies[value]) == (True, False, True, True)
    again = find_passes([value], [value], [X], dear=0)
    assert [len(one.folds) for one in again] == [1, 1, 0]
    assert not any(one.keeps for one in again)
    kept = find_passes([value], [value], [X], dear=2)
    assert [one.keeps for one in kept] == [[], [power], []]
    assert kept[2].kept == [power]
    assert kept[1].once == [largest]
    (alone,) = find_passes([largest], [], [X], dear=2)
    assert alone.folds == [largest]
