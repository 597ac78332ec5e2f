"""Epilogues: which reads may follow a product, along what each moves, and how often nodes need be computed."""

from __future__ import annotations

import anydml as dml
from anydml.ir.contraction import StridedContraction, match_contraction
from anydml.ir.epilogue import COLUMN, FOLD, ROW, Epilogue, fetches_beside, find_epilogue, is_cheap
from anydml.ir.expressions import Expr, call, coordinate, fetch, fold, load, maximum
from anydml.ir.verbs import Reduce
from anydml.ir.views import View

F32, SIZES = dml.DataType.FLOAT32, (4, 8, 6)
SUM = fold("sum", load(0, F32) * load(1, F32))


def product(value: Expr, *more: tuple[int, int]) -> StridedContraction:
    """4 x 8 sums of 6 products, and views with strides along rows and columns."""
    factors = [View("a", F32, SIZES, (6, 0, 1)), View("b", F32, SIZES, (0, 1, 8))]
    beside = [View(f"c{k}", F32, SIZES, (*strides, 0)) for k, strides in enumerate(more)]
    made = Reduce((*factors, *beside), View("y", F32, (4, 8, 1), (8, 1, 0)), value, 1)
    found = match_contraction(made)
    assert found is not None
    return StridedContraction(made, found)


def epilogue_of(value: Expr, *more: tuple[int, int], longest: int = 24) -> Epilogue | None:
    sides = product(value, *more)
    return find_epilogue(sides, sides.rows, sides.columns, longest=longest)


def test_reads_move_along_rows_columns_or_both() -> None:
    value = SUM * load(2, F32) + load(3, F32) + load(4, F32) - load(5, F32)
    found = epilogue_of(value, (1, 0), (0, 1), (8, 1), (0, 0))
    assert found is not None
    assert found.leaves[0] is found.fold
    assert dict(zip(found.leaves[1:], found.moves[1:], strict=True)) == {
        load(2, F32): ROW, load(3, F32): COLUMN, load(4, F32): FOLD, load(5, F32): "",
    }  # fmt: skip
    assert (found.moves[0], sorted(found.reads)) == (FOLD, ["", COLUMN, FOLD, ROW])


def test_coordinates_move_along_their_dimension() -> None:
    found = epilogue_of(SUM + coordinate(0).to(F32) + coordinate(1).to(F32))
    assert found is not None
    moves = dict(zip(found.leaves, found.moves, strict=True))
    assert (moves[coordinate(0)], moves[coordinate(1)]) == (ROW, COLUMN)


def test_columns_must_lie_side_by_side() -> None:
    assert epilogue_of(SUM + load(2, F32), (0, 1)) is not None
    assert epilogue_of(SUM + load(2, F32), (0, 2)) is None
    assert epilogue_of(SUM + load(2, F32), (1, 4)) is None
    assert epilogue_of(SUM + load(2, F32), (0, -1)) is None


def test_a_schedule_may_refuse_reads() -> None:
    sides = product(SUM + load(2, F32), (1, 0))
    wanted = {"rows": sides.rows, "columns": sides.columns, "longest": 24}
    assert find_epilogue(sides, **wanted, may_read=("", ROW)) is not None  # type: ignore[arg-type]  # by name
    assert find_epilogue(sides, **wanted, may_read=("", COLUMN)) is None  # type: ignore[arg-type]  # by name


def test_long_ones_are_none() -> None:
    assert epilogue_of(SUM + load(2, F32), (0, 1), longest=3) is not None
    assert epilogue_of(SUM + load(2, F32), (0, 1), longest=2) is None


def test_nodes_are_computed_as_seldom_as_what_they_depend_on_lets_them() -> None:
    bias, scale = load(2, F32) * 2.0, load(3, F32) * 3.0
    found = epilogue_of(maximum(SUM * scale + bias, 0.0), (0, 1), (1, 0))
    assert found is not None
    levels = found.levels()
    assert (levels[bias], levels[scale]) == (frozenset((COLUMN,)), frozenset((ROW,)))
    assert levels[bias.args[1]] == frozenset()
    assert levels[found.fold * scale] == {FOLD, ROW}
    assert levels[found.value] == {FOLD, ROW, COLUMN}


def test_functions_are_dear_but_of_sums() -> None:
    total = load(0, F32)
    assert is_cheap(maximum(total + load(1, F32), 0.0))
    assert not is_cheap(call("exp", total))
    assert is_cheap(call("exp", total) + load(1, F32), total)
    assert not is_cheap(call("exp", load(1, F32)) + total, total)


def test_fetches_within_the_sum_are_no_concern_of_what_follows() -> None:
    element = fetch(0, F32, [coordinate(0)])
    inside = fold("sum", element * load(1, F32))
    assert not fetches_beside(inside + load(2, F32), inside)
    assert fetches_beside(inside + element, inside)
