"""Bytes packed for products, four steps at a time, as `fourfold` multiplies them.

A packed step is four steps of the folded dimension side by side, 0 where there are no more: the step of a tile, whose
elements have 32 bits. Bytes are of the signs that the instruction wants, a byte of the other sign less or plus 128. So
with a' = a - s and za' = za - s the sum of (a - za)·(b - zb) is that of a'·b', less zb'·(Σa' - count·za') and za'·Σb':
`mend` takes that off, from what `total` has summed up. Where products of 16 bits are added up, of the left factor there
are the first and third bytes of all rows as such, then the others. For matrix registers it lies in lines, 64 bytes of
each row.
"""

from __future__ import annotations

from typing import NamedTuple

from anydml.engines.cpu.kernels.fourfold import FOUR, widened
from anydml.engines.cpu.kernels.pack import GROUP
from anydml.engines.cpu.kernels.steps import Steps


class Octets(NamedTuple):
    """The parameters of the texts."""

    lie: str
    """As a `Packing` has it."""
    flips: bool
    """Whether bytes are given the other sign."""
    panel: int
    pitch: int
    lanes: int
    is_arm: bool
    has_dots: bool
    """Whether there are dot instructions."""
    is_wide: bool = False
    """Whether bytes are packed as 16 bits: those of a left factor, where products of 16 bits are added up."""
    is_signed: bool = False
    """Whether bytes are multiplied as signed ones."""
    filled: int = FOUR
    """Of the steps of a panel there is a multiple: past the end lies 0."""
    is_lined: bool = False
    """Whether rows lie in lines, for matrix registers."""

    @property
    def group(self) -> int:
        """The bytes of a packed step."""
        return 4 * self.pitch * (2 if self.is_wide else 1)

    @property
    def name(self) -> str:
        """The end of the kernels' names."""
        return " ".join(map(str, self))


def make_octets(shape: Octets) -> str:
    """The text of the packing: `kernel(source, row.step, step, rows, count, target)`, as `pack` has it."""
    text, group = Steps(), shape.group
    if shape.is_lined:
        _pack_lines(text, shape)
        text.add("ret void")
        return text.define(_HEAD)
    if shape.filled > FOUR:
        _fill(text, shape)
    if shape.lie == "p" and shape.panel % GROUP == 0:
        with text.when(f"rows % {shape.panel} == 0"):
            _pack_panels(text, shape)
            text.add("ret void")
            text.add(f"{text.label('never')}:")
    if shape.lie == "w":
        _pack_windows(text, shape)
        text.add("ret void")
        return text.define(_HEAD)
    with text.loop("r", 0, "rows", GROUP):
        for i in range(GROUP):
            text.let(f"row{i}", f"source + min(r + {i}, rows - 1) * row_step")
        text.let("to", "target + r * 4")
        text.let("whole", f"count - count % {FOUR}")
        text.let("most", f"count - count % {FOUR * GROUP}" if shape.lie == "t" else 0)
        if shape.lie == "t":
            with text.loop("q", 0, "most", FOUR * GROUP):
                rows = [text.new(f"load <4 x i32>, ptr {text.place(f'row{i} + q')}, align 1") for i in range(GROUP)]
                for i, column in enumerate(_transpose(text, rows)):
                    _put(text, shape, _flip(text, shape, column), f"to + (q // {FOUR} + {i}) * {group}")
        with text.loop("t", "most", "whole", FOUR):
            _store(text, shape, _one_by_one(text, [f"t + {j}" for j in range(FOUR)]), "t")
        with text.when("whole < count"):
            found = _one_by_one(text, [f"min(whole + {j}, count - 1)" for j in range(FOUR)])
            flipped = _flip(text, shape, text.new(f"bitcast <16 x i8> {found} to <4 x i32>"))
            mask = _within(text, "count - whole")
            _put(text, shape, text.new(f"and <4 x i32> {flipped}, {mask}"), f"to + whole // {FOUR} * {group}")
    text.add("ret void")
    return text.define(_HEAD)


_HEAD = "void @kernel(i64 %source, i64 %row_step, i64 %step, i64 %rows, i64 %count, i64 %target)"


def _steps(shape: Octets) -> str:
    """The packed steps of a panel."""
    return f"(count + {shape.filled - 1}) // {shape.filled} * {shape.filled // FOUR}"


def _fill(text: Steps, shape: Octets) -> None:
    """Zeros in the packed steps of all panels that there are no bytes for."""
    text.let("filled", _steps(shape))
    with (
        text.loop("n_f", 0, f"(rows + {shape.panel - 1}) // {shape.panel}"),
        text.loop("z_f", f"(count + {FOUR - 1}) // {FOUR}", "filled"),
        text.loop("c_f", 0, shape.group, 8),
    ):
        text.put(f"target + (n_f * filled + z_f) * {shape.group} + c_f", 0)


def _pack_lines(text: Steps, shape: Octets) -> None:
    """Row by row, in lines of 64 bytes; past the end of the steps lies 0."""
    line, line_type, octets = shape.filled, "<16 x i32>", "<64 x i8>"
    text.let("whole", f"count - count % {line}")
    with text.loop("r", 0, "rows"):
        text.let("row", "source + r * row_step")
        text.let("to", f"target + r * {line}")
        text.let("last", f"to + whole * {shape.pitch}")
        if shape.lie == "t":
            with text.loop("q", 0, "whole", line):
                found = text.new(f"load {line_type}, ptr {text.place('row + q')}, align 1")
                found = _flip(text, shape, found, line_type)
                text.add(f"store {line_type} {found}, ptr {text.place(f'to + q * {shape.pitch}')}, align 4")
        else:
            with text.loop("s", 0, "whole"):
                _put_byte(text, shape, "row + s * step", f"to + (s // {line}) * {line * shape.pitch} + s % {line}")
        with text.when("whole < count"):
            text.add(f"store {octets} zeroinitializer, ptr {text.place('last')}, align 4")
            with text.loop("z", "whole", "count"):
                _put_byte(text, shape, "row + z * step", "last + (z - whole)")


def _put_byte(text: Steps, shape: Octets, source: str, target: str) -> None:
    one = text.new(f"load i8, ptr {text.place(source)}")
    one = text.new(f"xor i8 {one}, -128") if shape.flips else one
    text.add(f"store i8 {one}, ptr {text.place(target)}")


def _pack_windows(text: Steps, shape: Octets) -> None:
    """Eight rows at once where they lie side by side or every other one does, otherwise four; they may lie anywhere.

    7 x 7 by 2 of 224 x 224 pixels of 3 bytes, by 64 filters, take 2.55 ms so, and 2.94 where each byte is read for
    itself (one thread of an Arm Neoverse-N1).
    """

    def beside(first: int, count: int, step: int = 1, name: str = "far") -> str:
        found = (f"{name}{i} == {name}{first} + {(i - first) * step}" for i in range(first + 1, first + count))
        return " and ".join(found)

    if 2 * GROUP < shape.panel <= 4 * GROUP and shape.panel % GROUP == 0:
        for i in range(shape.panel):
            text.read(f"off{i}", f"row_step + min({i}, rows - 1) * 8")
        with text.when(f"rows == {shape.panel} and {beside(0, shape.panel, name='off')}"):
            _pack_rows(text, shape, "source + off0", range(shape.panel), "w", to="target")
            text.add("ret void")
            text.add(f"{text.label('never')}:")
    with text.loop("r", 0, "rows", 2 * GROUP):
        for i in range(2 * GROUP):
            text.read(f"far{i}", f"row_step + min(r + {i}, rows - 1) * 8")
        text.let("eight", f"1 if {beside(0, 2 * GROUP)} else 2 if {beside(0, 2 * GROUP, 2)} else 0")
        for step in (1, 2):
            with text.when(f"eight == {step}"):
                _pack_rows(text, shape, "source + far0", range(2 * GROUP), f"e{step}", step)
        for first in (0, GROUP):
            text.let(f"four{first}", f"1 if {beside(first, GROUP)} else 0")
            with text.when(f"eight == 0 and four{first} != 0 and r + {first} < rows"):
                _pack_rows(text, shape, f"source + far{first}", range(first, first + GROUP), f"f{first}")
            with text.when(f"eight == 0 and four{first} == 0 and r + {first} < rows"):
                _pack_rows(text, shape, "source", range(first, first + GROUP), f"o{first}", 0)


def _pack_rows(
    text: Steps, shape: Octets, line: str, rows: range, name: str, step: int = 1, to: str = "target + r * 4"
) -> None:
    """All steps of some rows, so many bytes from each other, or 0 where a table has their distances."""
    text.let(f"whole_{name}", f"count - count % {FOUR}")

    def write(k: str, mask: str | None) -> None:
        for j in range(FOUR):
            text.read(f"far_{k}{j}", f"step + ({k} + {j if mask is None else f'min({j}, count - 1 - {k})'}) * 8")
            text.let(f"line_{k}{j}", f"{line} + far_{k}{j}")
        lines = [f"line_{k}{j}" for j in range(FOUR)]
        made = [] if step else [_apart(text, lines, rows)]
        for first in range(0, len(rows) if step else 0, 2 * GROUP):
            places = [f"{one} + {first * step}" for one in lines]
            made += _side_by_side(text, places, min(2 * GROUP, len(rows) - first), step)
        for i, value in enumerate(made):
            found = _flip(text, shape, value)
            found = found if mask is None else text.new(f"and <4 x i32> {found}, {mask}")
            _put(text, shape, found, f"{to} + {4 * (rows[0] + GROUP * i)} + {k} * {shape.group // FOUR}")

    with text.loop(f"k_{name}", 0, f"whole_{name}", FOUR):
        write(f"k_{name}", None)
    with text.when(f"whole_{name} < count"):
        text.let(f"last_{name}", f"whole_{name}")
        write(f"last_{name}", _within(text, f"count - whole_{name}"))


def _within(text: Steps, count: str) -> str:
    """A mask of the bytes of so many steps of four: whatever lies past the end is 0."""
    bits = text.value(f"(1 << (({count}) * 8)) - 1")
    return text.spread(text.new(f"trunc i64 {bits} to i32"), "i32", GROUP)


def _side_by_side(text: Steps, lines: list[str], count: int, step: int = 1) -> list[str]:
    """Four steps of four or eight rows that lie side by side, or two bytes from each other, by vectors of four rows."""
    if count == GROUP and step == 1:  # in the low half of a vector of eight, or LLVM widens bytes first
        low = [text.new(f"load i32, ptr {text.place(line)}, align 1") for line in lines]
        wide = [text.new(f"insertelement <2 x i32> poison, i32 {one}, i32 0") for one in low]
        a, b, c, d = (text.new(f"bitcast <2 x i32> {one} to <8 x i8>") for one in wide)
        halves = [_zip(text, "<8 x i8>", *two, range(GROUP)) for two in ((a, b), (c, d))]
        x, y = (text.new(f"bitcast <8 x i8> {one} to <4 x i16>") for one in halves)
        return [text.new(f"bitcast <8 x i16> {_zip(text, '<4 x i16>', x, y, range(GROUP))} to <4 x i32>")]
    kind = f"<{count} x i8>"
    steps = [text.new(f"load {kind}, ptr {text.place(line)}, align 1") for line in lines]
    if step == 2:  # nothing is read past the last of them
        ends = [text.new(f"load {kind}, ptr {text.place(f'{line} + {count - 1}')}, align 1") for line in lines]
        mask = ", ".join(f"i32 {2 * k if 2 * k < count else 2 * k + 1}" for k in range(count))
        both = zip(steps, ends, strict=True)
        steps = [text.new(f"shufflevector {kind} {a}, {kind} {b}, <{count} x i32> <{mask}>") for a, b in both]
    pairs = []
    for a, b in (steps[:2], steps[2:]):
        found = _zip(text, kind, a, b, range(count))
        pairs.append(text.new(f"bitcast <{2 * count} x i8> {found} to <{count} x i16>"))
    made = []
    for first in range(0, count, GROUP):
        found = _zip(text, f"<{count} x i16>", pairs[0], pairs[1], range(first, first + GROUP))
        made.append(text.new(f"bitcast <{2 * GROUP} x i16> {found} to <{GROUP} x i32>"))
    return made


def _zip(text: Steps, kind: str, a: str, b: str, lanes: range) -> str:
    """Lanes of two vectors in turns."""
    count = int(kind[1:].split()[0])
    mask = ", ".join(f"i32 {k}, i32 {k + count}" for k in lanes)
    return text.new(f"shufflevector {kind} {a}, {kind} {b}, <{2 * len(lanes)} x i32> <{mask}>")


def _apart(text: Steps, lines: list[str], rows: range) -> str:
    """Four steps of four rows, each where its distance says."""
    value = "poison"
    for i, row in enumerate(rows):
        for j, line in enumerate(lines):
            one = text.new(f"load i8, ptr {text.place(f'{line} + far{row}')}")
            value = text.new(f"insertelement <16 x i8> {value}, i8 {one}, i32 {FOUR * i + j}")
    return text.new(f"bitcast <16 x i8> {value} to <4 x i32>")


def _pack_panels(text: Steps, shape: Octets) -> None:
    """Whole panels of rows that lie side by side, one after the other: lines of the cache are read once."""
    text.let("panel", f"{_steps(shape)} * {shape.group}")
    text.let("deep", f"count - count % {FOUR}")

    def write(k: str, mask: str | None) -> None:
        for j in range(FOUR):
            text.let(f"{k}_from{j}", f"source + min({k} + {j}, count - 1) * step")
        text.let(f"{k}_to", f"target + {k} * {shape.group // FOUR}")
        with text.loop(f"{k}_p", 0, f"rows // {shape.panel}"):
            for g in range(0, shape.panel, 2 * GROUP):
                lines = [f"{k}_from{j} + {k}_p * {shape.panel} + {g}" for j in range(FOUR)]
                for i, value in enumerate(_side_by_side(text, lines, min(2 * GROUP, shape.panel - g))):
                    found = _flip(text, shape, value)
                    found = found if mask is None else text.new(f"and <4 x i32> {found}, {mask}")
                    _put(text, shape, found, f"{k}_to + {k}_p * panel + {4 * (g + GROUP * i)}")

    with text.loop("k", 0, "deep", FOUR):
        write("k", None)
    with text.when("deep < count"):
        text.let("z", "deep")
        write("z", _within(text, "count - deep"))


def _flip(text: Steps, shape: Octets, value: str, kind: str = "<4 x i32>") -> str:
    return text.new(f"xor {kind} {value}, splat (i32 {-0x7F7F7F80})") if shape.flips else value


def _store(text: Steps, shape: Octets, octets: str, step: str) -> None:
    value = _flip(text, shape, text.new(f"bitcast <16 x i8> {octets} to <4 x i32>"))
    _put(text, shape, value, f"to + {step} // {FOUR} * {shape.group}")


def _put(text: Steps, shape: Octets, value: str, line: str) -> None:
    """Four bytes of each of four rows, as they are packed."""
    parts = widened(text, GROUP, value, is_signed=shape.is_signed) if shape.is_wide else (value,)
    for i, part in enumerate(parts):
        text.add(f"store <4 x i32> {part}, ptr {text.place(f'{line} + {4 * shape.pitch * i}')}, align 4")


def _one_by_one(text: Steps, steps: list[str]) -> str:
    """Four rows of four steps, a byte at a time."""
    value = "poison"
    for i in range(GROUP):
        for j, step in enumerate(steps):
            one = text.new(f"load i8, ptr {text.place(f'row{i} + ({step}) * step')}")
            value = text.new(f"insertelement <16 x i8> {value}, i8 {one}, i32 {FOUR * i + j}")
    return value


def _transpose(text: Steps, rows: list[str]) -> list[str]:
    def pick(a: str, b: str, *lanes: int) -> str:
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        return text.new(f"shufflevector <4 x i32> {a}, <4 x i32> {b}, <4 x i32> <{mask}>")

    a, b, c, d = rows
    pairs = [pick(x, y, *lanes) for x, y in ((a, b), (c, d)) for lanes in ((0, 4, 2, 6), (1, 5, 3, 7))]
    return [pick(pairs[i], pairs[i + 2], *lanes) for lanes in ((0, 1, 4, 5), (2, 3, 6, 7)) for i in (0, 1)]
