"""Analysis of contractions: M, N, K, batch and windows; padding that maps materialise; epilogues."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.core.memory import packed_strides
from anydml.ir.contraction import (
    ConvolutionAxes,
    StridedContraction,
    adds_to_product,
    byte_less_zero,
    is_product,
    match_contraction,
    matrices_of,
)
from anydml.ir.epilogue import COLUMN, FOLD, ROW, Epilogue, fetches_beside, find_epilogue, is_cheap
from anydml.ir.expressions import Expr, call, coordinate, fetch, fold, given, load, maximum
from anydml.ir.padded_reads import match_padded
from anydml.ir.patterns import copy_of, filled
from anydml.ir.verbs import Reduce
from anydml.ir.views import View
from anydml.ir.windows import walk_of, walked_within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.ir.contraction import Contraction
    from anydml.ir.verbs import Map

F32, I32, I8, U8 = dml.DataType.FLOAT32, dml.DataType.INT32, dml.DataType.INT8, dml.DataType.UINT8


def einsum(left: str, right: str, result: str, sizes: dict[str, int], value: Expr | None = None, **more: str) -> Reduce:
    """A sum of products of packed tensors, a letter a dimension; what is read beside them has letters too."""
    summed = [x for x in sizes if x not in result]
    letters = [*(x for x in sizes if x in result), *summed]

    def view(name: str, own: str, wanted: Sequence[str]) -> View:
        strides = dict(zip(own, packed_strides([sizes[x] for x in own]), strict=True))
        shape = tuple(sizes[x] if name != "y" or x in result else 1 for x in wanted)
        return View(name, F32, shape, tuple(strides.get(x, 0) if sizes[x] > 1 else 0 for x in wanted))

    sources = [view(name, own, letters) for name, own in {"a": left, "b": right, **more}.items()]
    product = fold("sum", load(0, F32) * load(1, F32)) if value is None else value
    return Reduce(tuple(sources), view("y", result, letters), product, len(summed))


def found_in(primitive: Reduce) -> Contraction:
    found = match_contraction(primitive)
    assert found is not None
    return found


def strided(primitive: Reduce) -> StridedContraction:
    return StridedContraction(primitive, found_in(primitive))


def convolution(x: Sequence[int], filters: Sequence[int], **fields: Any) -> Reduce:
    """The reduce that a convolution lowers to."""
    tensors = {"input_tensor": dml.TensorDesc("float32", x), "filter_tensor": dml.TensorDesc("float32", filters)}
    (made,) = (one for one in dml.Convolution.infer(**tensors, **fields).lower() if isinstance(one, Reduce))
    return made


def test_products_of_matrices_in_a_batch() -> None:
    found = found_in(einsum("bmk", "bkn", "bmn", {"b": 3, "m": 4, "n": 5, "k": 6}))
    assert (found.batch, found.rows, found.columns, found.folded) == ((0,), (1,), (2,), (3,))
    assert found.shape == (4, 5, 6)
    assert found.transposed.shape == (5, 4, 6)
    assert found.transposed.transposed == found


def test_a_factor_that_is_broadcast_along_the_batch_has_more_rows() -> None:
    found = found_in(einsum("bmk", "kn", "bmn", {"b": 3, "m": 4, "n": 5, "k": 6}))
    assert (found.batch, found.rows) == ((), (0, 1))
    assert found.shape == (12, 5, 6)


def test_dimensions_of_one_element_belong_nowhere() -> None:
    found = found_in(einsum("bmk", "bkn", "bmn", {"b": 1, "m": 1, "n": 5, "k": 6}))
    assert (found.batch, found.rows, found.columns, found.folded) == ((), (), (2,), (3,))
    assert found.shape == (1, 5, 6)


def test_what_is_no_contraction() -> None:
    sizes = {"m": 4, "n": 5, "k": 6}
    a, b = load(0, F32), load(1, F32)
    assert match_contraction(einsum("mk", "kn", "mn", sizes, fold("max", a * b))) is None
    assert match_contraction(einsum("mk", "kn", "mn", sizes, fold("sum", a + b))) is None
    assert match_contraction(einsum("mk", "kn", "mn", sizes, fold("sum", a * b) + fold("sum", a))) is None
    assert match_contraction(einsum("mk", "n", "mn", sizes)) is None  # one factor does not vary along the sum
    assert is_product(einsum("mk", "kn", "mn", sizes))
    assert not is_product(einsum("bk", "bk", "b", {"b": 4, "k": 6}))


def test_what_is_added_to_a_product() -> None:
    sizes, total = {"m": 4, "n": 5, "k": 6}, fold("sum", load(0, F32) * load(1, F32)) + load(2, F32)
    whole = einsum("mk", "kn", "mn", sizes, total, c="mn")
    assert adds_to_product(whole, whole.sources[2])
    bias = einsum("mk", "kn", "mn", sizes, total, c="n")
    assert not adds_to_product(bias, bias.sources[2])


def test_runs_are_dimensions_that_lie_as_one_in_every_operand() -> None:
    sizes = {"p": 2, "q": 3, "n": 5, "k": 6}
    whole = strided(einsum("pqk", "kn", "pqn", sizes))
    every = [*whole.all_strided(whole.left, whole.right), whole.target]
    assert whole.runs(whole.rows, every) == [(0, 1)]
    apart = strided(einsum("qpk", "kn", "pqn", sizes))
    every = [*apart.all_strided(apart.left, apart.right), apart.target]
    assert apart.runs(apart.rows, every) == [(0,), (1,)]
    assert apart.merge(apart.rows, every) == ((1,), (0,))  # the longest, and the others
    assert apart.runs(apart.rows, [apart.target]) == [(0, 1)]


def test_strides_are_in_bytes_and_a_coordinate_counts() -> None:
    total = fold("sum", load(0, F32) * load(1, F32)) + coordinate(1).to(F32)
    sides = strided(einsum("mk", "nk", "mn", {"m": 4, "n": 5, "k": 6}, total))
    assert sides.strided(sides.left).strides == (24, 0, 4)
    assert sides.strided(sides.right).along(sides.columns) == 24
    assert (sides.target.strides, sides.target.width) == ((20, 4, 0), 4)
    leaves, lies = sides.leaves(sides.finish)
    assert leaves[0] is sides.sum
    assert lies[leaves.index(coordinate(1))].strides == (0, 1, 0)
    assert (sides.m, sides.n, sides.k) == (4, 5, 6)


def test_matrices_are_merged_and_the_rest_is_of_further_ones() -> None:
    whole = einsum("pqk", "kn", "pqn", {"p": 2, "q": 3, "n": 5, "k": 6})
    made = matrices_of(whole, found_in(whole))
    assert made is not None
    assert (made.shape, made.batch.count) == ((6, 5, 6), 1)
    assert made.strides(0) == {"row": 6, "column": 0, "term": 1}
    assert [made.pair(view) for view in range(3)] == [(6, 1), (5, 1), (5, 1)]
    heads = einsum("phk", "khn", "hpn", {"h": 2, "p": 3, "n": 5, "k": 6})
    made = matrices_of(heads, found_in(heads))
    assert made is not None
    assert (made.shape, made.batch.sizes) == ((3, 5, 6), (2,))
    split = einsum("pjk", "jnk", "pn", {"p": 2, "n": 3, "j": 4, "k": 5})
    assert matrices_of(split, found_in(split)) is None  # terms that are not one


def test_bytes_less_their_zero_points() -> None:
    byte, zero = load(0, U8), load(1, U8).to(I32)
    assert byte_less_zero(byte.to(I32) - zero) == (byte, zero)
    plain = byte_less_zero(load(0, I8).to(I32))
    assert plain is not None
    assert (plain[0], plain[1].value) == (load(0, I8), 0)
    assert byte_less_zero(load(0, F32)) is None


def test_the_axes_of_a_convolution() -> None:
    axes = ConvolutionAxes.of(8, 3)
    assert tuple(axes) == ((0, 1), 2, (3, 4), 5, (6, 7))
    assert tuple(ConvolutionAxes.of(6, 2)) == ((0, 1), 2, (3,), 4, (5,))
    made = convolution([2, 6, 9, 11], [8, 3, 3, 2], group_count=2)
    assert [made.sizes[k] for k in (axes.channel, axes.inputs)] == [4, 3]
    assert [made.sizes[k] for k in (*axes.outer, *axes.places, *axes.taps)] == [2, 2, 7, 10, 3, 2]


@pytest.mark.parametrize(("strides", "dilations"), [([1, 1], [1, 1]), ([2, 3], [1, 1]), ([1, 2], [3, 3])])
def test_windows_walk_by_strides_and_dilations(strides: list[int], dilations: list[int]) -> None:
    found = walk_of(convolution([2, 4, 17, 19], [8, 4, 3, 3], strides=strides, dilations=dilations))
    assert found is not None
    height, width = (
        next(axis for axis in found.left.axes if place in axis.steps) for place in ConvolutionAxes.of(8, 3).places
    )
    assert [height.steps[k] for k in (3, 6)] == [strides[0], dilations[0]]
    assert [width.steps[k] for k in (4, 7)] == [strides[1], dilations[1]]
    assert (height.stride, width.stride) == (19, 1)
    assert (found.inner, found.run, sorted(found.taps)) == (5, 4, [6, 7])
    rows = found.found.count(found.rows)
    assert found.shape == (rows, 8, 36)
    assert found.groups == 1


def test_groups_are_convolutions_beside_one_another() -> None:
    found = walk_of(convolution([1, 8, 9, 9], [6, 4, 3, 3], group_count=2))
    assert found is not None
    assert (found.groups, found.shape) == (2, (49, 3, 36))
    assert found.left.stride(1) == 4 * 81
    assert found.right.stride(1) == 3 * 36
    assert found.channels is not None


def packed(tensor: str, *sizes: int) -> View:
    strides = (step if size > 1 else 0 for size, step in zip(sizes, packed_strides(sizes), strict=True))
    return View(tensor, F32, sizes, tuple(strides))


def padding(sizes: tuple[int, ...], start: tuple[int, ...], end: tuple[int, ...]) -> list[Map]:
    """A copy, and a fill for each side that there is."""
    whole = packed("padded", *(a + n + b for a, n, b in zip(start, sizes, end, strict=True)))
    ones, maps = (1,) * len(sizes), [copy_of(packed("x", *sizes), whole.window(start, (1,) * len(sizes), sizes))]
    before, left = [0] * len(sizes), list(whole.sizes)
    for k, (a, n, b) in enumerate(zip(start, sizes, end, strict=True)):
        for at, count in ((0, a), (a + n, b)):
            if count:
                first, some = [*before], [*left]
                first[k], some[k] = at, count
                maps.append(filled(whole.window(first, ones, some), 7.0))
        before[k], left[k] = a, n
    return maps


@pytest.mark.parametrize(
    ("sizes", "start", "end"),
    [
        ((2, 3, 4, 5), (0, 0, 1, 1), (0, 0, 1, 2)),
        ((1, 1, 4, 5), (0, 2, 1, 1), (0, 1, 0, 2)),
        ((2, 1, 3, 4), (1, 1, 1, 1), (1, 1, 1, 1)),
        ((1, 3, 1, 4), (0, 0, 1, 1), (0, 0, 1, 1)),
        ((2, 2, 3, 4), (0, 0, 0, 0), (0, 0, 1, 2)),
        ((5,), (2,), (1,)),
    ],
)
def test_windows_of_a_padded_tensor_read_the_one_within(
    sizes: tuple[int, ...], start: tuple[int, ...], end: tuple[int, ...]
) -> None:
    found = match_padded(padding(sizes, start, end))
    assert found is not None
    x = np.arange(1, np.prod(sizes) + 1, dtype=np.float32)
    whole = np.pad(x.reshape(sizes), list(zip(start, end, strict=True)), constant_values=7)
    for step, window in itertools.product((1, 2), (1, 2)):
        taps = tuple(min(window, n) for n in whole.shape)
        places = tuple((n - k) // step + 1 for n, k in zip(whole.shape, taps, strict=True))
        own = packed_strides(whole.shape)
        strides = [s if n > 1 else 0 for n, s in zip((*places, *taps), (*(step * s for s in own), *own), strict=True)]
        view = View("padded", F32, (*places, *taps), tuple(strides))
        walked = walked_within(view, found)
        assert walked is not None
        for at in itertools.product(*map(range, view.sizes)):
            indices = [axis.first + sum(at[k] * by for k, by in axis.steps.items()) for axis in walked.axes]
            outside = [axis for i, axis in zip(indices, walked.axes, strict=True) if not 0 <= i < axis.size]
            assert all(axis.is_limited for axis in outside), at
            place = walked.offset + sum(i * axis.stride for i, axis in zip(indices, walked.axes, strict=True))
            wanted = whole.ravel()[sum(i * s for i, s in zip(at, strides, strict=True))]
            assert (7 if outside else x[place]) == wanted, at


def test_other_maps_are_no_padding() -> None:
    copy, *fills = padding((4, 5), (1, 1), (1, 1))
    assert match_padded([*fills, copy]) is not None
    zero = View("zero", F32, copy.target.sizes, (0, 0))
    by_element = [replace(one, sources=(replace(zero, sizes=one.target.sizes),), value=copy.value) for one in fills]
    found = match_padded([copy, *by_element])
    assert found is not None
    assert found.outside == View("zero", F32, (1,), (0,))
    others = {
        "no fill": [copy],
        "two numbers": [copy, *fills[1:], replace(fills[0], value=given(8.0, F32))],
        "numbers that count": [copy, *fills[1:], filled(fills[0].target, 7.0, 1.0)],
        "two copies": [copy, copy, *fills],
        "another tensor": [copy, *fills[1:], replace(fills[0], target=fills[0].target.named("other"))],
        "a number and an element": [copy, *fills[1:], by_element[0]],
    }
    assert [why for why, maps in others.items() if match_padded(maps) is not None] == []


SIZES = (4, 8, 6)
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
