"""Attention, planned: one pass over the keys for every block of queries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.engines.cuda.emit import bits_of
from anydml.engines.cuda.emit_attend import TENSORS, emit_attend, leaves_of
from anydml.engines.cuda.kernels.attention import Attention
from anydml.engines.cuda.kernels.rows import Line
from anydml.engines.cuda.launch import IS_INTERPRETED, Kernel
from anydml.engines.cuda.programs.shapes import alignment_of, ceil_power, kind_of, over, step_of
from anydml.enums import DataType
from anydml.ir.plan import Loops, simplify
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.engines.cuda.figures import Figures
    from anydml.engines.cuda.launch import Numbers
    from anydml.ir.attending import Attend
    from anydml.ir.views import View

FEWEST = 16
"""Queries from which on one pass is worth it, or one alone: others are quicker as products of few rows."""
SMALLEST = 16
"""Numbers that the hardware multiplies at once."""
LARGEST = {DataType.FLOAT16: 256, DataType.FLOAT32: 128}
"""Numbers of a query or a value for which there is room: 8 heads of 1024 x 256 in FLOAT32 take 313 us in one pass, and
PyTorch 217."""


LONG = 256
"""Keys of one query from which on more are taken at once, where there are fewer queries than multiprocessors."""


class Shape(NamedTuple):
    """How an attention is cut: the queries of a program, the keys that it takes at once, and what it takes for that."""

    rows: int
    keys: int
    warps: int
    stages: int


def takes_attend(primitive: Attend) -> bool:
    """Whether the hardware multiplies these numbers, and there are queries enough."""
    kinds = {view.data_type for view in (*primitive.sources[:TENSORS], primitive.target)}
    is_plain = not any(node.op == "fetch" for node in walk(primitive.seen))
    queries = primitive.scores[-2]
    is_large = (queries >= FEWEST or queries == 1) and all(primitive.scores)
    most = LARGEST.get(primitive.target.data_type, 0)
    return len(kinds) == 1 and is_plain and is_large and min(primitive.depths) > 0 and max(primitive.depths) <= most


def shape_of(primitive: Attend, multiprocessors: int) -> Shape:
    """The cut for a type and a size, as measured on a H200.

    32 heads of 2048 x 128 in FLOAT16 take 153 us with 128 queries at once and 160 with 64, where PyTorch takes 204 by
    its flash attention and 123 by cuDNN's; 12 of 512 x 64 take 5.9 us, and PyTorch 11.9 and 9.1. Causal, the former
    take 129 and 118, and PyTorch 164 and 87. In FLOAT32 they take 1.05 ms and 30 us, and PyTorch 1.57 ms and 55 us.
    One query takes 27.9 us of 256 heads with 1500 keys of 64 numbers, at 3.5 TB/s, and 29.0 with 128 at once; those are
    quicker where not every multiprocessor has a head: 8.5 us of 12 with 1001 keys, and 9.4 with 64 at once.
    """
    if IS_INTERPRETED:
        return Shape(1 if primitive.scores[-2] == 1 else 16, 16, 1, 1)
    *batch, queries, keys = primitive.scores
    if queries == 1:
        is_long = math.prod(batch) < multiprocessors and keys > LONG
        return Shape(1, 128, 8, 3) if is_long else Shape(1, 64, 4, 3)
    width = max(map(ceil_power, primitive.depths))
    is_many = math.prod(batch) * -(-queries // 128) >= multiprocessors
    if primitive.target.data_type is DataType.FLOAT32:
        return Shape(128, 64, 8, 1) if width > 64 else Shape(128, 32, 8, 2) if is_many else Shape(32, 64, 4, 2)
    if width > 128:
        return Shape(128, 64, 8, 2)
    if is_many and primitive.limit is None:
        return Shape(128, 64, 8, 3)
    # With a mask beside the product, 64 x 128 scores have 472 bytes a thread in memory that registers have no room for.
    is_wide = is_many or width > 64 or bool(primitive.beside)
    return Shape(64, 64, 4, 3) if is_wide else Shape(64, 128, 4, 3)


@dataclass(frozen=True, slots=True)
class AttendProgram:
    """An attention, planned."""

    kernel: Kernel
    places: tuple[tuple[str, int], ...]
    """By pointer, the tensor, and where in it the first matrix begins, in bytes."""

    @classmethod
    def plan(cls, primitive: Attend, figures: Figures) -> AttendProgram:
        """Let all views be matrices of queries and keys, or of the numbers of each."""
        rank = len(primitive.scores)
        views: list[View | None] = [*primitive.sources[:TENSORS]]
        strides = [view.strides for view in primitive.sources[:TENSORS]]
        for leaf in leaves_of(primitive):  # a coordinate is a view of its own numbers
            view = primitive.beside[int(leaf.value) - 1] if leaf.op == "load" else None
            views.append(view)
            strides.append(view.strides if view else tuple(int(k == leaf.value) for k in range(rank)))
        views.append(primitive.target)
        strides.append(primitive.target.strides)
        offsets = tuple(0 if view is None else view.offset for view in views)
        batch = simplify(Loops(primitive.scores[:-2], tuple(row[:-2] for row in strides), offsets), len(views) - 1)
        pairs = [(row[-2], row[-1]) for row in strides]
        numbers: list[tuple[int, ...]] = []
        lines = []
        for pair, steps, view in zip(pairs, batch.strides, views, strict=True):
            own = steps or (0,)
            align = 1 if view is None else alignment_of((*own, *(step for step in pair if step_of(step) == 2)))
            numbers += [over(pair, align), over(own[::-1], align)]
            lines.append(Line(step_of(pair[0]), step_of(pair[1]), align))
        shape = shape_of(primitive, figures.multiprocessors)
        has_rest = primitive.limit is not None or primitive.scores[-1] % shape.keys != 0
        is_alone = primitive.scores[-2] == 1

        def spans(view: int) -> tuple[bool, bool]:
            return pairs[view][0] != 0, pairs[view][1] != 0

        made = emit_attend(primitive, spans, has_rest=has_rest, is_alone=is_alone)
        sizes = (*primitive.scores[-2:], *primitive.depths)
        cuts = (shape.rows, shape.keys, *(max(ceil_power(size), SMALLEST) for size in primitive.depths))
        fit = list(zip(sizes, cuts, strict=True))
        tile = Attention(
            rows=shape.rows,
            keys=shape.keys,
            size=cuts[2],
            value_size=cuts[3],
            precision="bf16x6" if primitive.target.data_type is DataType.FLOAT32 and not IS_INTERPRETED else "ieee",
            aligns=tuple(min(alignment_of((size,)), cut) for size, cut in fit),  # type: ignore[arg-type]  # of four
            is_even=tuple(size % cut == 0 for size, cut in fit),  # type: ignore[arg-type]  # of four
            is_long=any(_reach(view, cuts) >= 2**31 for view in primitive.sources[:TENSORS]),
            stages=shape.stages if is_alone else 1,
        )
        starts = [offset for offset, view in zip(batch.offsets, views, strict=True) if view is None]
        fixed: Numbers = (sizes, batch.sizes[::-1] or (1,), *numbers, *starts, *map(bits_of, made.given))
        read = [(view, offset) for offset, view in zip(batch.offsets, views, strict=True) if view is not None]
        kernel = Kernel(
            made.function, tuple(kind_of(view.data_type) for view, _ in read), fixed,
            {"TILE": tile} | {f"LINE{view}": line for view, line in enumerate(lines)},
            batch.count * -(-sizes[0] // shape.rows), shape.warps, figures, stages=1 if is_alone else shape.stages,
        )  # fmt: skip
        kernel.prepare()
        return cls(kernel, tuple((view.tensor, offset * view.data_type.size_in_bytes) for view, offset in read))

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in."""
        return self.kernel.launch([places[tensor] + offset for tensor, offset in self.places])


def _reach(view: View, cuts: tuple[int, ...]) -> int:
    """The largest offset in one matrix, tiles that go past its ends included."""
    last = zip(view.sizes[-2:], view.strides[-2:], strict=True)
    return sum((size + max(cuts)) * abs(stride) for size, stride in last)
