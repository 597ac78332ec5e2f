"""The reads of a kernel over small windows: each element once for all results of a thread, in words if memory allows.

How a source is walked comes as tuples of strides, by group of dimensions, the fastest first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.engines.cuda.emit import constant
from anydml.engines.cuda.emit_lines import Lines
from anydml.engines.cuda.emit_window import weighted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.engines.cuda.programs.groups import Dimensions
    from anydml.engines.cuda.programs.window_walk import Axis, Walked
    from anydml.ir.expressions import Expr


class Elements(Lines):
    """Lines that read a tile's elements."""

    def __init__(self, leaves: Mapping[Expr, Walked], of: Dimensions, is_apart: bool) -> None:
        self.leaves, self.of, self.is_apart = leaves, of, is_apart
        self.numbers = {leaf: k for k, leaf in enumerate(leaves)}
        self.known: dict[tuple[Any, ...], str] = {}
        """By node, result of a group and tap of it: what has a name."""
        super().__init__("    ", is_turned=of.is_across)

    def once(self, text: str) -> str:
        """A value that was computed for another result is not computed again."""
        if (text,) not in self.known:
            self.known[text,] = self.line(text)
        return self.known[text,]

    def word_of(self, k: int) -> int:
        """The elements of a word of what is read; 0 where it is read one by one."""
        return self.of.group.words[k] if self.of.group.words else 0

    def step_of_groups(self, leaf: Walked) -> int:
        """How far a group lies from the next."""
        return leaf.stride(self.of.column) * self.of.group.count

    def spans(self, leaf: Walked) -> tuple[bool, bool]:
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

    def _first(self, leaf: Walked, shift: int) -> int:
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
        if not masks:
            return f"tl.load({text})"
        if not leaf.limits:
            return f"tl.load({text}, mask={' & '.join(masks)}, other=0)"
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


def _other(leaf: Walked) -> str:
    return "0" if leaf.outside is None else constant(leaf.outside)
