"""Walks cut into tiles: what programs reach, counted as kernels count it, is each element of a walk, once."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from anydml.core.enums import DataType
from anydml.engines.common.tiles import Walk, row_walk_of, walk_of
from anydml.ir.expressions import fold, load
from anydml.ir.loops import Loops, simplify
from anydml.ir.verbs import Reduce
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = np.ndarray[Any, Any]


def drawn(seed: int) -> Loops:
    """A walk of two sources, of which one may repeat elements, and a dense target."""
    chance = np.random.default_rng(seed)
    sizes = tuple(int(n) for n in chance.integers(1, 9, chance.integers(1, 5)))
    if seed % 3 == 0:
        sizes = (*sizes[:2], int(chance.integers(200, 700)))

    def strides(order: Sequence[int]) -> tuple[int, ...]:
        found = [0] * len(sizes)
        for place, k in enumerate(order):
            found[k] = int(np.prod([sizes[i] for i in order[place + 1 :]], dtype=int)) * int(chance.choice([1, 2]))
        return tuple(found)

    target = strides(range(len(sizes)))
    repeated = tuple(stride * int(chance.integers(2)) for stride in strides(range(len(sizes))))
    turned = strides([int(k) for k in chance.permutation(len(sizes))])
    return simplify(Loops(sizes, (turned, repeated, target), (5, 0, 3)), 2)


def cut(seed: int) -> Walk:
    """It in tiles of few bytes, or of more, with a narrow source, or without."""
    return walk_of(drawn(seed), (4, (2, 4)[seed // 2 % 2], 4), (256, 1024)[seed % 2])


def places(loops: Loops) -> list[tuple[int, ...]]:
    """Where each step of a walk is, by view."""
    steps = itertools.product(*map(range, loops.sizes))
    return sorted(tuple(sum(map(int.__mul__, at, row)) for row in loops.strides) for at in steps)


def reached(walk: Walk) -> list[tuple[int, ...]]:
    """The places of all programs, by the numbers that kernels are given."""
    (n0, n1), blocks, sizes, *rows = (of if isinstance(of, tuple) else (of,) for of in walk.numbers)
    tile, found = walk.tile, []
    for program in range(walk.programs):
        row, first, number = np.array(0), np.array(0), np.array(0)
        if tile.is_flat:
            number = program * tile.inner + np.arange(tile.inner)
            mask = number < n0
        else:
            rest, column = divmod(program, blocks[0]) if tile.levels > 1 else (0, program)
            rest, down = divmod(rest, blocks[1]) if tile.levels > 2 else (0, rest)
            number = np.array(rest)
            row = (down * tile.middle + np.arange(tile.middle))[:, None]
            first = (column * tile.inner + np.arange(tile.inner))[None, :]
            mask = (row < n1) & (first < n0)
        assert mask.any(), "a program has nothing to do"
        at = []
        for view, reach in enumerate(walk.reaches):
            steps, strides = rows[2 * view], rows[2 * view + 1]
            far = _place(number, sizes, strides) * reach.align
            for index, step, known in ((first, steps[0], reach.step), (row, steps[1], reach.middle_step)):
                far = far + index * (known if known != 2 else step * reach.align)
            at.append(np.broadcast_to(far, mask.shape)[mask])
        found += list(zip(*(each.tolist() for each in at), strict=True))
    return sorted(found)


def _place(number: Array, sizes: Sequence[int], strides: Sequence[int]) -> Array:
    """The offset of the coordinate of a running number, the first dimension running fastest."""
    found = np.zeros_like(number)
    for k, stride in enumerate(strides):
        is_last = k == len(strides) - 1
        found = found + (number if is_last else number % sizes[k]) * stride
        number = number // sizes[k]
    return found


@pytest.mark.parametrize("seed", range(24))
def test_tiles_reach_each_element_once(seed: int) -> None:
    assert reached(cut(seed)) == places(drawn(seed))


def test_all_ways_to_count_are_drawn() -> None:
    tiles = [cut(seed).tile for seed in range(24)]
    assert {tile.levels for tile in tiles} == {1, 2, 3}
    assert {tile.is_flat for tile in tiles} == {True, False}
    assert any(tile.middle > 1 for tile in tiles)


def test_rows_are_walked_apart_from_what_lies_along_them() -> None:
    source = View("x", DataType.FLOAT32, (2, 3, 5), (15, 5, 1))
    bias = View("b", DataType.FLOAT32, (2, 3, 5), (0, 1, 0))
    target = View("y", DataType.FLOAT32, (2, 3, 1), (3, 1, 0))
    total = fold("sum", load(0, DataType.FLOAT32)) + load(1, DataType.FLOAT32)
    walk = row_walk_of(Reduce((source, bias), target, total, 1), [total])
    assert (walk.rows.count, walk.along.count) == (6, 5)
    assert [walk.spans(leaf) for leaf in walk.leaves] == [(True, True), (True, False)]
    assert walk.loads == 2
    assert not walk.is_across
    column = View("x", DataType.FLOAT32, (2, 3, 5), (15, 1, 3))
    assert row_walk_of(Reduce((column, bias), target, total, 1), [total]).is_across
