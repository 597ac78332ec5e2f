"""Maps that read near their place, planned: resampling by small ratios, and whatever else repeats its last elements."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anydml.engines.cuda.emit_samples import Near, Sampled, emit_samples
from anydml.engines.cuda.kernels.windows import Taps
from anydml.engines.cuda.launch import ALIGNMENT, IS_INTERPRETED, Kernel
from anydml.engines.cuda.programs.shapes import alignment_of, ceil_power, columns_for, kind_of
from anydml.enums import DataType
from anydml.ir.expressions import given, maximum, minimum
from anydml.ir.fetches import line_of
from anydml.ir.numerics import expand
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.cuda.figures import Figures
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Map
    from anydml.ir.views import View

MOST_ROWS = 6
MOST_WORD = 8
"""Elements that are read or written at once."""
THREADS, WIDE = (128, 64) if not IS_INTERPRETED else (16, 8)
"""Of a program, and the columns of a tile at most."""

AGAIN = 2
"""Groups of a thread: FLOAT32 by 2 takes 127 us so, and 139 with one; copying as much takes 123."""


@dataclass(frozen=True, slots=True)
class SampleProgram:
    """A map that reads near its place, planned."""

    kernel: Kernel
    bases: tuple[tuple[str, int], ...]

    @classmethod
    def plan(cls, primitive: Map, figures: Figures) -> SampleProgram | None:
        """For maps whose elements all come from lines of one source, the nearest where those go on outside."""
        targets = primitive.targets
        if primitive.checks or not all(primitive.sizes) or len(primitive.sources) != 1:
            return None
        if len({(target.tensor, target.strides, target.data_type) for target in targets}) > 1:
            return None
        values = [expand(value) for value in primitive.values]
        nodes = list(walk(*values))
        fetches = {node: near_of(node, primitive.sources[0]) for node in nodes if node.op == "fetch"}
        if not fetches or None in fetches.values() or any(node.op == "load" for node in nodes):
            return None
        found = _sampled(primitive, {node: near for node, near in fetches.items() if near is not None})
        return None if found is None else cls._of(values, found, primitive, figures)

    @classmethod
    def _of(cls, values: Sequence[Expr], found: Sampled, primitive: Map, figures: Figures) -> SampleProgram:
        source, target = primitive.sources[0], min(primitive.targets, key=lambda view: view.offset)
        width = found.groups
        across = columns_for(width, WIDE)
        rows = math.prod(found.sizes[k] for k in found.rows)
        each = AGAIN if found.word else ALIGNMENT // max(source.data_type.size_in_bytes, target.data_type.size_in_bytes)
        down = min(max(THREADS * each // across, 1), ceil_power(rows))
        programs = -(-rows // down) * -(-width // across)
        kinds = tuple(kind_of(view.data_type) for view in (source, target))
        tile = Taps(down, across, (), ())
        kernel = Kernel(emit_samples(values, found), kinds, (), {"TILE": tile}, programs, 4, figures, fuses=False)
        kernel.prepare()
        bases = ((view.tensor, view.offset * view.data_type.size_in_bytes) for view in (source, target))
        return cls(kernel, tuple(bases))

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in."""
        return self.kernel.launch([places[tensor] + offset for tensor, offset in self.bases])


def near_of(node: Expr, source: View) -> tuple[Near, ...] | None:
    """The lines of what is fetched; None where an index is none, nor the nearest to one that is inside."""
    found = []
    for near, size in zip(node.args, source.sizes, strict=True):
        index, last = near, given(size - 1, DataType.INT64)
        if near.op == "where" and near.args[2] is last and near.args[1].op == "where":
            index = near.args[1].args[1]
            if minimum(maximum(index, 0), last) is not near:
                return None
        line = line_of(index)
        if line is None or len(line.steps) > 1:
            return None
        found.append(Near(line, size))
    return tuple(found)


def _sampled(primitive: Map, fetches: dict[Expr, tuple[Near, ...]]) -> Sampled | None:
    """How the walk is cut; None where rows do not fit, or lie too far apart for 32 bits."""
    sizes, (source, *_), targets = primitive.sizes, primitive.sources, primitive.targets
    steps = targets[0].strides
    wide = [k for k in range(len(sizes)) if sizes[k] > 1] or [0]
    column, *rows = sorted(wide, key=lambda k: (abs(steps[k]), -k))
    first = min(target.offset for target in targets)
    offsets = tuple(target.offset - first for target in targets)
    along = [
        (k, near) for several in fetches.values() for k, near in enumerate(several) if column in dict(near.line.steps)
    ]
    if len({k for k, _ in along}) != 1 or len(rows) > MOST_ROWS or steps[column] < 1:
        return None
    axis, by = along[0][0], {dict(near.line.steps)[column] for _, near in along}
    if len(along) != len(fetches) or len(by) != 1 or min(by) < 1:
        return None
    reach = max(
        sum(abs(stride) * size for stride, size in zip(view.strides, view.sizes, strict=True))
        for view in (source, *targets)
    )
    if reach + max(offsets) >= 2**31 or min((*source.strides, *steps)) < 0:
        return None
    others = tuple(stride for k, stride in enumerate(source.strides) if k != axis)
    is_plain = by == {1} and all(near.line.start == 0 for _, near in along) and steps[column] == 1
    if source.strides[axis] != 1:
        return None
    if is_plain:
        return Sampled(sizes, tuple(rows), column, 1, fetches, source.strides, 0, steps, offsets, 1)
    widths = [view.data_type.size_in_bytes for view in (source, targets[0])]
    written = min(
        alignment_of((*(steps[k] for k in rows), sizes[column] * steps[column])), ALIGNMENT // widths[1], MOST_WORD
    )
    is_run = _is_run(offsets, steps[column], [steps[k] for k in rows])
    written = written if is_run else 1
    count = max(written // math.gcd(written, steps[column]), 1)
    if sizes[column] % count:
        written = 1
    word = min(alignment_of((*others, source.sizes[axis], count * min(by))), ALIGNMENT // widths[0], MOST_WORD)
    return Sampled(sizes, tuple(rows), column, count, fetches, source.strides, word, steps, offsets, written)


def _is_run(offsets: Sequence[int], step: int, others: Sequence[int]) -> bool:
    """Whether targets fill what lies between neighbours of one another."""
    every = sorted(offsets)
    runs = [every[k : k + step] for k in range(0, len(every), step)]
    return all(run == list(range(run[0], run[0] + step)) for run in runs) and (not others or min(others) >= step)
