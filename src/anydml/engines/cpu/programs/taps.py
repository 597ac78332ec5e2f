"""Depthwise convolutions and poolings by the largest, planned: which taps, and what a unit of planes is."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.build import IS_ARM, get_kernel
from anydml.engines.cpu.kernels import HEADER
from anydml.engines.cpu.kernels.contract import RESULT, SCRATCH
from anydml.engines.cpu.kernels.rows import OUTER_RANK, VIEWS
from anydml.engines.cpu.kernels.taps import MOST, TOGETHER, WORDS, Taps, make_taps, make_walk
from anydml.engines.cpu.programs.contract import FLOPS, ContractProgram
from anydml.engines.cpu.programs.sides import Sides
from anydml.engines.cpu.tiles import tile_for
from anydml.enums import DataType
from anydml.ir.expressions import FOLDS
from anydml.ir.patterns import Contraction, varies_along
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from anydml.engines.cpu.programs.sides import Lie, Section
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Reduce

F32 = DataType.FLOAT32
FAR = 16
"""The distances of taps at most: what is further apart is no window, and each has a kernel of its own."""
PART = 4096
"""Results of a part of a plane: the first cache has them, with what they are folded from."""


class _Planes(Sides):
    """The last two dimensions that are kept are rows and columns of a plane."""

    def _sort(self, *, has_lines: bool) -> None:  # noqa: ARG002 - of others
        found = self.found
        self.windows, self.unmerged = None, ()
        self.batch, self.rows, self.columns, self.folded = found.batch, found.rows, found.columns, found.folded


class _Found(NamedTuple):
    op: str
    x: Expr
    weight: Expr | None
    fold: Expr


def plan_taps(primitive: Reduce) -> ContractProgram | None:
    """Planes of FLOAT32 whose windows are small; None where they are not, or lie otherwise.

    Whether it is so does not depend on what is computed from the folds, nor on the target: bits are the same.
    """
    found = _match(primitive)
    if found is None or not all(primitive.sizes) or any(node.op == "fetch" for node in walk(primitive.value)):
        return None
    kept = len(primitive.sizes) - primitive.depth
    wide = [k for k, size in enumerate(primitive.sizes) if size > 1]
    plane, folded = tuple(k for k in wide if k < kept)[-2:], tuple(k for k in wide if k >= kept)
    batch = tuple(k for k in wide if k < kept and k not in plane)
    if len(plane) < 2 or not 1 <= len(folded) <= 2 or len(batch) > OUTER_RANK:
        return None
    if found.weight is not None and not varies_along(found.weight, primitive.sources).isdisjoint(plane):
        return None
    both = (found.x, found.x)  # weights have no part in how a plane lies
    sides = _Planes(primitive, Contraction(found.fold, *both, primitive.sizes, batch, plane[:1], plane[1:], folded))
    taps = _taps(sides, found)
    if taps is None or len(sides.lies(sides.finish)) >= VIEWS:
        return None
    return _program(sides, found, taps)


def _match(primitive: Reduce) -> _Found | None:
    """The one fold of a reduce of one value a row: the largest of loads, or the sum of their products with weights."""
    folds = [node for node in walk(primitive.value) if node.op in FOLDS]
    if len(folds) != 1 or primitive.also or not primitive.is_by_row or folds[0].type is not F32:
        return None
    (fold,) = folds
    (term,) = fold.args
    if fold.op in ("fold_max", "fold_min") and term.op == "load":
        return _Found(fold.op.removeprefix("fold_"), term, None, fold)
    if fold.op != "fold_sum" or term.op != "mul" or any(arg.op != "load" for arg in term.args):
        return None
    kept = range(len(primitive.sizes) - primitive.depth)
    # The input is what varies along places, the weights what does not.
    x, weight = sorted(term.args, key=lambda arg: -len(varies_along(arg, primitive.sources).intersection(kept)))
    return _Found("fma", x, weight, fold)


def _taps(sides: Sides, found: _Found) -> Taps | None:
    sizes, lie = sides.found.sizes, sides.lie(found.x)
    (rows,), (columns,) = sides.rows, sides.columns
    lanes, most = tile_for("f32", MOST).lanes, math.prod(sizes[k] for k in sides.folded)
    while 4 < lanes > sizes[columns]:
        lanes //= 2
    (below, beside), pitch = _pair(sides, lie), _pitch(sides, lie)
    is_long = lanes <= sizes[columns] <= RESULT // (8 * TOGETHER) and sizes[rows] >= TOGETHER
    if not (is_long and pitch and lie.strides[columns] in (4, 8) and most <= MOST):
        return None
    height, width = (1, *(sizes[k] for k in sides.folded))[-2:]
    distances = (lie.strides[rows] // pitch, lie.strides[columns] // 4, below // pitch, beside // 4)
    return Taps(found.op, height, width, *distances, lanes, IS_ARM) if max(map(abs, distances)) <= FAR else None


def _pair(sides: Sides, lie: Lie) -> tuple[int, int]:
    """The distances of taps, from line to line and along one."""
    found = [lie.strides[k] for k in sides.folded]
    return (found[0], found[1]) if len(found) == 2 else (0, found[0])


def _pitch(sides: Sides, lie: Lie) -> int:
    """What the distances of lines are multiples of."""
    return math.gcd(lie.strides[sides.rows[0]], _pair(sides, lie)[0])


def _program(sides: Sides, found: _Found, taps: Taps) -> ContractProgram:
    sizes = sides.found.sizes
    (rows,), (columns,) = sides.rows, sides.columns
    height, line = sizes[rows], sizes[columns]
    x, target = sides.lie(found.x), sides.target
    results = [*sides.lies(sides.finish), target]
    is_whole = all(lie.strides[rows] == lie.strides[columns] * line for lie in results)
    is_direct = sides.finish is sides.sum and target.strides[columns] == target.width == 4
    parts = min(max(-(-height * line // PART), 1), height // TOGETHER)
    weight = found.weight
    weights = sides.section((), [sides.lie(weight)], [0], [0]) if weight is not None else sides.section((), [], [], [])
    distances = _pair(sides, sides.lie(weight)) if weight is not None else (0, 0)
    sections: tuple[Section, ...] = (sides.section((), [x], [0], [0]), weights, sides.result())
    places = [HEADER + len(WORDS) + len(sides.batch)]
    for section in sections:
        places.append(places[-1] + len(section.words) + len(section.tensors))
    kernel = get_kernel(taps.name, functools.partial(make_taps, taps, F32))
    fixed = (
        height, line, parts, x.strides[rows], _pitch(sides, x), *((taps.rows, taps.columns) if weight else (0, 0)),
        *distances, kernel.address, int(is_direct), int(is_whole), target.strides[rows], *places[:3],
        len(sides.batch), *(sizes[k] for k in sides.batch),
    )  # fmt: skip
    size = 2 * math.prod(sizes) // FLOPS
    walk_ = get_kernel("taps", functools.partial(make_walk, SCRATCH))
    return ContractProgram(walk_, fixed, sections, sides.count(sides.batch) * parts, size)
