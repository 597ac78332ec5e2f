"""Int4 weights on tensor cores for a few rows: prepacked as `mma` fragments, planned, and written in Triton."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.enums import DataType
from anydml.core.memory import packed_strides
from anydml.engines.common.dialect import bits_of
from anydml.engines.common.program import Program
from anydml.engines.common.tiles import ALIGNMENT, ceil_power
from anydml.engines.cuda.codegen.expressions import TRITON, TritonLines, bounded
from anydml.engines.cuda.launch import HOPPER, IS_INTERPRETED, Bases, Kernel, bases_of, kind_of
from anydml.engines.cuda.quant.weight_only import form_of
from anydml.ir.blocked_weights import match_weights
from anydml.ir.expressions import coordinate, load
from anydml.ir.numerics import expand
from anydml.ir.substitution import FILLED
from anydml.ir.trees import rewrite, walk
from anydml.ir.verbs import Map
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.common.tiles import Numbers
    from anydml.engines.cuda.device import Figures
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Reduce

BLOCK = 32
"""Weights of a column that two `mma` multiply."""
TILE = 16
"""Columns of one."""

# From a sum of a·q·s, with weights q of 4 bits, to a Triton function that multiplies on tensor cores.


@dataclass(frozen=True, slots=True)
class Int4MmaForm:
    """The facts that the text of a kernel depends on besides the expression."""

    rows: int
    warps: int
    """Each with groups of blocks of its own."""
    depth: int
    """Groups of a warp whose weights are on their way at once."""
    is_short: bool
    """Whether those are all that it has."""
    is_even: bool
    """Whether every warp has as many."""
    each: int
    """Blocks of a group: 2 or 4."""
    kind: DataType
    """Of rows."""
    zero: int
    """The excess of the weights, where blocks have no zero points."""
    shared: int
    """Blocks that share a scale: as many as divide a group, or some groups."""
    scales: DataType
    has_zeros: bool
    """Whether a block has a zero point of its own."""

    @property
    def scales_of_group(self) -> int:
        """The scales of a column in a group."""
        return max(self.each // self.shared, 1)


def emit_int4_mma(value: Expr, fold: Expr, rests: Sequence[Expr], form: Int4MmaForm, *, is_aligned: bool) -> Any:
    """A kernel: 16 columns a program, with all rows.

    It takes pointers (weights, scales, zero points where blocks have them, the left factor's load, the others', the
    target), the numbers of columns and of groups, two strides of each view that is not packed, and the user's numbers.
    Rows are aligned where 16 bytes of each may be read at once.
    """
    return _Writer(value, fold, rests, form, is_aligned=is_aligned).made()


class _Writer(TritonLines):
    def __init__(self, value: Expr, fold: Expr, rests: Sequence[Expr], form: Int4MmaForm, *, is_aligned: bool) -> None:
        super().__init__()
        self.value, self.fold, self.rests, self.form = value, fold, rests, form
        self.given = [node for node in walk(value) if node.op == "given"]
        self.is_half, self.read = form.kind is DataType.FLOAT16, "four" if is_aligned else "four_apart"
        self.eights = range(-(-form.rows // 8))
        """Of rows, each with sums of its own."""

    def made(self) -> Any:
        form = self.form
        own = ["scale", "zero"] if form.has_zeros else ["scale"]
        views = ["left", *(f"rest{k}" for k in range(len(self.rests))), "target"]
        chosen = [f"given{k}" for k in range(len(self.given))]
        strides = [f"strides_{name}" for name in views]
        self.define("nibbles", ["weights_", *own, *views, "columns", "groups", *strides, *chosen])
        self.take_given(self.given, chosen)
        scales, wide = form.scales_of_group, max(form.shared // form.each, 1)
        self.say(
            f"many, first = groups.to(tl.int32), tl.program_id(0) * {TILE}",
            f"lane = tl.arange(0, {32 * form.warps})",
            "within, line, warp = lane % 4, lane // 4 % 8, lane // 32",
            f"at = weights_ + tl.program_id(0).to(tl.int64) * many * {64 * form.each} + lane % 32 * 4",
            f"of_tile = tl.program_id(0).to(tl.int64) * (many // {wide}) * {TILE * scales} + line * {2 * scales}",
            *(f"{name}_at = {name} + of_tile" for name in own),
        )
        for slot in range(form.depth):  # weights never change: they are read before the kernel's turn
            self.ask(slot, str(slot))
        self.say("wait_for_previous()")
        for m in self.eights:
            place = f"tl.minimum(line + {8 * m}, {form.rows - 1}).to(tl.int64) * strides_left[0]"
            self.say(f"row{m} = left + {place} + within * 8")
        self.say("none = tl.zeros_like(lane).to(tl.float32)")
        self.say(*(f"total{m}_{i} = none" for m in self.eights for i in range(4)))
        if not form.is_short:
            self.say(f"steps = (many + {form.warps - 1}) // {form.warps}")
            self.say(f"for step in range(0, steps, {form.depth}):")
            self.indent = "        "
        for slot in range(form.depth):
            step = f"{slot}" if form.is_short else f"step + {slot}"
            self.multiply(slot, step)
            if not form.is_short:
                self.ask(slot, f"{step} + {form.depth}")
        self.indent = "    "
        for m in self.eights:
            totals = ", ".join(f"total{m}_{i}" for i in range(4))
            self.say(f"sum0, sum1, sum2, sum3 = int4_mma.together({totals})")
            for i in range(4):
                if 8 * m + i % 2 < form.rows:
                    self.finish(m, i)
        return self.function()

    def ask(self, slot: int, step: str) -> None:
        """Read the weights of a warp's group, their scales and zero points."""
        form = self.form
        self.say(f"group = ({step}) * {form.warps} + warp", "there = group < many")
        for part in range(form.each // 2):
            names = ", ".join(f"word{slot}_{4 * part + i}" for i in range(4))
            self.say(f"{names} = int4_mma.four_if(at + group * {64 * form.each} + {128 * part}, there)")
        wide = form.shared // form.each
        by = f"group // {wide}" if wide > 1 else "group"
        self.words(f"scale{slot}", f"scale_at + ({by}) * {TILE * form.scales_of_group}", form.scales.size_in_bytes)
        if form.has_zeros:
            self.words(f"zero{slot}", f"zero_at + ({by}) * {TILE * form.scales_of_group}", 2)

    def words(self, name: str, place: str, width: int) -> None:
        """Read what two columns have in a group, of so many bytes each: a power of two of words."""
        count = 2 * self.form.scales_of_group * width // 4
        for first in range(0, count, 4):
            names = ", ".join(f"{name}_{first + i}" for i in range(min(count - first, 4)))
            words = {1: "one", 2: "two"}.get(count, "four")
            self.say(f"{names} = int4_mma.{words}_if({place} + {first * 4 // width}, there)")

    def multiply(self, slot: int, step: str) -> None:
        """All rows with a group, block by block, of which the sums are scaled."""
        form, is_half = self.form, self.is_half
        self.say(f"group = ({step}) * {form.warps} + warp", "there = group < many")
        self.say(f"term = tl.minimum(group, many - 1) * {BLOCK * form.each}")
        for m in self.eights:
            for j in range(form.each):
                self.row(m, j)
        zero = form.zero
        ends = [1024 + zero, -64 - zero] if is_half else [128 + zero] * 2
        zeros = ", ".join(str(_twice(end, is_wide=not is_half)) for end in ends)
        unpack, kind = ("halves", "tl.float16") if is_half else ("wide_halves", "tl.bfloat16")
        for j in range(form.each):
            by = min(j // form.shared, form.scales_of_group - 1)
            self.scale(slot, by)
            if form.has_zeros:
                zeros = self.zeros(slot, by)
            for half in (0, 1):
                names = ", ".join(f"{letter}{half}" for letter in "abcd")
                self.say(f"{names} = int4_mma.{unpack}(word{slot}_{2 * j + half}, {zeros})")
            for m in self.eights:
                before = "none, none, none, none"
                for part in range(1 if is_half else 3):
                    for half in (0, 1):
                        weights = f"a{half}, b{half}, c{half}, d{half}"
                        first = 4 * part + 2 * half
                        rows = f"x{m}_{j}_{first}, x{m}_{j}_{first + 1}"
                        self.say(f"p0, p1, p2, p3 = int4_mma.product({before}, {weights}, {rows}, {kind})")
                        before = "p0, p1, p2, p3"
                totals = [f"total{m}_{i}" for i in range(4)]
                self.say(*(f"{total} = arithmetic.fma(p{i}, s{i // 2}, {total})" for i, total in enumerate(totals)))

    def row(self, m: int, j: int) -> None:
        """The numbers of eight rows for a block."""
        words = [f"x{m}_{j}_{i}" for i in range(4)] if self.is_half else [f"y{i}" for i in range(8)]
        for i in range(0, len(words), 4):
            self.say(f"{', '.join(words[i : i + 4])} = int4_mma.{self.read}(row{m} + (term + {BLOCK * j + i}))")
        if not self.form.is_even:  # infinity by a scale of 0 would be NaN
            self.say(*(f"{word} = tl.where(there, {word}, 0)" for word in words))
        if not self.is_half:
            parts = ", ".join(f"x{m}_{j}_{i}" for i in range(12))
            self.say(f"{parts} = int4_mma.pairs_of_singles({', '.join(words)})")

    def scale(self, slot: int, by: int) -> None:
        """The scales of a block's two columns."""
        for k in (0, 1):
            if self.form.scales is DataType.FLOAT16:
                bits = f"(scale{slot}_{by} >> {16 * k}).to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)"
            else:
                bits = f"scale{slot}_{2 * by + k}.to(tl.float32, bitcast=True)"
            self.say(f"s{k} = {bits}")

    def zeros(self, slot: int, by: int) -> str:
        """The zero points of a block's two columns, as the numbers are that they are taken off."""
        whole = _twice(1024) if self.is_half else _twice(128, is_wide=True)
        self.say(*(f"z{k} = (zero{slot}_{by} >> {16 * k} & 0xFFFF) * 0x10001 + {whole}" for k in (0, 1)))
        return "z0, int4_mma.below(z1)" if self.is_half else "z0, z1"

    def finish(self, m: int, i: int) -> None:
        """The results of the sums of columns g or g + 8 with the even rows of eight, or the odd ones."""
        names = {**self.names, self.fold: f"sum{i}"}
        self.say(
            f"column = (first + {8 * (i // 2)} + tl.arange(0, 32) // 4).to(tl.int64)",
            f"line = (tl.arange(0, 32) % 4 * 2 + {8 * m + i % 2}).to(tl.int64)",
            f"inside = (column < columns) & (line < {self.form.rows})",
        )
        for k, node in enumerate(self.rests):
            names[node] = f"r{k}"
            place = f"rest{k} + line * strides_rest{k}[0] + column * strides_rest{k}[1]"
            self.say(f"r{k} = tl.load({place}, mask=inside)")
        self.say(*TRITON.tree(self.value, names, "f"))
        place = "target + line * strides_target[0] + column * strides_target[1]"
        self.say(f"tl.store({place}, {names[self.value]}, mask=inside)")


def _twice(number: int, *, is_wide: bool = False) -> int:
    """The bits of a pair of equal FLOAT16, or of bfloat16, as an INT32."""
    one = int(np.float32(number).view(np.uint32)) >> 16 if is_wide else int(np.float16(number).view(np.uint16))
    both = one << 16 | one
    return both - 2**32 if both >= 2**31 else both


# Prepacking: 16 columns by 64 terms are 128 words side by side, four of each thread of a warp.


WEIGHTS, SCALES, ZEROS = "weights of mma", "scales of mma", "zero points of mma"
"""The names of layouts that are made ahead."""
BYTE = DataType.UINT8


def _packed_weights(view: View, apart: int, tiles: int, pairs: int, *, is_signed: bool) -> Map:
    """The bytes as threads have them: a word for each `mma`, in which weights of columns g and g + 8 lie side by side.

    A thread has eight neighbours along the sum of each column, four for an `mma`; a word's halves are neighbours.
    """
    # By tile, pair of blocks, column, thread of four, block, `mma`, neighbour, and which two of the four.
    sizes = (tiles, pairs, 8, 4, 2, 2, 2, 2)
    strides = (TILE * apart, BLOCK, apart, 4, 16, 2, 0, 1)
    both = [replace(view, sizes=sizes, strides=strides, offset=view.offset + k * 8 * apart) for k in (0, 1)]
    shift = coordinate(6).to(BYTE) * 4
    first, second = ((load(k, BYTE) >> shift) & 15 for k in (0, 1))
    packed = first | (second * 16)
    target = View(WEIGHTS, BYTE, sizes, packed_strides(sizes))
    return Map(tuple(both), target, packed ^ 0x88 if is_signed else packed)


def _packed_numbers(name: str, view: View, strides: tuple[int, int], sizes: tuple[int, int, int], of: DataType) -> Map:
    """Scales or zero points of so many tiles, groups, and blocks of a group; of columns g and g + 8 side by side."""
    (apart, along), (tiles, groups, each) = strides, sizes
    shape = (tiles, groups, 8, each, 2)
    source = replace(view, sizes=shape, strides=(TILE * apart, each * along, apart, along, 8 * apart))
    target, number = View(name, of, shape, packed_strides(shape)), load(0, view.data_type)
    return Map((source,), target, number if view.data_type is of else number.to(of))


# Products of a few rows with weights of 4 bits on tensor cores, planned.


LEAST_ROWS = {DataType.FLOAT16: 1, DataType.FLOAT32: 3}
"""Below, threads multiply one by one, as FLOAT32 is taken apart here: a row of it by 4096^2 takes 5.7 us so on a
H200."""


@dataclass(frozen=True, slots=True)
class Int4MmaProgram(Program):
    """A product by constant weights, planned."""

    value: Expr
    fold: Expr
    rests: tuple[Expr, ...]
    form: Int4MmaForm
    numbers: Numbers
    kinds: tuple[str, ...]
    left: int
    """The pointer to rows."""
    steps: tuple[int, ...]
    """From row to row, in bytes."""
    programs: int
    bases: Bases
    figures: Figures
    layouts: Mapping[str, Map] = field(default_factory=dict)
    """Weights, their scales and zero points, packed ahead."""
    kernels: dict[bool, Kernel] = field(default_factory=dict, repr=False, metadata=FILLED)
    """By whether rows are aligned, made when they are first asked for."""

    @classmethod
    def plan(cls, primitive: Reduce, figures: Figures, constants: frozenset[str]) -> Int4MmaProgram | None:
        """For up to 16 rows as they are, by whole tiles of constant weights; None for others."""
        primitive = replace(primitive, value=rewrite(expand(primitive.value), bounded))
        found, value = match_weights(primitive), primitive.value
        planned = None if found is None else form_of(primitive, found)
        if found is None or planned is None or not _is_known(figures):
            return None
        of, lefts, rests, (rows, columns), units, block = planned
        left, source = lefts[0], found.left.args[0] if found.left.op == "cast" else found.left
        if of.bits != 4 or source is not left or len(lefts) > 1 or of.by_block != (False,):
            return None
        if left.type not in LEAST_ROWS or of.rows < LEAST_ROWS[left.type] or not 0 <= of.zero < 128:
            return None
        leaves = [node for node in (found.right.byte, found.right.scale, found.right.zero) if node is not None]
        leaves = [node for node in leaves if node.op == "load"]
        views = [primitive.sources[int(node.value)] for node in (*leaves, left, *rests)] + [primitive.target]
        packed = views[: len(leaves)]
        blocks, shared, zero = units * 8 // BLOCK, block * 8 // BLOCK, int(of.zero)
        each = next((each for each in (4, 2) if _divides(each, blocks, shared)), 0)
        if not each or block * 8 % BLOCK or zero != of.zero or columns.count % TILE:
            return None
        names = [view.tensor for view in primitive.sources]
        if any(view.tensor not in constants or names.count(view.tensor) > 1 for view in packed):
            return None
        if any(node.op in ("coordinate", "fetch") for node in walk(value, known=(found.fold,))):
            return None
        scale = found.right.scale.type
        assert isinstance(units, int) and scale is not None  # noqa: S101, PT018 - for type checkers: weights have sizes
        tiles, groups, programs = columns.count // TILE, blocks // each, columns.count // TILE
        warps, depth = _cut(programs, groups, of.rows, left.type, figures)
        form = Int4MmaForm(
            rows=of.rows, warps=warps, depth=depth, is_short=groups <= warps * depth,
            is_even=groups % (warps * depth) == 0, each=each, kind=left.type,
            zero=zero, shared=shared, scales=scale, has_zeros=found.right.has_zeros,
        )  # fmt: skip
        seen = [replace(view, offset=offset) for view, offset in zip(packed, columns.offsets, strict=False)]
        apart = [sum(columns.strides[k]) for k in range(len(packed))]
        layouts = {
            WEIGHTS: _packed_weights(seen[0], apart[0], tiles, blocks // 2, is_signed=found.right.data_type.is_signed)
        }
        cut = tiles, blocks // shared // form.scales_of_group, form.scales_of_group
        first = len(primitive.sizes) - primitive.depth
        for k, (name, to) in enumerate(((SCALES, scale), (ZEROS, DataType.UINT16))[: len(packed) - 1], 1):
            along = sum(packed[k].strides[first : first + 1])
            layouts[name] = _packed_numbers(name, seen[k], (apart[k], along), cut, to)
        strides = [(sum(rows.strides[k]), sum(columns.strides[k])) for k in range(len(packed), len(views))]
        given = [bits_of(node) for node in walk(value) if node.op == "given"]
        others = bases_of(views[len(packed) :], columns.offsets[len(packed) :])
        program = cls(
            value, found.fold, tuple(rests), form, (columns.count, groups, *strides, *given),
            ("i32", *(kind_of(layout.target.data_type) for layout in [*layouts.values()][1:]),
             *(kind_of(view.data_type) for view in views[len(packed) :])),
            len(packed), (strides[0][0] * left.type.size_in_bytes,), programs,
            (*((name, 0) for name in layouts), *others), figures, layouts,
        )  # fmt: skip
        program.kernel(is_aligned=True).prepare()
        return program

    def kernel(self, *, is_aligned: bool) -> Kernel:
        """The kernel for rows that are aligned, or any."""
        if is_aligned not in self.kernels:
            made = emit_int4_mma(self.value, self.fold, self.rests, self.form, is_aligned=is_aligned)
            warps, figures = self.form.warps, self.figures
            self.kernels[is_aligned] = Kernel(
                made, self.kinds, self.numbers, {}, self.programs, warps, figures, fuses=False
            )
        return self.kernels[is_aligned]

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in."""
        addresses = [places[tensor] + offset for tensor, offset in self.bases]
        is_aligned = not any(number % ALIGNMENT for number in (addresses[self.left], *self.steps))
        return self.kernel(is_aligned=is_aligned).launch(addresses)


def _is_known(figures: Figures) -> bool:
    return IS_INTERPRETED or bool(figures.target.arch >= HOPPER)


def _divides(each: int, blocks: int, shared: int) -> bool:
    """Whether groups of so many blocks come out even, with their scales."""
    return blocks % each == 0 and (each % shared == 0 or shared % each == 0)


def _cut(programs: int, groups: int, rows: int, kind: DataType, figures: Figures) -> tuple[int, int]:
    """Warps, and how many of a warp's groups are on their way at once.

    Programs on the same multiprocessor are ready before their turn: where there are few, each asks for more at once.
    """
    if IS_INTERPRETED:
        warps, depth = 2, 2
    elif programs <= figures.multiprocessors:
        warps, depth = 8, 3
    elif programs <= 2 * figures.multiprocessors:
        warps, depth = 8, 1
    else:
        warps, depth = 4, 2
    warps = min(warps, ceil_power(groups))
    is_large = rows > 8 or kind is DataType.FLOAT32
    return warps, min(1 if is_large else depth, -(-groups // warps))
