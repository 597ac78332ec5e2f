"""The online softmax of attention: scores of a chunk of keys become powers, and running maxima and sums go on, for a
vector of queries at once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.codegen.expressions import kind_of, number_text, scalar_text, write_tree
from anydml.engines.cpu.codegen.function import Steps
from anydml.engines.cpu.features import IS_ARM
from anydml.engines.cpu.rows.row import givens, load_leaf
from anydml.enums import DataType
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


def make_soften(score: Expr, shape: Softening) -> str:
    """The text of the kernel for a tree of operations."""
    return _Soften(score, shape).write()


class _Soften:
    def __init__(self, score: Expr, shape: Softening) -> None:
        self.score, self.shape, self.text = score, shape, Steps()
        self.vector = f"<{shape.lanes} x float>"
        self.known: dict[Expr, str] = {}
        """Vectors that are the same for all keys."""
        is_cheap = not shape.leaves and sum(bool(node.args) for node in walk(score)) <= CHEAP
        self.is_written = not is_cheap

    def write(self) -> str:
        text, pitch = self.text, 4 * self.shape.pitch
        text.block = "start"
        text.add("br label %start", "start:")
        self._enter()
        old, sums = self._load(text.place("state")), self._load(text.place(f"state + {pitch}"))
        lowest = f"splat (float {number_text(-math.inf, 'f32')})"
        top = self._loop([old] * UNROLLED, [lowest] * UNROLLED, self._top)
        is_none = text.new(f"fcmp oeq {self.vector} {top}, {lowest}")
        base = text.new(
            f"select <{self.shape.lanes} x i1> {is_none}, {self.vector} zeroinitializer, {self.vector} {top}"
        )
        self.base = base
        (less,) = self._power(old)
        zero = ["zeroinitializer"] * UNROLLED
        total = self._loop(zero, zero, self._powers)
        kept = text.new(f"fmul {self.vector} {sums}, {less}")
        self._store(text.new(f"fadd {self.vector} {kept}, {total}"), f"state + {pitch}")
        self._store(top, "state")
        self._store(less, f"state + {2 * pitch}")
        text.add("ret void")
        head = ", ".join(f"i64 %{name}" for name in ("words", "places", "scores", "count", "state"))
        return text.define(f"void @kernel({head})")

    def _enter(self) -> None:
        text, shape = self.text, self.shape
        views, numbers = len(shape.leaves), givens(list(walk(self.score)))
        for v, leaf in enumerate(shape.leaves):
            text.read(f"place{v}", f"places + {8 * v}")
            text.read(f"step{v}", f"words + {8 * (views + v)}")
            text.read(f"across{v}", f"words + {8 * (2 * views + len(numbers) + v)}")
            if leaf.op == "coordinate" and shape.letters[v] != "r":
                each = text.spread(f"%across{v}", "i64", shape.lanes)
                lanes = ", ".join(f"i64 {lane}" for lane in range(shape.lanes))
                text.add(f"%on{v} = mul <{shape.lanes} x i64> {each}, <{lanes}>")
        for n, node in enumerate(numbers):
            scalar = scalar_text(kind_of(node.type))
            one = text.new(f"load {scalar}, ptr {text.place(f'words + {8 * (2 * views + n)}')}")
            self.known[node] = text.spread(one, scalar, shape.lanes)

    # A key's vectors

    def _load(self, place: str) -> str:
        return self.text.new(f"load {self.vector}, ptr {place}, align 4")

    def _store(self, value: str, line: str) -> None:
        self.text.add(f"store {self.vector} {value}, ptr {self.text.place(line)}, align 4")

    def _place(self, key: str) -> str:
        return f"scores + {key} * {4 * self.shape.pitch}"

    def _leaf(self, v: int, leaf: Expr, key: str) -> str:
        text, lanes, letter = self.text, self.shape.lanes, self.shape.letters[v]
        at = text.value(f"place{v} + {key} * step{v}")
        if leaf.op == "coordinate":
            each = text.spread(at, "i64", lanes)
            return each if letter == "r" else text.new(f"add <{lanes} x i64> {each}, %on{v}")
        scalar = scalar_text(kind_of(leaf.type))
        place = text.new(f"inttoptr i64 {at} to ptr")
        return load_leaf(text, letter, scalar, place, f"%across{v}", lanes)

    def _score(self, key: str) -> str:
        found = {**self.known, SUM: self._load(self.text.place(self._place(key)))}
        found |= {leaf: self._leaf(v, leaf, key) for v, leaf in enumerate(self.shape.leaves)}
        nodes = list(walk(self.score, known=found))
        return write_tree(self.text, nodes, found, self.shape.lanes) if nodes else found[self.score]

    def _power(self, *each: str) -> list[str]:
        """e^(x - the base), of several vectors at once: operations of one would wait for one another."""
        text, lanes = self.text, self.shape.lanes
        top, whole, found = fold("max", SUM), lanes * len(each), {}
        for node, parts in ((SUM, list(each)), (top, [self.base] * len(each))):
            width = lanes
            while len(parts) > 1:
                order = ", ".join(f"i32 {k}" for k in range(2 * width))
                kind = f"<{width} x float>"
                parts = [
                    text.new(f"shufflevector {kind} {a}, {kind} {b}, <{2 * width} x i32> <{order}>")
                    for a, b in zip(parts[::2], parts[1::2], strict=True)
                ]
                width *= 2
            found[node] = parts[0]
        power = write_tree(text, list(walk(exp(SUM - top).high, known=found)), found, whole)
        if len(each) == 1:
            return [power]
        kind = f"<{whole} x float>"
        orders = [", ".join(f"i32 {lanes * k + lane}" for lane in range(lanes)) for k in range(len(each))]
        return [text.new(f"shufflevector {kind} {power}, {kind} poison, <{lanes} x i32> <{order}>") for order in orders]

    # What is done with them

    def _top(self, keys: list[str], largest: list[str]) -> list[str]:
        each = [self._score(key) for key in keys]
        if self.is_written:
            for key, x in zip(keys, each, strict=True):
                self._store(x, self._place(key))
        return list(map(self._larger, largest, each))

    def _larger(self, a: str, b: str) -> str:
        if IS_ARM:
            return self.text.call("maximum", self.vector, [a, b])
        test = self.text.new(f"fcmp olt {self.vector} {a}, {b}")
        return self.text.new(f"select <{self.shape.lanes} x i1> {test}, {self.vector} {b}, {self.vector} {a}")

    def _powers(self, keys: list[str], totals: list[str]) -> list[str]:
        read = (lambda key: self._load(self.text.place(self._place(key)))) if self.is_written else self._score
        powers = self._power(*map(read, keys))
        for key, power in zip(keys, powers, strict=True):
            self._store(power, self._place(key))
        return list(map(self._added, totals, powers))

    def _added(self, a: str, b: str) -> str:
        return self.text.new(f"fadd {self.vector} {a}, {b}")

    def _loop(self, first: list[str], more: list[str], body: Callable[[list[str], list[str]], list[str]]) -> str:
        """Go through all keys, several at once, and then one by one; what they come to, made one."""
        text = self.text
        whole = text.value(f"count - count % {UNROLLED}")
        found = self._turns("0", whole, UNROLLED, [first[0], *more[1:]], body)
        (last,) = self._turns(whole, "%count", 1, found[:1], body)
        join = self._larger if body == self._top else self._added
        results = [last, *found[1:]]
        while len(results) > 1:
            results = [join(*pair) for pair in zip(results[::2], results[1::2], strict=True)]
        return results[0]

    def _turns(
        self, start: str, stop: str, by: int, first: list[str], body: Callable[[list[str], list[str]], list[str]]
    ) -> list[str]:
        text, before = self.text, self.text.block
        head, on, latch, done = (text.label(name) for name in ("head", "on", "latch", "out"))
        number = head.rpartition(".")[2]
        key, last, carried = f"%key{number}", f"%next{number}", [f"%c{number}_{k}" for k in range(len(first))]
        text.add(f"br label %{head}", f"{head}:")
        text.add(f"{key} = phi i64 [ {start}, %{before} ], [ {last}, %{latch} ]")
        phis = len(text.lines)
        text.add(*carried)  # whose lines say what a turn comes to
        test = text.new(f"icmp slt i64 {key}, {stop}")
        text.add(f"br i1 {test}, label %{on}, label %{done}")
        text.open(on)
        text.add(*(f"%at{number}_{k} = add i64 {key}, {k}" for k in range(by)))
        made = body([f"at{number}_{k}" for k in range(by)], carried)
        for k, (value, new) in enumerate(zip(first, made, strict=True)):
            text.lines[phis + k] = f"{carried[k]} = phi {self.vector} [ {value}, %{before} ], [ {new}, %{latch} ]"
        text.add(f"br label %{latch}", f"{latch}:", f"{last} = add i64 {key}, {by}", f"br label %{head}")
        text.open(done)
        return carried
