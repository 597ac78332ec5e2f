"""Non-maximum suppression: boxes picked by score, each of which drops those that it overlaps."""

from __future__ import annotations

from typing import Any

import numpy as np

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.function import Steps
from anydml.engines.cpu.gemm.tile_shapes import tile_for
from anydml.engines.cpu.launch.call import make_dispatch
from anydml.engines.cpu.launch.record import HEADER
from anydml.memory import numpy_address

# Boxes picked by their scores, one after the other: each drops those that it overlaps by more than a part.
#
# A unit is a row of scores. A pass over its places drops those that the box picked last overlaps, and finds the highest
# score of the others, of equal ones the first. Scores of what is dropped or picked become -inf.


WORDS = ("boxes", "scores", "picked", "counts", "places", "first", "most", "rows", "overlap")
"""After the header: addresses of boxes, of the scores, of places picked and of how many those are; the places of a row,
which fill vectors; a place whose box overlaps none; how many are picked at most; the rows for which boxes are the same;
and the part, as the bits of a float. Of boxes there are, place by place, the lowest x, the lowest y, the highest x, the
highest y and the area, each for all places."""
_LESS = "0x3FEFFFFE00000000"
"""A little less than 1, by 2^-20."""
_NONE = "0xFFF0000000000000"
"""-inf, as LLVM writes it."""


def make_suppress(lanes: int) -> str:
    """The text of the kernel, for vectors of so many lanes."""
    return _Text(lanes).write()


class _Text:
    def __init__(self, lanes: int) -> None:
        self.text, self.lanes = Steps(), lanes
        self.floats, self.places, self.bits = (f"<{lanes} x {kind}>" for kind in ("float", "i32", "i1"))
        self.none = f"splat (float {_NONE})"

    def write(self) -> str:
        text = self.text
        for i, name in enumerate(WORDS):
            text.read(name, f"words + {8 * (HEADER + i)}")
        text.room("state", 2)
        part = text.new(f"bitcast i32 {text.new('trunc i64 %overlap to i32')} to float")
        self.part = text.spread(part, "float", self.lanes)
        # A product says of most places that they overlap less, which a division takes four times as long for.
        self.less = text.new(f"fmul {self.floats} {self.part}, splat (float {_LESS})")
        with text.loop("unit", "begin", "end"):
            text.let("own", "boxes + unit // rows * places * 20")
            text.let("row", "scores + unit * places * 4")
            text.put("state", "first")
            text.put("state + 8", 0)
            self._pick_all()
            text.read("count", "state + 8")
            text.put("counts + unit * 8", "count")
        text.add("ret i64 0")
        return text.define("i64 @kernel(i64 %words, i64 %begin, i64 %end)")

    def _pick_all(self) -> None:
        text = self.text
        turn, found, done = (text.label(name) for name in ("turn", "found", "done"))
        text.add(f"br label %{turn}", f"{turn}:")
        text.read("last", "state")
        text.read("made", "state + 8")
        self.chosen = [
            text.spread(self._load("float", f"{_side(k)} + last * 4"), "float", self.lanes) for k in range(5)
        ]
        self._look()
        most = self._reduced("fmax", "float", f"v{self.lanes}f32", f"{self.floats} %best")
        text.add(f"%is.none = fcmp oeq float {most}, {_NONE}")
        text.add(f"br i1 %is.none, label %{done}, label %{found}", f"{found}:")
        is_most = text.new(f"fcmp oeq {self.floats} %best, {text.spread(most, 'float', self.lanes)}")
        where = text.new(f"select {self.bits} {is_most}, {self.places} %where, {self.places} splat (i32 {2**31 - 1})")
        place = self._reduced("umin", "i32", f"v{self.lanes}i32", f"{self.places} {where}")
        text.add(f"%place = zext i32 {place} to i64")
        text.put("picked + (unit * most + made) * 8", "place")
        text.add(f"store float {_NONE}, ptr {text.place('row + place * 4')}, align 4")
        text.put("state", "place")
        text.put("state + 8", "made + 1")
        more = text.new(f"icmp slt i64 {text.value('made + 1')}, %most")
        text.add(f"br i1 {more}, label %{turn}, label %{done}", f"{done}:")

    def _look(self) -> None:
        """At all places: those that the last box overlaps too much are dropped, of the others the best is kept."""
        text, floats, bits, places = self.text, self.floats, self.bits, self.places
        before, head, body, near, on, after = map(text.label, ("before", "head", "body", "near", "on", "after"))
        text.add(f"br label %{before}", f"{before}:", f"br label %{head}", f"{head}:")
        text.add(f"%i = phi i64 [ 0, %{before} ], [ %i.on, %{on} ]")
        text.add(f"%best = phi {floats} [ {self.none}, %{before} ], [ %best.on, %{on} ]")
        text.add(f"%where = phi {places} [ zeroinitializer, %{before} ], [ %where.on, %{on} ]")
        text.add("%is.more = icmp slt i64 %i, %places", f"br i1 %is.more, label %{body}, label %{after}", f"{body}:")
        score = self._load(floats, "row + i * 4")
        lows = [self._choice("ogt", self._load(floats, f"{_side(k)} + i * 4"), self.chosen[k]) for k in (0, 1)]
        highs = [self._choice("olt", self._load(floats, f"{_side(k)} + i * 4"), self.chosen[k]) for k in (2, 3)]
        sides = [text.new(f"fsub {floats} {high}, {low}") for low, high in zip(lows, highs, strict=True)]
        tests = [text.new(f"fcmp ogt {floats} {side}, zeroinitializer") for side in sides]
        area = self._load(floats, f"{_side(4)} + i * 4")
        both = text.new(f"fmul {floats} {sides[0]}, {sides[1]}")
        either = text.new(f"fsub {floats} {text.new(f'fadd {floats} {area}, {self.chosen[4]}')}, {both}")
        tests.append(text.new(f"fcmp ogt {floats} {both}, {text.new(f'fmul {floats} {either}, {self.less}')}"))
        are_near = self._all([*tests, text.new(f"fcmp ogt {floats} {score}, {self.none}")])
        is_near = self._reduced("or", "i1", f"v{self.lanes}i1", f"{bits} {are_near}")
        text.add(f"br i1 {is_near}, label %{near}, label %{on}", f"{near}:")
        left = self._drop(are_near, (both, either, area), score)
        text.add(f"br label %{on}", f"{on}:", f"%kept = phi {floats} [ {score}, %{body} ], [ {left}, %{near} ]")
        is_better = text.new(f"fcmp ogt {floats} %kept, %best")
        first = text.spread(text.new("trunc i64 %i to i32"), "i32", self.lanes)
        here = text.new(f"add {places} {first}, <{', '.join(f'i32 {k}' for k in range(self.lanes))}>")
        text.add(f"%best.on = select {bits} {is_better}, {floats} %kept, {floats} %best")
        text.add(f"%where.on = select {bits} {is_better}, {places} {here}, {places} %where")
        text.add(f"%i.on = add i64 %i, {self.lanes}", f"br label %{head}", f"{after}:")

    def _drop(self, near: str, areas: tuple[str, str, str], score: str) -> str:
        """The scores that are left, given the areas of both boxes, of either and of the one."""
        text, floats = self.text, self.floats
        both, either, _ = areas
        tests = [text.new(f"fcmp ogt {floats} {one}, zeroinitializer") for one in (*areas, self.chosen[4])]
        part = text.new(f"fdiv {floats} {both}, {either}")
        dropped = self._all([near, *tests, text.new(f"fcmp ogt {floats} {part}, {self.part}")])
        left = text.new(f"select {self.bits} {dropped}, {floats} {self.none}, {floats} {score}")
        text.add(f"store {floats} {left}, ptr {text.place('row + i * 4')}, align 4")
        return left

    def _load(self, kind: str, line: str) -> str:
        return self.text.new(f"load {kind}, ptr {self.text.place(line)}, align 4")

    def _choice(self, sign: str, one: str, other: str) -> str:
        test = self.text.new(f"fcmp {sign} {self.floats} {one}, {other}")
        return self.text.new(f"select {self.bits} {test}, {self.floats} {one}, {self.floats} {other}")

    def _all(self, tests: list[str]) -> str:
        found = tests[0]
        for test in tests[1:]:
            found = self.text.new(f"and {self.bits} {found}, {test}")
        return found

    def _reduced(self, name: str, kind: str, suffix: str, given: str) -> str:
        """The lanes of a vector as one."""
        vector = given.rpartition(" ")[0]
        self.text.declared[f"declare {kind} @llvm.vector.reduce.{name}.{suffix}({vector})"] = None
        flag = "nnan " if kind == "float" else ""
        return self.text.new(f"call {flag}{kind} @llvm.vector.reduce.{name}.{suffix}({given})")


def _side(k: int) -> str:
    """Where numbers of all boxes begin."""
    return f"own + {4 * k} * places"


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
    words = (*map(numpy_address, (boxes, left, picked, counts)), places, count, most, rows // sets)
    make_dispatch(kernel, (*words, int(np.float32(overlap).view(np.int32))), rows, most * left.nbytes)()
    return [row[:n] for row, n in zip(picked, counts.tolist(), strict=True)]
