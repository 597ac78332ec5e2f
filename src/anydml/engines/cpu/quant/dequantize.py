"""Dequantise-and-multiply: products of many rows with 4- and 8-bit weights, whose panels a kernel dequantises as GEMM
packs them: (q - z)·s, each block with its scale.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.function import Function, vector_of
from anydml.engines.cpu.gemm.operands import NOWHERE, StridedOperand
from anydml.engines.cpu.gemm.selection import plan_operands
from anydml.engines.cpu.quant.column_per_lane import lanes_abreast
from anydml.engines.cpu.quant.digits import PORTION, TOGETHER
from anydml.engines.cpu.quant.weight_only import lay_out_words
from anydml.enums import DataType
from anydml.ir.blocked_weights import has_way, match_dequantised
from anydml.ir.expressions import FOLDS, load
from anydml.ir.trees import rewrite, walk
from anydml.ir.verbs import Reduce
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.cpu.codegen.function import Value
    from anydml.engines.cpu.gemm.operands import Operands
    from anydml.engines.cpu.gemm.program import GemmProgram, Section
    from anydml.ir.blocked_weights import Dequantised
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Map

# Rows of weights of 4 or 8 bits as FLOAT32: (q - z)·s, each block with its scale.
#
# `kernel(words, places, count)` is a row as a map's is. The places are those of a column's weights, its scales and its
# zero points, where there are such; then the first step itself, and where the FLOAT32 go. Steps come by whole portions.


class Unpacked(NamedTuple):
    """The parameters of the text."""

    bits: int
    is_signed: bool
    block: int
    """Steps that share a scale, whole portions."""
    zero: int
    """The number taken off each weight, where no zero points are read."""
    zeros: str
    """The type of zero points that are read, `u8` or `s8`; empty for none."""
    scale: str
    """The type of a scale, `float` or `half`."""
    is_laid_out: bool
    """Whether words lie together as for products of a few rows: of four portions, or of columns."""
    abreast: int = 0
    """In the latter case so many columns; the column's number is among the places then, before the first step, and the
    bytes of a panel of them is a number of the words."""

    @property
    def name(self) -> str:
        """The kernel's."""
        return "unpacked " + " ".join(map(str, self))

    @property
    def kind(self) -> str:
        """In which a number less another has room: a byte for 4 bits."""
        return "i32" if self.abreast else "i8" if self.bits == 4 else "i16"

    @property
    def width(self) -> int:
        """Bytes of a portion."""
        return PORTION * self.bits // 8


def make_unpacked(shape: Unpacked) -> str:
    """The text of the kernel."""
    return _Unpacking(shape).write()


class _Unpacking:
    def __init__(self, shape: Unpacked) -> None:
        self.shape, self.f = shape, Function("kernel", "words places count")

    def write(self) -> str:
        f, shape = self.f, self.shape
        words, places, count = f.args
        more = (*(("zeros",) if shape.zeros else ()), *(("column",) if shape.abreast else ()))
        names = ("weights", "scales", *more, "first", "to")
        self.at = {name: f.load("i64", places + 8 * i) for i, name in enumerate(names)}
        together = TOGETHER if shape.is_laid_out and not shape.abreast else 1
        if shape.abreast:
            panel, column = f.load("i64", words + 16 * len(names)), self.at["column"]
            own = self.at["weights"] + column // shape.abreast * panel + column % shape.abreast * 4
        with f.loop(0, count, PORTION * together) as k:
            step, to = self.at["first"] + k, self.at["to"] + k * 4
            if shape.abreast:
                self._write_words(own, step, to)
            else:
                here = self.at["weights"] + step // PORTION * shape.width
                self._write_portions(here, step, to, together)
        return f.end()

    def _of_block(self, step: Value) -> tuple[Value, Value]:
        """The scale of a portion's weights, and the number that is taken off them."""
        f, shape, block = self.f, self.shape, step // self.shape.block
        scale = f.load(shape.scale, self.at["scales"] + block * (4 if shape.scale == "float" else 2), align=1)
        zero = f.value(shape.zero, shape.kind)
        if shape.zeros:
            byte = f.load("i8", self.at["zeros"] + block)
            zero = f.cast("sext" if shape.zeros == "s8" else "zext", byte, shape.kind)
        return f.cast("fpext", scale, "float"), zero

    def _write_words(self, own: Value, step: Value, to: Value) -> None:
        """A portion of a column that lies abreast of others: each word has 8 steps."""
        f, shape = self.f, self.shape
        scale, zero = self._of_block(step)
        by, less = self._spread([scale], 8), self._spread([zero], 8)
        for w in range(PORTION // 8):
            word = f.splat(f.load("i32", own + (step // 8 + w) * (4 * shape.abreast)), 8)
            if shape.is_signed:
                number = f.binary("ashr", word << f.vector("i32", range(28, -1, -4)), 28)
            else:
                number = word >> f.vector("i32", range(0, 29, 4)) & 15
            f.store(f.cast("sitofp", number - less, "float") * by, to + 32 * w)

    def _write_portions(self, here: Value, step: Value, to: Value, together: int) -> None:
        """One portion, or four whose words lie together: a vector has a run of steps of one, two or all four."""
        f, shape = self.f, self.shape
        scales, zeros = zip(*(self._of_block(step + PORTION * p) for p in range(together)), strict=True)
        per = max(together * shape.bits // 8, 1)  # portions of a vector
        length = 16 // per
        by = [self._spread([scale], length) for scale in scales]
        less = [self._spread(zeros[p : p + per], 16) for p in range(0, together, per)]
        for start in range(0, shape.width * together, 16):
            octets = f.load("<16 x i8>", here + start)
            for k, part in enumerate(self._numbers(octets)):
                wide = f.cast("sext" if shape.is_signed else "zext", part, shape.kind) - less[k % len(less)]
                on = start * 8 // shape.bits // together + (16 * k if together == 1 else 0)
                for r in range(per):
                    portion = (k * per + r) % together
                    one = f.cast("sext", f.shuffle(wide, None, range(r * length, (r + 1) * length)), "i32")
                    f.store(f.cast("sitofp", one, "float") * by[portion], to + 4 * (PORTION * portion + on))

    def _numbers(self, octets: Value) -> list[Value]:
        """The weights in 16 bytes as a byte each, in their order."""
        if self.shape.bits == 8:
            return [octets]
        orders = ([lane for i in range(k, k + 8) for lane in (i, 16 + i)] for k in (0, 8))
        halves = [self.f.shuffle(octets & 15, octets >> 4, order) for order in orders]
        return [(half ^ 8) - 8 for half in halves] if self.shape.is_signed else halves

    def _spread(self, values: Sequence[Value], lanes: int) -> Value:
        """A vector with each value as often as another."""
        f, kind = self.f, vector_of(lanes, values[0].type)
        if not values[0].startswith("%"):
            return f.value(f"splat ({values[0].typed})", kind)
        found = f.value("poison", kind)
        for i, value in enumerate(values):
            found = f.insert(found, value, i)
        return f.shuffle(found, None, [i * len(values) // lanes for i in range(lanes)])


# Products of many rows with weights of few bits, planned: tiles over panels of what a kernel dequantises.


@dataclass(frozen=True, slots=True)
class _Many:
    """A product as it would be with weights that were dequantised before, and what those are dequantised from."""

    primitive: Reduce
    weights: Expr
    """The stand-in for the dequantised ones."""
    parts: Dequantised
    leaves: tuple[View, ...]
    """Of the weights, the scales and the zero points, where there are such."""
    column: int
    block: int

    @property
    def bits(self) -> int:
        """Of a weight."""
        return 4 if self.parts.data_type.is_half_byte else 8


def plan_dequantize(primitive: Reduce) -> GemmProgram | None:
    """Weights as they lie; None for other reduces."""
    found = _match(primitive)
    return None if found is None else _plan(found, None)


def plan_dequantize_prepacked(primitive: Reduce, constants: frozenset[str]) -> GemmProgram | None:
    """The same bits, from weights that are laid out as products of a few rows read them; None for others."""
    found = _match(primitive) if constants else None
    if found is None or found.leaves[0].tensor not in constants:
        return None
    layout = lay_out_words(primitive, found.leaves[0], found.column, found.primitive.sizes[-1], found.bits)
    return None if layout is None else _plan(found, layout)


def _match(primitive: Reduce) -> _Many | None:
    """A sum of a·(q·s), where q·s is rounded, of weights and scales that lie side by side along the sum."""
    folds = [node for node in walk(primitive.value) if node.op in FOLDS]
    if primitive.also or len(folds) != 1 or folds[0].op != "fold_sum" or folds[0].args[0].op != "mul":
        return None
    right = folds[0].args[0].args[1]
    parts = match_dequantised(*right.args) if right.op == "mul" else None
    if parts is None or not all(primitive.sizes) or primitive.depth != 2 + parts.data_type.is_half_byte:
        return None
    depth, is_paired = primitive.depth, parts.data_type.is_half_byte
    kept = len(primitive.sizes) - depth
    if not _is_in_one_piece(primitive, right, kept):
        return None
    blocks, *inner = primitive.sizes[kept:]
    several = [leaf for leaf in (parts.byte, parts.scale, parts.zero) if leaf is not None and leaf.op == "load"]
    leaves = tuple(primitive.sources[int(leaf.value)] for leaf in several)
    byte, *others = (view.strides[kept:] for view in leaves)
    columns = [k for k in range(kept) if primitive.sizes[k] > 1 and any(view.strides[k] for view in leaves)]
    is_half = not is_paired or (inner[1:] == [2] and parts.half == len(primitive.sizes) - 1)
    first = int(blocks == 1)  # which has no stride
    is_along = byte[first:] == (inner[0], 1, 0)[first:depth] and all(
        not any(strides[1:]) and (blocks == 1 or strides[0] == 1) for strides in others
    )
    if len(columns) != 1 or not (is_half and is_along and has_way(math.prod(inner), blocks)):
        return None
    return _Many(*_whole(primitive, right, kept, columns[0]), parts, leaves, columns[0], math.prod(inner))


def _is_in_one_piece(primitive: Reduce, right: Expr, kept: int) -> bool:
    """Whether all but the weights lies along the sum as if that were one dimension."""
    others = [node for node in walk(primitive.value, known=[right]) if node is not right]
    if any(node.op == "fetch" or (node.op == "coordinate" and node.value >= kept) for node in others):
        return False
    views = [primitive.sources[int(node.value)] for node in others if node.op == "load"]
    pairs = [(k, k + 1) for k in range(kept, len(primitive.sizes) - 1)]
    return all(view.strides[a] == view.strides[b] * view.sizes[b] for view in views for a, b in pairs)


def _whole(primitive: Reduce, right: Expr, kept: int, column: int) -> tuple[Reduce, Expr]:
    """The product with its sum in one piece, and the load that stands for the weights."""
    length = math.prod(primitive.sizes[kept:])

    def together(view: View) -> View:
        return replace(view, sizes=(*view.sizes[:kept], length), strides=(*view.strides[:kept], view.strides[-1]))

    sources = [together(view) for view in primitive.sources]
    name = "weights"
    while name in (*(view.tensor for view in sources), primitive.target.tensor):
        name += " more"
    strides = tuple(length if k == column else 0 for k in range(kept))
    weights = load(len(sources), DataType.FLOAT32)
    sources.append(View(name, DataType.FLOAT32, (*primitive.sizes[:kept], length), (*strides, 1)))
    target = primitive.target
    epilogue = replace(target, sizes=(*target.sizes[:kept], 1), strides=(*target.strides[:kept], 0))
    value = rewrite(primitive.value, lambda node: weights if node is right else node)
    return Reduce(tuple(sources), epilogue, value, 1), weights


def _plan(found: _Many, layout: Map | None) -> GemmProgram | None:
    parts, leaves = found.parts, found.leaves
    zeros = ("s8" if leaves[2].data_type.is_signed else "u8") if len(leaves) > 2 else ""
    shape = Unpacked(
        bits=found.bits,
        is_signed=parts.data_type.is_signed,
        block=found.block,
        zero=0 if parts.zero is None or zeros else int(parts.zero.value),
        zeros=zeros,
        scale="half" if leaves[1].data_type is DataType.FLOAT16 else "float",
        is_laid_out=layout is not None,
        abreast=lanes_abreast(found.bits) if layout is not None else 0,
    )
    kernel = get_kernel(shape.name, functools.partial(make_unpacked, shape))

    def section(sides: Operands, across: tuple[int, ...]) -> Section:
        rank = len(sides.found.sizes)
        lies = []
        for view in leaves:
            width = view.data_type.size_in_bytes
            lies.append(
                StridedOperand(view.tensor, view.offset * width, _only(found.column, view.strides, width, rank), width)
            )
        here = StridedOperand("", 0, (0,) * rank, 1)
        if layout is not None and not shape.abreast:
            lies[0] = StridedOperand(
                layout.target.tensor, 0, _only(found.column, layout.target.strides[:1] * rank, 1, rank), 1
            )
        on = [lie.along(across) for lie in lies]
        if layout is None or not shape.abreast:
            return sides.section((kernel.address,), [*lies, here, NOWHERE], [*[0] * len(lies), 1, 4], [*on, 0, 0])
        lies[0], on[0] = here._replace(tensor=layout.target.tensor), 0
        line = (kernel.address, layout.target.strides[0])
        return sides.section(line, [*lies, here, here, NOWHERE], [*[0] * len(lies), 0, 1, 4], [*on, 1, 0, 0])

    layouts = {} if layout is None else {layout.target.tensor: layout}
    return plan_operands(found.primitive, found.weights, section, layouts)


def _only(column: int, strides: tuple[int, ...], width: int, rank: int) -> tuple[int, ...]:
    return tuple(strides[k] * width if k == column else 0 for k in range(rank))
