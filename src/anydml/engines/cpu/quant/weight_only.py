"""Weight-only quantisation, planned: products with weights of 4 and 8 bits, in blocks that have a scale each.

Which kernel takes one, in order:

    weights are dequantised, and their products rounded: many rows    panels of `dequantize.py`, multiplied by GEMM
    4 bits, on an x86 with AVX-512, or AVX2 without dot instructions  `column_per_lane.py`
    others                                                            `digits.py`, by dot instructions where there are

How many rows are many `families.py` says, by the CPU, the bits and the rows' type. The packer is `lay_out_words`:
constants are laid out once, for all of these alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.engines.common.threads import get_num_threads
from anydml.engines.cpu.build import kernel_for
from anydml.engines.cpu.families import columns_of_panel, figures
from anydml.engines.cpu.features import IS_ARM, has_dots
from anydml.engines.cpu.gemm.operands import NOWHERE, MergedOperands
from anydml.engines.cpu.gemm.prepacked import in_panels, new_name
from anydml.engines.cpu.gemm.selection import plan_operands
from anydml.engines.cpu.gemm.work_item import record_of
from anydml.engines.cpu.launch.call import SMALL
from anydml.engines.cpu.launch.program import KernelProgram
from anydml.engines.cpu.quant import column_per_lane, digits
from anydml.engines.cpu.quant.column_per_lane import STEPS, ColumnPerLane, RowPortions, Transposed
from anydml.engines.cpu.quant.dequantize import PanelUnpacking, Unpacked, Unpacking
from anydml.engines.cpu.quant.digits import PORTION, SECTIONS, TOGETHER, Digits, Quantised
from anydml.engines.cpu.rows.walk import OUTER_RANK, VIEWS
from anydml.ir.blocked_weights import SHORT_BLOCK, has_way, match_rounded_weights, match_weights
from anydml.ir.contraction import Contraction, StridedOperand
from anydml.ir.expressions import load
from anydml.ir.trees import rewrite, walk
from anydml.ir.verbs import Map, Reduce
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.engines.cpu.gemm.operands import Operands
    from anydml.engines.cpu.gemm.work_item import Section
    from anydml.engines.cpu.kernel import Kernel
    from anydml.engines.cpu.launch.record import Layout
    from anydml.ir.blocked_weights import Dequantised
    from anydml.ir.expressions import Expr


# The weights: how blocks lie along the sum, and how words are laid out.


def _views_of(primitive: Reduce, weights: Dequantised) -> list[View] | None:
    """Of the weights, the scales and the zero points that are read; None where blocks do not lie along the sum."""
    depth, is_paired = primitive.depth, weights.data_type.is_half_byte
    blocks, *inner = primitive.sizes[-depth:]
    views = [primitive.sources[int(leaf.value)] for leaf in _leaves(weights)]
    byte, *others = (view.strides[-depth:] for view in views)
    is_half = not is_paired or (inner[1:] == [2] and weights.half == len(primitive.sizes) - 1)
    if depth != 2 + is_paired or not is_half or not has_way(math.prod(inner), blocks, SHORT_BLOCK):
        return None
    first = int(blocks == 1)  # which has no stride
    is_along = byte[first:] == (inner[0], 1, 0)[first:depth] and all(_is_by_block(x, blocks) for x in others)
    return views if is_along else None


def _leaves(weights: Dequantised) -> list[Expr]:
    """The loads of the weights, the scales and the zero points."""
    parts = (weights.byte, weights.scale, weights.zero)
    return [leaf for leaf in parts if leaf is not None and leaf.op == "load"]


def _is_by_block(strides: tuple[int, ...], blocks: int) -> bool:
    """Whether there is one for each block along the sum, side by side; that of a single block has no stride."""
    return not any(strides[1:]) and (blocks == 1 or strides[0] == 1)


def _bits(weights: Dequantised) -> int:
    return 4 if weights.data_type.is_half_byte else 8


def _lanes() -> int:
    """Of dot products."""
    return min(figures().gemm.lanes, 8)


def lay_out_words(primitive: Reduce, view: View, column: int, length: int, bits: int) -> Map | None:
    """How words of weights are laid out: of a panel's columns, or of `TOGETHER` portions; None where some are left."""
    if [one.tensor for one in primitive.sources].count(view.tensor) > 1:
        return None
    columns, on = primitive.sizes[column], view.strides[column]
    lanes, width = columns_of_panel(bits), PORTION * bits // 8
    name = new_name(f"{view.tensor} in words", primitive)
    if lanes and not (on % 4 or view.offset % 4):  # bytes by fours take 8 times as long: 5.8 MB 12 ms, and 1.6 in words
        sizes, strides = (columns, length // STEPS), (on // 4, 1)
        words = View(view.tensor, DataType.UINT32, sizes, strides, view.offset // 4)
        return in_panels(words, name, 0, lanes)
    if lanes:
        words = replace(view, sizes=(columns, length // STEPS, 4), strides=(on, 4, 1))
        return in_panels(words, name, 0, lanes)
    words = replace(view, sizes=(columns, length // PORTION, width // 4, 4), strides=(on, width, 4, 1))
    return None if length % (PORTION * TOGETHER) else in_panels(words, name, 1, TOGETHER)


# Exact products of q with rows: a sum of a·q·s, in which nothing is rounded between a and q.


def plan_weight_only(primitive: Reduce, constants: frozenset[str] = frozenset()) -> KernelProgram | None:
    """Integer products of a few rows with weights as they lie; None where they lie otherwise."""
    found = match_weights(primitive)
    if found is None:
        return None
    right, rounded, sizes, kept = found.right, found.rounded, primitive.sizes, len(primitive.sizes) - primitive.depth
    if any(part is not None and part.scale.type is not DataType.FLOAT32 for part in (right, rounded)):
        return None  # scales that a run gives may be FLOAT16; the kernels read FLOAT32
    views = _views_of(primitive, right)
    if views is None:
        return None
    wide = [k for k, size in enumerate(sizes) if size > 1]
    columns = tuple(k for k in wide if k < kept and any(view.strides[k] for view in views))
    rows = tuple(k for k in wide if k < kept and k not in columns)
    # The weights' own views lie otherwise along the sum: the left factor stands for both.
    both = (found.left, found.left) if rounded is None else (rounded.byte, rounded.byte)
    folded = tuple(k for k in wide if k >= kept)
    operands = MergedOperands(primitive, Contraction(found.fold, *both, sizes, (), rows, columns, folded))
    several = [len(operands.all_strided(value)) for value in (operands.left, operands.finish)]
    is_ours = set(operands.columns) <= set(columns) and not operands.unmerged and len(operands.batch) <= OUTER_RANK
    if not (is_ours and operands.columns) or not several[0] or max(several) >= VIEWS:
        return None
    lies, layouts = [operands.strided(leaf) for leaf in _leaves(right)], dict[str, Map]()
    lanes = columns_of_panel(_bits(right))
    if constants:
        column = operands.columns[-1]
        is_batched = len(operands.columns) > 1 or any(views[0].strides[k] for k in operands.batch)
        laid_out = None if is_batched else lay_out_words(primitive, views[0], column, operands.k, _bits(right))
        if laid_out is None or views[0].tensor not in constants:
            return None
        name, on = laid_out.target.tensor, 0 if lanes else laid_out.target.strides[0]
        lies[0] = StridedOperand(name, 0, tuple(on if k == column else 0 for k in range(len(sizes))), 1)
        layouts = {name: laid_out}
    block = math.prod(sizes[kept + 1 :])
    portion = PORTION if block % PORTION == 0 else SHORT_BLOCK
    if portion != PORTION and not lanes:
        return None
    shared = block // portion
    weights = operands.section((), lies, [shared] * len(lies), [lie.along(operands.columns) for lie in lies])
    if rounded is None:
        left = operands.mapped(operands.left, operands.folded, operands.rows, NOWHERE, 4)
    else:
        pair = [operands.strided(rounded.byte), operands.strided(rounded.scale)]
        strides = primitive.sources[int(rounded.scale.value)].strides[-primitive.depth :]
        if pair[0].along(operands.folded) != 1 or not _is_by_block(strides, sizes[kept]):
            return None
        left = operands.section((), pair, [1, 0], [lie.along(operands.rows) for lie in pair])
    sections = (left, weights, operands.result())
    zero = 0 if right.zero is None or right.has_zeros else int(right.zero.value)
    if lanes:
        is_rounded = rounded is not None
        by_lane = ColumnPerLane(
            0,
            0,
            lanes,
            right.data_type.is_signed,
            right.has_zeros,
            zero,
            is_rounded,
            is_rounded and has_dots(lanes),
            portion // STEPS,
        )
        return _by_lane(operands, by_lane, sections, layouts)
    shape = Quantised(
        rows=0, lanes=_lanes(), bits=_bits(right),
        is_signed=right.data_type.is_signed, has_zeros=right.has_zeros, zero=zero, shared=min(shared, TOGETHER),
        dots=has_dots(_lanes()), is_arm=IS_ARM,
        places=digits.PLACES if rounded is None else 1, is_laid_out=bool(layouts),
    )  # fmt: skip
    if not shape.has_zeros:
        shape = shape._replace(zero=zero + shape.raised)
    return _by_digits(operands, shape, sections, layouts)


def plan_weight_only_prepacked(primitive: Reduce, constants: frozenset[str]) -> KernelProgram | None:
    """The same bits, from weights that are constants, whose words are laid out ahead; None for others."""
    return plan_weight_only(primitive, constants)


def _by_digits(
    operands: Operands, shape: Quantised, sections: tuple[Section, ...], layouts: Mapping[str, Map]
) -> KernelProgram:
    """Rows as digits, times columns by dot instructions."""
    of = figures()
    most = of.quant.rows_at_once
    fits = digits.bytes_of(operands.k // PORTION, min(operands.m, of.quant.most_rows)) <= of.gemm.right_bytes
    height = min(operands.m, of.quant.most_rows if fits else most)
    # 32 sums of 4-bit weights have room for 31 bits: weights less 8 are at most 8, and less another zero point 15.
    is_even = shape.bits == 8 or (shape.zero == 8 and not shape.has_zeros)
    is_rounded, some = shape.places == 1, min(height, most)
    zero = 1 if shape.bits == 8 or shape.has_zeros else -shape.zero
    row = Digits(23 if is_even else 22, shape.bits == 4, zero, is_rounded)
    kernels = [
        kernel_for("quantised", digits.Products, one).address
        for one in (shape._replace(rows=rows) for rows in (some, operands.m % some or some))
    ]
    return _program(
        operands, sections, layouts, digits.RECORD, kernel_for("weights", digits.DigitItems), height,
        size=operands.n * operands.k * shape.bits // 8 * operands.m * operands.count(operands.batch),
        least=-(-operands.n * height // (figures().gemm.result_bytes // 4)), most=operands.n,
        some=some, columns_of=kernels[0], columns_low=kernels[1], is_rounded=is_rounded, portions=operands.k // PORTION,
        digits=kernel_for("digits", digits.make_digits, row).address,
        scalar_fallback=kernel_for("scalar-fallback", digits.make_scalar_fallback, shape).address,
    )  # fmt: skip


def _by_lane(
    operands: Operands, shape: ColumnPerLane, sections: tuple[Section, ...], layouts: Mapping[str, Map]
) -> KernelProgram:
    """Panels of columns, a lane for each."""
    lanes, panels, portions = shape.lanes, -(-operands.n // shape.lanes), operands.k // (STEPS * shape.words)
    height = min(operands.m, column_per_lane.MOST_ROWS // (4 * operands.k))
    some, wide = column_per_lane.tile_of(height, shape)
    size = operands.n * operands.k // 2 * operands.m * operands.count(operands.batch)
    height = _height(operands, height, some, panels, size)
    room = column_per_lane.MOST_PANELS // column_per_lane.bytes_of_panel(portions, lanes, shape.words)
    wide = min(wide, panels, room)
    kernels = [
        kernel_for("lane-sums", column_per_lane.LaneSums, one).address
        for one in (shape._replace(rows=rows, panels=wide) for rows in (some, operands.m % some or some))
    ]
    row_of = (
        kernel_for("lane-bytes", column_per_lane.make_bytes, RowPortions(shape.words))
        if shape.is_rounded
        else kernel_for("lane-floats", column_per_lane.make_floats, RowPortions(shape.words))
    )
    kinds = ("f32", *(("s8" if shape.is_signed else "u8",) if shape.has_zeros else ()))
    transposes = [
        kernel_for("transposed", column_per_lane.make_transposed, one).address
        for one in (Transposed(lanes, kind) for kind in kinds)
    ]
    return _program(
        operands, sections, layouts, column_per_lane.RECORD, kernel_for("column-per-lane", column_per_lane.PanelItems),
        height, size=size,
        # Twice, as one unit may have a panel more.
        least=-(-2 * panels * lanes * 4 * height // column_per_lane.MOST_RESULTS), most=panels // wide,
        some=some, wide=wide, lanes=lanes, row_of=row_of.address, columns_of=kernels[0],
        columns_low=kernels[1], transpose_values=transposes[0], transpose_zeros=transposes[1] if shape.has_zeros else 0,
        is_rounded=shape.is_rounded, is_laid_out=bool(layouts), portions=portions, words=shape.words,
    )  # fmt: skip


def _height(operands: Operands, most: int, some: int, panels: int, size: int) -> int:
    """The rows of a unit, whole tiles of `some`: each unit lays out its rows, and transposes its columns' scales.

    The units that sixteen threads have of 16 and 32 rows by 2048 x 2048 take one thread 1.27 times as long as its own
    where each has all rows, and 1.15 and 1.08 so.
    """
    batch = operands.count(operands.batch)
    m, by_row = operands.m, figures().quant.row_panels * operands.m

    def work(height: int) -> int:
        rows = -(-m // height)
        return rows * panels + by_row * min(_column_units(size, batch * rows), panels)

    heights: list[int] = [most if most == m else most - most % some, *range(some, most, some)]
    best: int = min(heights, key=work)
    return best


def _column_units(size: int, others: int) -> int:
    """Units of columns that threads want, where there are so many others for each."""
    return 1 if size < SMALL else -(-figures().quant.items_per_thread * get_num_threads() // others)


def _program(
    operands: Operands,
    sections: tuple[Section, ...],
    layouts: Mapping[str, Map],
    layout: Layout,
    kernel: Kernel,
    height: int,
    *,
    size: int,
    least: int,
    most: int,
    **known: int,
) -> KernelProgram:
    """The program of a kernel whose words have names; `least` and `most` are units of columns."""
    batch, row_units = operands.count(operands.batch), -(-operands.m // height)
    units = min(max(_column_units(size, batch * row_units), least), most)
    known |= {"m": operands.m, "n": operands.n, "height": height}
    left = operands.left
    is_plain = (
        left.op == "load" and left.type is DataType.FLOAT32 and operands.strided(left).along(operands.folded) == 4
    )
    known["is_computed"] = not known["is_rounded"] and not is_plain
    known |= {"row_units": row_units, "column_units": units}
    sizes, named = [operands.found.sizes[k] for k in operands.batch], dict(zip(SECTIONS, sections, strict=True))
    record = record_of(layout, known, sizes, named)
    return KernelProgram(kernel, record, batch * row_units * units, size, layouts)


# Products of many rows with q·s, rounded as if weights had been dequantised before: GEMM over panels of what a kernel
# dequantises.


@dataclass(frozen=True, slots=True)
class _Dequantised:
    """A product as it would be with weights that were dequantised before, and what those are dequantised from."""

    primitive: Reduce
    weights: Expr
    """The stand-in for the dequantised ones."""
    parts: Dequantised
    leaves: Sequence[View]
    """Of the weights, the scales and the zero points, where there are such."""
    column: int
    block: int


def plan_dequantize(primitive: Reduce) -> KernelProgram | None:
    """Weights as they lie; None for other reduces."""
    found = _match_dequantised(primitive)
    return None if found is None else _by_panels(found, None)


def plan_dequantize_prepacked(primitive: Reduce, constants: frozenset[str]) -> KernelProgram | None:
    """The same bits, from weights that are laid out as products of a few rows read them; None for others."""
    found = _match_dequantised(primitive)
    if found is None or found.leaves[0].tensor not in constants:
        return None
    length, bits = found.primitive.sizes[-1], _bits(found.parts)
    layout = lay_out_words(primitive, found.leaves[0], found.column, length, bits)
    return None if layout is None else _by_panels(found, layout)


def _match_dequantised(primitive: Reduce) -> _Dequantised | None:
    """A sum of a·(q·s), where q·s is rounded, of weights and scales that lie side by side along the sum."""
    matched = match_rounded_weights(primitive)
    if matched is None or primitive.depth != 2 + matched[1].data_type.is_half_byte:
        return None
    right, parts = matched
    kept, leaves = len(primitive.sizes) - primitive.depth, _views_of(primitive, parts)
    if leaves is None or not _is_in_one_piece(primitive, right, kept):
        return None
    columns = [k for k in range(kept) if primitive.sizes[k] > 1 and any(view.strides[k] for view in leaves)]
    if len(columns) != 1:
        return None
    block = math.prod(primitive.sizes[kept + 1 :])
    return _Dequantised(*_whole(primitive, right, kept, columns[0]), parts, leaves, columns[0], block)


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
    strides = tuple(length if k == column else 0 for k in range(kept))
    weights = load(len(sources), DataType.FLOAT32)
    name = new_name("weights", primitive)
    sources.append(View(name, DataType.FLOAT32, (*primitive.sizes[:kept], length), (*strides, 1)))
    target = primitive.target
    epilogue = replace(target, sizes=(*target.sizes[:kept], 1), strides=(*target.strides[:kept], 0))
    value = rewrite(primitive.value, lambda node: weights if node is right else node)
    return Reduce(tuple(sources), epilogue, value, 1), weights


def _by_panels(found: _Dequantised, layout: Map | None) -> KernelProgram | None:
    """Panels that are dequantised as GEMM packs them."""
    parts, leaves = found.parts, found.leaves
    shape = Unpacked(
        bits=_bits(parts),
        is_signed=parts.data_type.is_signed,
        block=found.block,
        zero=0 if parts.zero is None or parts.has_zeros else int(parts.zero.value),
        zeros=("s8" if leaves[2].data_type.is_signed else "u8") if len(leaves) > 2 else "",
        scale="half" if leaves[1].data_type is DataType.FLOAT16 else "float",
        is_laid_out=layout is not None,
        columns=columns_of_panel(_bits(parts)) if layout is not None else 0,
    )

    def section(operands: Operands, across: tuple[int, ...], width: int) -> Section:
        rank = len(operands.found.sizes)

        def by_column(tensor: str, offset: int, stride: int, width: int) -> StridedOperand:
            strides = tuple(stride * width if k == found.column else 0 for k in range(rank))
            return StridedOperand(tensor, offset * width, strides, width)

        lies = [
            by_column(view.tensor, view.offset, view.strides[found.column], view.data_type.size_in_bytes)
            for view in leaves
        ]
        # Bytes from a panel of columns to the next, or from a column.
        pitch = 0 if layout is None else layout.target.strides[0] * layout.target.data_type.size_in_bytes
        if layout is not None:
            lies[0] = by_column(layout.target.tensor, 0, 0 if shape.columns else pitch, 1)
        on = [lie.along(across) for lie in lies]
        if width:
            on[0] = pitch if shape.columns else on[0]
            kernel = kernel_for("unpacked-panels", PanelUnpacking, shape.in_panels(width))
            return operands.section((kernel.address,), lies, [0] * len(lies), on)
        here, steps = StridedOperand("", 0, (0,) * rank, 1), [0] * len(lies)
        kernel = kernel_for("unpacked", Unpacking, shape)
        if shape.columns:
            line = (kernel.address, pitch)
            return operands.section(line, [*lies, here, here, NOWHERE], [*steps, 0, 1, 4], [*on, 1, 0, 0])
        return operands.section((kernel.address,), [*lies, here, NOWHERE], [*steps, 1, 4], [*on, 0, 0])

    layouts = {} if layout is None else {layout.target.tensor: layout}
    is_short = found.block % PORTION > 0  # rows of a left factor are dequantised by whole portions
    return plan_operands(found.primitive, (found.weights, section), layouts, must_be_right=is_short)
