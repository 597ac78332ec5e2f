"""Reduces: what happens to the rows along one kept dimension of several views, written in LLVM itself from a tree.

It is `kernel(words, places, count)`, called by the walk of `walk.py` for rows that follow one another. Its words hold,
after each view's address and its step from row to row, the numbers that the user chose; of what is fetched its step
from row to row, which the walk does not take, and its source's strides; then of each folded dimension its size and each
view's stride, outermost first. Targets are the last of the views; a coordinate is one whose address is the number.
Vectors lie along the innermost folded dimension, in `reduce_along.py`, or across the rows, in `reduce_across.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.codegen.expressions import kind_of, number_text, scalar_text, write_tree
from anydml.engines.cpu.codegen.function import Function
from anydml.engines.cpu.features import IS_ARM
from anydml.engines.cpu.rows.row import givens, load_leaf, store_leaf, write_lanes, write_start
from anydml.enums import DataType
from anydml.ir.expressions import fold as make_fold
from anydml.ir.numerics.exponential import exp
from anydml.ir.row_passes import Pass, find_passes, neutral
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.engines.cpu.codegen.function import Text
    from anydml.ir.expressions import Expr

DEAR = 12
"""Operations from which on a row's elements are kept for the next pass, and not computed again."""
CHEAP = 2
"""Those where vectors lie along the row, and the nearest cache has room: a layer norm of 128 x 1024 takes 105 us so,
and 114 computed again (one thread of an Arm Neoverse-N1)."""


# The parameters of a reduce, beside its trees.


class Shape(NamedTuple):
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
        dear = CHEAP if self.keep == "stack" and not self.strip else DEAR if self.keep else 0
        return find_passes(values, by_element, self.varying, dear=dear, early=early)


# Folds of vectors in LLVM: what they start from, and how two become one.


def vector_of(node: Expr, lanes: int) -> str:
    """The type of a node's vectors."""
    return f"<{lanes} x {scalar_text(kind_of(node.type))}>"


def identity(fold: Expr) -> str:
    """The neutral element, in every lane."""
    kind = kind_of(fold.type)
    return f"splat ({scalar_text(kind)} {number_text(neutral(fold).value, kind)})"


def combine(text: Text, fold: Expr, a: str, b: str, lanes: int, *, finds_nan: bool = True) -> str:
    """Two vectors as one; of which the larger, or the smaller, need not be NaN where others find one."""
    kind, vector = kind_of(fold.type), vector_of(fold, lanes)
    if fold.op in ("fold_sum", "fold_product"):
        name = "add" if fold.op == "fold_sum" else "mul"
        return text.new(f"{'f' if kind[0] == 'f' else ''}{name} {vector} {a}, {b}")
    name = fold.op.removeprefix("fold_")
    if kind[0] != "f":
        return text.call(f"{'s' if kind[0] == 'i' else 'u'}{name}", vector, [a, b])
    if IS_ARM:
        return text.call(f"{name}imum", vector, [a, b])
    # An x86's instruction takes the second where one is NaN: a NaN among the first is put back. LLVM's takes care of
    # zeros besides, in five instructions.
    test = text.new(f"fcmp {'ogt' if name == 'max' else 'olt'} {vector} {a}, {b}")
    best = text.new(f"select <{lanes} x i1> {test}, {vector} {a}, {vector} {b}")
    if not finds_nan:
        return best
    is_nan = text.new(f"fcmp uno {vector} {a}, {a}")
    return text.new(f"select <{lanes} x i1> {is_nan}, {vector} {a}, {vector} {best}")


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


def combine_all(text: Text, fold: Expr, values: Sequence[str], lanes: int, *, finds_nan: bool = True) -> str:
    """Vectors as one, in a tree."""
    found = list(values)
    while len(found) > 1:
        halves = zip(found[::2], found[1::2], strict=False)
        pairs = [combine(text, fold, a, b, lanes, finds_nan=finds_nan) for a, b in halves]
        found = pairs + found[2 * len(pairs) :]
    return found[0]


def across(text: Text, fold: Expr, value: str, lanes: int, *, finds_nan: bool = True) -> str:
    """The lanes of a vector as one, in a vector of one lane."""
    while lanes > 1:
        kind, half = vector_of(fold, lanes), lanes // 2
        parts = [
            text.new(
                f"shufflevector {kind} {value}, {kind} poison, "
                f"<{half} x i32> <{', '.join(f'i32 {k}' for k in range(first, first + half))}>"
            )
            for first in (0, half)
        ]
        value, lanes = combine(text, fold, parts[0], parts[1], half, finds_nan=finds_nan), half
    return value


VECTOR = 64
"""Bytes of a vector of the widest type in a pass."""
ROOM = 32 * 1024
"""Bytes on the stack for what is kept of rows."""
SMALL = 6
"""Operations up to which several vectors are folded side by side: what is more keeps the CPU busy by itself."""
TOGETHER = 4
"""Vectors whose values are computed as one where that takes many operations, and a vector is a register: instructions
of several take turns then, and wait less for each other. A softmax of 128 x 1024 takes 54 us so, and 62 one by one; 57
by 2 (one thread of a Xeon with AVX-512)."""


class Writer:
    """A kernel in the making."""

    mask = ""
    """Which lanes there are rows for, where not for all."""

    def __init__(self, values: Sequence[Expr], shape: Shape) -> None:
        self.values, self.shape, self.text = values, shape, Function()
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
        self.spaces: dict[Expr, str] = {}
        """Where on the stack the elements of a row lie that are kept."""

    def finish(self) -> str:
        """All of the text."""
        text = self.text
        text.add("ret void")
        head = ["define void @kernel(ptr %w, ptr %places, i64 %n) {", "entry:"]
        numbers = text.numbers
        head.append('%numbers = call ptr asm "", "=r,0"(ptr @numbers)' if numbers else "%numbers = alloca ptr")
        return "\n".join([*numbers, *head, *text.lines, "}", *text.declared, "!0 = !{i32 1}"])

    # Words

    def word(self, name: str, index: int, base: str = "%w", kind: str = "i64") -> str:
        """Read a word, under a name."""
        place = self.text.new(f"getelementptr i64, ptr {base}, i64 {index}")
        self.text.add(f"%{name} = load {kind}, ptr {place}")
        return f"%{name}"

    def enter(self) -> None:
        """Read all words: places of views, steps, numbers, sizes and strides."""
        shape, views = self.shape, self.views
        self.places = [
            self.word(f"p{v}", v, "%places", "i64" if self.is_coordinate(v) else "ptr") for v in range(views)
        ]
        self.row_steps = [self.word(f"row{v}", views + v) for v in range(views)]
        self.numbers = {
            node: self.word(f"given{i}", 2 * views + i, kind=scalar_text(kind_of(node.type)))
            for node, i in self.given.items()
        }
        first = 2 * views + len(self.given)
        self.source_strides: dict[Expr, list[str]] = {}
        """Of what is fetched, in bytes."""
        for v, leaf in enumerate(shape.leaves):
            node = shape.starts.get(leaf, leaf)
            if node.op == "fetch":
                step, *names = [self.word(f"source{v}.{k}", first + k) for k in range(1 + len(node.args))]
                self.source_strides[leaf], first = names, first + 1 + len(names)
                self.row_steps[v] = step
        self.sizes, self.strides = [], []
        for k in range(shape.rank):
            at = first + k * (views + 1)
            self.sizes.append(self.word(f"size{k}", at))
            self.strides.append([self.word(f"stride{k}.{v}", at + 1 + v) for v in range(views)])
        kept = [node for step in self.passes for node in step.keeps if node not in self.early]
        for node in kept if shape.keep == "stack" else []:
            self.spaces[node] = self.text.new(f"alloca [{ROOM // len(kept)} x i8], align 64")

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

    def move(self, place: str, on: str, *, is_number: bool = False) -> str:
        """A place so many bytes on."""
        return self.text.new(f"add i64 {place}, {on}" if is_number else f"getelementptr i8, ptr {place}, i64 {on}")

    def times(self, a: str, b: str | int) -> str:
        """A product of two whole numbers."""
        return self.text.new(f"mul i64 {a}, {b}")

    def move_all(self, places: Sequence[str], index: str, steps: Sequence[str]) -> list[str]:
        """The places of all views, so many steps on."""
        return [
            self.move(place, self.times(index, step), is_number=self.is_coordinate(v))
            for v, (place, step) in enumerate(zip(places, steps, strict=True))
        ]

    def started(self, places: Sequence[str]) -> list[str]:
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
                    early[leaf] = self.text.spread(self.numbers[leaf], scalar_text(kind_of(leaf.type)), 1)
            view = self.shape.leaves.index(line)
            found[view] = write_start(self.text, node.args, early, self.places[view], self.source_strides[line])
        return found

    # Vectors

    def one(self, view: int, place: str) -> str:
        """An element, in a vector of one lane."""
        kind = self.kinds[view]
        if self.is_coordinate(view):
            return self.text.spread(place, kind, 1)
        return self.text.new(f"load <1 x {kind}>, ptr {place}, align 1")

    def read(self, view: int, place: str, index: str, step: str, lanes: int) -> str:
        """The vector of a view at an index along the vectors."""
        letter, kind, text = self.shape.letters[view], self.kinds[view], self.text
        if self.is_coordinate(view):
            first = text.new(f"add i64 {place}, {self.times(index, step)}")
            each = text.spread(first, "i64", lanes)
            if letter == "r" or lanes == 1:
                return each
            counts = ", ".join(f"i64 {k}" for k in range(lanes))
            on = text.new(f"mul <{lanes} x i64> {text.spread(step, 'i64', lanes)}, <{counts}>")
            return text.new(f"add <{lanes} x i64> {each}, {on}")
        at = place if letter == "r" else self._along(view, place, index, step)
        return load_leaf(text, letter, kind, at, step, lanes, self.mask)

    def write(self, view: int, value: str, place: str, index: str, step: str, lanes: int, hint: str = "") -> None:
        """A target's vector at an index along the vectors."""
        letter, kind, at = self.shape.letters[view], self.kinds[view], self._along(view, place, index, step)
        store_leaf(self.text, letter, kind, value, at, step, lanes, mask=self.mask, hint=hint)

    def _along(self, view: int, place: str, index: str, step: str) -> str:
        """The place at an index along the vectors."""
        return self.move(place, self.times(index, self.widths[view] if self.shape.letters[view] == "p" else step))

    def tree(self, roots: Sequence[Expr], found: dict[Expr, str], lanes: int) -> list[str]:
        """The vectors of some roots, given those of what they stop at."""

        def fetch(node: Expr, args: Sequence[str]) -> str:
            view = self.shape.leaves.index(node)
            strides = [self.text.spread(stride, "i64", lanes) for stride in self.source_strides[node]]
            is_run = self.shape.letters[view] == "u"
            return write_lanes(self.text, node, args, self.places[view], strides, lanes, is_run=is_run)

        for root in roots:
            if root not in found:
                self.text.hide_table()
                write_tree(self.text, list(walk(root, known=found)), found, lanes, fetch)
        return [found[root] for root in roots]

    def spread(self, node: Expr, value: str, lanes: int) -> str:
        """The one lane of a vector in every lane of another."""
        one = vector_of(node, 1)
        return self.text.new(f"shufflevector {one} {value}, {one} poison, <{lanes} x i32> zeroinitializer")

    def part(self, node: Expr, value: str, number: int, lanes: int, of: int) -> str:
        """One of the vectors that a wider one is made of."""
        if of == 1:
            return value
        chosen = ", ".join(f"i32 {k}" for k in range(number * lanes, (number + 1) * lanes))
        kind = vector_of(node, lanes * of)
        return self.text.new(f"shufflevector {kind} {value}, {kind} poison, <{lanes} x i32> <{chosen}>")

    # Loops

    def loop(
        self,
        begin: str,
        end: str,
        step: str | int,
        carried: Sequence[tuple[str, str]],
        body: Callable[[str, list[str]], Sequence[str]],
    ) -> list[str]:
        """body(i, values) for i from a beginning to before an end: of each value its type and first; the last ones."""
        f = self.text
        held = [f.value(first, kind) for kind, first in carried]
        with (
            f.when(f.compare("lt", begin, end), carry=held),
            f.loop(begin, end, step, carry=held, is_entered=True) as i,
        ):
            held[:] = [f.value(new, kind) for new, (kind, _) in zip(body(i, [*held]), carried, strict=True)]
        return [*held]


def width_of(node: Expr) -> int:
    """The bytes of a node's type."""
    return 1 if node.type is None else node.type.size_in_bytes


def lanes_of(step: Pass, most: int) -> int:
    """The lanes of a pass: as many as fill vectors of its widest type."""
    nodes = walk(*step.roots, known=step.stops)
    return min(most, VECTOR // max(map(width_of, (*nodes, *step.stops))))


def size_of(step: Pass) -> int:
    """The operations of a pass."""
    return sum(1 for _ in walk(*step.roots, known=step.stops)) + len(step.folds)
