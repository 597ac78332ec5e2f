"""Reduces: what happens to the rows along one kept dimension of several views, written in LLVM itself from a tree.

It is `kernel(words, places, count)`, called by the walk of `walk.py` for rows that follow one another. Its words hold,
after each view's address and its step from row to row, the numbers that the user chose; of what is fetched its step
from row to row, which the walk does not take, and its source's strides; then of each folded dimension its size and each
view's stride, outermost first. Targets are the last of the views; a coordinate is one whose address is the number.
Vectors lie along the innermost folded dimension, in `reduce_along.py`, or across the rows, in `reduce_across.py`.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from anydml.core.enums import DataType
from anydml.engines.cpu.codegen.expressions import kind_of, scalar_text, vector_type, write_tree
from anydml.engines.cpu.codegen.function import Function, literal, vector_of
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.features import has_nan_maximum
from anydml.engines.cpu.rows.row import givens, load_leaf, store_leaf, write_lanes, write_start
from anydml.ir.expressions import fold as make_fold
from anydml.ir.numerics.exponential import exp
from anydml.ir.row_passes import Pass, find_passes, neutral
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableSequence, Sequence

    from anydml.engines.cpu.codegen.function import Value
    from anydml.ir.expressions import Expr


# The parameters of a reduce, beside its trees.


class ReduceShape(NamedTuple):
    """The parameters of a reduce, beside its tree."""

    leaves: tuple[Expr, ...]
    """The loads, coordinates and fetches that are views, in the words' order."""
    starts: dict[Expr, Expr]
    """Loads of lines that begin, in each row, where a fetch says."""
    letters: str
    """One for each leaf, then for each target, along the vectors: p for packed, r for repeated, e for every other one,
    s for strided; of other fetches u for usually packed, a for anywhere."""
    varies: str
    """Whether each of them varies along the row: y or n."""
    rank: int
    """The folded dimensions."""
    lanes: int
    """The most, a power of two."""
    strip: int
    """Rows whose vectors lie across and that are done together; 0 where vectors lie along the row."""
    by_row: str
    """Whether each target has a value for each row: y or n."""
    early: str
    """Whether each target is written by the first pass that computes it: y or n."""
    keep: str
    """Where there is room for what would be computed again: on the `stack`, in the `target`, or nowhere."""
    long: bool
    """Whether rows are folded in blocks, or, where vectors lie across them, sums of FLOAT32 in float64."""
    far: bool
    """Whether the sources are more than caches hold that are near."""
    stream: bool
    """Whether the target is written past the cache."""
    masked: bool = False
    """Whether rows are fewer than a vector's lanes, which lies across them: the other lanes are neither read nor
    written."""
    window: tuple[int, ...] = ()
    """The sizes of a row's dimensions, where its elements are few and vectors lie across the rows."""

    @property
    def varying(self) -> set[Expr]:
        """The leaves that vary along the row."""
        return {leaf for leaf, letter in zip(self.leaves, self.varies, strict=False) if letter == "y"}

    def passes(self, values: Sequence[Expr]) -> list[Pass]:
        """The work on a row."""
        by_element = [value for value, letter in zip(values, self.by_row, strict=True) if letter == "n"]
        early = [value for value, letter in zip(values, self.early, strict=True) if letter == "y"]
        of = figures().reduce
        is_near = self.keep == "stack" and not self.strip
        dear = of.kept_operations_near if is_near else of.kept_operations if self.keep else 0
        return find_passes(values, by_element, self.varying, dear=dear, early=early)


# Folds of vectors in LLVM: what they start from, and how two become one.


def identity(fold: Expr) -> str:
    """The neutral element, in every lane."""
    return literal(vector_type(fold, 1), neutral(fold).value)


def combine(f: Function, fold: Expr, left: str, right: str, lanes: int, *, finds_nan: bool = True) -> Value:
    """Two vectors as one; of which the larger, or the smaller, need not be NaN where others find one."""
    kind = kind_of(fold.type)
    a, b = (f.value(one, vector_type(fold, lanes)) for one in (left, right))
    if fold.op in ("fold_sum", "fold_product"):
        return a + b if fold.op == "fold_sum" else a * b
    name = fold.op.removeprefix("fold_")
    if kind[0] != "f":
        return f.overloaded(f"{'s' if kind[0] == 'i' else 'u'}{name}", a, b)
    if has_nan_maximum():
        return f.overloaded(f"{name}imum", a, b)
    # An x86's instruction takes the second where one is NaN: a NaN among the first is put back. LLVM's takes care of
    # zeros besides, in five instructions.
    best = f.select(a > b if name == "max" else a < b, a, b)
    return f.select(f.compare("uno", a, a), a, best) if finds_nan else best


def finds_nan(fold: Expr, values: Sequence[Expr]) -> bool:
    """Whether it is for this fold to be NaN where an element is.

    Not for the maximum of a softmax: the sum of powers is NaN then, and so are all quotients. An x86 takes one
    instruction a vector in place of three, and a softmax of 128 x 1024 69 us in place of 77 (one thread, 16 lanes).
    """
    if fold.op != "fold_max" or fold.type is not DataType.FLOAT32:
        return True
    total = make_fold("sum", exp(fold.args[0] - fold).high)
    odd = {total}
    for node in walk(*values):
        if node.op in ("add", "sub", "mul", "div") and not odd.isdisjoint(node.args):
            odd.add(node)
    return fold in walk(*values, known=odd)


def combine_all(f: Function, fold: Expr, values: Sequence[Value], lanes: int, *, finds_nan: bool = True) -> Value:
    """Vectors as one, in a tree."""
    found = list(values)
    while len(found) > 1:
        halves = zip(found[::2], found[1::2], strict=False)
        pairs = [combine(f, fold, a, b, lanes, finds_nan=finds_nan) for a, b in halves]
        found = pairs + found[2 * len(pairs) :]
    return found[0]


def across(f: Function, fold: Expr, value: Value, *, finds_nan: bool = True) -> Value:
    """The lanes of a vector as one, in a vector of one lane."""
    while (half := value.lanes // 2) > 0:
        low, high = (f.shuffle(value, None, range(first, first + half)) for first in (0, half))
        value = combine(f, fold, low, high, half, finds_nan=finds_nan)
    return value


ROOM = 32 * 1024
"""Bytes on the stack for what is kept of rows."""


class Writer:
    """A kernel in the making."""

    mask: Value | None = None
    """Which lanes there are rows for, where not for all."""

    def __init__(self, values: Sequence[Expr], shape: ReduceShape) -> None:
        self.values, self.shape, self.f = values, shape, Function("kernel", "w:ptr places:ptr n")
        self.passes = shape.passes(values)
        self.first_target = len(shape.leaves)
        self.views = len(shape.leaves) + len(values)
        indices = (index for node in shape.starts.values() for index in node.args)
        self.given = {node: i for i, node in enumerate(givens(list(walk(*values, *indices))))}
        self.kinds = [scalar_text(kind_of(node.type)) for node in (*shape.leaves, *values)]
        self.widths = [width_of(node) for node in (*shape.leaves, *values)]
        targets = list(zip(range(self.first_target, self.views), values, shape.by_row, shape.early, strict=True))
        self.by_row = [(view, node) for view, node, by_row, _ in targets if by_row == "y"]
        """The views and values of targets with a value for each row."""
        self.by_element = [(view, node) for view, node, *how in targets if how == ["n", "n"]]
        """Those with one for each element, but for those that are written early."""
        self.early = {node: view for view, node, _, early in targets if early == "y"}
        self.spaces: dict[Expr, Value] = {}
        """Where on the stack the elements of a row lie that are kept."""
        self._enter()

    def _enter(self) -> None:
        """Read all words: places of views, steps, numbers, sizes and strides."""
        f, shape, views = self.f, self.shape, self.views
        words, places, self.count = f.args

        def word(index: int, kind: str = "i64") -> Value:
            return f.load(kind, words + 8 * index)

        self.places = [f.load("i64" if self.is_coordinate(v) else "ptr", places + 8 * v) for v in range(views)]
        self.row_steps = [word(views + v) for v in range(views)]
        self.numbers = {node: word(2 * views + i, scalar_text(kind_of(node.type))) for node, i in self.given.items()}
        first = 2 * views + len(self.given)
        self.source_strides: dict[Expr, list[Value]] = {}
        """Of what is fetched, in bytes."""
        for v, leaf in enumerate(shape.leaves):
            node = shape.starts.get(leaf, leaf)
            if node.op == "fetch":
                self.row_steps[v], *strides = (word(first + k) for k in range(1 + len(node.args)))
                self.source_strides[leaf], first = strides, first + 1 + len(strides)
        self.sizes, self.strides = [], []
        for k in range(shape.rank):
            at = first + k * (views + 1)
            self.sizes.append(word(at))
            self.strides.append([word(at + 1 + v) for v in range(views)])
        kept = [node for step in self.passes for node in step.keeps if node not in self.early]
        for node in kept if shape.keep == "stack" else []:
            self.spaces[node] = f.stack("i8", ROOM // len(kept))

    def is_coordinate(self, view: int) -> bool:
        """Whether a view is a coordinate, its address the number."""
        return view < self.first_target and self.shape.leaves[view].op == "coordinate"

    def varies(self, leaf: Expr) -> bool:
        """Whether a leaf is a view that varies along the row."""
        return leaf in self.shape.leaves and self.shape.varies[self.shape.leaves.index(leaf)] == "y"

    def packed(self, step: Pass) -> list[int]:
        """The views that a pass reads whole vectors of."""
        loads = [leaf for leaf in step.leaves if leaf.op == "load" and self.varies(leaf)]
        return [view for view in map(self.shape.leaves.index, loads) if self.shape.letters[view] == "p"]

    # Places

    def move_all(self, places: Sequence[Value], index: Value | int, steps: Sequence[Value]) -> list[Value]:
        """The places of all views, so many steps on."""
        return [place + index * step for place, step in zip(places, steps, strict=True)]

    def started(self, places: Sequence[Value]) -> list[Value]:
        """The places of all views, those of lines that are fetched where indices say that they begin."""
        early: dict[Expr, str] = {}
        """The values that indices are computed of, in vectors of one lane."""
        found = list(places)
        for line, node in self.shape.starts.items():
            for leaf in walk(*node.args, known=early):
                if leaf in self.shape.leaves:
                    view = self.shape.leaves.index(leaf)
                    early[leaf] = self.one(view, found[view])
                elif leaf in self.given:
                    early[leaf] = self.f.splat(self.numbers[leaf], 1)
            view = self.shape.leaves.index(line)
            found[view] = write_start(self.f, node.args, early, self.places[view], self.source_strides[line])
        return found

    @contextlib.contextmanager
    def nest(
        self, places: Sequence[Value], carry: MutableSequence[Value] | tuple[()] = ()
    ) -> Iterator[tuple[Sequence[Value], Value]]:
        """Every run of the innermost folded dimension: where it lies, and the number of its first element."""
        number = self.f.value(0, "i64")
        with contextlib.ExitStack() as loops:
            for size, strides in zip(self.sizes[:-1], self.strides[:-1], strict=True):
                i = loops.enter_context(self.f.rotated_loop(0, size, carry=carry))
                places = self.move_all(places, i, strides)
                number = number * size + i
            yield places, number * self.sizes[-1]

    # Vectors

    def one(self, view: int, place: Value) -> Value:
        """An element, in a vector of one lane."""
        if self.is_coordinate(view):
            return self.f.splat(place, 1)
        return self.f.load(vector_of(1, self.kinds[view]), place, align=1)

    def read(self, view: int, place: Value, index: Value, step: Value, lanes: int) -> Value:
        """The vector of a view at an index along the vectors."""
        letter, f = self.shape.letters[view], self.f
        if self.is_coordinate(view):
            each = f.splat(place + index * step, lanes)
            if letter == "r" or lanes == 1:
                return each
            return each + f.splat(step, lanes) * f.vector("i64", range(lanes))
        at = place if letter == "r" else self._along(view, place, index, step)
        return load_leaf(f, letter, self.kinds[view], at, step, lanes, self.mask)

    def write(
        self, view: int, value: Value, place: Value, index: Value, step: Value, *, is_streamed: bool = False
    ) -> None:
        """A target's vector at an index along the vectors."""
        at = self._along(view, place, index, step)
        store_leaf(self.f, self.shape.letters[view], value, at, step, mask=self.mask, is_streamed=is_streamed)

    def _along(self, view: int, place: Value, index: Value, step: Value) -> Value:
        """The place at an index along the vectors."""
        return place + index * (self.widths[view] if self.shape.letters[view] == "p" else step)

    def tree(self, roots: Sequence[Expr], found: dict[Expr, str], lanes: int) -> list[Value]:
        """The vectors of some roots, given those of what they stop at."""

        def fetch(node: Expr, args: Sequence[str]) -> Value:
            view = self.shape.leaves.index(node)
            strides = [self.f.splat(stride, lanes) for stride in self.source_strides[node]]
            is_run = self.shape.letters[view] == "u"
            return write_lanes(self.f, node, args, self.places[view], strides, is_run=is_run)

        for root in roots:
            if root not in found:
                self.f.hide_table()
                write_tree(self.f, list(walk(root, known=found)), found, lanes, fetch)
        return [self.f.value(found[root], vector_type(root, lanes)) for root in roots]

    def part(self, value: Value, number: int, of: int) -> Value:
        """One of the vectors that a wider one is made of."""
        lanes = value.lanes // of
        return value if of == 1 else self.f.shuffle(value, None, range(number * lanes, (number + 1) * lanes))


def width_of(node: Expr) -> int:
    """The bytes of a node's type."""
    return 1 if node.type is None else node.type.size_in_bytes


def lanes_of(step: Pass, most: int) -> int:
    """The lanes of a pass: as many as fill vectors of its widest type."""
    nodes = walk(*step.roots, known=step.stops)
    return min(most, figures().rows.vector_bytes // max(map(width_of, (*nodes, *step.stops))))


def size_of(step: Pass) -> int:
    """The operations of a pass."""
    return sum(1 for _ in walk(*step.roots, known=step.stops)) + len(step.folds)
