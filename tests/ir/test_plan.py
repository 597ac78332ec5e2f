"""The plan: whatever it makes of loops, the same elements are visited together."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from agreement import assert_same
from anydml.core.enums import NUMPY_TYPES, DataType
from anydml.ir.expressions import FOLDS, call, fold, load, number_of
from anydml.ir.loops import Loops, merge, order, simplify, squeeze, turn
from anydml.ir.row_passes import find_passes, levels_of, neutral, varies_along_row


def visits(loops: Loops) -> list[tuple[int, ...]]:
    """The places that the views are at, step by step."""
    return [
        tuple(
            o + sum(i * s for i, s in zip(at, row, strict=True))
            for o, row in zip(loops.offsets, loops.strides, strict=True)
        )
        for at in itertools.product(*(range(n) for n in loops.sizes))
    ]


def random_loops(seed: int) -> Loops:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(0, 6))
    sizes = tuple(rng.integers(1, 4, rank).tolist())
    views = int(rng.integers(1, 4))
    packed = [int(np.prod(sizes[k + 1 :])) for k in range(rank)]
    strides = []
    for _ in range(views):
        kind = rng.integers(0, 3)
        row = (
            packed
            if kind == 0
            else rng.permutation(packed).tolist()
            if kind == 1
            else rng.integers(-9, 10, rank).tolist()
        )
        strides.append(tuple(int(s) for s in row))
    return Loops(sizes, tuple(strides), tuple(rng.integers(0, 100, views).tolist()))


@pytest.mark.parametrize("seed", range(200))
def test_every_step_keeps_what_is_visited(seed: int) -> None:
    loops = random_loops(seed)
    wanted = visits(loops)
    for keeps_order in (squeeze(loops), merge(loops), merge(squeeze(loops))):
        assert visits(keeps_order) == wanted
    for view in range(len(loops.strides)):
        for same in (turn(loops, view), order(loops, view), simplify(loops, view)):
            assert sorted(visits(same)) == sorted(wanted)
            assert same.count == len(wanted)
        assert all(stride >= 0 for stride in turn(loops, view).strides[view])
        steps = order(loops, view).strides[view]
        assert list(map(abs, steps)) == sorted(map(abs, steps), reverse=True)


def test_contiguous_dimensions_become_one() -> None:
    packed = Loops((2, 3, 4), ((12, 4, 1), (12, 4, 1)), (0, 0))
    assert simplify(packed, 1) == Loops((24,), ((1,), (1,)), (0, 0))
    cropped = Loops((2, 1, 3, 4), ((30, 12, 8, 1), (12, 12, 4, 1)), (5, 0))
    assert simplify(cropped, 1) == Loops((2, 3, 4), ((30, 8, 1), (12, 4, 1)), (5, 0))
    transposed = Loops((4, 3), ((1, 4), (3, 1)), (0, 0))
    assert simplify(transposed, 1) == transposed
    backward = Loops((4,), ((1,), (-1,)), (0, 3))
    assert simplify(backward, 1) == Loops((4,), ((-1,), (1,)), (3, 0))
    assert simplify(Loops((1, 1), ((5, 7), (0, 9)), (2, 3)), 1) == Loops((), ((), ()), (2, 3))


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
