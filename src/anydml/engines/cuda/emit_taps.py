"""From folds over small windows to a Triton function: a tile of results a program, over all taps together.

A thread has several results that follow one another along a dimension, a group: what two of them read is read once.
Where the dimension is the one along which memory lies, a thread reads words of several elements, and takes them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anydml.engines.cuda.emit import constant, from_bits, function_of, text_of, type_of
from anydml.engines.cuda.emit_lines import Lines, put_together
from anydml.engines.cuda.emit_rows import neutral
from anydml.engines.cuda.emit_window import split, weighted
from anydml.enums import DataType
from anydml.ir.expressions import FOLDS
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.engines.cuda.programs.window_walk import Axis, Walked
    from anydml.ir.expressions import Expr


FEW = 16
"""Taps that are written out."""
SHAPE = "(TILE.rows, TILE.columns)"


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


@dataclass(frozen=True, slots=True)
class EmittedTaps:
    """A kernel, and what it is to be given."""

    function: Any
    """Takes pointers, the walk's numbers, the user's numbers, and TILE."""
    given: tuple[Expr, ...]


def emit_taps(
    values: Sequence[Expr], leaves: Mapping[Expr, Walked], of: Dimensions, taps: int, *, is_apart: bool
) -> EmittedTaps:
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
    writer.lines = ["@triton.jit", f"def generated_taps({', '.join(parameters)}):"]
    writer.head()
    for node, name in zip(given, chosen, strict=True):
        writer.names[node] = writer.line(from_bits(f"{name}.to(tl.int64)", node.type))
    folds = [node for node in walk(*values, known=leaves) if node.op in FOLDS]
    each = range(of.group.count)
    for number, fold in enumerate(folds):
        assert fold.type is not None  # noqa: S101 - for type checkers
        first = f"tl.broadcast_to({constant(neutral(fold))}, {SHAPE}).to({type_of(fold.type)})"
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
    return EmittedTaps(function_of("\n".join(writer.lines) + "\n"), tuple(given))


class _Writer(Lines):
    def __init__(self, leaves: Mapping[Expr, Walked], of: Dimensions, is_apart: bool) -> None:
        self.leaves, self.of, self.is_apart = leaves, of, is_apart
        self.numbers = {leaf: k for k, leaf in enumerate(leaves)}
        self.known: dict[tuple[Any, ...], str] = {}
        """By node, result of a group and tap of it: what has a name."""
        super().__init__("    ")

    def begin(self) -> None:
        """Forget what was computed: a loop begins, or is over."""
        self.known = {}

    def head(self) -> None:
        """This program's tile, and where it lies in what is read."""
        self.say(
            "across = (shape[1].to(tl.int32) + TILE.columns - 1) // TILE.columns",
            "row = tl.program_id(0) // across * TILE.rows + tl.arange(0, TILE.rows)",
            "column = tl.program_id(0) % across * TILE.columns + tl.arange(0, TILE.columns)",
            "is_row = (row < shape[0])[:, None]",
            "is_column = (column < places.known(shape[1], TILE.wide))[None, :]",
            "there = is_row & is_column",
            *split("row", "r", "row_sizes", len(self.of.rows)),
            *(f"r{k} = windows.index(r{k}, TILE)" for k in range(len(self.of.rows))),
        )
        for k, leaf in enumerate(self.leaves.values()):
            word = self._word(k)
            self.say(f"at{k} = {self.place(f'p{k}', k, *self._spans(leaf), word and self._step(leaf))}")
            for i, axis in enumerate(leaf.limits):
                name = f"{k}_{i}"
                first = weighted("r", f"limit_rows{name}", len(self.of.rows), f"limit{name}[0].to(tl.int32)")
                across = f" + (column * limit{name}[1].to(tl.int32))[None, :]" if axis.steps.get(self.of.column) else ""
                down = any(axis.steps.get(dimension) for dimension in self.of.rows)
                first = f"({first}).to(tl.int32)[:, None]" if down else f"limit{name}[0].to(tl.int32)"
                self.say(f"place{name} = {first}{across}")

    def _word(self, k: int) -> int:
        """The elements of a word of what is read; 0 where it is read one by one."""
        return self.of.group.words[k] if self.of.group.words else 0

    def _step(self, leaf: Walked) -> int:
        """How far a group lies from the next."""
        return leaf.stride(self.of.column) * self.of.group.count

    def _spans(self, leaf: Walked) -> tuple[bool, bool]:
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
            parts.append(f"windows.far({row}, TILE.aligns[{view}])[:, None]")
        if across and step:
            parts.append(f"(column * {step})[None, :]")
        elif across:
            parts.append(f"places.far(column, more{view}[0], TILE.steps[{view}], TILE.aligns[{view}])[None, :]")
        if self.is_apart and len(parts) == 2:
            parts = [f"tl.max_contiguous({' + '.join(parts)}, [1, 2])"]
        return " + ".join([base, *parts])

    def fold(self, fold: Expr, name: str, g: int, k: int) -> None:
        """Add what a result has of a tap."""
        (term,) = fold.args
        if fold.op == "fold_sum" and term.op == "mul" and term.type is DataType.FLOAT32:  # rounded once
            a, b = (f"tl.broadcast_to({self.compute(factor, g, k)}, {SHAPE})" for factor in term.args)
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
            name = self._element(value, g, k)
        elif value.op == "coordinate":
            name = self._once(self._coordinate(int(value.value), g, k))
        else:
            name = self._once(text_of(value, {arg: self.compute(arg, g, k) for arg in value.args}))
        self.known[value, g, k] = name
        return name

    def _once(self, text: str) -> str:
        """What was computed for another result is not computed again."""
        if (text,) not in self.known:
            self.known[text,] = self.line(text)
        return self.known[text,]

    def _coordinate(self, dimension: int, g: int, k: int) -> str:
        of, group = self.of, self.of.group
        inside = f" * {group.count} + {g}" if dimension == group.dimension and group.count > 1 else ""
        if dimension == of.column:
            return f"(column.to(tl.int64){inside})[None, :]"
        if dimension in of.rows:
            return f"(r{of.rows.index(dimension)}.to(tl.int64){inside})[:, None]"
        if dimension in of.taps:
            return f"k{of.taps.index(dimension)}.to(tl.int64)"
        return f"tl.full((), {k if dimension == group.tap else 0}, tl.int64)"

    def _element(self, node: Expr, g: int, k: int) -> str:
        """What is read for a result and a tap, once for all that read it."""
        leaf, group, number = self.leaves[node], self.of.group, self.numbers[node]

        def moved(step: Any) -> int:
            return int(g * step(group.dimension) + (k * step(group.tap) if group.tap is not None else 0))

        word = self._word(number)
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
            self.known[key] = self.line(self._read(node, " + ".join(parts), (g, k)))
        return self.known[key]

    def _read(self, node: Expr, shift: str, at: tuple[int, int]) -> str:
        """An element of every place, and a number where that lies outside."""
        leaf, k = self.leaves[node], self.numbers[node]
        down, across = self._spans(leaf)
        masks = [*(["is_row"] if down else []), *(["is_column"] if across else [])]
        for i, axis in enumerate(leaf.limits):
            name = f"{k}_{i}"
            moved = weighted("k", f"limit_taps{name}", len(self.of.taps), f"place{name}")
            for n, number, dimension in zip(at, (3, 4), (self.of.group.dimension, self.of.group.tap), strict=True):
                if n and dimension is not None and axis.steps.get(dimension):
                    moved += f" + {n} * limit{name}[{number}].to(tl.int32)"
            now = self._once(moved)
            masks.append(f"({now} >= 0) & ({now} < limit{name}[2].to(tl.int32))")
        text = f"at{k} + {self._shift(k, shift)}"
        if not masks:
            return f"tl.load({text})"
        if not leaf.limits:
            return f"tl.load({text}, mask={' & '.join(masks)}, other=0)"
        # A mask has the shape of all that is read, and a pointer of as much as it varies with.
        return f"windows.read(tl.broadcast_to({text}, {SHAPE}), {' & '.join(masks)} & there, {_other(leaf)})"

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
        now = self._once(f"(column * {step} + {first})[None, :]")
        masks = [f"({now} >= 0) & ({now} < more{k}[3].to(tl.int32))"]
        for i, other in enumerate(leaf.limits):
            if other is axis:
                continue
            name = f"{k}_{i}"
            near = self._once(weighted("k", f"limit_taps{name}", len(self.of.taps), f"place{name}"))
            masks.append(f"({near} >= 0) & ({near} < limit{name}[2].to(tl.int32))")
        mask = f"tl.broadcast_to({' & '.join(masks)} & there, {SHAPE})"
        text = f"tl.broadcast_to(at{k} + {self._shift(k)} + {place}, {SHAPE})"
        if along:
            text, mask = f"{text}[:, :, None] + {along}[None, None, :]", f"{mask}[:, :, None]"
        return f"windows.read({text}, {mask}, {_other(leaf)})"

    def store(self, number: int, results: Sequence[str]) -> None:
        """Write the results of every group."""
        view, group = len(self.leaves) + number, self.of.group
        full = [f"tl.broadcast_to({result}, {SHAPE})" for result in results]
        base = f"target{number}"
        if self.of.is_across:
            place = self.place(base, view, step=group.count)
            each = f"tl.arange(0, {group.count})[None, None, :]"
            mask = "there[:, :, None]"
            if not group.is_whole:
                mask += f" & ((column * {group.count})[None, :, None] + {each} < shape[3].to(tl.int32))"
            value = f"tl.reshape({put_together(full)}, (TILE.rows, TILE.columns, {group.count}))"
            self.say(f"tl.store(({place})[:, :, None] + {each}, {value}, mask={mask})")
            return
        self.say(f"to{number} = {self.place(base, view)}")
        for g, result in enumerate(full):
            mask = "there"
            if not group.is_whole:
                mask += f" & (r{self.of.rows.index(group.dimension)} * {group.count} + {g} < shape[3])[:, None]"
            far = f" + windows.far({g} * more{view}[1], TILE.aligns[{view}])" if g else ""
            self.say(f"tl.store(to{number}{far}, {result}, mask={mask})")


def _other(leaf: Walked) -> str:
    return "0" if leaf.outside is None else constant(leaf.outside)
