"""The Triton function of an implicit GEMM: a tile of output positions by channels a program, with its epilogue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from anydml.engines.cuda.codegen.expressions import TRITON, Emitted, function_of, given_text, load_text, split, weighted
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.ir.expressions import Expr


Way: TypeAlias = Literal["taps", "terms"]
"""How factors are read: tap by tap, or term by term where a tap has few."""


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
    way: Way,
    ranks: Ranks,
    dimensions: dict[int, str],
    lines_of: Sequence[int],
    is_turned: bool,
    has_blocks: bool = False,
    has_parts: bool = False,
) -> Emitted:
    """A kernel; `dimensions` names the coordinates: `r0` of places, the fastest first, `column` and `group`.

    `lines_of` has for each load outside of the sum, and for the target, how many places always lie beside one another.
    `is_turned` where neighbours in the target are places: all that comes after the sum then goes by channel and place.
    `has_blocks` where the hardware reads blocks of the right factor by itself: channels by terms.
    `has_parts` where the places of a tile are in two parts: products are then of channels by places, so that both parts
    share the channels.
    """
    nodes = list(walk(value, known=(fold,)))
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
    across = {"row": "[None, :]", "column": "[:, None]"} if is_turned else {"row": "[:, None]", "column": "[None, :]"}
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
        if is_turned != has_parts:
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
        shape = f"TILE.columns, TILE.{part}" if is_turned else f"TILE.{part}, TILE.columns"
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


def _loop(way: Way, ranks: Ranks, has_blocks: bool, has_parts: bool) -> list[str]:
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
