"""Products of many rows with weights of few bits, planned: tiles over panels of what a kernel dequantises."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.kernels.unpacked import Unpacked, make_unpacked
from anydml.engines.cpu.programs.abreast import lanes_abreast
from anydml.engines.cpu.programs.contract import plan_sides
from anydml.engines.cpu.programs.sides import NOWHERE, Lie
from anydml.engines.cpu.programs.weights import lay_out_words
from anydml.enums import DataType
from anydml.ir.expressions import FOLDS, load
from anydml.ir.trees import rewrite, walk
from anydml.ir.verbs import Reduce
from anydml.ir.views import View
from anydml.ir.weights import has_way, match_dequantised

if TYPE_CHECKING:
    from anydml.engines.cpu.programs.contracted import ContractProgram, Section
    from anydml.engines.cpu.programs.sides import Sides
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Map
    from anydml.ir.weights import Dequantised


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


def plan_unpacked(primitive: Reduce) -> ContractProgram | None:
    """Weights as they lie; None for other reduces."""
    found = _match(primitive)
    return None if found is None else _plan(found, None)


def plan_unpacked_ahead(primitive: Reduce, constants: frozenset[str]) -> ContractProgram | None:
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
    ending = replace(target, sizes=(*target.sizes[:kept], 1), strides=(*target.strides[:kept], 0))
    value = rewrite(primitive.value, lambda node: weights if node is right else node)
    return Reduce(tuple(sources), ending, value, 1), weights


def _plan(found: _Many, layout: Map | None) -> ContractProgram | None:
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

    def section(sides: Sides, across: tuple[int, ...]) -> Section:
        rank = len(sides.found.sizes)
        lies = []
        for view in leaves:
            width = view.data_type.size_in_bytes
            lies.append(Lie(view.tensor, view.offset * width, _only(found.column, view.strides, width, rank), width))
        here = Lie("", 0, (0,) * rank, 1)
        if layout is not None and not shape.abreast:
            lies[0] = Lie(layout.target.tensor, 0, _only(found.column, layout.target.strides[:1] * rank, 1, rank), 1)
        on = [lie.along(across) for lie in lies]
        if layout is None or not shape.abreast:
            return sides.section((kernel.address,), [*lies, here, NOWHERE], [*[0] * len(lies), 1, 4], [*on, 0, 0])
        lies[0], on[0] = here._replace(tensor=layout.target.tensor), 0
        line = (kernel.address, layout.target.strides[0])
        return sides.section(line, [*lies, here, here, NOWHERE], [*[0] * len(lies), 0, 1, 4], [*on, 1, 0, 0])

    layouts = {} if layout is None else {layout.target.tensor: layout}
    return plan_sides(found.primitive, found.weights, section, layouts)


def _only(column: int, strides: tuple[int, ...], width: int, rank: int) -> tuple[int, ...]:
    return tuple(strides[k] * width if k == column else 0 for k in range(rank))
