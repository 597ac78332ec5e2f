"""Convolution as implicit GEMM: operand modes and layouts (NHWC, few channels together with their line), tile shapes by
size (the best of an H200), and what is computed of each sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from anydml.core.enums import DataType
from anydml.engines.common.routes import Route, always, choose, note
from anydml.engines.common.tiles import ALIGNMENT, alignment_of, ceil_power, divisor_of, over, step_of
from anydml.engines.cuda.codegen.expressions import (
    TRITON,
    Emitted,
    bounded,
    function_of,
    given_text,
    load_text,
    split,
    weighted,
)
from anydml.engines.cuda.conv.implicit_gemm_kernel import WindowConstants
from anydml.engines.cuda.launch import IS_INTERPRETED, Bases, BlockDescriptor, Kernel, bases_of, kind_of
from anydml.engines.cuda.prepared import PreparedProgram
from anydml.engines.cuda.schedules import MOST_TAPS
from anydml.ir.expressions import Expr, const, coordinate
from anydml.ir.numerics import expand
from anydml.ir.padded_reads import reach
from anydml.ir.patterns import copy_of
from anydml.ir.trees import walk as walk_nodes
from anydml.ir.verbs import Map
from anydml.ir.views import View
from anydml.ir.windows import WindowedOperand, walk_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.common.tiles import Numbers
    from anydml.engines.cuda.device import Figures
    from anydml.ir.verbs import Reduce
    from anydml.ir.windows import Axis, WindowWalk

# How the factors of a convolution are laid out first: channels beside one another, and few of them with their line.
#
# A copy into another order takes a few microseconds, and without it every element is read by itself. Of a picture with
# three channels a line of taps is one run of terms: with a fourth channel of zeros it is read 8 bytes at once.


PLACES, WEIGHTS = "windows by channel", "weights by tap"
"""Layouts made anew: in memory of the program's own, or for weights that never change ahead."""
FEW_CHANNELS = 16
"""Channels below which a line of taps is one run."""
LEAST_CHANNELS = 4
"""Channels of such a run, some of them zeros."""


def lay_out(walk: WindowWalk) -> tuple[WindowWalk, list[Map]]:
    """The walk over factors laid out anew, where they had better be, with what lays them out."""
    channels = walk.channels
    if channels is None:
        return walk, []
    if walk.run < FEW_CHANNELS:
        return _in_runs(walk, channels) or (walk, [])
    left, right = walk.left, walk.right
    made: list[Map] = []
    if left.axes[channels].stride != 1:
        order = sorted(range(len(left.axes)), key=lambda k: (k == channels, -abs(left.axes[k].stride)))
        left = left.packed(PLACES, order)
        made.append(copy_of(walk.left.view, left.view))
    if right.stride(walk.inner) != 1:
        right = right.packed(WEIGHTS, _order(walk))
        made.append(copy_of(walk.right.view, right.view))
    return replace(walk, left=left, right=right), made


def _order(walk: WindowWalk) -> list[int]:
    """The axes of weights: by group, channel of the result and tap, the channels last."""
    every = [*walk.found.batch, *walk.found.columns, *walk.taps[::-1], walk.inner]

    def rank(axis: int) -> int:
        return min((every.index(k) for k in walk.right.axes[axis].steps), default=-1)

    return sorted(range(len(walk.right.axes)), key=rank)


def _in_runs(walk: WindowWalk, channels: int) -> tuple[WindowWalk, list[Map]] | None:
    """A line of taps as one run of terms; None where the taps of a line do not follow one another."""
    own = [k for k, axis in enumerate(walk.left.axes) if walk.taps and walk.taps[0] in axis.steps]
    if walk.found.batch or len(own) != 1 or walk.left.axes[own[0]].steps[walk.taps[0]] != 1:
        return None
    tap, width = walk.taps[0], ceil_power(max(walk.run, LEAST_CHANNELS))
    last = (own[0], channels)
    others = [k for k in range(len(walk.left.axes)) if k not in last]
    order = [*sorted(others, key=lambda k: -abs(walk.left.axes[k].stride)), *last]
    left, lines = _roomy(walk, walk.left, order, PLACES, width)
    every = _order(walk)
    right, weights = _roomy(walk, walk.right, every, WEIGHTS, width)
    if set(walk.right.axes[every[-1]].steps) != {walk.inner} or tap not in walk.right.axes[every[-2]].steps:
        return None
    run = width * walk.found.sizes[tap]
    return replace(walk, left=left, right=right, taps=walk.taps[1:], run=run), [lines, weights]


def _roomy(
    walk: WindowWalk, of: WindowedOperand, order: Sequence[int], name: str, width: int
) -> tuple[WindowedOperand, Map]:
    """A factor in memory of its own, with zeros where indices lie outside, and so many channels."""
    axes: list[Axis] = []
    firsts: list[int] = []
    for axis in of.axes:
        reaches = [(walk.found.sizes[k] - 1) * step for k, step in axis.steps.items()]
        low, high = (axis.first + sum(limit(far, 0) for far in reaches) for limit in (min, max))
        size = width if walk.inner in axis.steps else high - low + 1
        axes.append(axis._replace(size=size, first=axis.first - low, is_limited=False))
        firsts.append(low)
    packed = WindowedOperand("", of.kind, 0, tuple(axes)).packed(name, order)
    indices: list[Expr] = []
    limits: list[int | None] = []
    for k, axis in enumerate(of.axes):
        place, low = coordinate(order.index(k)), firsts[k]
        indices.append(place + low if low else place)
        limits.append(None if low >= 0 and low + axes[k].size <= axis.size else axis.size)
    value = reach(0, of.kind, indices, limits, const(0, DataType(of.kind)))
    sizes = tuple(axes[k].size for k in order)
    strides = tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))
    return packed, Map((of.view,), View(name, of.kind, sizes, strides), value)


# How convolutions are cut into tiles: what did best on a H200.


class ImplicitGemmTile(NamedTuple):
    """A tile's places, channels and terms, and what of a multiprocessor it takes."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    time: float = 1.0
    """Of one tile by itself: in us, of 256 channels by 3 x 3 taps."""
    more: float = 1.0
    """The part of that which a second tile on the same multiprocessor takes."""
    precision: str = "ieee"
    has_blocks: bool = False
    """Whether it is quicker where the hardware reads blocks of weights by itself."""
    beside: int = 0
    """Places beside those, with sums of their own."""

    @property
    def high(self) -> int:
        """All places."""
        return self.rows + self.beside


HALF = (
    ImplicitGemmTile(64, 128, 128, 8, 3, 15.5, 1.35, has_blocks=True, beside=32),
    ImplicitGemmTile(128, 128, 128, 8, 3, 19.1, 1.0, has_blocks=True),
    ImplicitGemmTile(128, 128, 64, 8, 3, 21.0, 0.7, has_blocks=True),
    ImplicitGemmTile(128, 64, 64, 4, 3, 13.0, 0.92),
    ImplicitGemmTile(64, 64, 64, 4, 4, 8.8, 0.73),
    ImplicitGemmTile(64, 64, 128, 4, 4, 8.4, 1.17),
    ImplicitGemmTile(64, 32, 128, 4, 4, 7.6, 0.8),
    ImplicitGemmTile(16, 64, 128, 4, 4, 7.3, 0.8, has_blocks=True),
)
"""32 pictures of 64 channels, 56 x 56, by 3 x 3 taps: 25.2 us with 4 warps, 27.0 with 8; cuDNN 25.6. Of 256 channels,
14 x 14: 18.8 us in tiles of 96 places, of which there are 132, and 20.6 in those of 128; cuDNN 17.0. The latter by 64
terms at once take 1.4 us more, and without blocks 0.8; 128 channels of 28 x 28 first take 27.0 in two rounds of the
former, and 25.0 otherwise."""
SINGLE = (
    ImplicitGemmTile(128, 64, 32, 4, 3, 113.0, 0.78, "tf32x3"),
    ImplicitGemmTile(64, 64, 32, 4, 4, 70.0, 0.56, "tf32x3"),
    ImplicitGemmTile(64, 32, 32, 4, 4, 47.8, 0.6, "tf32x3"),
    ImplicitGemmTile(16, 64, 32, 4, 4, 33.6, 0.65, "tf32x3"),
)
"""The same in FLOAT32: 105 us, with 128 columns at once 142; cuDNN 239."""
TINY = ImplicitGemmTile(16, 16, 16, 1, 1)
"""The shape for the interpreter."""
K_STEP = 16
"""Terms at once: what the hardware multiplies."""


def tile_of(
    rows: int, columns: int, terms: int, groups: int, kind: DataType, figures: Figures, *, has_parts: bool
) -> ImplicitGemmTile:
    """The cut that takes the least time, as far as whole rounds of tiles over all multiprocessors tell.

    `terms` are those of a tap, or all where they are walked together. With `has_parts` tiles may have places beside,
    where they fill the terms.
    """
    if IS_INTERPRETED:
        is_half = kind is DataType.FLOAT16
        beside = TINY.rows if is_half and has_parts and terms % TINY.depth == 0 else 0
        return TINY._replace(precision="ieee" if is_half else "tf32x3", beside=beside)

    def time(shape: ImplicitGemmTile) -> float:
        tiles = -(-rows // shape.high) * -(-columns // shape.columns) * groups
        rounds = -(-tiles // figures.multiprocessors)
        depth = _depth(shape, terms)
        return shape.time * (1 + shape.more * (rounds - 1)) * (-(-terms // depth) * depth)

    shapes = HALF if kind is DataType.FLOAT16 else SINGLE
    fit = (shape for shape in shapes if not shape.beside or (has_parts and terms % _depth(shape, terms) == 0))
    best = min(fit, key=time)
    return best._replace(depth=_depth(best, terms))


def _depth(shape: ImplicitGemmTile, terms: int) -> int:
    """The terms at once, where there are few."""
    depth = shape.depth
    while depth > K_STEP and terms <= depth // 2:
        depth //= 2
    return depth


# The Triton function: a tile of output positions by channels a program, with its epilogue.


@dataclass(frozen=True, slots=True)
class Ranks:
    """How many dimensions there are of a kind."""

    rows: int
    terms: int
    """Beside the innermost."""
    limits: int
    """Dimensions of the source that windows may lie outside of."""


def emit_window(
    value: Expr,
    fold: Expr,
    way: str,
    ranks: Ranks,
    dimensions: dict[int, str],
    lines_of: Sequence[int],
    is_transposed: bool,
    has_blocks: bool = False,
    has_parts: bool = False,
) -> Emitted:
    """A kernel; `dimensions` names the coordinates: `r0` of places, the fastest first, `column` and `group`.

    `lines_of` has for each load outside of the sum, and for the target, how many places always lie beside one another.
    `is_transposed` where neighbours in the target are places: what comes after the sum then goes by channel and place.
    `has_blocks` where the hardware reads blocks of the right factor by itself: channels by terms.
    `has_parts` where the places of a tile are in two parts: products are then of channels by places, so that both parts
    share the channels.
    """
    nodes = list(walk_nodes(value, known=(fold,)))
    loads = [node for node in nodes if node.op == "load"]
    given = [node for node in nodes if node.op == "given"]
    pointers = ["p0", "p1", *(f"p{k}" for k in range(2, 2 + len(loads))), "target"]
    views = range(len(loads) + 1)
    numbers = [
        "shape", "row_sizes", "left_rows", "left_terms", "left_more", "right_terms", "right_more",
        *(f"{of}{k}" for k in range(ranks.limits) for of in ("limit_rows", "limit_terms", "limit_more")),
        *(f"{of}{k}" for k in views for of in ("view_rows", "view_more")),
    ]  # fmt: skip
    chosen = [f"given{number}" for number in range(len(given))]
    lines = [
        "@triton.jit",
        f"def generated_window({', '.join([*pointers, *numbers, *chosen, 'TILE: tl.constexpr'])}):",
        *("    " + line for line in _head(ranks, has_blocks, has_parts)),
        *("    " + line for line in _loop(way, ranks, has_blocks, has_parts)),
    ]
    across = (
        {"row": "[None, :]", "column": "[:, None]"} if is_transposed else {"row": "[:, None]", "column": "[None, :]"}
    )
    outside: dict[Expr, str] = {}
    for node, name in zip(given, chosen, strict=True):
        outside[node] = f"v{len(lines)}"
        lines.append(f"    {outside[node]} = {given_text(name, node)}")

    def place(base: str, view: int) -> str:
        row, count, align = weighted("r", f"view_rows{view}", ranks.rows), lines_of[view], f"TILE.aligns[{view + 2}]"
        if count > 1:  # which the compiler cannot see: strides are multiples of it, but for that of neighbours
            parts = [
                f"tl.multiple_of(group * view_more{view}[1], [{count}])",
                f"tl.max_contiguous(tl.multiple_of({row}, [{count}]), [{count}]){across['row']}",
                f"tl.multiple_of(column * view_more{view}[0], [{count}]){across['column']}",
            ]
        else:
            parts = [
                f"group * view_more{view}[1] * {align}",
                f"windows.far({row}, {align}){across['row']}",
                f"places.far(column, view_more{view}[0], TILE.steps[{view + 2}], {align}){across['column']}",
            ]
        return " + ".join([base, *parts])

    for part in PARTS if has_parts else PARTS[:1]:
        names = outside | {fold: "total"}
        if has_parts:
            lines += ["    " + line for line in (*_rows(ranks, part), f"total = {part}_total")]
        if is_transposed != has_parts:
            lines.append("    total = tl.trans(total)")
        lines.append(f"    there = is_row{across['row']} & is_column{across['column']}")
        for node in nodes:
            if node in names:
                continue
            if node.op == "load":
                view = loads.index(node)
                text = load_text(place(f"p{view + 2}", view), ["there"])
            elif node.op == "coordinate":
                name = dimensions.get(int(node.value), "group")
                text = f"{name}.to(tl.int64){'' if name == 'group' else across.get(name, across['row'])}"
            else:
                text = TRITON.text(node, names)
            names[node] = f"v{len(lines)}"
            lines.append(f"    {names[node]} = {text}")
        shape = f"TILE.columns, TILE.{part}" if is_transposed else f"TILE.{part}, TILE.columns"
        lines.append(f"    full = tl.broadcast_to({names[value]}, ({shape}))")
        lines.append(f"    tl.store({place('target', len(loads))}, full, mask=there)")
    return Emitted(function_of("\n".join(lines) + "\n"), tuple(given))


PARTS = ("rows", "beside")
"""Of the places of a tile."""


def _rows(ranks: Ranks, part: str) -> list[str]:
    """The places of a part, and which of them there are."""
    first = "high * (TILE.rows + TILE.beside)" + (" + TILE.rows" if part == "beside" else "")
    return [
        f"row = {first} + tl.arange(0, TILE.{part})",
        "is_row = row < places.known(shape[0], TILE.high)",
        *split("row", "r", "row_sizes", ranks.rows),
        *(f"r{k} = windows.index(r{k}, TILE)" for k in range(ranks.rows)),
    ]


def _head(ranks: Ranks, has_blocks: bool, has_parts: bool) -> list[str]:
    """This program's tile: its places and channels, and where windows begin."""
    lines = [
        "high, wide, group = windows.corner(shape, TILE)",
        "column = wide * TILE.columns + tl.arange(0, TILE.columns)",
        "is_column = column < places.known(shape[1], TILE.wide)",
    ]
    for part in PARTS if has_parts else PARTS[:1]:
        lines += [
            *_rows(ranks, part),
            "left = p0 + group * left_more[1] * TILE.aligns[0]",
            f"first = tl.where(is_row, {weighted('r', 'left_rows', ranks.rows)}, 0)",
            "left += windows.far(first, TILE.aligns[0])[:, None]",
        ]
        for k in range(ranks.limits):
            first = weighted("r", f"limit_rows{k}", ranks.rows, f"limit_more{k}[0].to(tl.int32)")
            lines.append(f"place{k} = ({first}).to(tl.int32)")
        if has_parts:
            lines += [
                f"{part}_{name} = {name}" for name in ("left", "is_row", *(f"place{k}" for k in range(ranks.limits)))
            ]
    if not has_blocks:
        lines += [
            "right = p1 + group * right_more[2] * TILE.aligns[1]",
            "last = tl.where(is_column, column, 0)",
            "right += places.far(last, right_more[1], TILE.steps[1], TILE.aligns[1])[None, :]",
        ]
    return lines


def _loop(way: str, ranks: Ranks, has_blocks: bool, has_parts: bool) -> list[str]:
    """The sum of a tile, in TILE.kind."""
    if has_parts:
        return _in_parts(ranks, has_blocks)
    lines = ["total = tl.full((TILE.rows, TILE.columns), 0, tl.float32)"]
    if way == "terms":
        return [*lines, *_by_term(ranks)]
    lines += [
        "term = tl.arange(0, TILE.depth)",
        "left += places.far(term, left_more[0], TILE.steps[0], TILE.aligns[0])[None, :]",
        *([] if has_blocks else ["right += places.far(term, right_more[0], TILE.inner, TILE.aligns[1])[:, None]"]),
        "for step in range(0, shape[3].to(tl.int32)):",
    ]
    body = ["tap = step // TILE.blocks", "deep = step % TILE.blocks * TILE.depth"]
    body += split("tap", "k", "TILE.taps", ranks.terms)
    body += [f"k{k} = windows.index(k{k}, TILE)" for k in range(ranks.terms)]
    # What differs from step to step is one number for the whole tile.
    sides = [("at", "left", "TILE.steps[0]"), *([] if has_blocks else [("to", "right", "TILE.inner")])]
    for name, side, step in sides:
        align = f"TILE.aligns[{side == 'right':d}]"
        shift = weighted("k", f"{side}_terms", ranks.terms)
        deep = f"places.far(deep, {side}_more[0], {step}, {align})"
        body.append(f"{name} = {side} + (windows.far({shift}, {align}) + {deep})")
    body.append("c = deep + term")
    inside = []
    for k in range(ranks.limits):
        body.append(f"now{k} = place{k} + ({weighted('k', f'limit_terms{k}', ranks.terms)})")
        inside.append(f"(now{k} >= 0) & (now{k} < limit_more{k}[2].to(tl.int32))")
    ok = " & ".join(["is_row", *inside])
    if has_blocks:
        body += [
            f"a = tl.load(at, mask=({ok})[:, None], other=0)",
            "b = p1.load([(group * right_more[2]).to(tl.int32) + wide * TILE.columns, step * TILE.depth]).T",
            _DOT,
        ]
        return [*lines, *("    " + line for line in body)]
    body += [
        "if TILE.is_even:",
        f"    a = tl.load(at, mask=({ok})[:, None], other=0)",
        "    b = tl.load(to) if TILE.is_filled else tl.load(to, mask=is_column[None, :], other=0)",
        "else:",
        f"    a = tl.load(at, mask=({ok})[:, None] & (c < places.known(shape[2], TILE.align))[None, :], other=0)",
        "    b = tl.load(to, mask=(c < places.known(shape[2], TILE.align))[:, None] & is_column[None, :], other=0)",
        _DOT,
    ]
    return [*lines, *("    " + line for line in body)]


_DOT = "total = tl.dot(a, b, total, input_precision=TILE.precision)"


def _in_parts(ranks: Ranks, has_blocks: bool) -> list[str]:
    """The sums of both parts of a tile, channels by places, of terms that tiles fill."""
    far = "places.far({0}, {1}_more[0], {2}, TILE.aligns[{3}])"
    lines = ["term = tl.arange(0, TILE.depth)"]
    for part in PARTS:
        lines.append(f"{part}_total = tl.full((TILE.columns, TILE.{part}), 0, tl.float32)")
        lines.append(f"{part}_left += {far.format('term', 'left', 'TILE.steps[0]', 0)}[None, :]")
    if not has_blocks:
        lines.append(f"right += {far.format('term', 'right', 'TILE.inner', 1)}[:, None]")
    body = ["tap = step // TILE.blocks", "deep = step % TILE.blocks * TILE.depth"]
    body += split("tap", "k", "TILE.taps", ranks.terms)
    body += [f"k{k} = windows.index(k{k}, TILE)" for k in range(ranks.terms)]

    def shift(side: str, step: str, number: int) -> str:
        whole = weighted("k", f"{side}_terms", ranks.terms)
        return f"windows.far({whole}, TILE.aligns[{number}]) + {far.format('deep', side, step, number)}"

    body.append(f"at = {shift('left', 'TILE.steps[0]', 0)}")
    if has_blocks:
        body.append("b = p1.load([(group * right_more[2]).to(tl.int32) + wide * TILE.columns, step * TILE.depth])")
    else:
        body.append(f"to = right + ({shift('right', 'TILE.inner', 1)})")
        body.append("b = tl.load(to, mask=is_column[None, :], other=0).T")
    for k in range(ranks.limits):
        body.append(f"by{k} = {weighted('k', f'limit_terms{k}', ranks.terms)}")
    for part in PARTS:
        inside = [f"{part}_is_row"]
        for k in range(ranks.limits):
            now = f"({part}_place{k} + (by{k}))"
            inside.append(f"({now} >= 0) & ({now} < limit_more{k}[2].to(tl.int32))")
        body.append(f"a = tl.load({part}_left + at, mask=({' & '.join(inside)})[:, None], other=0)")
        body.append(f"{part}_total = tl.dot(b, a.T, {part}_total, input_precision=TILE.precision)")
    return [*lines, "for step in range(0, shape[3].to(tl.int32)):", *("    " + line for line in body)]


def _by_term(ranks: Ranks) -> list[str]:
    """All terms one after the other, each taken apart by itself."""
    lines = ["for step in range(0, shape[3].to(tl.int32)):"]
    body = [
        "number = step * TILE.depth + tl.arange(0, TILE.depth)",
        "is_term = number < shape[4]",
        "c = number % shape[2].to(tl.int32)",
        "tap = number // shape[2].to(tl.int32)",
        *split("tap", "k", "TILE.taps", ranks.terms),
        *(f"k{k} = windows.index(k{k}, TILE)" for k in range(ranks.terms)),
    ]
    shift = weighted("k", "left_terms", ranks.terms)
    body.append(f"at = left + (({shift} + c * left_more[0]) * TILE.aligns[0])[None, :]")
    shift = weighted("k", "right_terms", ranks.terms)
    body.append(f"to = right + (({shift} + c * right_more[0]) * TILE.aligns[1])[:, None]")
    ok = "is_row[:, None] & is_term[None, :]"
    for k in range(ranks.limits):
        terms = f"{weighted('k', f'limit_terms{k}', ranks.terms)} + c * limit_more{k}[1].to(tl.int32)"
        body.append(f"now{k} = place{k}[:, None] + ({terms})[None, :]")
        ok += f" & (now{k} >= 0) & (now{k} < limit_more{k}[2].to(tl.int32))"
    body += [
        f"a = tl.load(at, mask={ok}, other=0)",
        "b = tl.load(to, mask=is_term[:, None] & is_column[None, :], other=0)",
        _DOT,
    ]
    return [*lines, *("    " + line for line in body)]


def names_of(rows: Sequence[int], columns: Sequence[int], groups: Sequence[int]) -> dict[int, str]:
    """The coordinates of dimensions of the walk, by number; rows come the fastest first."""
    return {
        **{dimension: f"r{k}" for k, dimension in enumerate(rows)},
        **dict.fromkeys(columns, "column"),
        **dict.fromkeys(groups, "group"),
    }


# Convolutions, planned: how factors are brought, by which tiles they are multiplied, and what comes of each sum.


FEW_PRODUCTS = 32
"""Products of a place and a tap below which taps are walked together: a tile of the hardware's would be empty."""
ARCHITECTURE = 90
"""From which on the hardware reads blocks by itself."""
SHORT = 64
"""Places of one line below which products of matrices leave places to this."""


def has_few_terms(walk: WindowWalk) -> bool:
    """A tap has fewer than 16 terms, or windows reach outside along them: terms of all taps are walked together."""
    return walk.run < K_STEP or any(walk.inner in axis.steps for axis in walk.left.limits)


WAYS = (
    Route("terms", has_few_terms),
    Route("taps", always, measured="32 x 64 channels of 56 x 56 by 3 x 3 take 25.2 us, and cuDNN 25.6 (FLOAT16, H200)"),
)
"""How factors are read: terms of all taps together, or tap by tap."""


class ImplicitGemmProgram(PreparedProgram):
    """A convolution, planned."""

    __slots__ = ()

    @classmethod
    def plan(cls, primitive: Reduce, figures: Figures, constants: frozenset[str]) -> ImplicitGemmProgram | None:
        """For sums over windows, of FLOAT32 and FLOAT16; None for others, and for what is a product of matrices."""
        primitive = replace(primitive, value=expand(primitive.value))
        walk = walk_of(primitive)
        if walk is None or not _is_ours(walk):
            return None
        primitive = replace(primitive, value=_bounded(primitive.value, walk.found.fold))
        walk, laid_out = lay_out(walk)
        kernel, bases = _kernel(primitive, walk, figures, has_blocks=True)
        is_read_so = any(isinstance(pointer, BlockDescriptor) for pointer in kernel.pointers)
        otherwise = (lambda: _kernel(primitive, walk, figures)[0]) if is_read_so else None
        return cls.of(kernel, bases, laid_out, primitive.sources, constants, otherwise)


def _is_ours(walk: WindowWalk) -> bool:
    """Whether it is no product of matrices: windows overlap, reach outside, or lie apart, a few places to a line."""
    left, sizes = walk.left, walk.found.sizes
    _, columns, terms = walk.shape
    if walk.groups > 1 and columns * walk.run < FEW_PRODUCTS and terms <= MOST_TAPS:
        return False
    if left.limits or walk.taps:
        return True
    run = sizes[walk.rows[0]]
    for fast, slow in zip(walk.rows, walk.rows[1:], strict=False):
        if left.stride(slow) != left.stride(fast) * sizes[fast]:
            return run < SHORT
        run *= sizes[slow]
    return False


def _bounded(value: Expr, fold: Expr) -> Expr:
    """A tree with what the hardware has one instruction for, but within the sum."""
    made = {fold: fold}
    for node in walk_nodes(value, known=(fold,)):
        made[node] = bounded(Expr(node.op, node.type, tuple(made[arg] for arg in node.args), node.value))
    return made[value]


def _block(walk: WindowWalk, shape: ImplicitGemmTile, figures: Figures) -> BlockDescriptor | None:
    """The right factor as lines of terms, of which the hardware reads blocks by itself; None where it is none."""
    right, width = walk.right, walk.kind.size_in_bytes
    _, columns, terms = walk.shape
    stride = right.stride(walk.found.columns[0]) if walk.found.columns else 0
    apart = right.stride(walk.found.batch[0]) if walk.found.batch else 0
    if IS_INTERPRETED or figures.target.arch < ARCHITECTURE or walk.run % shape.depth or right.stride(walk.inner) != 1:
        return None
    run = walk.run
    for tap in walk.taps:
        if right.stride(tap) != run and walk.found.sizes[tap] > 1:
            return None
        run *= walk.found.sizes[tap]
    if stride < terms or stride * width % ALIGNMENT or apart % stride or apart < 0:
        return None
    lines = apart // stride * (walk.groups - 1) + columns
    return BlockDescriptor(kind_of(walk.kind), (lines, terms), stride, (shape.columns, shape.depth))


def _kernel(primitive: Reduce, walk: WindowWalk, figures: Figures, *, has_blocks: bool = False) -> tuple[Kernel, Bases]:
    found, left, right = walk.found, walk.left, walk.right
    sizes, inner = found.sizes, walk.inner
    column, group = (of[0] if of else None for of in (found.columns, found.batch))
    limits = left.limits
    way = choose(WAYS, walk).name
    is_few = way == "terms"
    rows, columns, terms = walk.shape
    channels = walk.run
    loads = [node for node in walk_nodes(primitive.value, known=(found.fold,)) if node.op == "load"]
    common = rows, columns, terms if is_few else channels, walk.groups, walk.kind, figures
    # ResNet-50 with a batch of 32, whose sums have biases added, took 1.35 ms with parts and 1.33 without on a H200.
    shape = tile_of(*common, has_parts=not is_few and not loads)
    if shape.beside and not IS_INTERPRETED and (not has_blocks or _block(walk, shape, figures) is None):
        shape = tile_of(*common, has_parts=False)
    target = primitive.target
    is_transposed = column is not None and abs(target.strides[column]) != 1 and abs(target.strides[walk.rows[0]]) == 1
    ranks = Ranks(len(walk.rows), len(walk.taps), len(limits))
    names = names_of(walk.rows, found.columns, found.batch)
    views = [primitive.sources[int(node.value)] for node in loads]
    lines = [_line(view, walk) for view in (*views, target)]
    block = _block(walk, shape, figures) if has_blocks and shape.has_blocks and not is_few else None
    note(Route(f"tiles of {shape.high} x {shape.columns} x {shape.depth}", tile_of))
    made = emit_window(
        primitive.value, found.fold, way, ranks, names, lines, is_transposed, block is not None, shape.beside > 0
    )

    def along(of: WindowedOperand, dimension: int | None) -> int:
        return 0 if dimension is None else of.stride(dimension)

    def tuple_of(strides: Sequence[int], align: int) -> tuple[int, ...]:
        return over(strides, align) or (0,)

    left_rows, left_taps = ([left.stride(k) for k in of] for of in (walk.rows, walk.taps))
    left_more = [left.stride(inner), along(left, group)]
    right_taps = [right.stride(k) for k in walk.taps]
    right_more = [right.stride(inner), along(right, column), along(right, group)]
    left_step, right_step, right_inner = step_of(left_more[0]), step_of(right_more[1]), step_of(right_more[0])
    steps_matter = not is_few
    left_align = alignment_of([*left_rows, *left_taps, *(left_more if left_step == 2 or is_few else left_more[1:])])
    known = {0} if right_inner != 2 and steps_matter else set[int]()
    known |= {1} if right_step != 2 else set()
    right_align = alignment_of([*right_taps, *(stride for k, stride in enumerate(right_more) if k not in known)])
    if block is not None:
        right_more, right_align = [0, 0, right_more[2] // block.stride], 1
    aligns, steps, numbers = [left_align, right_align], [left_step, right_step], list[tuple[int, ...]]()
    for view in (*views, target):
        own = [view.strides[k] for k in walk.rows]
        more = [view.strides[k] if k is not None else 0 for k in (column, group)]
        step = step_of(more[0])
        aligns.append(1 if lines[len(aligns) - 2] > 1 else alignment_of([*own, *(more if step == 2 else more[1:])]))
        steps.append(step)
        numbers += [over(own, aligns[-1]), over(more, aligns[-1])]
    bounds = []
    for axis in limits:
        bounds += [
            tuple(axis.steps.get(k, 0) for k in walk.rows),
            tuple(axis.steps.get(k, 0) for k in walk.taps) or (0,),
            (axis.first, axis.steps.get(inner, 0), axis.size),
        ]
    blocks = -(-channels // shape.depth)
    tile = WindowConstants(
        rows=shape.rows, columns=shape.columns, depth=shape.depth, blocks=blocks,
        taps=tuple(sizes[k] for k in walk.taps), precision=shape.precision, aligns=tuple(aligns), steps=tuple(steps),
        inner=right_inner, align=divisor_of(channels), wide=min(divisor_of(columns), shape.columns),
        high=min(divisor_of(rows), shape.rows), is_even=channels % shape.depth == 0,
        is_filled=columns % shape.columns == 0,
        is_long=max(left.reach, right.reach, *(_reach(view.sizes, view.strides) for view in (*views, target))) >= 2**31,
        beside=shape.beside,
    )  # fmt: skip
    high = -(-rows // shape.high)
    count = -(-terms // shape.depth) if is_few else blocks * found.count(walk.taps)
    fixed: Numbers = (
        (rows, columns, channels, count, terms, high),
        tuple(sizes[k] for k in walk.rows),
        over(left_rows, left_align), tuple_of(left_taps, left_align), over(left_more, left_align),
        tuple_of(right_taps, right_align), over(right_more, right_align),
        *bounds, *numbers, *made.numbers,
    )  # fmt: skip
    programs = high * -(-columns // shape.columns) * walk.groups
    pointers: list[str | BlockDescriptor] = [kind_of(walk.kind), block or kind_of(walk.kind)]
    pointers += [kind_of(view.data_type) for view in (*views, target)]
    kernel = Kernel(
        made.function, tuple(pointers), fixed, {"TILE": tile}, programs, shape.warps, figures, fuses=False,
        stages=shape.stages,
    )  # fmt: skip
    width = walk.kind.size_in_bytes
    bases = [(left.tensor, left.start * width), (right.tensor, right.start * width)]
    return kernel, (*bases, *bases_of((*views, target), [view.offset for view in (*views, target)]))


def _line(view: View, walk: WindowWalk) -> int:
    """How many places lie beside one another wherever a multiple of as many begins."""
    count = 1
    for k in walk.rows:
        if view.strides[k] != count:
            break
        count *= walk.found.sizes[k]
    strides = [view.strides[k] for k in (*walk.rows, *walk.found.columns, *walk.found.batch)]
    return alignment_of((count, *(stride for stride in strides if abs(stride) >= count))) if count > 1 else 1


def _reach(sizes: Sequence[int], strides: Sequence[int]) -> int:
    return sum(abs(stride) * size for size, stride in zip(sizes, strides, strict=True))
