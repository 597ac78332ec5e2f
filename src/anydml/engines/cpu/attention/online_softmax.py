"""The online softmax of attention: scores of a chunk of keys become powers, and running maxima and sums go on, for a
vector of queries at once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from anydml.core.enums import DataType
from anydml.engines.cpu.codegen.expressions import kind_of, scalar_text, write_tree
from anydml.engines.cpu.codegen.function import Function, Value, vector_of
from anydml.engines.cpu.features import has_nan_maximum
from anydml.engines.cpu.rows.row import givens, load_leaf
from anydml.ir.expressions import fold, load
from anydml.ir.numerics.exponential import exp
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.ir.expressions import Expr


SUM = load(0, DataType.FLOAT32)
"""Of products: what scores are computed from."""
UNROLLED = 4
"""Keys at once, each with a result of its own."""
CHEAP = 2
"""Operations of a score that is computed twice rather than written."""


class Softening(NamedTuple):
    """The parameters of the text, beside its tree."""

    leaves: tuple[Expr, ...]
    """Views, without the sums."""
    letters: str
    """How each lies across the queries: p, r or s, as rows of a map do."""
    lanes: int
    pitch: int


class Soften:
    """The text of the kernel for a tree of operations."""

    def __init__(self, score: Expr, shape: Softening) -> None:
        self.score, self.shape, self.f = score, shape, Function("kernel", "words places scores count state")
        self.vector = vector_of(shape.lanes, "float")
        self.known: dict[Expr, str] = {}
        """Vectors that are the same for all keys."""
        is_cheap = not shape.leaves and sum(bool(node.args) for node in walk(score)) <= CHEAP
        self.is_written = not is_cheap

    def write(self) -> str:
        """All of it: the largest score, then the powers."""
        f, pitch = self.f, 4 * self.shape.pitch
        words, places, self.scores, self.count, state = f.args
        self._enter(words, places)
        old, sums = f.load(self.vector, state), f.load(self.vector, state + pitch)
        lowest = f.value(-math.inf, self.vector)
        top = self._loop([old, *[lowest] * (UNROLLED - 1)], self._top, self._larger)
        self.base = f.select(top.eq(lowest), f.zero(self.vector), top)
        (less,) = self._power(old)
        total = self._loop([f.zero(self.vector)] * UNROLLED, self._powers, Value.__add__)
        f.store(sums * less + total, state + pitch)
        f.store(top, state)
        f.store(less, state + 2 * pitch)
        return f.end()

    def _enter(self, words: Value, places: Value) -> None:
        f, shape = self.f, self.shape
        views, numbers = len(shape.leaves), givens(list(walk(self.score)))
        self.places, self.steps, self.across, self.on = [], [], [], dict[int, Value]()
        for v, leaf in enumerate(shape.leaves):
            self.places.append(f.load("i64", places + 8 * v))
            self.steps.append(f.load("i64", words + 8 * (views + v)))
            self.across.append(f.load("i64", words + 8 * (2 * views + len(numbers) + v)))
            if leaf.op == "coordinate" and shape.letters[v] != "r":
                self.on[v] = f.splat(self.across[v], shape.lanes) * f.vector("i64", range(shape.lanes))
        for n, node in enumerate(numbers):
            number = f.load(scalar_text(kind_of(node.type)), words + 8 * (2 * views + n), align=8)
            self.known[node] = f.splat(number, shape.lanes)

    # A key's vectors

    def _place(self, key: Value) -> Value:
        return self.scores + key * (4 * self.shape.pitch)

    def _leaf(self, v: int, leaf: Expr, key: Value) -> str:
        f, lanes, at = self.f, self.shape.lanes, self.places[v] + key * self.steps[v]
        if leaf.op == "coordinate":
            each = f.splat(at, lanes)
            return each + self.on[v] if v in self.on else each
        scalar = scalar_text(kind_of(leaf.type))
        return load_leaf(f, self.shape.letters[v], scalar, f.pointer(at), self.across[v], lanes)

    def _score(self, key: Value) -> Value:
        found = {**self.known, SUM: self.f.load(self.vector, self._place(key))}
        found |= {leaf: self._leaf(v, leaf, key) for v, leaf in enumerate(self.shape.leaves)}
        nodes = list(walk(self.score, known=found))
        value = write_tree(self.f, nodes, found, self.shape.lanes) if nodes else found[self.score]
        return self.f.value(value, self.vector)

    def _power(self, *each: Value) -> list[Value]:
        """e^(x - the base), of several vectors at once: operations of one would wait for one another."""
        f, lanes, top = self.f, self.shape.lanes, fold("max", SUM)
        found: dict[Expr, str] = {}
        for node, several in ((SUM, each), (top, [self.base] * len(each))):
            parts = list(several)
            while len(parts) > 1:
                pairs = zip(parts[::2], parts[1::2], strict=True)
                parts = [f.shuffle(a, b, range(2 * a.lanes)) for a, b in pairs]
            found[node] = parts[0]
        whole = lanes * len(each)
        nodes = list(walk(exp(SUM - top).high, known=found))
        power = f.value(write_tree(f, nodes, found, whole), vector_of(whole, "float"))
        return (
            [power] if len(each) == 1 else [f.shuffle(power, None, range(k, k + lanes)) for k in range(0, whole, lanes)]
        )

    # What is done with them

    def _top(self, keys: list[Value], largest: list[Value]) -> list[Value]:
        each = [self._score(key) for key in keys]
        if self.is_written:
            for key, x in zip(keys, each, strict=True):
                self.f.store(x, self._place(key))
        return list(map(self._larger, largest, each))

    def _larger(self, a: Value, b: Value) -> Value:
        return self.f.overloaded("maximum", a, b) if has_nan_maximum() else self.f.select(a < b, b, a)

    def _powers(self, keys: list[Value], totals: list[Value]) -> list[Value]:
        powers = self._power(
            *(self.f.load(self.vector, self._place(key)) if self.is_written else self._score(key) for key in keys)
        )
        for key, power in zip(keys, powers, strict=True):
            self.f.store(power, self._place(key))
        return [total + power for total, power in zip(totals, powers, strict=True)]

    def _loop(
        self,
        first: list[Value],
        body: Callable[[list[Value], list[Value]], list[Value]],
        join: Callable[[Value, Value], Value],
    ) -> Value:
        """Go through all keys, several at once, and then one by one; what they come to, made one."""
        f, found = self.f, list(first)
        whole = self.count - self.count % UNROLLED
        with f.loop(0, whole, UNROLLED, carry=found) as key:
            found[:] = body([key + k for k in range(UNROLLED)], found)
        last = found[:1]
        with f.loop(whole, self.count, carry=last) as key:
            last[:] = body([key], last)
        results = [*last, *found[1:]]
        while len(results) > 1:
            results = [join(*pair) for pair in zip(results[::2], results[1::2], strict=True)]
        return results[0]
