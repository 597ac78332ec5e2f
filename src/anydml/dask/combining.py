"""Folds of blocks put together in a tree, in the blocks' order: sums and products in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from dask._task_spec import Task, TaskRef

from anydml.dask.arrays import Key, Layer, places
from anydml.enums import DataType
from anydml.ir.expressions import FOLDS, Expr
from anydml.ir.trees import rewrite, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

_AT_ONCE = 8
"""Blocks that are put together by one task."""
_TOGETHER = {"fold_sum": np.add, "fold_product": np.multiply, "fold_max": np.maximum, "fold_min": np.minimum}


@dataclass(frozen=True)
class Joining:
    """How one fold of several blocks is put together."""

    function: str
    """The fold's."""
    shift: int | None = None
    """For a sum of exponentials, the number of the fold that gives the largest exponent."""

    def together(self, parts: Sequence[Sequence[Any]], number: int) -> Any:
        """The fold of a certain number, of blocks that come with all their folds."""
        own = [part[number] for part in parts]
        if own[0].dtype.kind == "f" and self.function in ("fold_sum", "fold_product"):
            own[0] = own[0].astype(np.float64)
        with np.errstate(all="ignore"):
            if self.shift is not None:
                own = _shifted(own, [part[self.shift] for part in parts])
            found = own[0]
            for part in own[1:]:
                found = _TOGETHER[self.function](found, part)
        return found


def _shifted(sums: Sequence[Any], largest: Sequence[Any]) -> list[Any]:
    """Sums of exponentials that blocks shifted by their own largest exponent, shifted by the largest of all."""
    whole = largest[0]
    for one in largest[1:]:
        whole = np.maximum(whole, one)
    found = []
    for total, own in zip(sums, largest, strict=True):
        scale = np.where(own == whole, 1.0, np.exp(own.astype(np.float64) - whole))
        # A block of -inf alone adds nothing to others; its own sum is NaN, as it is where the whole row is -inf.
        found.append(np.where((own == -np.inf) & (whole != -np.inf), 0.0, total * scale))
    return found


@dataclass(frozen=True)
class Combined(Layer):
    """Folds of blocks put together along some dimensions, in which each block's has a size of 1."""

    joinings: tuple[Joining, ...]
    grid: tuple[int, ...]
    along: tuple[int, ...]

    def tasks(self, name: str, inputs: Sequence[str]) -> dict[Key, Any]:
        """A tree for each row of blocks."""
        made: dict[Key, Any] = {}
        rest = tuple((1,) if k in self.along else (1,) * count for k, count in enumerate(self.grid))
        inner = tuple((1,) * count if k in self.along else (1,) for k, count in enumerate(self.grid))
        for at in places(rest):
            refs = [TaskRef((inputs[0], *(a + b for a, b in zip(at, by, strict=True)))) for by in places(inner)]
            level = 0
            while len(refs) > _AT_ONCE:
                groups = [refs[i : i + _AT_ONCE] for i in range(0, len(refs), _AT_ONCE)]
                refs = []
                for number, group in enumerate(groups):
                    key = (f"{name}-{level}", *at, number)
                    made[key] = Task(key, _combine, self.joinings, *group)
                    refs.append(TaskRef(key))
                level += 1
            made[name, *at] = Task((name, *at), _combine, self.joinings, *refs)
        return made


def _combine(joinings: Sequence[Joining], *parts: Any) -> Any:
    """The folds of several blocks: an array, or a tuple where there are several folds."""
    if len(joinings) == 1:
        return joinings[0].together([(part,) for part in parts], 0)
    return tuple(joining.together(parts, number) for number, joining in enumerate(joinings))


def folds_at_once(value: Expr) -> dict[Expr, Joining]:
    """The folds of a tree that one pass over the blocks gives: those that need no other, and sums that these shift."""
    folds = [node for node in walk(value) if node.op in FOLDS]
    found = {one: Joining(one.op) for one in folds if not any(n.op in FOLDS for n in walk(one.args[0]))}
    numbers = {one: number for number, one in enumerate(found)}
    for one in folds:
        if (largest := _shift(one)) in numbers:
            found[one] = Joining(one.op, numbers[largest])
    return found


def _shift(one: Expr) -> Expr | None:
    """Of a FLOAT32 sum of exponentials of e - max(e), that largest; None of other folds.

    Those that memory adds up in float64 have bits that do not depend on their order, which a shift would change.
    """
    (power,) = one.args
    if one.op != "fold_sum" or power.op != "exp" or power.args[0].op != "sub":
        return None
    e, largest = power.args[0].args
    return largest if largest.op == "fold_max" and largest.args[0] is e else None


def kept_type(one: Expr) -> DataType:
    """The type that a fold of blocks is put together in."""
    assert one.type is not None  # noqa: S101 - for type checkers: folds are of numbers
    return DataType.FLOAT64 if one.type.is_float and one.op in ("fold_sum", "fold_product") else one.type


def widened(one: Expr) -> Expr:
    """A fold of a block as it is computed: sums in float64, but for those of products, for which there are kernels."""
    (arg,) = one.args
    factors = [a.args[0] if a.op == "cast" else a for a in arg.args] if arg.op == "mul" else []
    is_product = [a.op for a in factors] == ["load", "load"] and factors[0] is not factors[1]
    kind = one.type if is_product else kept_type(one)
    return one if kind is one.type or kind is None else Expr(one.op, kind, (arg.to(kind),))


def rounded_once(value: Expr, rounded: set[Expr]) -> Expr:
    """A tree whose arithmetic with sums in float64, that it has rounded, is done in float64, and rounded at its end."""
    found = set(rounded)

    def change(node: Expr) -> Expr:
        if node.op not in ("add", "sub", "mul", "div") or not found.intersection(node.args) or node.type is None:
            return node
        args = [arg.args[0] if arg in found else arg.to(DataType.FLOAT64) for arg in node.args]
        new = Expr(node.op, DataType.FLOAT64, tuple(args)).to(node.type)
        found.add(new)
        return new

    return rewrite(value, change)
