"""Weight-only quantisation: products of a few rows with 4- and 8-bit weights, read as they lie. Planned, and written as
a Triton function.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.engines.common.dialect import bits_of
from anydml.engines.common.program import Program
from anydml.engines.common.tiles import ceil_power
from anydml.engines.cuda.codegen.expressions import TRITON, bounded, function_of, given_text
from anydml.engines.cuda.launch import IS_INTERPRETED, Bases, Kernel, bases_of, kind_of
from anydml.engines.cuda.rows.reduce import ReduceProgram
from anydml.ir.blocked_weights import match_weights
from anydml.ir.loops import Loops, simplify
from anydml.ir.numerics import expand
from anydml.ir.trees import rewrite, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.common.tiles import Numbers
    from anydml.engines.cuda.device import Figures
    from anydml.ir.blocked_weights import Weights
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Reduce
    from anydml.ir.views import View

# From a sum of a·q·s, with weights q of few bits, and the expression around it to a Triton function.


@dataclass(frozen=True, slots=True)
class WeightsForm:
    """The facts that the text of a kernel depends on besides the expression."""

    rows: int
    bits: int
    """Of a weight: 4 or 8."""
    flip: int
    """The bits of a word to be turned, which makes numbers with a sign others without."""
    zero: float
    """The excess of the weights then, where it is no load."""
    times: int
    """Words of a thread in a step."""
    is_even: bool
    """Whether steps fill the columns' lengths."""
    by_block: tuple[bool, ...]
    """By load of the left factor, whether there is one for a block alone."""


def emit_weights(value: Expr, found: Weights, lefts: Sequence[Expr], rests: Sequence[Expr], form: WeightsForm) -> Any:
    """A kernel: some columns a program, with all rows.

    It takes pointers (weights, scales, zero points where they are loads, the left factor's loads, the others', the
    target), the numbers of columns and of words, two strides of each view, the user's numbers, and TILE.
    """
    has_zeros = found.right.has_zeros
    given = [node for node in walk(value) if node.op == "given"]
    own = ["scale", *(["zero"] if has_zeros else [])]
    pointers = ["weights_", *own, *(f"left{k}" for k in range(len(lefts))), *(f"rest{k}" for k in range(len(rests)))]
    pointers.append("target")
    strides = [f"strides_{name}" for name in pointers]
    chosen = [f"given{k}" for k in range(len(given))]
    lines = [
        "@triton.jit",
        f"def generated_weights({', '.join([*pointers, 'columns', 'units', *strides, *chosen])}, TILE: tl.constexpr):",
        "    first_column = tl.program_id(0) * TILE.columns",
        "    count, length = columns.to(tl.int32), units.to(tl.int32)",
        "    ask_for_lines(weights_, strides_weights_[0], first_column, count, length, TILE.columns, TILE.units)",
        "    wait_for_previous()",
        "    column = first_column + tl.arange(0, TILE.columns)",
        "    is_column = column < columns",
        "    across = column.to(tl.int64)[None, :]",
        "    inside = is_column[None, :]",
    ]
    names: dict[Expr, str] = {}
    for node, name in zip(given, chosen, strict=True):
        names[node] = f"v_{name}"
        lines.append(f"    v_{name} = {given_text(name, node)}")
    lines += [f"    total{m} = tl.full((TILE.units, TILE.columns), 0, tl.float32)" for m in range(form.rows)]
    lines.append(f"    for first in range(0, units.to(tl.int32), {form.times} * TILE.units):")
    lines += [f"        {line}" for line in _step(found, lefts, has_zeros, names, form)]
    for m in range(form.rows):
        lines.append(f"    sum{m} = tl.sum(total{m}, 0)")
        lines += [f"    {line}" for line in _finish(value, found.fold, rests, names, m)]
    return function_of("\n".join(lines) + "\n")


def _step(
    found: Weights, lefts: Sequence[Expr], has_zeros: bool, given: Mapping[Expr, str], form: WeightsForm
) -> list[str]:
    """Words of weights, one a thread: every row with all of them.

    Words that are neighbours are read by threads that are, so that what they need of a row lies together too; a stride
    of 1 that the compiler does not know keeps it from giving four of them to one thread.
    """
    each = 32 // form.bits
    lines = []
    for time in range(form.times):
        lines += [f"unit{time} = first + {time} * TILE.units + tl.arange(0, TILE.units)"]
        mask = "inside"
        if not form.is_even:
            lines.append(f"there{time} = unit{time} < units")
            mask = f"inside & there{time}[:, None]"
        place = f"weights_ + across * strides_weights_[0] + unit{time}[:, None] * strides_weights_[1]"
        flip = f" ^ {form.flip}" if form.flip else ""
        lines.append(f"word{time} = tl.load({place}, mask={mask}, other=0){flip}")
        lines.append(f"block{time} = (unit{time} // TILE.block).to(tl.int64)")
        for name in ("scale", *(["zero"] if has_zeros else [])):
            place = f"{name} + across * strides_{name}[0] + block{time}[:, None] * strides_{name}[1]"
            lines.append(f"{name}{time} = tl.load({place}, mask={mask}, other=0).to(tl.float32)")
    if not has_zeros:
        lines.append(f"zero_ = tl.full((), {form.zero!r}, tl.float32)")
    for time in range(form.times):
        zero = f"zero{time}" if has_zeros else "zero_"
        along = "" if form.is_even else f", mask=there{time}[:, None], other=0"
        for m in range(form.rows):
            for i in range(each // 4):
                names = dict(given)
                for k, (node, is_by_block) in enumerate(zip(lefts, form.by_block, strict=True)):
                    start = f"left{k} + {m} * strides_left{k}[0]"
                    names[node] = f"x{k}"
                    if is_by_block:
                        at = f"{start} + (block{time} * strides_left{k}[1])[:, None]"
                    else:
                        at = f"{start} + (unit{time}[:, None] * {each} + {4 * i} + tl.arange(0, 4)[None, :])"
                    lines.append(f"x{k} = tl.load({at}{along})")
                lines += TRITON.tree(found.left, names, "y")
                four = ", ".join(f"a{4 * i + k}" for k in range(4))
                lines.append(f"{four} = weights.four({names[found.left]})")
            numbers = ", ".join(f"a{k}" for k in range(each))
            add = "add_nibbles" if form.bits == 4 else "add_bytes"
            none = "tl.full((TILE.units, TILE.columns), 0, tl.float32)"
            lines.append(f"part = weights.{add}({none}, word{time}, {zero}, {numbers})")
            lines.append(f"total{m} = arithmetic.fma(part, scale{time}, total{m})")
    return lines


def _finish(value: Expr, fold: Expr, rests: Sequence[Expr], given: Mapping[Expr, str], m: int) -> list[str]:
    """The result of the sums of a row."""
    names, lines = {**given, fold: f"sum{m}"}, []
    for k, node in enumerate(rests):
        names[node] = f"r{m}_{k}"
        place = f"rest{k} + {m} * strides_rest{k}[0] + column.to(tl.int64) * strides_rest{k}[1]"
        lines.append(f"{names[node]} = tl.load({place}, mask=is_column)")
    lines += TRITON.tree(value, names, f"f{m}_")
    place = f"target + {m} * strides_target[0] + column.to(tl.int64) * strides_target[1]"
    lines.append(f"tl.store({place}, {names[value]}, mask=is_column)")
    return lines


# Products of a few rows with weights of few bits, planned: the weights are read as they lie.


WORD = 4
"""Bytes."""
MOST_ROWS, MOST_MULTIPLIED = 8, 16
"""Of a program, each with sums of its own, and of a product: more are halved, where tensor cores do not take them."""


COLUMNS = 4 if IS_INTERPRETED else 8
"""Of a program."""


def _cut(rows: int, words: int) -> tuple[int, int]:
    """Of a column, the words that threads read side by side, and how many each reads before it computes.

    1, 2, 4 and 8 rows by 4096^2 of 4 bits take 7.8, 9.2, 14.8 and 24.2 us on a H200 with FLOAT32, and 7.8, 9.1, 12.7
    and 20.7 us with FLOAT16.
    """
    threads = 8 if IS_INTERPRETED else 128 if rows <= 2 else 64
    tile = min(ceil_power(words), threads)
    return tile, min(-(-words // tile), 4 if rows == 1 else 2 if 2 < rows <= 4 else 1)


class WeightStep(NamedTuple):
    """The compiler's knowledge of a step: the columns, and the words of each."""

    columns: int
    units: int
    block: int
    """Words that share a scale."""


@dataclass(frozen=True, slots=True)
class WeightOnlyProgram(Program):
    """A product, planned."""

    kernel: Kernel | None
    """None of more rows than threads multiply one by one."""
    bases: Bases
    """The weights' first."""
    primitive: Reduce
    figures: Figures

    @classmethod
    def plan(cls, primitive: Reduce, figures: Figures) -> WeightOnlyProgram | None:
        """For weights of whole columns along the sum; None for others."""
        primitive = replace(primitive, value=rewrite(expand(primitive.value), bounded))
        found, value = match_weights(primitive), primitive.value
        if found is None or primitive.checks or not all(primitive.sizes):
            return None
        planned = form_of(primitive, found)
        if planned is None:
            return None
        form, lefts, rests, loops, units, block = planned
        if any(node.op in ("coordinate", "fetch") for node in walk(value, known=(found.fold,))):
            return None
        given = [node for node in walk(value) if node.op == "given"]
        rows, columns = loops
        leaves = [node for node in (found.right.byte, found.right.scale, found.right.zero) if node is not None]
        leaves = [node for node in leaves if node.op == "load"]
        views = [primitive.sources[int(node.value)] for node in (*leaves, *lefts, *rests)] + [primitive.target]
        first = len(primitive.sizes) - primitive.depth
        strides: list[tuple[int, ...]] = []
        for k, view in enumerate(views):
            row, column, along = sum(rows.strides[k]), sum(columns.strides[k]), sum(view.strides[first : first + 1])
            if k == 0:
                strides.append((column // WORD, 1))
            elif k < len(leaves):
                strides.append((column, along))
            else:
                strides.append((row, along) if k < len(leaves) + len(lefts) else (row, column))
        numbers: Numbers = (columns.count, units, *strides, *map(bits_of, given))
        kinds = ["i32", *(kind_of(view.data_type) for view in views[1:])]
        kernel = None
        if form.rows <= MOST_ROWS:
            made, (tile, _) = emit_weights(value, found, lefts, rests, form), _cut(form.rows, units)
            warps, programs = max(tile // 32, 1), -(-columns.count // COLUMNS)
            constants = {"TILE": WeightStep(COLUMNS, tile, block)}
            kernel = Kernel(made, tuple(kinds), numbers, constants, programs, warps, figures, fuses=False)
        if kernel is not None:
            kernel.prepare()
        return cls(kernel, bases_of(views, columns.offsets), primitive, figures)

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in; weights that do not begin with a word are taken apart as for any product."""
        addresses = [places[tensor] + offset for tensor, offset in self.bases]
        if addresses[0] % WORD:
            return ReduceProgram.plan(self.primitive, self.figures).bind(places)
        if self.kernel is not None:
            return self.kernel.launch(addresses)
        halves = _halves(self.primitive)
        plans = [self.plan(half, self.figures) or ReduceProgram.plan(half, self.figures) for half in halves]
        starts = [program.bind(places) for program in plans]

        def start() -> None:
            for one in starts:
                one()

        return start


def _halves(primitive: Reduce) -> list[Reduce]:
    """The same of a part of the rows, and of the others."""
    found = match_weights(primitive)
    assert found is not None  # noqa: S101 - for type checkers: it was planned
    weights = primitive.sources[int(found.right.byte.value)]
    rows = [k for k in range(len(primitive.sizes) - primitive.depth) if weights.strides[k] == 0]
    longest = max(rows, key=lambda k: primitive.sizes[k])
    middle = primitive.sizes[longest] // 2

    def part(view: View, start: int, size: int) -> View:
        sizes = (*view.sizes[:longest], size, *view.sizes[longest + 1 :])
        return replace(view, sizes=sizes, offset=view.offset + start * view.strides[longest])

    made = []
    for start, size in ((0, middle), (middle, primitive.sizes[longest] - middle)):
        sources = tuple(part(view, start, size) for view in primitive.sources)
        made.append(replace(primitive, sources=sources, target=part(primitive.target, start, size)))
    return made


def form_of(
    primitive: Reduce, found: Weights
) -> tuple[WeightsForm, list[Expr], list[Expr], tuple[Loops, Loops], int, int] | None:
    """The form of the kernel, the loads of the left factor and of the rest, the walks, units, units a block."""
    right, sizes, depth = found.right, primitive.sizes, primitive.depth
    kept = len(sizes) - depth
    is_paired = right.data_type.is_half_byte
    blocks, *inner = sizes[kept:]
    length = math.prod(inner)
    each = 2 * WORD if is_paired else WORD
    if depth != 2 + is_paired or length % each or (is_paired and (inner[1] != 2 or right.half != len(sizes) - 1)):
        return None

    def along(node: Expr) -> tuple[int, ...]:
        return primitive.sources[int(node.value)].strides[kept:]

    whole = (length // 2, 1, 0) if is_paired else (length, 1)
    loads = [node for node in (right.scale, right.zero) if node is not None and node.op == "load"]
    first = int(blocks == 1)
    if along(right.byte)[first:] != whole[first:] or any(any(along(node)[1:]) for node in loads):
        return None
    nodes = list(walk(found.left))
    lefts = [node for node in nodes if node.op == "load"]
    if not lefts or any(node.op in ("coordinate", "fetch") for node in nodes):
        return None
    by_element = (length, 2, 1) if is_paired else (length, 1)
    is_by_block = [not any(along(node)[1:]) for node in lefts]
    if any(not by and along(node)[first:] != by_element[first:] for node, by in zip(lefts, is_by_block, strict=True)):
        return None
    rests = [node for node in walk(primitive.value, known=(found.fold,)) if node.op == "load"]
    views = [primitive.sources[int(node.value)] for node in (right.byte, *loads, *lefts, *rests)] + [primitive.target]
    loops = _walks(views, sizes[:kept], 1 + len(loads), len(lefts))
    if loops is None or loops[0].count > MOST_MULTIPLIED or sum(loops[1].strides[0]) % WORD:
        return None
    zero = 0.0 if right.zero is None or right.zero.op == "load" else float(right.zero.value)
    flip = 0
    if right.data_type.is_signed:  # -8 to 7 is 0 to 15 less 8
        flip, zero = (-0x77777778, zero + 8) if is_paired else (-0x7F7F7F80, zero + 128)
        if right.has_zeros:
            return None
    units = blocks * length // each
    rows = loops[0].count
    tile, times = _cut(rows, units)
    bits = 4 if is_paired else 8
    form = WeightsForm(rows, bits, flip, zero, times, units % (times * tile) == 0, tuple(is_by_block))
    return form, lefts, rests, loops, units, length // each


def _walks(views: list[View], sizes: tuple[int, ...], own: int, lefts: int) -> tuple[Loops, Loops] | None:
    """The walk of all views by row and by column, one dimension each; None where there are more."""
    wide = [k for k, size in enumerate(sizes) if size > 1]
    columns = [k for k in wide if any(view.strides[k] for view in views[:own])]
    rows = [k for k in wide if k not in columns]
    if any(view.strides[k] for view in views[own : own + lefts] for k in columns):
        return None
    offsets = tuple(view.offset for view in views)
    made = []
    for group, lead in ((rows, own), (columns, 0)):
        strides = tuple(tuple(view.strides[k] for k in group) for view in views)
        loops = simplify(Loops(tuple(sizes[k] for k in group), strides, offsets), lead)
        if len(loops.sizes) > 1:
            return None
        offsets = loops.offsets
        made.append(loops)
    return made[0], made[1]
