"""Fetches, told apart: those whose elements lie a step apart along a row, and those that lie anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.enums import DataType
from anydml.ir.expressions import FOLDS, Expr, load
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from anydml.ir.verbs import Reduce
    from anydml.ir.views import View

ANYWHERE = 2
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
            each = [ANYWHERE if (step := along[node]) is None else step for along in usual]
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
