"""The depthwise and pooling stencil: small windows with all taps unrolled, several results a thread so that they share
loads. Planned, and written as a Triton function.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anydml.core.enums import DataType
from anydml.core.symbolic_sizes import gcd
from anydml.engines.common.tiles import ALIGNMENT, alignment_of, ceil_power, columns_for, divisor_of, over, step_of
from anydml.engines.cuda.codegen.expressions import (
    TRITON,
    Emitted,
    TritonLines,
    bounded,
    load_text,
    put_together,
    split,
    weighted,
)
from anydml.engines.cuda.conv.implicit_gemm_kernel import StencilConstants
from anydml.engines.cuda.launch import IS_INTERPRETED, Bases, Kernel, bases_of, kind_of
from anydml.engines.cuda.prepared import PreparedProgram
from anydml.ir.expressions import FOLDS, Expr
from anydml.ir.numerics import expand
from anydml.ir.padded_reads import match_reached
from anydml.ir.patterns import copy_of
from anydml.ir.row_passes import levels_of, neutral
from anydml.ir.trees import walk
from anydml.ir.windows import walked_by

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.common.tiles import Numbers
    from anydml.engines.cuda.device import Figures
    from anydml.ir.verbs import Map, Reduce
    from anydml.ir.views import View
    from anydml.ir.windows import Axis, WindowedOperand

# Which results of a fold over windows a thread has: several in a row, so that they share what is read.


MOST_RESULTS = 8
"""Results of a group along memory, of 16 bytes at most."""
DOWN = 4
"""Results of a group across memory, each of them 16 bytes wide."""
SPARE = 0.25
"""The part of such groups that may be past the end."""


@dataclass(frozen=True, slots=True)
class Group:
    """Results of a thread that follow one another."""

    dimension: int
    count: int
    tap: int | None = None
    """The dimension of taps that leads from one of them to the next; it is written out."""
    words: tuple[int, ...] = ()
    """By what is read, the elements of a word along the dimension; none where memory does not lie along it."""
    is_whole: bool = True
    """Whether groups fill the dimension."""


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The dimensions of a walk."""

    rows: tuple[int, ...]
    """The fastest first."""
    column: int
    """Along which the first target lies."""
    taps: tuple[int, ...]
    """Those that are folded, the fastest first, but for the group's."""
    group: Group
    reach: int = 1
    """The taps of the group's dimension of taps."""

    @property
    def is_across(self) -> bool:
        """Whether groups lie along columns."""
        return self.group.dimension == self.column and self.group.count > 1


def group_of(
    leaves: Mapping[Expr, WindowedOperand], primitive: Reduce, rows: Sequence[int], column: int, taps: Sequence[int]
) -> Group:
    """The results of a thread: along memory, where words can be read there, else across it, else one."""
    found = _along(leaves, primitive, column, taps)
    if found is not None:
        return found
    for dimension in rows:
        tap = _tap(leaves, dimension, taps)
        if tap is None or not _overlap(leaves, dimension, tap, primitive.sizes[tap]):
            continue  # what two results read they do not share
        size = primitive.sizes[dimension]
        for count in (DOWN, DOWN // 2):
            if _spare(size, count) <= SPARE:
                return Group(dimension, count, tap, is_whole=size % count == 0)
    return Group(column, 1)


def _spare(size: int, count: int) -> float:
    """The part of groups of so many that is past the end, of what there is."""
    return (-(-size // count) * count - size) / size


def _overlap(leaves: Mapping[Expr, WindowedOperand], dimension: int, tap: int, taps: int) -> bool:
    """Whether the windows of neighbours overlap."""
    axes = [axis for leaf in leaves.values() for axis in leaf.axes if axis.steps.get(dimension) and tap in axis.steps]
    return any(abs(axis.steps[dimension]) < abs(axis.steps[tap]) * taps for axis in axes)


def _tap(leaves: Mapping[Expr, WindowedOperand], dimension: int, taps: Sequence[int]) -> int | None:
    """The dimension of taps along the same axis as a dimension of the results."""
    found = {
        tap for leaf in leaves.values() for axis in leaf.axes if axis.steps.get(dimension) for tap in axis.steps
    } & set(taps)
    return found.pop() if len(found) == 1 else None


def _along(leaves: Mapping[Expr, WindowedOperand], primitive: Reduce, column: int, taps: Sequence[int]) -> Group | None:
    """Groups along memory; None where there is no tap along it, or words do not lie in line."""
    tap = _tap(leaves, column, taps)
    if tap is None or any(target.strides[column] != 1 for target in primitive.targets):
        return None
    words, step = [], 1
    for leaf in leaves.values():
        own = [axis for axis in leaf.axes if axis.steps.get(column)]
        if not own:
            words.append(0)
            continue
        word = _word(leaf, own, column, tap)
        if word < 2:
            return None
        words.append(word)
        step = max(step, word // gcd(word, own[0].steps[column]))
    if not any(words) or step > MOST_RESULTS:
        return None
    size = primitive.sizes[column]
    most = min(*(ALIGNMENT // target.data_type.size_in_bytes for target in primitive.targets), MOST_RESULTS)
    counts = [count for k in range(3) if (count := most >> k) > 1 and count % step == 0]
    if not counts:
        return None
    # Those that fill the rows, or more that are written one by one: by twos weights are read four times as often.
    fitting = [count for count in counts if size % count == 0 and count >= min(DOWN, most)]
    fitting += [count for count in counts if _spare(size, count) <= SPARE]
    count = next(iter(fitting), counts[-1])
    return Group(column, count, tap, tuple(words), is_whole=size % count == 0)


def _word(leaf: WindowedOperand, own: Sequence[Axis], column: int, tap: int) -> int:
    """The elements that lie in line wherever a multiple of as many begins; 1 where they do not."""
    (axis, *others) = own
    if others or axis.stride != 1 or set(axis.steps) - {column, tap} or min(axis.steps.values()) < 0:
        return 1
    if any(tap in other.steps for other in leaf.axes if other is not axis):
        return 1
    strides = [other.stride * step for other in leaf.axes if other is not axis for step in other.steps.values()]
    return min(alignment_of((axis.size, *strides)), ALIGNMENT // leaf.kind.size_in_bytes, MOST_RESULTS)


# The reads of a kernel over small windows: each element once for all results of a thread, in words if memory allows.
#
# How a source is walked comes as tuples of strides, by group of dimensions, the fastest first.


class Elements(TritonLines):
    """Lines that read a tile's elements."""

    def __init__(self, leaves: Mapping[Expr, WindowedOperand], of: Dimensions, is_apart: bool) -> None:
        self.leaves, self.of, self.is_apart = leaves, of, is_apart
        self.numbers = {leaf: k for k, leaf in enumerate(leaves)}
        super().__init__(is_transposed=of.is_across)  # what is known goes by node, result of a group and tap of it too

    def word_of(self, k: int) -> int:
        """The elements of a word of what is read; 0 where it is read one by one."""
        return self.of.group.words[k] if self.of.group.words else 0

    def step_of_groups(self, leaf: WindowedOperand) -> int:
        """How far a group lies from the next."""
        return leaf.stride(self.of.column) * self.of.group.count

    def spans(self, leaf: WindowedOperand) -> tuple[bool, bool]:
        """Whether an element varies from row to row, and from column to column."""
        return any(leaf.stride(k) for k in self.of.rows), bool(leaf.stride(self.of.column))

    def place(self, base: str, view: int, down: bool = True, across: bool = True, step: int = 0) -> str:
        """Where a tile lies in a view; `step` is what the compiler is to know of columns.

        The compiler gives neighbouring threads what it takes for neighbours: columns are, whatever lies between them.
        More it makes nothing of, as it knows of no alignment.
        """
        parts = []
        if down and self.of.rows:
            row = weighted("r", f"rows{view}", len(self.of.rows))
            parts.append(f"windows.far({row}, TILE.aligns[{view}]){self.down}")
        if across and step:
            parts.append(f"(column * {step}){self.beside}")
        elif across:
            parts.append(f"places.far(column, more{view}[0], TILE.steps[{view}], TILE.aligns[{view}]){self.beside}")
        if self.is_apart and len(parts) == 2:
            parts = [f"tl.max_contiguous({' + '.join(parts)}, [1, 2])"]
        return " + ".join([base, *parts])

    def has_result(self, g: int) -> str:
        """Whether a group down the rows has a result of some number."""
        group = self.of.group
        return f"(r{self.of.rows.index(group.dimension)} * {group.count} + {g} < shape[3]){self.down}"

    def element(self, node: Expr, g: int, k: int) -> str:
        """The read for a result and a tap, once for all that share it."""
        leaf, group, number = self.leaves[node], self.of.group, self.numbers[node]

        def moved(step: Any) -> int:
            return int(g * step(group.dimension) + (k * step(group.tap) if group.tap is not None else 0))

        word = self.word_of(number)
        if word:
            (axis,) = (axis for axis in leaf.axes if self.of.column in axis.steps)
            return self._from_word(node, word, axis, axis.first % word + moved(lambda d: axis.steps.get(d, 0)))
        shift = moved(leaf.stride)
        beside = tuple(moved(lambda d, axis=axis: axis.steps.get(d, 0)) for axis in leaf.limits)
        key = (node, "element", shift, beside)
        if key not in self.known:
            # In multiples of both strides, which are not written: another shape has the same text.
            parts = [f"{g} * more{number}[1]"] if g and leaf.stride(group.dimension) else []
            if group.tap is not None and k and leaf.stride(group.tap):
                parts.append(f"{k} * more{number}[2]")
            self.known[key] = self.line(self._read(node, " + ".join(parts), (g, k), self._first(leaf, shift)))
        return self.known[key]

    def _first(self, leaf: WindowedOperand, shift: int) -> int:
        """The first result of a group that reads an element, given by how far it lies from the group's first."""
        group = self.of.group
        along, by_tap = leaf.stride(group.dimension), 0 if group.tap is None else leaf.stride(group.tap)
        several = range(group.count)
        return min((g for g in several for k in range(self.of.reach) if g * along + k * by_tap == shift), default=0)

    def _read(self, node: Expr, shift: str, at: tuple[int, int], first: int) -> str:
        """An element of every place, and a number where that lies outside; `first` is the first result that reads it.

        The last group of a dimension that groups do not fill has results past the end, of which nothing is read.
        """
        leaf, k, group = self.leaves[node], self.numbers[node], self.of.group
        down, across = self.spans(leaf)
        masks = [*(["is_row"] if down else []), *(["is_column"] if across else [])]
        if first and not group.is_whole:
            masks.append(f"{self.has_result(first)}")
        for i, axis in enumerate(leaf.limits):
            name = f"{k}_{i}"
            moved = weighted("k", f"limit_taps{name}", len(self.of.taps), f"place{name}")
            for n, number, dimension in zip(at, (3, 4), (self.of.group.dimension, self.of.group.tap), strict=True):
                if n and dimension is not None and axis.steps.get(dimension):
                    moved += f" + {n} * limit{name}[{number}].to(tl.int32)"
            now = self.once(moved)
            masks.append(f"({now} >= 0) & ({now} < limit{name}[2].to(tl.int32))")
        text = f"at{k} + {self._shift(k, shift)}"
        if not leaf.limits:
            return load_text(text, masks)
        # A mask has the shape of all that is read, and a pointer of as much as it varies with.
        return f"windows.read(tl.broadcast_to({text}, ({self.sizes})), {' & '.join(masks)} & there, {_other(leaf)})"

    def _shift(self, k: int, more: str = "") -> str:
        shift = weighted("k", f"taps{k}", len(self.of.taps))
        return f"windows.far({shift}{' + ' + more if more else ''}, TILE.aligns[{k}])"

    def _from_word(self, node: Expr, word: int, axis: Axis, place: int) -> str:
        """An element by its place from the first word of a group on."""
        self._words(node, word, axis)
        key = (node, "of a word", place)
        if key not in self.known:  # alone in its word
            first = axis.first // word * word
            self.known[key] = self.line(self._run(node, axis, first + place, place, ""))
        return self.known[key]

    def _words(self, node: Expr, word: int, axis: Axis) -> None:
        """The words that a group reads several elements of."""
        if (node, "words") in self.known:
            return
        self.known[node, "words"] = ""
        group, of = self.of.group, self.of
        by_tap = axis.steps.get(group.tap, 0) if group.tap is not None else 0
        places = {
            axis.first % word + g * axis.steps[of.column] + k * by_tap
            for g in range(group.count)
            for k in range(of.reach)
        }
        for number in sorted({place // word for place in places}):
            inside = [place for place in places if place // word == number]
            if len(inside) == 1:
                continue
            first = axis.first // word * word + number * word
            text = self._run(node, axis, first, number * word, f"tl.arange(0, {word})")
            elements = self.taken_apart(self.line(text), word)
            self.known |= {(node, "of a word", number * word + place): name for place, name in enumerate(elements)}

    def _run(self, node: Expr, axis: Axis, first: int, place: int, along: str) -> str:
        """Elements that follow one another in each group, or the first alone."""
        leaf, k = self.leaves[node], self.numbers[node]
        step = axis.steps[self.of.column] * self.of.group.count
        now = self.once(f"(column * {step} + {first}){self.beside}")
        masks = [f"({now} >= 0) & ({now} < more{k}[3].to(tl.int32))"]
        for i, other in enumerate(leaf.limits):
            if other is axis:
                continue
            name = f"{k}_{i}"
            near = self.once(weighted("k", f"limit_taps{name}", len(self.of.taps), f"place{name}"))
            masks.append(f"({near} >= 0) & ({near} < limit{name}[2].to(tl.int32))")
        mask = f"tl.broadcast_to({' & '.join(masks)} & there, ({self.sizes}))"
        text = f"tl.broadcast_to(at{k} + {self._shift(k)} + {place}, ({self.sizes}))"
        if along:
            text, mask = f"{text}[:, :, None] + {along}[None, None, :]", f"{mask}[:, :, None]"
        return f"windows.read({text}, {mask}, {_other(leaf)})"


def _other(leaf: WindowedOperand) -> str:
    return "0" if leaf.outside is None else TRITON.constant(leaf.outside)


# From folds over small windows to a Triton function: a tile of results a program, over all taps together.
#
# A thread has several results that follow one another along a dimension, a group: what two of them read is read once.
# Where the dimension is the one along which memory lies, a thread reads words of several elements, and takes them
# apart.


FEW = 16
"""Taps that are written out."""


def emit_taps(
    values: Sequence[Expr], leaves: Mapping[Expr, WindowedOperand], of: Dimensions, taps: int, *, is_apart: bool
) -> Emitted:
    """A kernel for trees of operations and folds, one for each target; leaves are what is read.

    A few taps are written out, so that all of them are on their way at once. `is_apart` where a thread has results that
    lie apart: neighbours are then of neighbouring threads.
    """
    writer = _Writer(leaves, of, is_apart)
    given = [node for node in walk(*values, known=leaves) if node.op == "given"]
    pointers = [*(f"p{k}" for k in range(len(leaves))), *(f"target{k}" for k in range(len(values)))]
    numbers = ["shape", "row_sizes", "tap_sizes"]
    for k, leaf in enumerate(leaves.values()):
        numbers += [f"rows{k}", f"taps{k}", f"more{k}"]
        numbers += [f"{name}{k}_{i}" for i in range(len(leaf.limits)) for name in ("limit_rows", "limit_taps", "limit")]
    numbers += [f"{name}{len(leaves) + k}" for k in range(len(values)) for name in ("rows", "more")]
    chosen = [f"given{number}" for number in range(len(given))]
    parameters = [*pointers, *numbers, *chosen, "TILE: tl.constexpr"]
    writer.define("taps", parameters)
    writer.head()
    writer.take_given(given, chosen)
    folds = [node for node in walk(*values, known=leaves) if node.op in FOLDS]
    each = range(of.group.count)
    for number, fold in enumerate(folds):
        first = f"tl.broadcast_to({TRITON.constant(neutral(fold))}, ({writer.sizes})).to({TRITON.types[fold.type]})"
        writer.say(*(f"fold{number}_{g} = {first}" for g in each))
    steps = f"tl.static_range(0, {taps})" if taps * of.reach <= FEW else "range(0, shape[2].to(tl.int32))"
    writer.say(f"for step in {steps}:")
    writer.indent += "    "
    writer.say("tap = step + tl.full((), 0, tl.int32)", *split("tap", "k", "tap_sizes", len(of.taps)))
    writer.say(*(f"k{k} = windows.index(k{k}, TILE)" for k in range(len(of.taps))))
    writer.begin()
    for k in range(of.reach):
        for number, fold in enumerate(folds):
            for g in each:
                writer.fold(fold, f"fold{number}_{g}", g, k)
    writer.indent = writer.indent[:-4]
    writer.begin()
    writer.say(*(f"k{k} = tl.full((), 0, tl.int32)" for k in range(len(of.taps))))
    for g in each:
        writer.known |= {(fold, g, 0): f"fold{number}_{g}" for number, fold in enumerate(folds)}
    for number, value in enumerate(values):
        writer.store(number, [writer.compute(value, g, 0) for g in each])
    return Emitted(writer.function(), tuple(given))


class _Writer(Elements):
    def begin(self) -> None:
        """Forget what was computed: a loop begins, or is over."""
        self.known = {}

    def head(self) -> None:
        """This program's tile, and where it lies in what is read."""
        self.say(
            "across = (shape[1].to(tl.int32) + TILE.columns - 1) // TILE.columns",
            "row = tl.program_id(0) // across * TILE.rows + tl.arange(0, TILE.rows)",
            "column = tl.program_id(0) % across * TILE.columns + tl.arange(0, TILE.columns)",
            f"is_row = (row < shape[0]){self.down}",
            f"is_column = (column < places.known(shape[1], TILE.wide)){self.beside}",
            "there = is_row & is_column",
            *split("row", "r", "row_sizes", len(self.of.rows)),
            *(f"r{k} = windows.index(r{k}, TILE)" for k in range(len(self.of.rows))),
        )
        for k, leaf in enumerate(self.leaves.values()):
            word = self.word_of(k)
            self.say(f"at{k} = {self.place(f'p{k}', k, *self.spans(leaf), word and self.step_of_groups(leaf))}")
            for i, axis in enumerate(leaf.limits):
                name = f"{k}_{i}"
                first = weighted("r", f"limit_rows{name}", len(self.of.rows), f"limit{name}[0].to(tl.int32)")
                across = (
                    f" + (column * limit{name}[1].to(tl.int32)){self.beside}" if axis.steps.get(self.of.column) else ""
                )
                down = any(axis.steps.get(dimension) for dimension in self.of.rows)
                first = f"({first}).to(tl.int32){self.down}" if down else f"limit{name}[0].to(tl.int32)"
                self.say(f"place{name} = {first}{across}")

    def fold(self, fold: Expr, name: str, g: int, k: int) -> None:
        """Add what a result has of a tap."""
        (term,) = fold.args
        if fold.op == "fold_sum" and term.op == "mul" and term.type is DataType.FLOAT32:  # rounded once
            a, b = (f"tl.broadcast_to({self.compute(factor, g, k)}, ({self.sizes}))" for factor in term.args)
            self.say(f"{name} = arithmetic.fma({a}, {b}, {name})")
        else:
            self.say(f"{name} = rows.both_{fold.op.removeprefix('fold_')}({name}, {self.compute(term, g, k)})")

    def compute(self, value: Expr, g: int, k: int) -> str:
        """A tree, for a result of a group and a tap of it."""
        if (value, g, k) in self.known:
            return self.known[value, g, k]
        if value in self.names:
            return self.names[value]
        if value in self.leaves:
            name = self.element(value, g, k)
        elif value.op == "coordinate":
            name = self.once(self._coordinate(int(value.value), g, k))
        else:
            name = self.once(TRITON.text(value, {arg: self.compute(arg, g, k) for arg in value.args}))
        self.known[value, g, k] = name
        return name

    def _coordinate(self, dimension: int, g: int, k: int) -> str:
        of, group = self.of, self.of.group
        inside = f" * {group.count} + {g}" if dimension == group.dimension and group.count > 1 else ""
        if dimension == of.column:
            return f"(column.to(tl.int64){inside}){self.beside}"
        if dimension in of.rows:
            return f"(r{of.rows.index(dimension)}.to(tl.int64){inside}){self.down}"
        if dimension in of.taps:
            return f"k{of.taps.index(dimension)}.to(tl.int64)"
        return f"tl.full((), {k if dimension == group.tap else 0}, tl.int64)"

    def store(self, number: int, results: Sequence[str]) -> None:
        """Write the results of every group."""
        view, group = len(self.leaves) + number, self.of.group
        full = [f"tl.broadcast_to({result}, ({self.sizes}))" for result in results]
        base = f"target{number}"
        if self.of.is_across:
            place = self.place(base, view, step=group.count)
            each = f"tl.arange(0, {group.count})[None, None, :]"
            mask = "there[:, :, None]"
            if not group.is_whole:
                mask += f" & ((column * {group.count}){self.beside}[:, :, None] + {each} < shape[3].to(tl.int32))"
            value = f"tl.reshape({put_together(full)}, ({self.sizes}, {group.count}))"
            self.say(f"tl.store(({place})[:, :, None] + {each}, {value}, mask={mask})")
            return
        self.say(f"to{number} = {self.place(base, view)}")
        for g, result in enumerate(full):
            mask = "there"
            if not group.is_whole:
                mask += f" & {self.has_result(g)}"
            far = f" + windows.far({g} * more{view}[1], TILE.aligns[{view}])" if g else ""
            self.say(f"tl.store(to{number}{far}, {result}, mask={mask})")


# Folds over small windows, planned: poolings, depthwise convolutions, and whatever else has a few taps.


MOST_ROWS = 6
LEAST = 8
"""Bytes that a thread reads at once, or else its results lie apart."""
TILE, WIDE = (1024, 64) if not IS_INTERPRETED else (64, 8)
"""Results of a tile, and how many of them lie beside one another at most."""
MORE = 4
"""Times as many results where rows share what is read, such as weights: it is read and converted once for all."""


class StencilProgram(PreparedProgram):
    """Folds over small windows, planned."""

    __slots__ = ()

    @classmethod
    def plan(cls, primitive: Reduce, figures: Figures, constants: frozenset[str]) -> StencilProgram | None:
        """For windows of a few taps, one value each; None for others, and for rows of neighbours."""
        sizes, kept = primitive.sizes, len(primitive.sizes) - primitive.depth
        taps = tuple(k for k in reversed(range(kept, len(sizes))) if sizes[k] > 1)
        values = tuple(expand(value) for value in primitive.values)
        leaves = _leaves(values, primitive)
        if leaves is None or max(levels_of(*values).values()) > 1 or not _are_windows(leaves, sizes, kept):
            return None
        values = tuple(_bounded(value, leaves) for value in values)
        wide = [k for k in range(kept) if sizes[k] > 1] or [0]
        order = sorted(wide, key=lambda k: (abs(primitive.target.strides[k]), -k))
        rows, column = tuple(order[1:]), order[0]
        if len(rows) > MOST_ROWS:
            return None
        laid_out = _lay_out(leaves, rows, column)
        group = group_of(leaves, primitive, rows, column, taps)
        reach = 1 if group.tap is None else sizes[group.tap]
        of = Dimensions(rows, column, tuple(k for k in taps if k != group.tap), group, reach)
        return cls.of(*_kernel(primitive, values, leaves, of, figures), laid_out, primitive.sources, constants)


def _lay_out(leaves: dict[Expr, WindowedOperand], rows: Sequence[int], column: int) -> list[Map]:
    """Weights of each column, side by side: what lays them out, and instead of them what is laid out."""
    made = []
    for number, (node, leaf) in enumerate(leaves.items()):
        own = [k for k, axis in enumerate(leaf.axes) if column in axis.steps]
        is_ours = len(own) == 1 and not leaf.limits and not any(leaf.stride(k) for k in rows)
        if is_ours and abs(leaf.stride(column)) != 1 and leaf.axes[own[0]].steps[column] == 1:
            order = [*(k for k in range(len(leaf.axes)) if k not in own), *own]
            leaves[node] = leaf.packed(f"weights {number} by column", order)
            made.append(copy_of(leaf.view, leaves[node].view))
    return made


def _leaves(values: Sequence[Expr], primitive: Reduce) -> dict[Expr, WindowedOperand] | None:
    """The reads by node; None where something is fetched otherwise than at lines."""
    found: dict[Expr, WindowedOperand] = {}
    inside: set[Expr] = set()
    for node in reversed(list(walk(*values))):  # what a window is made of comes after it
        if node in inside or not (node.op in ("load", "fetch") or (node.op == "where" and match_reached(node))):
            continue
        pairs = _pairs(primitive.sources[int(node.value)], primitive) if node.op == "load" else {}
        leaf = walked_by(node, primitive.sources, pairs)
        if leaf is None or (leaf.outside is not None and leaf.outside.op != "const"):
            return None
        found[node] = leaf
        inside |= set(walk(node))
    return found


def _pairs(view: View, primitive: Reduce) -> dict[int, int]:
    """By dimension of taps, the dimension of results along which it leads: steps of that are steps of the taps.

    None of weights, which do not vary from place to place.
    """
    kept, strides = len(primitive.sizes) - primitive.depth, view.strides
    found = dict[int, int]()
    varied = [k for k in range(kept) if primitive.sizes[k] > 1 and strides[k]]
    for tap in range(kept, len(strides)) if len(varied) > 1 else ():
        along = [k for k in varied if strides[tap] and strides[k] % strides[tap] == 0]
        if along:
            found[tap] = min(along, key=lambda k: abs(strides[k]))
    return found


def _are_windows(leaves: Mapping[Expr, WindowedOperand], sizes: Sequence[int], kept: int) -> bool:
    """Whether something is read past its ends, or in windows, and not in rows of neighbours."""
    if any(leaf.limits for leaf in leaves.values()):
        return True
    folded = [k for k in range(kept, len(sizes)) if sizes[k] > 1]
    for leaf in leaves.values():
        strides = [leaf.stride(k) for k in folded]
        is_run = all(a == b * sizes[k] for a, b, k in zip(strides, strides[1:], folded[1:], strict=False))
        reach = sum(abs(stride) * (sizes[k] - 1) for k, stride in zip(folded, strides, strict=True))
        overlaps = any(0 < abs(leaf.stride(k)) <= reach for k in range(kept) if sizes[k] > 1) and reach
        if all(strides) and (overlaps or not is_run):
            return True
    return False


def _bounded(value: Expr, leaves: Mapping[Expr, WindowedOperand]) -> Expr:
    """A tree with what the hardware has one instruction for, but within what is read."""
    made = {leaf: leaf for leaf in leaves}
    for node in walk(value, known=leaves):
        made[node] = bounded(Expr(node.op, node.type, tuple(made[arg] for arg in node.args), node.value))
    return made[value]


def _is_apart(leaf: WindowedOperand, of: Dimensions) -> bool:
    """Whether a thread cannot read several columns at once: they lie apart, or taps lead from one to the next."""
    step = leaf.stride(of.column)
    if abs(step) < 2 and any(axis.steps.get(of.column) for axis in leaf.limits):
        return True
    tap = [] if of.group.tap is None else [of.group.tap]
    others = [leaf.stride(k) for k in (*of.rows, *of.taps, *tap)]
    return abs(step) > 1 or (step != 0 and alignment_of(others) * leaf.kind.size_in_bytes < LEAST)


def _kernel(
    primitive: Reduce, values: Sequence[Expr], leaves: Mapping[Expr, WindowedOperand], of: Dimensions, figures: Figures
) -> tuple[Kernel, Bases]:
    sizes, targets, group = primitive.sizes, primitive.targets, of.group
    taps = math.prod(sizes[k] for k in of.taps)
    is_apart = not of.is_across and any(_is_apart(leaf, of) for leaf in leaves.values())
    made = emit_taps(values, leaves, of, taps, is_apart=is_apart)
    aligns, steps, numbers = list[int](), list[int](), list[tuple[int, ...]]()
    words = group.words or (0,) * len(leaves)

    def many(dimension: int) -> int:
        return group.count if dimension == group.dimension else 1

    def view(stride: Callable[[int], int], *, size: int = 0, is_target: bool = False) -> None:
        rows, taps, more = [stride(k) * many(k) for k in of.rows], [stride(k) for k in of.taps], stride(of.column)
        inside = [0 if of.is_across or group.count == 1 else stride(group.dimension)]  # in words it is known
        inside.append(0 if is_target or group.tap is None or size else stride(group.tap))
        step = step_of(more)
        unknown = [more] if step == 2 and not of.is_across else []
        align = alignment_of([*rows, *([] if is_target else taps), *inside, *unknown])
        align = 1 if is_apart else align
        aligns.append(align)
        steps.append(step)
        numbers.append(over(rows, align) or (0,))
        if not is_target:
            numbers.append(over(taps, align) or (0,))
        numbers.append((more // align, *over(inside, align), size))

    for leaf, word in zip(leaves.values(), words, strict=True):
        view(leaf.stride, size=word and next(axis.size for axis in leaf.axes if of.column in axis.steps))
        for axis in leaf.limits:
            numbers.append(tuple(axis.steps.get(k, 0) * many(k) for k in of.rows) or (0,))
            numbers.append(tuple(axis.steps.get(k, 0) for k in of.taps) or (0,))
            inside = [axis.steps.get(k, 0) if k is not None else 0 for k in (group.dimension, group.tap)]
            numbers.append((axis.first, axis.steps.get(of.column, 0), axis.size, *inside))
    for target in targets:
        view(target.strides.__getitem__, is_target=True)
    counts = [-(-sizes[k] // many(k)) for k in of.rows]
    count, width = math.prod(counts), -(-sizes[of.column] // many(of.column))
    has_weights = any(not any(leaf.stride(k) for k in of.rows) for leaf in leaves.values())
    down, across = _tile(count, width, group, has_weights=has_weights)
    reaches = [leaf.reach for leaf in leaves.values()]
    reaches += [sum(abs(s) * n for s, n in zip(target.strides, target.sizes, strict=True)) for target in targets]
    tile = StencilConstants(
        down, across, tuple(aligns), tuple(steps),
        1 if is_apart else min(divisor_of(width), across), max(reaches) >= 2**31,
    )  # fmt: skip
    fixed: Numbers = (
        (count, width, taps, sizes[group.dimension]), tuple(counts) or (1,), tuple(sizes[k] for k in of.taps) or (1,),
        *numbers, *made.numbers,
    )  # fmt: skip
    kinds = [*(leaf.kind for leaf in leaves.values()), *(target.data_type for target in targets)]
    programs = -(-count // down) * -(-width // across)
    kernel = Kernel(made.function, tuple(map(kind_of, kinds)), fixed, {"TILE": tile}, programs, 4, figures, fuses=False)
    bases = []
    for leaf, word in zip(leaves.values(), words, strict=True):
        before = word and next(axis.first for axis in leaf.axes if of.column in axis.steps) % word
        bases.append((leaf.tensor, (leaf.start - before) * leaf.kind.size_in_bytes))
    return kernel, (*bases, *bases_of(targets, [target.offset for target in targets]))


def _tile(count: int, width: int, group: Group, *, has_weights: bool) -> tuple[int, int]:
    """Rows and columns of a tile, those of groups counted once."""
    if group.words:
        across = min(ceil_power(width), WIDE // 2)
        return min(max(TILE // group.count // across, 1), ceil_power(count)), across
    across = columns_for(width, WIDE)
    results = TILE * MORE if has_weights and count >= MORE * TILE and group.count == 1 else TILE
    return min(max(results // across, 1), ceil_power(count)), across
