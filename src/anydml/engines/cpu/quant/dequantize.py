"""Dequantise-and-multiply: products of many rows with 4- and 8-bit weights, whose panels a kernel dequantises as GEMM
packs them: (q - z)·s, each block with its scale.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.function import Steps
from anydml.engines.cpu.gemm.operands import NOWHERE
from anydml.engines.cpu.gemm.selection import plan_operands
from anydml.engines.cpu.quant.column_per_lane import lanes_abreast
from anydml.engines.cpu.quant.weight_only import lay_out_words
from anydml.engines.cpu.quant.weight_only_kernel import PORTION, TOGETHER, shuffled
from anydml.enums import DataType
from anydml.ir.blocked_weights import has_way, match_dequantised
from anydml.ir.contraction import StridedOperand
from anydml.ir.expressions import FOLDS, load
from anydml.ir.trees import rewrite, walk
from anydml.ir.verbs import Reduce
from anydml.ir.views import View

if TYPE_CHECKING:
    from anydml.engines.cpu.gemm.operands import Operands
    from anydml.engines.cpu.gemm.program import GemmProgram, Section
    from anydml.ir.blocked_weights import Dequantised
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Map

# Rows of weights of 4 or 8 bits as FLOAT32: (q - z)·s, each block with its scale.
#
# `kernel(words, places, count)` is a row as a map's is. The places are those of a column's weights, its scales and its
# zero points, where there are such; then the first step itself, and where the FLOAT32 go. Steps come by whole portions.


_HEAD = "void @kernel(i64 %words, i64 %places, i64 %count)"


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
        return "i8" if self.bits == 4 else "i16"

    @property
    def width(self) -> int:
        """Bytes of a portion."""
        return PORTION * self.bits // 8


def make_unpacked(shape: Unpacked) -> str:
    """The text of the kernel."""
    text = Steps()
    more = (*(("zeros",) if shape.zeros else ()), *(("column",) if shape.abreast else ()))
    names = ("weights", "scales", *more, "first", "to")
    for i, name in enumerate(names):
        text.read(name, f"places + {8 * i}")
    if shape.abreast:
        text.read("panel", f"words + {16 * len(names)}")
        text.let("own", f"weights + column // {shape.abreast} * panel + column % {shape.abreast} * 4")
        with text.loop("at", 0, "count", PORTION):
            text.let("step", "first + at")
            _write_words(text, shape)
        text.add("ret void")
        return text.define(_HEAD)
    together = TOGETHER if shape.is_laid_out else 1
    with text.loop("at", 0, "count", PORTION * together):
        text.let("step", "first + at")
        text.let("here", f"weights + step // {PORTION} * {shape.width}")
        _write_portions(text, shape, together)
    text.add("ret void")
    return text.define(_HEAD)


def _write_words(text: Steps, shape: Unpacked) -> None:
    """A portion of a column that lies abreast of others: each word has 8 steps."""
    scale, zero = _of_block(text, shape, 0)
    by, less = _spread(text, "float", [scale], 8), _spread(text, "i32", [_widened(text, shape, zero)], 8)
    ups, downs = (f"<{', '.join(f'i32 {n}' for n in bits)}>" for bits in (range(28, -1, -4), range(0, 29, 4)))
    for w in range(PORTION // 8):
        place = text.place(f"own + (step // 8 + {w}) * {4 * shape.abreast}")
        word = text.spread(text.new(f"load i32, ptr {place}, align 4"), "i32", 8)
        if shape.is_signed:
            number = text.new(f"ashr <8 x i32> {text.new(f'shl <8 x i32> {word}, {ups}')}, splat (i32 28)")
        else:
            number = text.new(f"and <8 x i32> {text.new(f'lshr <8 x i32> {word}, {downs}')}, splat (i32 15)")
        real = text.new(f"sitofp <8 x i32> {text.new(f'sub <8 x i32> {number}, {less}')} to <8 x float>")
        real = text.new(f"fmul <8 x float> {real}, {by}")
        text.add(f"store <8 x float> {real}, ptr {text.place(f'to + at * 4 + {32 * w}')}, align 4")


def _widened(text: Steps, shape: Unpacked, zero: str) -> str:
    """A zero point in 32 bits."""
    kind = "sext" if shape.zeros == "s8" else "zext"
    return text.new(f"{kind} i8 {zero} to i32") if shape.zeros else zero


def _of_block(text: Steps, shape: Unpacked, portion: int) -> tuple[str, str]:
    """The scale of a portion's weights, and the number that is taken off them."""
    text.let(f"block_{portion}", f"(step + {PORTION * portion}) // {shape.block}")
    size = 4 if shape.scale == "float" else 2
    scale = text.new(f"load {shape.scale}, ptr {text.place(f'scales + block_{portion} * {size}')}, align 1")
    scale = scale if shape.scale == "float" else text.new(f"fpext half {scale} to float")
    return scale, _zero(text, shape, portion)


def _write_portions(text: Steps, shape: Unpacked, together: int) -> None:
    """One portion, or four whose words lie together: a vector has a run of the same steps of one, two or all four."""
    scales, zeros = zip(*(_of_block(text, shape, p) for p in range(together)), strict=True)
    kind, per = shape.kind, max(together * shape.bits // 8, 1)  # portions of a vector
    length = 16 // per
    by = [_spread(text, "float", [scale], length) for scale in scales]
    less = [_spread(text, kind, list(zeros[p : p + per]), 16) for p in range(0, together, per)]
    for start in range(0, shape.width * together, 16):
        octets = text.new(f"load <16 x i8>, ptr {text.place(f'here + {start}')}, align 1")
        for k, part in enumerate(_numbers(text, shape, octets)):
            value = part
            if kind == "i16":
                value = text.new(f"{'sext' if shape.is_signed else 'zext'} <16 x i8> {part} to <16 x i16>")
            value = text.new(f"sub <16 x {kind}> {value}, {less[k % len(less)]}")
            for r in range(per):
                one = shuffled(text, value, "poison", list(range(r * length, (r + 1) * length)), kind, 16)
                whole = text.new(f"sext <{length} x {kind}> {one} to <{length} x i32>")
                real = text.new(f"sitofp <{length} x i32> {whole} to <{length} x float>")
                portion = (k * per + r) % together
                real = text.new(f"fmul <{length} x float> {real}, {by[portion]}")
                on = start * 8 // shape.bits // together + (16 * k if together == 1 else 0)
                to = text.place(f"to + at * 4 + {4 * (PORTION * portion + on)}")
                text.add(f"store <{length} x float> {real}, ptr {to}, align 4")


def _zero(text: Steps, shape: Unpacked, portion: int) -> str:
    """The numbers taken off a portion's weights."""
    if not shape.zeros:
        return str(shape.zero)
    byte = text.new(f"load i8, ptr {text.place(f'zeros + block_{portion}')}, align 1")
    return byte if shape.bits == 4 else text.new(f"{'sext' if shape.zeros == 's8' else 'zext'} i8 {byte} to i16")


def _numbers(text: Steps, shape: Unpacked, octets: str) -> list[str]:
    """The weights in 16 bytes as a byte each, in their order."""
    if shape.bits == 8:
        return [octets]
    low = text.new(f"and <16 x i8> {octets}, splat (i8 15)")
    high = text.new(f"lshr <16 x i8> {octets}, splat (i8 4)")
    halves = [
        shuffled(text, low, high, [lane for i in range(k, k + 8) for lane in (i, 16 + i)], "i8", 16) for k in (0, 8)
    ]
    if not shape.is_signed:
        return halves
    raised = [text.new(f"xor <16 x i8> {half}, splat (i8 8)") for half in halves]
    return [text.new(f"sub <16 x i8> {half}, splat (i8 8)") for half in raised]


def _spread(text: Steps, kind: str, values: list[str], lanes: int) -> str:
    """A vector with each value as often as another."""
    if not values[0].startswith("%"):
        return f"splat ({kind} {values[0]})"
    found = "poison"
    for i, value in enumerate(values):
        found = text.new(f"insertelement <{lanes} x {kind}> {found}, {kind} {value}, i32 {i}")
    order = [i * len(values) // lanes for i in range(lanes)]
    return shuffled(text, found, "poison", order, kind, lanes)


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
