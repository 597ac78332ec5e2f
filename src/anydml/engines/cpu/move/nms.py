"""Non-maximum suppression: boxes picked by score, each of which drops those that it overlaps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.memory import numpy_address
from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.function import Function, vector_of
from anydml.engines.cpu.gemm.blocking import tile_for
from anydml.engines.cpu.launch.call import make_dispatch
from anydml.engines.cpu.launch.record import Layout

if TYPE_CHECKING:
    from anydml.engines.cpu.codegen.function import Value

# Boxes picked by their scores, one after the other: each drops those that it overlaps by more than a part.
#
# A unit is a row of scores. A pass over its places drops those that the box picked last overlaps, and finds the highest
# score of the others, of equal ones the first. Scores of what is dropped or picked become -inf.


BOXES = Layout("boxes", "scores", "picked", "counts", "places", "first", "most", "rows", "overlap")
"""Addresses of boxes, of the scores, of places picked and of how many those are; the places of a row,
which fill vectors; a place whose box overlaps none; how many are picked at most; the rows for which boxes are the same;
and the part, as the bits of a float. Of boxes there are, place by place, the lowest x, the lowest y, the highest x, the
highest y and the area, each for all places."""
_LESS = 1 - 2.0**-20
"""A little less than 1."""


def make_suppress(lanes: int) -> str:
    """The text of the kernel, for vectors of so many lanes."""
    return _Suppression(lanes).write()


class _Suppression:
    own: Value
    """Where the boxes of a row of scores lie."""
    row: Value

    def __init__(self, lanes: int) -> None:
        self.f, self.lanes = Function("kernel", "words begin end", "i64"), lanes
        self.floats, self.ints = vector_of(lanes, "float"), vector_of(lanes, "i32")
        self.none = self.f.value(-math.inf, self.floats)

    def write(self) -> str:
        f = self.f
        words, begin, end = f.args
        w = BOXES.loaded(f, words)
        self.places: Value = w.places
        self.part = f.splat(f.bitcast(f.cast("trunc", w.overlap, "i32"), "float"), self.lanes)
        # A product says of most places that they overlap less, which a division takes four times as long for.
        self.less = self.part * _LESS
        with f.loop(begin, end) as unit:
            self.own, self.row = w.boxes + unit // w.rows * w.places * 20, w.scores + unit * w.places * 4
            last, made = [w.first], [f.value(0, "i64")]
            with f.forever(carry=(last, made)):
                best, where = self._look(last[0])
                top = self._largest(best)
                f.leave_if(top.eq(-math.inf))
                number = f.select(best.eq(f.splat(top, self.lanes)), where, 2**31 - 1)
                place = f.cast("zext", f.reduce("umin", number), "i64")
                f.store(place, w.picked + (unit * w.most + made[0]) * 8)
                f.store(f.value(-math.inf, "float"), self.row + place * 4)
                last[0], made[0] = place, made[0] + 1
                f.leave_if(made[0] >= w.most)
            f.store(made[0], w.counts + unit * 8)
        return f.end(0)

    def _look(self, last: Value) -> tuple[Value, Value]:
        """At all places: those that the last box overlaps too much are dropped, of the others the best is kept."""
        f = self.f
        chosen = [f.splat(f.load("float", self._side(k) + last * 4), self.lanes) for k in range(5)]
        found = [self.none, f.zero(self.ints)]
        with f.loop(0, self.places, self.lanes, carry=found) as i:
            at = self.row + i * 4
            score = [f.load(self.floats, at)]
            lows, highs, (area,) = (
                [f.load(self.floats, self._side(k) + i * 4) for k in several] for several in ((0, 1), (2, 3), (4,))
            )
            sides = [
                f.select(high < chosen[2 + k], high, chosen[2 + k]) - f.select(low > chosen[k], low, chosen[k])
                for k, (low, high) in enumerate(zip(lows, highs, strict=True))
            ]
            both = sides[0] * sides[1]
            either = area + chosen[4] - both
            near = (sides[0] > 0) & (sides[1] > 0) & (both > either * self.less) & (score[0] > self.none)
            with f.when(f.reduce("or", near), carry=score):
                sizes = (both > 0) & (either > 0) & (area > 0) & (chosen[4] > 0)
                is_dropped = near & sizes & (both / either > self.part)
                score[0] = f.select(is_dropped, self.none, score[0])
                f.store(score[0], at)
            here = f.splat(f.cast("trunc", i, "i32"), self.lanes) + f.vector("i32", range(self.lanes))
            is_better = score[0] > found[0]
            found[:] = f.select(is_better, score[0], found[0]), f.select(is_better, here, found[1])
        return found[0], found[1]

    def _largest(self, vector: Value) -> Value:
        """The largest lane, none of which is NaN."""
        name = f"@llvm.vector.reduce.fmax.v{self.lanes}f32"
        self.f.declared[f"declare float {name}({vector.type})"] = None
        return self.f.made("float", f"call nnan float {name}({vector.typed})")

    def _side(self, k: int) -> Value:
        """Where numbers of all boxes begin."""
        return self.own + self.places * (4 * k)


# Boxes picked by their scores, as networks of detection end: a kernel for each row of scores.


Array = np.ndarray[Any, Any]


def suppress(sides: Array, scores: Array, most: int, overlap: np.float32) -> list[Array]:
    """The places of each row of scores that are picked, in their order.

    `sides` are, for each set of boxes, the lowest x and y, the highest x and y and the areas of all places; the rows of
    `scores` are as many for each set. A place whose score is -inf is never picked.
    """
    sets, _, count = sides.shape
    rows = len(scores)
    most = min(most, count)
    lanes = tile_for("f32", 1).lanes
    places = (count // lanes + 1) * lanes  # one more at least, whose box overlaps none
    boxes = np.empty((sets, 5, places), np.float32)
    boxes[:, :2], boxes[:, 2:4], boxes[:, 4] = np.inf, -np.inf, 0
    boxes[:, :, :count] = sides
    left = np.full((rows, places), -np.inf, np.float32)
    left[:, :count] = scores
    picked, counts = np.empty((rows, most), np.int64), np.empty(rows, np.int64)
    kernel = get_kernel(f"suppress {lanes}", lambda: make_suppress(lanes))
    record = BOXES.write({
        "boxes": numpy_address(boxes), "scores": numpy_address(left), "picked": numpy_address(picked),
        "counts": numpy_address(counts), "places": places, "first": count, "most": most, "rows": rows // sets,
        "overlap": int(np.float32(overlap).view(np.int32)),
    })  # fmt: skip
    make_dispatch(kernel, record.words, rows, most * left.nbytes)()
    return [row[:n] for row, n in zip(picked, counts.tolist(), strict=True)]
