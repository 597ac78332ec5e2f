"""Maps: elementwise expressions, planned over tiles of all views together; the Triton function is generated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from anydml.engines.common.program import Program
from anydml.engines.common.tiles import alignment_of, walk_of
from anydml.engines.cuda.codegen.expressions import TRITON, Emitted, bounded, function_of, given_text
from anydml.engines.cuda.launch import Bases, Kernel, bases_of, kind_of
from anydml.engines.cuda.move.gather import bind_checked, check_kernel
from anydml.ir.loops import Loops, simplify
from anydml.ir.numerics import expand
from anydml.ir.trees import rewrite, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.cuda.device import Figures
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Check, Map
    from anydml.ir.views import View


# From an expression to a Triton function: the text of one that walks its views, and computes a node a line.


def emit(
    values: Sequence[Expr], sources: Sequence[View] = (), verdicts: int = 0, *, is_interleaved: bool = False
) -> Emitted:
    """A kernel for trees of operations alone, one for each target; of four that are interleaved, for the first.

    It writes nothing where one of so many verdicts finds a fault. Of the sources it must know the strides of those that
    are fetched from.
    """
    values = [rewrite(value, bounded) for value in values]
    nodes = list(walk(*values))
    loads, coordinates, given, fetches = (
        [node for node in nodes if node.op == op] for op in ("load", "coordinate", "given", "fetch")
    )
    names = {node: f"v{number}" for number, node in enumerate(nodes)}
    targets = [f"target{number}" for number in range(1 if is_interleaved else len(values))]
    views = range(len(loads) + len(coordinates) + len(targets))
    pointers = [*(f"p{view}" for view in range(len(loads))), *targets]
    fetched = {node: f"f{number}" for number, node in enumerate(fetches)}
    strides = [f"strides_{name}" for name in fetched.values()]
    guards = [f"verdict{number}" for number in range(verdicts)]
    numbers = ["counts", "blocks", "sizes", *(f"{of}{view}" for view in views for of in ("steps", "strides"))]
    starts = [f"start{number}" for number in range(len(coordinates))]
    chosen = [f"given{number}" for number in range(len(given))]
    constants = [f"{name}: tl.constexpr" for name in ("TILE", *(f"REACH{view}" for view in views))]
    firsts = [f"{start}.to(tl.int64) * REACH{view}.align" for view, start in enumerate(starts, len(loads))]
    bases = [*pointers[: len(loads)], *firsts, *targets]
    walked = [f"steps{view}, sizes, strides{view}, TILE, REACH{view}" for view in views]
    places = [f"reach({base}, row, first, number, {how})" for base, how in zip(bases, walked, strict=True)]
    computed = {
        **{
            node: f"fetch(p{view}, row, first, number, mask, counts, {walked[view]})" for view, node in enumerate(loads)
        },
        **dict(zip(coordinates, places[len(loads) :], strict=False)),
        **{node: given_text(number, node) for node, number in zip(given, chosen, strict=True)},
    }
    for node in nodes:  # loads come first
        if node.op == "fetch":
            computed[node] = _fetch(node, fetched[node], names, sources[int(node.value)])
        elif node not in computed:
            computed[node] = TRITON.text(node, names)
    parameters = [*pointers, *fetched.values(), *guards, *numbers, *starts, *chosen, *strides, *constants]
    stored = places[-len(targets) :]
    if is_interleaved:
        stores = [f"put_four({stored[0]}, {', '.join(names[value] for value in values)}, mask, TILE)"]
    else:
        stores = [f"tl.store({at}, {names[value]}, mask=mask)" for at, value in zip(stored, values, strict=True)]
    lines = [
        "@triton.jit",
        f"def generated_map({', '.join(parameters)}):",
        *(f"    if tl.load({guard}) != NONE_OUTSIDE:\n        return" for guard in guards),
        "    row, first, number, mask = begin(counts, blocks, TILE)",
        *(f"    {names[node]} = {text}" for node, text in computed.items()),
        *(f"    {store}" for store in stores),
    ]
    slots, dimensions = (tuple(int(node.value) for node in of) for of in (loads, coordinates))
    operations = sum(bool(node.args) for node in nodes)
    return Emitted(function_of("\n".join(lines) + "\n"), tuple(given), slots, dimensions, tuple(fetches), operations)


def _fetch(node: Expr, pointer: str, names: dict[Expr, str], source: View) -> str:
    """Elements at computed places. Strides of 1, and what the others are multiples of, the compiler is to know."""
    parts = list(enumerate(zip(node.args, source.strides, strict=True)))
    align = fetch_align(source)
    far = [f"{names[index]} * strides_{pointer}[{k}]" for k, (index, stride) in parts if stride not in (0, 1)]
    near = [names[index] for _, (index, stride) in parts if stride == 1]
    offset = " + ".join([*([f"({' + '.join(far)}) * {align}"] if far else []), *near]) or "0"
    return f"tl.load({pointer} + arithmetic.spread({offset}, mask), mask=mask)"


def fetch_align(source: View) -> int:
    """The common divisor of a source's strides, those of 1 aside."""
    return alignment_of(stride for stride in source.strides if stride not in (0, 1))


# Maps, planned.


SHORT = 16
"""Operations up to which a thread computes 8 numbers, and past them 16, in half the threads: gelu of FLOAT32 is then at
0.88 of copy speed on a H200 and not at 0.77, of FLOAT16 at 0.93 and not at 0.84."""


@dataclass(frozen=True, slots=True)
class MapProgram(Program):
    """A map, planned."""

    kernel: Kernel
    bases: Bases
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
        walk = walk_of(loops, widths, figures.tile, is_heavy=made.operations > SHORT)
        starts = [loops.offsets[k] // walk.reaches[k].align for k in range(len(read), first)]
        fetched = [primitive.sources[int(node.value)] for node in made.fetches]
        strides = [tuple(stride // fetch_align(view) for stride in view.strides) for view in fetched]
        kernel = Kernel(
            made.function,
            (*(kind_of(view.data_type) for view in (*views, *fetched)), *("i64" for _ in primitive.checks)),
            (*walk.numbers, *starts, *made.numbers, *strides),
            {"TILE": walk.tile} | {f"REACH{view}": each for view, each in enumerate(walk.reaches)}, walk.programs,
            walk.warps, figures, fuses=False,
        )  # fmt: skip
        kernel.prepare()
        for check in primitive.checks:
            check_kernel(check, figures).prepare()
        firsts = (*loops.offsets[: len(read)], *loops.offsets[first:], *(view.offset for view in fetched))
        return cls(kernel, bases_of((*views, *fetched), firsts), primitive.checks)

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
