"""Scatters, planned: a copy of the base, then the updates in order; of many tuples the last writer of each place is
found first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from anydml.engines.common.program import Program
from anydml.engines.common.tiles import alignment_of, ceil_power, divisor_of, fastest_first, over, step_of, warps_for
from anydml.engines.cuda.launch import IS_INTERPRETED, Kernel, kind_of
from anydml.engines.cuda.move.copy import CopyProgram
from anydml.engines.cuda.move.gather import bind_checked, check_kernel
from anydml.engines.cuda.move.gather_kernel import claim, scatter_lanes, write
from anydml.engines.cuda.rows.map import MapProgram
from anydml.engines.cuda.scratch import NO_WORDS, DeviceWords
from anydml.ir.expressions import load
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.engines.common.tiles import Numbers
    from anydml.engines.cuda.device import Figures
    from anydml.engines.cuda.launch import Bases
    from anydml.ir.verbs import Scatter

# Scatters, planned: a copy of the base, then the updates.


MOST_LANES = 1024


@dataclass(frozen=True, slots=True)
class ScatterProgram(Program):
    """A scatter, planned."""

    primitive: Scatter
    bases: Bases
    """Of the updates, the indices and the target; a decoder binds two of these a layer at each step."""
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
            lanes, *fastest_first(sizes, *rows), tuples.count,
            *fastest_first(tuples.sizes, tuples.strides[1], tuples.strides[0]), indices.strides[-1],
            target.sizes[primitive.indexed], target.strides[primitive.indexed],
        )  # fmt: skip
        constants = {"SIGNED": indices.data_type.is_signed, "GUARDED": bool(primitive.checks), "LANES": taken}
        pointers = (f"u{width}", kind_of(indices.data_type), f"u{width}", "i64")
        kernel = Kernel(
            scatter_lanes, pointers, numbers, constants, -(-lanes // taken), warps_for(taken, 4), figures
        )  # fmt: skip
        kernel.prepare()
        for check in primitive.checks:
            check_kernel(check, figures).prepare()
        copied = Map((primitive.source,), target, load(0, target.data_type), checks=primitive.checks)
        return cls(primitive, bases_of_walks(primitive), MapProgram.plan(copied, figures), kernel)

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in; what lies in its place already is not copied."""
        primitive = self.primitive
        updates, indices, target = (places[tensor] + begin for tensor, begin in self.bases)

        def launch(verdicts: tuple[int, ...]) -> Callable[[], Any]:
            return self.kernel.launch((updates, indices, target, *(verdicts or (NO_WORDS,))))

        write = bind_checked(primitive.checks, self.kernel.figures, places, launch)
        if primitive.is_in_place(places):
            return write
        return in_turn(self.copy.bind(places), write)


def bases_of_walks(primitive: Scatter) -> Bases:
    """Where the walks begin in the updates, the indices and the target."""
    views = (primitive.updates, primitive.indices, primitive.target)
    return tuple(zip((view.tensor for view in views), primitive.begins(), strict=True))


# Scatters of many tuples, planned: a copy of the base, a claim of each tuple, then the updates of those that won.


LANES, TILE, WIDE = (256, 1024, 256) if not IS_INTERPRETED else (16, 64, 16)


@dataclass(frozen=True, slots=True)
class LastWriterProgram(Program):
    """A scatter of many tuples, planned."""

    primitive: Scatter
    bases: Bases
    """As above."""
    copy: CopyProgram | MapProgram
    """Of the base, after the checks."""
    kernels: tuple[Kernel, Kernel]
    places: int

    @classmethod
    def plan(cls, primitive: Scatter, figures: Figures) -> LastWriterProgram:
        """Places are numbered by batch and tuple."""
        indices, target, (batches, tuples, block) = primitive.indices, primitive.target, primitive.walks()
        sizes = target.sizes[primitive.indexed]
        in_batch = math.prod(sizes)
        steps = (in_batch, *(math.prod(sizes[k + 1 :]) for k in range(len(sizes))))
        batch_sizes, batch_index, batch_update, batch_target = fastest_first(batches.sizes, *batches.strides)
        tuple_sizes, tuple_index, tuple_update = fastest_first(tuples.sizes, *tuples.strides)
        block_sizes, block_update, block_target = fastest_first(block.sizes, *block.strides)
        indexed = target.strides[primitive.indexed]
        is_one = len(block_sizes) == 1
        known = [step_of(stride[0]) if is_one else 2 for stride in (block_update, block_target)]
        aligns = [
            alignment_of([*rows, *(() if is_one and step != 2 else of)])
            for rows, of, step in zip(
                ((*batch_update, *tuple_update), (*batch_target, *indexed)),
                (block_update, block_target),
                known,
                strict=True,
            )
        ]
        count = batches.count * tuples.count
        common: Numbers = (
            count, tuples.count, batch_sizes, batch_index, tuple_sizes, tuple_index, (indices.strides[-1],), sizes,
            steps,
        )  # fmt: skip
        guards = {"SIGNED": indices.data_type.is_signed, "GUARDED": bool(primitive.checks)}
        kinds = (kind_of(indices.data_type), "i32", "i64")
        first = Kernel(claim, kinds, common, {**guards, "LANES": LANES}, -(-count // LANES), 4, figures)
        columns = min(ceil_power(block.count), WIDE)
        rows = min(max(TILE // columns, 1), LANES)
        word = f"u{8 * target.data_type.size_in_bytes}"
        numbers: Numbers = (
            *common, over(batch_update, aligns[0]), over(tuple_update, aligns[0]), over(batch_target, aligns[1]),
            over(indexed, aligns[1]), block.count, block_sizes, over(block_update, aligns[0]),
            over(block_target, aligns[1]),
        )  # fmt: skip
        constants = {
            **guards, "ROWS": rows, "COLUMNS": columns,
            "ALIGNS": (*aligns, min(divisor_of(block.count), columns)), "STEPS": tuple(known),
        }  # fmt: skip
        pointers = (word, kind_of(indices.data_type), word, "i32", "i64")
        second = Kernel(write, pointers, numbers, constants, -(-count // rows), 4, figures)
        for kernel in (first, second, *(check_kernel(check, figures) for check in primitive.checks)):
            kernel.prepare()
        plain = copy_of(primitive.source, target)
        guarded = replace(plain, checks=primitive.checks)
        copied = MapProgram.plan(guarded, figures) if primitive.checks else CopyProgram.plan(plain, figures)
        return cls(primitive, bases_of_walks(primitive), copied, (first, second), batches.count * in_batch)

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in; what lies in its place already is not copied."""
        primitive = self.primitive
        updates, indices, target = (places[tensor] + begin for tensor, begin in self.bases)
        figures = self.kernels[0].figures
        copy = None if primitive.is_in_place(places) else self.copy.bind(places)

        def launch(verdicts: tuple[int, ...]) -> Callable[[], Any]:
            words, guard = DeviceWords(self.places // 2 + 1, figures.index), verdicts or (NO_WORDS,)
            claims = self.kernels[0].launch((indices, words.address, *guard))
            writes = self.kernels[1].launch((updates, indices, target, words.address, *guard))
            return words.around([claims, writes], "scatter")

        scatter = bind_checked(primitive.checks, figures, places, launch)
        return scatter if copy is None else in_turn(copy, scatter)


def in_turn(first: Callable[[], Any], second: Callable[[], Any]) -> Callable[[], Any]:
    """Two launches as one."""

    def both() -> None:
        first()
        second()

    return both
