"""Resampling by small ratios, and other maps that read near their place with clamped indices. Planned, and written as a
Triton function.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.core.enums import DataType
from anydml.core.symbolic_sizes import gcd
from anydml.engines.common.dialect import offset
from anydml.engines.common.tiles import ALIGNMENT, alignment_of, ceil_power, columns_for
from anydml.engines.cuda.codegen.expressions import TRITON, TritonLines, put_together
from anydml.engines.cuda.conv.implicit_gemm_kernel import StencilConstants
from anydml.engines.cuda.launch import IS_INTERPRETED, Kernel, KernelProgram, bases_of, kind_of
from anydml.ir.expressions import given, maximum, minimum
from anydml.ir.fetches import line_of
from anydml.ir.numerics import expand
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.cuda.device import Figures
    from anydml.ir.expressions import Expr
    from anydml.ir.fetches import Line
    from anydml.ir.verbs import Map
    from anydml.ir.views import View

# From a map that reads near its place to a Triton function: places before the first element are the first's.
#
# A thread has several places that follow one another along memory, and all targets of them. Elements are read in words,
# each once, and results are written in words. Every size is a number in the text: addresses are then known to be
# aligned.


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
    writer.define("samples", ["source", "target", "TILE: tl.constexpr"])
    writer.head()
    results = {}
    for g in range(of.count):
        for value, at in zip(values, of.offsets, strict=True):
            name = writer.compute(value, g)
            results[g, at] = f"tl.broadcast_to({name}, ({writer.sizes}))"
    writer.store(results)
    return writer.function()


class _Writer(TritonLines):
    def __init__(self, of: Sampled) -> None:
        super().__init__(is_transposed=of.count > 1)
        self.of = of

    def head(self) -> None:
        """This program's tile."""
        of = self.of
        sizes = [of.sizes[k] for k in of.rows]
        self.say(
            f"across = ({of.groups} + TILE.columns - 1) // TILE.columns",
            "row = tl.program_id(0) // across * TILE.rows + tl.arange(0, TILE.rows)",
            "column = tl.program_id(0) % across * TILE.columns + tl.arange(0, TILE.columns)",
            f"there = (row < {math.prod(sizes)}){self.down} & (column < {of.groups}){self.beside}",
        )
        names = [f"r{k}" for k in range(len(of.rows))]
        self.say(*TRITON.coordinates("row", names, list(map(str, sizes))))
        down = offset(names, [str(of.steps[k]) for k in of.rows]) if names else "tl.arange(0, TILE.rows) * 0"
        self.say(f"to = target + ({down}){self.down} + (column * {of.count * of.steps[of.column]}){self.beside}")

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
            return self.once(TRITON.constant(value))
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
        return self.once(TRITON.text(value, {arg: self.compute(arg, g) for arg in value.args}))

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
        assert line is not None  # noqa: S101 - for type checkers: `Sampled` has lines alone
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


# Maps that read near their place, planned: resampling by small ratios, and whatever else repeats its last elements.


MOST_ROWS = 6
MOST_WORD = 8
"""Elements that are read or written at once."""
THREADS, WIDE = (128, 64) if not IS_INTERPRETED else (16, 8)
"""Of a program, and the columns of a tile at most."""

AGAIN = 2
"""Groups of a thread: FLOAT32 by 2 takes 127 us so, and 139 with one; copying as much takes 123."""


class ResampleProgram(KernelProgram):
    """A map that reads near its place, planned."""

    __slots__ = ()

    @classmethod
    def plan(cls, primitive: Map, figures: Figures) -> ResampleProgram | None:
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
    def _of(cls, values: Sequence[Expr], found: Sampled, primitive: Map, figures: Figures) -> ResampleProgram:
        source, target = primitive.sources[0], min(primitive.targets, key=lambda view: view.offset)
        width = found.groups
        across = columns_for(width, WIDE)
        rows = math.prod(found.sizes[k] for k in found.rows)
        each = AGAIN if found.word else ALIGNMENT // max(source.data_type.size_in_bytes, target.data_type.size_in_bytes)
        down = min(max(THREADS * each // across, 1), ceil_power(rows))
        programs = -(-rows // down) * -(-width // across)
        kinds = tuple(kind_of(view.data_type) for view in (source, target))
        tile = StencilConstants(down, across, (), ())
        kernel = Kernel(emit_samples(values, found), kinds, (), {"TILE": tile}, programs, 4, figures, fuses=False)
        kernel.prepare()
        return cls(kernel, bases_of((source, target), (source.offset, target.offset)))


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
    count = max(written // gcd(written, steps[column]), 1)
    if sizes[column] % count:
        written = 1
    word = min(alignment_of((*others, source.sizes[axis], count * min(by))), ALIGNMENT // widths[0], MOST_WORD)
    return Sampled(sizes, tuple(rows), column, count, fetches, source.strides, word, steps, offsets, written)


def _is_run(offsets: Sequence[int], step: int, others: Sequence[int]) -> bool:
    """Whether targets fill what lies between neighbours of one another."""
    every = sorted(offsets)
    runs = [every[k : k + step] for k in range(0, len(every), step)]
    return all(run == list(range(run[0], run[0] + step)) for run in runs) and (not others or min(others) >= step)
