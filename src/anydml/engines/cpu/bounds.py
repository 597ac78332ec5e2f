"""Proofs that a program's record stays inside its tensors: the words that kernels read, read once more as intervals.

A program is bound to addresses that are none, far apart, which tell by themselves whose each one is; the words that a
kernel would be given are walked as that kernel walks them, each operand from the lowest byte to the highest, and both
are compared with what the verb's views touch. Indices that are read count as all that their dimension has: kernels
clamp each one, or leave it out, whether a check came before or not. `READERS` has a function for every family of
kernels that is dispatched: one that is missing there is an error, so that a new family does not go unproved.

What the code of a kernel does beyond its words, such as the mask of a row's last vector, is for guard pages to find.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
from types import BuiltinFunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from anydml.engines.common.repeat import RepeatProgram
from anydml.engines.cpu.attention import attention
from anydml.engines.cpu.conv import depthwise, direct
from anydml.engines.cpu.conv.direct import DirectLine
from anydml.engines.cpu.conv.direct_nhwc import NhwcLine
from anydml.engines.cpu.conv.microkernel import DirectTile
from anydml.engines.cpu.conv.stencil import Taps
from anydml.engines.cpu.gemm import selection as gemm
from anydml.engines.cpu.gemm.operands import (
    ALONG_ROWS,
    ALONG_STEPS,
    DEQUANTISED,
    DOTS,
    HALVES,
    PANELS,
    PIECES,
    STRIP,
    WINDOWS,
)
from anydml.engines.cpu.kernel import name_at
from anydml.engines.cpu.launch.commands import LIST
from anydml.engines.cpu.launch.loops import MOVE, REPEAT, STEP
from anydml.engines.cpu.launch.program import KernelProgram
from anydml.engines.cpu.launch.record import HEADER, WALK, WORD
from anydml.engines.cpu.move.copy import TRANSPOSE
from anydml.engines.cpu.move.index_check import GATHER, CheckedProgram
from anydml.engines.cpu.move.padding import BORDERED, PLACED
from anydml.engines.cpu.move.reverse import REVERSE
from anydml.engines.cpu.move.scan import SCAN, TALLIES
from anydml.engines.cpu.move.scatter import SCATTER
from anydml.engines.cpu.move.top_k import TOP
from anydml.engines.cpu.quant import column_per_lane
from anydml.engines.cpu.quant import digits as weights
from anydml.engines.cpu.quant.dequantize import PanelShape, Unpacked
from anydml.engines.cpu.quant.digits import PORTION, Quantised
from anydml.engines.cpu.rows.segmented_reduce import CutProgram
from anydml.engines.cpu.rows.walk import ROWS
from anydml.engines.reference import ReferenceProgram
from anydml.ir.bounds import BoundsError, Span, check_fetches, reaches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from anydml.engines.common.program import Program
    from anydml.engines.cpu.launch.record import Layout
    from anydml.ir.verbs import Primitive

APART = 40
"""The bits of an address within a tensor: others are further away than any view reaches."""
ALIGNMENTS = (0, 1, 48)
"""Bytes past a line of the cache that tensors begin at: programs choose kernels by it."""


def check_program(program: Program, primitives: Sequence[Primitive]) -> None:
    """Prove that a program touches no bytes but those that verbs' views do."""
    for primitive in primitives:
        check_fetches(primitive)
    for alignment in ALIGNMENTS:
        check_records(*bound_records(program, tensors_of(program, primitives), alignment))


class Tensor(NamedTuple):
    """The bytes of a tensor that may be touched."""

    place: int
    """The address of its first element."""
    span: Span
    width: int
    """Bytes of its narrowest element, for operands of which a record does not say it."""


def tensors_of(program: Program, primitives: Sequence[Primitive]) -> dict[str, Tensor]:
    """What verbs' views touch, and the layouts that a program wants ahead."""
    views = [view for primitive in primitives for view in primitive.views]
    views += [layout.target for layout in program.layouts.values()]
    # Layouts are told apart by the names that the program has for them.
    named = dict.fromkeys((view.tensor for view in views), Tensor(0, Span(0, 0), 1))
    for name, span in reaches(views).items():
        width = min(view.data_type.size_in_bytes for view in views if view.tensor == name)
        named[name] = Tensor(0, span, width)
    targets = {name: named[layout.target.tensor] for name, layout in program.layouts.items()}
    return {**named, **targets}


def bound_records(
    program: Program, tensors: Mapping[str, Tensor], alignment: int = 0
) -> tuple[list[tuple[int, ...]], dict[str, Tensor]]:
    """The records of a program that is bound to addresses which are none, with the tensors as they lie there."""
    own = {**tensors, **{name: Tensor(0, Span(0, size), 1) for name, size in _temporaries(program).items()}}
    placed = {
        name: tensor._replace(place=(number + 1 << APART) + alignment)
        for number, (name, tensor) in enumerate(own.items())
    }
    return list(_records_of(program, {name: tensor.place for name, tensor in placed.items()})), placed


def _temporaries(program: Program) -> dict[str, int]:
    """The bytes of the memory that a program, or a part of it, makes for itself at each dispatch."""
    if isinstance(program, CheckedProgram):
        return _temporaries(program.program)
    if isinstance(program, CutProgram):
        return dict(program.temporaries)
    found: dict[str, int] = {}
    for part in program.parts if isinstance(program, RepeatProgram) else ():
        found |= {name: max(size, found.get(name, 0)) for name, size in _temporaries(part.program).items()}
    return found


def check_records(records: Iterable[Sequence[int]], tensors: Mapping[str, Tensor]) -> None:
    """Prove that kernels which run one after the other stay inside of tensors that lie far apart."""
    owners = {tensor.place >> APART: name for name, tensor in tensors.items()}
    for words in records:
        record = Dispatch(words)
        for access in accesses(record):
            name = owners.get(access.low + (1 << APART - 1) >> APART)
            if name is None:
                if access.is_number and access.low >> APART == 0:
                    continue
                raise BoundsError(f"{record.name}: {access.operand} is at {access.low:#x}, which is no tensor's")
            tensor = tensors[name]
            size = (access.width or tensor.width) * access.run
            found = Span(access.low - tensor.place, access.high - tensor.place + size)
            if not tensor.span.holds(found):
                raise BoundsError(
                    f"{record.name}: {access.operand}, which is {name!r}, reaches its bytes {found}; its views touch "
                    f"{tensor.span}"
                )


def _records_of(program: Program, places: Mapping[str, int]) -> Iterator[tuple[int, ...]]:
    """The words of each kernel that a bound program runs, in order; none of what NumPy runs."""
    if isinstance(program, ReferenceProgram):
        return
    if isinstance(program, CutProgram):
        for step in program.steps:
            yield from _records_of(step, places)
        return
    if isinstance(program, CheckedProgram):  # what it runs may be in steps
        yield from _records_of(program.look, places)
        yield from _records_of(program.program, places)
        return
    launch = program.bind(places)
    if isinstance(program, RepeatProgram) and not isinstance(
        launch, BuiltinFunctionType
    ):  # which no kernel has together
        for part, time in itertools.product(program.parts, {0, program.times - 1}):
            yield from _records_of(part.program, part.places(places, time))
        return
    yield from _words_of(launch)
    if isinstance(program, KernelProgram):
        yield from _direct_words(program.direct(list(places)), list(places.values()))


def _words_of(launch: Any) -> Iterator[tuple[int, ...]]:
    """The words that a launch gives to kernels: its own, or those of launches and records that it tells of."""
    if isinstance(launch, BuiltinFunctionType):
        yield _unpacked(launch.__self__)  # type: ignore[arg-type]  # bytes, as `make_builtin` has it
    elif hasattr(launch, "launches"):
        for one in launch.launches:
            yield from _words_of(one)
    elif hasattr(launch, "records"):
        yield from map(_unpacked, launch.records)
    else:
        raise BoundsError(f"{type(launch).__name__} does not tell what it gives to kernels: launches, or records")


def _unpacked(words: bytes) -> tuple[int, ...]:
    return struct.unpack(f"{len(words) // 8}q", words)


def _direct_words(function: Callable[..., Any] | None, places: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The record of a command list of one kernel, with the addresses of arrays put in."""
    words = _unpacked(function.__self__) if function is not None else ()  # type: ignore[attr-defined]  # a built-in's
    if not words:
        return
    _, count, number, *rest = words[LIST.end :]
    own = list(rest[3 * number : 3 * number + count])
    for byte, array, offset in zip(*(rest[k : 3 * number : 3] for k in range(3)), strict=True):
        own[byte // WORD] = places[array] + offset
    yield tuple(own)


class Access(NamedTuple):
    """An operand as a kernel walks it: where its lowest element begins and where its highest one does."""

    operand: str
    low: int
    high: int
    width: int = 0
    """Bytes of an element; 0 where the record does not say."""
    run: int = 1
    """Elements side by side, of such a width, from either on."""
    is_number: bool = False
    """Whether it may be a coordinate, which is a number itself."""


class Dispatch:
    """The record of a dispatch."""

    def __init__(self, words: Sequence[int]) -> None:
        self.words = words = tuple(words)
        self.work_items, _, _, address, _ = words[:HEADER]
        self.name = name_at(address)
        self.family, *self.rest = self.name.split()

    def named(self, layout: Layout) -> Any:
        """The fields by their names, tables as their rows."""
        return layout.read(self.words)

    def rows(self, first: int, rows: int, columns: int) -> list[tuple[int, ...]]:
        """So many rows of numbers, from a word on."""
        return [self.words[first + columns * k : first + columns * (k + 1)] for k in range(rows)]

    def array(self, at: int, count: int, columns: int) -> np.ndarray[Any, Any]:
        """A table that begins so many bytes after the first word."""
        first = at // WORD
        return np.array(self.words[first : first + count * columns], np.int64).reshape(count, columns)


def accesses(record: Dispatch) -> Iterator[Access]:
    """What a record touches; nothing where it has no unit."""
    reader = READERS.get(record.family)
    if reader is None:
        raise BoundsError(f"{record.name}: nothing reads records of the family {record.family!r}: see READERS")
    if record.work_items > 0:
        for access in reader(record):
            if access is not None:
                yield access


def _walk(
    operand: str, base: int, *ways: tuple[int, int], width: int = 0, run: int = 1, is_number: bool = False
) -> Access | None:
    """An operand that is walked so many times by a stride in each of some ways; None where one has no times."""
    if any(count <= 0 for count, _ in ways):
        return None
    steps = [(count - 1) * stride for count, stride in ways]
    low, high = sum(step for step in steps if step < 0), sum(step for step in steps if step > 0)
    return Access(operand, base + low, base + high, width, run, is_number)


def _operand(w: Any, name: str, *ways: tuple[int, int], width: int) -> Access | None:
    """An operand whose address is a field: walked in some ways, and by its stride in every table that has one."""
    rows = [row for table in vars(w).values() if isinstance(table, list) for row in table if hasattr(row, name)]
    return _walk(name, getattr(w, name), *ways, *((row.size, getattr(row, name)) for row in rows), width=width)


# Walks over a source and a target


def _copy(record: Dispatch) -> Iterator[Access | None]:
    kind, width, w = record.rest[0], int(record.rest[1]), record.named(WALK)
    # Rows of a kind go by steps that are the kind's, whatever the words say.
    steps = {"run": width, "backward": -width, "second": 2 * width, "second_back": -2 * width, "repeated": 0}
    w.source_step = steps.get(kind, w.source_step)
    w.target_step = w.target_step if kind in ("strided", "repeated") else width
    yield from _two(w, width)


def _two(w: Any, width: int) -> Iterator[Access | None]:
    """A source and a target, each with its step along a row."""
    yield _operand(w, "source", (w.count, w.source_step), width=width)
    yield _operand(w, "target", (w.count, w.target_step), width=width)


def _transpose(record: Dispatch) -> Iterator[Access | None]:
    width, w = int(record.rest[0]), record.named(TRANSPOSE)
    yield _operand(w, "source", (w.count, w.across), (w.others, width), width=width)
    yield _operand(w, "target", (w.count, width), (w.others, w.along), width=width)


def _reverse(record: Dispatch) -> Iterator[Access | None]:
    """Lengths are clamped to the axis: whatever they are, a line turns around inside of it."""
    w = record.named(REVERSE)
    across = [(row.size, by.stride) for row, by in zip(w.outer, w.lengths_by, strict=True)]
    width = int(record.rest[0])
    if "columns" in record.rest:  # where the axis is counted in blocks
        w.outer[w.axis] = SimpleNamespace(size=w.size, source=w.source_axis, target=w.target_axis)
        across.append((w.count, w.lengths_step))
    yield from _two(w, width)
    yield _walk("lengths", w.lengths, *across, width=w.length_width)


def _bordered(record: Dispatch) -> Iterator[Access | None]:
    w = record.named(BORDERED)
    blocks = record.array(w.blocks_at, -(-record.work_items // w.inner), 2)
    rows = record.array(w.rows_at, w.inner, 4)
    low, high = (blocks[:, 0].min() + rows[:, 0].min(), blocks[:, 0].max() + rows[:, 0].max())
    yield Access("source", w.source + int(low), w.source + int(high), w.size)
    begins, ends = rows[:, 1] - rows[:, 2], rows[:, 1] + rows[:, 3]
    low, high = (blocks[:, 1].min() + begins.min(), blocks[:, 1].max() + ends.max())
    yield Access("target", w.target + int(low), w.target + int(high), w.size)


def _placed(record: Dispatch) -> Iterator[Access | None]:
    width, w = int(record.rest[0]), record.named(PLACED)
    places = record.array(w.places_at, -(-record.work_items // w.inner), 1)
    within, table = record.array(w.within_at, w.inner, 1), record.array(w.table_at, w.pieces, 4)
    ends = table[:, 1] + (table[:, 2] - 1) * table[:, 3]
    low = places.min() + within.min() + np.minimum(table[:, 1], ends).min()
    high = places.max() + within.max() + np.maximum(table[:, 1], ends).max()
    yield Access("source", w.source + int(low), w.source + int(high), width)
    first, last = int(table[:, 0].min()), int((table[:, 0] + (table[:, 2] - 1) * width).max())
    rows = sorted((0, (record.work_items - 1) * w.pitch))
    yield Access("target", w.target + rows[0] + first, w.target + rows[1] + last, width)


# Indexed copies


def _index_width(kind: str) -> int:
    return int(kind[1:]) // 8


def _look(record: Dispatch) -> Iterator[Access | None]:
    w = record.named(GATHER)
    yield _operand(w, "indices", (w.coordinates, w.coordinate_step), width=_index_width(record.rest[0]))


def _gather(record: Dispatch) -> Iterator[Access | None]:
    w = record.named(GATHER)
    yield from _blocks(record, w, source=[(row.size, row.stride) for row in w.indexed])


def _scatter(record: Dispatch) -> Iterator[Access | None]:
    w = record.named(SCATTER)
    strides = {"indices": w.lane_index, "source": w.lane_source, "target": w.lane_target}
    lanes = {name: [(w.lanes, by)] for name, by in strides.items()}
    lanes["target"] += [(row.size, row.stride) for row in w.indexed]
    yield from _blocks(record, w, **lanes)


def _blocks(record: Dispatch, w: Any, **ways: list[tuple[int, int]]) -> Iterator[Access | None]:
    """Blocks from a source to a target, and indices, each walked in some ways more."""
    shape, width, kind = record.rest[:3]
    size = w.count if shape in ("row", "ahead") else int(width)  # rows are of bytes
    for name, step in (("source", w.source_step), ("target", w.target_step)):
        own = [(w.count, step)] if shape == "any" else []
        yield _operand(w, name, *own, *ways.get(name, ()), width=size)
    along = (w.coordinates, w.coordinate_step)
    yield _operand(w, "indices", along, *ways.get("indices", ()), width=_index_width(kind))


# Lines


def _top(record: Dispatch) -> Iterator[Access | None]:
    w, (source, target) = record.named(TOP), map(_index_width, record.rest[:2])
    yield _operand(w, "source", (w.count, w.source_step), width=source)
    yield _operand(w, "target", (w.wanted, w.target_step), width=target)


def _scan(record: Dispatch) -> Iterator[Access | None]:
    shape, kind, _, *flags = record.rest
    width, w = _index_width(kind), record.named(SCAN)
    if shape in ("rows", "long"):
        w.source_step = w.target_step = -width if "reverse" in flags else width
    if shape == "columns":
        w.source_across = w.target_across = width
    yield _operand(w, "source", (w.count, w.source_step), (w.across, w.source_across), width=width)
    yield _operand(w, "target", (w.count, w.target_step), (w.across, w.target_across), width=width)
    if "carried" in flags:
        words = record.words[SCAN.end + SCAN.rows["outer"].end * w.rank :]
        tallies, strides = TALLIES.read(words), words[TALLIES.end :]
        ways = [(w.across, tallies.step), *((row.size, by) for row, by in zip(w.outer, strides, strict=False))]
        if tallies.before:
            yield _walk("tallies before", tallies.before, *ways)
        yield _walk("tallies after", tallies.after, *ways)


# Rows of any number of views: maps, reduces and lookups


def _rows(record: Dispatch) -> Iterator[Access | None]:
    w = record.named(ROWS)
    name, views = name_at(w.line), w.views
    addresses, steps = record.rows(ROWS.end, 2, views)
    _, *rest = name.split()
    folded, begins = (int(rest[0]), rest[1]) if name.startswith("reduce ") else (0, "")
    # The dimensions that a reduce folds stand before those outside of its rows.
    table = record.rows(w.outer - folded * (views + 1), w.rank + folded, views + 1)
    if name == "map of a table":
        yield from _lookup(record.words[ROWS.end + 2 * views] or 1, addresses, steps, w.count, table)
        return
    for v, (address, step) in enumerate(zip(addresses, steps, strict=True)):
        ways = [(w.count, step), *((row[0], row[1 + v]) for row in table)]
        if begins[v : v + 1] == "f":  # at indices that were proved of the verb: the record has the view's beginning
            ways = []
        yield _walk(f"view {v} of {views}", address, *ways, is_number=True)


def _lookup(
    length: int, addresses: Sequence[int], steps: Sequence[int], count: int, table: Sequence[tuple[int, ...]]
) -> Iterator[Access | None]:
    """Rows of some bytes, or one of as many as there are; the table has one for each byte."""
    for v, (operand, width) in enumerate((("bytes", length), ("table", 256), ("target", length))):
        yield _walk(operand, addresses[v], (count, steps[v]), *((row[0], row[1 + v]) for row in table), width=width)


# Sections: the views of a factor or a result


class _Section:
    """A section of the words, at a place among all of them."""

    def __init__(self, record: Dispatch, name: str, at: int, rank: int, sizes_at: int) -> None:
        words = record.words
        self.name, self.kernel, self.views, numbers = name, words[at], words[at + 1], words[at + 2]
        first = at + 3
        self.addresses = words[first : first + self.views]
        self.steps = words[first + self.views : first + 2 * self.views]
        self.numbers = words[first + 2 * self.views : first + 2 * self.views + numbers]
        first += 2 * self.views + numbers
        self.across = words[first : first + self.views]
        first += self.views
        sizes = words[sizes_at : sizes_at + rank]
        strides = [words[first + d * self.views : first + (d + 1) * self.views] for d in range(rank)]
        self.batch = [[(n, row[v]) for n, row in zip(sizes, strides, strict=True)] for v in range(self.views)]

    def walk(self, view: int, *ways: tuple[int, int], width: int = 0, run: int = 1) -> Access | None:
        """A view, for all of the batch, walked in some ways."""
        operand = f"view {view} of the {self.name} section"
        return _walk(operand, self.addresses[view], *self.batch[view], *ways, width=width, run=run, is_number=True)

    def rows(self, inner: int, outer: int, views: Sequence[int] | None = None) -> Iterator[Access | None]:
        """Views as rows of a map walk them: so many elements of so many rows."""
        for v in range(self.views) if views is None else views:
            yield self.walk(v, (inner, self.steps[v]), (outer, self.across[v]))


def _sections(record: Dispatch, layout: Layout, *names: str) -> list[_Section]:
    w = layout.read(record.words)
    return [_Section(record, name, getattr(w, f"{name}_at"), w.rank, layout.end) for name in names]


def _gemm(record: Dispatch) -> Iterator[Access | None]:
    w = record.named(gemm.RECORD)
    left, right, result = _sections(record, gemm.RECORD, "left", "right", "result")
    m, n = w.m, w.n
    yield from _left(w, left)
    yield from _right(w, right)
    yield from _results(result, n, m, w.line, w.gap)
    if w.compensates:
        for zero, count in zip(_sections(record, gemm.RECORD, "left_zero", "right_zero"), (m, n), strict=True):
            yield from zero.rows(count, 1, range(zero.views - 1))


def _left(w: Any, left: _Section) -> Iterator[Access | None]:
    m, n, k, mode = w.m, w.n, w.k, w.left_mode
    if mode in (ALONG_STEPS, ALONG_ROWS):
        yield from _computed(left, m, k, is_along=mode == ALONG_STEPS)
    elif mode == PANELS:
        # Rows in panels, as wide as a step of one is long.
        yield left.walk(0, (w.row_panels, left.across[0]), (k, left.steps[0]), width=left.steps[0])
    elif mode == PIECES:
        (number,) = _memory(w.pieces, 1)
        pieces = np.array(_memory(w.pieces + 8, 3 * number), np.int64).reshape(number, 3)
        begin, end = int(pieces[:, 0].min()), int((pieces[:, 0] + 4 * (pieces[:, 1] - 1)).max())
        for far in (begin, end):
            yield left.walk(0, (m, left.across[0]), (n, w.left_on), (2, far), width=4)
    else:
        yield from left.rows(k, m)


def _right(w: Any, right: _Section) -> Iterator[Access | None]:
    n, k, mode, together = w.n, w.k, w.right_mode, w.together
    if not right.views:  # of a fold without weights
        return
    if mode in (ALONG_STEPS, ALONG_ROWS):
        yield from _computed(right, n, k, is_along=mode == ALONG_STEPS)
    elif mode == DEQUANTISED:
        yield from _dequantised(right, n, k, PanelShape)
    elif mode in (STRIP, DOTS):
        yield from right.rows(*((n, k) if mode == STRIP else (k, n)), range(right.views - 1))
    elif mode in (PANELS, HALVES):
        packed, by = -(-k // w.filled) * (w.filled // together), right.steps[0] * together
        panels = (w.column_panels, w.tile_columns * right.across[0])
        yield right.walk(0, panels, (packed, by), width=by)
        yield from right.rows(k, n, range(1, right.views))
    elif mode == WINDOWS:
        columns, steps = (np.array(_memory(at[0], count)) for at, count in ((right.across, n), (right.steps, k)))
        for far in (int(columns.min() + steps.min()), int(columns.max() + steps.max())):
            yield right.walk(0, (2, far))
        yield from right.rows(1, 1, range(1, right.views))
    else:
        yield from right.rows(k, n)


def _computed(section: _Section, count: int, k: int, *, is_along: bool) -> Iterator[Access | None]:
    """A factor that rows of a kernel compute, along the steps or across them; the last view lies in the scratch."""
    if name_at(section.kernel).split(" ")[0] != "unpacked":
        yield from section.rows(*((k, count) if is_along else (count, k)), range(section.views - 1))
        return
    yield from _dequantised(section, count, k, Unpacked)


def _dequantised(section: _Section, count: int, k: int, kind: type[Unpacked | PanelShape]) -> Iterator[Access | None]:
    """Columns of weights of few bits: their words, side by side in panels or column by column, scales, zero points."""
    shape = dict(zip(kind._fields, name_at(section.kernel).split(" ")[1:], strict=True))
    bits, block, panel = int(shape["bits"]), int(shape["block"]), int(shape["columns"])
    if panel:
        pitch = section.across[0] if kind is PanelShape else section.numbers[0]
        yield section.walk(0, (-(-count // panel), pitch), width=pitch)
    else:
        yield section.walk(0, (count, section.across[0]), width=k * bits // 8)
    for v in range(1, 3 if shape["zeros"] else 2):  # scales, and zero points
        yield section.walk(v, (count, section.across[v]), run=-(-k // block))


def _results(result: _Section, n: int, m: int, line: int = 0, gap: int = 0) -> Iterator[Access | None]:
    """The first view is the sum, in the scratch; the target's columns may be in lines with gaps between them."""
    *others, target = range(1, result.views)
    yield from result.rows(n, m, others)
    columns = [(n, result.steps[target])]
    if line:
        columns = [(min(line, n), result.steps[target]), (-(-n // line), gap)]
    yield result.walk(target, *columns, (m, result.across[target]))


def _memory(address: int, count: int) -> list[int]:
    """Words of a table of the plan's own."""
    return list((ctypes.c_int64 * count).from_address(address))


def _weights(record: Dispatch) -> Iterator[Access | None]:
    w = record.named(weights.RECORD)
    left, right, result = _sections(record, weights.RECORD, "left", "right", "result")
    shape = dict(zip(Quantised._fields, name_at(w.columns_of).split()[1:], strict=True))
    k, shared = w.portions * PORTION, right.steps[0]
    yield from _rounded(left, w.m, k, PORTION * shared, is_rounded=bool(w.is_rounded))
    yield right.walk(0, (w.n, right.across[0]), width=k * int(shape["bits"]) // 8)
    for v in range(1, right.views):
        yield right.walk(v, (w.n, right.across[v]), run=-(-w.portions // shared))
    yield from _results(result, w.n, w.m)


def _rounded(left: _Section, m: int, k: int, block: int, *, is_rounded: bool) -> Iterator[Access | None]:
    """Rows of bytes with a scale for each block, or rows that a map computes, the last view in the scratch."""
    if not is_rounded:
        yield from left.rows(k, m, range(left.views - 1))
        return
    yield left.walk(0, (m, left.across[0]), width=k)
    yield left.walk(1, (m, left.across[1]), run=-(-k // block))


def _column_per_lane(record: Dispatch) -> Iterator[Access | None]:
    w = record.named(column_per_lane.RECORD)
    left, right, result = _sections(record, column_per_lane.RECORD, "left", "right", "result")
    portions, n, lanes, shared = w.portions, w.n, w.lanes, right.steps[0]
    portion = w.words * column_per_lane.STEPS
    yield from _rounded(left, w.m, portions * portion, portion * shared, is_rounded=bool(w.is_rounded))
    column = portions * portion // 2
    if w.is_laid_out:
        yield right.walk(0, width=-(-n // lanes) * lanes * column)
    else:
        yield right.walk(0, (n, right.across[0]), width=column)
    for v in range(1, right.views):
        yield right.walk(v, (n, right.across[v]), run=portions // shared)
    yield from _results(result, n, w.m)


def _stencil(record: Dispatch) -> Iterator[Access | None]:
    w = record.named(depthwise.RECORD)
    x, factors, result = _sections(record, depthwise.RECORD, "x", "weights", "result")
    taps = dict(zip(Taps._fields, name_at(w.taps).split()[1:], strict=False))
    element = 4 if taps["kind"] == "f32" else 1
    if w.frame:  # lines that margins are made around
        yield x.walk(0, (w.source_rows, w.source_down), width=w.source_line)
    elif w.source_rows:  # by kernels that know of margins
        yield x.walk(0, (w.source_rows, w.pitch), width=w.frame_size)
    else:
        yield x.walk(
            0, (w.rows, w.down), (w.line, int(taps["step"]) * element),
            (int(taps["rows"]), int(taps["below"]) * w.pitch), (int(taps["columns"]), int(taps["beside"]) * element),
            width=element,
        )  # fmt: skip
    if factors.views:
        yield factors.walk(0, (w.tap_rows, w.weight_down), (w.tap_columns, w.weight_beside))
        for v in range(1, factors.views):
            yield factors.walk(v)
    yield from _results(result, w.line, w.rows)
    if w.fill_at:
        (filler,) = _sections(record, depthwise.RECORD, "fill")
        yield Access("the filling", filler.addresses[0], filler.addresses[0], 1)


def _direct(record: Dispatch) -> Iterator[Access | None]:
    w = record.named(direct.RECORD)
    x, factors, result = _sections(record, direct.RECORD, "x", "weights", "result")
    name = name_at(w.copy).split()
    if name[2] == "NHWC":
        line = NhwcLine(*map(int, name[3:]))
        along, size = (line.places, line.apart), line.size
    else:
        along, size = (1, 0), DirectLine(*map(int, name[3:])).size
    yield x.walk(0, (w.planes, w.x_step), (w.height, w.x_down), along, width=size)
    panel = w.channels * w.channel_bytes
    yield factors.walk(0, (w.panels, w.panel_bytes), width=panel)
    # The last panel of a group has what channels there are: its tile says how many.
    tile = dict(zip(DirectTile._fields, name_at(w.last_narrow).split()[2:], strict=False))
    last = int(tile["vectors"]) * int(tile["lanes"]) - (-int(tile["tail"]) % int(tile["lanes"]))
    channels = (w.group_panels - 1) * w.columns + last
    channels += (w.panels // w.group_panels - 1) * w.group_columns
    *others, target = range(1, result.views)
    yield from result.rows(channels, 1, others)
    yield result.walk(target, (channels, w.target_channel), (w.rows, w.target_down), (w.line, w.target_place))


def _attention(record: Dispatch) -> Iterator[Access | None]:
    w = record.named(attention.RECORD)
    tensors, scores, limited, limit, result = _sections(record, attention.RECORD, *attention.SECTIONS)
    queries, keys, size, depth = w.queries, w.keys, w.size, w.value_size
    for v, (rows, columns) in enumerate(((queries, size), (keys, size), (keys, depth), (queries, depth))):
        yield from tensors.rows(columns, rows, [v])
    for section in (scores, limited):  # panels of queries are whole, but where there are fewer
        yield from section.rows(keys, max(queries, w.panel))
    if w.has_limit:
        yield from limit.rows(1, queries, range(limit.views - 1))
    yield from result.rows(depth, queries, [2])


def _repeat(record: Dispatch) -> Iterator[Access | None]:
    """The records of all steps, at the first time and at the last: words move on evenly between those."""
    w, at = record.named(REPEAT), REPEAT.end
    for _ in range(w.count):
        step = STEP.read(record.words[at:])
        at += STEP.end
        first = record.words[at : at + step.length]
        at += step.length
        pairs = record.rows(at, step.moves, MOVE.end)
        at += MOVE.end * step.moves
        for time in {0, w.times - 1}:
            own = list(first)
            for place, by in pairs:
                own[place // WORD] += time * by
            yield from accesses(Dispatch(own))


READERS: dict[str, Callable[[Dispatch], Iterator[Access | None]]] = {
    "column-per-lane": _column_per_lane,
    "attention": _attention,
    "bordered": _bordered,
    "check": _look,
    "macrokernel": _gemm,
    "copy": _copy,
    "direct": _direct,
    "gather": _gather,
    "placed": _placed,
    "repeat": _repeat,
    "reverse": _reverse,
    "rows": _rows,
    "scan": _scan,
    "scatter": _scatter,
    "stencil": _stencil,
    "top": _top,
    "transpose": _transpose,
    "weights": _weights,
}
"""By the first word of a kernel's name, what reads its records."""
