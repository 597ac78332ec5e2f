"""From a map that reads near its place to a Triton function: places before the first element are the first's.

A thread has several places that follow one another along memory, and all targets of them. Elements are read in words,
each once, and results are written in words. Every size is a number in the text: addresses are then known to be aligned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.engines.cuda.emit import constant, function_of, text_of
from anydml.engines.cuda.emit_lines import Lines, put_together
from anydml.ir.fetches import line_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.ir.expressions import Expr
    from anydml.ir.fetches import Line


class Near(NamedTuple):
    """An index: a line, and where it goes on outside of the source the element that is nearest."""

    line: Line
    size: int


@dataclass(frozen=True, slots=True)
class Sampled:
    """A walk over places, and what it reads and writes there."""

    sizes: tuple[int, ...]
    rows: tuple[int, ...]
    """The dimensions of the walk but for the columns, the fastest first."""
    column: int
    count: int
    """The places of a thread, along columns."""
    fetches: dict[Expr, tuple[Near, ...]]
    strides: tuple[int, ...]
    """Of the source."""
    word: int
    """The elements that are read at once; 0 where a column is read with those beside it, by the compiler."""
    steps: tuple[int, ...]
    """Of a target."""
    offsets: tuple[int, ...]
    """Of the targets from the first on."""
    written: int
    """The results that are written at once."""

    @property
    def groups(self) -> int:
        """The places of the columns, those of a thread counted once."""
        return -(-self.sizes[self.column] // self.count)


def emit_samples(values: Sequence[Expr], of: Sampled) -> Any:
    """A kernel of the source, the target and TILE."""
    writer = _Writer(of)
    writer.lines = ["@triton.jit", "def generated_samples(source, target, TILE: tl.constexpr):"]
    writer.head()
    results = {}
    for g in range(of.count):
        for value, offset in zip(values, of.offsets, strict=True):
            name = writer.compute(value, g)
            results[g, offset] = f"tl.broadcast_to({name}, ({writer.sizes}))"
    writer.store(results)
    return function_of("\n".join(writer.lines) + "\n")


class _Writer(Lines):
    def __init__(self, of: Sampled) -> None:
        super().__init__("    ", is_turned=of.count > 1)
        self.of = of
        self.known: dict[Any, str] = {}

    def once(self, text: str) -> str:
        """The name of what a text computes, the same one for the same text."""
        if text not in self.known:
            self.known[text] = self.line(text)
        return self.known[text]

    def head(self) -> None:
        """This program's tile."""
        of = self.of
        count = 1
        for k in of.rows:
            count *= of.sizes[k]
        self.say(
            f"across = ({of.groups} + TILE.columns - 1) // TILE.columns",
            "row = tl.program_id(0) // across * TILE.rows + tl.arange(0, TILE.rows)",
            "column = tl.program_id(0) % across * TILE.columns + tl.arange(0, TILE.columns)",
            f"there = (row < {count}){self.down} & (column < {of.groups}){self.beside}",
        )
        for k, dimension in enumerate(of.rows):
            is_last = k == len(of.rows) - 1
            self.say(f"r{k} = row" if is_last else f"r{k} = row % {of.sizes[dimension]}")
            self.say(*([] if is_last else [f"row = row // {of.sizes[dimension]}"]))
        steps = [(f"r{k}", of.steps[dimension]) for k, dimension in enumerate(of.rows)]
        self.say(f"to = target + ({_sum(steps)}){self.down} + (column * {of.count * of.steps[of.column]}){self.beside}")

    def compute(self, value: Expr, g: int) -> str:
        """A tree, for a place of a group."""
        key = (value, g)
        if key not in self.known:
            self.known[key] = self._computed(value, g)
        return self.known[key]

    def _computed(self, value: Expr, g: int) -> str:
        if value in self.of.fetches:
            return self._element(value, g)
        if value.op in ("const", "given"):
            return self.once(constant(value))
        if value.op == "coordinate":
            return self.once(f"({self._line_text(line_of(value), g)}).to(tl.int64)")
        truth = self._truth(value, g)
        if value.op == "where":
            chosen = self._truth(value.args[0], g)
            if isinstance(chosen, bool):
                return self.compute(value.args[1 if chosen else 2], g)
        if isinstance(truth, bool):
            return self.once(f"tl.full((), {int(truth)}, tl.int1)")
        if truth:
            return self.once(truth)
        return self.once(text_of(value, {arg: self.compute(arg, g) for arg in value.args}))

    def _truth(self, value: Expr, g: int) -> bool | str | None:
        """Whether a comparison of lines holds: always, never, or where its text says; None for other nodes."""
        if value.op == "and":
            both = [self._truth(arg, g) for arg in value.args]
            if any(one is None for one in both):
                return None
            if any(one is False for one in both):
                return False
            texts = [one for one in both if isinstance(one, str)]
            return " & ".join(f"({text})" for text in texts) if texts else True
        if value.op not in ("lt", "le"):
            return None
        a, b = (line_of(arg) for arg in value.args)
        if a is None or b is None or (a.steps and b.steps):
            return None
        # Of one line: first <= line <= last.
        spare = int(value.op == "lt")
        line, limit = (a, b.start - spare) if a.steps else (b, a.start + spare)
        low, high = self._range(line, g)
        if a.steps:
            return True if high <= limit else False if low > limit else f"{self._line_text(line, g)} <= {limit}"
        return True if low >= limit else False if high < limit else f"{self._line_text(line, g)} >= {limit}"

    def _range(self, line: Line, g: int) -> tuple[int, int]:
        """The least and the largest index of a line, for a place of a group."""
        low = high = line.start
        for dimension, step in line.steps:
            first, last = 0, self.of.sizes[dimension] - 1
            if dimension == self.of.column:
                first, last = g, (self.of.groups - 1) * self.of.count + g
            low, high = low + min(first * step, last * step), high + max(first * step, last * step)
        return low, high

    def _line_text(self, line: Line | None, g: int) -> str:
        """A line in 32 bits, as wide as it varies."""
        assert line is not None  # noqa: S101 - for type checkers
        parts, start = [], line.start
        for dimension, step in line.steps:
            if dimension == self.of.column:
                parts.append(f"(column * {step * self.of.count}){self.beside}")
                start += g * step
            elif dimension in self.of.rows:  # others have one element
                parts.append(f"(r{self.of.rows.index(dimension)} * {step}){self.down}")
        return " + ".join([*parts, *([str(start)] if start or not parts else [])])

    def _near(self, near: Near, g: int) -> str:
        """An index, nearest inside."""
        text = self._line_text(near.line, g)
        low, high = self._range(near.line, g)
        if low < 0:
            text = f"tl.maximum({text}, 0)"
        return f"tl.minimum({text}, {near.size - 1})" if high >= near.size else text

    def _row(self, node: Expr) -> str:
        """Where the rows of what is read begin."""
        parts = []
        for near, stride in zip(self.of.fetches[node], self.of.strides, strict=True):
            if self.of.column not in dict(near.line.steps) and stride:
                text = self._near(near, 0)
                parts.append(f"({text}) * {stride}")
        return self.once(f"source + ({' + '.join(parts) or '0'})")

    def _element(self, node: Expr, g: int) -> str:
        own = [
            (near, stride)
            for near, stride in zip(self.of.fetches[node], self.of.strides, strict=True)
            if self.of.column in dict(near.line.steps)
        ]
        row = self._row(node)
        if not own:
            return self.once(f"tl.load(tl.broadcast_to({row}, ({self.sizes})), mask=there)")
        ((near, stride),) = own
        step = dict(near.line.steps)[self.of.column]
        place, word = near.line.start + g * step, self.of.word
        key = (row, "element", place)
        if key not in self.known:
            if word > 1:
                self._words(row, word)
            if key not in self.known:
                at = self._near(near, g)
                self.known[key] = self.once(
                    f"tl.load(tl.broadcast_to({row} + ({at}) * {stride}, ({self.sizes})), mask=there)"
                )
        return self.known[key]

    def _words(self, row: str, word: int) -> None:
        """The words of a row that a group reads several elements of, and that are inside of it for every group."""
        if (row, "words") in self.known:
            return
        self.known[row, "words"] = ""
        of, places = self.of, set[int]()
        size = by = 0
        for node, several in of.fetches.items():
            if self._row(node) != row:
                continue
            (near,) = (near for near in several if of.column in dict(near.line.steps))
            size, by = near.size, dict(near.line.steps)[of.column]
            places |= {near.line.start + g * by for g in range(of.count)}
        for first in sorted({place // word * word for place in places}):
            inside = sum(first <= place < first + word for place in places)
            last = (of.groups - 1) * of.count * by + first + word
            if inside < 2 or first < 0 or last > size:
                continue
            at = f"{row} + (column * {of.count * by} + {first}){self.beside}"
            text = f"tl.broadcast_to({at}, ({self.sizes}))[:, :, None] + tl.arange(0, {word})[None, None, :]"
            elements = self.taken_apart(self.once(f"tl.load({text}, mask=there[:, :, None])"), word)
            self.known |= {(row, "element", first + place): name for place, name in enumerate(elements)}

    def store(self, results: dict[tuple[int, int], str]) -> None:
        """Write the results of every group, those side by side at once."""
        of = self.of
        step = of.steps[of.column]
        places = {g * step + offset: name for (g, offset), name in results.items()}
        is_whole = of.sizes[of.column] % of.count == 0
        for first in sorted(places):
            if first not in places:
                continue
            run = [places.pop(first + k) for k in range(of.written)]
            inside = "there"
            if not is_whole:  # then one result is written at once
                g = next(g for g, offset in results if g * step + offset == first)
                inside += f" & (column * {of.count} + {g} < {of.sizes[of.column]}){self.beside}"
            if of.written == 1:
                self.say(f"tl.store(to + {first}, {run[0]}, mask={inside})")
                continue
            value = f"tl.reshape({put_together(run)}, ({self.sizes}, {of.written}))"
            place = f"(to + {first})[:, :, None] + tl.arange(0, {of.written})[None, None, :]"
            self.say(f"tl.store({place}, {value}, mask={inside}[:, :, None])")


def _sum(parts: Sequence[tuple[str, int]]) -> str:
    return " + ".join(f"{name} * {step}" for name, step in parts) or "tl.arange(0, TILE.rows) * 0"
