"""Random contractions: sums of products of whole numbers, exact in every order, with all that may stand around them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import anydml as dml
from anydml.ir.expressions import const, coordinate, fold, given, load, maximum
from anydml.ir.verbs import Reduce
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.ir.expressions import Expr

Array = np.ndarray[Any, Any]
FLOAT32, INT32 = dml.DataType.FLOAT32, dml.DataType.INT32
SIDES = (1, 1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 23, 31, 64, 97)


class Drawn(NamedTuple):
    """A contraction and its memory."""

    primitive: Reduce
    arrays: dict[str, Array]
    """By tensor, gaps and all."""

    @property
    def target(self) -> Array:
        """What is written, with the memory around it."""
        return self.arrays["target"]


class Drawing:
    """One contraction in the making: every dimension of the walk has a letter of its own."""

    def __init__(self, rng: np.random.Generator, sizes: dict[str, int], kind: dml.DataType) -> None:
        self.rng, self.sizes, self.kind = rng, sizes, kind
        self.sources: list[View] = []
        self.arrays: dict[str, Array] = {}

    def place(self, name: str, letters: str, dtype: str) -> View:
        """Memory in which a tensor's dimensions lie in any order, some backwards or with gaps."""
        rng = self.rng
        order = list(rng.permutation(len(letters))) if rng.random() < 0.7 else list(range(len(letters)))
        steps = [int(rng.choice([1, 1, 1, 1, 2, -1])) for _ in letters]
        shape = [self.sizes[letters[k]] * abs(steps[k]) for k in order]
        wide = {"uint8": (0, 256), "int8": (-128, 128)} if self.kind is INT32 else {"uint8": (0, 9)}
        low, high = wide.get(dtype, (-8, 9))
        memory = rng.integers(low, high, shape).astype(dtype)
        self.arrays[name] = memory
        part = memory[tuple(slice(None, None, steps[k]) for k in order)].transpose(np.argsort(order))
        strides = dict(zip(letters, (s // memory.itemsize for s in part.strides), strict=True))
        offset = (part.__array_interface__["data"][0] - memory.__array_interface__["data"][0]) // memory.itemsize
        sizes = tuple(size if name != "target" or x in letters else 1 for x, size in self.sizes.items())
        steps_of = tuple(strides.get(x, 0) if size > 1 else 0 for x, size in self.sizes.items())
        return View(name, dml.DataType(dtype), sizes, steps_of, int(offset))

    def load(self, letters: str, dtype: str) -> Expr:
        """An element of a new source that varies along some dimensions."""
        self.sources.append(self.place(f"source{len(self.sources)}", letters, dtype))
        return load(len(self.sources) - 1, dml.DataType(dtype))

    def factor(self, letters: str, side: str) -> Expr:
        """A tensor's elements, converted, or less a zero point and times a scale for each row or column."""
        rng = self.rng
        if self.kind is INT32:
            x = self.load(letters, str(rng.choice(["int8", "uint8", "int8", "uint8", "int32"]))).to(INT32)
            return x - self.load(side, "uint8").to(INT32) if rng.random() < 0.5 else x
        way = rng.random()
        if way < 0.5:
            return self.load(letters, "float32")
        if way < 0.75:
            return self.load(letters, "float16").to(FLOAT32)
        x = self.load(letters, "int8").to(FLOAT32) - self.load(side, "float32")
        return x * self.load("k" if rng.random() < 0.3 else side, "float32") if way < 0.9 else x * given(0.5, FLOAT32)

    def finish(self, value: Expr, kept: str) -> Expr:
        """Something around the sum."""
        rng, kind = self.rng, value.type
        assert kind is not None
        way = int(rng.integers(0, 6))
        if way == 1:
            value = maximum(value + self.load(kept[-1], kind.dtype.name), const(0, kind))
        elif way == 2:
            value = value * given(2, kind) + self.load(kept, kind.dtype.name) * given(3, kind)
        elif way == 3:
            value = value + coordinate(0).to(kind) * self.load(kept[0], kind.dtype.name)
        elif way == 4:
            value = value.to(dml.DataType.FLOAT16)
        return value


def draw(rng: np.random.Generator, integer: bool | None = None) -> Drawn:
    """A contraction of any shape, layout and kind."""
    sides = [str(rng.choice(["", "b", "bc"])), "mp" if rng.random() < 0.2 else "m", "nq" if rng.random() < 0.2 else "n"]
    kept = "".join(sides)
    kept = "".join(rng.permutation(list(kept))) if rng.random() < 0.4 else kept
    sizes = {x: int(rng.choice((1, 2, 3) if x in "bcpq" else SIDES)) for x in kept}
    sizes["k"] = int(rng.choice([*SIDES, 127, 129, 300, 700]))
    if integer is None:
        integer = bool(rng.random() < 0.3)
    kind = INT32 if integer else FLOAT32
    made = Drawing(rng, sizes, kind)
    batch, rows, columns = sides
    some = "".join(x for x in batch if rng.random() < 0.7)
    left = made.factor(f"{batch}{rows}k", rows)
    right = made.factor(f"{some}{columns}k", columns)
    value = made.finish(fold("sum", left * right), kept)
    assert value.type is not None
    target = made.place("target", kept, value.type.dtype.name)
    return Drawn(Reduce(tuple(made.sources), target, value, 1), made.arrays)


def product(left: Array, right: Array, target: Array) -> Reduce:
    """target = left · right: arrays of two dimensions, any strides."""

    def view(name: str, array: Array, order: Sequence[int | None]) -> View:
        strides = [0 if k is None else array.strides[k] // array.itemsize for k in order]
        own = (*sizes[:2], 1) if name == "target" else sizes
        return View(name, dml.DataType(array.dtype), own, tuple(strides))

    sizes = (left.shape[0], right.shape[1], left.shape[1])
    assert math.prod(sizes)
    views = view("left", left, (0, None, 1)), view("right", right, (None, 1, 0))
    factors = [load(k, v.data_type).to(FLOAT32) for k, v in enumerate(views)]
    value = fold("sum", factors[0] * factors[1]).to(dml.DataType(target.dtype))
    return Reduce(views, view("target", target, (0, 1, None)), value, 1)
