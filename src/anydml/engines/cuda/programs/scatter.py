"""Scatters, planned: a copy of the base, then the updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anydml.engines.cuda.kernels.scatter import scatter_lanes
from anydml.engines.cuda.launch import Kernel
from anydml.engines.cuda.programs.check import bind_checked, check_kernel
from anydml.engines.cuda.programs.map import MapProgram
from anydml.engines.cuda.programs.shapes import ceil_power, fastest_first, kind_of, warps_for
from anydml.engines.cuda.scratch import NO_WORDS
from anydml.ir.expressions import load
from anydml.ir.verbs import Map

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.engines.cuda.figures import Figures
    from anydml.engines.cuda.launch import Numbers
    from anydml.ir.choosing import Scatter

MOST_LANES = 1024


@dataclass(frozen=True, slots=True)
class ScatterProgram:
    """A scatter, planned."""

    primitive: Scatter
    copy: MapProgram
    """Of the base, after the checks."""
    kernel: Kernel

    @classmethod
    def plan(cls, primitive: Scatter, figures: Figures) -> ScatterProgram:
        """Lanes are the elements of all blocks in all batches."""
        indices, target, (batches, tuples, block) = primitive.indices, primitive.target, primitive.walks()
        width = 8 * target.data_type.size_in_bytes
        sizes = (*batches.sizes, *block.sizes)
        none = (0,) * len(block.sizes)
        index_rows, update_rows, target_rows = batches.strides
        rows = ((*update_rows, *block.strides[0]), (*index_rows, *none), (*target_rows, *block.strides[1]))
        lanes = batches.count * block.count
        taken = min(ceil_power(lanes), MOST_LANES, figures.tile)
        numbers: Numbers = (
            lanes,
            *fastest_first(sizes, *rows),
            tuples.count,
            *fastest_first(tuples.sizes, tuples.strides[1], tuples.strides[0]),
            indices.strides[-1],
            target.sizes[primitive.indexed],
            target.strides[primitive.indexed],
        )
        constants = {"SIGNED": indices.data_type.is_signed, "GUARDED": bool(primitive.checks), "LANES": taken}
        pointers = (f"u{width}", kind_of(indices.data_type), f"u{width}", "i64")
        kernel = Kernel(
            scatter_lanes, pointers, numbers, constants, -(-lanes // taken), warps_for(taken, 4), figures
        )  # fmt: skip
        kernel.prepare()
        for check in primitive.checks:
            check_kernel(check, figures).prepare()
        copied = Map((primitive.source,), target, load(0, target.data_type), checks=primitive.checks)
        return cls(primitive, MapProgram.plan(copied, figures), kernel)

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in; what lies in its place already is not copied."""
        primitive = self.primitive
        views = (primitive.updates, primitive.indices, primitive.target)
        updates, indices, target = (
            places[view.tensor] + begin for view, begin in zip(views, primitive.begins(), strict=True)
        )

        def launch(verdicts: tuple[int, ...]) -> Callable[[], Any]:
            return self.kernel.launch((updates, indices, target, *(verdicts or (NO_WORDS,))))

        write = bind_checked(primitive.checks, self.kernel.figures, places, launch)
        if primitive.is_in_place(places):
            return write
        copy = self.copy.bind(places)

        def both() -> None:
            copy()
            write()

        return both
