"""Random graphs of what goes along rows: folds, products and maps around them, behind changes of shape.

Inputs are small whole numbers, so that most sums are exact in whatever order they are added up, and two ways to compute
a graph must agree in every bit. What is not exact has a bound for how much it may differ, from its types and counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from doors import as_list
from drawing import in_a_line

if TYPE_CHECKING:
    from random import Random

    from anydml.graph.description import GraphDesc

    Array = np.ndarray[Any, Any]

SIZES = (1, 1, 2, 3, 4, 5, 8, 17, 33)
LARGEST = 5000
STEP = {"float32": 2.0**-23, "float16": 2.0**-10}
"""From 1 to the next number."""
WHOLE = {"float32": 2**23, "float16": 2**10}
"""Up to here whole numbers are exact."""


@dataclass(frozen=True)
class Value:
    """An expression with what is known of its numbers."""

    expression: Any
    most: float
    """No element is further from 0."""
    error: float = 0.0
    """How much two ways to compute it may differ."""
    is_whole: bool = True

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(self.expression.sizes)

    @property
    def dtype(self) -> str:
        return str(self.expression.data_type.dtype.name)

    @property
    def count(self) -> int:
        return math.prod(self.sizes)


class Drawn:
    """A graph in the making: each `add_…` gives another value of one, or None where it cannot."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.graph = dml.Graph("reference")
        self.arrays: list[Array] = []
        self.indices: dict[int, int] = {}
        """The inputs that a gather would raise for, with the size that an index is to be below."""
        self.values: list[Value] = []

    # What nodes read

    def numbers(self, sizes: tuple[int, ...], dtype: str = "float32", low: int = -3, high: int = 3) -> Any:
        """Whole numbers, an input or a constant."""
        rng = np.random.default_rng(self.random.getrandbits(32))
        return self.given(np.asarray(rng.integers(low, high, sizes, endpoint=True)).astype(dtype))

    def given(self, array: Array, size: int = 0) -> Any:
        if self.random.random() < 0.3:
            return self.graph.constant(array)
        if size:
            self.indices[len(self.arrays)] = size
        self.arrays.append(array)
        return self.graph.input(dml.TensorDesc.of(array))

    def some_sizes(self, rank: int) -> tuple[int, ...]:
        while True:
            sizes = tuple(self.random.choice(SIZES) for _ in range(rank))
            if math.prod(sizes) <= LARGEST:
                return sizes

    def some_axes(self, rank: int) -> list[int]:
        return sorted(self.random.sample(range(rank), self.random.randint(1, rank)))

    # What is known of results

    def result(self, expression: Any, most: float, error: float = 0.0, *, is_whole: bool = False) -> Value:
        """One whose numbers are rounded, unless they are whole and small enough to be exact."""
        dtype = str(expression.data_type.dtype.name)
        if dtype in STEP and not (is_whole and most <= WHOLE[dtype] and not error):
            return Value(expression, most, error + 4 * STEP[dtype] * most, is_whole=False)
        return Value(expression, most, error)

    def moved(self, x: Value, expression: Any) -> Value:
        return Value(expression, x.most, x.error, x.is_whole)

    # Moving

    def add_slice(self, x: Value) -> Value | None:
        offsets = [self.random.randrange(size) if self.random.random() < 0.3 else 0 for size in x.sizes]
        windows = [
            self.random.randint(1, size - offset) if self.random.random() < 0.3 else size - offset
            for size, offset in zip(x.sizes, offsets, strict=True)
        ]
        strides = [self.random.choice((1, 1, 1, -1, 2, -2)) for _ in x.sizes]
        return self.moved(x, dml.slice1(x.expression, offsets, windows, strides))

    def add_view(self, x: Value) -> Value | None:
        """Another shape, dimensions in another order, a repetition or a diagonal of packed memory."""
        if x.expression.is_reinterpreted:
            return None
        kind = self.random.choice(("shape", "shape", "order", "order", "repeat", "diagonal"))
        sizes, strides = list(x.sizes), _packed(x.sizes)
        if kind == "shape":
            shape = self._shape(x.count)
            return self.moved(x, x.expression.reinterpret(shape))
        if kind == "order":
            order = self.random.sample(range(len(sizes)), len(sizes))
            sizes, strides = [sizes[k] for k in order], [strides[k] for k in order]
        elif kind == "repeat":
            times, place = self.random.randint(1, 3), self.random.randint(0, len(sizes))
            sizes.insert(place, times)
            strides.insert(place, 0)
        elif len(sizes) > 1 and sizes[-1] == sizes[-2]:
            sizes[-2:], strides[-2:] = sizes[-1:], [strides[-1] + strides[-2]]
        if len(sizes) > 4 or math.prod(sizes) > LARGEST:
            return None
        return self.moved(x, x.expression.reinterpret(sizes, strides))

    def _shape(self, count: int) -> list[int]:
        shape: list[int] = []
        while count > 1 and len(shape) < 3:
            factor = self.random.choice([n for n in range(1, count + 1) if count % n == 0][:8])
            shape.append(factor)
            count //= factor
        shape.append(count)
        self.random.shuffle(shape)
        return shape

    def add_gather(self, x: Value) -> Value | None:
        axis = self.random.randrange(len(x.sizes))
        mode: Any = self.random.choice(("raise", "clamp"))
        count = self.random.randint(1, x.sizes[axis] + 2)
        if x.count // x.sizes[axis] * count > LARGEST:
            return None
        rng = np.random.default_rng(self.random.getrandbits(32))
        indices = rng.integers(0, x.sizes[axis], count)
        if self.random.random() < 0.5:
            indices = in_a_line(rng, count, 0, x.sizes[axis])
        indices = indices.astype("int32")
        given = self.given(indices, x.sizes[axis] if mode == "raise" else 0)
        return self.moved(x, dml.gather(x.expression, given, axis, index_mode=mode))

    def add_join(self, x: Value) -> Value | None:
        axis = self.random.randrange(len(x.sizes))

        def kind(other: Value) -> tuple[Any, ...]:
            return other.dtype, len(other.sizes), other.sizes[:axis], other.sizes[axis + 1 :]

        fitting = [other for other in self.values if kind(other) == kind(x)]
        chosen = [x, self.random.choice(fitting)]
        if sum(one.count for one in chosen) > LARGEST:
            return None
        made = dml.join([one.expression for one in chosen], axis)
        most, error = (max(getattr(one, name) for one in chosen) for name in ("most", "error"))
        found = Value(made, most, error, all(one.is_whole for one in chosen))
        if self.random.random() < 0.5:
            return found
        self.values.append(found)
        return self.add_join(found)  # which is read where it is a part of another

    def add_split(self, x: Value) -> Value | None:
        axis = self.random.randrange(len(x.sizes))
        if x.sizes[axis] < 2:
            return None
        first = self.random.randint(1, x.sizes[axis] - 1)
        parts = [self.moved(x, one) for one in dml.split(x.expression, [first, x.sizes[axis] - first], axis)]
        self.values += parts[:1]
        return parts[1]

    # Element by element

    def other(self, x: Value) -> Value:
        """What can be put together with a value: one there is, or a new one that repeats along some dimensions."""
        fitting = [one for one in self.values if one.dtype == x.dtype and _fits(one.sizes, x.sizes)]
        if fitting and self.random.random() < 0.6:
            return self.random.choice(fitting)
        sizes = tuple(size if self.random.random() < 0.6 else 1 for size in x.sizes)
        if self.random.random() < 0.1:
            return Value(dml.fill_value_constant(sizes, 2, x.dtype, graph=self.graph), 2.0)
        return Value(self.numbers(sizes[self.random.randrange(len(sizes)) :], x.dtype), 3.0)

    def add_two(self, x: Value) -> Value | None:
        y = self.other(x)
        function = self.random.choice((dml.add, dml.add, dml.subtract, dml.multiply, dml.max, dml.min))
        made = function(*self.random.sample((x.expression, y.expression), 2))
        if function is dml.multiply:
            return self.result(
                made, x.most * y.most, x.most * y.error + y.most * x.error, is_whole=x.is_whole and y.is_whole
            )
        if function in (dml.max, dml.min):
            return Value(made, max(x.most, y.most), max(x.error, y.error), x.is_whole and y.is_whole)
        return self.result(made, x.most + y.most, x.error + y.error, is_whole=x.is_whole and y.is_whole)

    def add_one(self, x: Value) -> Value | None:
        functions: tuple[Any, ...] = (dml.relu, dml.abs, dml.negate, dml.clip, dml.sigmoid, dml.tanh, dml.gelu)
        function = self.random.choice(functions)
        if function is dml.clip:
            return Value(dml.clip(x.expression, -3.0, 3.0), min(x.most, 3.0), x.error, x.is_whole)
        made = function(x.expression)
        if function in (dml.sigmoid, dml.tanh, dml.gelu):
            return self.result(made, max(x.most, 1.0), 1.2 * x.error)
        return self.moved(x, made)

    def add_cast(self, x: Value) -> Value | None:
        if x.error or not x.is_whole:
            return self.result(dml.cast(x.expression, self.random.choice(tuple(STEP))), x.most, x.error)
        if x.most <= 100:
            kind = self.random.choice(("int8", "int32", "int64", "float16"))
            made = dml.cast(dml.cast(x.expression, kind), self.random.choice(("float32", "float32", "float16")))
            return Value(made, x.most)
        return None

    def add_quantised(self, x: Value) -> Value | None:
        """What has no error: its bits are the same in any order, and so are a quantised number's."""
        if x.error or x.dtype != "float32":
            return None
        made, scale, zero = dml.dynamic_quantize_linear(x.expression)
        return self.result(dml.dequantize_linear(made, scale, zero), 2 * x.most + 1)

    # Along rows

    def add_reduce(self, x: Value) -> Value | None:
        axes = self.some_axes(len(x.sizes))
        n = math.prod(x.sizes[k] for k in axes)
        functions = ["sum", "sum", "max", "max", "min", "average", "l1", "l2", "sum_square", "log_sum_exp", "multiply"]
        function: Any = self.random.choice(functions + ["argmax", "argmin"] * (not x.error))
        if function == "multiply" and n * math.log(max(x.most, 1)) > 9:
            return None
        made = dml.reduce(x.expression, function, axes)
        if function in ("max", "min"):
            return self.moved(x, made)
        if function.startswith("arg"):
            return Value(dml.cast(made, "float32"), n)
        if function == "sum_square":
            return self.result(made, n * x.most**2, 2 * n * x.most * x.error, is_whole=x.is_whole)
        if function == "multiply":
            return self.result(made, x.most**n, n * x.most**n * x.error, is_whole=x.is_whole)
        if function in ("sum", "l1"):
            rounding = 0 if x.is_whole else n * STEP[x.dtype] * x.most
            return self.result(made, n * x.most, n * x.error + n * rounding, is_whole=x.is_whole)
        if function == "l2":
            if x.error:  # whose root near 0 differs by more
                return None
            return self.result(made, n * x.most)
        return self.result(made, x.most + math.log(n), x.error + n * STEP["float32"] * x.most)

    def add_softmax(self, x: Value) -> Value | None:
        axes = self.some_axes(len(x.sizes))
        function = self.random.choice((dml.softmax1, dml.softmax1, dml.log_softmax1, dml.hardmax1))
        if function is dml.hardmax1:
            return Value(dml.hardmax1(x.expression, axes), 1.0) if not x.error else None
        made = function(x.expression, axes)
        error = 2 * x.error + math.prod(x.sizes[k] for k in axes) * STEP["float32"]  # sums are of FLOAT32
        if function is dml.softmax1:
            return self.result(made, 1.0, error)
        return self.result(made, 2 * x.most + math.log(x.count), error)

    def add_norm(self, x: Value) -> Value | None:
        """With an Epsilon that keeps what they magnify below 4."""
        if x.dtype != "float32":
            return None
        kind = self.random.choice(("mvn1", "mvn2", "lp", "batch"))
        axes, error = self.some_axes(len(x.sizes)), 8 * x.error
        extra = {}
        if self.random.random() < 0.5:
            sizes = tuple(size if self.random.random() < 0.5 else 1 for size in x.sizes)
            extra = {"scale": self.numbers(sizes), "bias": self.numbers(sizes)}
        most = 4 * 3 * x.most + 3
        if kind == "mvn1":
            made = dml.mean_variance_normalization1(x.expression, axes, epsilon=0.25, **extra)
            return self.result(made, most, 3 * error)
        if kind == "mvn2":
            flags: dict[str, Any] = {name: self.random.random() < 0.7 for name in ("use_mean", "use_variance")}
            made = dml.mean_variance_normalization2(x.expression, axes, epsilon=0.25, **flags, **extra)
            return self.result(made, most, 3 * error)
        if kind == "lp":
            axis, p = self.random.randrange(len(x.sizes)), self.random.randint(1, 2)
            made = dml.lp_normalization(x.expression, axis, 0.25, p)
            return self.result(made, 4 * x.most, x.sizes[axis] * error)
        sizes = tuple(1 if k in axes else size for k, size in enumerate(x.sizes))
        several = dml.batch_normalization_training(x.expression, self.numbers(sizes), self.numbers(sizes), epsilon=0.25)
        normal, mean, variance = as_list(several)
        self.values.append(self.result(mean, x.most, x.error))
        self.values.append(self.result(variance, x.most**2, 4 * x.most * x.error))
        return self.result(normal, most, 3 * error)

    def add_few(self, x: Value) -> Value | None:
        """A product of a few rows, which computes the other factor as it reads it."""
        rank = len(x.sizes)
        if rank < 2 or x.expression.is_reinterpreted:
            return None
        few = [*x.sizes[:-2], min(x.sizes[-2], 4), x.sizes[-1]]
        return self.add_product(self.moved(x, dml.slice1(x.expression, [0] * rank, few, [1] * rank)), is_scaled=True)

    def add_product(self, x: Value, *, is_scaled: bool = False) -> Value | None:
        """With new numbers or with what there is, a bias or none."""
        if not 2 <= len(x.sizes) <= 4 or x.dtype not in STEP:
            return None
        *batch, m, k = x.sizes
        turned = [self.random.random() < 0.3 for _ in range(2)]
        if turned[0]:
            m, k = k, m
        n = self.random.choice(SIZES)
        sizes = (*batch, n, k) if turned[1] else (*batch, k, n)
        fitting = [one for one in self.values if one.dtype == x.dtype and one.sizes == sizes]
        if is_scaled:
            y = Value(dml.multiply(self.numbers(sizes, x.dtype), self.numbers((1,), x.dtype)), 9.0)
        elif fitting and self.random.random() < 0.5:
            y = self.random.choice(fitting)
        elif self.random.random() < 0.4 and x.dtype == "float32":
            scale = self.given(np.full((1,) * len(sizes), 0.5, "float32"))
            zero = self.numbers((1,) * len(sizes), "int8")
            y = Value(dml.dequantize_linear(self.numbers(sizes, "int8"), scale, zero), 3.0)
        else:
            y = Value(self.numbers(sizes, x.dtype), 3.0)
        count = math.prod(batch) * m
        if count * n > LARGEST or math.prod(sizes) > LARGEST:
            return None
        options: dict[str, Any] = {}
        if self.random.random() < 0.3:
            options["c"] = self.numbers((*batch, m, n), x.dtype)
        if self.random.random() < 0.2:
            options["fused_activation"] = "relu"
        a, b = (one.expression for one in (x, y))
        made = dml.gemm(a, b, trans_a=turned[0], trans_b=turned[1], **options)
        is_whole = x.is_whole and y.is_whole
        rounding = 0.0 if is_whole else k * STEP[x.dtype] * x.most * y.most
        error = k * (x.most * y.error + y.most * x.error + rounding)
        found = self.result(made, k * x.most * y.most + 3, error, is_whole=is_whole)
        if 4 * found.most > WHOLE["float32"] and is_whole:  # halves are exact up to a fourth of what whole numbers are
            found = Value(made, found.most, found.error + k * STEP["float32"] * found.most, is_whole=False)
        return found


def _packed(sizes: tuple[int, ...]) -> list[int]:
    return [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]


def _fits(own: tuple[int, ...], sizes: tuple[int, ...]) -> bool:
    return len(own) <= len(sizes) and all(a in (1, b) for a, b in zip(reversed(own), reversed(sizes), strict=False))


KINDS = ("slice", "view", "view", "gather", "join", "split", "two", "two", "two", "two", "one", "one", "cast",
         "quantised", "reduce", "reduce", "reduce", "softmax", "softmax", "norm", "norm",
         "product", "product", "few", "few")  # fmt: skip


@dataclass(frozen=True)
class Graph:
    """A graph with what it is given, and how much each output may differ."""

    desc: GraphDesc
    arrays: list[Array]
    indices: dict[int, int]
    errors: list[float]


def draw(random: Random, most_nodes: int = 12) -> Graph:
    """A graph of some nodes, and some of their results as outputs."""
    drawn = Drawn(random)
    for _ in range(random.randint(1, 2)):
        sizes = drawn.some_sizes(random.randint(1, 4))
        drawn.values.append(Value(drawn.numbers(sizes), 3.0))
    inputs = len(drawn.values)
    wanted = random.randint(2, most_nodes)
    while len(drawn.values) < inputs + wanted:
        x = drawn.values[-1] if random.random() < 0.7 else random.choice(drawn.values)
        kind = random.choice(KINDS)
        if x.most > 100 and kind != "slice":  # so that sums stay exact
            x = Value(dml.clip(x.expression, -3.0, 3.0), 3.0, x.error, x.is_whole)
        made = getattr(drawn, f"add_{kind}")(x)
        if made is not None and math.isfinite(made.most):
            drawn.values.append(made)
    chosen = [drawn.values[-1]]
    chosen += random.sample(drawn.values[inputs:], min(random.choice((0, 0, 1, 2)), len(drawn.values) - inputs))
    chosen = [
        Value(dml.identity(one.expression), one.most, one.error) if one.expression.is_reinterpreted else one
        for one in chosen
    ]
    desc = drawn.graph.desc([one.expression for one in chosen])
    return Graph(desc, drawn.arrays, drawn.indices, [one.error for one in chosen])
