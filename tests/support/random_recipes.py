"""Random recipes: copies, gathers, scans, joins and fills one after another, with a value for every input."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from anydml.core.enums import NUMPY_TYPES, DataType
from anydml.graph.recipe import Recipe, Step, Store
from anydml.ir.expressions import coordinate, given, load, maximum, where
from anydml.ir.fetches import gathered, reversal
from anydml.ir.patterns import copy_of, filled, scaled
from anydml.ir.verbs import Map, Scan
from anydml.ir.views import View
from drawing import SEEDS, Array, draw_sizes, in_a_line, nested, packed, pick, random_values, upto
from recipes import F32

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.graph.recipe import StoreKind
    from anydml.ir.verbs import Primitive


TYPES = (F32, DataType.FLOAT16, DataType.INT32, DataType.UINT64, DataType.UINT8)
INDEX_TYPES = (DataType.UINT32, DataType.INT64)
MOST_JOINED = 4000
FEW = int(os.environ.get("ANYDML_TEST_EXAMPLES", "0"))
RANDOM = settings(
    deadline=None,
    derandomize=False,
    print_blob=True,
    max_examples=FEW or (80 if os.environ.get("CI") else 40),
)


@dataclass
class Random:
    """A recipe in the making, with contents for what it reads."""

    draw: st.DrawFn
    stores: dict[str, Store] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    contents: dict[str, Array] = field(default_factory=dict)
    tensors: list[View] = field(default_factory=list)
    """What can be read."""
    blurred: set[str] = field(default_factory=set)
    """Stores whose NaNs may be of any bits, as a scan leaves them."""

    def add(self, kind: StoreKind, data_type: DataType, extent: int) -> str:
        name = f"{kind}{len(self.stores)}"
        self.stores[name] = Store(kind, extent * data_type.size_in_bytes)
        return name

    def bring(self, data_type: DataType, sizes: tuple[int, ...], values: Array | None = None) -> View:
        """An input or a constant, packed."""
        count = math.prod(sizes)
        name = self.add(pick(self.draw, ("input", "input", "constant")), data_type, count)
        style = pick(self.draw, ("small", "normal"))
        self.contents[name] = random_values(data_type, count, style, self.draw(SEEDS)) if values is None else values
        if self.stores[name].kind == "constant":
            self.stores[name] = replace(self.stores[name], data=self.contents[name].tobytes())
        self.tensors.append(View(name, data_type, sizes, _meant(sizes, packed(sizes))))
        return self.tensors[-1]

    def target(self, data_type: DataType, sizes: tuple[int, ...], *, kind: StoreKind | None = None) -> View:
        """Lay a result out: packed, or in any order with gaps."""
        strides = nested(self.draw, sizes) if pick(self.draw, (0, 0, 1)) else packed(sizes)
        extent = 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
        kinds: tuple[StoreKind, ...] = (kind,) if kind else ("scratch", "scratch", "output")
        name = self.add(pick(self.draw, kinds), data_type, extent)
        return View(name, data_type, sizes, _meant(sizes, strides))

    def does(self, primitive: Primitive, *, blurs: bool = False) -> View:
        self.steps.append(Step(primitive, (f"node{len(self.steps)}",)))
        target = primitive.target
        if blurs or any(source.tensor in self.blurred for source in self.steps[-1].sources):
            self.blurred.add(target.tensor)
        # A gather of one element leaves no dimensions, which no operator after it describes.
        self.tensors.append(target if target.sizes else replace(target, sizes=(1,), strides=(0,)))
        return target

    def choose(self) -> View:
        """What to read: a result, an input, or one described in another way; the latest first."""
        found = pick(self.draw, (self.tensors[-1], self.tensors[-1], *self.tensors[::-1]))
        change = pick(self.draw, ("none", "none", "shape", "type"))
        if change == "type" and found.tensor not in self.blurred:
            alike = [t for t in NUMPY_TYPES if t.size_in_bytes == found.data_type.size_in_bytes and t in TYPES]
            found = View(found.tensor, pick(self.draw, alike or [found.data_type]), found.sizes, found.strides)
        if change == "shape" and found.strides == _meant(found.sizes, packed(found.sizes)):
            count = math.prod(found.sizes)
            first = pick(self.draw, [n for n in range(1, count + 1) if count % n == 0])
            sizes = (first, count // first)
            found = View(found.tensor, found.data_type, sizes, _meant(sizes, packed(sizes)))
        return found

    def window(self, source: View) -> View:
        """Some of it, any dimension backwards, dimensions in any order."""
        start, steps, sizes = [], [], []
        for size in source.sizes:
            kept, step = size, pick(self.draw, (1, -1, 2, -3))
            if abs(step) > 1 or pick(self.draw, (0, 1)):
                kept = 1 + self.draw(upto((size - 1) // abs(step)))
            reach = (kept - 1) * abs(step)
            low = pick(self.draw, (0, size - 1 - reach)) if kept < size else 0
            start.append(low if step > 0 else low + reach)
            steps.append(step)
            sizes.append(kept)
        found = source.window(start, steps, sizes)
        if pick(self.draw, (0, 0, 1)):
            found = View(found.tensor, found.data_type, found.sizes[::-1], found.strides[::-1], found.offset)
        return found

    def copy(self, source: View, *, kind: StoreKind | None = None) -> View:
        part = self.window(source)
        return self.does(copy_of(part, self.target(part.data_type, part.sizes, kind=kind)))

    def scan(self, source: View) -> View:
        if source.data_type in (DataType.UINT8, DataType.INT8):
            return self.copy(source)
        axis = pick(self.draw, range(len(source.sizes)))
        target = self.target(source.data_type, source.sizes)
        functions: tuple[Literal["sum", "product"], ...] = ("sum", "product")
        flags = self.draw(upto(3))
        primitive = Scan(
            (source,), target, axis, pick(self.draw, functions), reverse=flags % 2 == 1, exclusive=flags > 1
        )
        return self.does(primitive, blurs=source.data_type.is_float)

    def turned(self, source: View) -> View:
        """A scan between two reversals."""
        return self.reversal(self.scan(self.reversal(source)))

    def reversal(self, source: View) -> View:
        last = [size - 1 for size in source.sizes]
        part = source.window(last, [-1] * len(last), source.sizes)
        return self.does(copy_of(part, self.target(part.data_type, part.sizes)))

    def gather(self, source: View) -> View:
        rank = len(source.sizes)
        batch = min(pick(self.draw, (0, 0, 1)), rank - 1)
        depth = 1 + self.draw(upto(rank - batch - 1))
        tuples = draw_sizes(self.draw, rank_of_tuples, 6) if (rank_of_tuples := pick(self.draw, (1, 2, 0))) else ()
        data_type, least = pick(self.draw, INDEX_TYPES), min(source.sizes[batch : batch + depth])
        sizes = (*source.sizes[:batch], *tuples, depth)
        clamp = pick(self.draw, (False, True))
        indices = self.indices(data_type, sizes, 9 if clamp else least)
        target = self.target(source.data_type, (*sizes[:-1], *source.sizes[batch + depth :]))
        return self.does(gathered(source, indices, target, batch, clamp=clamp))

    def indices(self, data_type: DataType, sizes: tuple[int, ...], below: int) -> View:
        """Indices of a tensor of their own, or of a slice of a larger one."""
        factor, sign = pick(self.draw, ((1, 1), (1, -1), (2, 1), (2, -1)))
        large = tuple(factor * size for size in sizes)
        rng = np.random.default_rng(self.draw(SEEDS))
        low = -below if data_type.is_signed else 0
        values = rng.integers(low, below, math.prod(large))
        if pick(self.draw, (0, 1)):
            values = in_a_line(rng, math.prod(large), low, below)
        brought = self.bring(data_type, large, values.astype(data_type.dtype))
        if (factor, sign) == (1, 1):
            return brought
        start = [size - 1 if sign < 0 else 0 for size in large]
        part = brought.window(start, [sign * factor] * len(sizes), sizes)
        return self.does(copy_of(part, self.target(data_type, sizes, kind="scratch")))

    def map(self, source: View) -> View:
        """Conversions of numbers, or a scale."""
        if pick(self.draw, (0, 1)):
            target = self.target(pick(self.draw, TYPES), source.sizes)
            return self.does(scaled(source, target), blurs=target.data_type.is_float)
        scale, bias = pick(self.draw, ((1.0, 0.0), (-0.5, 1.0), (3.0, -0.0)))
        return self.does(scaled(source, self.target(source.data_type, source.sizes), scale, bias), blurs=True)

    def compute(self, source: View) -> View:
        """An expression of one to three tensors, one of them repeated along a dimension at times."""
        alike = [of for of in self.tensors if (of.data_type, of.sizes) == (source.data_type, source.sizes)]
        sources = [source, pick(self.draw, alike or [source]), pick(self.draw, alike or [source])]
        if pick(self.draw, (0, 0, 1)):
            sources[1] = sources[1].window([0] * len(source.sizes), [0] * len(source.sizes), source.sizes)
        x, y, z = (load(i, source.data_type) for i in range(3))
        if source.data_type is DataType.FLOAT16:
            x, y, z = (one.to(F32) for one in (x, y, z))
        n = given(3, x.type or F32)
        place = coordinate(len(source.sizes) - 1).to(x.type or F32)
        value = pick(self.draw, (x + y, x * y - z, maximum(x, n), where(x < y, z, n), x * x, -x, place + x))
        target = self.target(pick(self.draw, (source.data_type, source.data_type, F32)), source.sizes)
        return self.does(Map(tuple(sources), target, value.to(target.data_type)), blurs=True)

    def fill(self, like: View) -> View:
        """Of the sizes of something."""
        target = self.target(like.data_type, like.sizes)
        numbers = (0.0, -0.0, 1.5, 0.25) if like.data_type.is_float else (0, 7, 255, 1)
        return self.does(filled(target, pick(self.draw, numbers), pick(self.draw, (*numbers[:1], *numbers))))

    def reverse(self, source: View) -> View:
        axis = pick(self.draw, range(len(source.sizes)))
        sizes = tuple(1 if k == axis else size for k, size in enumerate(source.sizes))
        lengths = self.indices(DataType.UINT32, sizes, source.sizes[axis] + 2)
        return self.does(reversal(source, lengths, self.target(source.data_type, source.sizes), axis))

    def join(self, source: View) -> View:
        """Several windows of a tensor, or what fits otherwise, side by side in one store."""
        axis, count = pick(self.draw, range(len(source.sizes))), 2 + self.draw(upto(2))

        def kind(of: View) -> tuple[object, ...]:
            return (of.data_type, len(of.sizes), of.sizes[:axis], of.sizes[axis + 1 :])

        fitting = [of for of in self.tensors if kind(of) == kind(source)]
        parts = [source, *(pick(self.draw, fitting or [source]) for _ in range(count - 1))]
        sizes = [*source.sizes]
        sizes[axis] = sum(part.sizes[axis] for part in parts)
        if math.prod(sizes) > MOST_JOINED:
            return self.copy(source)
        whole, start = self.target(source.data_type, tuple(sizes)), [0] * len(sizes)
        for part in parts:
            target = whole.window(start, [1] * len(sizes), part.sizes)
            self.does(copy_of(part, target))
            start[axis] += part.sizes[axis]
            del self.tensors[-1]
        self.tensors.append(whole)
        return whole

    def joins(self, source: View) -> View:
        """A join that is joined again, or copied whole, and read in between at times."""
        whole = self.join(source)
        if pick(self.draw, (0, 1)):
            self.scan(whole)
        return pick(self.draw, (self.join, self.reversal))(whole)

    def split(self, source: View) -> View:
        """Parts of a tensor along an axis, each in a store of its own."""
        axis = max(range(len(source.sizes)), key=source.sizes.__getitem__)
        cut = self.draw(upto(source.sizes[axis] - 1))
        for start, end in ((0, cut), (cut, source.sizes[axis])):
            if start < end:
                sizes = [end - start if k == axis else size for k, size in enumerate(source.sizes)]
                at = [start if k == axis else 0 for k in range(len(sizes))]
                part = source.window(at, [1] * len(sizes), sizes)
                made = self.does(copy_of(part, self.target(part.data_type, part.sizes)))
        return made

    def others(self) -> tuple[Callable[[View], View], ...]:
        """What later operators are made of."""
        return (
            self.map,
            self.compute,
            self.compute,
            self.fill,
            self.reverse,
            self.join,
            self.joins,
            self.joins,
            self.split,
        )

    def again(self) -> View:
        """A step that was there before, into another store."""
        step = pick(self.draw, self.steps)
        target = self.target(step.target.data_type, step.target.sizes)
        return self.does(step.writing(target).primitive, blurs=step.target.tensor in self.blurred)


def _meant(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    return tuple(stride if size > 1 else 0 for size, stride in zip(sizes, strides, strict=True))


class Drawn(NamedTuple):
    """A random recipe, what its inputs and constants hold, and the stores whose NaNs may be of any bits."""

    recipe: Recipe
    contents: dict[str, Array]
    blurred: set[str]


@st.composite
def random_recipes(draw: st.DrawFn) -> Drawn:
    """1 to 12 steps, a few of which may bring one or two copies along; the last result is copied out."""
    made = Random(draw)
    for _ in range(1 + draw(upto(1))):
        *sizes, last = draw_sizes(draw, 1 + draw(upto(2)), 64)
        made.bring(pick(draw, TYPES), (*sizes, last * pick(draw, (1, 1, 1, 17))))  # 16 columns are done at once
    count = draw(upto(11))
    while len(made.steps) < count:
        act = pick(draw, (made.copy, made.scan, made.copy, made.gather, made.turned, None, *made.others()))
        if act:
            act(made.choose())
        elif made.steps:
            made.again()
    made.copy(made.tensors[-1], kind="output")
    return Drawn(Recipe(made.stores, tuple(made.steps)), made.contents, made.blurred)
