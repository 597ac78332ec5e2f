"""Maps: elementwise expressions, planned over tiles of all views together; the Triton function is generated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from anydml.engines.cuda.codegen.expressions import bits_of, emit, fetch_align
from anydml.engines.cuda.launch import Kernel
from anydml.engines.cuda.move.gather import bind_checked, check_kernel
from anydml.engines.cuda.rows.tiles import kind_of, walk_of
from anydml.ir.loops import Loops, simplify
from anydml.ir.numerics import expand

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.cuda.device import Figures
    from anydml.ir.verbs import Check, Map
    from anydml.ir.views import View


SHORT = 16
"""Operations up to which a thread computes 8 numbers, and past them 16, in half the threads: gelu of FLOAT32 is then at
0.88 of copy speed on a H200 and not at 0.77, of FLOAT16 at 0.93 and not at 0.84."""


@dataclass(frozen=True, slots=True)
class MapProgram:
    """A map, planned."""

    kernel: Kernel
    bases: tuple[tuple[str, int], ...]
    """By pointer the tensor, and the offset of the first element in it, in bytes."""
    checks: tuple[Check, ...] = ()

    @classmethod
    def plan(cls, primitive: Map, figures: Figures) -> MapProgram:
        """Simplify, and compile the kernel for memory that is aligned."""
        is_interleaved = _are_four_beside_one_another(primitive.targets)
        values = [expand(value) for value in primitive.values]
        made = emit(values, primitive.sources, len(primitive.checks), is_interleaved=is_interleaved)
        read = [primitive.sources[slot] for slot in made.slots]
        targets, rank = primitive.targets[: 1 if is_interleaved else None], len(primitive.sizes)
        # A coordinate is a view of its own numbers: 0 at first, 1 a step along its dimension, 0 along the others.
        counted = [tuple(int(k == dimension) for k in range(rank)) for dimension in made.dimensions]
        rows = (*(view.strides for view in read), *counted, *(target.strides for target in targets))
        offsets = (*(view.offset for view in read), *(0 for _ in counted), *(target.offset for target in targets))
        first = len(read) + len(counted)
        loops = simplify(Loops(primitive.sizes, rows, offsets), first)
        views = (*read, *targets)
        widths = [view.data_type.size_in_bytes for view in views]
        widths[len(read) : len(read)] = [0 for _ in counted]
        walk = walk_of(loops, widths, figures, is_heavy=made.operations > SHORT)
        starts = [loops.offsets[k] // walk.reaches[k].align for k in range(len(read), first)]
        fetched = [primitive.sources[int(node.value)] for node in made.fetches]
        strides = [tuple(stride // fetch_align(view) for stride in view.strides) for view in fetched]
        kernel = Kernel(
            made.function,
            (*(kind_of(view.data_type) for view in (*views, *fetched)), *("i64" for _ in primitive.checks)),
            (*walk.numbers, *starts, *map(bits_of, made.given), *strides),
            {"TILE": walk.tile} | {f"REACH{view}": each for view, each in enumerate(walk.reaches)},
            walk.programs,
            walk.warps,
            figures,
            fuses=False,
        )
        kernel.prepare()
        for check in primitive.checks:
            check_kernel(check, figures).prepare()
        firsts = (*loops.offsets[: len(read)], *loops.offsets[first:], *(view.offset for view in fetched))
        bases = (
            (view.tensor, first * view.data_type.size_in_bytes)
            for view, first in zip((*views, *fetched), firsts, strict=True)
        )
        return cls(kernel, tuple(bases), primitive.checks)

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in."""
        addresses = [places[tensor] + offset for tensor, offset in self.bases]
        return bind_checked(
            self.checks, self.kernel.figures, places, lambda verdicts: self.kernel.launch((*addresses, *verdicts))
        )


def _are_four_beside_one_another(targets: Sequence[View]) -> bool:
    """Whether four results of an element follow one another in memory, in words of 4 bytes."""
    first = targets[0]
    wanted = [replace(first, offset=first.offset + k) for k in range(4)]
    return list(targets) == wanted and first.data_type.size_in_bytes == 4
