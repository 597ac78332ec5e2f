"""The leaves of an expression along a row: vectors that are loaded and stored by how elements lie, fetches (rows at
computed indices, or single elements), and how fetches are told apart. Maps, reductions and attention read by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.core.enums import DataType
from anydml.engines.cpu.codegen.expressions import kind_of, scalar_text, write_node
from anydml.engines.cpu.codegen.function import SIZES, vector_of
from anydml.ir.expressions import FOLDS, Expr, load
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from anydml.engines.cpu.codegen.function import Function, Value
    from anydml.ir.verbs import Reduce
    from anydml.ir.views import View

# The leaf reader: how a vector of a view is read and written, by how its elements lie.


EVERY = {"e": 2, "3": 3, "4": 4}
"""The letters of loads of every other element, every third and every fourth, which are read by whole vectors."""
ANYWHERE = "ag"
"""The letters of fetches whose elements are each read for itself."""


def givens(nodes: Sequence[Expr]) -> list[Expr]:
    """The numbers that the user chose, in the words' order."""
    return [node for node in nodes if node.op == "given"]


def load_leaf(
    f: Function, letter: str, scalar: str, place: Value, step: Value, lanes: int, mask: Value | None = None
) -> Value:
    """The vector whose first element lies at a place: packed, of which a mask may leave lanes out, repeated, one of
    `EVERY` few elements, or a step apart."""
    vector = vector_of(lanes, scalar)
    if letter == "p":
        return f.load(vector, place, align=1, mask=mask)
    if letter == "r":
        return f.splat(f.load(scalar, place, align=1), lanes)
    if letter in EVERY and lanes > 1:  # of as many vectors the last ends with the last element that is needed
        every = EVERY[letter]
        last, before = (lanes - 1) * (every - 1), lanes * (every - 1)
        starts = (*range(0, before, lanes), last)
        found = [f.load(vector, place + start * SIZES[scalar], align=1) for start in starts]
        return choose_lanes(
            f, found, [at if at < before else before + at - last for at in range(0, every * lanes, every)]
        )
    value = f.value("poison", vector)
    for lane in range(lanes):
        place = place + step if lane else place
        value = f.insert(value, f.load(scalar, place, align=1), lane)
    return value


def store_leaf(
    f: Function,
    letter: str,
    value: Value,
    place: Value,
    step: Value,
    *,
    mask: Value | None = None,
    is_streamed: bool = False,
) -> None:
    """Write a vector: packed, with a mask or past the caches, or each element a step from the one before."""
    if letter == "p":
        f.store(value, place, align=1, mask=mask, is_streamed=is_streamed)
        return
    for lane in range(value.lanes):
        place = place + step if lane else place
        f.store(f.extract(value, lane), place, align=1)


def choose_lanes(f: Function, values: Sequence[Value], order: Sequence[int]) -> Value:
    """Elements of several vectors that follow one another, as one vector."""
    while len(values) > 2:
        values = [*values, f.value("poison", values[0].type)] if len(values) % 2 else values
        values = [f.shuffle(a, b, range(2 * a.lanes)) for a, b in zip(values[::2], values[1::2], strict=True)]
    return f.shuffle(values[0], values[1], order)


# Fetches: rows that lie one element after the other, and elements that lie anywhere.


def write_start(
    f: Function, indices: Sequence[Expr], early: dict[Expr, str], place: Value, strides: Sequence[Value]
) -> Value:
    """Where the first element of a row lies, given the row's first leaves, each a vector of one."""
    for one in walk(*indices, known=early):
        early[one] = write_node(f, one, early, 1)
    for index, stride in zip(indices, strides, strict=True):
        place = place + f.extract(f.value(early[index], "<1 x i64>"), 0) * stride
    return place


def write_lanes(
    f: Function, node: Expr, args: Sequence[str], base: Value, strides: Sequence[Value], *, is_run: bool = False
) -> Value:
    """Elements that are each read for itself, given vectors of indices and of strides.

    Where they usually follow one another, as behind a margin, a vector that does is read whole.
    """
    scalar, lanes = scalar_text(kind_of(node.type)), strides[0].lanes
    offset = f.zero(vector_of(lanes, "i64"))
    for index, stride in zip(args, strides, strict=True):
        offset = offset + f.value(index, stride.type) * stride
    if not is_run or lanes == 1:
        return load_each(f, scalar, base, offset)
    first = f.extract(offset, 0)
    run = f.splat(first, lanes) + f.vector("i64", [k * SIZES[scalar] for k in range(lanes)])
    found = [f.zero(vector_of(lanes, scalar))]
    with f.either(f.reduce("or", run.ne(offset)), carry=found) as (apart, together):
        with apart:
            found[0] = load_each(f, scalar, base, offset)
        with together:
            found[0] = f.load(vector_of(lanes, scalar), base + first, align=1)
    return found[0]


def load_each(f: Function, scalar: str, base: Value, offsets: Value, unit: int = 1) -> Value:
    """Elements that lie anywhere, at offsets of so many bytes."""
    value = f.value("poison", vector_of(offsets.lanes, scalar))
    for lane in range(offsets.lanes):
        on = f.extract(offsets, lane)
        value = f.insert(value, f.load(scalar, base + on * unit, align=1), lane)
    return value


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
