"""The views of a row: loads, stores, prefetches and fetches (rows at computed indices, or single elements), as text of
LLVM IR, and how fetches are told apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.codegen.expressions import kind_of, scalar_text, write_node
from anydml.engines.cpu.codegen.function import Function, lanes_in
from anydml.engines.cpu.launch.record import LINE
from anydml.enums import DataType
from anydml.ir.expressions import FOLDS, Expr, load
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from anydml.ir.verbs import Reduce
    from anydml.ir.views import View

# The parts of a map's row: its views, and text that reads and writes them.


EVERY = {"e": 2, "3": 3, "4": 4}
"""The letters of loads of every other element, every third and every fourth, which are read by whole vectors."""
ANYWHERE = "ag"
"""The letters of fetches whose elements are each read for itself."""


class Shape(NamedTuple):
    """The parameters of a row, beside its tree."""

    leaves: tuple[Expr, ...]
    """The loads, coordinates and fetches that are views, in the words' order."""
    rows: str
    """A letter for each of them, then for each target: p for packed, r for repeated, s for strided, those of EVERY
    for loads; a for anywhere, and g for anywhere along a packed dimension; w for one of the targets whose
    elements lie in turn."""
    lanes: int
    """A power of two."""
    stream: bool
    """Whether the target is written past the cache, and sources are fetched ahead."""
    ahead: bool = False
    """Whether rows that are fetched are asked for some rows ahead: the last leaf is then the number of a row."""
    woven: int = 1
    """How many targets, one after the other, have their elements in turn: 2 for the even and the odd ones of a row."""
    soon: bool = False
    """Whether lines that are written soon are fetched ahead, each target's so many bytes as its word says."""


def givens(nodes: Sequence[Expr]) -> list[Expr]:
    """The numbers that the user chose, in the words' order."""
    return [node for node in nodes if node.op == "given"]


def body_of(values: Sequence[Expr], leaves: Sequence[Expr], rows: str) -> list[Expr]:
    """The nodes computed for each element: all but the indices of fetches that a row has one start for."""
    fetches = [leaf for leaf, row in zip(leaves, rows, strict=False) if leaf.op == "fetch" and row not in ANYWHERE]
    return [*fetches, *walk(*values, known=fetches)]


def moving(node: Expr, rows: Mapping[Expr, str]) -> list[int]:
    """Which indices of a fetch are not the same along a row, given the letters of leaves."""
    return [k for k, index in enumerate(node.args) if any(rows.get(part, "r") != "r" for part in walk(index))]


# The leaf reader: how a vector of a view is read and written, by how its elements lie.


def load_leaf(text: Function, letter: str, scalar: str, place: str, step: str, lanes: int, mask: str = "") -> str:
    """The vector whose first element lies at a place: packed, of which a mask may leave lanes out, repeated, one of
    `EVERY` few elements, or a step apart."""
    vector = f"<{lanes} x {scalar}>"
    if letter == "p":
        return text.load(vector, text.value(place, "ptr"), align=1, mask=text.value(mask, f"<{lanes} x i1>")) if mask else text.new(f"load {vector}, ptr {place}, align 1")
    if letter == "r":
        return text.spread(text.new(f"load {scalar}, ptr {place}, align 1"), scalar, lanes)
    if letter in EVERY and lanes > 1:  # of as many vectors the last ends with the last element that is needed
        every, width = EVERY[letter], _WIDTHS[scalar]
        last, before = (lanes - 1) * (every - 1), lanes * (every - 1)
        places = (
            text.new(f"getelementptr i8, ptr {place}, i64 {start * width}")
            for start in (*range(0, before, lanes), last)
        )
        found = [text.new(f"load {vector}, ptr {one}, align 1") for one in places]
        order = [at if at < before else before + at - last for at in range(0, every * lanes, every)]
        return choose_lanes(text, scalar, found, order, lanes)
    value = "poison"
    for lane in range(lanes):
        place = text.new(f"getelementptr i8, ptr {place}, i64 {step}") if lane else place
        element = text.new(f"load {scalar}, ptr {place}, align 1")
        value = text.new(f"insertelement {vector} {value}, {scalar} {element}, i32 {lane}")
    return value


def store_leaf(
    text: Function,
    letter: str,
    scalar: str,
    value: str,
    place: str,
    step: str,
    lanes: int,
    *,
    mask: str = "",
    hint: str = "",
) -> None:
    """Write a vector: packed, with a mask or with metadata, or each element a step from the one before."""
    vector = f"<{lanes} x {scalar}>"
    if letter == "p" and mask:
        text.store(text.value(value, vector), text.value(place, "ptr"), align=1, mask=text.value(mask, f"<{lanes} x i1>"))
    elif letter == "p":
        text.add(f"store {vector} {value}, ptr {place}, align 1{hint}")
    else:
        for lane in range(lanes):
            place = text.new(f"getelementptr i8, ptr {place}, i64 {step}") if lane else place
            element = text.new(f"extractelement {vector} {value}, i32 {lane}")
            text.add(f"store {scalar} {element}, ptr {place}, align 1")


def choose_lanes(text: Function, scalar: str, values: Sequence[str], order: Sequence[int], lanes: int) -> str:
    """Elements of several vectors that follow one another, as one vector."""

    def shuffled(a: str, b: str, order: Sequence[int]) -> str:
        kind, places = f"<{lanes} x {scalar}>", ", ".join(f"i32 {k}" for k in order)
        return text.new(f"shufflevector {kind} {a}, {kind} {b}, <{len(order)} x i32> <{places}>")

    while len(values) > 2:
        values = [*values, "poison"] if len(values) % 2 else values
        values = [shuffled(a, b, range(2 * lanes)) for a, b in zip(values[::2], values[1::2], strict=True)]
        lanes *= 2
    return shuffled(values[0], values[1], order)


_WIDTHS = {"i8": 1, "i16": 2, "half": 2, "i32": 4, "float": 4, "i64": 8, "double": 8}
"""Bytes of scalars."""


class RowView:
    """A view of a row."""

    def __init__(self, node: Expr, row: str, lanes: int, woven: int = 1) -> None:
        self.row, self.is_coordinate, self.is_fetch = row, node.op == "coordinate", node.op == "fetch"
        kind = kind_of(node.type)
        self.scalar, self.width = scalar_text(kind), int(kind[1:]) // 8
        self.vector = f"<{lanes * woven} x {self.scalar}>"
        self.every = EVERY.get(row, 1)
        self.apart = self.width * woven
        """Bytes from one element to the next, where they are not strided."""

    @property
    def is_moved(self) -> bool:
        """Whether a short row of it goes by way of the stack."""
        return self.row not in f"r{ANYWHERE}" and not self.is_coordinate


class RowText:
    """A row in the making: the names of a view's values end in its number, those of targets in `t`, `t1` and so on."""

    def __init__(self, values: Sequence[Expr], shape: Shape) -> None:
        self.shape, self.lanes, self.text = shape, shape.lanes, Function("kernel", "w:ptr places:ptr n")
        self.sources = {
            str(v): RowView(node, row, shape.lanes)
            for v, (node, row) in enumerate(zip(shape.leaves, shape.rows, strict=False))
        }
        last = shape.rows[len(shape.leaves) :]
        self.targets = {
            f"t{v or ''}": RowView(node, row, shape.lanes, shape.woven)
            for v, (node, row) in enumerate(zip(values, last, strict=True))
        }
        for view in self.targets.values():
            view.is_coordinate = view.is_fetch = False
        names = list(self.targets)
        self.groups = [names[k : k + shape.woven] for k in range(0, len(names), shape.woven)]
        """The targets that are written as one."""
        self.givens = givens(list(walk(*values)))
        self.found: dict[Expr, str] = {}
        """The vectors of leaves."""

    def word(self, name: str, base: str, index: int, kind: str = "i64") -> None:
        """Name a word of some memory."""
        place = self.text.new(f"getelementptr i64, ptr {base}, i64 {index}")
        self.text.add(f"{name} = load {kind}, ptr {place}")

    def at(self, base: str, index: str, step: str | int) -> str:
        """The address of an element."""
        on = self.text.new(f"mul i64 {index}, {step}")
        return self.text.new(f"getelementptr i8, ptr {base}, i64 {on}")

    def prefetch(self, place: str, ahead: int) -> None:
        """Ask for a line of the cache."""
        self.text.fetch(self.text.new(f"getelementptr i8, ptr {place}, i64 {ahead}"))

    def move(self, kind: str, source: str, target: str) -> None:
        """Copy an element."""
        element = self.text.new(f"load {kind}, ptr {source}, align 1")
        self.text.add(f"store {kind} {element}, ptr {target}, align 1")

    def read(self, view: RowView, base: str, step: str) -> str:
        """The vector at %i."""
        place = self.at(base, "%i", step if view.row == "s" else view.every * view.width)
        return load_leaf(self.text, view.row, view.scalar, place, step, self.lanes)

    def weave(self, values: Sequence[str]) -> str:
        """Vectors element beside element, as one: LLVM has few shuffles for it, and an Arm one store."""
        (view, *_), lanes, number = self.targets.values(), self.lanes, len(values)
        order = [k * lanes + i for i in range(lanes) for k in range(number)]
        return choose_lanes(self.text, view.scalar, values, order, lanes)

    def write_target(self, view: RowView, value: str, base: str, index: str, step: str, hint: str = "") -> None:
        """A target's vector at an index, or several targets' woven one."""
        is_run = view.row in "pw"
        place, lanes = self.at(base, index, view.apart if is_run else step), lanes_in(view.vector)
        store_leaf(self.text, "p" if is_run else "s", view.scalar, value, place, step, lanes, hint=hint)


# Fetches in a row of a map: rows that lie one element after the other, and elements that lie anywhere.


def write_start(text: Function, indices: Sequence[Expr], early: dict[Expr, str], base: str, strides: Sequence[str]) -> str:
    """Where the first element of a row lies, given the row's first leaves, each a vector of one."""
    for one in walk(*indices, known=early):
        early[one] = write_node(text, one, early, 1)
    place = base
    for index, stride in zip(indices, strides, strict=True):
        at = text.new(f"extractelement <1 x i64> {early[index]}, i32 0")
        on = text.new(f"mul i64 {at}, {stride}")
        place = text.new(f"getelementptr i8, ptr {place}, i64 {on}")
    return place


def write_lanes(
    text: Function,
    node: Expr,
    args: Sequence[str],
    base: str,
    strides: Sequence[str],
    lanes: int,
    *,
    is_run: bool = False,
) -> str:
    """Elements that are each read for itself, given vectors of indices and of strides.

    Where they usually follow one another, as behind a margin, a vector that does is read whole.
    """
    offset = "zeroinitializer"
    for index, stride in zip(args, strides, strict=True):
        on = text.new(f"mul <{lanes} x i64> {index}, {stride}")
        offset = text.new(f"add <{lanes} x i64> {offset}, {on}")
    if not is_run or lanes == 1:
        return _each(text, node, base, offset, lanes)
    kind = kind_of(node.type)
    vector, width = f"<{lanes} x {scalar_text(kind)}>", int(kind[1:]) // 8
    first = text.new(f"extractelement <{lanes} x i64> {offset}, i32 0")
    counts = ", ".join(f"i64 {k * width}" for k in range(lanes))
    on = text.new(f"add <{lanes} x i64> {text.spread(first, 'i64', lanes)}, <{counts}>")
    differ = text.new(f"icmp ne <{lanes} x i64> {on}, {offset}")
    name = f"@llvm.vector.reduce.or.v{lanes}i1"
    text.declared[f"declare i1 {name}(<{lanes} x i1>)"] = None
    is_apart = text.new(f"call i1 {name}(<{lanes} x i1> {differ})")
    apart, together, done = (text.label(stem) for stem in ("apart", "together", "read"))
    text.add(f"br i1 {is_apart}, label %{apart}, label %{together}")
    text.open(apart)
    one_by_one = _each(text, node, base, offset, lanes)
    text.add(f"br label %{done}")
    text.open(together)
    place = text.new(f"getelementptr i8, ptr {base}, i64 {first}")
    at_once = text.new(f"load {vector}, ptr {place}, align 1")
    text.add(f"br label %{done}")
    text.open(done)
    return text.new(f"phi {vector} [ {one_by_one}, %{apart} ], [ {at_once}, %{together} ]")


def _each(text: Function, node: Expr, base: str, offset: str, lanes: int, unit: str = "i8") -> str:
    scalar, value = scalar_text(kind_of(node.type)), "poison"
    for lane in range(lanes):
        on = text.new(f"extractelement <{lanes} x i64> {offset}, i32 {lane}")
        place = text.new(f"getelementptr {unit}, ptr {base}, i64 {on}")
        element = text.new(f"load {scalar}, ptr {place}, align 1")
        value = text.new(f"insertelement <{lanes} x {scalar}> {value}, {scalar} {element}, i32 {lane}")
    return value


class FetchingRow(RowText):
    """A row with fetches in it."""

    def __init__(self, values: Sequence[Expr], shape: Shape) -> None:
        super().__init__(values, shape)
        self.fetches = any(view.is_fetch for view in self.sources.values())
        """Whether there are any."""
        self.letters = dict(zip(shape.leaves, shape.rows, strict=False))
        self.lines: dict[Expr, tuple[str, dict[int, str]]] = {}
        """Of fetches that lie anywhere, where their rows start, and a vector of strides for each index that moves."""

    def repeat(self, name: str, view: RowView, node: Expr, early: dict[Expr, str]) -> None:
        """One element, or coordinate, for the whole row."""
        text = self.text
        once = f"%p{name}" if view.is_coordinate else text.new(f"load {view.scalar}, ptr %p{name}, align 1")
        self.found[node] = text.spread(once, view.scalar, self.lanes)
        if self.fetches:
            early[node] = text.spread(once, view.scalar, 1)

    def fetch_rows(self, word: int, early: dict[Expr, str]) -> None:
        """Work out where the rows of fetches start; their words begin with one of some number."""
        text = self.text
        for node, (name, view) in zip(self.shape.leaves, self.sources.items(), strict=True):
            if not view.is_fetch:
                continue
            strides = [f"%stride{name}.{k}" for k in range(len(node.args))]
            for k, stride in enumerate(strides):
                self.word(stride, "%w", word + 1 + k)
            moved = moving(node, self.letters) if view.row in ANYWHERE else []
            still = [k for k in range(len(strides)) if k not in moved]
            start = write_start(text, [node.args[k] for k in still], early, f"%base{name}", [strides[k] for k in still])
            if moved:
                self.lines[node] = start, {k: text.spread(strides[k], "i64", self.lanes) for k in moved}
            else:
                text.add(f"%p{name} = getelementptr i8, ptr {start}, i64 0")
                if view.row == "r":
                    self.repeat(name, view, node, early)
                else:
                    self.word(f"%step{name}", "%w", word)
                    text.add(f"%stack{name} = alloca {view.vector}")
            word += 1 + len(strides)
        if self.shape.ahead:
            self._ask_ahead(word)

    def _ask_ahead(self, word: int) -> None:
        """Have rows brought to the cache that will be fetched some rows on, as far as there are any."""
        text, block = self.text, "entry"
        for k, name in enumerate(("size", "distance", "lines")):
            self.word(f"%ahead.{name}", "%w", word + k)
        past = text.new(f"add i64 %p{len(self.sources) - 1}, 1")
        left = text.new(f"sub i64 %ahead.size, {past}")
        is_far = text.new(f"icmp slt i64 %ahead.distance, {left}")
        on = text.new(f"select i1 {is_far}, i64 %ahead.distance, i64 {left}")
        soon = {
            node: text.spread(f"%given{i}", scalar_text(kind_of(node.type)), 1) for i, node in enumerate(self.givens)
        }
        for k, (node, (name, view)) in enumerate(zip(self.shape.leaves, self.sources.items(), strict=True)):
            if view.is_fetch:
                strides = [f"%stride{name}.{d}" for d in range(len(node.args))]
                place = write_start(text, node.args, soon, f"%base{name}", strides) if view.row in "rp" else ""
            else:
                self.word(f"%ahead.step{name}", "%w", word + 3 + k)
                place = "" if view.is_coordinate else self.at(f"%p{name}", on, f"%ahead.step{name}")
            if view.is_coordinate:
                far = text.new(f"mul i64 {on}, %ahead.step{name}")
                soon[node] = text.spread(text.new(f"add i64 %p{name}, {far}"), "i64", 1)
            elif view.row == "r":
                soon[node] = text.spread(text.new(f"load {view.scalar}, ptr {place}, align 1"), view.scalar, 1)
            elif view.is_fetch and view.row == "p":
                text.add(f"br label %ahead{name}", f"ahead{name}:")
                text.add(f"%line{name} = phi i64 [ 0, %{block} ], [ %line.on{name}, %ahead{name} ]")
                self.prefetch(self.at(place, f"%line{name}", LINE), 0)
                text.add(f"%line.on{name} = add i64 %line{name}, 1")
                text.add(f"%is.line{name} = icmp slt i64 %line.on{name}, %ahead.lines")
                text.add(f"br i1 %is.line{name}, label %ahead{name}, label %ahead.done{name}", f"ahead.done{name}:")
                block = f"ahead.done{name}"

    def write_fetch(self, node: Expr, args: Sequence[str]) -> str:
        """A fetch that lies anywhere, given vectors of its indices."""
        start, strides = self.lines[node]
        if self.letters[node] == "g":
            (index,) = strides
            return _each(self.text, node, start, args[index], self.lanes, scalar_text(kind_of(node.type)))
        return write_lanes(self.text, node, [args[k] for k in strides], start, [*strides.values()], self.lanes)


# Fetches, told apart: those whose elements lie a step apart along a row, and those that lie anywhere.


UNKNOWN_STEP = 2
"""A step that is none of a run: what is not known counts as that where ways are compared."""


def fetch_steps(
    nodes: Sequence[Expr], steps: Mapping[Expr, int], sources: Sequence[View], *, usual: bool = False
) -> dict[Expr, int | None]:
    """Of each fetch the elements from one to the next along a row; None where that is not the same everywhere.

    `steps` are those of loads and coordinates. What is `usual` holds but where an index is put inside its bounds.
    """
    found: dict[Expr, int | None] = {}
    """How much more a node is for each step along the row; None where that is not known."""
    fetches: dict[Expr, int | None] = {}
    for node in nodes:
        args = [found[arg] for arg in node.args]
        known = [arg for arg in args if arg is not None]
        found[node] = None if len(known) < len(args) or any(known) or node.op in FOLDS else 0
        if node.op == "coordinate":
            found[node] = steps[node]
        elif node.op == "load":
            found[node] = None if steps[node] else 0
        elif usual and node.op == "where":
            found[node] = args[1]
        elif len(known) < len(args):
            fetches |= {node: None} if node.op == "fetch" else {}
        elif node.op == "fetch":
            strides = sources[int(node.value)].strides
            fetches[node] = sum(stride * arg for stride, arg in zip(strides, known, strict=True))
            found[node] = None if fetches[node] else 0
        elif node.op in ("add", "sub") and node.type is DataType.INT64:
            found[node] = known[0] + known[1] if node.op == "add" else known[0] - known[1]
        elif node.op == "mul" and node.type is DataType.INT64 and node.args[1].op in ("const", "given"):
            found[node] = known[0] * int(node.args[1].value)
    return fetches


class Fetched(NamedTuple):
    """A reduce's fetches: those that are lines along vectors, which begin where indices say, are loads in `values`."""

    values: tuple[Expr, ...]
    starts: dict[Expr, Expr]
    """Of each such load the fetch that it begins with."""
    usual: dict[Expr, tuple[int, ...]]
    """Of each such load, and of each other fetch, the steps along the dimensions of the walk, as they are usually."""

    @property
    def nodes(self) -> list[Expr]:
        """All of them, each after its arguments."""
        return list(walk(*self.values, *(index for node in self.starts.values() for index in node.args)))


def fetches_of(primitive: Reduce, dimensions: Iterable[int]) -> Fetched:
    """Find the lines along some dimensions of the walk."""
    values, rank = primitive.values, len(primitive.sizes)
    nodes = list(walk(*values))
    if all(node.op != "fetch" for node in nodes):
        return Fetched(values, {}, {})
    exact, usual = (
        [fetch_steps(nodes, _steps(primitive, nodes, k), primitive.sources, usual=is_usual) for k in range(rank)]
        for is_usual in (False, True)
    )
    made: dict[Expr, Expr] = {}
    starts: dict[Expr, Expr] = {}
    steps: dict[Expr, tuple[int, ...]] = {}
    for node in nodes:
        args = tuple(made[arg] for arg in node.args)
        made[node] = node if args == node.args else Expr(node.op, node.type, args, node.value)
        if node.op == "fetch":
            each = [UNKNOWN_STEP if (step := along[node]) is None else step for along in usual]
            if all(exact[k][node] is not None for k in dimensions):
                assert node.type is not None  # noqa: S101 - for type checkers: what is fetched has a type
                line = load(len(primitive.sources) + len(starts), node.type)
                starts[line], made[node] = made[node], line
            steps[made[node]] = tuple(each)
    return Fetched(tuple(made[value] for value in values), starts, steps)


def _steps(primitive: Reduce, nodes: Sequence[Expr], dimension: int) -> dict[Expr, int]:
    """Of loads and coordinates, along a dimension of the walk."""
    return {
        node: int(node.value == dimension)
        if node.op == "coordinate"
        else primitive.sources[int(node.value)].strides[dimension]
        for node in nodes
        if node.op in ("load", "coordinate")
    }
