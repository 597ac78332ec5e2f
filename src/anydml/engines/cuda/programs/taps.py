"""Folds over small windows, planned: poolings, depthwise convolutions, and whatever else has a few taps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anydml.engines.cuda.emit import bits_of, bounded
from anydml.engines.cuda.emit_rows import levels_of
from anydml.engines.cuda.emit_taps import emit_taps
from anydml.engines.cuda.kernels.windows import Taps
from anydml.engines.cuda.launch import IS_INTERPRETED, Kernel
from anydml.engines.cuda.programs.groups import Dimensions, group_of
from anydml.engines.cuda.programs.prepared import Prepared
from anydml.engines.cuda.programs.shapes import alignment_of, ceil_power, columns_for, kind_of, over, step_of
from anydml.engines.cuda.programs.window_walk import walked_by
from anydml.ir.expressions import Expr
from anydml.ir.numerics import expand
from anydml.ir.outside import match_reached
from anydml.ir.patterns import copy_of
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.cuda.figures import Figures
    from anydml.engines.cuda.launch import Numbers
    from anydml.engines.cuda.programs.groups import Group
    from anydml.engines.cuda.programs.prepared import Bases
    from anydml.engines.cuda.programs.window_walk import Walked
    from anydml.ir.verbs import Map, Reduce
    from anydml.ir.views import View

MOST = 64
"""Taps: more are a row, and are folded as such."""
MOST_ROWS = 6
LEAST = 8
"""Bytes that a thread reads at once, or else its results lie apart."""
TILE, WIDE = (1024, 64) if not IS_INTERPRETED else (64, 8)
"""Results of a tile, and how many of them lie beside one another at most."""
MORE = 4
"""Times as many results where rows share what is read, such as weights: it is read and converted once for all."""


class TapsProgram(Prepared):
    """Folds over small windows, planned."""

    __slots__ = ()

    @classmethod
    def plan(cls, primitive: Reduce, figures: Figures, constants: frozenset[str]) -> TapsProgram | None:
        """For windows of a few taps, one value each; None for others, and for rows of neighbours."""
        sizes, kept = primitive.sizes, len(primitive.sizes) - primitive.depth
        taps = tuple(k for k in reversed(range(kept, len(sizes))) if sizes[k] > 1)
        if primitive.checks or not primitive.is_by_row or not all(sizes) or not 1 < math.prod(primitive.rows) <= MOST:
            return None
        if not kept:  # one result of all that there is: no dimension leads from window to window
            return None
        values = tuple(expand(value) for value in primitive.values)
        leaves = _leaves(values, primitive)
        if leaves is None or max(levels_of(*values).values()) > 1 or not _are_windows(leaves, sizes, kept):
            return None
        values = tuple(_bounded(value, leaves) for value in values)
        wide = [k for k in range(kept) if sizes[k] > 1] or [0]
        order = sorted(wide, key=lambda k: (abs(primitive.target.strides[k]), -k))
        rows, column = tuple(order[1:]), order[0]
        if len(rows) > MOST_ROWS:
            return None
        laid_out = _lay_out(leaves, rows, column)
        group = group_of(leaves, primitive, rows, column, taps)
        reach = 1 if group.tap is None else sizes[group.tap]
        of = Dimensions(rows, column, tuple(k for k in taps if k != group.tap), group, reach)
        return cls.of(*_kernel(primitive, values, leaves, of, figures), laid_out, primitive.sources, constants)


def _lay_out(leaves: dict[Expr, Walked], rows: Sequence[int], column: int) -> list[Map]:
    """Weights of each column, side by side: what lays them out, and instead of them what is laid out."""
    made = []
    for number, (node, leaf) in enumerate(leaves.items()):
        own = [k for k, axis in enumerate(leaf.axes) if column in axis.steps]
        is_ours = len(own) == 1 and not leaf.limits and not any(leaf.stride(k) for k in rows)
        if is_ours and abs(leaf.stride(column)) != 1 and leaf.axes[own[0]].steps[column] == 1:
            order = [*(k for k in range(len(leaf.axes)) if k not in own), *own]
            leaves[node] = leaf.packed(f"weights {number} by column", order)
            made.append(copy_of(leaf.view, leaves[node].view))
    return made


def _leaves(values: Sequence[Expr], primitive: Reduce) -> dict[Expr, Walked] | None:
    """The reads by node; None where something is fetched otherwise than at lines."""
    found: dict[Expr, Walked] = {}
    inside: set[Expr] = set()
    for node in reversed(list(walk(*values))):  # what a window is made of comes after it
        if node in inside or not (node.op in ("load", "fetch") or (node.op == "where" and match_reached(node))):
            continue
        pairs = _pairs(primitive.sources[int(node.value)], primitive) if node.op == "load" else {}
        leaf = walked_by(node, primitive.sources, pairs)
        if leaf is None or (leaf.outside is not None and leaf.outside.op != "const"):
            return None
        found[node] = leaf
        inside |= set(walk(node))
    return found


def _pairs(view: View, primitive: Reduce) -> dict[int, int]:
    """By dimension of taps, the dimension of results along which it leads: steps of that are steps of the taps.

    None of weights, which do not vary from place to place.
    """
    kept, strides = len(primitive.sizes) - primitive.depth, view.strides
    found = dict[int, int]()
    varied = [k for k in range(kept) if primitive.sizes[k] > 1 and strides[k]]
    for tap in range(kept, len(strides)) if len(varied) > 1 else ():
        along = [k for k in varied if strides[tap] and strides[k] % strides[tap] == 0]
        if along:
            found[tap] = min(along, key=lambda k: abs(strides[k]))
    return found


def _are_windows(leaves: Mapping[Expr, Walked], sizes: Sequence[int], kept: int) -> bool:
    """Whether something is read past its ends, or in windows, and not in rows of neighbours."""
    if any(leaf.limits for leaf in leaves.values()):
        return True
    folded = [k for k in range(kept, len(sizes)) if sizes[k] > 1]
    for leaf in leaves.values():
        strides = [leaf.stride(k) for k in folded]
        is_run = all(a == b * sizes[k] for a, b, k in zip(strides, strides[1:], folded[1:], strict=False))
        reach = sum(abs(stride) * (sizes[k] - 1) for k, stride in zip(folded, strides, strict=True))
        overlaps = any(0 < abs(leaf.stride(k)) <= reach for k in range(kept) if sizes[k] > 1) and reach
        if all(strides) and (overlaps or not is_run):
            return True
    return False


def _bounded(value: Expr, leaves: Mapping[Expr, Walked]) -> Expr:
    """A tree with what the hardware has one instruction for, but within what is read."""
    made = {leaf: leaf for leaf in leaves}
    for node in walk(value, known=leaves):
        made[node] = bounded(Expr(node.op, node.type, tuple(made[arg] for arg in node.args), node.value))
    return made[value]


def _is_apart(leaf: Walked, of: Dimensions) -> bool:
    """Whether a thread cannot read several columns at once: they lie apart, or taps lead from one to the next."""
    step = leaf.stride(of.column)
    if abs(step) < 2 and any(axis.steps.get(of.column) for axis in leaf.limits):
        return True
    tap = [] if of.group.tap is None else [of.group.tap]
    others = [leaf.stride(k) for k in (*of.rows, *of.taps, *tap)]
    return abs(step) > 1 or (step != 0 and alignment_of(others) * leaf.kind.size_in_bytes < LEAST)


def _kernel(
    primitive: Reduce, values: Sequence[Expr], leaves: Mapping[Expr, Walked], of: Dimensions, figures: Figures
) -> tuple[Kernel, Bases]:
    sizes, targets, group = primitive.sizes, primitive.targets, of.group
    taps = math.prod(sizes[k] for k in of.taps)
    is_apart = not of.is_across and any(_is_apart(leaf, of) for leaf in leaves.values())
    made = emit_taps(values, leaves, of, taps, is_apart=is_apart)
    aligns, steps, numbers = list[int](), list[int](), list[tuple[int, ...]]()
    words = group.words or (0,) * len(leaves)

    def many(dimension: int) -> int:
        return group.count if dimension == group.dimension else 1

    def view(stride: Callable[[int], int], *, size: int = 0, is_target: bool = False) -> None:
        rows, taps, more = [stride(k) * many(k) for k in of.rows], [stride(k) for k in of.taps], stride(of.column)
        inside = [0 if of.is_across or group.count == 1 else stride(group.dimension)]  # in words it is known
        inside.append(0 if is_target or group.tap is None or size else stride(group.tap))
        step = step_of(more)
        unknown = [more] if step == 2 and not of.is_across else []
        align = alignment_of([*rows, *([] if is_target else taps), *inside, *unknown])
        align = 1 if is_apart else align
        aligns.append(align)
        steps.append(step)
        numbers.append(over(rows, align) or (0,))
        if not is_target:
            numbers.append(over(taps, align) or (0,))
        numbers.append((more // align, *over(inside, align), size))

    for leaf, word in zip(leaves.values(), words, strict=True):
        view(leaf.stride, size=word and next(axis.size for axis in leaf.axes if of.column in axis.steps))
        for axis in leaf.limits:
            numbers.append(tuple(axis.steps.get(k, 0) * many(k) for k in of.rows) or (0,))
            numbers.append(tuple(axis.steps.get(k, 0) for k in of.taps) or (0,))
            inside = [axis.steps.get(k, 0) if k is not None else 0 for k in (group.dimension, group.tap)]
            numbers.append((axis.first, axis.steps.get(of.column, 0), axis.size, *inside))
    for target in targets:
        view(target.strides.__getitem__, is_target=True)
    counts = [-(-sizes[k] // many(k)) for k in of.rows]
    count, width = math.prod(counts), -(-sizes[of.column] // many(of.column))
    has_weights = any(not any(leaf.stride(k) for k in of.rows) for leaf in leaves.values())
    down, across = _tile(count, width, group, has_weights=has_weights)
    reaches = [leaf.reach for leaf in leaves.values()]
    reaches += [sum(abs(s) * n for s, n in zip(target.strides, target.sizes, strict=True)) for target in targets]
    tile = Taps(
        down, across, tuple(aligns), tuple(steps),
        1 if is_apart else min(alignment_of((width,)), across), max(reaches) >= 2**31,
    )  # fmt: skip
    fixed: Numbers = (
        (count, width, taps, sizes[group.dimension]), tuple(counts) or (1,), tuple(sizes[k] for k in of.taps) or (1,),
        *numbers, *map(bits_of, made.given),
    )  # fmt: skip
    kinds = [*(leaf.kind for leaf in leaves.values()), *(target.data_type for target in targets)]
    programs = -(-count // down) * -(-width // across)
    kernel = Kernel(made.function, tuple(map(kind_of, kinds)), fixed, {"TILE": tile}, programs, 4, figures, fuses=False)
    bases = []
    for leaf, word in zip(leaves.values(), words, strict=True):
        before = word and next(axis.first for axis in leaf.axes if of.column in axis.steps) % word
        bases.append((leaf.tensor, (leaf.start - before) * leaf.kind.size_in_bytes))
    bases += [(target.tensor, target.offset * target.data_type.size_in_bytes) for target in targets]
    return kernel, tuple(bases)


def _tile(count: int, width: int, group: Group, *, has_weights: bool) -> tuple[int, int]:
    """Rows and columns of a tile, those of groups counted once."""
    if group.words:
        across = min(ceil_power(width), WIDE // 2)
        return min(max(TILE // group.count // across, 1), ceil_power(count)), across
    across = columns_for(width, WIDE)
    results = TILE * MORE if has_weights and count >= MORE * TILE and group.count == 1 else TILE
    return min(max(results // across, 1), ceil_power(count)), across
