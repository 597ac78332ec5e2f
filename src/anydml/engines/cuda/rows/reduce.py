"""Reductions along rows: tiles of rows by elements, whole rows or chunk by chunk; softmax and normalisations are
reductions of several passes. Planned, and written as a Triton function.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anydml.core.enums import DataType
from anydml.engines.common.program import Program
from anydml.engines.common.routes import Route, always, choose
from anydml.engines.common.tiles import (
    RowWalk,
    alignment_of,
    ceil_power,
    divisor_of,
    leaves_of,
    over,
    row_walk_of,
    step_of,
)
from anydml.engines.cuda.codegen.expressions import TRITON, Emitted, TritonLines, bounded, load_text
from anydml.engines.cuda.launch import IS_INTERPRETED, Bases, Kernel, bases_of, kind_of
from anydml.engines.cuda.move.gather import bind_checked, check_kernel
from anydml.engines.cuda.rows.reduce_kernel import RowSteps, RowTile
from anydml.engines.cuda.scratch import DeviceWords
from anydml.ir.expressions import FOLDS, Expr, fold, load
from anydml.ir.numerics import expand
from anydml.ir.numerics.exponential import is_not_above_zero
from anydml.ir.row_passes import levels_of, neutral, varies_along_row
from anydml.ir.trees import rewrite, walk
from anydml.ir.trees import walk as walk_nodes
from anydml.ir.verbs import Reduce, Write
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.common.tiles import Numbers
    from anydml.engines.cuda.device import Figures
    from anydml.ir.verbs import Check

# From an expression with folds to a Triton function: some rows a program, whole ones or a chunk at a time.


@dataclass(frozen=True, slots=True)
class Form:
    """The facts that the text of a kernel depends on besides the expression."""

    is_whole: bool
    """Whether a tile holds whole rows: each element is read once, whatever is folded how often."""
    is_even: bool
    """Whether chunks fill rows."""
    by_row: tuple[bool, ...]
    """By target, whether it has a value for each row."""
    is_parted: bool = False
    """Whether several programs have a part of a row each, and put down what the folds make of it."""
    is_full: bool = False
    """Whether tiles fill the rows."""


def emit_rows(
    values: Sequence[Expr], form: Form, spans: Callable[[Expr], tuple[bool, bool]], verdicts: int = 0
) -> Emitted:
    """A kernel for trees of operations and folds, one for each target.

    `spans` says if a leaf varies from row to row, and along a row. It writes nothing where one of so many verdicts
    finds a fault.
    """
    writer = _Writer([rewrite(value, bounded) for value in values], form, spans, verdicts)
    return Emitted(
        writer.made(),
        tuple(writer.given),
        tuple(int(node.value) for node in writer.loads),
        tuple(int(node.value) for node in writer.coordinates),
        tuple(writer.fetches),
    )


class _Writer(TritonLines):
    def __init__(
        self, values: list[Expr], form: Form, spans: Callable[[Expr], tuple[bool, bool]], verdicts: int
    ) -> None:
        self.values, self.form = values, form
        self.guards = [f"verdict{number}" for number in range(verdicts)]
        self.loads, self.coordinates, self.given = leaves_of(*values)
        self.levels = levels_of(*values)
        self.folds = [node for node in self.levels if node.op in FOLDS]
        self.fetches = {node: f"f{k}" for k, node in enumerate(node for node in self.levels if node.op == "fetch")}
        self.views = {node: number for number, node in enumerate((*self.loads, *self.coordinates))}
        self.spans = {node: spans(node) for node in self.views}
        self.varies = varies_along_row(values, [node for node, (_, along) in self.spans.items() if along])
        """Whether a node has a number for each element of a row."""
        super().__init__()

    def made(self) -> Any:
        written = self.folds if self.form.is_parted else self.values
        views = range(len(self.views) + (0 if self.form.is_parted else len(written)))
        targets = [f"target{number}" for number in range(len(written))]
        pointers = [*(f"p{view}" for view in range(len(self.loads))), *targets, *self.fetches.values(), *self.guards]
        numbers = ["count", "length", "parts", "chunks", "row_sizes", "sizes"]
        numbers += [f"{of}{view}" for view in views for of in ("row_strides", "strides")]
        starts = [f"start{number}" for number in range(len(self.coordinates))]
        chosen = [f"given{number}" for number in range(len(self.given))]
        chosen_strides = [f"strides_{name}" for name in self.fetches.values()]
        constants = [f"{name}: tl.constexpr" for name in ("TILE", *(f"LINE{view}" for view in views))]
        self.define("reduce", [*pointers, *numbers, *starts, *chosen, *chosen_strides, *constants])
        for guard in self.guards:
            self.say(f"if tl.load({guard}) != NONE_OUTSIDE:", "    return")
        self.take_given(self.given, chosen)
        if self.form.is_parted:
            self.say("tile, part = rows.parted(parts)")
        else:
            self.say("tile = tl.program_id(0)")
        self.say("row, is_row = rows.begin(tile, count, TILE)")
        for node, view in self.views.items():
            base = f"p{view}" if node.op == "load" else f"start{view - len(self.loads)}.to(tl.int64)"
            at = f"rows.to_rows({base}, row, row_sizes, row_strides{view}, LINE{view})" if self.spans[node][0] else base
            self.say(f"at{view} = {at}")
        if not self.form.is_parted:
            for target, last in zip(targets, range(len(self.views), len(views)), strict=True):
                self.say(f"at{last} = rows.to_rows({target}, row, row_sizes, row_strides{last}, LINE{last})")
        if self.form.is_whole:
            self.whole()
        else:
            self.chunks()
        return self.function()

    # One chunk of a row, or all of it

    def begin(self, first: str) -> None:
        self.say(f"number = rows.within({first}, TILE)")
        if not self.form.is_even:
            self.say("there = rows.there(number, length, TILE)")

    def masks(self, by_row: bool, along: bool) -> list[str]:
        return ["is_row"] * (by_row and not self.form.is_full) + ["there"] * (along and not self.form.is_even)

    def write(self, place: str, value: str, *spans: bool) -> None:
        masks = " & ".join(self.masks(*spans))
        self.say(f"tl.store({place}, {value}{f', mask={masks}' if masks else ''})")

    def compute(self, nodes: Sequence[Expr]) -> None:
        for node in nodes:
            if node in self.views:
                self.put(node, self.leaf(node))
            elif node.op in FOLDS:
                self.put(node, f"rows.{node.op}({self.filled(node)})")
            elif node in self.fetches:
                self.put(node, self.fetched(node))
            elif self.is_shared(node):
                self.put(node, "rows.divided({}, {})".format(*(self.names[arg] for arg in node.args)))
            elif node.op != "given":
                self.operate(node)

    def is_shared(self, node: Expr) -> bool:
        """Whether elements are divided by what is folded of their row: one inverse serves all of them."""
        if node.op != "div" or node.type is not DataType.FLOAT32:
            return False
        by = node.args[1]
        return self.varies[node.args[0]] and not self.varies[by] and self.levels[by] > 0

    def leaf(self, node: Expr) -> str:
        view, (by_row, along) = self.views[node], self.spans[node]
        place = f"rows.along(at{view}, number, sizes, strides{view}, LINE{view})" if along else f"at{view}"
        return load_text(place, self.masks(by_row, along), "") if node.op == "load" else place

    def fetched(self, node: Expr) -> str:
        """Elements at computed places."""
        name, length = self.fetches[node], "TILE.length" if self.varies[node] else "1"
        indices = (f"{self.names[index]} * strides_{name}[{k}]" for k, index in enumerate(node.args))
        offset = f"rows.spread({' + '.join(indices)}, TILE.rows, {length})"
        return load_text(f"{name} + {offset}", self.masks(True, self.varies[node]), "")

    def filled(self, fold: Expr) -> str:
        """The folded value, as a whole tile; outside of rows the neutral element."""
        name = self.names[fold.args[0]]
        if not self.form.is_even:
            name = f"tl.where(there, {name}, {TRITON.constant(neutral(fold))})"
        return f"rows.spread({name}, TILE.rows, TILE.length)"

    def store(self, *, by_row: bool) -> None:
        """Write the targets that have a value for each row, or those that have one for each element."""
        for view, (value, is_by_row) in enumerate(zip(self.values, self.form.by_row, strict=True), len(self.views)):
            if is_by_row != by_row:
                continue
            name = self.names[value]
            if by_row:
                self.write(f"at{view}", f"rows.spread({name}, TILE.rows, 1)", True, False)
                continue
            place = f"rows.along(at{view}, number, sizes, strides{view}, LINE{view})"
            self.write(place, f"rows.spread({name}, TILE.rows, TILE.length)", True, True)

    # The two ways

    def whole(self) -> None:
        self.begin("0")
        self.compute(list(walk(*self.values)))
        self.store(by_row=True)
        self.store(by_row=False)

    def chunks(self) -> None:
        """A loop along the rows for each level of folds, and one for what is written."""
        self.say("begin, end = 0, (length + TILE.length - 1) // TILE.length")
        if self.form.is_parted:
            self.say("begin = part.to(tl.int64) * chunks", "end = tl.minimum(begin + chunks, end)")
        for level in range(1, max(self.levels.values()) + 1):
            self.loop([node for node in self.folds if self.levels[node] == level])
        if self.form.is_parted:
            for number, fold in enumerate(self.folds):
                place = f"target{number} + row.to(tl.int64)[:, None] * parts + part"
                self.write(place, self.names[fold], True, False)
        else:
            self.loop([])

    def loop(self, folds: list[Expr]) -> None:
        """Go along the rows, and fold; without folds, compute the values and write them."""
        roots = [fold.args[0] for fold in folds] or self.values
        needed = list(walk(*roots, known=self.names))
        self.compute([node for node in needed if not self.varies[node]])
        if not folds:
            self.store(by_row=True)
            if all(self.form.by_row):
                return
        sums = [f"sum{next(self.fresh)}" for _ in folds]
        for name, one in zip(sums, folds, strict=True):
            self.say(f"{name} = rows.spread(rows.wide({TRITON.constant(neutral(one))}), TILE.rows, TILE.length)")
        self.say("for step in range(begin, end):")
        outside, kept = self.indent, dict(self.names)
        self.indent += "    "
        self.begin("step * TILE.length")
        self.compute([node for node in needed if self.varies[node]])
        for name, one in zip(sums, folds, strict=True):
            self.say(f"{name} = rows.both_{one.op.removeprefix('fold_')}({name}, rows.wide({self.filled(one)}))")
        if not folds:
            self.store(by_row=False)
        self.indent = outside
        self.names = kept
        for name, one in zip(sums, folds, strict=True):
            self.put(one, f"rows.{one.op}({name}).to({TRITON.types[one.type]})")


# Rows that become FLOAT16, in fewer operations an element: short rows are bound by them, and not by memory.


def shortened(node: Expr) -> Expr:
    """A FLOAT16 with the hardware's powers in a softmax, and products with 1/y in place of quotients by a row's y.

    Either is good to 2^-18 of the number that a FLOAT16 is made of, which has 2^-11. Of rows of 256 softmax takes 12
    operations an element, and 27 with powers that are good to a FLOAT32.
    """
    if node.op != "cast" or node.type is not DataType.FLOAT16:
        return node
    (whole,) = node.args
    if whole.op in ("mul", "div") and _is_power(whole.args[0]):
        whole = rewrite(whole, _by_hardware)
    return Expr("cast", node.type, (rewrite(whole, _multiplied),))


def _is_power(node: Expr) -> bool:
    return node.op == "exp" and is_not_above_zero(node.args[0])


def _by_hardware(node: Expr) -> Expr:
    """e^x as 2^(x·log2 e), for an x that is not above 0: those below -17 are 0 as FLOAT16."""
    return Expr("exp2", node.type, (node.args[0] * math.log2(math.e),)) if _is_power(node) else node


def _multiplied(node: Expr) -> Expr:
    """x/y as x·(1/y) where y alone is a row's."""
    if node.op != "div" or node.type is not DataType.FLOAT32:
        return node
    x, y = node.args
    return x * (1.0 / y) if _is_of_row(y) and not _is_of_row(x) else node


def _is_of_row(node: Expr) -> bool:
    """Whether it is made of folds, and of nothing besides but numbers."""
    folds = [found for found in walk(node) if found.op in FOLDS]
    return bool(folds) and all(found.op not in ("load", "coordinate", "fetch") for found in walk(node, known=folds))


# Reduces, planned: a kernel generated from the expression, over tiles of rows by elements.


MOST_WHOLE = 32 if IS_INTERPRETED else 16384
"""Elements of the longest row that a program holds; longer ones are read again for each level of folds."""
SHORT = 64 if IS_INTERPRETED else 1024
"""Elements of a tile of shorter rows: a warp folds each without waiting for others."""
CHUNK = 64 if IS_INTERPRETED else 2048
"""Elements of a tile of chunks of longer rows."""
ACROSS = 512
"""Bytes of neighbouring rows in a tile, where they are the neighbours in memory: sums along the first axis of a square
of 16,384 FLOAT32 are at 0.99 of copy speed, and at 0.84 with 256 (H200)."""
EACH = 32
"""Elements a thread of whole rows; a fourth of chunks, which leave their folds in registers, and of rows so few that
each has a multiprocessor to itself."""
LARGE, REGISTERS = 8192, {8: 128, 16: 64}
"""Elements of a tile past which a thread has so many registers, by warps, and two programs a multiprocessor: layer norm
of rows of 16,384 FLOAT16 is at 0.91 of copy speed, with 16 warps and no limit at 0.54."""
SIMPLE = 24
"""Operations past which such a tile has 16 warps: softmax of rows of 16,384 FLOAT32 is at 0.98 of copy speed. A tile of
FLOAT16 has 8 and no limit, three to a multiprocessor: 0.96, with 16 warps 0.80."""
FULL = 4
"""Programs a multiprocessor that rows are parted for, where there are fewer."""
PARTS = "partial folds {}"


@dataclass(frozen=True, slots=True)
class ReduceTile:
    """How a reduce is cut."""

    rows: int
    length: int
    parts: int
    warps: int
    registers: int | None = None
    """The most that a thread may use."""


def tile_of(walk: RowWalk, is_once: bool, is_simple: bool, operations: int, figures: Figures) -> ReduceTile:
    """Tiles of a few thousand elements, whole rows where they are read more than once.

    Rows so few that they leave multiprocessors idle are parted, where the folds are simple.
    """
    count, length = walk.rows.count, walk.along.count
    long = ceil_power(length)
    if walk.is_across:
        width = max(view.data_type.size_in_bytes for view in walk.views)
        rows = min(ceil_power(count), 8 if IS_INTERPRETED else ACROSS // width)
        long = min(long, CHUNK // rows)
    else:
        long = long if long <= (CHUNK if is_once else MOST_WHOLE) else CHUNK
        rows = min(max(SHORT // long, 1), ceil_power(count))
        while rows > 1 and count < 2 * figures.multiprocessors * rows:
            rows //= 2
    programs, chunks = -(-count // rows), -(-length // long)
    parts = 1
    if is_simple and programs < 2 * figures.multiprocessors and chunks >= 8:
        parts = min(-(-FULL * figures.multiprocessors // programs), chunks // 4)
    each = EACH // 4 if chunks > 1 or walk.is_across or programs <= figures.multiprocessors else EACH
    is_large, is_heavy = rows * long > LARGE, operations > SIMPLE
    is_narrow = max(view.data_type.size_in_bytes for view in walk.views) <= 2
    warps = min(max(rows * long // (32 * each), 1), 16 if is_large and is_heavy and not is_narrow else 8)
    registers = REGISTERS.get(warps) if is_large and not (is_heavy and is_narrow) else None
    return ReduceTile(rows, long, parts, warps, registers)


def is_parted(_walk: RowWalk, shape: ReduceTile) -> bool:
    """Rows so few that they leave multiprocessors idle, of simple folds: a program has a part of a row."""
    return shape.parts > 1


def is_across(walk: RowWalk, _shape: ReduceTile) -> bool:
    """Neighbouring rows are the neighbours in memory."""
    return walk.is_across


def is_whole(walk: RowWalk, shape: ReduceTile) -> bool:
    """Rows that a program holds: 16,384 elements at most, or 2,048 that are read once."""
    return shape.length >= walk.along.count


WAYS = (
    Route("parts of rows", is_parted),
    Route(
        "across rows",
        is_across,
        measured="sums along the first axis of a square of 16,384 FLOAT32 are at 0.99 of copy speed (H200)",
    ),
    Route(
        "whole rows",
        is_whole,
        measured="of rows of 16,384, softmax in FLOAT32 is at 0.98 of copy speed, layer norm in FLOAT16 at 0.91 (H200)",
    ),
    Route("chunks of rows", always),
)
"""How rows are cut, in the order in which it is asked for."""


@dataclass(frozen=True, slots=True)
class ReduceProgram(Program):
    """A reduce, planned."""

    steps: tuple[tuple[Kernel, Bases], ...]
    """Kernels one after the other, with the tensor of each pointer, and the first element's offset in it, in bytes."""
    scratch: tuple[tuple[str, int], ...] = ()
    """Tensors of the program's own, and where they begin, in bytes; the last is where all of them end."""
    checks: tuple[Check, ...] = ()

    @classmethod
    def plan(cls, primitive: Reduce, figures: Figures) -> ReduceProgram:
        """Simplify, cut, and compile the kernels for memory that is aligned."""
        primitive = primitive.computing(lambda value: expand(rewrite(value, shortened)))
        values = primitive.values
        walk, levels = row_walk_of(primitive, values), max(levels_of(*values).values())
        folds = _folds(values)
        is_simple = (
            primitive.is_by_row
            and levels == 1
            and not any(node.op in ("coordinate", "fetch") for node in walk_nodes(*values, known=folds))
        )
        operations = sum(bool(node.args) for node in walk_nodes(*values))
        shape = tile_of(walk, primitive.is_by_row and levels < 2, is_simple, operations, figures)
        choose(WAYS, walk, shape)
        if shape.parts == 1:
            return cls((_step(walk, shape, primitive, figures),), checks=primitive.checks)
        names = [PARTS.format(number) for number in range(len(folds))]
        first = _step(walk, shape, primitive, figures, names)
        # What the parts gave is folded like the elements were: a reduce of its own, over the parts of each row.
        sizes = (*walk.rows.sizes, shape.parts)
        sources, places, at = [], [], 0
        for name, node in zip(names, folds, strict=True):
            assert node.type is not None  # noqa: S101 - for type checkers: truths are not folded
            packed = tuple(math.prod(sizes[k + 1 :]) for k in range(len(sizes)))
            sources.append(View(name, node.type, sizes, packed))
            places.append((name, at))
            at += -(-math.prod(sizes) * node.type.size_in_bytes // 16) * 16
        loads = [node for node in walk.leaves if node.op == "load"]
        for view, source in enumerate(walk.views[: walk.loads]):
            strides = (*walk.rows.strides[view], 0)
            sources.append(View(source.tensor, source.data_type, sizes, strides, walk.rows.offsets[view]))
        made = {node: fold(node.op.removeprefix("fold_"), load(k, node.type)) for k, node in enumerate(folds)}  # type: ignore[arg-type]  # a fold has a type
        slots = {node: load(len(folds) + k, node.type) for k, node in enumerate(loads)}  # type: ignore[arg-type]  # a fold has a type
        whole = (*walk.rows.sizes, 1)
        last = zip(
            walk.views[walk.loads :],
            walk.rows.strides[len(walk.leaves) :],
            walk.rows.offsets[len(walk.leaves) :],
            strict=True,
        )
        targets = [View(view.tensor, view.data_type, whole, (*across, 0), at) for view, across, at in last]
        main, *others = (
            Write(target, _replaced(value, made, slots)) for target, value in zip(targets, values, strict=True)
        )
        rest = Reduce(tuple(sources), *main, 1, checks=primitive.checks, also=tuple(others))
        second = cls.plan(rest, figures)
        return cls((first, *second.steps), (*places, ("", at)), primitive.checks)

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in; parts of rows get memory of the program's own."""
        figures = self.steps[0][0].figures
        return bind_checked(self.checks, figures, places, lambda verdicts: self._bind(places, verdicts))

    def _bind(self, places: Mapping[str, int], verdicts: tuple[int, ...]) -> Callable[[], Any]:
        if not self.scratch:
            ((kernel, bases),) = self.steps
            return kernel.launch([*(places[tensor] + offset for tensor, offset in bases), *verdicts])
        kernel = self.steps[0][0]
        words = DeviceWords(self.scratch[-1][1] // 8 + 2, kernel.figures.index)
        first = -(-words.address // 16) * 16
        held = {**places, **{name: first + at for name, at in self.scratch}}
        starts = [
            kernel.launch([*(held[tensor] + offset for tensor, offset in bases), *verdicts])
            for kernel, bases in self.steps
        ]
        return words.around(starts, "reduce")


def _folds(values: Sequence[Expr]) -> list[Expr]:
    return [node for node in walk_nodes(*values) if node.op in FOLDS]


def _replaced(value: Expr, folds: Mapping[Expr, Expr], slots: Mapping[Expr, Expr]) -> Expr:
    """A tree with other folds, and other loads outside of them."""
    made: dict[Expr, Expr] = {}
    for node in walk_nodes(value, known=folds):
        args = tuple(folds[arg] if arg in folds else made[arg] for arg in node.args)
        made[node] = slots.get(node) or Expr(node.op, node.type, args, node.value)
    return folds[value] if value in folds else made[value]


def _step(
    walk: RowWalk, shape: ReduceTile, primitive: Reduce, figures: Figures, parted: list[str] | None = None
) -> tuple[Kernel, Bases]:
    """A kernel, and what its pointers point to."""
    length, is_whole = walk.along.count, shape.length >= walk.along.count
    values, targets = primitive.values, primitive.targets
    has_rows = tuple(map(primitive.has_rows, targets))
    tiles = -(-walk.rows.count // shape.rows)
    is_full = walk.rows.count % shape.rows == 0
    form = Form(is_whole and not parted, length % shape.length == 0, has_rows, bool(parted), is_full)
    made = emit_rows(values, form, walk.spans, len(primitive.checks))
    first = len(made.slots) + len(made.dimensions)
    rows: list[tuple[int, ...]] = []
    lines = {}
    for view in range(first if parted else first + len(targets)):
        is_memory = view < len(made.slots) or view >= first
        align = _alignment(walk.rows.strides[view], walk.along.strides[view]) if is_memory else 1
        across, along = (of.strides[view] or (0,) for of in (walk.rows, walk.along))
        rows += [over(across, align), over(along, align)]
        lines[f"LINE{view}"] = RowSteps(step_of(across[0]), step_of(along[0]), align)
    chunks = -(-length // (shape.parts * shape.length))
    folds = _folds(values) if parted else []
    kinds = [kind_of(view.data_type) for view in walk.views[: len(made.slots)]]
    kinds += [kind_of(node.type) for node in folds] if parted else [kind_of(target.data_type) for target in targets]  # type: ignore[arg-type]  # a fold has a type
    fetched = [primitive.sources[int(node.value)] for node in made.fetches]
    kinds += [*(kind_of(view.data_type) for view in fetched), *("i64" for _ in primitive.checks)]
    starts = walk.rows.offsets[len(made.slots) : first]
    numbers: Numbers = (
        walk.rows.count, length, shape.parts, chunks, walk.rows.sizes[::-1] or (1,), walk.along.sizes[::-1] or (1,),
        *(row[::-1] for row in rows), *starts, *made.numbers,
        *(view.strides for view in fetched),
    )  # fmt: skip
    is_long = max(walk.rows.count + shape.rows, length + shape.length) >= 2**31
    by_row, by_element = (min(divisor_of(n), cut) for n, cut in ((walk.rows.count, shape.rows), (length, shape.length)))
    tile = RowTile(shape.rows, shape.length, by_element, by_row, is_long)
    programs = tiles * shape.parts
    kernel = Kernel(
        made.function, tuple(kinds), numbers, {"TILE": tile, **lines}, programs, shape.warps, figures, shape.registers,
        fuses=False,
    )  # fmt: skip
    kernel.prepare()
    for check in primitive.checks:
        check_kernel(check, figures).prepare()
    bases = bases_of(walk.views, (*walk.rows.offsets[: len(made.slots)], *walk.rows.offsets[first:]))
    if parted:
        bases = (*bases[: len(made.slots)], *((name, 0) for name in parted))
    return kernel, (*bases, *bases_of(fetched, [view.offset for view in fetched]))


def _alignment(across: tuple[int, ...], along: tuple[int, ...]) -> int:
    """The common divisor of a view's strides that the compiler does not know."""
    return alignment_of(step for of in (across, along) for step in of if len(of) > 1 or step_of(step) == 2)
