"""Constant folding on symbolic sizes, held to the reference engine: every element-wise operator of whole numbers."""

from __future__ import annotations

from dataclasses import MISSING
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.api.builder import Graph
from anydml.api.derived import function_of
from anydml.api.signatures import parameters_of
from anydml.core.guards import Tape, entered
from anydml.core.symbolic_sizes import OpenSize, as_numbers
from anydml.graph.symbolic_folding import fold
from anydml.operators import OPERATORS
from anydml.operators.elementwise import ElementWise

RNG = np.random.default_rng(0)
INT64 = dml.DataType.INT64


def takes_whole_numbers(kind: Any) -> bool:
    if kind.optional_inputs() or MISSING in parameters_of(kind).values():
        return False
    given = [dml.TensorDesc(INT64, (1, 1, 1, 4)) for _ in kind.input_names()]
    try:
        graph = Graph("reference")
        graph.desc([function_of(kind)(*map(graph.input, given))]).validate(dml.FeatureLevel.highest())
    except dml.DmlError:
        return False
    return True


KINDS = {
    kind.type.name: kind for kind in OPERATORS.values() if ElementWise in kind.__mro__ and takes_whole_numbers(kind)
}


def folded(tape: Tape, describe: Any, *arrays: Any) -> Any:
    """What a function of a graph's inputs gives for arrays whose elements are symbols, in their numbers."""
    graph = Graph("reference")
    symbols = [np.array([tape.open(int(n)) for n in array.flat], object) for array in arrays]
    with tape.recording():
        made = describe(*(graph.input(dml.TensorDesc(INT64, array.shape)) for array in arrays))
        found = fold(graph.desc([made]), symbols, [INT64] * len(arrays))
    tape.keep(())
    return found


def at(tape: Tape, found: Any, *arrays: Any) -> list[int] | None:
    """The numbers for others, where the same is found of them."""
    if (values := tape.at([int(n) for array in arrays for n in array.flat])) is None:
        return None
    with tape.reading(values):
        return [as_numbers(one) for one in found[0]]


def test_there_are_many() -> None:
    assert len(KINDS) > 15


@pytest.mark.parametrize("name", KINDS)
def test_symbols_give_the_numbers_of_the_reference(name: str) -> None:
    kind = KINDS[name]
    function, count, held = function_of(kind), len(kind.input_names()), 0
    arrays = [RNG.integers(-9, 60, (1, 1, 1, 4)) for _ in range(count)]
    tape = Tape()
    found = folded(tape, function, *arrays)
    assert found is not None
    for k in range(20):
        others = arrays if not k else [array + RNG.integers(-2, 3, array.shape) for array in arrays]
        wanted = np.asarray(function(*others, device="reference")).reshape(-1).tolist()
        numbers = at(tape, found, *others)
        if numbers is not None:
            held += 1
            assert [int(n) for n in numbers] == [int(n) for n in wanted], others
    assert held, "it holds for the numbers that it was recorded with at least"


def test_arithmetic_is_recorded_and_comparisons_are_guards() -> None:
    tape = Tape()
    found = folded(tape, lambda x, y: dml.max(dml.add(x, x), y), np.array([6]), np.array([9]))
    assert type(found[0][0]) is OpenSize
    assert at(tape, found, np.array([6]), np.array([9])) == [12]
    assert at(tape, found, np.array([9]), np.array([17])) == [18]
    assert at(tape, found, np.array([9]), np.array([19])) is None


@pytest.mark.parametrize(
    "describe",
    [
        lambda x: dml.cast(x, dml.DataType.FLOAT32),
        lambda x: dml.cast(dml.cast(x, dml.DataType.FLOAT32), INT64),
        lambda x: dml.cumulative_summation(x, 0),
        lambda x: x.reinterpret((4,), (1,), dml.DataType.UINT32),
    ],
)
def test_what_is_not_told_of_symbols_is_not_folded(describe: Any) -> None:
    tape = Tape()
    assert folded(tape, lambda x: dml.identity(describe(x)), np.array([6, 7])) is None
    with entered(None):
        assert tape.at([7, 8]) is not None, "nor is it pinned"


def test_numbers_that_a_type_does_not_hold_are_not_folded() -> None:
    tape = Tape()
    found = folded(tape, lambda x: dml.cast(x, dml.DataType.INT32), np.array([2**30]))
    assert at(tape, found, np.array([2**31 - 1])) == [2**31 - 1]
    assert at(tape, found, np.array([2**31])) is None
    assert folded(Tape(), lambda x: dml.cast(x, dml.DataType.INT32), np.array([2**31])) is None
