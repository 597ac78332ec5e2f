"""Contraction geometry: the dimensions of M, N, K and batch, those that are one, and how windows walk over an input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
from anydml.ir.expressions import coordinate, fold, load
from anydml.ir.verbs import Reduce
from anydml.ir.views import View
from anydml.ir.windows import walk_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.ir.contraction import Contraction
    from anydml.ir.expressions import Expr

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
    every = [*whole.lies(whole.left, whole.right), whole.target]
    assert whole.runs(whole.rows, every) == [(0, 1)]
    apart = strided(einsum("qpk", "kn", "pqn", sizes))
    every = [*apart.lies(apart.left, apart.right), apart.target]
    assert apart.runs(apart.rows, every) == [(0,), (1,)]
    assert apart.merge(apart.rows, every) == ((1,), (0,))  # the longest, and the others
    assert apart.runs(apart.rows, [apart.target]) == [(0, 1)]


def test_strides_are_in_bytes_and_a_coordinate_counts() -> None:
    total = fold("sum", load(0, F32) * load(1, F32)) + coordinate(1).to(F32)
    sides = strided(einsum("mk", "nk", "mn", {"m": 4, "n": 5, "k": 6}, total))
    assert sides.lie(sides.left).strides == (24, 0, 4)
    assert sides.lie(sides.right).along(sides.columns) == 24
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
